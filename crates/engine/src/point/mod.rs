//! Pointer networks: rows of points in, the order of their indices out.

mod row;
mod score;

use std::path::Path;

use polyhead_attention::{Capture, Filter, Intervention, Pass, Sites};
use polyhead_models::PointerNetwork;
use polyhead_models::pointer::{Found, Orders, SearchOptions};
use polyhead_tensor::{Parameters, Tape, Tensor};

pub use self::row::{PointRow, Rows};
pub use self::score::PointScores;
use crate::load::{LoadOptions, check_folder, load};
use crate::{Error, Result};

/// Rows that are searched together.
const BATCH: usize = 64;

/// A pointer network with its weights. It may be used by several threads at once.
#[derive(Debug)]
pub struct PointEngine {
    model: PointerNetwork,
    parameters: Parameters,
}

/// The attention of one answer.
#[derive(Debug, Clone)]
pub struct PointAttention {
    /// The site that computed it.
    pub site: polyhead_attention::Site,
    /// steps × (1 + points): the weights of the end, then of the points; the last step ends the answer.
    pub weights: Tensor,
}

impl PointEngine {
    /// Loads a pointer network from a Polyhead model folder.
    ///
    /// # Errors
    /// If the folder lacks a config or weights, if they do not match, or if the model is not a pointer network.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let checkpoint = load(folder, options)?;
        let model = checkpoint.model.into_pointer().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        Ok(Self { model, parameters: checkpoint.parameters })
    }

    /// The model.
    pub fn model(&self) -> &PointerNetwork {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The attention layers.
    pub fn sites(&self) -> Sites {
        self.model.sites()
    }

    /// Checks that the model can read a row.
    ///
    /// # Errors
    /// If it has no points, too many, or points with another number of coordinates.
    pub fn check(&self, row: &PointRow) -> Result<()> {
        let config = self.model.config();
        let (count, d_point) = (row.len(), row.d_point);
        if count == 0 || count > config.max_len {
            return Err(Error::request(
                format!("{count} points, expected 1 to {}", config.max_len),
                "the model's max_len limits the number of points",
            ));
        }
        if d_point != config.d_point {
            return Err(Error::request(
                format!("points of {d_point} coordinates, expected {}", config.d_point),
                if config.d_point == 1 {
                    "this model orders numbers: {\"numbers\": [3, 1, 2]}"
                } else {
                    "this model orders points, for instance: {\"points\": [[0.1, 0.2], [0.3, 0.4]]}"
                },
            ));
        }
        Ok(())
    }

    /// Answers for each row, the best first.
    ///
    /// # Errors
    /// If the model cannot read a row.
    pub fn solve(&self, rows: &[PointRow], options: SearchOptions) -> Result<Vec<Vec<Found>>> {
        for row in rows {
            self.check(row)?;
        }
        let mut found = Vec::with_capacity(rows.len());
        let batch = (BATCH / options.beam_size.max(1)).max(1);
        for rows in rows.chunks(batch) {
            let rows: Vec<&[f32]> = rows.iter().map(|row| row.coordinates.as_slice()).collect();
            found.extend(self.model.search(&self.parameters, &rows, options)?);
        }
        Ok(found)
    }

    /// The attention of each site over an answer, and the probability of each of its steps, the end included.
    ///
    /// # Errors
    /// If the model cannot read the row, or the answer names a point that does not exist.
    pub fn attention(
        &self,
        row: &PointRow,
        order: &[u32],
        (filter, intervention): (&Filter, &Intervention),
    ) -> Result<(Vec<PointAttention>, Vec<f32>)> {
        self.check(row)?;
        if let Some(point) = order.iter().find(|point| **point as usize >= row.len()) {
            let message = format!("point {point}, expected 0 to {}", row.len() - 1);
            return Err(Error::request(message, "points are counted from 0"));
        }
        let (tape, capture) = (Tape::inference(), Capture::on(filter.clone()));
        let pass = Pass { intervention: Some(intervention), ..Pass::new(&tape, &self.parameters, &capture) };
        let device = self.parameters.device();
        let points = self.model.points(std::iter::once(Some(row.coordinates.as_slice())), row.len());
        let steps = order.len() + 1;
        let orders = Orders::new(&[Some(order)], row.len(), steps);
        let orders = orders.to_device(&device)?;
        let logits = self.model.forward(&pass, &points.to_device(&device)?, &orders)?;
        let all = polyhead_tensor::ops::softmax::softmax(&tape, &logits).value().to_host()?;
        let n_keys = 1 + row.len();
        let keys = order.iter().map(|point| 1 + *point as usize).chain([0]);
        let probabilities = keys.enumerate().map(|(step, key)| all.data()[step * n_keys + key]).collect();
        let attentions = capture.take().weights.into_iter().map(|found| {
            let weights = found.weights.to_host()?.reshaped(&[steps, n_keys]);
            Ok(PointAttention { site: found.site, weights })
        });
        Ok((attentions.collect::<Result<_>>()?, probabilities))
    }
}
