//! One forward pass over source and target with capture.
//!
//! The decoder input is the start token and the target without its last token; position t predicts token t. A pass over all
//! positions has the bits of step-by-step decoding, so these are the weights that produced the translation, whichever search
//! found it.

use polyhead_attention::capture::Weights;
use polyhead_attention::vectors::Vectors;
use polyhead_attention::{Capture, Filter, Intervention, Pass, Site};
use polyhead_models::{Ids, SequenceToSequence};
use polyhead_tensor::{Parameters, Tape, Tensor, Var};

use crate::Result;
use crate::matrix::Matrix;

/// The weights of one attention site.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionWeights {
    /// The site.
    pub site: Site,
    /// Head indices, one per matrix.
    pub heads: Vec<usize>,
    /// Weights of each head: queries × keys.
    pub weights: Vec<Matrix>,
}

impl AttentionWeights {
    /// Mean over the heads; `None` without heads.
    pub fn mean(&self) -> Option<Matrix> {
        let (first, others) = self.weights.split_first()?;
        let sum = others.iter().fold(first.clone(), |sum, head| sum.mixed(1.0, head, 1.0));
        let zeros = Matrix::zeros(sum.n_rows(), sum.n_columns());
        Some(sum.mixed(1.0 / self.weights.len() as f32, &zeros, 0.0))
    }

    /// The weights of one head.
    pub fn head(&self, head: usize) -> Option<&Matrix> {
        self.heads.iter().position(|own| *own == head).map(|index| &self.weights[index])
    }
}

/// Options of an observed pass.
#[derive(Debug, Clone, Default)]
pub struct ObserveOptions<'a> {
    /// Attention to capture; default: all.
    pub filter: Filter,
    /// Capture of queries, keys and values; default: no.
    pub vectors: CaptureVectors,
    /// Changes to the model; default: none.
    pub intervention: Option<&'a Intervention>,
}

/// Capture of queries, keys and values in addition to attention weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CaptureVectors {
    /// Weights only.
    #[default]
    No,
    /// Weights and vectors.
    Yes,
}

/// Captured values of a pass.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Attention weights, in order of computation.
    pub attentions: Vec<AttentionWeights>,
    /// Queries, keys and values, if captured.
    pub vectors: Vec<Vectors>,
    /// Logits: 1 × target length × vocabulary.
    pub logits: Tensor,
}

/// Runs a translator on `source` and `target` ids, both with their end tokens.
///
/// # Errors
/// If an id is outside the vocabulary.
pub fn observe(
    model: &SequenceToSequence,
    parameters: &Parameters,
    [source, target]: [&[u32]; 2],
    start_id: u32,
    options: &ObserveOptions<'_>,
) -> Result<Observed> {
    let read: Vec<u32> = [start_id].into_iter().chain(target.iter().copied()).take(target.len()).collect();
    let device = parameters.device();
    let on_device = |ids: Ids| ids.to_device(&device).map_err(polyhead_models::Error::from);
    let (source, target) = (on_device(model.source_ids(&[source]))?, on_device(model.ids(&[&read]))?);
    run_pass(parameters, options, |pass| Ok(model.forward(pass, &source, &target)?))
}

/// Runs `forward`, which returns logits, with capture.
fn run_pass(
    parameters: &Parameters,
    options: &ObserveOptions<'_>,
    forward: impl FnOnce(&Pass<'_>) -> Result<Var>,
) -> Result<Observed> {
    let (logits, captured) = captured_pass(parameters, options, KeepActivations::No, forward)?;
    let attentions = weights_of(captured.weights);
    Ok(Observed { attentions, vectors: captured.vectors, logits: logits.value().clone() })
}

/// Capture of the outputs of layers in addition to attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeepActivations {
    No,
    Yes,
}

/// The result of `forward`, and what was captured.
pub(crate) fn captured_pass(
    parameters: &Parameters,
    options: &ObserveOptions<'_>,
    activations: KeepActivations,
    forward: impl FnOnce(&Pass<'_>) -> Result<Var>,
) -> Result<(Var, polyhead_attention::Trace)> {
    let capture = Capture::on(options.filter.clone());
    let capture = if options.vectors == CaptureVectors::Yes { capture.with_vectors() } else { capture };
    let capture = if activations == KeepActivations::Yes { capture.with_activations() } else { capture };
    let tape = Tape::inference();
    let pass = Pass { intervention: options.intervention, ..Pass::new(&tape, parameters, &capture) };
    let result = forward(&pass)?;
    Ok((result, capture.take()))
}

/// Captured weights as matrices; the batch has one row.
pub(super) fn weights_of(captured: Vec<Weights>) -> Vec<AttentionWeights> {
    let attentions = captured.into_iter().map(|found| {
        let k_len = found.weights.shape()[3];
        let size = found.weights.shape()[2] * k_len;
        let head = |numbers: &[f32]| Matrix::new(k_len, numbers.to_vec());
        AttentionWeights {
            site: found.site,
            heads: found.heads,
            weights: found.weights.data().chunks_exact(size).map(head).collect(),
        }
    });
    attentions.collect()
}
