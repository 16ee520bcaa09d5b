//! What goes back over the wire, in LibreTranslate's form and in ours. `assets/openapi.json` describes the same.

use polyhead_translate::{Candidate, Note, Route};
use serde::Serialize;
use serde_json::Value;

use super::desk::Finished;
use super::shelf::ModelEntry;

/// One, or several in an array, as the question was.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// For one text.
    One(T),
    /// For an array of texts.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// What was found, in the form of the question.
    pub fn of(found: Vec<T>, shape: Shape) -> Self {
        match shape {
            Shape::One => found.into_iter().next().map_or_else(|| Self::Many(Vec::new()), Self::One),
            Shape::Many => Self::Many(found),
        }
    }
}

/// Whether one text was sent or an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
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
    /// What was guessed, where the language was not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detected_language: Option<OneOrMany<Detected>>,
    /// Other translations, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<OneOrMany<Vec<String>>>,
}

/// A language that a text may be in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detected {
    /// How likely it is, in percent.
    pub confidence: f64,
    /// Its two-letter code.
    pub language: String,
}

/// The answer to `/frontend/settings`.
#[allow(clippy::struct_excessive_bools, reason = "the form is LibreTranslate's")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsAnswer {
    /// Whether there are keys.
    pub api_keys: bool,
    /// Characters of a request.
    pub char_limit: usize,
    /// Whether files are translated; they are.
    pub files_translation: bool,
    /// Milliseconds that a page waits after a key was pressed.
    pub frontend_timeout: u64,
    /// Whether nothing is answered without a key.
    pub key_required: bool,
    /// What a page chooses first.
    pub language: LanguageChoice,
    /// Whether better translations may be sent in; they may not.
    pub suggestions: bool,
    /// Ends of names of files that are translated.
    pub supported_files_format: [&'static str; 4],
}

/// What a page chooses first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LanguageChoice {
    /// The language of the text.
    pub source: NamedLanguage,
    /// The language to translate into.
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
    /// Where the translated file is.
    pub translated_file_url: String,
}

/// The answer to `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelsAnswer {
    /// All models.
    pub models: Vec<ModelEntry>,
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
    /// Pairs of a source word and a target word, counted from 0, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Vec<(usize, usize)>>,
    /// From which language into which, where the model tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// What was done besides decoding, or went wrong.
    pub notes: Vec<NoteAnswer>,
    /// A trace of each sentence, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<Vec<Value>>,
}

/// A sentence of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SentenceAnswer {
    /// The index of its text.
    pub text: usize,
    /// Its index in the text.
    pub sentence: usize,
    /// The sentence.
    pub source: String,
    /// Its translation.
    pub translation: String,
}

impl From<Finished> for SentenceAnswer {
    fn from(own: Finished) -> Self {
        let Finished { text, sentence, source, translation } = own;
        Self { text, sentence, source, translation }
    }
}

/// One translation of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateAnswer {
    /// The text.
    pub text: String,
    /// The sum of log-probabilities over the length penalty; of several sentences, their mean.
    pub score: f64,
    /// The sum of the log-probabilities of all tokens.
    pub log_probability: f64,
    /// Tokens that the model wrote.
    pub tokens: usize,
}

impl From<Candidate> for CandidateAnswer {
    fn from(own: Candidate) -> Self {
        let Candidate { text, score, log_probability, tokens } = own;
        Self { text, score: finite(score), log_probability: finite(log_probability), tokens }
    }
}

/// A note with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoteAnswer {
    /// The note.
    #[serde(flatten)]
    pub note: Note,
    /// The same for people.
    pub message: String,
}

impl From<Note> for NoteAnswer {
    fn from(note: Note) -> Self {
        Self { message: note.to_string(), note }
    }
}

/// A number that JSON can hold: −∞, the logarithm of nothing, becomes −10⁹.
fn finite(number: f64) -> f64 {
    // The sum of nothing is −0, which adding 0 takes the sign from.
    if number.is_nan() { -1e9 } else { number.clamp(-1e9, 1e9) + 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_have_the_form_of_the_question() {
        let answer = |shape| TranslateAnswer {
            translated_text: OneOrMany::of(vec!["a".to_owned()], shape),
            detected_language: Some(OneOrMany::of(
                vec![Detected { confidence: 99.5, language: "tr".into() }],
                shape,
            )),
            alternatives: Some(OneOrMany::of(vec![vec!["b".to_owned()]], shape)),
        };
        let guess = json!({ "confidence": 99.5, "language": "tr" });
        assert_eq!(
            serde_json::to_value(answer(Shape::One)).unwrap(),
            json!({ "translatedText": "a", "detectedLanguage": guess, "alternatives": ["b"] })
        );
        assert_eq!(
            serde_json::to_value(answer(Shape::Many)).unwrap(),
            json!({ "translatedText": ["a"], "detectedLanguage": [guess], "alternatives": [["b"]] })
        );
    }

    #[test]
    fn numbers_are_finite_and_notes_have_words() {
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
