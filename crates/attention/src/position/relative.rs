//! Relative positions (Shaw, Uszkoreit & Vaswani 2018): learned vectors for the distance from query to key.
//!
//! score = q·(k + a_K[clip(key − query)])/√d_key, context = Σ w·(v + a_V[clip(key − query)]), clipped to ±max_distance.
//!
//! ```
//! use polyhead_attention::{Builder, position::RelativePositions};
//! use polyhead_tensor::Parameters;
//! let mut parameters = Parameters::default();
//! RelativePositions::new(&mut Builder::new(&mut parameters).at("relative"), 16, [64, 64]);
//! assert_eq!(parameters.count(), 2 * 33 * 64);
//! ```

use polyhead_tensor::ops::attention::Relative;
use polyhead_tensor::{Init, ParameterId};

use crate::builder::Builder;
use crate::pass::Pass;

/// Tables for keys and values, shared by the heads of a layer.
#[derive(Debug, Clone)]
pub struct RelativePositions {
    max_distance: usize,
    keys: ParameterId,
    values: ParameterId,
}

impl RelativePositions {
    /// Declares `keys` and `values`, each (2·max_distance + 1) × the head's width.
    pub fn new(builder: &mut Builder<'_>, max_distance: usize, [d_key, d_value]: [usize; 2]) -> Self {
        let n = 2 * max_distance + 1;
        let [keys, values] = [("keys", d_key), ("values", d_value)]
            .map(|(name, width)| builder.declare(name, &[n, width], Init::Xavier { d_out: n }));
        Self { max_distance, keys, values }
    }

    /// The tables as variables of the pass.
    pub fn vars(&self, pass: &Pass<'_>) -> Relative {
        let [keys, values] = [self.keys, self.values].map(|id| pass.parameter(id));
        Relative { max_distance: self.max_distance, keys, values: Some(values) }
    }
}
