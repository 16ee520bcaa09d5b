//! The languages of a model: tags in its vocabulary such as `>>tur<<` (OPUS-MT) or `<2tr>`, put before the source.

use std::path::Path;

use polyhead_text::tokenizer::Tokenizer;

use crate::tokenizers;
use crate::{Error, Result};

/// Two-letter and three-letter codes (ISO 639) of the same languages.
const CODES: &[(&str, &str)] = &[
    ("af", "afr"),
    ("am", "amh"),
    ("ar", "ara"),
    ("az", "aze"),
    ("be", "bel"),
    ("bg", "bul"),
    ("bn", "ben"),
    ("bs", "bos"),
    ("ca", "cat"),
    ("cs", "ces"),
    ("cy", "cym"),
    ("da", "dan"),
    ("de", "deu"),
    ("el", "ell"),
    ("en", "eng"),
    ("eo", "epo"),
    ("es", "spa"),
    ("et", "est"),
    ("eu", "eus"),
    ("fa", "fas"),
    ("fi", "fin"),
    ("fr", "fra"),
    ("ga", "gle"),
    ("gl", "glg"),
    ("gu", "guj"),
    ("ha", "hau"),
    ("he", "heb"),
    ("hi", "hin"),
    ("hr", "hrv"),
    ("hu", "hun"),
    ("hy", "hye"),
    ("id", "ind"),
    ("ig", "ibo"),
    ("is", "isl"),
    ("it", "ita"),
    ("ja", "jpn"),
    ("ka", "kat"),
    ("kk", "kaz"),
    ("km", "khm"),
    ("ko", "kor"),
    ("ku", "kur"),
    ("ky", "kir"),
    ("la", "lat"),
    ("lb", "ltz"),
    ("lo", "lao"),
    ("lt", "lit"),
    ("lv", "lav"),
    ("mk", "mkd"),
    ("ml", "mal"),
    ("mn", "mon"),
    ("mr", "mar"),
    ("ms", "msa"),
    ("mt", "mlt"),
    ("my", "mya"),
    ("ne", "nep"),
    ("nl", "nld"),
    ("no", "nor"),
    ("pa", "pan"),
    ("pl", "pol"),
    ("ps", "pus"),
    ("pt", "por"),
    ("ro", "ron"),
    ("ru", "rus"),
    ("si", "sin"),
    ("sk", "slk"),
    ("sl", "slv"),
    ("so", "som"),
    ("sq", "sqi"),
    ("sr", "srp"),
    ("sv", "swe"),
    ("sw", "swa"),
    ("ta", "tam"),
    ("te", "tel"),
    ("tg", "tgk"),
    ("th", "tha"),
    ("tk", "tuk"),
    ("tl", "tgl"),
    ("tr", "tur"),
    ("tt", "tat"),
    ("ug", "uig"),
    ("uk", "ukr"),
    ("ur", "urd"),
    ("uz", "uzb"),
    ("vi", "vie"),
    ("xh", "xho"),
    ("yi", "yid"),
    ("yo", "yor"),
    ("zh", "zho"),
    ("zu", "zul"),
    ("zh", "cmn"),
    ("fa", "pes"),
    ("no", "nob"),
    ("ar", "arb"),
    ("lv", "lvs"),
    ("et", "ekk"),
    ("ms", "zsm"),
    ("sq", "als"),
];

/// A language that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language {
    /// Its code as the tag spells it, such as `tur`.
    pub code: String,
    /// The tag, such as `>>tur<<`.
    pub tag: String,
    /// The tag's id.
    pub id: u32,
}

/// What a model can translate from and into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Languages {
    targets: Vec<Language>,
    from: Option<String>,
    to: Option<String>,
}

impl Languages {
    /// Finds the tags among the first `rows` ids of a vocabulary, and what the folder says about its languages.
    pub(crate) fn load(folder: &Path, tokenizer: &Tokenizer, rows: usize) -> Self {
        let pieces = (0..rows as u32).filter_map(|id| Some((tokenizer.piece(id)?, id)));
        let tagged = pieces.filter_map(|(tag, id)| Some(Language { code: code(&tag)?.to_owned(), tag, id }));
        let (from, to) = tokenizers::languages(folder);
        Self { targets: tagged.collect(), from, to }
    }

    /// The languages that a tag can choose, in the order of their ids.
    pub fn targets(&self) -> &[Language] {
        &self.targets
    }

