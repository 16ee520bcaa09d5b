//! Reverse-mode differentiation: operations are recorded as they run, and their gradients computed from the last to the
//! first.
//!
//! Each operation gives the tape its result and a closure that turns the gradient of the result into gradients of the
//! inputs. A tape that does not record ([`Tape::inference`]) stores nothing.

mod gradients;

use std::cell::{Cell, RefCell};

use polyhead_random::Random;

use self::gradients::GradientSlot;
pub use self::gradients::Gradients;
use crate::device::Device;
use crate::journal::DeviceScalar;
use crate::parameters::{ParameterId, Parameters};
use crate::tensor::Tensor;

/// A value and, if it needs a gradient, its node on the tape.
#[derive(Debug, Clone)]
pub struct Var {
    value: Tensor,
    node: Option<usize>,
}

impl Var {
    /// A value that needs no gradient.
    pub fn constant(value: Tensor) -> Self {
        Self { value, node: None }
    }

    /// The value.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// The value, without its node.
    pub(crate) fn into_value(self) -> Tensor {
        self.value
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        self.value.shape()
    }

    /// The same value in another shape.
    #[must_use]
    pub fn reshaped(&self, shape: &[usize]) -> Self {
        Self { value: self.value.reshaped(shape), node: self.node }
    }

    /// True if both have the same node on the tape, so that they share one gradient.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.node.is_some() && self.node == other.node
    }

    /// Its node alone, for a backward pass that does not read the value and so need not keep it alive.
    pub(crate) fn node_only(&self) -> Self {
        Self { value: Tensor::uninit(&[0]), node: self.node }
    }

    /// True if its gradient is needed.
    pub fn needs_gradient(&self) -> bool {
        self.node.is_some()
    }
}

type Backward = Box<dyn FnOnce(&Tensor, &mut Gradients)>;

/// An input (no backward function) or an operation, and the layout of its gradient.
struct Node {
    slot: GradientSlot,
    backward: Option<Backward>,
}

/// Random key of dropout for a step, at a fixed address that a recorded graph reads.
#[derive(Debug, Clone)]
pub struct StepKey {
    random: Random,
    #[cfg(feature = "cuda")]
    gpu: Option<crate::cuda::Array>,
}

impl StepKey {
    /// Allocates memory on `device` for the key of each step.
    pub fn new(device: &Device) -> Self {
        match device {
            Device::Cpu => Self {
                random: Random::new(0),
                #[cfg(feature = "cuda")]
                gpu: None,
            },
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => Self { random: Random::new(0), gpu: Some(crate::cuda::step_key(cuda)) },
        }
    }

    /// Sets the key of step `step`, the same as [`Tape::training`] uses; queued in the order of the device's work.
    pub fn set(&mut self, seed: u64, step: u64) {
        self.random = step_random(seed, step);
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu {
            gpu.write(&self.random.parts().0);
        }
    }
}

fn step_random(seed: u64, step: u64) -> Random {
    Random::new(Random::new(seed).stream(step).u64(0))
}

/// The record of one step.
pub struct Tape {
    recording: bool,
    nodes: RefCell<Vec<Node>>,
    leaves: RefCell<Vec<(ParameterId, Var)>>,
    random: Random,
    sites: Cell<u64>,
    /// True if gradients of parameters on a GPU accumulate onto those of the previous tape.
    #[cfg(feature = "cuda")]
    is_continuing: bool,
    #[cfg(feature = "cuda")]
    key: Option<crate::cuda::Array>,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tape({} operations)", self.nodes.borrow().len())
    }
}

impl Tape {
    /// A tape for training step `step`; dropout draws from (seed, step).
    pub fn training(seed: u64, step: u64) -> Self {
        Self::new(true, step_random(seed, step))
    }

    /// A tape for the step whose key was set last, also when its work is recorded and replayed for later steps.
    pub fn training_with(key: &StepKey) -> Self {
        Self {
            #[cfg(feature = "cuda")]
            key: key.gpu.clone(),
            ..Self::new(true, key.random)
        }
    }

    /// The same tape, whose gradients of parameters on a GPU are added to those of the previous tape.
    #[must_use]
    pub fn continuing(self) -> Self {
        Self {
            #[cfg(feature = "cuda")]
            is_continuing: true,
            ..self
        }
    }

