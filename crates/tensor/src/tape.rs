//! Reverse-mode differentiation: operations are written down as they happen and undone from the last to the first.
//!
//! Each operation gives the tape its result and a closure that turns the gradient of the result into gradients of the
//! inputs. Without recording ([`Tape::inference`]) nothing is kept.

use std::cell::{Cell, RefCell};

use polyhead_random::Random;

use crate::device::Device;
use crate::gemm::Output;
use crate::journal::Number;
use crate::lanes::add_assign;
use crate::parallel;
use crate::parameters::{ParameterId, Parameters};
use crate::tensor::Tensor;

/// A value and, if a gradient is wanted, its place on the tape.
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

    /// The value alone.
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

    /// Whether both stand at the same place of the tape, so that their gradients are one.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.node.is_some() && self.node == other.node
    }

    /// Its place on the tape alone, so that a way back that does not read the value does not keep it.
    pub(crate) fn place(&self) -> Self {
        Self { value: Tensor::uninit(&[0]), node: self.node }
    }

    /// Whether anything asks for its gradient.
    pub fn needs_gradient(&self) -> bool {
        self.node.is_some()
    }
}

type Backward = Box<dyn FnOnce(&Tensor, &mut Gradients)>;

/// An input (no way back) or an operation, and what its gradient is like.
struct Node {
    slot: Slot,
    backward: Option<Backward>,
}

/// What a gradient is like: the shape of the value, of which views may have others, and where it stands on a card.
#[derive(Debug)]
struct Slot {
    shape: Vec<usize>,
    #[cfg(feature = "cuda")]
    card: Option<crate::cuda::Slot>,
}

impl Slot {
    fn new(value: &Tensor) -> Self {
        Self {
            shape: value.shape().to_vec(),
            #[cfg(feature = "cuda")]
            card: value.card().map(crate::cuda::Slot::new),
        }
    }
}

/// The numbers that dropout draws from in a step, at a place that recorded work finds again.
#[derive(Debug, Clone)]
pub struct StepKey {
    random: Random,
    #[cfg(feature = "cuda")]
    card: Option<crate::cuda::Array>,
}

impl StepKey {
    /// A place on `device` for the key of each step.
    pub fn new(device: &Device) -> Self {
        match device {
            Device::Cpu => Self {
                random: Random::new(0),
                #[cfg(feature = "cuda")]
                card: None,
            },
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => Self { random: Random::new(0), card: Some(crate::cuda::step_key(cuda)) },
        }
    }

    /// The key of step `step`, as [`Tape::training`] has it; in the order of the device's work.
    pub fn set(&mut self, seed: u64, step: u64) {
        self.random = step_random(seed, step);
        #[cfg(feature = "cuda")]
        if let Some(card) = &self.card {
            card.write(&self.random.parts().0);
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
    /// Whether gradients of parameters on a card go on from those of the tape before.
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

    /// A tape for the step whose key was set last, also where its work is recorded and replayed for later steps.
    pub fn training_with(key: &StepKey) -> Self {
        Self {
            #[cfg(feature = "cuda")]
            key: key.card.clone(),
            ..Self::new(true, key.random)
        }
    }

    /// The same tape, whose gradients of parameters on a card are added to those of the tape before.
    #[must_use]
    pub fn continuing(self) -> Self {
        Self {
            #[cfg(feature = "cuda")]
            is_continuing: true,
            ..self
        }
    }

    /// A tape beside this one for work on the processor: it draws the same numbers.
    #[cfg(feature = "cuda")]
    pub(crate) fn beside(&self) -> Self {
        Self { sites: self.sites.clone(), ..Self::new(self.recording, self.random) }
    }

    /// Counts the draws of a tape beside this one.
    #[cfg(feature = "cuda")]
    pub(crate) fn catch_up(&self, beside: &Self) {
        self.sites.set(beside.sites.get());
    }

    /// Where the step's key stands on a card, or 0.
    #[cfg(feature = "cuda")]
    pub(crate) fn key_at(&self) -> u64 {
        self.key.as_ref().map_or(0, crate::cuda::Array::pointer)
    }

    /// A tape that keeps nothing.
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

    /// Whether this is a training step: only then does dropout drop.
    pub fn is_training(&self) -> bool {
        self.recording
    }

    /// The random numbers of the next place that asks for some.
    pub(crate) fn next_site(&self) -> Random {
        self.sites.set(self.sites.get() + 1);
        self.random.stream(self.sites.get())
    }

    /// The parameter as an input of operations; asked for twice, it is one input with one gradient.
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

    #[cfg_attr(not(feature = "cuda"), allow(clippy::unused_self, reason = "a card has more to do"))]
    fn parameter_slot(&self, parameters: &Parameters, id: ParameterId) -> Slot {
        #[cfg(feature = "cuda")]
        if let Some(flat) = parameters.flat() {
            let value = parameters.value(id);
            let card = Some(flat.slot(id, value.array(), self.is_continuing));
            return Slot { shape: value.shape().to_vec(), card };
        }
        Slot::new(parameters.value(id))
    }

    /// An input whose gradient is wanted.
    pub fn input(&self, value: Tensor) -> Var {
        let node = self.recording.then(|| self.push(Slot::new(&value), None));
        Var { value, node }
    }

    /// Writes down an operation: its result, its inputs, and how gradients go back.
    pub(crate) fn record(
        &self,
        value: Tensor,
        inputs: &[&Var],
        backward: impl FnOnce(&Tensor, &mut Gradients) + 'static,
    ) -> Var {
        let wanted = self.recording && inputs.iter().any(|input| input.needs_gradient());
        let node = wanted.then(|| self.push(Slot::new(&value), Some(Box::new(backward))));
        Var { value, node }
    }

    fn push(&self, slot: Slot, backward: Option<Backward>) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node { slot, backward });
        nodes.len() - 1
    }

