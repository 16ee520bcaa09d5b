//! The layers of a speech recogniser.

use polyhead_attention::layers::Embedding;
use polyhead_attention::position::Learned;
use polyhead_attention::{AttentionKind, Builder, Mask, Pass, SiteGroup, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Indices, Parameters, Tensor, Var};

use super::config::SpeechConfig;
use super::frames::Frames;
use super::stem::Stem;
use crate::Result;
use crate::ids::Ids;
use crate::sequence_to_sequence::SpecialIds;
use crate::transformer::config::{CrossProjection, NormOrder, PositionConfig};
use crate::transformer::cross::{CrossOptions, Source};
use crate::transformer::decoder::{DecoderStack, DecoderState, Replay};
use crate::transformer::input::{InputOptions, sinusoidal};
use crate::transformer::stack::{LayerOptions, SpecialLayers, Stack, StackOptions};

/// Self-attention over the positions of the encoder, two frames each.
const ENCODER: AttentionKind = AttentionKind::self_attention(0, "encoder", "frames");
/// Causal self-attention over the text.
const DECODER: AttentionKind = AttentionKind::self_attention(1, "decoder", "target").causal();
/// Cross-attention from the text to the sound.
const CROSS: AttentionKind = AttentionKind::cross_attention(2, "cross", "decoder", ["target", "frames"]);

/// A speech recogniser.
#[derive(Debug, Clone)]
pub struct SpeechRecognizer {
    config: SpeechConfig,
    stem: Stem,
    /// The table of encoder positions, if it is learned.
    positions: Option<Learned>,
    encoder: Stack,
    decoder: DecoderStack,
    /// Embeddings of tokens, and the output layer.
    embedding: Embedding,
}

/// The encoder states of several sounds.
#[derive(Debug, Clone)]
pub struct EncodedSpeech {
    /// rows × positions × d_model.
    states: Var,
    /// Number of positions of each row.
    lengths: Vec<u32>,
}

impl EncodedSpeech {
    /// Number of positions of each sound.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// One of the sounds.
    ///
    /// # Errors
    /// If there is no such sound.
    pub fn one(&self, pass: &Pass<'_>, row: usize) -> Result<Self> {
        self.select(pass, &[row])
    }

    /// The sounds in `rows`, in that order.
    pub(super) fn select(&self, pass: &Pass<'_>, rows: &[usize]) -> Result<Self> {
        if rows.iter().copied().eq(0..self.lengths.len()) {
            return Ok(self.clone());
        }
        let row = |&row: &usize| slice(pass.tape, &self.states, 0, row..row + 1);
        let parts = rows.iter().map(row).collect::<polyhead_tensor::Result<Vec<Var>>>()?;
        let states = concat(pass.tape, &parts.iter().collect::<Vec<_>>(), 0)?;
        Ok(Self { states, lengths: rows.iter().map(|&row| self.lengths[row]).collect() })
    }
}

