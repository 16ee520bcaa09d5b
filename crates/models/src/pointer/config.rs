//! The config of a pointer network.

use serde::{Deserialize, Serialize};

use super::AnswerRule;
use crate::transformer::validate::size;
use crate::{Error, Result};

/// The config of a pointer network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PointerConfig {
    /// Width of the LSTM states and of the attention; default: 128.
    pub d_model: usize,
    /// Attention over all points before the pointer: default: `none`.
    pub glimpse: Glimpse,
    /// Dropout probability of inputs and decoder states in training; default: 0.
    pub dropout: f32,
    /// Most points of an input; default: 512.
    pub max_len: usize,
    /// Number of coordinates of a point; 1 for numbers.
    pub d_point: usize,
    /// Subtracted from each coordinate: its mean in the training data.
    pub offset: Vec<f32>,
    /// Each coordinate is divided by this: its standard deviation in the training data.
    pub scale: Vec<f32>,
    /// The rule that every answer follows.
    pub answer: AnswerRule,
    /// Fewest points of an answer.
    pub shortest: usize,
}

/// Attention over all points before the pointer (Vinyals, Bengio & Kudlur 2016; Bello et al. 2017).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Glimpse {
    /// The pointer's query is the decoder state.
    #[default]
    None,
    /// The mean of the encoder states by additive attention, projected, is added to the query.
    Additive,
}

/// What the training data determine of a pointer network.
#[derive(Debug, Clone, PartialEq)]
pub struct PointSpec {
    /// Mean of each coordinate.
    pub offset: Vec<f32>,
    /// Standard deviation of each coordinate; never 0.
    pub scale: Vec<f32>,
    /// The rule that all orders follow.
    pub answer: AnswerRule,
    /// Points of the shortest order.
    pub shortest: usize,
}

impl Default for PointSpec {
    fn default() -> Self {
        Self { offset: vec![0.0], scale: vec![1.0], answer: AnswerRule::default(), shortest: 1 }
    }
}

impl Default for PointerConfig {
    fn default() -> Self {
        Self {
            d_model: 128,
            glimpse: Glimpse::None,
            dropout: 0.0,
            max_len: 512,
            d_point: 0,
            offset: Vec::new(),
            scale: Vec::new(),
            answer: AnswerRule::default(),
            shortest: 0,
        }
    }
}

impl PointerConfig {
    /// Checks that the config is consistent.
    ///
    /// # Errors
    /// If it is not; the message lists all problems.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        for (name, value) in [("d_model", self.d_model), ("max_len", self.max_len), ("d_point", self.d_point)]
        {
            size(name, value, &mut problems);
        }
        if !(0.0..1.0).contains(&self.dropout) {
            problems.push(format!("dropout is {}, expected at least 0 and below 1", self.dropout));
        }
        for (name, list) in [("offset", &self.offset), ("scale", &self.scale)] {
            if list.len() != self.d_point || list.iter().any(|number| !number.is_finite()) {
                problems.push(format!("{name} is {list:?}, expected {} finite numbers", self.d_point));
            }
        }
        if self.scale.contains(&0.0) {
            problems.push("scale has a 0, expected numbers that divide".into());
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Config { message: problems.join("; ") }) }
    }

    /// Activations, in elements, that a training step stores for a batch of `rows` rows.
    pub(crate) fn activation_elements(&self, [rows, points, order]: [usize; 3]) -> usize {
        rows * self.d_model * (14 * (points + order) + 3 * points * order)
    }
}
