//! The layers of a Vision Transformer.

use polyhead_attention::layers::{Linear, Pooling};
use polyhead_attention::position::Learned;
use polyhead_attention::{AttentionKind, Builder, Pass, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::{add, scale};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Indices, Init, ParameterId, Parameters, Var};

use super::positions::interpolation;
use super::stem::Stem;
use super::{ImagePooling, ImageTokens, Images, VisionConfig};
use crate::Result;
use crate::transformer::stack::{SpecialLayers, Stack, StackOptions};

/// Self-attention over learned tokens and patches.
const ENCODER: AttentionKind = AttentionKind::self_attention(0, "encoder", "image");

/// A Vision Transformer with class scores.
#[derive(Debug, Clone)]
pub struct ImageEncoder {
    config: VisionConfig,
    stem: Stem,
    /// The learned tokens, 1 × d_model each.
    tokens: Vec<ParameterId>,
    positions: Learned,
    stack: Stack,
    classes: Linear,
    /// The head of the distillation token.
    distilled_classes: Option<Linear>,
}

impl ImageEncoder {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &VisionConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let (d_model, n_labels) = (config.d_model, config.labels.len());
        let stem = Stem::new(&mut builder, config);
        let names: &[&str] = match config.tokens {
            ImageTokens::None => &[],
            ImageTokens::Class => &["class"],
            ImageTokens::Distilled => &["class", "distillation"],
        };
        let mut tokens = builder.at("tokens");
        let tokens = names.iter().map(|name| tokens.declare(name, &[1, d_model], Init::Normal(0.02)));
        let tokens = tokens.collect();
        let mut encoder = builder.at("encoder");
        let positions = Learned::new(&mut encoder.at("positions"), config.length(), d_model);
        let options = StackOptions {
            kind: ENCODER,
            sizes: config.encoder,
            layer: config.layer(),
            mask: polyhead_attention::Mask::full(),
            cross: None,
            special: SpecialLayers::default(),
        };
        let stack = Stack::new(&mut encoder, &options)?;
        let classes = Linear::new(&mut builder.at("classes"), d_model, n_labels);
        let distilled_classes = (config.pooling == ImagePooling::Both)
            .then(|| Linear::new(&mut builder.at("distilled_classes"), d_model, n_labels));
        Ok(Self { config: config.clone(), stem, tokens, positions, stack, classes, distilled_classes })
    }

    /// The config of the model.
    pub fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        Sites::new(self.stack.sites().collect())
    }

    /// The names of the classes.
    pub fn labels(&self) -> &[String] {
        &self.config.labels
    }

    /// A batch of images of one size (channels × height × width, normalised); `None` is a padding row.
    ///
    /// # Panics
    /// If an image has another size.
    pub fn images<'a>(&self, rows: impl Iterator<Item = Option<&'a [f32]>>, size: [usize; 2]) -> Images {
        Images::new(rows, size, &self.config)
    }

    /// The states of the last layer after the final norm: rows × (tokens + patches) × d_model.
    ///
    /// # Errors
    /// If the device fails.
    pub fn states(&self, pass: &Pass<'_>, images: &Images) -> Result<Var> {
        let mut x = self.stem.forward(pass, images)?;
        if !self.tokens.is_empty() {
            let all: Vec<Var> = self.tokens.iter().map(|id| pass.parameter(*id)).collect();
            let table = concat(pass.tape, &all.iter().collect::<Vec<_>>(), 0)?;
            let options = EmbeddingOptions::default();
            let tokens = embedding(pass.tape, images.tokens(), self.tokens.len(), &table, &options)?;
            x = concat(pass.tape, &[&tokens, &x], 1)?;
        }
        x = if images.grid() == self.config.grid() {
            self.positions.add(pass, &x, 0)?
        } else {
            add(pass.tape, &x, &self.interpolated(pass, images.grid())?)?
        };
        let x = dropout(pass.tape, &x, self.config.dropout.embedding)?;
        pass.capture.activation(|| format!("{}.embedding", ENCODER.stack), &x);
        Ok(self.stack.forward(pass, x, None, None)?)
    }

    /// The positions of learned tokens and of a grid of another size.
    fn interpolated(&self, pass: &Pass<'_>, grid: [usize; 2]) -> Result<Var> {
        let table = pass.parameter(self.positions.weight());
        let n_tokens = self.tokens.len();
        let matrix = interpolation(self.config.grid(), grid).to_device(&pass.parameters.device())?;
        let patches = slice(pass.tape, &table, 0, n_tokens..self.config.length())?;
        let patches = matmul(pass.tape, &Var::constant(matrix), &patches, MatmulOptions::default())?;
        if n_tokens == 0 {
            return Ok(patches);
        }
        let tokens = slice(pass.tape, &table, 0, 0..n_tokens)?;
        Ok(concat(pass.tape, &[&tokens, &patches], 0)?)
    }

    /// Class logits: rows × n_labels.
    ///
    /// # Errors
    /// If the device fails.
    pub fn classify(&self, pass: &Pass<'_>, images: &Images) -> Result<Var> {
        let states = self.states(pass, images)?;
        let n_tokens = self.tokens.len();
        let logits = match &self.distilled_classes {
            None => {
                let pooled = self.pooled(pass, &states, images)?;
                pass.capture.activation(|| "pooled".into(), &pooled);
                self.classes.forward(pass, &pooled)?
            }
            Some(distilled) => {
                let token = |index| slice(pass.tape, &states, 1, index..index + 1);
                let both = concat(pass.tape, &[&token(0)?, &token(1)?], 1)?;
                pass.capture.activation(|| "pooled".into(), &both);
                let logits = [
                    self.classes.forward(pass, &token(0)?)?,
                    distilled.forward(pass, &token(n_tokens - 1)?)?,
                ];
                let sum = add(pass.tape, &logits[0], &logits[1])?;
                scale(pass.tape, &sum, 0.5).reshaped(&[images.rows(), self.config.labels.len()])
            }
        };
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }

    /// One vector per row: rows × d_model.
    fn pooled(&self, pass: &Pass<'_>, states: &Var, images: &Images) -> Result<Var> {
        let (n_tokens, length) = (self.tokens.len(), states.shape()[1]);
        if self.config.pooling == ImagePooling::Mean {
            let patches = slice(pass.tape, states, 1, n_tokens..length)?;
            return Ok(Pooling::Mean.forward(pass, &patches, images.lengths())?);
        }
        Ok(Pooling::First.forward(pass, states, images.lengths())?)
    }

    /// Mean cross-entropy over rows with a label; [`crate::encoder::NO_LABEL`] marks rows without one. A scalar.
    ///
    /// # Errors
    /// If a label is not one of the classes, or the device fails.
    pub fn loss(
        &self,
        pass: &Pass<'_>,
        images: &Images,
        labels: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        Ok(cross_entropy(pass.tape, &self.classify(pass, images)?, labels, options)?)
    }
}
