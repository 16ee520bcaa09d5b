//! The context of a forward pass: the tape that records it, the parameters, what to capture and what to change.
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, layers::Linear};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let layer = Linear::new(&mut Builder::new(&mut parameters).at("layer"), 3, 2);
//! parameters.initialise(1);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let y = layer.forward(&pass, &Var::constant(Tensor::zeros(&[4, 3])))?;
//! assert_eq!(y.shape(), [4, 2]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::elementwise;
use polyhead_tensor::{Error, ParameterId, Parameters, Result, Tape, Tensor, Var};

use crate::capture::Capture;
use crate::intervention::Intervention;
use crate::site::Site;

/// Called between the layers of an encoder stack: true as long as the result is wanted. A server uses the moment for other
/// work.
#[derive(Clone, Copy)]
pub struct Watch<'a>(pub &'a (dyn Fn() -> bool + Sync));

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Watch")
    }
}

/// One forward pass through a model.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    /// The tape, which records operations in training.
    pub tape: &'a Tape,
    /// The values of all parameters.
    pub parameters: &'a Parameters,
    /// Captured weights and activations.
    pub capture: &'a Capture,
    /// Changes to heads and layers; default: none.
    pub intervention: Option<&'a Intervention>,
    /// Whether the result is still wanted; default: always.
    pub watch: Option<Watch<'a>>,
}

impl<'a> Pass<'a> {
    /// A pass without an intervention.
    pub const fn new(tape: &'a Tape, parameters: &'a Parameters, capture: &'a Capture) -> Self {
        Self { tape, parameters, capture, intervention: None, watch: None }
    }

    /// A parameter as a variable of the tape.
    pub fn parameter(&self, id: ParameterId) -> Var {
        self.tape.parameter(self.parameters, id)
    }

    /// An error if the result is no longer wanted.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn check_wanted(&self) -> Result<()> {
        if self.watch.is_none_or(|Watch(is_wanted)| is_wanted()) { Ok(()) } else { Err(Error::Cancelled) }
    }

    /// True if the intervention skips the layer.
    pub fn skips(&self, stack: &'static str, layer: usize) -> bool {
        self.intervention.is_some_and(|intervention| intervention.skips(stack, layer))
    }

    /// Multiplies each head of the context (… × heads side by side) by its factor in the intervention.
    pub(crate) fn scale_heads(&self, site: Site, context: Var, n_heads: usize) -> Result<Var> {
        let factors = self.intervention.and_then(|intervention| intervention.factors(site, n_heads));
        let Some(factors) = factors else { return Ok(context) };
        let width = context.shape().last().map_or(0, |width| width / n_heads);
        let columns = factors.iter().flat_map(|&factor| std::iter::repeat_n(factor, width)).collect();
        let factors = Tensor::new(&[n_heads * width], columns).to_device(&self.parameters.device())?;
        elementwise::mul(self.tape, &context, &Var::constant(factors))
    }
}
