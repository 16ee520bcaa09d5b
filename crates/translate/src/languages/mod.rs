//! The languages of a model: tags in its vocabulary such as `>>tur<<` (OPUS-MT) or `<2tr>`, put before the source; and
//! the directions that it was trained on, `"directions": ["eng-tur", …]` in `tokenizer_config.json`.

mod codes;
pub(crate) mod detect;
pub(crate) mod other;

use std::path::Path;

use polyhead_engine::tokenizers::{LanguageSettings, Tokenizers, languages};
use polyhead_models::checkpoint::read_config;
use polyhead_text::tokenizer::Tokenizer;

pub use self::codes::{name, short};
pub use self::detect::{detect_corpus, detect_document, detect_language};
use crate::{Error, Result};

/// A target language of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language {
    /// Its code as the tag spells it, such as `tur`.
    pub code: String,
    /// The tag, such as `>>tur<<`.
    pub tag: String,
    /// The tag's id.
    pub id: u32,
}

/// The source and target languages of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Languages {
    targets: Vec<Language>,
    from: Option<String>,
    to: Option<String>,
    /// Trained directions as pairs of two-letter codes; empty where the folder states none.
    directions: Vec<(String, String)>,
}

impl Languages {
    /// The languages of a model folder, without its weights.
    ///
    /// # Errors
    /// If the folder lacks a config or a tokeniser, or if they do not fit together.
    pub fn of(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let (config, _) = read_config(folder)?;
        let vocab_sizes = config.vocab_sizes();
        Self::load(folder, Tokenizers::load(folder, vocab_sizes)?.source(), vocab_sizes[0])
    }

    /// Finds the tags among the first `rows` ids of a vocabulary, and the languages that the folder states.
    pub(crate) fn load(folder: &Path, tokenizer: &Tokenizer, rows: usize) -> Result<Self> {
        let pieces = (0..rows as u32).filter_map(|id| Some((tokenizer.piece(id)?, id)));
        let tagged = pieces.filter_map(|(tag, id)| Some(Language { code: code(&tag)?.to_owned(), tag, id }));
        let LanguageSettings { from, to, directions } = languages(folder)?;
        let found = Self { targets: tagged.collect(), from, to, directions: Vec::new() };
        let invalid = |direction: &str, message: &str| {
            let path = folder.join("tokenizer_config.json");
            Error::file(&path, format!("direction {direction:?}: {message}"), "correct the key or remove it")
        };
        let direction = |name: &String| {
            let (from, to) =
                name.split_once('-').ok_or_else(|| invalid(name, "expected two codes, such as eng-tur"))?;
            if !found.targets.iter().any(|language| is_same(&language.code, to)) {
                return Err(invalid(name, &format!("the vocabulary has no tag for {to}")));
            }
            Ok((short(from), short(to)))
        };
        let directions = directions.iter().map(direction).collect::<Result<_>>()?;
        Ok(Self { directions, ..found })
    }

    /// The target languages with a tag, in the order of their ids.
    pub fn targets(&self) -> &[Language] {
        &self.targets
    }

    /// Trained directions as pairs of two-letter codes; empty where the folder states none.
    pub fn directions(&self) -> &[(String, String)] {
        &self.directions
    }

    /// The two-letter codes of all languages in `directions`, in their order.
    pub fn known(&self) -> Vec<&str> {
        let mut known: Vec<&str> = Vec::new();
        for code in self.directions.iter().flat_map(|(from, to)| [from, to]) {
            if !known.contains(&code.as_str()) {
                known.push(code);
            }
        }
        known
    }

    /// The tag for translating into `to`, given as a code, a name or the tag; none if the model needs none.
    ///
    /// # Errors
    /// If the model does not know the language.
    pub fn target(&self, to: &str) -> Result<Option<&Language>> {
        let code = code(to).unwrap_or(to);
        if self.targets.is_empty() {
            return match &self.to {
                Some(own) if is_same(own, code) => Ok(None),
                Some(own) => Err(unknown(to, &format!("the model translates into {own} only"))),
                None => Err(unknown(to, "the model has no language tags to choose by")),
            };
        }
        let exact = self.targets.iter().find(|language| language.code == code);
        let mut alike = self.targets.iter().filter(|language| is_same(&language.code, code));
        match (exact, alike.next(), alike.next()) {
            (Some(language), ..) | (None, Some(language), None) => Ok(Some(language)),
            (None, None, _) => Err(unknown(to, &self.names())),
            (None, Some(_), Some(_)) => {
                let alike = self.targets.iter().filter(|language| is_same(&language.code, code));
                Err(unknown(to, &format!("it may be any of {}", list(alike))))
            }
        }
    }

    /// Checks that the model reads the language.
    ///
    /// # Errors
    /// If the folder states another one.
    pub fn check_source(&self, from: &str) -> Result<()> {
        let (known, code) = (self.known(), short(code(from).unwrap_or(from)));
        if !known.is_empty() {
            return if known.contains(&code.as_str()) { Ok(()) } else { Err(unknown(from, &self.names())) };
        }
        match &self.from {
            Some(own) if !is_same(own, from) => {
                Err(unknown(from, &format!("the model translates from {own}")))
            }
            _ => Ok(()),
        }
    }

    /// The languages of the model, for messages.
    fn names(&self) -> String {
        let known = self.known().into_iter().map(|code| format!("{} ({code})", name(code)));
        let known: Vec<String> = known.collect();
        let known = if known.is_empty() { list(self.targets.iter()) } else { known.join(", ") };
        format!("the model knows {known}")
    }

