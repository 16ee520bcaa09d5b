//! Mojibake: UTF-8 that was read as Latin-1 or Windows-1252, once or several times (`CafÃ©`, `donâ€™t`, `ÃƒÂ©`).
//!
//! A byte of UTF-8 is one letter then: `é` (C3 A9) is `Ã©`. Text of four languages has no such sequences, except where
//! a capital stands before a quotation mark or a no-break space (`LIBERTÉ »`); so only leads count whose letters are
//! rare, and only with bytes that are no punctuation.

use crate::entities::WINDOWS;

/// Rounds of repair; each undoes one wrong reading.
const MAX_ROUNDS: usize = 3;

/// The first mojibake of `text` and its byte index. U+FFFD, the mark of a lost letter, counts too.
pub(super) fn find(text: &str) -> Option<(usize, &str)> {
    if text.is_ascii() {
        return None;
    }
    text.char_indices().filter(|(_, c)| !c.is_ascii()).find_map(|(at, c)| {
        let rest = &text[at..];
        let length = if c == char::REPLACEMENT_CHARACTER { c.len_utf8() } else { sequence(rest)? };
        Some((at, &rest[..length]))
    })
}

/// `text` as it was before it was read wrongly; `None` if that is not certain.
pub(super) fn repair(text: &str) -> Option<String> {
    let mut repaired = text.to_owned();
    for _ in 0..MAX_ROUNDS {
        let bytes: Vec<u8> = repaired.chars().map(byte).collect::<Option<_>>()?;
        let fewer = String::from_utf8(bytes).ok()?;
        if count(&fewer) >= count(&repaired) {
            return None;
        }
        repaired = fewer;
        if find(&repaired).is_none() {
            return Some(repaired);
        }
    }
    None
}

/// Number of sequences of mojibake.
fn count(text: &str) -> usize {
    text.char_indices().filter(|&(at, c)| !c.is_ascii() && sequence(&text[at..]).is_some()).count()
}

/// The length in bytes of the sequence at the beginning of `text`.
fn sequence(text: &str) -> Option<usize> {
    let mut letters = text.char_indices();
    let lead = byte(letters.next()?.1)?;
    let n_more = match lead {
        0xc2..=0xc5 | 0xce..=0xd1 => 1,
        0xe2 | 0xe3 | 0xef => 2,
        0xf0 => 3,
        _ => return None,
    };
    let mut more = [0; 3];
    for slot in &mut more[..n_more] {
        *slot = byte(letters.next()?.1).filter(|byte| (0x80..=0xbf).contains(byte))?;
    }
    let end = letters.next().map_or(text.len(), |(at, _)| at);
    let [second, third, _] = more;
    let is_typical = match lead {
        // ¢ £ ° « » with their lead, and a no-break space.
        0xc2 => second >= 0xa0,
        0xc3 => true,
        // ē and ĕ, ŕ and the like would be Ä or Å before a quotation mark.
        0xc4 => !is_punctuation(second),
        0xc5 => !is_punctuation(second) || matches!(second, 0x92 | 0x93),
        // Greek and Cyrillic: a capital of French may stand before a mark, so two letters in a row count.
        0xce..=0xd1 => is_pair_of_leads(&text[end..]),
        0xe2 => matches!(second, 0x80..=0x9f),
        0xe3 => matches!(second, 0x80..=0x83),
        0xef => matches!((second, third), (0xbb, 0xbf) | (0xbf, 0xbd)),
        _ => second == 0x9f,
    };
    is_typical.then_some(end)
}

/// True if another letter of Greek or Cyrillic follows.
fn is_pair_of_leads(text: &str) -> bool {
    let mut bytes = text.chars().map_while(byte);
    matches!(bytes.next(), Some(0xce..=0xd1)) && matches!(bytes.next(), Some(0x80..=0xbf))
}

/// True for the bytes of quotation marks, dashes, dots and the no-break space.
fn is_punctuation(byte: u8) -> bool {
    matches!(byte, 0x82 | 0x84 | 0x85 | 0x8b | 0x91..=0x97 | 0x9b | 0xa0 | 0xab | 0xb4 | 0xb7 | 0xbb)
}

/// The byte of a letter in Windows-1252; U+0080 to U+009F are their own bytes, as in Latin-1.
fn byte(c: char) -> Option<u8> {
    if let Ok(byte) = u8::try_from(u32::from(c)) {
        return Some(byte);
    }
    WINDOWS.chars().position(|other| other == c).and_then(|at| u8::try_from(0x80 + at).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mojibake_is_found_and_repaired() {
        for (wrong, right) in [
            ("CafÃ©", "Café"),
            ("donâ€™t", "don’t"),
            ("fÃ¼r", "für"),
            ("KapÄ±yÄ± aÃ§", "Kapıyı aç"),
            ("TeÅŸekkÃ¼rler", "Teşekkürler"),
            ("Ä°stanbul", "İstanbul"),
            ("cÅ“ur", "cœur"),
            ("20 Â°C", "20 °C"),
            ("ÃƒÂ©tÃƒÂ©", "été"),
            ("letâ€\u{9d}", "let”"),
            ("Ð¿Ñ€Ð¸", "при"),
            ("ðŸ˜€", "😀"),
        ] {
            assert!(find(wrong).is_some(), "{wrong}");
            assert_eq!(repair(wrong).as_deref(), Some(right), "{wrong}");
        }
        assert_eq!(find("a \u{fffd} b"), Some((2, "\u{fffd}")));
        assert_eq!(repair("a \u{fffd} b"), None);
        // A letter that is right already makes the reading uncertain.
        assert_eq!(repair("CafÃ© für ş"), None);
    }

    #[test]
    fn text_passes() {
        for right in [
            "« LIBERTÉ\u{a0}»",
            "à la carte… « café\u{a0}» «\u{a0}Été\u{a0}»",
            "Das „Ä“ und das „Ü“, „Ö“.",
            "Âge, KÂĞIT, hâlâ, Île, Ïambe",
            "Müller’s “Straße” – 20 °C — 5 €",
            "Ångström Å",
            "¿Qué? ¡Mañana! São Paulo, NÃO",
            "ÀÂÇÉÈÊËÎÏÔÙÛÜŸŒÆ àâçéèêëîïôùûüÿœæ",
            "ÇĞIİÖŞÜ çğıiöşü",
        ] {
            assert_eq!(find(right), None, "{right}");
        }
    }
}
