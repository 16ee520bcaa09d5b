//! Codes and English names of languages (ISO 639-1 and 639-3), for the 89 languages that OPUS-MT models mostly have.
//!
//! A table of our own: a crate with all 7,900 codes would add macrolanguages to be mapped here all the same (`cmn` is `zh`).

/// Names of languages in the language itself.
const OWN_NAMES: &[(&str, &str)] = &[
    ("deutsch", "de"),
    ("español", "es"),
    ("français", "fr"),
    ("francais", "fr"),
    ("italiano", "it"),
    ("português", "pt"),
    ("türkçe", "tr"),
    ("turkce", "tr"),
    ("русский", "ru"),
];

/// Two-letter code, three-letter code and name; of several three-letter codes the usual one first.
const CODES: &[(&str, &str, &str)] = &[
    ("af", "afr", "Afrikaans"),
    ("am", "amh", "Amharic"),
    ("ar", "ara", "Arabic"),
    ("az", "aze", "Azerbaijani"),
    ("be", "bel", "Belarusian"),
    ("bg", "bul", "Bulgarian"),
    ("bn", "ben", "Bengali"),
    ("bs", "bos", "Bosnian"),
    ("ca", "cat", "Catalan"),
    ("cs", "ces", "Czech"),
    ("cy", "cym", "Welsh"),
    ("da", "dan", "Danish"),
    ("de", "deu", "German"),
    ("el", "ell", "Greek"),
    ("en", "eng", "English"),
    ("eo", "epo", "Esperanto"),
    ("es", "spa", "Spanish"),
    ("et", "est", "Estonian"),
    ("eu", "eus", "Basque"),
    ("fa", "fas", "Persian"),
    ("fi", "fin", "Finnish"),
    ("fr", "fra", "French"),
    ("ga", "gle", "Irish"),
    ("gl", "glg", "Galician"),
    ("gu", "guj", "Gujarati"),
    ("ha", "hau", "Hausa"),
    ("he", "heb", "Hebrew"),
    ("hi", "hin", "Hindi"),
    ("hr", "hrv", "Croatian"),
    ("hu", "hun", "Hungarian"),
    ("hy", "hye", "Armenian"),
    ("id", "ind", "Indonesian"),
    ("ig", "ibo", "Igbo"),
    ("is", "isl", "Icelandic"),
    ("it", "ita", "Italian"),
    ("ja", "jpn", "Japanese"),
    ("ka", "kat", "Georgian"),
    ("kk", "kaz", "Kazakh"),
    ("km", "khm", "Khmer"),
    ("ko", "kor", "Korean"),
    ("ku", "kur", "Kurdish"),
    ("ky", "kir", "Kyrgyz"),
    ("la", "lat", "Latin"),
    ("lb", "ltz", "Luxembourgish"),
    ("lo", "lao", "Lao"),
    ("lt", "lit", "Lithuanian"),
    ("lv", "lav", "Latvian"),
    ("mk", "mkd", "Macedonian"),
    ("ml", "mal", "Malayalam"),
    ("mn", "mon", "Mongolian"),
    ("mr", "mar", "Marathi"),
    ("ms", "msa", "Malay"),
    ("mt", "mlt", "Maltese"),
    ("my", "mya", "Burmese"),
    ("ne", "nep", "Nepali"),
    ("nl", "nld", "Dutch"),
    ("no", "nor", "Norwegian"),
    ("pa", "pan", "Punjabi"),
    ("pl", "pol", "Polish"),
    ("ps", "pus", "Pashto"),
    ("pt", "por", "Portuguese"),
    ("ro", "ron", "Romanian"),
    ("ru", "rus", "Russian"),
    ("si", "sin", "Sinhala"),
    ("sk", "slk", "Slovak"),
    ("sl", "slv", "Slovenian"),
    ("so", "som", "Somali"),
    ("sq", "sqi", "Albanian"),
    ("sr", "srp", "Serbian"),
    ("sv", "swe", "Swedish"),
    ("sw", "swa", "Swahili"),
    ("ta", "tam", "Tamil"),
    ("te", "tel", "Telugu"),
    ("tg", "tgk", "Tajik"),
    ("th", "tha", "Thai"),
    ("tk", "tuk", "Turkmen"),
    ("tl", "tgl", "Tagalog"),
    ("tr", "tur", "Turkish"),
    ("tt", "tat", "Tatar"),
    ("ug", "uig", "Uyghur"),
    ("uk", "ukr", "Ukrainian"),
    ("ur", "urd", "Urdu"),
    ("uz", "uzb", "Uzbek"),
    ("vi", "vie", "Vietnamese"),
    ("xh", "xho", "Xhosa"),
    ("yi", "yid", "Yiddish"),
    ("yo", "yor", "Yoruba"),
    ("zh", "zho", "Chinese"),
    ("zu", "zul", "Zulu"),
    ("zh", "cmn", "Chinese"),
    ("fa", "pes", "Persian"),
    ("no", "nob", "Norwegian"),
    ("ar", "arb", "Arabic"),
    ("lv", "lvs", "Latvian"),
    ("et", "ekk", "Estonian"),
    ("ms", "zsm", "Malay"),
    ("sq", "als", "Albanian"),
];

/// The two-letter code of a code or name, without a script: `tr` of `tur`, `TR` and `Turkish`, `zh` of `cmn_Hans`. An
/// unknown one is returned in lower case.
pub fn short(language: &str) -> String {
    let base = language.split(['_', '-']).next().unwrap_or(language).to_lowercase();
    let base = OWN_NAMES.iter().find(|(own, _)| *own == base).map_or(base, |(_, code)| (*code).to_owned());
    let row = CODES.iter().find(|(_, long, name)| *long == base || name.to_lowercase() == base);
    row.map_or(base, |(short, ..)| (*short).to_owned())
}

/// The English name of a language by any of its codes; the code itself where it is unknown.
///
/// ```
/// use polyhead_translate::languages::name;
/// assert_eq!([name("tur"), name("de"), name("tlh")], ["Turkish", "German", "tlh"]);
/// ```
pub fn name(language: &str) -> String {
    let code = short(language);
    CODES.iter().find(|(short, ..)| *short == code).map_or(code, |(_, _, name)| (*name).to_owned())
}
