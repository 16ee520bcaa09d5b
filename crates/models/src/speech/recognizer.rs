//! The layers of a speech recogniser.

use polyhead_attention::layers::Embedding;
use polyhead_attention::position::Learned;
use polyhead_attention::{AttentionKind, Builder, Mask, Pass, Sites};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::{Indices, Parameters, Var};

use super::config::SpeechConfig;
use super::frames::Frames;
use super::stem::Stem;
use crate::Result;
use crate::ids::Ids;
use crate::sequence_to_sequence::SpecialIds;
use crate::text_decoder::{Encoded, TextDecoder, TextDecoderOptions};
use crate::transformer::config::{NormOrder, PositionConfig};
use crate::transformer::input::sinusoidal;
use crate::transformer::stack::{LayerOptions, SpecialLayers, Stack, StackOptions};

/// Self-attention over the positions of the encoder, two frames each.
const ENCODER: AttentionKind = AttentionKind::self_attention(0, "encoder", "frames");
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
    decoder: TextDecoder,
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
        let decoder = TextDecoderOptions {
            sizes: config.decoder,
            layer,
            cross: CROSS,
            position: config.position,
            max_len: config.max_len,
            vocab_size,
            pad_id: config.pad_id,
        };
        let decoder = TextDecoder::new(&mut builder, embedding, &decoder)?;
        Ok(Self { config: config.clone(), stem, positions, encoder, decoder })
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

    /// The decoder, which writes the text.
    pub fn decoder(&self) -> &TextDecoder {
        &self.decoder
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
    pub fn encode(&self, pass: &Pass<'_>, frames: &Frames) -> Result<Encoded> {
        let lengths = frames.lengths().host().to_vec();
        let states = self.encode_frames(pass, &frames.to_device(&pass.parameters.device())?)?;
        Ok(Encoded::new(states, lengths))
    }

    /// Logits of the token after each target token: rows × target length × vocab_size.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, frames: &Frames, target: &Ids) -> Result<Var> {
        let states = &self.encode_frames(pass, frames)?;
        self.decoder.forward(pass, (states, frames.lengths()), target)
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
        expected: (&Indices, CrossEntropyOptions),
    ) -> Result<Var> {
        let states = &self.encode_frames(pass, frames)?;
        self.decoder.loss(pass, (states, frames.lengths()), target, expected)
    }
}
