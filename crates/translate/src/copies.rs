//! The words of a translation that the model copied from its source (pointer-generator models).
//!
//! A token is copied if more than half of its probability is that of copying. A word is copied if one of its tokens is; its
//! source word is that of the source token with the largest weight.

use std::ops::Range;

use polyhead_models::decode::Hypothesis;
use serde::Serialize;

use crate::search::DecoderInput;
use crate::words::{word_at, words};
use crate::{Engine, Error, Result};

/// The share of copying above which a token is copied.
const COPIED: f32 = 0.5;

/// A copied word.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopiedWord {
    /// The word as it was written.
    pub word: String,
    /// The source word, from 0; none where the source token belongs to no word.
    pub source: Option<usize>,
    /// The word of the translation, from 0.
    pub target: usize,
    /// The share of copying in its probability, from 0 to 1.
    pub share: f32,
}

/// What was decoded of a segment: the texts around it, what the model read and wrote, and where.
pub(crate) struct DecodedPart<'a> {
    pub(crate) input: &'a DecoderInput,
    pub(crate) best: &'a Hypothesis,
    /// Bytes of the source text of each source token.
    pub(crate) source_spans: Vec<Range<usize>>,
    /// The byte of the translation where this part begins.
    pub(crate) target: usize,
}

impl Engine {
    /// The error for a model that only generates.
    pub(crate) fn check_copies(&self) -> Result<()> {
        if self.model.copies() {
            return Ok(());
        }
        Err(Error::request(
            "copied words of a model that only generates, expected a model with copying",
            "train one with model.copy = \"pointer_generator\"",
        ))
    }

    /// The copied words of the best translation of a text.
    pub(crate) fn copied_words(
        &self,
        [source, target]: [&str; 2],
        parts: &[DecodedPart<'_>],
    ) -> Result<Vec<CopiedWord>> {
        let (source_words, target_words) = (words(source), words(target));
        let mut copied: Vec<CopiedWord> = Vec::new();
        for DecodedPart { input, best, source_spans, target: start } in parts {
            let start_id = self.generation().start_id;
            let shares = self
                .in_turn(|| self.model.copy_shares(&self.parameters, [&input.source, &best.ids], start_id))?;
            let mut end = 0;
            for (count, share) in shares.into_iter().flatten().enumerate() {
                let written = self.decode_of(&best.ids[..=count], &input.words)?.len();
                let span = start + end..start + written.max(end);
                end = written.max(end);
                let Some(word) = word_at(&target_words, &span).filter(|_| share.share > COPIED) else {
                    continue;
                };
                let source = share.position.and_then(|position| source_spans.get(position));
                let source = source.and_then(|span| word_at(&source_words, span));
                match copied.last_mut().filter(|last| last.target == word) {
                    Some(last) => last.share = last.share.max(share.share),
                    None => copied.push(CopiedWord {
                        word: target[target_words[word].clone()].to_owned(),
                        source,
                        target: word,
                        share: share.share,
                    }),
                }
            }
        }
        Ok(copied)
    }
}
