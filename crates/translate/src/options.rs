//! The options of a translation.

use crate::languages::detect::extend_context;

/// Processing of a text besides decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Sentences are translated one by one, long ones in parts; loops are decoded again; white space is restored. A model
    /// that states its directions takes two hops where it must; one with placeholders preserves addresses, emoji, numbers
    /// and what it cannot spell.
    #[default]
    Guarded,
    /// None: the model's own decoding of the text as one sentence.
    Raw,
}

/// The function of the length n that a sum of log-probabilities is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LengthFormula {
    /// n^α.
    #[default]
    Power,
    /// ((5 + n) / 6)^α (Wu et al. 2016).
    Wu,
}

/// DetectedLanguage of the languages of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LanguageDetection {
    /// Each text by itself.
    #[default]
    Each,
    /// Texts are the lines of one file: a text is in another language than those before it only if that is clear.
    InOrder,
}

/// Evidence of the model that is computed besides translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Evidence {
    /// None.
    #[default]
    None,
    /// Word alignments, from attention.
    Alignment,
    /// The segments of the text: what the model read and wrote of each.
    Segments,
    /// The words that the model copied from the source.
    Copies,
}

/// Sampling of tokens instead of searching for the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Divisor of the logits; default: 1.
    pub temperature: f32,
    /// Number of most probable tokens to sample from; default: 0, all.
    pub top_k: usize,
    /// Total probability of the tokens to sample from; default: 1, all.
    pub top_p: f32,
    /// Minimum probability of a token, as a share of the most probable one's; default: 0, all.
    pub min_p: f32,
    /// Random seed; default: 0.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 }
    }
}

/// The options of a translation. `None` means the generation settings of the model folder.
#[derive(Debug, Clone, PartialEq)]
pub struct TranslateOptions {
    /// Processing besides decoding; default: guarded.
    pub mode: Mode,
    /// The language of the texts; default: the model's only one, or detected.
    pub from: Option<String>,
    /// The language to translate into; default: the model's only one, that of a tag before the text, or English, and for
    /// English texts `english_to`.
    pub to: Option<String>,
    /// The language to translate English texts into where `to` is none and the model translates into it; default: Turkish.
    pub english_to: Option<String>,
    /// DetectedLanguage of languages where `from` is none and the model states its directions; default: each text by itself.
    pub detection: LanguageDetection,
    /// Preceding text, for detection in order; default: none. See [`TranslateOptions::follow`].
    pub context: String,
    /// Beam size; 1 is greedy.
    pub beam_size: Option<usize>,
    /// Maximum number of tokens of each sentence's translation, the end token included.
    pub max_length: Option<usize>,
    /// Exponent α of the length penalty.
    pub length_penalty: Option<f64>,
    /// Formula of the length penalty; default: n^α.
    pub length_formula: LengthFormula,
    /// Translations of each text, best first; default: 1.
    pub n_best: usize,
    /// Sampling instead of search; default: none.
    pub sampling: Option<Sampling>,
    /// Beginning of the translation of each text; default: empty.
    pub prefix: String,
    /// Words or phrases that the translation of each text must contain, in any order and possibly inflected further; a text
    /// is one sentence then; default: none. Found by grid beam search (Hokamp & Liu 2017).
    pub lexical: Vec<String>,
    /// n of the n-grams that must not repeat; 0 for no such rule.
    pub no_repeat_ngram: Option<usize>,
    /// Penalty of tokens that occurred before; 1 for none.
    pub repetition_penalty: Option<f32>,
    /// Evidence to compute besides the translation; default: none.
    pub evidence: Evidence,
    /// Maximum number of source tokens in a batch, padding included; default: 1024, on a GPU 16,384. On the CPU a
    /// batch never has more than 24 hypotheses.
    pub batch_tokens: Option<usize>,
}

impl Default for TranslateOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Guarded,
            from: None,
            to: None,
            english_to: None,
            detection: LanguageDetection::Each,
            context: String::new(),
            beam_size: None,
            max_length: None,
            length_penalty: None,
            length_formula: LengthFormula::Power,
            n_best: 1,
            sampling: None,
            prefix: String::new(),
            lexical: Vec::new(),
            no_repeat_ngram: None,
            repetition_penalty: None,
            evidence: Evidence::None,
            batch_tokens: None,
        }
    }
}

impl TranslateOptions {
    /// Appends texts to the context of the next ones, where languages are detected in order.
    pub fn follow(&mut self, texts: &[&str]) {
        if self.detection == LanguageDetection::InOrder && self.from.is_none() {
            for text in texts {
                extend_context(&mut self.context, text);
            }
        }
    }
}
