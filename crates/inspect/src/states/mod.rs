//! States of tokens: the vector of each token in its context, after the embedding and after each layer.
//!
//! 1. `occurrence.rs` finds a word in texts, `reader.rs` reads texts with any model that has states.
//! 2. [`compare`] compares the vectors of a word in its contexts (Peters et al. 2018; Ethayarajh 2019), `table.rs` writes the
//!    comparison as JSON, [`picture`] draws it.
//! 3. [`projection`] projects vectors to the plane and compares all pairs of tokens.

pub mod compare;
mod occurrence;
pub mod picture;
pub mod projection;
mod reader;
mod table;

use polyhead_tensor::Tensor;

use crate::Result;
use crate::matrix::Matrix;

pub use compare::{CompareOptions, Comparison};
pub use reader::StateReader;
pub use table::json;

/// The states of the tokens of one text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct States {
    /// The embedding, each layer that was not skipped, and the output where a norm follows the last layer.
    pub layers: Vec<(StateLayer, Matrix)>,
}

/// A place in a stack of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateLayer {
    /// Before the first layer: embeddings of tokens, with positions where these are added.
    Embedding,
    /// After a layer, from 0.
    Layer(usize),
    /// After the norm that follows the last layer.
    Output,
}

impl StateLayer {
    /// Name in tables and pictures.
    pub fn name(self) -> String {
        match self {
            Self::Embedding => "embedding".into(),
            Self::Layer(layer) => format!("layer {layer}"),
            Self::Output => "output".into(),
        }
    }

    /// Name in JSON: `"embedding"`, the number of a layer, or `"output"`.
    pub(crate) fn json(self) -> serde_json::Value {
        match self {
            Self::Layer(layer) => layer.into(),
            Self::Embedding | Self::Output => self.name().into(),
        }
    }
}

impl States {
    /// The states of a stack in a pass over one text that captured activations; `None` if the stack has none.
    ///
    /// # Errors
    /// If the device fails.
    pub(crate) fn captured(
        captured: &polyhead_attention::Trace,
        stack: &str,
        n_layers: usize,
    ) -> Result<Option<Self>> {
        let find = |name: &str| -> Result<Option<Matrix>> {
            let found = captured.activations.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| matrix(value)).transpose()
        };
        let Some(embedding) = find(&format!("{stack}.embedding"))? else { return Ok(None) };
        let mut layers = vec![(StateLayer::Embedding, embedding)];
        for layer in 0..n_layers {
            let found = find(&format!("{stack}.layers.{layer}"))?;
            layers.extend(found.map(|found| (StateLayer::Layer(layer), found)));
        }
        let output = find(stack)?;
        // Without a norm after the last layer, the output is its state.
        let is_new = |output: &Matrix| layers.last().is_none_or(|(_, last)| last != output);
        layers.extend(output.filter(is_new).map(|output| (StateLayer::Output, output)));
        Ok(Some(Self { layers }))
    }

    /// The states after the last layer; `None` without any.
    pub fn last(&self) -> Option<&Matrix> {
        self.layers.last().map(|(_, states)| states)
    }
}

/// Rows of the last axis as a matrix.
fn matrix(value: &Tensor) -> Result<Matrix> {
    let value = value.to_host().map_err(polyhead_models::Error::from)?;
    Ok(Matrix::new(value.shape().last().copied().unwrap_or(1), value.data().to_vec()))
}
