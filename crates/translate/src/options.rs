//! What is wanted of a translation.

use crate::guess::extend_context;

/// What is done to a text besides decoding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Sentences are translated one by one, long ones in parts, loops are decoded again, and layout is kept. A model that
    /// says what it was trained on goes in two steps where it must; one with placeholders keeps addresses, emoji, numbers
    /// and what it cannot spell.
    #[default]
    Guarded,
    /// Nothing: the model's own decoding of the text as one sentence.
    Raw,
}

/// The function of the length that a sum of log-probabilities is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LengthFormula {
    /// n^α.
    #[default]
    Power,
    /// ((5 + n) / 6)^α (Wu et al. 2016).
    Wu,
}

/// How the languages of texts are guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guessing {
    /// Each text by itself.
    #[default]
    Each,
    /// Texts are the lines of one file: a text is of another language than those before it only if that is clear.
    InOrder,
}

/// Whether word alignments are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Evidence {
    /// They are not.
    #[default]
    None,
    /// They are, from the attention of the model.
    Alignment,
}

/// Drawing tokens instead of searching for the best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// What logits are divided by; 1.
    pub temperature: f32,
    /// How many of the most probable tokens are left; 0 for all.
    pub top_k: usize,
    /// The probability that the tokens left reach together; 1 for all.
    pub top_p: f32,
    /// Tokens less probable than this share of the most probable are left out; 0 for none.
    pub min_p: f32,
    /// Another seed, other samples; 0.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 }
    }
}

/// How to translate. What is `None` is as the model's folder says.
#[derive(Debug, Clone, PartialEq)]
pub struct TranslateOptions {
    /// What is done besides decoding; everything.
    pub mode: Mode,
    /// The language of the texts; the model's only one, or guessed.
    pub from: Option<String>,
    /// The language to translate into; the model's only one, what a tag in the text says, or English, and Turkish for what
    /// is English.
    pub to: Option<String>,
    /// How languages are guessed where `from` says none and the model says what it was trained on; each by itself.
    pub guessing: Guessing,
    /// What came before the texts, for guessing in order; nothing. See [`TranslateOptions::follow`].
    pub context: String,
    /// Hypotheses followed; 1 is greedy.
    pub beam_size: Option<usize>,
    /// Most tokens of each sentence's translation, the end token included.
    pub max_length: Option<usize>,
    /// The exponent α of the length penalty.
    pub length_penalty: Option<f64>,
    /// The formula of the length penalty; n^α.
    pub length_formula: LengthFormula,
    /// Translations to return for each text, best first; 1.
    pub n_best: usize,
    /// Draw instead of searching; no.
    pub sampling: Option<Sampling>,
    /// What the translation of each text begins with; nothing.
    pub prefix: String,
    /// No sequence of this many tokens twice.
    pub no_repeat_ngram: Option<usize>,
    /// What makes tokens that came before less likely.
    pub repetition_penalty: Option<f32>,
    /// What is computed besides the translation; nothing.
    pub evidence: Evidence,
    /// Most source tokens decoded together, padding included; 1024, on a card 16,384. On the processor never more sentences than
    /// have 24 hypotheses together.
    pub batch_tokens: Option<usize>,
}

impl Default for TranslateOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Guarded,
            from: None,
            to: None,
            guessing: Guessing::Each,
            context: String::new(),
            beam_size: None,
            max_length: None,
            length_penalty: None,
            length_formula: LengthFormula::Power,
            n_best: 1,
            sampling: None,
            prefix: String::new(),
            no_repeat_ngram: None,
            repetition_penalty: None,
            evidence: Evidence::None,
            batch_tokens: None,
        }
    }
}

impl TranslateOptions {
    /// Lets the next texts come after these, where languages are guessed in order.
    pub fn follow(&mut self, texts: &[&str]) {
        if self.guessing == Guessing::InOrder && self.from.is_none() {
            for text in texts {
                extend_context(&mut self.context, text);
            }
        }
    }
}