impl SpeechRecognizer {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &SpeechConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &SpeechConfig { vocab_size, d_model, n_mels, .. } = config;
        let embedding = Embedding::new(&mut builder.at("embedding"), vocab_size, d_model);
        let stem = Stem::new(&mut builder.at("stem"), n_mels, d_model);
        let positions = (config.encoder_position == PositionConfig::Learned {}).then(|| {
            Learned::new(&mut builder.at("encoder").at("positions"), config.max_positions(), d_model)
        });
        let layer = LayerOptions {
            d_model,
            norm_order: NormOrder::Pre,
            final_norm: true,
            norm_epsilon: config.norm_epsilon,
            activation: config.activation,
            dropout: config.dropout,
            ..LayerOptions::default()
        };
        let encoder_stack = StackOptions {
            kind: ENCODER,
            sizes: config.encoder,
            layer: LayerOptions { max_len: config.max_positions(), ..layer },
            mask: Mask::full(),
            cross: None,
            special: SpecialLayers::default(),
        };
        let encoder = Stack::new(&mut builder.at("encoder"), &encoder_stack)?;
        let decoder_stack = StackOptions {
            kind: DECODER,
            sizes: config.decoder,
            layer: LayerOptions { max_len: config.max_len, ..layer },
            cross: Some(CrossOptions::one(CROSS, CrossProjection::PerLayer)),
            ..encoder_stack
        };
        let input = InputOptions {
            d_model,
            position: config.position,
            max_len: config.max_len,
            pad_id: config.pad_id,
            scale_embedding: false,
            dropout: config.dropout.embedding,
        };
        let target = (embedding.clone(), vocab_size);
        let decoder = DecoderStack::new(&mut builder.at("decoder"), target, &input, &decoder_stack)?;
        Ok(Self { config: config.clone(), stem, positions, encoder, decoder, embedding })
    }

    /// The config of the model.
    pub fn config(&self) -> &SpeechConfig {
        &self.config
    }

    /// The special ids of the model.
    pub fn special_ids(&self) -> SpecialIds {
        let &SpeechConfig { pad_id, end_id, start_id, .. } = &self.config;
        SpecialIds { pad_id, end_id, start_id }
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        Sites::new(self.encoder.sites().chain(self.decoder.sites()).collect())
    }

    /// The cross-attention, from the text to the sound.
    pub fn cross_attention(&self) -> SiteGroup {
        let n_layers = self.config.decoder.n_layers;
        SiteGroup { kind: CROSS, n_layers, heads: self.config.decoder.heads(self.config.d_model) }
    }

    /// A batch of log-mel frames, each row flat, padded to `length` frames; `None` is a padding row.
    ///
    /// # Panics
    /// If a row has more frames, or not a multiple of n_mels numbers.
    pub fn frames<'a>(&self, rows: impl Iterator<Item = Option<&'a [f32]>>, length: usize) -> Frames {
        let sinusoidal = match self.config.encoder_position {
            PositionConfig::Sinusoidal { layout } => Some(sinusoidal(layout, self.config.pad_id)),
            _ => None,
        };
        Frames::new(rows, length.max(1), (self.config.n_mels, self.config.d_model, sinusoidal))
    }

    /// Target ids as a batch.
    pub fn ids<'a>(&self, rows: impl Iterator<Item = Option<&'a [u32]>>, length: usize) -> Ids {
        Ids::padded_to(rows, length, self.config.pad_id)
    }

    /// Encodes sounds → rows × positions × d_model.
    ///
    /// # Errors
    /// If there are more frames than learned positions.
    fn encode_frames(&self, pass: &Pass<'_>, frames: &Frames) -> Result<Var> {
        let x = self.stem.forward(pass, frames)?;
        let x = match &self.positions {
            Some(learned) => learned.add(pass, &x, 0)?,
            None => add(pass.tape, &x, &Var::constant(frames.sinusoids()))?,
        };
        let x = dropout(pass.tape, &x, self.config.dropout.embedding)?;
        pass.capture.activation(|| "encoder.embedding".into(), &x);
        Ok(self.encoder.forward(pass, x, Some(frames.lengths()), None)?)
    }

    /// Encodes sounds once for several searches.
    ///
    /// # Errors
    /// If there are more frames than learned positions.
    pub fn encode(&self, pass: &Pass<'_>, frames: &Frames) -> Result<EncodedSpeech> {
        let lengths = frames.lengths().host().to_vec();
        let states = self.encode_frames(pass, &frames.to_device(&pass.parameters.device())?)?;
        Ok(EncodedSpeech { states, lengths })
    }

    /// Logits of the token after each target token: rows × target length × vocab_size.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, frames: &Frames, target: &Ids) -> Result<Var> {
        let x = self.decoded(pass, frames, target)?;
        self.logits(pass, &x)
    }

    /// The same of sounds that are encoded already, one for each row of `target`.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward_encoded(&self, pass: &Pass<'_>, encoded: &EncodedSpeech, target: &Ids) -> Result<Var> {
        let device = pass.parameters.device();
        let lengths: Indices = encoded.lengths.iter().copied().collect();
        let lengths = &lengths.to_device(&device)?;
        let source = of_sound(&encoded.states, lengths);
        let x = self.decoder.forward(pass, Some(source), &target.to_device(&device)?)?;
        self.logits(pass, &x)
    }

    fn decoded(&self, pass: &Pass<'_>, frames: &Frames, target: &Ids) -> Result<Var> {
        let states = &self.encode_frames(pass, frames)?;
        let source = of_sound(states, frames.lengths());
        Ok(self.decoder.forward(pass, Some(source), target)?)
    }

    /// Mean cross-entropy of `expected` given `target` (teacher forcing). A scalar.
    ///
    /// # Errors
    /// If an id is outside the vocabulary or the lengths differ.
    pub fn loss(
        &self,
        pass: &Pass<'_>,
        frames: &Frames,
        target: &Ids,
        (expected, options): (&Indices, CrossEntropyOptions),
    ) -> Result<Var> {
        let x = self.decoded(pass, frames, target)?;
        match self.embedding.output(pass, None).filter(|_| !pass.capture.wants_activations()) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x: &x, weight: &weight, bias: bias.as_ref() };
                Ok(output_cross_entropy(pass.tape, layer, expected, options)?)
            }
            None => Ok(cross_entropy(pass.tape, &self.logits(pass, &x)?, expected, options)?),
        }
    }

    /// The decoder state before the first token, one row per encoded sound, with capacity for `n_rows` rows.
    pub(super) fn start(
        &self,
        pass: &Pass<'_>,
        encoded: &EncodedSpeech,
        n_rows: usize,
    ) -> Result<DecoderState> {
        let lengths: Indices = encoded.lengths.iter().copied().collect();
        let source = of_sound(&encoded.states, &lengths);
        Ok(self.decoder.start(pass, Some(source), &[&encoded.lengths], n_rows)?)
    }

    /// One decoding step: rows × vocab_size.
    pub(super) fn step(&self, pass: &Pass<'_>, state: &mut DecoderState, tokens: &[u32]) -> Result<Tensor> {
        self.decoder.step(pass, (state, tokens), Replay::Allowed, |x| {
            let logits = self.embedding.step_logits(pass, x, None)?;
            pass.capture.activation(|| "logits".into(), &logits);
            Ok(logits.value().clone())
        })
    }

    fn logits(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        let logits = self.embedding.logits(pass, x, None)?;
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }
}

/// An encoded sound as the source of a decoder.
fn of_sound<'a>(states: &'a Var, lengths: &'a Indices) -> Source<'a> {
    let (states, lengths) = (std::slice::from_ref(states), std::slice::from_ref(lengths));
    Source { states, lengths, order: None }
}