    /// True if the model was trained on this direction; two-letter codes.
    pub fn is_trained(&self, from: &str, to: &str) -> bool {
        self.directions.iter().any(|direction| direction.0 == from && direction.1 == to)
    }

    /// True if there is a route between two languages, in one hop or two; false from a language to itself.
    pub(crate) fn has_route(&self, from: &str, to: &str) -> bool {
        from != to && (self.is_trained(from, to) || self.between(from, to).is_ok())
    }

    /// The two-letter codes of the source languages, in the order of `directions`.
    pub(crate) fn sources(&self) -> Vec<&str> {
        let mut sources = self.known();
        sources.retain(|code| self.directions.iter().any(|direction| direction.0 == *code));
        sources
    }

    /// All routes in one hop or two, as pairs of two-letter codes; none where the folder does not state a language.
    pub fn routes(&self) -> Vec<(Option<String>, Option<String>)> {
        let known = self.known();
        if !known.is_empty() {
            let pairs = known.iter().flat_map(|from| known.iter().map(move |to| (*from, *to)));
            let routes = pairs.filter(|(from, to)| self.has_route(from, to));
            return routes.map(|(from, to)| (Some(from.to_owned()), Some(to.to_owned()))).collect();
        }
        let from = self.from.as_deref().map(short);
        if self.targets.is_empty() {
            return vec![(from, self.to.as_deref().map(short))];
        }
        self.targets.iter().map(|target| (from.clone(), Some(short(&target.code)))).collect()
    }

    /// The middle language of a route in two hops; English where several would do.
    ///
    /// # Errors
    /// If there is none.
    pub fn between(&self, from: &str, to: &str) -> Result<&str> {
        let middles = self.directions.iter().filter(|direction| direction.0 == from);
        let mut middles: Vec<&str> = middles.map(|direction| direction.1.as_str()).collect();
        middles.retain(|middle| self.is_trained(middle, to));
        let english = middles.iter().find(|middle| **middle == "en");
        english.or(middles.first()).copied().ok_or_else(|| {
            let known: Vec<String> =
                self.directions.iter().map(|(from, to)| format!("{from}-{to}")).collect();
            let message = format!("no route from {from} to {to}, directly or via a third language");
            Error::request(message, format!("the model was trained on {}", known.join(", ")))
        })
    }

    /// The default target language of a text in `from`: English, for English `english_to` or Turkish, otherwise the first
    /// language that the model was trained to translate it into.
    pub fn default_target(&self, from: &str, english_to: Option<&str>) -> Option<&str> {
        let trained =
            || self.directions.iter().filter(|direction| direction.0 == from).map(|found| found.1.as_str());
        let codes = [Some("en"), english_to.filter(|_| from == "en"), Some("tr")];
        let preferred = codes.into_iter().flatten().find_map(|code| trained().find(|to| *to == code));
        preferred.or_else(|| trained().next())
    }

    /// The tag before a text, and the rest of the text.
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

/// True if two codes mean the same language: `tr` and `tur`, `zh` and `cmn_Hans`.
fn is_same(a: &str, b: &str) -> bool {
    let has_script = |code: &str| code.contains(['_', '-']);
    a.eq_ignore_ascii_case(b) || (short(a) == short(b) && !(has_script(a) && has_script(b)))
}

fn list<'a>(languages: impl Iterator<Item = &'a Language>) -> String {
    languages.map(|language| language.code.as_str()).collect::<Vec<_>>().join(", ")
}

fn unknown(language: &str, expected: &str) -> Error {
    Error::request(
        format!("language {language:?}: {expected}"),
        "polyhead info shows the languages of a model",
    )
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
        let (from, to) = (Some("eng".into()), Some("tur".into()));
        Languages { targets: targets.collect(), from, to, directions: Vec::new() }
    }

    #[test]
    fn untrained_directions_go_via_a_third_language() {
        let pairs = ["en-de", "de-en", "en-tr", "tr-en", "fr-en"].map(|pair| pair.split_once('-').unwrap());
        let directions = pairs.map(|(from, to)| (from.to_owned(), to.to_owned())).to_vec();
        let known = Languages { directions, ..Languages::default() };
        assert_eq!(known.known(), ["en", "de", "tr", "fr"]);
        assert!(known.is_trained("en", "tr") && !known.is_trained("de", "tr"));
        assert_eq!(known.between("de", "tr").unwrap(), "en");
        let error = known.between("tr", "fr").unwrap_err();
        assert_eq!(error.to_string(), "no route from tr to fr, directly or via a third language");
        assert!(error.hint().ends_with("trained on en-de, de-en, en-tr, tr-en, fr-en"), "{}", error.hint());
        let default = |from| known.default_target(from, None);
        assert_eq!(["en", "de", "it"].map(default), [Some("tr"), Some("en"), None]);
        let default = |english_to| known.default_target("en", Some(english_to));
        assert_eq!(["de", "tr", "en", "it"].map(default), ["de", "tr", "tr", "tr"].map(Some));
        assert_eq!(known.default_target("tr", Some("de")), Some("en"));
        assert!(known.check_source("Turkish").is_ok());
        let error = known.check_source("spa").unwrap_err().to_string();
        assert_eq!(
            error,
            "language \"spa\": the model knows English (en), German (de), Turkish (tr), French (fr)"
        );
    }

    #[test]
    fn a_language_is_found_by_code_name_or_tag() {
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
    fn a_model_without_tags_has_one_target_language() {
        let known = languages(&[]);
        assert_eq!(known.target("tr").unwrap(), None);
        assert!(known.target("de").unwrap_err().to_string().contains("into tur only"));
        assert!(Languages::default().target("tr").is_err());
    }
}
