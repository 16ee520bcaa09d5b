//! Probabilities of lines and perplexity of a text.

use std::path::Path;

use polyhead_text::lines::Lines;
use rayon::prelude::*;

use super::model::NgramModel;
use super::{END, UNKNOWN};
use crate::Result;

/// Lines that are scored at once.
const CHUNK: usize = 1 << 14;

/// The probability of a line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LineScore {
    /// Log₁₀ of the probability of all words and the end of the line.
    pub log10: f64,
    /// The part of it that unknown words have.
    pub unknown_log10: f64,
    /// Words, the end of the line included.
    pub words: usize,
    /// Unknown words.
    pub unknown: usize,
}

/// The probability of a text.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TextScore {
    /// The sum over all lines.
    pub total: LineScore,
    /// Lines.
    pub lines: usize,
    /// Characters, line breaks included.
    pub characters: usize,
}

/// Called with some lines of a text and their scores.
pub type LineVisitor<'a> = &'a mut dyn FnMut(&[String], &[LineScore]) -> Result<()>;

impl TextScore {
    /// Perplexity per word, line ends included, with unknown words at the probability of `<unk>`.
    pub fn perplexity(&self) -> f64 {
        10_f64.powf(-self.total.log10 / self.total.words as f64)
    }

    /// Perplexity without unknown words.
    pub fn perplexity_known(&self) -> f64 {
        let LineScore { log10, unknown_log10, words, unknown } = self.total;
        10_f64.powf(-(log10 - unknown_log10) / (words - unknown) as f64)
    }

    /// Bits per word, line ends included.
    pub fn bits_per_word(&self) -> f64 {
        -self.total.log10 * std::f64::consts::LOG2_10 / self.total.words as f64
    }

    /// Bits per character, line breaks included.
    pub fn bits_per_character(&self) -> f64 {
        -self.total.log10 * std::f64::consts::LOG2_10 / self.characters as f64
    }
}

impl NgramModel {
    /// The probability of a line.
    pub fn score_line(&self, line: &str) -> LineScore {
        let mut score = LineScore::default();
        let mut state = self.begin();
        let mut add = |id: u32| {
            let log10 = f64::from(self.advance(&mut state, id).log10);
            score.log10 += log10;
            score.words += 1;
            if id == UNKNOWN {
                score.unknown += 1;
                score.unknown_log10 += log10;
            }
        };
        self.unit().split(line, |word| add(self.id_of(word)));
        add(END);
        score
    }

    /// The probability of every line, in order.
    pub fn score_lines(&self, lines: &[String]) -> Vec<LineScore> {
        lines.par_iter().map(|line| self.score_line(line)).collect()
    }

    /// The probability of a text file; `-` is standard input. Calls `each` with some lines and their scores.
    ///
    /// # Errors
    /// If the file cannot be read, or has no lines.
    pub fn score_text(&self, path: &Path, each: LineVisitor<'_>) -> Result<TextScore> {
        let (mut text, mut lines) = (TextScore::default(), Lines::open(path)?);
        let mut chunk = Vec::with_capacity(CHUNK);
        loop {
            chunk.clear();
            while chunk.len() < CHUNK
                && let Some(line) = lines.next_text()?
            {
                chunk.push(line.to_owned());
            }
            if chunk.is_empty() {
                break;
            }
            let scores = self.score_lines(&chunk);
            for (line, score) in chunk.iter().zip(&scores) {
                text.lines += 1;
                text.characters += line.chars().count() + 1;
                text.total.log10 += score.log10;
                text.total.unknown_log10 += score.unknown_log10;
                text.total.words += score.words;
                text.total.unknown += score.unknown;
            }
            each(&chunk, &scores)?;
        }
        if text.lines == 0 {
            return Err(polyhead_text::Error::Empty { what: path.display().to_string() }.into());
        }
        Ok(text)
    }
}
