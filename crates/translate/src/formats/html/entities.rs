//! Character references: decodes `&uuml;`, `&#252;` and `&#xfc;`, encodes `&`, `<`, `>` and U+00A0.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// The names of U+00A0 to U+00FF, which browsers also read without a semicolon.
const LATIN: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 \
    sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml \
    Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml \
    times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil \
    egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash \
    ugrave uacute ucirc uuml yacute thorn yuml";
/// Other names that are read without a semicolon.
const OLD: &str = "amp & lt < gt > quot \" AMP & LT < GT > QUOT \" COPY © REG ®";
/// Names that need one.
const OTHERS: &str = "apos ' OElig Œ oelig œ Scaron Š scaron š Yuml Ÿ fnof ƒ circ ˆ tilde ˜ Alpha Α Beta Β Gamma Γ \
    Delta Δ Epsilon Ε Zeta Ζ Eta Η Theta Θ Iota Ι Kappa Κ Lambda Λ Mu Μ Nu Ν Xi Ξ Omicron Ο Pi Π Rho Ρ Sigma Σ Tau Τ \
    Upsilon Υ Phi Φ Chi Χ Psi Ψ Omega Ω alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ \
    lambda λ mu μ nu ν xi ξ omicron ο pi π rho ρ sigmaf ς sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω ndash – \
    mdash — lsquo ‘ rsquo ’ sbquo ‚ ldquo “ rdquo ” bdquo „ dagger † Dagger ‡ bull • hellip … permil ‰ prime ′ Prime ″ \
    lsaquo ‹ rsaquo › oline ‾ frasl ⁄ euro € image ℑ weierp ℘ real ℜ trade ™ alefsym ℵ larr ← uarr ↑ rarr → darr ↓ \
    harr ↔ crarr ↵ lArr ⇐ uArr ⇑ rArr ⇒ dArr ⇓ hArr ⇔ forall ∀ part ∂ exist ∃ empty ∅ nabla ∇ isin ∈ notin ∉ ni ∋ \
    prod ∏ sum ∑ minus − lowast ∗ radic √ prop ∝ infin ∞ ang ∠ and ∧ or ∨ cap ∩ cup ∪ int ∫ there4 ∴ sim ∼ cong ≅ \
    asymp ≈ ne ≠ equiv ≡ le ≤ ge ≥ sub ⊂ sup ⊃ nsub ⊄ sube ⊆ supe ⊇ oplus ⊕ otimes ⊗ perp ⊥ sdot ⋅ lceil ⌈ rceil ⌉ \
    lfloor ⌊ rfloor ⌋ loz ◊ spades ♠ clubs ♣ hearts ♥ diams ♦ Abreve Ă abreve ă Gbreve Ğ gbreve ğ Idot İ imath ı \
    inodot ı Scedil Ş scedil ş Ccaron Č ccaron č Zcaron Ž zcaron ž lstrok ł Lstrok Ł check ✓ star ☆ starf ★ num # \
    percnt % lpar ( rpar ) lsqb [ rsqb ] lcub { rcub } comma , period . colon : semi ; excl ! quest ? commat @ \
    dollar $ plus + equals = ast * sol / bsol \\ lowbar _ verbar | Hat ^ grave `";
/// Names of invisible characters.
const INVISIBLE: [(&str, char); 9] = [
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("thinsp", '\u{2009}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
    ("lrm", '\u{200e}'),
    ("rlm", '\u{200f}'),
    ("Tab", '\t'),
    ("NewLine", '\n'),
];
/// Characters of the numbers 128 to 159, which browsers read as Windows-1252.
const WINDOWS: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";
/// Characters of the longest name.
const MAX_NAME: usize = 32;

#[derive(Clone, Copy)]
struct Named {
    letter: char,
    /// True if it is read without a semicolon too.
    is_old: bool,
}

static NAMES: LazyLock<HashMap<&str, Named>> = LazyLock::new(|| {
    let latin = LATIN.split_ascii_whitespace().zip('\u{a0}'..='\u{ff}');
    let old = latin.chain(pairs(OLD)).map(|(name, letter)| (name, Named { letter, is_old: true }));
    let others = pairs(OTHERS).chain(INVISIBLE).map(|(name, letter)| (name, Named { letter, is_old: false }));
    old.chain(others).collect()
});

fn pairs(list: &'static str) -> impl Iterator<Item = (&'static str, char)> {
    let words: Vec<&str> = list.split_ascii_whitespace().collect();
    let pairs: Vec<_> =
        words.chunks(2).filter_map(|pair| Some((pair[0], pair.get(1)?.chars().next()?))).collect();
    pairs.into_iter()
}

/// Decodes the references of a text. Unknown ones stay, and are added to `unknown`.
pub(super) fn decode(text: &str, unknown: &mut BTreeSet<String>) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if let Some((letter, length)) = reference(rest) {
            decoded.push(letter);
            length
        } else {
            let whole = whole_reference(rest);
            unknown.extend(whole.map(str::to_owned));
            let verbatim = whole.unwrap_or("&");
            decoded.push_str(verbatim);
            verbatim.len()
        };
        rest = &rest[length..];
    }
    decoded.push_str(rest);
    decoded
}

