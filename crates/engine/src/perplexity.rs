//! Perplexity of a text under a language model: exp of the mean negative log-probability of its tokens.
//!
//! A text that is longer than the context is cut into windows, which move on by a stride. A window predicts the tokens that no
//! window before it predicted, so each is predicted once, with at least context − stride tokens before it: the sliding window of
//! Hugging Face's documentation. With a stride as long as the context windows do not overlap, and the first token of each is
//! not predicted.

use polyhead_attention::{Capture, Pass};
use polyhead_tensor::Tape;
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use serde::Serialize;

use crate::generate::{Generator, TextUnits};
use crate::{Error, Result};

/// Tokens of a window for a model without a maximum length.
const CONTEXT: usize = 1024;
/// The expected id of a position that is not counted; no vocabulary is as large.
const NOT_COUNTED: u32 = u32::MAX;

/// Options of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerplexityOptions {
    /// Tokens of a window; default: the model's maximum length, or 1024 if it has none.
    pub context: Option<usize>,
    /// Tokens by which windows move on; default: half of the context.
    pub stride: Option<usize>,
}

/// The probability of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Perplexity {
    /// exp of the mean negative log-probability of a token.
    pub perplexity: f64,
    /// Mean negative natural logarithm of the probability of a token.
    pub nats_per_token: f64,
    /// The same in bits.
    pub bits_per_token: f64,
    /// Bits of the text's tokens for each character; of tokens that are not predicted, the mean.
    pub bits_per_character: f64,
    /// The same for each byte in UTF-8.
    pub bits_per_byte: f64,
    /// Tokens of the text, without a start token.
    pub tokens: usize,
    /// Tokens that were predicted.
    pub predicted: usize,
    /// Tokens that are the unknown token, whose probability does not include its spelling.
    pub unknown: usize,
    /// Characters of the text.
    pub characters: usize,
    /// Bytes of the text in UTF-8.
    pub bytes: usize,
    /// Number of windows.
    pub windows: usize,
    /// Tokens of a window.
    pub context: usize,
    /// Tokens by which windows move on.
    pub stride: usize,
}

/// A text as tokens.
struct TextTokens {
    /// The start token, if the model has one, and the text.
    ids: Vec<u32>,
    has_start: bool,
    characters: usize,
    bytes: usize,
}

/// A window: the tokens that it reads, and the first that it predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextWindow {
    start: usize,
    end: usize,
    first: usize,
}

