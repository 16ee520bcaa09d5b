//! The layers of a captioner.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{AttentionKind, Builder, Pass, Sites};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::{Indices, Parameters, Var};

use super::CaptionConfig;
use crate::Result;
use crate::ids::Ids;
use crate::sequence_to_sequence::SpecialIds;
use crate::text_decoder::{Encoded, TextDecoder, TextDecoderOptions};
use crate::vision::Images;
use crate::vision::patches::PatchEncoder;

/// Cross-attention from the text to the patches.
const CROSS: AttentionKind = AttentionKind::cross_attention(2, "cross", "decoder", ["target", "image"]);

/// A captioner.
#[derive(Debug, Clone)]
pub struct Captioner {
    config: CaptionConfig,
    encoder: PatchEncoder,
    decoder: TextDecoder,
}

impl Captioner {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &CaptionConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let encoder = PatchEncoder::new(&mut builder, &config.patches())?;
        let &CaptionConfig { vocab_size, d_model, position, max_len, pad_id, .. } = config;
        let embedding = Embedding::new(&mut builder.at("embedding"), vocab_size, d_model);
        let layer = config.layer();
        let options = TextDecoderOptions {
            sizes: config.decoder,
            layer,
            cross: CROSS,
            position,
            max_len,
            vocab_size,
            pad_id,
        };
        let decoder = TextDecoder::new(&mut builder, embedding, &options)?;
        Ok(Self { config: config.clone(), encoder, decoder })
    }

    /// The config of the model.
    pub fn config(&self) -> &CaptionConfig {
        &self.config
    }

    /// The special ids of the model.
    pub fn special_ids(&self) -> SpecialIds {
        let &CaptionConfig { pad_id, end_id, start_id, .. } = &self.config;
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

    /// A batch of images of one size (channels × height × width, normalised); `None` is a padding row.
    ///
    /// # Panics
    /// If an image has another size.
    pub fn images<'a>(&self, rows: impl Iterator<Item = Option<&'a [f32]>>, size: [usize; 2]) -> Images {
        self.encoder.images(rows, size)
    }

    /// Encodes images once for several searches.
    ///
    /// # Errors
    /// If the device fails.
    pub fn encode(&self, pass: &Pass<'_>, images: &Images) -> Result<Encoded> {
        let lengths = images.lengths().host().to_vec();
        let states = self.encoder.forward(pass, &images.to_device(&pass.parameters.device())?)?;
        Ok(Encoded::new(states, lengths))
    }

    /// Logits of the token after each target token: rows × target length × vocab_size.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, images: &Images, target: &Ids) -> Result<Var> {
        let states = &self.encoder.forward(pass, images)?;
        self.decoder.forward(pass, (states, images.lengths()), target)
    }

    /// Mean cross-entropy of `expected` given `target` (teacher forcing). A scalar.
    ///
    /// # Errors
    /// If an id is outside the vocabulary or the lengths differ.
    pub fn loss(
        &self,
        pass: &Pass<'_>,
        images: &Images,
        target: &Ids,
        expected: (&Indices, CrossEntropyOptions),
    ) -> Result<Var> {
        let states = &self.encoder.forward(pass, images)?;
        self.decoder.loss(pass, (states, images.lengths()), target, expected)
    }
}
