//! The residual stream of a pre-norm Transformer: x = embedding + Σ_l (attention_l + feed-forward_l), read at any layer.
//!
//! The logit lens applies the final norm and the output layer to the stream after each layer (nostalgebraist 2020,
//! "Interpreting GPT: the logit lens"). Direct logit attribution splits a logit w·Norm(x) into what each part of the sum adds to
//! it (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"): with the statistics of the final norm held
//! fixed at x, the norm is linear, so the parts and the norm's bias add up to the logit.

use polyhead_attention::layers::norm::FixedNorm;
use polyhead_attention::{Pass, Trace};
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_tensor::{Indices, Tensor, Var};

use super::language_model::{DECODER, TransformerLanguageModel};
use crate::{Error, Result};

/// A part of the sum that the residual stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPart {
    /// Token embeddings, with positions if these are added to them.
    Embedding,
    /// The output of self-attention in a layer.
    Attention(usize),
    /// The output of the feed-forward sub-layer in a layer.
    FeedForward(usize),
    /// The bias of the final norm; a model whose norm has none adds 0.
    FinalNorm,
}

/// The captured residual stream of one text.
#[derive(Debug, Clone)]
pub struct ResidualStream<'a> {
    model: &'a TransformerLanguageModel,
    /// Each part of the sum but the last: length × d_model.
    parts: Vec<(StreamPart, Tensor)>,
    /// The sum after the embedding (`None`) and after each layer: length × d_model.
    states: Vec<(Option<usize>, Tensor)>,
}

/// What the parts of the residual stream add to a logit.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribution {
    /// Share of each of [`ResidualStream::parts`] in the logit; their sum is the logit.
    pub logits: Vec<f64>,
    /// Euclidean norm of each part.
    pub norms: Vec<f64>,
}

impl<'a> ResidualStream<'a> {
    /// The stream of one text from what was captured with all activations; skipped layers are left out.
    pub(super) fn new(model: &'a TransformerLanguageModel, trace: &Trace) -> Result<Self> {
        let (stack, n_layers) = (DECODER.stack, model.config().decoder.n_layers);
        let find = |name: &str| -> Result<Option<Tensor>> {
            let found = trace.activations.iter().find(|(own, _)| own == name);
            let Some((_, value)) = found else { return Ok(None) };
            let value = value.to_host()?;
            let width = value.shape().last().copied().unwrap_or(1);
            Ok(Some(value.reshaped(&[value.len() / width, width])))
        };
        let embedding = find(&format!("{stack}.embedding"))?.ok_or_else(|| Error::Request {
            message: "a pass without activations, expected one that captured them".into(),
        })?;
        let mut parts = vec![(StreamPart::Embedding, embedding.clone())];
        let mut states = vec![(None, embedding)];
        for layer in 0..n_layers {
            let name = format!("{stack}.layers.{layer}");
            let attention = find(&format!("{name}.self_attention"))?;
            let feed_forward = find(&format!("{name}.feed_forward"))?;
            parts.extend(attention.map(|value| (StreamPart::Attention(layer), value)));
            parts.extend(feed_forward.map(|value| (StreamPart::FeedForward(layer), value)));
            states.extend(find(&name)?.map(|value| (Some(layer), value)));
        }
        Ok(Self { model, parts, states })
    }

    /// The stream after the embedding (`None`) and after each layer: length × d_model.
    pub fn states(&self) -> &[(Option<usize>, Tensor)] {
        &self.states
    }

    /// The parts of the sum; the last is [`StreamPart::FinalNorm`].
    pub fn parts(&self) -> impl Iterator<Item = StreamPart> {
        self.parts.iter().map(|(part, _)| *part).chain([StreamPart::FinalNorm])
    }

    /// The logit lens: logits of states (rows × d_model) as if they were those of the last layer → rows × vocab_size.
    ///
    /// # Errors
    /// If the device fails.
    pub fn read(&self, pass: &Pass<'_>, states: &Var) -> Result<Var> {
        let states = match self.model.final_norm() {
            Some(norm) => norm.forward(pass, states)?,
            None => states.clone(),
        };
        Ok(self.model.output().0.logits(pass, &states, None)?)
    }

    /// True if a logit is the sum of what the parts add to it: not in a post-norm model, whose norms follow each sum.
    pub fn is_sum(&self) -> bool {
        self.model.is_pre_norm()
    }

    /// What the parts add to the logit of `token` after the token at `position`, with the final norm held fixed.
    ///
    /// # Errors
    /// If the stream is no sum, or the token is outside the vocabulary.
    pub fn attribution(&self, pass: &Pass<'_>, position: usize, token: u32) -> Result<Attribution> {
        if !self.is_sum() {
            return Err(Error::View {
                found: "a post-norm model, in which a norm follows each sum",
                expected: "a pre-norm model",
                hint: "its logits are no sum of what the layers add; the logit lens works",
            });
        }
        let row = |tensor: &Tensor| {
            let width = tensor.shape()[1];
            tensor.data()[position * width..][..width].to_vec()
        };
        let last = row(&self.states[self.states.len() - 1].1);
        let norm = match self.model.final_norm() {
            Some(norm) => norm.fixed_at(pass, &last)?,
            None => FixedNorm::identity(last.len()),
        };
        let ids = Indices::from(vec![token]).to_device(&pass.parameters.device())?;
        let weight = self.model.output().0.forward(pass, &ids, 1, &EmbeddingOptions::default())?;
        let (direction, bias) = norm.through(weight.value().to_host()?.data());
        let length =
            |numbers: &mut dyn Iterator<Item = f64>| numbers.fold(0.0_f64, |sum, x| sum + x * x).sqrt();
        let (mut logits, mut norms) = (Vec::new(), Vec::new());
        for (_, part) in &self.parts {
            let part = row(part);
            logits.push(direction.iter().zip(&part).map(|(u, x)| u * f64::from(*x)).sum());
            norms.push(length(&mut part.iter().copied().map(f64::from)));
        }
        logits.push(bias);
        norms.push(length(&mut norm.bias.iter().flatten().copied()));
        Ok(Attribution { logits, norms })
    }
}
