//! One pass over what a model reads and writes, with everything that is to be seen of it.
//!
//! The decoder reads the start token and all of the target but its last token; position t then writes token t. A pass
//! over all of them has the bits of step-by-step decoding, so these are the weights that the translation was made with,
//! whichever search found it.

use polyhead_attention::vectors::Vectors;
use polyhead_attention::{Capture, Filter, Intervention, Pass, Site};
use polyhead_models::{Encoder, Ids, SequenceToSequence};
use polyhead_tensor::{Parameters, Tape, Tensor, Var};

use crate::Result;
use crate::matrix::Matrix;

/// The weights of one attention.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Which one it is.
    pub site: Site,
    /// Its heads, as many as matrices.
    pub heads: Vec<usize>,
    /// Each head's weights: queries × keys.
    pub weights: Vec<Matrix>,
}

impl Attention {
    /// The mean over the heads; none without heads.
    pub fn mean(&self) -> Option<Matrix> {
        let (first, others) = self.weights.split_first()?;
        let sum = others.iter().fold(first.clone(), |sum, head| sum.mixed(1.0, head, 1.0));
        let zeros = Matrix::zeros(sum.n_rows(), sum.n_columns());
        Some(sum.mixed(1.0 / self.weights.len() as f32, &zeros, 0.0))
    }

    /// One head's weights.
    pub fn head(&self, head: usize) -> Option<&Matrix> {
        self.heads.iter().position(|own| *own == head).map(|place| &self.weights[place])
    }
}

/// What is looked at, and what is changed.
#[derive(Debug, Clone, Default)]
pub struct ObserveOptions<'a> {
    /// Which attentions are kept; all.
    pub filter: Filter,
    /// Whether queries, keys and values are kept of them too; no.
    pub vectors: Kept,
    /// What is changed in the model; nothing.
    pub intervention: Option<&'a Intervention>,
}

/// Whether something is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kept {
    /// It is not.
    #[default]
    No,
    /// It is.
    Yes,
}

/// What was seen of a pass.
#[derive(Debug, Clone)]
pub struct Observed {
    /// Attention weights, in the order in which they were computed.
    pub attentions: Vec<Attention>,
    /// Queries, keys and values, if they were asked for.
    pub vectors: Vec<Vectors>,
    /// 1 × target length × vocabulary, or 1 × labels.
    pub logits: Tensor,
}

/// Reads `source` and writes `target`, both with their end tokens.
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
    let (device, pad_id) = (parameters.device(), model.special_ids().pad_id);
    let ids =
        |ids: &[u32]| Ids::padded(&[ids], pad_id).to_device(&device).map_err(polyhead_models::Error::from);
    let (source, target) = (ids(source)?, ids(&read)?);
    seen(parameters, options, |pass| Ok(model.forward(pass, &source, &target)?))
}

/// Reads a text for its classes.
///
/// # Errors
/// If an id is outside the vocabulary.
pub fn observe_classes(
    model: &Encoder,
    parameters: &Parameters,
    ids: &[u32],
    options: &ObserveOptions<'_>,
) -> Result<Observed> {
    let ids = model.ids(&[ids]).to_device(&parameters.device()).map_err(polyhead_models::Error::from)?;
    seen(parameters, options, |pass| Ok(model.classify(pass, &ids)?))
}

/// What is seen of `forward`, which gives logits.
fn seen(
    parameters: &Parameters,
    options: &ObserveOptions<'_>,
    forward: impl FnOnce(&Pass<'_>) -> Result<Var>,
) -> Result<Observed> {
    let capture = Capture::on(options.filter.clone());
    let capture = if options.vectors == Kept::Yes { capture.with_vectors() } else { capture };
    let tape = Tape::inference();
    let pass = Pass { intervention: options.intervention, ..Pass::new(&tape, parameters, &capture) };
    let logits = forward(&pass)?.value().clone();
    let captured = capture.take();
    let attentions = captured.weights.into_iter().map(|found| {
        let k_len = found.weights.shape()[3];
        let size = found.weights.shape()[2] * k_len;
        let head = |numbers: &[f32]| Matrix::new(k_len, numbers.to_vec());
        Attention {
            site: found.site,
            heads: found.heads,
            weights: found.weights.data().chunks_exact(size).map(head).collect(),
        }
    });
    Ok(Observed { attentions: attentions.collect(), vectors: captured.vectors, logits })
}