    /// A tape with the same random numbers for work on the CPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn for_host(&self) -> Self {
        Self { sites: self.sites.clone(), ..Self::new(self.recording, self.random) }
    }

    /// Advances the random numbers to those of `other`, a tape of [`Tape::for_host`].
    #[cfg(feature = "cuda")]
    pub(crate) fn advance_to(&self, other: &Self) {
        self.sites.set(other.sites.get());
    }

    /// Address of the step's key on a GPU, or 0.
    #[cfg(feature = "cuda")]
    pub(crate) fn key_at(&self) -> u64 {
        self.key.as_ref().map_or(0, crate::cuda::Array::pointer)
    }

    /// A tape that records nothing.
    pub fn inference() -> Self {
        Self::new(false, Random::new(0))
    }

    fn new(recording: bool, random: Random) -> Self {
        Self {
            recording,
            nodes: RefCell::default(),
            leaves: RefCell::default(),
            random,
            sites: Cell::new(0),
            #[cfg(feature = "cuda")]
            is_continuing: false,
            #[cfg(feature = "cuda")]
            key: None,
        }
    }

    /// True in training: only then does dropout drop values.
    pub fn is_training(&self) -> bool {
        self.recording
    }

    /// The random numbers of the next call site that draws some.
    pub(crate) fn next_site(&self) -> Random {
        self.sites.set(self.sites.get() + 1);
        self.random.stream(self.sites.get())
    }

    /// A parameter as an input of operations; several calls return the same input with one gradient.
    pub fn parameter(&self, parameters: &Parameters, id: ParameterId) -> Var {
        if !self.recording || parameters.is_frozen(id) {
            return Var::constant(parameters.value(id).clone());
        }
        let known = self.leaves.borrow().iter().find(|(known, _)| *known == id).map(|(_, var)| var.clone());
        known.unwrap_or_else(|| {
            let slot = self.parameter_slot(parameters, id);
            let value = parameters.value(id).clone();
            let var = Var { value, node: Some(self.push(slot, None)) };
            self.leaves.borrow_mut().push((id, var.clone()));
            var
        })
    }

    #[cfg_attr(not(feature = "cuda"), allow(clippy::unused_self, reason = "a GPU has more to do"))]
    fn parameter_slot(&self, parameters: &Parameters, id: ParameterId) -> GradientSlot {
        #[cfg(feature = "cuda")]
        if let Some(flat) = parameters.flat() {
            let value = parameters.value(id);
            let gpu = Some(flat.slot(id, value.array(), self.is_continuing));
            return GradientSlot { shape: value.shape().to_vec(), gpu };
        }
        GradientSlot::new(parameters.value(id))
    }

    /// An input that needs a gradient.
    pub fn input(&self, value: Tensor) -> Var {
        let node = self.recording.then(|| self.push(GradientSlot::new(&value), None));
        Var { value, node }
    }

    /// Records an operation: its result, its inputs, and its backward function.
    pub(crate) fn record(
        &self,
        value: Tensor,
        inputs: &[&Var],
        backward: impl FnOnce(&Tensor, &mut Gradients) + 'static,
    ) -> Var {
        let wanted = self.recording && inputs.iter().any(|input| input.needs_gradient());
        let node = wanted.then(|| self.push(GradientSlot::new(&value), Some(Box::new(backward))));
        Var { value, node }
    }

    fn push(&self, slot: GradientSlot, backward: Option<Backward>) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node { slot, backward });
        nodes.len() - 1
    }

    /// Gradients of `loss`, a scalar, with respect to every input.
    ///
    /// # Panics
    /// If `loss` is not a scalar.
    pub fn backward(self, loss: &Var) -> Gradients {
        assert_eq!(loss.value.len(), 1, "backward starts from a scalar");
        #[cfg(feature = "cuda")]
        if let Some(array) = loss.value.gpu() {
            return self.backward_from(loss, &crate::cuda::one_like(loss.shape(), array));
        }
        self.backward_from(loss, &Tensor::scalar(1.0))
    }

    /// As [`Tape::backward`], of `factor` times the loss; `factor` is a scalar on the device of the loss.
    ///
    /// # Panics
    /// If `loss` or `factor` is not a scalar.
    pub fn backward_times(self, loss: &Var, factor: &DeviceScalar) -> Gradients {
        assert_eq!(loss.value.len(), 1, "backward starts from a scalar");
        self.backward_from(loss, factor.tensor())
    }

    /// Gradients of a function whose gradient with respect to `value` is `gradient`.
    pub fn backward_from(self, value: &Var, gradient: &Tensor) -> Gradients {
        let (slots, nodes): (Vec<_>, Vec<_>) =
            self.nodes.into_inner().into_iter().map(|node| (node.slot, node.backward)).unzip();
        let mut gradients =
            Gradients { by_node: (0..nodes.len()).map(|_| None).collect(), slots, leaves: Vec::new() };
        gradients.begin();
        gradients.add(value, gradient);
        for (node, backward) in nodes.into_iter().enumerate().rev() {
            let Some(backward) = backward else { continue };
            if let Some(gradient) = gradients.by_node[node].take() {
                backward(&gradient, &mut gradients);
            }
        }
        gradients.leaves =
            self.leaves.into_inner().into_iter().filter_map(|(id, var)| Some((id, var.node?))).collect();
        gradients
    }
}
