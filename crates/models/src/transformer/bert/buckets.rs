//! Relative position buckets (Raffel et al. 2020, as in MPNet): each head has a learned score for each bucket of distances, which
//! all layers add to their scaled scores. Half of the buckets are for keys after the query; half of each side are for one
//! distance each, the others for ranges that grow with the logarithm, up to a distance of 128.

use polyhead_attention::{Builder, Pass};
use polyhead_tensor::{Init, ParameterId, Tensor};

use crate::{Error, Result};

/// The distance from which on all share the last bucket.
const MAX_DISTANCE: f32 = 128.0;

/// A table of scores, buckets × heads.
#[derive(Debug, Clone)]
pub struct PositionBuckets {
    weight: ParameterId,
    n_buckets: usize,
    n_heads: usize,
}

impl PositionBuckets {
    /// Declares `weight`.
    pub fn new(builder: &mut Builder<'_>, n_buckets: usize, n_heads: usize) -> Self {
        let weight = builder.declare("weight", &[n_buckets, n_heads], Init::Normal(0.02));
        Self { weight, n_buckets, n_heads }
    }

    /// The bias of the scores: n_heads × length × length. It has no gradient: in training the scores of buckets stay as they are.
    ///
    /// # Errors
    /// In training on a GPU, whose attention computes a bias on the CPU, which no CUDA graph can contain.
    pub fn bias(&self, pass: &Pass<'_>, length: usize) -> Result<Tensor> {
        if pass.tape.is_training() && pass.parameters.device().policy().steps_ahead > 1 {
            let message = "relative position buckets in training on a GPU, expected the CPU".to_owned();
            return Err(Error::Request { message });
        }
        let table = pass.parameter(self.weight).value().to_host()?;
        // A score for each distance key − query, from 1 − length to length − 1.
        let distances = (1..2 * length as i64).map(|index| index - length as i64);
        let buckets: Vec<usize> = distances.map(|distance| bucket(distance, self.n_buckets)).collect();
        let mut bias = Vec::with_capacity(self.n_heads * length * length);
        for head in 0..self.n_heads {
            let scores: Vec<f32> =
                buckets.iter().map(|bucket| table.data()[bucket * self.n_heads + head]).collect();
            for query in 0..length {
                bias.extend_from_slice(&scores[length - 1 - query..][..length]);
            }
        }
        Ok(Tensor::new(&[self.n_heads, length, length], bias).to_device(&pass.parameters.device())?)
    }
}

/// The bucket of a distance key − query; computed in f32, as in transformers.
fn bucket(distance: i64, n_buckets: usize) -> usize {
    let half = n_buckets / 2;
    let first = if distance > 0 { half } else { 0 };
    let exact = half / 2;
    let distance = distance.unsigned_abs() as usize;
    if distance < exact {
        return first + distance;
    }
    let ratio = (distance as f32 / exact as f32).ln() / (MAX_DISTANCE / exact as f32).ln();
    first + (exact + (ratio * (half - exact) as f32) as usize).min(half - 1)
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn near_distances_have_buckets_of_their_own_and_far_ones_share() {
        let found = [0, -1, -7, -8, -11, -12, -127, -500, 1, 7, 8, 500].map(|distance| bucket(distance, 32));
        assert_eq!(found, [0, 1, 7, 8, 8, 9, 15, 15, 17, 23, 24, 31]);
    }
}
