//! The logit lens: the distribution that the final norm and the output layer would give after each layer.

use std::ops::Range;

use polyhead_models::ResidualStream;
use polyhead_tensor::Var;

use super::prediction::{Prediction, Readout};
use crate::{Error, Result};

/// The distributions after one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LensLayer {
    /// The layer, from 0; `None` for the embedding, before the first layer.
    pub layer: Option<usize>,
    /// The distribution at each position.
    pub predictions: Vec<Prediction>,
}

/// The lens at some positions of a text, after the embedding and after each layer.
pub(super) fn layers(
    readout: &Readout<'_>,
    stream: &ResidualStream<'_>,
    ids: &[u32],
    positions: Range<usize>,
) -> Result<Vec<LensLayer>> {
    if positions.is_empty() || positions.end > ids.len() {
        let message = format!(
            "positions {} to {} of the lens, expected some of 0 to {}",
            positions.start,
            positions.end,
            ids.len()
        );
        return Err(Error::request(message, "positions are counted from 0"));
    }
    let read = |(layer, states): &(Option<usize>, _)| {
        let logits = |rows: &Var| Ok(stream.read(&readout.pass, rows)?);
        let predictions = readout.of_rows(states, positions.clone(), ids, logits, |_, _| {})?;
        Ok(LensLayer { layer: *layer, predictions })
    };
    stream.states().iter().map(read).collect()
}