    /// Gradients of `loss`, one number, with respect to every input.
    ///
    /// # Panics
    /// If `loss` is not one number.
    pub fn backward(self, loss: &Var) -> Gradients {
        assert_eq!(loss.value.len(), 1, "backward starts from one number");
        #[cfg(feature = "cuda")]
        if let Some(array) = loss.value.card() {
            return self.backward_from(loss, &crate::cuda::one_like(loss.shape(), array));
        }
        self.backward_from(loss, &Tensor::scalar(1.0))
    }

    /// The same of `factor` times the loss; `factor` is one number and stands where the loss does.
    ///
    /// # Panics
    /// If `loss` or `factor` is not one number.
    pub fn backward_times(self, loss: &Var, factor: &Number) -> Gradients {
        assert_eq!(loss.value.len(), 1, "backward starts from one number");
        self.backward_from(loss, factor.tensor())
    }

    /// Gradients of something whose own gradient with respect to `value` is `gradient`.
    pub(crate) fn backward_from(self, value: &Var, gradient: &Tensor) -> Gradients {
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

/// Gradients of the inputs, growing while the tape runs backwards.
#[derive(Debug)]
pub struct Gradients {
    by_node: Vec<Option<Tensor>>,
    slots: Vec<Slot>,
    leaves: Vec<(ParameterId, usize)>,
}

impl Gradients {
    /// The gradient of an input; `None` if the loss does not depend on it.
    pub fn of(&self, input: &Var) -> Option<&Tensor> {
        self.by_node[input.node?].as_ref()
    }

    /// The gradients of the parameters.
    pub fn parameters(&self) -> impl Iterator<Item = (ParameterId, &Tensor)> {
        self.leaves.iter().filter_map(|&(id, node)| Some((id, self.by_node[node].as_ref()?)))
    }

    /// Adds the parameters' gradients of another tape, for steps that are taken over several batches.
    pub fn accumulate(&mut self, more: &Self) {
        for (id, gradient) in more.parameters() {
            let known = self.leaves.iter().find(|(known, _)| *known == id).map(|&(_, node)| node);
            let node = known.unwrap_or_else(|| {
                self.by_node.push(None);
                self.slots.push(Slot::new(gradient));
                self.leaves.push((id, self.by_node.len() - 1));
                self.by_node.len() - 1
            });
            self.add_to_node(node, gradient);
        }
    }

    /// The same, to be changed (clipped, scaled).
    pub(crate) fn parameters_mut(&mut self) -> Vec<(ParameterId, &mut Tensor)> {
        let leaves: std::collections::HashMap<usize, ParameterId> =
            self.leaves.iter().map(|&(id, node)| (node, id)).collect();
        let nodes = self.by_node.iter_mut().enumerate();
        nodes.filter_map(|(node, tensor)| Some((*leaves.get(&node)?, tensor.as_mut()?))).collect()
    }

    /// Adds `gradient` to what `input` has so far.
    pub(crate) fn add(&mut self, input: &Var, gradient: &Tensor) {
        if let Some(node) = input.node {
            self.add_to_node(node, gradient);
        }
    }

    /// Puts the gradients that are gone on from where they belong.
    #[cfg_attr(not(feature = "cuda"), allow(clippy::unused_self, reason = "a card has more to do"))]
    fn begin(&mut self) {
        #[cfg(feature = "cuda")]
        for (gradient, slot) in self.by_node.iter_mut().zip(&self.slots) {
            *gradient = slot.card.as_ref().and_then(|card| card.before(&slot.shape));
        }
    }

    /// As [`Gradients::update`], for a gradient on a card.
    #[cfg(feature = "cuda")]
    pub(crate) fn update_array(&mut self, input: &Var, work: impl FnOnce(&crate::cuda::Array, Output)) {
        let Some(node) = input.node else { return };
        let slot = &self.slots[node];
        let card = slot.card.as_ref().expect("the input is on a card");
        let (tensor, output) = card.writable(self.by_node[node].take(), &slot.shape);
        work(tensor.array(), output);
        self.by_node[node] = Some(tensor);
    }

    /// Whether the gradient of an input is that of a parameter, which nobody but the optimiser waits for.
    #[cfg(feature = "cuda")]
    pub(crate) fn can_wait(&self, input: &Var) -> bool {
        let card = input.node.and_then(|node| self.slots[node].card.as_ref());
        card.is_some_and(crate::cuda::Slot::has_home)
    }

    /// Where work of the main stream writes the gradient of `input`, and what it adds to; for work that writes several at
    /// once. Nothing if nobody asks.
    #[cfg(feature = "cuda")]
    pub(crate) fn place(&mut self, input: &Var) -> Option<crate::cuda::Place> {
        let mut found = None;
        self.update_from(input, |out, before| {
            found = Some(crate::cuda::Place { out: out.clone(), before: before.cloned() });
        });
        let is_added = found.as_ref().is_some_and(|place| place.before.is_some());
        if let Some(card) = input.node.and_then(|node| self.slots[node].card.as_ref()).filter(|_| is_added) {
            card.meet();
        }
        found
    }

    /// The same for work that can read what is there so far in another place than it writes: it is given where to write
    /// and what to add to.
    #[cfg(feature = "cuda")]
    pub(crate) fn update_from(
        &mut self,
        input: &Var,
        work: impl FnOnce(&crate::cuda::Array, Option<&crate::cuda::Array>),
    ) {
        let Some(node) = input.node else { return };
        let slot = &self.slots[node];
        let card = slot.card.as_ref().expect("the input is on a card");
        let before = self.by_node[node].take();
        let keeps = before.as_ref().is_some_and(|before| card.is_own(before));
        let tensor = match &before {
            Some(before) if keeps => before.clone(),
            _ => card.fresh(&slot.shape),
        };
        work(tensor.array(), before.as_ref().map(Tensor::array));
        self.by_node[node] = Some(tensor);
    }

    fn add_to_node(&mut self, node: usize, gradient: &Tensor) {
        #[cfg(feature = "cuda")]
        if let Some(card) = &self.slots[node].card {
            let sum = card.sum(self.by_node[node].take(), gradient, &self.slots[node].shape);
            self.by_node[node] = Some(sum);
            return;
        }
        let slot = &mut self.by_node[node];
        match slot {
            None => *slot = Some(gradient.reshaped(&self.slots[node].shape)),
            Some(sum) => {
                let more = gradient.data();
                parallel::elements(sum.data_mut(), |start, sum| {
                    add_assign(sum, &more[start..start + sum.len()]);
                });
            }
        }
    }

    /// Lets `work` write the gradient of `input`, or add to what is there; skipped if nobody asks.
    pub(crate) fn update(&mut self, input: &Var, work: impl FnOnce(&mut [f32], Output)) {
        let Some(node) = input.node else { return };
        let (mut tensor, output) = match self.by_node[node].take() {
            Some(tensor) => (tensor, Output::Accumulate),
            None => (Tensor::uninit(&self.slots[node].shape), Output::Overwrite),
        };
        work(tensor.data_mut(), output);
        self.by_node[node] = Some(tensor);
    }
}
