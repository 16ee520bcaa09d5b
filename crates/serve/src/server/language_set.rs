//! The languages of a server: checks codes, and detects the language of a text.

use polyhead_text::language::Identifier;
use polyhead_translate::languages::short;

use super::answers::DetectedLanguage;
use super::model_registry::LanguageAnswer;
use crate::{Error, Result};

/// All source languages of a server, each with its target languages.
#[derive(Debug, Clone)]
pub(crate) struct LanguageSet(Vec<LanguageAnswer>);

impl LanguageSet {
    pub(crate) fn new(languages: Vec<LanguageAnswer>) -> Self {
        Self(languages)
    }

    /// Codes of all source languages.
    pub(crate) fn sources(&self) -> Vec<&str> {
        self.0.iter().map(|own| own.code.as_str()).collect()
    }

    /// Codes of all target languages.
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
    /// If no model translates from it.
    pub(crate) fn source(&self, name: &str, given: &str) -> Result<Option<String>> {
        if given == "auto" {
            return Ok(None);
        }
        let code = short(given);
        if self.0.is_empty() || self.sources().contains(&code.as_str()) {
            return Ok(Some(code));
        }
        Err(unknown(name, given, &self.sources()))
    }

    /// The two-letter code of a target language.
    ///
    /// # Errors
    /// If no model translates into it, or none from this source.
    pub(crate) fn target(&self, name: &str, given: &str, source: Option<&str>) -> Result<String> {
        let code = short(given);
        if self.0.is_empty() || source == Some(code.as_str()) {
            return Ok(code);
        }
        let own = self.0.iter().find(|own| Some(own.code.as_str()) == source);
        let targets = match own {
            Some(own) => own.targets.iter().map(String::as_str).collect(),
            None => self.targets(),
        };
        if targets.contains(&code.as_str()) { Ok(code) } else { Err(unknown(name, given, &targets)) }
    }

    /// Candidate languages of a text, likeliest first, at least one. A text without letters gets English, else the first language, with
    /// confidence 0.
    pub(crate) fn detect(&self, text: &str) -> Vec<DetectedLanguage> {
        let identifier = Identifier::four();
        let sources = self.sources();
        let known: Vec<&str> = identifier.codes().filter(|code| sources.contains(code)).collect();
        let Some(best) = identifier.identify_among(text, &known) else {
            let first = if sources.contains(&"en") { "en" } else { sources.first().unwrap_or(&"en") };
            return vec![DetectedLanguage { confidence: 0.0, language: first.to_owned() }];
        };
        let all = std::iter::once((best.code, best.probability)).chain(best.others);
        all.map(|(language, probability)| DetectedLanguage { confidence: percent(probability), language })
            .collect()
    }

    /// The confidence that a text is in a given language.
    pub(crate) fn confidence_in(&self, text: &str, language: &str) -> DetectedLanguage {
        let found = self.detect(text).into_iter().find(|own| own.language == language);
        found.unwrap_or_else(|| DetectedLanguage { confidence: 0.0, language: language.to_owned() })
    }
}

fn unknown(name: &str, given: &str, known: &[&str]) -> Error {
    let given: String = given.chars().take(40).collect();
    let message = format!("{name}: language {given:?}, expected one of {}", known.join(", "));
    Error::request(message, "GET /languages lists them")
}

/// Percent, rounded to two decimals.
fn percent(probability: f64) -> f64 {
    (probability * 10_000.0).round().clamp(0.0, 10_000.0) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages() -> LanguageSet {
        let language = |code: &str, targets: &[&str]| LanguageAnswer {
            code: code.into(),
            name: code.into(),
            targets: targets.iter().map(|own| (*own).to_owned()).collect(),
        };
        LanguageSet::new(vec![language("en", &["tr", "de"]), language("tr", &["en"])])
    }

    #[test]
    fn codes_and_names_are_accepted_and_others_are_refused() {
        let languages = languages();
        for given in ["en", "EN", "eng", "English", "en-GB"] {
            assert_eq!(languages.source("source", given).unwrap().as_deref(), Some("en"), "{given}");
        }
        assert_eq!(languages.source("source", "auto").unwrap(), None);
        assert_eq!(
            languages.source("source", "de").unwrap_err().to_string(),
            "source: language \"de\", expected one of en, tr"
        );
        assert_eq!(languages.target("target", "de", Some("en")).unwrap(), "de");
        assert_eq!(languages.target("target", "tr", Some("tr")).unwrap(), "tr");
        assert_eq!(languages.target("target", "de", None).unwrap(), "de");
        let error = languages.target("target", "de", Some("tr")).unwrap_err();
        assert_eq!(error.to_string(), "target: language \"de\", expected one of en");
        assert!(languages.target("to", &"x".repeat(500), None).unwrap_err().to_string().len() < 120);
    }

    #[test]
    fn confidences_add_up_and_a_text_without_letters_has_none() {
        let languages = languages();
        let detected = languages.detect("Kedi fareyi yedi.");
        assert_eq!((detected.len(), detected[0].language.as_str()), (2, "tr"));
        let sum: f64 = detected.iter().map(|own| own.confidence).sum();
        assert!((sum - 100.0).abs() < 0.02 && detected[0].confidence > 90.0, "{detected:?}");
        assert_eq!(languages.detect("12:30"), [DetectedLanguage { confidence: 0.0, language: "en".into() }]);
        assert_eq!(languages.confidence_in("Kedi fareyi yedi.", "en").language, "en");
        assert_eq!(languages.confidence_in("12:30", "tr").confidence, 0.0);
    }
}
