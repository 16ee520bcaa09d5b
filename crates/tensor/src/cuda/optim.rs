//! Adam with clipping and a moving average over all parameters of a model, which lie in one piece: two launches a step.
//!
//! The first adds up the squares of all gradients, the second does everything else; see `kernels/optim.cu`. What changes
//! from step to step stands in the card's memory, so that a recorded step can be replayed.

use super::array::{Array, Dtype};
use super::kernel::{Launch, args};
use super::profile::Family;
use crate::optim::AdamOptions;
use crate::parameters::{ParameterId, Parameters};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Threads of a block that adds up squares, and of one that changes parameters; as in the kernels.
const THREADS: [usize; 2] = [512, 256];

/// The optimiser's own numbers.
#[derive(Debug)]
pub(crate) struct CardAdam {
    parameters: Parameters,
    options: AdamOptions,
    max_norm: f32,
    /// m and v of the parameters that are trained.
    moments: [Array; 2],
    average: Option<Array>,
    /// Sums of squares, each a double.
    partials: Array,
    /// What changes with each step; see the kernel.
    numbers: Array,
    norm: Tensor,
}

impl CardAdam {
    /// For parameters that are on a card; the moving average starts from `average`.
    pub(crate) fn new(
        parameters: &Parameters,
        options: AdamOptions,
        max_norm: f32,
        average: Option<&Parameters>,
    ) -> Result<Self> {
        let flat = parameters.flat().ok_or_else(|| Error::Device {
            what: "parameters that are not in one piece of a card".into(),
            hint: "report this",
        })?;
        let (cuda, trained) = (flat.values.cuda(), flat.trained);
        let zeros = || Array::zeros(cuda, Dtype::F32, trained);
        let average = average.map(|average| {
            let mut host = vec![0.0; trained];
            for (id, span) in flat.spans.iter().filter(|(_, span)| span.end <= trained) {
                host[span.clone()].copy_from_slice(average.value(*id).data());
            }
            Array::constant(cuda, &host)
        });
        let parts = 2 * cuda.multiprocessors() as usize;
        let made = Self {
            parameters: parameters.clone(),
            options,
            max_norm,
            moments: [zeros(), zeros()],
            average,
            partials: Array::zeros(cuda, Dtype::F32, 2 * parts),
            numbers: Array::zeros(cuda, Dtype::F32, 4),
            norm: Tensor::on_card(&[], Array::zeros(cuda, Dtype::F32, 1)),
        };
        cuda.check()?;
        Ok(made)
    }

    /// What changes with step number `step`, the first being 1: the learning rate, and the share of the average that stays.
    pub(crate) fn set(&self, step: u64, rate: f32, stays: f32) {
        let AdamOptions { beta1, beta2, weight_decay, .. } = self.options;
        let step = i32::try_from(step).unwrap_or(i32::MAX);
        let [first, second] = [beta1, beta2].map(|beta| 1.0 - beta.powi(step));
        self.numbers.write(&[rate / first, 1.0 - rate * weight_decay, 1.0 / second.sqrt(), stays]);
    }

    /// Changes the parameters by their gradients.
    pub(crate) fn step(&self) {
        let flat = self.parameters.flat().expect("checked when it was made");
        let (cuda, fours, parts) = (flat.values.cuda(), flat.trained / 4, self.partials.len() / 2);
        let launch = |name, grid, block| Launch {
            file: "optim",
            name,
            grid: [grid, 1, 1],
            block,
            shared: 0,
            family: Family::Optimizer,
        };
        cuda.launch(
            launch("squares", parts, THREADS[0]),
            args![&flat.gradients, fours as u64, &self.partials],
        );
        let AdamOptions { beta1, beta2, epsilon, .. } = self.options;
        let ([m, v], norm) = (&self.moments, self.norm.array());
        let blocks = fours.div_ceil(THREADS[1]).clamp(1, 8 * cuda.multiprocessors() as usize);
        cuda.launch(
            launch("adam", blocks, THREADS[1]),
            args![
                &flat.values,
                flat.twin.as_ref(),
                &flat.gradients,
                m,
                v,
                self.average.as_ref(),
                fours as u64,
                &self.partials,
                parts,
                norm,
                &self.numbers,
                beta1,
                beta2,
                epsilon,
                self.max_norm
            ],
        );
    }

    /// The norm of all gradients at the last step, before they were scaled down.
    pub(crate) fn norm(&self) -> &Tensor {
        &self.norm
    }

    /// m and v of every parameter that is trained, in the processor's memory.
    pub(crate) fn moments(&self) -> Result<Vec<(ParameterId, [Tensor; 2])>> {
        let [m, v] = [self.pieces(&self.moments[0])?, self.pieces(&self.moments[1])?];
        Ok(m.into_iter().zip(v).map(|((id, m), (_, v))| (id, [m, v])).collect())
    }

    /// Gives m and v those numbers, and zero where there are none.
    pub(crate) fn restore(&self, moments: &[(ParameterId, [Tensor; 2])]) -> Result<()> {
        let flat = self.parameters.flat().expect("checked when it was made");
        for (which, array) in self.moments.iter().enumerate() {
            let mut host = vec![0.0_f32; flat.trained];
            for (id, own) in moments {
                let span = flat.spans.iter().find(|(known, _)| known == id).map(|(_, span)| span.clone());
                if let Some(span) = span.filter(|span| span.end <= flat.trained) {
                    host[span].copy_from_slice(own[which].data());
                }
            }
            array.copy_from(&Array::constant(flat.values.cuda(), &host));
        }
        flat.values.cuda().synchronize()
    }

    /// The moving average of every parameter that is trained, in the processor's memory.
    pub(crate) fn average(&self) -> Result<Option<Vec<(ParameterId, Tensor)>>> {
        self.average.as_ref().map(|average| self.pieces(average)).transpose()
    }

    /// An array of the layout of the parameters, cut into theirs.
    fn pieces(&self, array: &Array) -> Result<Vec<(ParameterId, Tensor)>> {
        let flat = self.parameters.flat().expect("checked when it was made");
        let host: Vec<f32> = array.read()?;
        let spans = flat.spans.iter().filter(|(_, span)| span.end <= flat.trained);
        let piece = |(id, span): &(ParameterId, std::ops::Range<usize>)| {
            (*id, Tensor::new(self.parameters.value(*id).shape(), host[span.clone()].to_vec()))
        };
        Ok(spans.map(piece).collect())
    }
}
