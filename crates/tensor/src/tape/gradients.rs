//! Gradients of the inputs of a tape, on any device: one sum per input.

use super::Var;
use crate::gemm::Output;
use crate::lanes::add_assign;
use crate::parallel;
use crate::parameters::ParameterId;
use crate::tensor::Tensor;

/// Layout of a gradient: the shape of the value (views of it may have others), and on a GPU its memory.
#[derive(Debug)]
pub(super) struct GradientSlot {
    pub(super) shape: Vec<usize>,
    #[cfg(feature = "cuda")]
    pub(super) gpu: Option<crate::cuda::CudaGradientSlot>,
}

impl GradientSlot {
    pub(super) fn new(value: &Tensor) -> Self {
        Self {
            shape: value.shape().to_vec(),
            #[cfg(feature = "cuda")]
            gpu: value.gpu().map(crate::cuda::CudaGradientSlot::new),
        }
    }
}

/// Gradients of the inputs, accumulated while the tape runs backwards.
#[derive(Debug)]
pub struct Gradients {
    pub(super) by_node: Vec<Option<Tensor>>,
    pub(super) slots: Vec<GradientSlot>,
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

    /// Adds the parameters' gradients of another tape, for steps that span several batches.
    pub fn accumulate(&mut self, more: &Self) {
        for (id, gradient) in more.parameters() {
            let known = self.leaves.iter().find(|(known, _)| *known == id).map(|&(_, node)| node);
            let node = known.unwrap_or_else(|| {
                self.by_node.push(None);
                self.slots.push(GradientSlot::new(gradient));
                self.leaves.push((id, self.by_node.len() - 1));
                self.by_node.len() - 1
            });
            self.add_to_node(node, gradient);
        }
    }

    /// The gradients of the parameters, mutable (for clipping and scaling).
    pub(crate) fn parameters_mut(&mut self) -> Vec<(ParameterId, &mut Tensor)> {
        let leaves: std::collections::HashMap<usize, ParameterId> =
            self.leaves.iter().map(|&(id, node)| (node, id)).collect();
        let nodes = self.by_node.iter_mut().enumerate();
        nodes.filter_map(|(node, tensor)| Some((*leaves.get(&node)?, tensor.as_mut()?))).collect()
    }

    /// Adds `gradient` to that of `input`.
    pub(crate) fn add(&mut self, input: &Var, gradient: &Tensor) {
        if let Some(node) = input.node {
            self.add_to_node(node, gradient);
        }
    }

    /// Starts from the gradients of the previous tape, where they accumulate.
    #[cfg_attr(not(feature = "cuda"), allow(clippy::unused_self, reason = "the GPU build uses it"))]
    pub(super) fn begin(&mut self) {
        #[cfg(feature = "cuda")]
        for (gradient, slot) in self.by_node.iter_mut().zip(&self.slots) {
            *gradient = slot.gpu.as_ref().and_then(|gpu| gpu.before(&slot.shape));
        }
    }

    /// As [`Gradients::update`], for a gradient on a GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn update_array(&mut self, input: &Var, work: impl FnOnce(&crate::cuda::Array, Output)) {
        let Some(node) = input.node else { return };
        let slot = &self.slots[node];
        let gpu = slot.gpu.as_ref().expect("the input is on a GPU");
        let (tensor, output) = gpu.writable(self.by_node[node].take(), &slot.shape);
        work(tensor.array(), output);
        self.by_node[node] = Some(tensor);
    }

    /// True for the gradient of a parameter, which only the optimiser waits for.
    #[cfg(feature = "cuda")]
    pub(crate) fn can_wait(&self, input: &Var) -> bool {
        let gpu = input.node.and_then(|node| self.slots[node].gpu.as_ref());
        gpu.is_some_and(crate::cuda::CudaGradientSlot::is_parameter)
    }

    /// The array to which work on the main stream writes the gradient of `input`, and the array it adds to; for kernels
    /// that write several gradients at once. `None` if the gradient is not needed.
    #[cfg(feature = "cuda")]
    pub(crate) fn target(&mut self, input: &Var) -> Option<crate::cuda::GradientTarget> {
        let mut found = None;
        self.update_from(input, |out, before| {
            found = Some(crate::cuda::GradientTarget { out: out.clone(), before: before.cloned() });
        });
        let is_added = found.as_ref().is_some_and(|target| target.before.is_some());
        if let Some(gpu) = input.node.and_then(|node| self.slots[node].gpu.as_ref()).filter(|_| is_added) {
            gpu.join_branch();
        }
        found
    }

    /// As [`Gradients::update_array`], for work that can read the sum so far from another place than it writes: it gets
    /// the output and the array to add to.
    #[cfg(feature = "cuda")]
    pub(crate) fn update_from(
        &mut self,
        input: &Var,
        work: impl FnOnce(&crate::cuda::Array, Option<&crate::cuda::Array>),
    ) {
        let Some(node) = input.node else { return };
        let slot = &self.slots[node];
        let gpu = slot.gpu.as_ref().expect("the input is on a GPU");
        let before = self.by_node[node].take();
        let keeps = before.as_ref().is_some_and(|before| gpu.is_own(before));
        let tensor = match &before {
            Some(before) if keeps => before.clone(),
            _ => gpu.fresh(&slot.shape),
        };
        work(tensor.array(), before.as_ref().map(Tensor::array));
        self.by_node[node] = Some(tensor);
    }

    fn add_to_node(&mut self, node: usize, gradient: &Tensor) {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.slots[node].gpu {
            let sum = gpu.sum(self.by_node[node].take(), gradient, &self.slots[node].shape);
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

    /// Lets `work` overwrite or add to the gradient of `input`; skipped if the gradient is not needed.
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
