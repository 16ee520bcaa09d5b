//! The trace of a caption: the patches of an image that each word attends to (Xu et al. 2015, "Show, Attend and Tell").

use std::path::Path;

use polyhead_attention::{Intervention, Sites};
use polyhead_engine::CaptionEngine;
use polyhead_engine::image::{CaptionOptions, Picture};
use polyhead_text::tokenizer::Encoding;

use super::image::{grid, patch_side};
use super::{AttentionWeights, Trace, TraceOutcome, TraceSide};
use crate::Result;
use crate::heat_map::HeatMap;
use crate::matrix::Matrix;

/// Name of the sequence that the model writes.
const TARGET: &str = "target";
/// Label of the token that ends a caption.
const END: &str = "end";

/// A caption, and the image as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct CaptionTrace {
    /// The image, resized and cropped.
    pub picture: Picture,
    /// Rows and columns of its patches.
    pub grid: [usize; 2],
    /// The caption.
    pub text: String,
    /// Mean log-probability of its tokens, the end token included.
    pub log_probability: f64,
}

impl CaptionTrace {
    /// Weights of tokens (tokens × patches) as those of words: the mean over a word's tokens.
    pub fn words(&self, written: &TraceSide, weights: &Matrix) -> Vec<(String, Vec<f32>)> {
        let words = written.words.iter().enumerate().map(|(index, span)| {
            let own =
                written.tokens.iter().zip(weights.rows()).filter(|(token, _)| token.word == Some(index));
            let rows: Vec<&[f32]> = own.map(|(_, row)| row).collect();
            let mut mean = vec![0.0; weights.n_columns()];
            for row in &rows {
                mean.iter_mut().zip(*row).for_each(|(sum, weight)| *sum += weight / rows.len() as f32);
            }
            (written.text[span.clone()].to_owned(), mean)
        });
        words.collect()
    }

    /// Heat-maps of tokens as a heat-map of patches in their places for each word.
    pub fn grids(&self, written: &TraceSide, maps: &[HeatMap]) -> Vec<HeatMap> {
        let all = maps.iter().flat_map(|map| {
            let words = self.words(written, &map.numbers).into_iter();
            words.map(|(word, weights)| grid(format!("{word} ({})", map.title), self.grid, weights))
        });
        all.collect()
    }
}

impl Trace {
    /// The caption of an image with the cross-attention of its tokens; `name` is the name of the image in labels.
    ///
    /// # Errors
    /// If an option does not fit the model, or the device fails.
    pub fn of_caption(
        engine: &CaptionEngine,
        picture: &Picture,
        name: &Path,
        options: &CaptionOptions,
    ) -> Result<Self> {
        let found = engine.attend(picture, options)?;
        let attentions = found.attention.into_iter().map(|attention| {
            let &[n_heads, tokens, length] = attention.weights.shape() else { unreachable!("three axes") };
            let heads = attention.weights.data().chunks_exact(tokens * length);
            let weights = heads.map(|head| Matrix::new(length, head.to_vec())).collect();
            AttentionWeights { site: attention.site, heads: (0..n_heads).collect(), weights }
        });
        Ok(Self {
            attentions: attentions.collect(),
            sites: Sites::new(vec![engine.model().decoder().cross_attention()]),
            d_model: engine.model().config().d_model,
            sides: vec![patch_side(0, found.grid, name), written(engine, &found.caption.ids)?],
            outcome: TraceOutcome::Caption(CaptionTrace {
                picture: found.picture,
                grid: found.grid,
                text: found.caption.text,
                log_probability: found.caption.log_probability,
            }),
            vectors: Vec::new(),
            intervention: Intervention::default(),
        })
    }

    /// The caption, if the model is a captioner.
    pub fn caption(&self) -> Option<&CaptionTrace> {
        match &self.outcome {
            TraceOutcome::Caption(found) => Some(found),
            _ => None,
        }
    }
}

/// The text of a caption with its end token; the range of a token is what it adds to the text before it.
fn written(engine: &CaptionEngine, ids: &[u32]) -> Result<TraceSide> {
    let text = engine.text(ids)?;
    let (mut offsets, mut pieces, mut end) = (Vec::new(), Vec::new(), 0);
    for count in 1..=ids.len() {
        let so_far = engine.text(&ids[..count])?;
        let far = if text.starts_with(&so_far) { so_far.len().max(end) } else { end };
        pieces.push(text[end..far].to_owned());
        offsets.push(end..far);
        end = far;
    }
    offsets.push(end..end);
    pieces.push(END.to_owned());
    let ids = ids.iter().copied().chain([engine.model().special_ids().end_id]).collect();
    Ok(TraceSide::new(TARGET, &text, Encoding { ids, pieces, offsets }))
}
