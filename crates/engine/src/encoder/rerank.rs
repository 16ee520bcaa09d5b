//! Reranking (Nogueira & Cho 2019): a cross-encoder reads a query and a document together, and gives the pair a score.

use std::path::Path;

use polyhead_models::encoder::EncoderHead;
use rayon::prelude::*;

use super::{LongTexts, TextEncoder};
use crate::load::LoadOptions;
use crate::{Error, Result};

/// Scores documents for a query.
#[derive(Debug)]
pub struct Reranker {
    encoder: TextEncoder,
}

/// The score of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct RerankScore {
    /// The number of the document, from 0.
    pub document: usize,
    /// The score: the logit of the model's only class.
    pub logit: f32,
    /// Number of tokens of the pair before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

impl RerankScore {
    /// The score between 0 and 1, 1/(1 + e^−logit).
    pub fn probability(&self) -> f64 {
        1.0 / (1.0 + (-f64::from(self.logit)).exp())
    }
}

impl Reranker {
    /// Loads a classifier of texts with one label.
    ///
    /// # Errors
    /// If the folder holds no encoder with its tokeniser, or one with more labels.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let encoder = TextEncoder::load(folder, options)?;
        encoder.expect_head(EncoderHead::Classes)?;
        let n_labels = encoder.model.labels().len();
        if n_labels != 1 {
            let message = format!(
                "a classifier with {n_labels} labels, expected one label, whose score is that of a pair"
            );
            return Err(Error::file(&encoder.folder, message, "use it with polyhead classify"));
        }
        Ok(Self { encoder })
    }

    /// The encoder.
    pub fn encoder(&self) -> &TextEncoder {
        &self.encoder
    }

    /// The score of each document, in order; an error for one that is too long.
    ///
    /// # Errors
    /// If the device fails.
    pub fn scores(
        &self,
        query: &str,
        documents: &[&str],
        long: LongTexts,
    ) -> Result<Vec<Result<RerankScore>>> {
        let encoder = &self.encoder;
        let inputs = documents.par_iter().map(|document| encoder.read_pair(query, document, long)).collect();
        let found = encoder.run(inputs, |pass, ids, _| {
            Ok(encoder.model.classify(pass, ids)?.value().to_host()?.data().to_vec())
        })?;
        let score = |(document, found): (usize, Result<(f32, super::TextInput)>)| {
            found.map(|(logit, input)| RerankScore { document, logit, cut_from: input.cut_from })
        };
        Ok(found.into_iter().enumerate().map(score).collect())
    }
}
