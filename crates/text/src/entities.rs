//! Character references of HTML: `&uuml;`, `&#252;` and `&#xfc;`.

use std::collections::HashMap;
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
/// Characters of the bytes 0x80 to 0x9f in Windows-1252; the five bytes without one stand for themselves.
pub(crate) const WINDOWS: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";
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

/// The character of the reference at the beginning of `text`, and the length of the reference in bytes. As in browsers,
/// old names (`&amp`, `&copy`) need no semicolon; `None` if there is no known reference.
///
/// ```
/// use polyhead_text::entities::reference;
/// assert_eq!(reference("&uuml;ber"), Some(('ü', 6)));
/// assert_eq!(reference("&#252;ber"), Some(('ü', 6)));
/// assert_eq!(reference("&foo;"), None);
/// ```
pub fn reference(text: &str) -> Option<(char, usize)> {
    let name = text.strip_prefix('&')?;
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

    #[test]
    fn tables_are_complete() {
        assert_eq!(LATIN.split_ascii_whitespace().count(), 96);
        assert_eq!(WINDOWS.chars().count(), 32);
        assert_eq!(reference("&yuml;"), Some(('ÿ', 6)));
        assert_eq!(reference("&#150;"), Some(('–', 6)));
        assert_eq!(reference("no reference"), None);
    }
}
