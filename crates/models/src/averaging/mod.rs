//! Deep averaging networks (Iyyer et al. 2015), a baseline without attention: the mean of a text's embeddings, feed-forward
//! layers, class scores. They ignore the order of words.
//!
//! z₀ = 1/n Σ E(xₜ); zᵢ = act(Wᵢ·zᵢ₋₁ + bᵢ). In training word dropout removes whole tokens, each with the same probability, and
//! scales the others.

use polyhead_attention::layers::{Dropout, Embedding, Linear, Pooling};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::elementwise::{exp, mul, scale};
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_tensor::ops::linear::{Activation, LinearOptions};
use polyhead_tensor::ops::shape::slice;
use polyhead_tensor::{Parameters, Var};
use serde::{Deserialize, Serialize};

use crate::ids::Ids;
use crate::transformer::config::activation_name;
use crate::transformer::validate;
use crate::{Error, Result};

/// The config of a deep averaging network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AveragingEncoderConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width of an embedding; default: 128.
    pub d_model: usize,
    /// Number of feed-forward layers after the mean; default: 2.
    pub n_layers: usize,
    /// Width of the feed-forward layers; default: 128.
    pub d_ff: usize,
    /// Activation of the feed-forward layers; default: ReLU.
    #[serde(with = "activation_name")]
    pub activation: Activation,
    /// Dropout probability of the feed-forward layers in training; default: 0.3.
    pub dropout: f32,
    /// Probability that a token is removed in training; default: 0.3, as in Iyyer et al. 2015.
    pub word_dropout: f32,
    /// Longest sequence in tokens; default: 1024.
    pub max_len: usize,
    /// Id of padding.
    pub pad_id: u32,
    /// The names of the classes.
    pub labels: Vec<String>,
}

impl Default for AveragingEncoderConfig {
    fn default() -> Self {
        Self {
            vocab_size: 0,
            d_model: 128,
            n_layers: 2,
            d_ff: 128,
            activation: Activation::Relu,
            dropout: 0.3,
            word_dropout: 0.3,
            max_len: 1024,
            pad_id: 0,
            labels: Vec::new(),
        }
    }
}

impl AveragingEncoderConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("d_model", self.d_model),
            ("n_layers", self.n_layers),
            ("d_ff", self.d_ff),
            ("max_len", self.max_len),
            ("labels", self.labels.len()),
        ];
        for (name, size) in sizes {
            validate::size(name, size, &mut problems);
        }
        validate::dropout("dropout", self.dropout, &mut problems);
        validate::dropout("word_dropout", self.word_dropout, &mut problems);
        validate::token("pad_id", self.pad_id, self.vocab_size, &mut problems);
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Activations of a row of `length` tokens, in elements.
    pub(crate) fn activation_elements(&self, length: usize) -> usize {
        2 * length * self.d_model + self.n_layers * self.d_ff
    }
}

/// A deep averaging network.
#[derive(Debug, Clone)]
pub struct AveragingEncoder {
    config: AveragingEncoderConfig,
    embedding: Embedding,
    layers: Vec<Linear>,
    classes: Linear,
}

impl AveragingEncoder {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &AveragingEncoderConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &AveragingEncoderConfig { vocab_size, d_model, n_layers, d_ff, .. } = config;
        let embedding = Embedding::new(&mut builder.at("embedding"), vocab_size, d_model);
        let width = |layer: usize| if layer == 0 { d_model } else { d_ff };
        let layers = (0..n_layers)
            .map(|layer| Linear::new(&mut builder.at("layers").at(layer), width(layer), d_ff))
            .collect();
        let classes = Linear::new(&mut builder.at("classes"), d_ff, config.labels.len());
        Ok(Self { config: config.clone(), embedding, layers, classes })
    }

    /// The config of the model.
    pub fn config(&self) -> &AveragingEncoderConfig {
        &self.config
    }

    /// The mean of the embeddings of each row: rows × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn mean(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let options = EmbeddingOptions::default();
        let mut x = self.embedding.forward(pass, ids.ids(), ids.length(), &options)?;
        if pass.tape.is_training() && self.config.word_dropout > 0.0 {
            // exp(0) for each token is 1 on the device of the embeddings; dropout makes it 0 or the scale of the others.
            let ones = exp(pass.tape, &scale(pass.tape, &slice(pass.tape, &x, 2, 0..1)?, 0.0));
            let kept = Dropout::new(self.config.word_dropout).forward(pass, &ones)?;
            x = mul(pass.tape, &x, &kept)?;
        }
        let mean = Pooling::Mean.forward(pass, &x, ids.lengths())?;
        pass.capture.activation(|| "mean".into(), &mean);
        Ok(mean)
    }

    /// The last feed-forward layer: rows × d_ff.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn pooled(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let AveragingEncoderConfig { activation, dropout, .. } = self.config;
        let mut x = self.mean(pass, ids)?;
        for layer in &self.layers {
            x = layer.forward_with(pass, &x, LinearOptions { activation, dropout })?;
        }
        pass.capture.activation(|| "pooled".into(), &x);
        Ok(x)
    }

    /// The output layer, which maps the last layer to class logits.
    pub(crate) fn classes(&self) -> &Linear {
        &self.classes
    }
}

#[cfg(test)]
mod tests {
    use polyhead_attention::Capture;
    use polyhead_tensor::{Tape, Tensor};

    use super::*;

    /// The string A A B A with A = [1, 0] and B = [0, 1]: a plain average is [3/4, 1/4].
    #[test]
    fn a_plain_average_counts_letters() {
        let labels = vec!["no".to_owned(), "yes".to_owned()];
        let config = AveragingEncoderConfig { vocab_size: 3, d_model: 2, labels, ..Default::default() };
        let mut parameters = Parameters::default();
        let model = AveragingEncoder::new(&config, &mut parameters).unwrap();
        parameters.initialise(1);
        let table = Tensor::new(&[3, 2], vec![9.0, 9.0, 1.0, 0.0, 0.0, 1.0]);
        parameters.value_mut(model.embedding.weight()).data_mut().copy_from_slice(table.data());
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        // A longer neighbour pads the row, which changes nothing.
        let ids = Ids::padded(&[&[1, 1, 2, 1], &[2, 2, 2, 2, 2, 2]], 0);
        let mean = model.mean(&pass, &ids).unwrap();
        assert_eq!(mean.value().data(), [0.75, 0.25, 0.0, 1.0]);
    }
}
