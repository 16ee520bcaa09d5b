//! What a layer is given besides its input: the tape that records, the parameters, and what is to be captured.
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, layers::Linear};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let layer = Linear::new(&mut Builder::new(&mut parameters).at("layer"), 3, 2);
//! parameters.initialise(1);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass { tape: &tape, parameters: &parameters, capture: &capture };
//! let y = layer.forward(&pass, &Var::constant(Tensor::zeros(&[4, 3])))?;
//! assert_eq!(y.shape(), [4, 2]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::{ParameterId, Parameters, Tape, Var};

use crate::capture::Capture;

/// One way through a model.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    /// Records operations in training.
    pub tape: &'a Tape,
    /// The values of all parameters.
    pub parameters: &'a Parameters,
    /// Collects what is asked for.
    pub capture: &'a Capture,
}

impl Pass<'_> {
    /// A parameter as an input of operations.
    pub fn parameter(&self, id: ParameterId) -> Var {
        self.tape.parameter(self.parameters, id)
    }
}
