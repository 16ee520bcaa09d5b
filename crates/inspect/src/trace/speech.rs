//! The trace of a speech recogniser's text: which part of a sound each token attends to.

use polyhead_attention::{Intervention, Sites};
use polyhead_engine::SpeechEngine;
use polyhead_engine::speech::{TranscribeOptions, Word};
use polyhead_text::tokenizer::Encoding;

use super::{AttentionWeights, Trace, TraceOutcome, TraceSide};
use crate::Result;
use crate::matrix::Matrix;

/// Name of the sequence that the model writes.
const TARGET: &str = "target";
/// Name of the sequence that it reads.
const FRAMES: &str = "frames";
/// Label of the token that ends a text.
const END: &str = "end";
/// Most columns of a picture, besides that of padding.
const COLUMNS: usize = 120;
/// Seconds of a position of the encoder.
const POSITION: f64 = 0.02;

/// The text of a sound.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechTrace {
    /// The text.
    pub text: String,
    /// Seconds of sound that were read.
    pub seconds: f64,
    /// Seconds of a column of the weights.
    pub step: f64,
    /// Its words with their times.
    pub words: Vec<Word>,
    /// The log-mel frames: the mean of each column × bands.
    pub mel: Matrix,
}

impl Trace {
    /// The cross-attention from the text of a sound, samples at the rate of the model, to its parts; of a sound that is longer
    /// than the model's window, the first window. Weights of neighbouring positions are added up, so that there are at most 120
    /// columns; the last column is what is left for padding.
    ///
    /// # Errors
    /// If an option does not fit the model, or the device fails.
    pub fn of_speech(engine: &SpeechEngine, samples: &[f32], options: &TranscribeOptions) -> Result<Self> {
        let (ids, words, found) = engine.attention(samples, options)?;
        let config = engine.model().config();
        let frames = engine.features().n_frames(samples.len()).min(config.max_frames);
        let positions = frames.div_ceil(2).max(1);
        let together = positions.div_ceil(COLUMNS);
        let columns = positions.div_ceil(together);
        let attentions = found.into_iter().map(|attention| {
            let &[n_heads, tokens, length] = attention.weights.shape() else { unreachable!("three axes") };
            let head = |head: usize| {
                let rows = attention.weights.data()[head * tokens * length..(head + 1) * tokens * length]
                    .chunks_exact(length);
                let sums = rows.flat_map(|row| {
                    let (sound, padding) = row.split_at(positions.min(length));
                    let mut sums: Vec<f32> = sound.chunks(together).map(|part| part.iter().sum()).collect();
                    sums.push(padding.iter().sum());
                    sums
                });
                Matrix::new(columns + 1, sums.collect())
            };
            AttentionWeights {
                site: attention.site,
                heads: (0..n_heads).collect(),
                weights: (0..n_heads).map(head).collect(),
            }
        });
        let mel = mel(engine, samples, (frames, 2 * together));
        let step = together as f64 * POSITION;
        let times = (0..columns).map(|column| (column as u32, format!("{:.2}", column as f64 * step)));
        let piece = |id: &u32| (*id, engine.tokenizer().decode(&[*id]).unwrap_or_default());
        let end = (engine.model().special_ids().end_id, END.to_owned());
        Ok(Self {
            sites: Sites::new(vec![engine.model().decoder().cross_attention()]),
            d_model: config.d_model,
            sides: vec![
                side(FRAMES, times.chain([(columns as u32, "padding".to_owned())])),
                side(TARGET, ids.iter().map(piece).chain([end])),
            ],
            outcome: TraceOutcome::Speech(SpeechTrace {
                text: engine.text(&ids)?,
                seconds: config.seconds(frames),
                step,
                words,
                mel,
            }),
            attentions: attentions.collect(),
            vectors: Vec::new(),
            intervention: Intervention::default(),
        })
    }
}

/// The mean of each `together` log-mel frames of a sound, of which `frames` are read.
fn mel(engine: &SpeechEngine, samples: &[f32], (frames, together): (usize, usize)) -> Matrix {
    let n_mels = engine.model().config().n_mels;
    let all =
        engine.features().frames(&samples[..samples.len().min(frames * engine.features().hop())], frames);
    let mut means = Vec::with_capacity(frames.div_ceil(together) * n_mels);
    for part in all.chunks(together * n_mels) {
        let count = (part.len() / n_mels) as f32;
        let band = |band: usize| part.iter().skip(band).step_by(n_mels).sum::<f32>() / count;
        means.extend((0..n_mels).map(band));
    }
    Matrix::new(n_mels, means)
}

/// A sequence of labels, separated by spaces.
fn side(name: &'static str, tokens: impl Iterator<Item = (u32, String)>) -> TraceSide {
    let (mut text, mut offsets, mut ids, mut pieces) = (String::new(), Vec::new(), Vec::new(), Vec::new());
    for (id, label) in tokens {
        let start = text.len();
        text += label.trim();
        offsets.push(start..text.len());
        text.push(' ');
        ids.push(id);
        pieces.push(label);
    }
    TraceSide::new(name, &text, Encoding { ids, pieces, offsets })
}
