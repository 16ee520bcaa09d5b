//! Adam over all parameters on a GPU: gradient norm, clipping, update and moving average in two launches; see
//! [`crate::optim`].

use std::ops::Range;
use std::sync::Arc;

use super::array::{Array, ElementType};
use super::device::Cuda;
use super::flat::FlatParameters;
use super::kernel::{Launch, args};
use super::profile::KernelFamily;
use crate::Result;
use crate::optim::AdamOptions;
use crate::parameters::{ParameterId, Parameters};
use crate::tensor::Tensor;

/// Adam and its state, in the layout of the parameters.
#[derive(Debug)]
pub(crate) struct CudaAdam {
    cuda: Arc<Cuda>,
    options: AdamOptions,
    max_norm: f32,
    flat: Arc<FlatParameters>,
    m: Array,
    v: Array,
    average: Option<Array>,
    /// Values that change with each step; see `optim.cu`.
    numbers: Array,
    /// Partial sums of squares, in f64.
    squares: Array,
    norm: Tensor,
    /// Trained parameters with their ranges and shapes.
    trained: Vec<(ParameterId, Range<usize>, Vec<usize>)>,
}

impl CudaAdam {
    /// Creates the optimiser for parameters on a GPU, with a moving average that starts from `average` (in CPU memory).
    pub(crate) fn new(
        parameters: &Parameters,
        options: AdamOptions,
        max_norm: f32,
        average: Option<&Parameters>,
    ) -> Result<Self> {
        let flat = parameters.shared_flat().expect("the parameters are on a GPU");
        let cuda = Arc::clone(flat.values.cuda());
        let trained = flat.spans.iter().filter(|(_, span)| span.end <= flat.trained);
        let trained: Vec<_> =
            trained.map(|(id, span)| (*id, span.clone(), parameters.value(*id).shape().to_vec())).collect();
        let average = average.map(|average| {
            let mut numbers = vec![0.0_f32; flat.trained];
            for (id, span, _) in &trained {
                numbers[span.clone()].copy_from_slice(average.value(*id).data());
            }
            Array::constant(&cuda, &numbers)
        });
        let adam = cuda.persistent(|| Self {
            options,
            max_norm,
            m: Array::zeros(&cuda, ElementType::F32, flat.trained),
            v: Array::zeros(&cuda, ElementType::F32, flat.trained),
            average,
            numbers: Array::zeros(&cuda, ElementType::F32, 4),
            squares: Array::zeros(&cuda, ElementType::F32, 2 * shares(&cuda)),
            norm: Tensor::on_gpu(&[], Array::zeros(&cuda, ElementType::F32, 1)),
            trained,
            flat,
            cuda: Arc::clone(&cuda),
        });
        cuda.check()?;
        Ok(adam)
    }

    /// Sets the values of step `step`, from 1: its learning rate, and the decay of the moving average.
    pub(crate) fn set(&self, step: u64, learning_rate: f32, average_decay: f32) {
        let AdamOptions { beta1, beta2, weight_decay, .. } = self.options;
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        let corrections = [beta1, beta2].map(|beta| 1.0 - beta.powi(step));
        let decay = 1.0 - learning_rate * weight_decay;
        self.numbers.write(&[
            learning_rate / corrections[0],
            decay,
            1.0 / corrections[1].sqrt(),
            average_decay,
        ]);
    }

    /// Updates all parameters, unless the norm of their gradients is NaN or infinite.
    pub(crate) fn step(&self) {
        let Self { cuda, flat, m, v, .. } = self;
        let fours = (flat.trained / 4) as u64;
        let shares = shares(cuda);
        let launch = |name, blocks, block| Launch {
            file: "optim",
            name,
            grid: [blocks, 1, 1],
            block,
            shared: 0,
            family: KernelFamily::Optimizer,
        };
        cuda.launch(launch("squares", shares, 512), args![&flat.gradients, fours, &self.squares]);
        let AdamOptions { beta1, beta2, epsilon, .. } = self.options;
        cuda.launch(
            launch("adam", 4 * cuda.multiprocessors() as usize, 256),
            args![
                &flat.values,
                flat.bf16_copy.as_ref(),
                &flat.gradients,
                m,
                v,
                self.average.as_ref(),
                fours,
                &self.squares,
                shares,
                self.norm.array(),
                &self.numbers,
                beta1,
                beta2,
                epsilon,
                self.max_norm
            ],
        );
    }

    /// Global norm of the gradients at the last step, before clipping.
    pub(crate) fn norm(&self) -> &Tensor {
        &self.norm
    }

    /// Restores moments; those of parameters that are not given become zero.
    pub(crate) fn restore(&self, moments: &[(ParameterId, [Tensor; 2])]) -> Result<()> {
        for (which, array) in [&self.m, &self.v].into_iter().enumerate() {
            let mut numbers = vec![0.0_f32; array.len()];
            for (id, span, _) in &self.trained {
                if let Some((_, pair)) = moments.iter().find(|(known, _)| known == id) {
                    numbers[span.clone()].copy_from_slice(pair[which].data());
                }
            }
            array.copy_from(&Array::constant(&self.cuda, &numbers));
        }
        self.cuda.check()
    }

    /// m and v of all trained parameters.
    pub(crate) fn moments(&self) -> Result<Vec<(ParameterId, [Tensor; 2])>> {
        let (m, v) = (self.tensors(&self.m)?, self.tensors(&self.v)?);
        Ok(m.into_iter().zip(v).map(|((id, m), (_, v))| (id, [m, v])).collect())
    }

    /// The moving average of all trained parameters, if there is one.
    pub(crate) fn average(&self) -> Result<Option<Vec<(ParameterId, Tensor)>>> {
        self.average.as_ref().map(|average| self.tensors(average)).transpose()
    }

    fn tensors(&self, array: &Array) -> Result<Vec<(ParameterId, Tensor)>> {
        let numbers: Vec<f32> = array.read()?;
        let cut = |(id, span, shape): &(ParameterId, Range<usize>, Vec<usize>)| {
            (*id, Tensor::new(shape, numbers[span.clone()].to_vec()))
        };
        Ok(self.trained.iter().map(cut).collect())
    }
}

/// Blocks among which the sum of squares is divided.
fn shares(cuda: &Cuda) -> usize {
    4 * cuda.multiprocessors() as usize
}
