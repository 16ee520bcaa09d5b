//! The JSON of the answers, of LibreTranslate's calls and of our own; `assets/openapi.json` describes the same.

use polyhead_translate::{Candidate, Note, Route};
use serde::Serialize;
use serde_json::Value;

use super::scheduler::FinishedSentence;

/// One value, or an array, as the request had one text or an array.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// For one text.
    One(T),
    /// For an array of texts.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The values in the shape of the request.
    pub fn of(found: Vec<T>, shape: InputShape) -> Self {
        match shape {
            InputShape::One => found.into_iter().next().map_or_else(|| Self::Many(Vec::new()), Self::One),
            InputShape::Many => Self::Many(found),
        }
    }
}

/// The shape of a request's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputShape {
    /// One text.
    One,
    /// An array.
    Many,
}

/// The answer to `/translate`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TranslateAnswer {
    /// The translations.
    pub translated_text: OneOrMany<String>,
    /// The detected language, if `source` was `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detected_language: Option<OneOrMany<DetectedLanguage>>,
    /// Alternative translations, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<OneOrMany<Vec<String>>>,
}

/// A candidate language of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DetectedLanguage {
    /// Its probability in percent.
    pub confidence: f64,
    /// Its two-letter code.
    pub language: String,
}

/// The answer to `/frontend/settings`.
#[allow(clippy::struct_excessive_bools, reason = "the fields are LibreTranslate's")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsAnswer {
    /// True if the server has API keys.
    pub api_keys: bool,
    /// Maximum characters of a request.
    pub char_limit: usize,
    /// True if files can be translated: always.
    pub files_translation: bool,
    /// Milliseconds that a page waits after a keystroke before it translates.
    pub frontend_timeout: u64,
    /// True if a key is required.
    pub key_required: bool,
    /// Default languages of a page.
    pub language: LanguageChoice,
    /// True if suggestions are accepted: never.
    pub suggestions: bool,
    /// Extensions of the files that can be translated.
    pub supported_files_format: [&'static str; 4],
}

/// The default languages of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LanguageChoice {
    /// The source language.
    pub source: NamedLanguage,
    /// The target language.
    pub target: NamedLanguage,
}

/// A language by code and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedLanguage {
    /// Its code.
    pub code: String,
    /// Its English name.
    pub name: String,
}

/// The answer to `/translate_file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileAnswer {
    /// URL of the translated file.
    pub translated_file_url: String,
}

/// The answer to `/v1/translate`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct V1Answer {
    /// The model that translated.
    pub model: String,
    /// One for each text.
    pub translations: Vec<TranslationAnswer>,
}

/// The translations of one text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TranslationAnswer {
    /// The best one.
    #[serde(flatten)]
    pub best: CandidateAnswer,
    /// All, best first.
    pub n_best: Vec<CandidateAnswer>,
    /// Pairs of source and target word indices, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Vec<(usize, usize)>>,
    /// Source and target language, if the model declares them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// True if the model gave a sentence a low probability; left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
    /// Notes on preprocessing, decoding and its problems.
    pub notes: Vec<NoteAnswer>,
    /// An attention trace of each sentence, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<Vec<Value>>,
}

/// A sentence of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SentenceAnswer {
    /// Index of its text.
    pub text: usize,
    /// Its index within the text.
    pub sentence: usize,
    /// The source sentence.
    pub source: String,
    /// Its translation.
    pub translation: String,
}

impl From<FinishedSentence> for SentenceAnswer {
    fn from(own: FinishedSentence) -> Self {
        let FinishedSentence { text, sentence, source, translation } = own;
        Self { text, sentence, source, translation }
    }
}

/// One translation of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateAnswer {
    /// The text.
    pub text: String,
    /// Sum of log-probabilities over the length penalty; for several sentences, the mean.
    pub score: f64,
    /// Sum of the log-probabilities of all tokens.
    pub log_probability: f64,
    /// Number of generated tokens.
    pub tokens: usize,
}

impl From<Candidate> for CandidateAnswer {
    fn from(own: Candidate) -> Self {
        let Candidate { text, score, log_probability, tokens } = own;
        Self { text, score: finite(score), log_probability: finite(log_probability), tokens }
    }
}

/// A note with its message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoteAnswer {
    /// The note.
    #[serde(flatten)]
    pub note: Note,
    /// The note as a sentence.
    pub message: String,
}

impl From<Note> for NoteAnswer {
    fn from(note: Note) -> Self {
        Self { message: note.to_string(), note }
    }
}

/// A number that JSON can represent: −∞, the logarithm of 0, and NaN become −10⁹.
fn finite(number: f64) -> f64 {
    // An empty sum is −0; adding 0 makes it +0.
    if number.is_nan() { -1e9 } else { number.clamp(-1e9, 1e9) + 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_have_the_shape_of_the_request() {
        let answer = |shape| TranslateAnswer {
            translated_text: OneOrMany::of(vec!["a".to_owned()], shape),
            detected_language: Some(OneOrMany::of(
                vec![DetectedLanguage { confidence: 99.5, language: "tr".into() }],
                shape,
            )),
            alternatives: Some(OneOrMany::of(vec![vec!["b".to_owned()]], shape)),
        };
        let detected = json!({ "confidence": 99.5, "language": "tr" });
        assert_eq!(
            serde_json::to_value(answer(InputShape::One)).unwrap(),
            json!({ "translatedText": "a", "detectedLanguage": detected, "alternatives": ["b"] })
        );
        assert_eq!(
            serde_json::to_value(answer(InputShape::Many)).unwrap(),
            json!({ "translatedText": ["a"], "detectedLanguage": [detected], "alternatives": [["b"]] })
        );
    }

    #[test]
    fn numbers_are_finite_and_notes_have_messages() {
        let candidate =
            Candidate { text: "a".into(), score: f64::NEG_INFINITY, log_probability: f64::NAN, tokens: 1 };
        let answer = CandidateAnswer::from(candidate);
        assert_eq!((answer.score, answer.log_probability), (-1e9, -1e9));
        assert_eq!(serde_json::to_string(&finite(-0.0)).unwrap(), "0.0");
        let note = NoteAnswer::from(Note::Split { sentences: 2 });
        assert_eq!(
            serde_json::to_value(note).unwrap(),
            json!({ "kind": "split", "sentences": 2, "message": "split into 2 sentences" })
        );
    }
}