/// Measures the perplexity of `text`; `progress` receives the tokens done and all tokens.
///
/// # Errors
/// If the text has fewer than two tokens, or an option is out of range.
pub fn perplexity(
    generator: &Generator,
    text: &str,
    options: PerplexityOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<Perplexity> {
    let [context, stride] = sizes(generator, options)?;
    let read = read(generator, text)?;
    let windows = windows(read.ids.len(), context, stride);
    let rows = (generator.parameters().device().policy().batch_tokens / context).max(1);
    let (mut nats, mut predicted, total) = (0.0, 0, read.ids.len() - 1);
    for batch in windows.chunks(rows) {
        let (sum, count) = nats_of(generator, &read.ids, batch)?;
        nats += sum;
        predicted += count;
        progress(predicted, total);
    }
    let tokens = read.ids.len() - usize::from(read.has_start);
    let unknown = generator.tokenizer().unknown_id();
    let nats_per_token = nats / predicted as f64;
    let bits = nats_per_token / std::f64::consts::LN_2;
    Ok(Perplexity {
        perplexity: nats_per_token.exp(),
        nats_per_token,
        bits_per_token: bits,
        bits_per_character: bits * tokens as f64 / read.characters as f64,
        bits_per_byte: bits * tokens as f64 / read.bytes as f64,
        tokens,
        predicted,
        unknown: read.ids.iter().filter(|id| Some(**id) == unknown).count(),
        characters: read.characters,
        bytes: read.bytes,
        windows: windows.len(),
        context,
        stride,
    })
}

/// Context and stride.
fn sizes(generator: &Generator, options: PerplexityOptions) -> Result<[usize; 2]> {
    let max_len = generator.model().max_len();
    let context = options.context.or(max_len).unwrap_or(CONTEXT);
    if let Some(max_len) = max_len.filter(|&max_len| context > max_len) {
        let message = format!("a context of {context} tokens, expected at most {max_len}, that of the model");
        return Err(Error::request(message, "leave out --context for the longest"));
    }
    if context < 2 {
        let message = format!("a context of {context} tokens, expected 2 or more");
        return Err(Error::request(message, "a token is predicted from those before it"));
    }
    let stride = options.stride.unwrap_or((context / 2).max(1));
    if !(1..=context).contains(&stride) {
        let message = format!("a stride of {stride} tokens, expected 1 to {context}, the context");
        return Err(Error::request(message, "a longer stride would leave out tokens between the windows"));
    }
    Ok([context, stride])
}

/// Reads a text as the model was trained to.
fn read(generator: &Generator, text: &str) -> Result<TextTokens> {
    let mut ids: Vec<u32> = generator.start_id().into_iter().collect();
    let (first, mut size) = (ids.len(), [text.chars().count(), text.len()]);
    match generator.units() {
        TextUnits::Documents => ids.extend(generator.tokenizer().encode(text)?.ids),
        TextUnits::Lines => {
            size = [0; 2];
            let end = generator.end_ids()[0];
            for line in text.lines() {
                ids.extend(generator.tokenizer().encode(line)?.ids);
                ids.push(end);
                size[0] += line.chars().count() + 1;
                size[1] += line.len() + 1;
            }
        }
    }
    if ids.len() < 2 {
        let message = format!("a text of {} tokens, expected some text", ids.len() - first);
        return Err(Error::request(message, "a token is predicted from those before it: give a longer text"));
    }
    let [characters, bytes] = size;
    Ok(TextTokens { ids, has_start: first > 0, characters, bytes })
}

/// The windows over `length` tokens.
fn windows(length: usize, context: usize, stride: usize) -> Vec<TextWindow> {
    let (mut windows, mut first) = (Vec::new(), 1);
    for start in (0..length).step_by(stride) {
        let end = (start + context).min(length);
        // The first token of a window has no context.
        windows.push(TextWindow { start, end, first: first.max(start + 1) });
        first = end;
        if end == length {
            break;
        }
    }
    windows.retain(|window| window.first < window.end);
    windows
}

/// The negative log-probabilities that some windows predict, and how many.
fn nats_of(generator: &Generator, all: &[u32], windows: &[TextWindow]) -> Result<(f64, usize)> {
    let (tape, capture) = (Tape::inference(), Capture::off());
    let (model, parameters) = (generator.model(), generator.parameters());
    let pass = Pass::new(&tape, parameters, &capture);
    // The last token is predicted, not read.
    let read = |window: &TextWindow| window.end - window.start - 1;
    let length = windows.iter().map(read).max().unwrap_or(0);
    let rows = windows.iter().map(|window| Some(&all[window.start..window.end - 1]));
    let ids = model.ids(rows, length).to_device(&parameters.device()).map_err(Error::from)?;
    let mut expected = vec![NOT_COUNTED; windows.len() * length];
    let mut count = 0;
    for (window, row) in windows.iter().zip(expected.chunks_exact_mut(length)) {
        let own = &all[window.first..window.end];
        row[window.first - window.start - 1..][..own.len()].copy_from_slice(own);
        count += own.len();
    }
    let expected: polyhead_tensor::Indices = expected.into();
    let expected = expected.to_device(&parameters.device())?;
    let options = CrossEntropyOptions { ignored_id: Some(NOT_COUNTED), ..CrossEntropyOptions::default() };
    let loss = model.loss(&pass, &ids, &expected, options)?;
    let mean = loss.value().to_host()?.data()[0];
    Ok((f64::from(mean) * count as f64, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_predicted_once_with_enough_before_it() {
        for (length, context, stride) in
            [(10, 4, 2), (11, 4, 3), (7, 8, 4), (100, 16, 5), (2, 2, 1), (9, 4, 1)]
        {
            let found = windows(length, context, stride);
            let mut predicted = Vec::new();
            for window in &found {
                assert!(window.end - window.start <= context);
                for token in window.first..window.end {
                    let before = token - window.start;
                    assert!(before >= (context - stride).min(token), "{found:?}");
                    predicted.push(token);
                }
            }
            assert_eq!(predicted, (1..length).collect::<Vec<_>>(), "{length} {context} {stride}");
        }
        // Windows that do not overlap: the first token of each is not predicted.
        let window = |start, end, first| TextWindow { start, end, first };
        assert_eq!(windows(9, 4, 4), [window(0, 4, 1), window(4, 8, 5)]);
        assert_eq!(windows(10, 4, 4), [window(0, 4, 1), window(4, 8, 5), window(8, 10, 9)]);
    }
}
