//! How much one request may ask for, and how much all together may send.

use std::time::Duration;

/// How much one request may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes of a request that carries no file; 1 MiB.
    pub body: usize,
    /// Bytes of a request that carries a file; 8 MiB.
    pub file: usize,
    /// Bytes of all requests together that are read and not answered yet; 64 MiB.
    pub bodies: usize,
    /// Characters of all texts together; 50,000.
    pub characters: usize,
    /// Characters of a file's texts together; 500,000.
    pub file_characters: usize,
    /// Texts of a request; 256.
    pub texts: usize,
    /// Translations of a text, alternatives included; 9.
    pub n_best: usize,
    /// Hypotheses of a search; 16.
    pub beam_size: usize,
    /// Sentences of a request that attention is shown of; 4.
    pub attention_sentences: usize,
    /// Tokens of such a sentence; 128.
    pub attention_tokens: usize,
    /// How long a request may take; 30 s.
    pub deadline: Duration,
    /// How long a file may take; 10 minutes.
    pub file_deadline: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body: 1 << 20,
            file: 8 << 20,
            bodies: 64 << 20,
            characters: 50_000,
            file_characters: 500_000,
            texts: 256,
            n_best: 9,
            beam_size: 16,
            attention_sentences: 4,
            attention_tokens: 128,
            deadline: Duration::from_secs(30),
            file_deadline: Duration::from_secs(600),
        }
    }
}
