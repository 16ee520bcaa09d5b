//! Learned absolute positions: a vector for each position, added to the embedding (Gehring et al. 2017).
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, position::Learned};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let positions = Learned::new(&mut Builder::new(&mut parameters).at("positions"), 8, 4);
//! parameters.initialise(0);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let x = Var::constant(Tensor::zeros(&[2, 3, 4]));
//! assert_eq!(positions.add(&pass, &x, 5)?.shape(), [2, 3, 4]); // tokens 5, 6 and 7
//! assert!(positions.add(&pass, &x, 6).is_err());
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::{elementwise, shape};
use polyhead_tensor::{Init, ParameterId, Result, Var};

use crate::builder::Builder;
use crate::pass::Pass;

/// A table of position vectors, max_len × d_model.
#[derive(Debug, Clone)]
pub struct Learned {
    weight: ParameterId,
}

impl Learned {
    /// Declares `weight`, initialised from a normal distribution with standard deviation 0.02.
    pub fn new(builder: &mut Builder<'_>, max_len: usize, d_model: usize) -> Self {
        Self::with_deviation(builder, max_len, d_model, 0.02)
    }

    /// The same with another standard deviation.
    pub fn with_deviation(builder: &mut Builder<'_>, max_len: usize, d_model: usize, deviation: f32) -> Self {
        Self { weight: builder.declare("weight", &[max_len, d_model], Init::Normal(deviation)) }
    }

    /// The table, max_len × d_model.
    pub fn weight(&self) -> ParameterId {
        self.weight
    }

    /// Adds positions to x (batch × length × d_model), whose first token is at position `start`.
    ///
    /// # Errors
    /// If the table has too few positions.
    pub fn add(&self, pass: &Pass<'_>, x: &Var, start: usize) -> Result<Var> {
        let length = x.shape().get(1).copied().unwrap_or(0);
        let rows = shape::slice(pass.tape, &pass.parameter(self.weight), 0, start..start + length)?;
        elementwise::add(pass.tape, x, &rows)
    }
}
