//! Number words of English, German, French and Turkish, and Roman numerals.

use crate::language::Identifier;

/// What a side has instead of digits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hints {
    /// Numbers written in words, of ten and more; words in a row are one number.
    pub(super) n_words: usize,
    /// Values of Roman numerals, in digits.
    pub(super) roman: Vec<String>,
    /// Names of the months with two digits.
    pub(super) n_months: usize,
    /// True if a word is a power of ten: `million`, `Tsd`.
    pub(super) has_scale: bool,
    /// True if a word belongs to the time of day: `o'clock`, `Uhr`.
    pub(super) has_clock: bool,
}

/// Beginnings of number words, in lower case: English, German, French, Turkish.
const STEMS: &str = "eleven twelve twelfth thirteen fourteen fifteen sixteen seventeen eighteen nineteen twent thirt \
    forty fortie fift sixt sevent eighty eightie ninet hundred thousand dozen noon midnight quarter decade \
    zehn elft zwölf dutzend mittag mitternacht viertel halb jahrzehnt \
    dix onz douz treiz quatorz quinz seiz vingt trent quarant cinquant soixant septant octant nonant midi minuit demi \
    quart décenni \
    yirmi otuz kırk altmış yetmiş seksen doksan yüz düzine buçuk öğle çeyrek";
/// Parts of German compounds.
const PARTS: &str = "zehn zwölf zwanzig dreißig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend viertel";
/// Whole number words.
const WHOLE: &str = "ten tenth elf cent cents elli ellinci half score mille";
/// Number words of Turkish that other languages have with another meaning.
const TURKISH: &str = "on ona onda ondan onu onuncu bin binlerce";
/// Beginnings of the months with two digits.
const MONTHS: &str = "oct okt nov dec dez déc ekim kasım aralık";
/// Words of the time of day.
const CLOCK: &str = "clock pm uhr heure heures h saat saati saatte";
/// Beginnings of powers of ten.
const SCALES: &str =
    "million billion trillion thousand hundred tausend hundert milliard mille milyon milyar crore lakh";
/// Powers of ten in short.
const SHORT_SCALES: &str = "mio mrd tsd bn mn cent cents";
/// Powers of ten of Turkish that other languages have with another meaning.
const TURKISH_SCALES: &str = "bin yüz";

/// The number words of `text`.
pub(super) fn hints(text: &str) -> Hints {
    let is_turkish = Identifier::four().probabilities(text).is_some_and(|probabilities| {
        let known = Identifier::four().codes().zip(probabilities);
        known.into_iter().any(|(code, probability)| code == "tr" && probability > 0.5)
    });
    let mut found = Hints::default();
    let mut follows = false;
    for word in text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
        found.roman.extend(roman(word).map(|value| value.to_string()));
        let word = word.to_lowercase();
        let is_number = is_number_word(&word) || (is_turkish && has(TURKISH, &word));
        found.n_words += usize::from(is_number && !follows);
        // `vingt et un`, `one hundred and twelve` are one number.
        follows = is_number || (follows && matches!(word.as_str(), "et" | "and" | "und"));
        found.n_months += usize::from(has_stem(MONTHS, &word));
        found.has_clock |= has(CLOCK, &word);
        found.has_scale |=
            has_stem(SCALES, &word) || has(SHORT_SCALES, &word) || (is_turkish && has(TURKISH_SCALES, &word));
    }
    found
}

fn is_number_word(word: &str) -> bool {
    let has_part = || PARTS.split_ascii_whitespace().any(|part| word.contains(part));
    // A century is no number.
    !word.starts_with("jahrhundert") && (has(WHOLE, word) || has_stem(STEMS, word) || has_part())
}

/// True if `word` is in a list of words.
fn has(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|other| other == word)
}

/// True if `word` begins with one of a list.
fn has_stem(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|stem| word.starts_with(stem))
}

/// The value of a Roman numeral of two and more letters, which may have an ending (`XIXe`, `XIXème`).
fn roman(word: &str) -> Option<u32> {
    let length = word.bytes().take_while(|byte| b"IVXLCDM".contains(byte)).count();
    if length < 2 || !matches!(&word[length..], "" | "e" | "è" | "ème" | "th" | "er") {
        return None;
    }
    let mut value = 0_u32;
    let mut before = 0;
    for letter in word[..length].bytes().rev() {
        let own = match letter {
            b'I' => 1,
            b'V' => 5,
            b'X' => 10,
            b'L' => 50,
            b'C' => 100,
            b'D' => 500,
            _ => 1000,
        };
        value = if own < before { value.saturating_sub(own) } else { value + own };
        before = before.max(own);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_words_are_counted() {
        for (text, n_words) in [
            ("She is twenty-five.", 1),
            ("one hundred and twelve", 1),
            ("ten of the dozen men", 2),
            ("einundzwanzig", 1),
            ("vingt et un", 1),
            ("quatre-vingt-dix-neuf", 1),
            ("yirmi beş kişi", 1),
            ("On kişi geldi, altı kız.", 1),
            ("He sits on it; ich bin hier.", 0),
            ("often, weight, tender", 0),
        ] {
            assert_eq!(hints(text).n_words, n_words, "{text}");
        }
    }

    #[test]
    fn roman_numerals_have_values() {
        assert_eq!(hints("au XIXe siècle, Louis XIV et MCMXC").roman, ["19", "14", "1990"]);
        assert!(hints("I saw Vera, MIXER").roman.is_empty());
        assert!(hints("5 Millionen").has_scale && !hints("5 Katzen").has_scale);
    }
}
