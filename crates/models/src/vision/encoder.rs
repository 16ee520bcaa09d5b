//! The layers of a Vision Transformer.

use polyhead_attention::layers::{Linear, Pooling};
use polyhead_attention::{Builder, Pass, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::elementwise::{add, scale};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Indices, Parameters, Var};

use super::patches::PatchEncoder;
use super::{ImagePooling, Images, VisionConfig};
use crate::Result;

/// A Vision Transformer with class scores.
#[derive(Debug, Clone)]
pub struct ImageEncoder {
    config: VisionConfig,
    encoder: PatchEncoder,
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
        let encoder = PatchEncoder::new(&mut builder, &config.patches())?;
        let classes = Linear::new(&mut builder.at("classes"), d_model, n_labels);
        let distilled_classes = (config.pooling == ImagePooling::Both)
            .then(|| Linear::new(&mut builder.at("distilled_classes"), d_model, n_labels));
        Ok(Self { config: config.clone(), encoder, classes, distilled_classes })
    }

    /// The config of the model.
    pub fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        Sites::new(self.encoder.sites().collect())
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
        self.encoder.images(rows, size)
    }

    /// The states of the last layer after the final norm: rows × (tokens + patches) × d_model.
    ///
    /// # Errors
    /// If the device fails.
    pub fn states(&self, pass: &Pass<'_>, images: &Images) -> Result<Var> {
        self.encoder.forward(pass, images)
    }

    /// Class logits: rows × n_labels.
    ///
    /// # Errors
    /// If the device fails.
    pub fn classify(&self, pass: &Pass<'_>, images: &Images) -> Result<Var> {
        let states = self.states(pass, images)?;
        let n_tokens = self.config.n_tokens();
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
        let (n_tokens, length) = (self.config.n_tokens(), states.shape()[1]);
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
