//! Gradients of the inputs of a tape: one sum for each, wherever it stands.

use super::Var;
use crate::gemm::Output;
use crate::lanes::add_assign;
use crate::parallel;
use crate::parameters::ParameterId;
use crate::tensor::Tensor;

/// What a gradient is like: the shape of the value, of which views may have others, and where it stands on a card.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) shape: Vec<usize>,
    #[cfg(feature = "cuda")]
    pub(super) card: Option<crate::cuda::Slot>,
}

impl Slot {
    pub(super) fn new(value: &Tensor) -> Self {
        Self {
            shape: value.shape().to_vec(),
            #[cfg(feature = "cuda")]
            card: value.card().map(crate::cuda::Slot::new),
        }
    }
}

/// Gradients of the inputs, growing while the tape runs backwards.
#[derive(Debug)]
pub struct Gradients {
    pub(super) by_node: Vec<Option<Tensor>>,
    pub(super) slots: Vec<Slot>,
    pub(super) leaves: Vec<(ParameterId, usize)>,
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
    pub(super) fn begin(&mut self) {
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