/// Encodes a text for a page; the references in `unknown` stay.
pub(super) fn encode(text: &str, unknown: &BTreeSet<String>, page: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '\u{a0}']) {
        page.push_str(&rest[..at]);
        rest = &rest[at..];
        let verbatim = whole_reference(rest).filter(|whole| unknown.contains(*whole));
        let (written, length) = match (verbatim, rest.as_bytes()[0]) {
            (Some(whole), _) => (whole, whole.len()),
            (None, b'&') => ("&amp;", 1),
            (None, b'<') => ("&lt;", 1),
            (None, b'>') => ("&gt;", 1),
            (None, _) => ("&nbsp;", '\u{a0}'.len_utf8()),
        };
        page.push_str(written);
        rest = &rest[length..];
    }
    page.push_str(rest);
}

/// The beginning of a text if it has the form of a reference with its semicolon.
fn whole_reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix('&')?;
    let name = name.strip_prefix('#').unwrap_or(name);
    let length = run(name, u8::is_ascii_alphanumeric);
    let end = text.len() - name.len() + length;
    (length > 0 && text.as_bytes().get(end) == Some(&b';')).then(|| &text[..=end])
}

/// The character of a reference, and the length of the reference in bytes.
fn reference(text: &str) -> Option<(char, usize)> {
    let name = &text[1..];
    if let Some(number) = name.strip_prefix('#') {
        let (digits, radix) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16),
            None => (number, 10),
        };
        let length =
            digits.bytes().take(MAX_NAME).take_while(|byte| char::from(*byte).is_digit(radix)).count();
        let letter = letter(u32::from_str_radix(&digits[..length], radix).ok()?)?;
        let end = text.len() - digits.len() + length;
        return Some((letter, end + usize::from(text.as_bytes().get(end) == Some(&b';'))));
    }
    let length = run(name, u8::is_ascii_alphanumeric);
    if name.as_bytes().get(length) == Some(&b';')
        && let Some(named) = NAMES.get(&name[..length])
    {
        return Some((named.letter, 1 + length + 1));
    }
    let old = |length: usize| NAMES.get(&name[..length]).filter(|named| named.is_old);
    (2..=length.min(6)).rev().find_map(|length| Some((old(length)?.letter, 1 + length)))
}

/// The number of bytes at the beginning that are of this kind, up to the longest name.
fn run(text: &str, is_kind: impl Fn(&u8) -> bool) -> usize {
    text.bytes().take(MAX_NAME).take_while(is_kind).count()
}

fn letter(number: u32) -> Option<char> {
    match number {
        0 => None,
        0x80..=0x9f => WINDOWS.chars().nth((number - 0x80) as usize),
        _ => char::from_u32(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> String {
        decode(text, &mut BTreeSet::new())
    }

    #[test]
    fn references_become_letters() {
        assert_eq!(decoded("&uuml;&Uuml;&szlig;&eacute;&ccedil;&nbsp;&yuml;"), "üÜßéç\u{a0}ÿ");
        assert_eq!(decoded("&lt;b&gt; &amp;amp; &quot;&apos;&hellip;&mdash;&rsquo;"), "<b> &amp; \"'…—’");
        assert_eq!(decoded("&#252;&#xFC;&#XfC;&#150;&#x1F600;"), "üüü–😀");
        // As browsers read them.
        assert_eq!(decoded("AT&T &copy2024 &amp &#65 x&y"), "AT&T ©2024 & A x&y");
        assert_eq!(LATIN.split_ascii_whitespace().count(), 96);
        assert_eq!(WINDOWS.chars().count(), 32);
    }

    #[test]
    fn unknown_references_come_back() {
        for page in ["&foo; &#0; &#xD800; &#99999999999999999999; x", "&amp;foo; a &amp; b &lt;i&gt; &nbsp;"]
        {
            let mut unknown = BTreeSet::new();
            let text = decode(page, &mut unknown);
            let mut back = String::new();
            encode(&text, &unknown, &mut back);
            assert_eq!(back, page);
        }
    }
}