    /// The tag for translating into `to`, spelled as a code or as the tag; none if the model needs none.
    ///
    /// # Errors
    /// If the model does not know the language.
    pub fn target(&self, to: &str) -> Result<Option<&Language>> {
        let wanted = code(to).unwrap_or(to);
        if self.targets.is_empty() {
            return match &self.to {
                Some(own) if is_same(own, wanted) => Ok(None),
                Some(own) => Err(unknown(to, &format!("the model translates into {own} alone"))),
                None => Err(unknown(to, "the model has no language tags, so it cannot choose")),
            };
        }
        let exact = self.targets.iter().find(|language| language.code == wanted);
        let mut alike = self.targets.iter().filter(|language| is_same(&language.code, wanted));
        match (exact, alike.next(), alike.next()) {
            (Some(language), ..) | (None, Some(language), None) => Ok(Some(language)),
            (None, None, _) => Err(unknown(to, &format!("the model knows {}", list(self.targets.iter())))),
            (None, Some(_), Some(_)) => {
                let alike = self.targets.iter().filter(|language| is_same(&language.code, wanted));
                Err(unknown(to, &format!("it may be any of {}", list(alike))))
            }
        }
    }

    /// Checks that the model reads the language.
    ///
    /// # Errors
    /// If the folder names another one.
    pub fn check_source(&self, from: &str) -> Result<()> {
        match &self.from {
            Some(own) if !is_same(own, from) => {
                Err(unknown(from, &format!("the model translates from {own}")))
            }
            _ => Ok(()),
        }
    }

    /// The tag in front of a text, and the rest of it.
    pub(crate) fn tag_of<'a>(&self, text: &'a str) -> Option<(&Language, &'a str)> {
        let language = self.targets.iter().find(|language| text.starts_with(&language.tag))?;
        Some((language, text[language.tag.len()..].trim_start_matches(' ')))
    }
}

/// The code inside a tag.
fn code(tag: &str) -> Option<&str> {
    let inner = |open, close| tag.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
    let code: &str = inner(">>", "<<").or_else(|| inner("<2", ">"))?;
    let is_code = !code.is_empty()
        && code.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
    is_code.then_some(code)
}

/// Whether two codes mean the same language: `tr` and `tur`, `zh` and `cmn_Hans`.
fn is_same(a: &str, b: &str) -> bool {
    let short = |code: &str| {
        let base = code.split(['_', '-']).next().unwrap_or(code).to_lowercase();
        CODES.iter().find(|(_, long)| *long == base).map_or(base, |(short, _)| (*short).to_owned())
    };
    let has_script = |code: &str| code.contains(['_', '-']);
    a.eq_ignore_ascii_case(b) || (short(a) == short(b) && !(has_script(a) && has_script(b)))
}

fn list<'a>(languages: impl Iterator<Item = &'a Language>) -> String {
    languages.map(|language| language.code.as_str()).collect::<Vec<_>>().join(", ")
}

fn unknown(language: &str, expected: &str) -> Error {
    Error::request(format!("language {language:?}: {expected}"), "polyhead info shows what a model is")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages(tags: &[&str]) -> Languages {
        let targets = tags.iter().zip(0..).map(|(tag, id)| Language {
            code: code(tag).unwrap().to_owned(),
            tag: (*tag).to_owned(),
            id,
        });
        Languages { targets: targets.collect(), from: Some("eng".into()), to: Some("tur".into()) }
    }

    #[test]
    fn a_language_is_found_by_any_of_its_names() {
        let known = languages(&[">>tur<<", ">>cmn_Hans<<", ">>cmn_Hant<<", "<2de>"]);
        for (name, tag) in [
            ("tr", ">>tur<<"),
            ("tur", ">>tur<<"),
            (">>tur<<", ">>tur<<"),
            ("TR", ">>tur<<"),
            ("deu", "<2de>"),
            ("<2de>", "<2de>"),
            ("cmn_Hant", ">>cmn_Hant<<"),
        ] {
            assert_eq!(known.target(name).unwrap().unwrap().tag, tag, "{name}");
        }
        let error = known.target("fr").unwrap_err().to_string();
        assert_eq!(error, "language \"fr\": the model knows tur, cmn_Hans, cmn_Hant, de");
        let error = known.target("zh").unwrap_err().to_string();
        assert_eq!(error, "language \"zh\": it may be any of cmn_Hans, cmn_Hant");
        assert!(known.check_source("en").is_ok() && known.check_source("de").is_err());
    }

    #[test]
    fn a_model_without_tags_has_its_own_language_alone() {
        let known = languages(&[]);
        assert_eq!(known.target("tr").unwrap(), None);
        assert!(known.target("de").unwrap_err().to_string().contains("into tur alone"));
        assert!(Languages::default().target("tr").is_err());
    }
}
