//! Limits on one request, and on all requests together.

use std::time::Duration;

/// Limits on one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestLimits {
    /// Bytes of a request without a file; default: 1 MiB.
    pub body: usize,
    /// Bytes of a request with a file; default: 8 MiB.
    pub file: usize,
    /// Characters of all texts together; default: 50,000.
    pub characters: usize,
    /// Characters of a file's texts together; default: 500,000.
    pub file_characters: usize,
    /// Texts of a request; default: 256.
    pub texts: usize,
    /// Bytes of a request to an encoder; default: 4 MiB.
    pub input_body: usize,
    /// Texts of a request to an encoder; default: 2048, as at OpenAI.
    pub inputs: usize,
    /// Characters of all texts of a request to an encoder together; default: 500,000. Each has at most `characters`.
    pub input_characters: usize,
    /// Translations of a text, alternatives included; default: 9.
    pub n_best: usize,
    /// Hypotheses of beam search; default: 16.
    pub beam_size: usize,
    /// New tokens of a generated text; default: 4096.
    pub new_tokens: usize,
    /// Generated texts for each prompt; default: 16.
    pub samples: usize,
    /// Sentences of a request with `attention`; default: 4.
    pub attention_sentences: usize,
    /// Tokens of such a sentence; default: 128.
    pub attention_tokens: usize,
    /// Bytes of a request with a sound; default: 25 MiB, as at OpenAI.
    pub sound: usize,
    /// Seconds of a sound; default: an hour.
    pub sound_seconds: f64,
    /// Millions of pixels of an image; default: 64.
    pub megapixels: f64,
    /// Time limit of a request; default: 30 s.
    pub deadline: Duration,
    /// Time limit of a file or a sound; default: 10 minutes.
    pub file_deadline: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body: 1 << 20,
            file: 8 << 20,
            characters: 50_000,
            file_characters: 500_000,
            texts: 256,
            input_body: 4 << 20,
            inputs: 2048,
            input_characters: 500_000,
            n_best: 9,
            beam_size: 16,
            new_tokens: 4096,
            samples: 16,
            attention_sentences: 4,
            attention_tokens: 128,
            sound: 25 << 20,
            sound_seconds: polyhead_engine::speech::MOST_SECONDS,
            megapixels: polyhead_engine::image::ImageLimits::default().max_megapixels,
            deadline: Duration::from_secs(30),
            file_deadline: Duration::from_secs(600),
        }
    }
}
