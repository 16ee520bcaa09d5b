//! Vectors of texts, and of each token in its context.
//!
//! A sentence-transformers folder says how states become a vector. Without one, the vector of an encoder is the mean of its
//! states, and that of a classifier trained by Polyhead the vector that its classes are computed from.

use std::ops::Range;

use polyhead_attention::{Pass, Watch};
use polyhead_models::Ids;
use polyhead_models::encoder::EncoderHead;
use rayon::prelude::*;

use super::modules::{Normalisation, SentencePooling, normalise};
use super::{LongTexts, TextEncoder, TextInput};
use crate::Result;

/// The vector of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextVector {
    /// The vector.
    pub vector: Vec<f32>,
    /// Number of tokens that were read, special tokens included.
    pub n_tokens: usize,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

/// The vector of a token in its context.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenVector {
    /// The token as the vocabulary spells it.
    pub token: String,
    /// Its bytes in the text; empty for a special token.
    pub range: Range<usize>,
    /// The state of the last layer.
    pub vector: Vec<f32>,
}

/// The vectors of the tokens of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenVectors {
    /// The tokens, special tokens included.
    pub tokens: Vec<TokenVector>,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

impl TextEncoder {
    /// True if vectors are means of states because the folder does not say otherwise.
    pub fn pools_by_default(&self) -> bool {
        self.modules.is_none() && self.model.has_special_tokens()
    }

    /// A vector for each text; an error for one that is empty or too long.
    ///
    /// # Errors
    /// If the device fails.
    pub fn embed(&self, texts: &[&str], long: LongTexts) -> Result<Vec<Result<TextVector>>> {
        let inputs = texts.par_iter().map(|text| self.prepare(text, None, long)).collect();
        let found = self
            .run(inputs, |pass, ids, rows| self.batch_vectors((pass, ids), rows, Normalisation::AsModel))?;
        let text = |(vector, input): (Vec<f32>, TextInput)| TextVector {
            vector,
            n_tokens: input.encoding.len(),
            cut_from: input.cut_from,
        };
        Ok(found.into_iter().map(|found| found.map(text)).collect())
    }

    /// The vector of each text that was prepared, as long as they are wanted.
    ///
    /// # Errors
    /// If they are no longer wanted, or the device fails.
    pub fn vectors(
        &self,
        inputs: &[&TextInput],
        normalisation: Normalisation,
        watch: Option<Watch<'_>>,
    ) -> Result<Vec<Vec<f32>>> {
        self.run_read(inputs, watch, |pass, ids, rows| self.batch_vectors((pass, ids), rows, normalisation))
    }

    fn batch_vectors(
        &self,
        (pass, ids): (&Pass<'_>, &Ids),
        rows: &[&TextInput],
        normalisation: Normalisation,
    ) -> Result<Vec<Vec<f32>>> {
        if self.modules.is_none() && !self.model.has_special_tokens() {
            let pooled = self.model.pooled(pass, ids)?.value().to_host()?;
            let width = pooled.shape()[1];
            let mut vectors: Vec<Vec<f32>> = pooled.data().chunks_exact(width).map(<[f32]>::to_vec).collect();
            if normalisation == Normalisation::Unit {
                for vector in &mut vectors {
                    normalise(vector);
                }
            }
            return Ok(vectors);
        }
        let vector = |states: &[f32], width: usize| self.vector_of(states, width, normalisation);
        self.map_states((pass, ids), rows, vector)
    }

    /// What `map` makes of the states of each row, n_tokens × width.
    fn map_states<T>(
        &self,
        (pass, ids): (&Pass<'_>, &Ids),
        rows: &[&TextInput],
        map: impl Fn(&[f32], usize) -> T,
    ) -> Result<Vec<T>> {
        let states = self.model.states(pass, ids)?.value().to_host()?;
        let [length, width] = [states.shape()[1], states.shape()[2]];
        let own = |(index, row): (usize, &&TextInput)| {
            map(&states.data()[index * length * width..][..row.encoding.len() * width], width)
        };
        Ok(rows.iter().enumerate().map(own).collect())
    }

    /// The states of the tokens of each text that was read, n_tokens × d_model, as long as they are wanted.
    ///
    /// # Errors
    /// If they are no longer wanted, the model has no states, or the device fails.
    pub fn token_states(&self, inputs: &[&TextInput], watch: Option<Watch<'_>>) -> Result<Vec<Vec<f32>>> {
        self.run_read(inputs, watch, |pass, ids, rows| {
            self.map_states((pass, ids), rows, |states, _| states.to_vec())
        })
    }

    /// A text as `embed` reads it: with the prompt of a sentence-transformers folder.
    pub fn prepared(&self, text: &str) -> String {
        self.modules.as_ref().map_or_else(|| text.to_owned(), |modules| modules.prepared(text, None))
    }

    /// The vector of a text from the states of its tokens, n_tokens × `width`: what the folder's modules make of them, or their
    /// mean.
    pub fn vector_of(&self, states: &[f32], width: usize, normalisation: Normalisation) -> Vec<f32> {
        if let Some(modules) = &self.modules {
            return modules.vector(states, width, normalisation);
        }
        let mut vector = SentencePooling::Mean.vector(states, width);
        if normalisation == Normalisation::Unit {
            normalise(&mut vector);
        }
        vector
    }

    /// The vectors of the tokens of each text; an error for one that is empty or too long.
    ///
    /// # Errors
    /// If the model has no states, or the device fails.
    pub fn embed_tokens(&self, texts: &[&str], long: LongTexts) -> Result<Vec<Result<TokenVectors>>> {
        let found = self.run(self.read_all(texts, long), |pass, ids, rows| {
            let tokens = |states: &[f32], width| states.chunks_exact(width).map(<[f32]>::to_vec).collect();
            self.map_states((pass, ids), rows, tokens)
        })?;
        let tokens = |(vectors, input): (Vec<Vec<f32>>, TextInput)| {
            let tokens = input.encoding.pieces.into_iter().zip(input.encoding.offsets).zip(vectors);
            let tokens =
                tokens.map(|((token, range), vector)| TokenVector { token, range, vector }).collect();
            TokenVectors { tokens, cut_from: input.cut_from }
        };
        Ok(found.into_iter().map(|found| found.map(tokens)).collect())
    }

    /// True if the model has class scores of texts.
    pub fn has_classes(&self) -> bool {
        self.model.head() == EncoderHead::Classes
    }
}

/// The cosine of the angle between two vectors: 1 for the same direction, 0 if one of them is zero.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let lengths = (product(a, a) * product(b, b)).sqrt();
    if lengths == 0.0 { 0.0 } else { product(a, b) / lengths }
}
