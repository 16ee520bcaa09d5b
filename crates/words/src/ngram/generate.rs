//! Text drawn from an n-gram model, word by word.

use polyhead_random::Random;
use rayon::prelude::*;

use super::count::TextUnit;
use super::model::NgramModel;
use super::{BEGIN, END, UNKNOWN};
use crate::{Error, Result};

/// Options of generation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerateOptions {
    /// Maximum number of new words; default: 64.
    pub max_words: usize,
    /// Temperature, which divides the logarithms of probabilities; default: 1. At 0 the most probable word is taken.
    pub temperature: f64,
    /// Random seed; default: 0.
    pub seed: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { max_words: 64, temperature: 1.0, seed: 0 }
    }
}

/// A generated continuation.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The text after the prompt.
    pub text: String,
    /// Log₁₀ of the probability of its words, and of the end of the line if it was drawn.
    pub log10: f64,
}

impl NgramModel {
    /// Continues a prompt up to the end of a line; `number` tells prompts with the same seed apart.
    ///
    /// # Errors
    /// If the temperature is out of range.
    pub fn generate(&self, prompt: &str, number: u64, options: &GenerateOptions) -> Result<Generated> {
        if !(options.temperature >= 0.0 && options.temperature.is_finite()) {
            return Err(Error::request(
                format!("temperature {}, expected a number not below 0", options.temperature),
                "1 draws from the model, 0 takes the most probable word",
            ));
        }
        let (mut state, mut is_first) = (self.begin(), true);
        self.unit().split(prompt, |word| {
            self.advance(&mut state, self.id_of(word));
            is_first = false;
        });
        let random = Random::new(options.seed).stream(number);
        let (mut text, mut log10) = (String::new(), 0.0);
        for step in 0..options.max_words {
            let scores: Vec<f32> = (0..self.vocab_size() as u32)
                .into_par_iter()
                .map(
                    |id| if id == UNKNOWN || id == BEGIN { f32::NEG_INFINITY } else { self.next(&state, id) },
                )
                .collect();
            let id = draw(&scores, options.temperature, random.uniform(step as u64));
            log10 += f64::from(scores[id as usize]);
            if id == END {
                break;
            }
            self.advance(&mut state, id);
            match self.unit() {
                TextUnit::Word if is_first => text += self.word(id),
                TextUnit::Word => text = text + " " + self.word(id),
                TextUnit::Character => text += &self.word(id).replace('▁', " "),
            }
            is_first = false;
        }
        Ok(Generated { text, log10 })
    }
}

/// The index drawn by a uniform number in [0, 1).
fn draw(scores: &[f32], temperature: f64, uniform: f64) -> u32 {
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if temperature == 0.0 {
        return scores.iter().position(|score| *score == best).unwrap_or(0) as u32;
    }
    let weight = |score: &f32| 10_f64.powf(f64::from(score - best) / temperature);
    let mut rest = uniform * scores.iter().map(weight).sum::<f64>();
    for (index, score) in scores.iter().enumerate() {
        rest -= weight(score);
        if rest < 0.0 {
            return index as u32;
        }
    }
    END
}
