//! Dropout: in training each element is set to 0 with probability p and the others are divided by 1 − p.
//!
//! Srivastava et al. 2014. The dropped elements are a function of the tape's seed and step and of the layer's position.
//!
//! ```
//! use polyhead_attention::{Capture, Pass, layers::Dropout};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let (parameters, capture) = (Parameters::default(), Capture::off());
//! let dropped = |tape: &Tape| {
//!     let pass = Pass::new(tape, &parameters, &capture);
//!     let x = Var::constant(Tensor::new(&[1000], vec![1.0; 1000]));
//!     let y = Dropout::new(0.5).forward(&pass, &x).expect("a probability");
//!     y.value().data().iter().filter(|&&element| element == 0.0).count()
//! };
//! assert_eq!(dropped(&Tape::inference()), 0);
//! assert!((400..600).contains(&dropped(&Tape::training(1, 1))));
//! ```

use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::{Result, Var};

use crate::pass::Pass;

/// A dropout layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    probability: f32,
}

impl Dropout {
    /// A layer that drops with `probability`, in [0, 1).
    pub fn new(probability: f32) -> Self {
        Self { probability }
    }

    /// Dropout of x in training; x unchanged in inference.
    ///
    /// # Errors
    /// If the probability is outside [0, 1).
    pub fn forward(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        dropout(pass.tape, x, self.probability)
    }
}
