//! Which languages a server knows, and which one a text is in.

use polyhead_text::language::Identifier;
use polyhead_translate::languages::short;

use super::answers::Detected;
use super::shelf::LanguageAnswer;
use crate::{Error, Result};

/// The languages of a server.
#[derive(Debug, Clone)]
pub(crate) struct Spoken(Vec<LanguageAnswer>);

impl Spoken {
    pub(crate) fn new(languages: Vec<LanguageAnswer>) -> Self {
        Self(languages)
    }

    /// The codes of all that can be translated from.
    pub(crate) fn sources(&self) -> Vec<&str> {
        self.0.iter().map(|own| own.code.as_str()).collect()
    }

    /// The codes of all that can be translated into.
    pub(crate) fn targets(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for code in self.0.iter().flat_map(|own| &own.targets) {
            if !found.contains(&code.as_str()) {
                found.push(code);
            }
        }
        found
    }

    /// The two-letter code of a source language; none for `auto`.
    ///
    /// # Errors
    /// If no model reads it.
    pub(crate) fn source(&self, name: &str, said: &str) -> Result<Option<String>> {
        if said == "auto" {
            return Ok(None);
        }
        let code = short(said);
        if self.0.is_empty() || self.sources().contains(&code.as_str()) {
            return Ok(Some(code));
        }
        Err(unknown(name, said, &self.sources()))
    }

    /// The two-letter code of a target language.
    ///
    /// # Errors
    /// If no model writes it, or none from this source.
    pub(crate) fn target(&self, name: &str, said: &str, source: Option<&str>) -> Result<String> {
        let code = short(said);
        if self.0.is_empty() || source == Some(code.as_str()) {
            return Ok(code);
        }
        let own = self.0.iter().find(|own| Some(own.code.as_str()) == source);
        let targets = match own {
            Some(own) => own.targets.iter().map(String::as_str).collect(),
            None => self.targets(),
        };
        if targets.contains(&code.as_str()) { Ok(code) } else { Err(unknown(name, said, &targets)) }
    }

    /// What a text may be in, the likeliest first; one at least. A text without letters is in the first language, for sure not.
    pub(crate) fn guesses(&self, text: &str) -> Vec<Detected> {
        let identifier = Identifier::four();
        let sources = self.sources();
        let known: Vec<&str> = identifier.codes().filter(|code| sources.contains(code)).collect();
        let Some(guess) = identifier.identify_among(text, &known) else {
            let first = if sources.contains(&"en") { "en" } else { sources.first().unwrap_or(&"en") };
            return vec![Detected { confidence: 0.0, language: first.to_owned() }];
        };
        let all = std::iter::once((guess.code, guess.probability)).chain(guess.others);
        all.map(|(language, probability)| Detected { confidence: percent(probability), language }).collect()
    }

    /// How sure it is that a text is in a language which was found otherwise.
    pub(crate) fn guess_of(&self, text: &str, language: &str) -> Detected {
        let found = self.guesses(text).into_iter().find(|own| own.language == language);
        found.unwrap_or_else(|| Detected { confidence: 0.0, language: language.to_owned() })
    }
}

fn unknown(name: &str, said: &str, known: &[&str]) -> Error {
    let said: String = said.chars().take(40).collect();
    let message = format!("{name}: language {said:?}, expected one of {}", known.join(", "));
    Error::Request { message, hint: "GET /languages lists them".into() }
}

/// To a hundredth.
fn percent(probability: f64) -> f64 {
    (probability * 10_000.0).round().clamp(0.0, 10_000.0) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken() -> Spoken {
        let language = |code: &str, targets: &[&str]| LanguageAnswer {
            code: code.into(),
            name: code.into(),
            targets: targets.iter().map(|own| (*own).to_owned()).collect(),
        };
        Spoken::new(vec![language("en", &["tr", "de"]), language("tr", &["en"])])
    }

    #[test]
    fn codes_and_names_are_known_and_others_are_told() {
        let spoken = spoken();
        for said in ["en", "EN", "eng", "English", "en-GB"] {
            assert_eq!(spoken.source("source", said).unwrap().as_deref(), Some("en"), "{said}");
        }
        assert_eq!(spoken.source("source", "auto").unwrap(), None);
        assert_eq!(
            spoken.source("source", "de").unwrap_err().to_string(),
            "source: language \"de\", expected one of en, tr"
        );
        assert_eq!(spoken.target("target", "de", Some("en")).unwrap(), "de");
        assert_eq!(spoken.target("target", "tr", Some("tr")).unwrap(), "tr");
        assert_eq!(spoken.target("target", "de", None).unwrap(), "de");
        let error = spoken.target("target", "de", Some("tr")).unwrap_err();
        assert_eq!(error.to_string(), "target: language \"de\", expected one of en");
        assert!(spoken.target("to", &"x".repeat(500), None).unwrap_err().to_string().len() < 120);
    }

    #[test]
    fn guesses_add_up_and_what_has_no_letters_is_in_the_first_language() {
        let spoken = spoken();
        let guesses = spoken.guesses("Kedi fareyi yedi.");
        assert_eq!((guesses.len(), guesses[0].language.as_str()), (2, "tr"));
        let sum: f64 = guesses.iter().map(|own| own.confidence).sum();
        assert!((sum - 100.0).abs() < 0.02 && guesses[0].confidence > 90.0, "{guesses:?}");
        assert_eq!(spoken.guesses("12:30"), [Detected { confidence: 0.0, language: "en".into() }]);
        assert_eq!(spoken.guess_of("Kedi fareyi yedi.", "en").language, "en");
        assert_eq!(spoken.guess_of("12:30", "tr").confidence, 0.0);
    }
}
