#!/usr/bin/env bash
# Makes DejaVuSans-subset.ttf from DejaVu Sans 2.37 (Debian package fonts-dejavu-core) with pyftsubset of fonttools:
# Latin, IPA, Greek, Cyrillic, punctuation, super- and subscripts, currencies, arrows, mathematics and some shapes.
#   ./make_font.sh [DejaVuSans.ttf]
set -eu
cd "$(dirname "$0")"
font=${1:-/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf}
ranges=(
    U+0020-007E U+00A0-024F        # Latin, with Turkish, German, French and the rest of Europe
    U+0250-02AF U+02B0-02DE        # IPA and its modifier letters
    U+0300-0315 U+031B U+0323-0331 # combining accents
    U+0384-03CE U+03D1 U+03D5 U+03F5 # Greek, and its forms in formulas
    U+0401 U+0410-044F U+0451      # Russian
    U+1E9E U+2010-2027 U+202F-203A # punctuation
    U+2070-209C U+20A9-20BA        # super- and subscripts, currencies
    U+2102 U+2115 U+211D U+2122    # ℂ ℕ ℝ ™
    U+2190-2199 U+21A6 U+21D0-21D4 # arrows
    U+2200-220F U+2211-221E U+2227-222B U+2245-2248 U+2260-2265 U+2282-2287 U+2295-2299 U+22A4-22A5 U+22C5 # mathematics
    U+23CE U+2423 U+2581 U+25A0-25A1 U+25B2-25BD U+25CB-25CF U+2605 U+2713 U+2717 U+FFFD # marks
)
# Accents find their letters, but no kerning and no ligatures: the width of a text is the sum of its characters.
pyftsubset "$font" --unicodes="$(IFS=,; echo "${ranges[*]}")" --layout-features=mark,mkmk --no-hinting --notdef-outline \
    --drop-tables+=FFTM --name-IDs='0,1,2,3,4,5,6,13,14' --output-file=DejaVuSans-subset.ttf
