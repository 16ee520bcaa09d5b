//! Rules for tokens: which tokens are forbidden or forced next, given the history.
//!
//! Each rule modifies the scores of one row; −∞ forbids a token. They apply in the order of Hugging Face's `generate`
//! (transformers 4.57, `_get_logits_processor`): biases, repetition penalty, n-grams, suppressed sequences, minimum length,
//! forced first token, forced end, decay, suppressed tokens, timestamps, renormalisation. As there, scores are log-probabilities in
//! beam search, which are renormalised only on demand, and logits in greedy decoding and sampling. The history begins with
//! the start token. A forced token scores 0, so it counts as certain. A prefix is given, not chosen: no rule changes it,
//! and its tokens do not count in the length that scores are divided by.
//!
//! ```
//! use polyhead_models::decode::rules::Rules;
//! let rules = Rules { suppressed: vec![vec![7], vec![3, 4]], no_repeat_ngram: 3, ..Rules::default() };
//! assert_eq!(rules.repetition_penalty, 1.0); // none
//! ```

mod bias;
mod decay;
mod forced;
mod min_length;
mod no_repeat;
mod repetition;
mod sentence;
mod suppress;
mod timestamps;

pub use bias::SequenceBias;
pub use decay::EndDecay;
pub(super) use sentence::SentenceRules;
pub use timestamps::Timestamps;

/// Forbidden and forced tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Sequences of tokens that must not occur (`bad_words_ids`); default: none. An end token alone is never forbidden.
    pub suppressed: Vec<Vec<u32>>,
    /// Tokens that must not occur, an end token included (`suppress_tokens`); default: none.
    pub forbidden: Vec<u32>,
    /// Tokens that must not be the first after the prefix or the forced first token (`begin_suppress_tokens`); default:
    /// none.
    pub forbidden_first: Vec<u32>,
    /// Numbers added to the scores of tokens that complete a sequence (`sequence_bias`); default: none.
    pub biases: Vec<SequenceBias>,
    /// No sequence of this many tokens occurs twice; default: 0, no such rule.
    pub no_repeat_ngram: usize,
    /// Divides the scores of tokens in the history if positive, multiplies them if negative; default: 1, no penalty.
    pub repetition_penalty: f32,
    /// True if the source belongs to the history, as the prompt of a language model does; default: false.
    pub includes_source: bool,
    /// The forced prefix of each sentence's translation, in the order of the sources; default: none.
    pub prefixes: Vec<Vec<u32>>,
    /// The first token of a sequence without a prefix (`forced_bos_token_id`); default: none.
    pub forced_first: Option<u32>,
    /// Tokens that end a sequence besides [`super::DecodeOptions::end_id`] (further ids of `eos_token_id`); default: none.
    pub other_end_ids: Vec<u32>,
    /// Raises the scores of end tokens with the length (`exponential_decay_length_penalty`); default: none.
    pub end_decay: Option<EndDecay>,
    /// The treatment of a sequence at its maximum length; default: it is truncated.
    pub at_limit: AtLimit,
    /// The rules of timestamps of a speech recogniser; default: none.
    pub timestamps: Option<Timestamps>,
    /// True if the probabilities of the tokens that are left sum to 1 again (`renormalize_logits`); default: false.
    pub renormalise: bool,
}

/// The treatment of a sequence at its maximum length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AtLimit {
    /// The sequence is truncated, whatever its last token.
    #[default]
    Cut,
    /// The last token is [`super::DecodeOptions::end_id`].
    ForceEnd,
    /// The last token is one of these (`forced_eos_token_id`).
    Force(Vec<u32>),
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            suppressed: Vec::new(),
            forbidden: Vec::new(),
            forbidden_first: Vec::new(),
            biases: Vec::new(),
            no_repeat_ngram: 0,
            repetition_penalty: 1.0,
            includes_source: false,
            prefixes: Vec::new(),
            forced_first: None,
            other_end_ids: Vec::new(),
            end_decay: None,
            at_limit: AtLimit::Cut,
            timestamps: None,
            renormalise: false,
        }
    }
}
