//! Steps queued on a GPU: the first of each batch shape is launched kernel by kernel, the second is recorded as a CUDA graph,
//! all others are replayed.
//!
//! Nothing here waits for the device. Everything that differs between steps is written into its memory before the step: ids,
//! lengths, the dropout key, the weight of a batch and the learning rate. Losses and norms are recorded there and read
//! together. The same steps give the same bits, launched or replayed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use polyhead_attention::{Capture, Pass};
use polyhead_tensor::indices::Bundle;
use polyhead_tensor::journal::{DeviceScalar, Journal};
use polyhead_tensor::optim::{GpuAdam, GpuAdamOptions};
use polyhead_tensor::repeated::Repeated;
use polyhead_tensor::{Device, Parameters, StepKey, Tape, Tensor};

use super::{LearnerOptions, PlannedStep, StepReport, Weights};
use crate::objective::{Batch as _, Objective};
use crate::{Error, Result};

/// Training on a device that works asynchronously.
#[derive(Debug)]
pub(super) struct StepQueue<O: Objective> {
    device: Device,
    parameters: Parameters,
    adam: GpuAdam,
    options: LearnerOptions,
    key: StepKey,
    /// Weight of a batch within its step.
    share: DeviceScalar,
    passes: HashMap<([usize; 3], GradientMode), RecordedShape<O::Batch>>,
    update: Repeated<()>,
    /// For each step the losses of its batches and the gradient norm.
    journal: Journal,
    /// Tokens of each step whose results are not read yet, and the shares of its batches.
    pending: Vec<(usize, Vec<f64>)>,
    /// The number of the last step.
    last: u64,
}

/// Gradients of a batch: replace the old ones (first batch of a step), or add to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum GradientMode {
    Replace,
    Accumulate,
}

/// The forward and backward pass for one batch shape.
#[derive(Debug)]
struct RecordedShape<B> {
    batch: B,
    /// The ids and lengths of `batch`.
    bundle: Bundle,
    work: Repeated<Tensor>,
}

impl<O: Objective> StepQueue<O> {
    pub(super) fn new(device: &Device, weights: &Weights, options: LearnerOptions) -> Result<Self> {
        let parameters = weights.parameters.to_device(device)?;
        let adam = GpuAdam::new(
            &parameters,
            GpuAdamOptions { adam: weights.adam.options, max_norm: options.clip_norm },
            weights.average.as_ref(),
        )?;
        adam.restore(&weights.adam)?;
        Ok(Self {
            parameters,
            adam,
            options,
            key: StepKey::new(device),
            share: DeviceScalar::new(device, 1.0)?,
            passes: HashMap::new(),
            update: Repeated::New,
            journal: Journal::new(device, device.policy().steps_ahead * (options.accumulate + 1))?,
            pending: Vec::new(),
            last: weights.adam.steps(),
            device: device.clone(),
        })
    }

    /// Queues one step.
    pub(super) fn step(&mut self, objective: &O, batches: &[O::Batch], plan: &PlannedStep) -> Result<()> {
        let shares: Vec<f64> = batches.iter().map(O::Batch::share).collect();
        let whole: f64 = shares.iter().sum();
        for (index, batch) in batches.iter().enumerate() {
            self.key.set(self.options.seed, self.options.number(plan.step, index));
            self.share.set(shares[index] as f32 / whole as f32);
            self.pass(
                objective,
                batch,
                if index == 0 { GradientMode::Replace } else { GradientMode::Accumulate },
            )?;
        }
        self.adam.set(plan.step, plan.learning_rate as f32, self.options.decay(plan.step));
        let Self { device, update, adam, journal, .. } = self;
        let change = || {
            adam.step();
            Ok::<(), Error>(())
        };
        update.run(device, change, |()| journal.note(adam.norm()))?;
        self.pending.push((batches.iter().map(O::Batch::weight).sum(), shares));
        self.last = plan.step;
        Ok(())
    }

    /// Queues the gradients of one batch.
    fn pass(&mut self, objective: &O, batch: &O::Batch, mode: GradientMode) -> Result<()> {
        let Self { device, parameters, key, share, passes, journal, options, .. } = self;
        let RecordedShape { batch: own, bundle, work } = match passes.entry((batch.sizes(), mode)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let bundle = Bundle::new(device, &batch.lists())?;
                new.insert(RecordedShape { batch: batch.with(bundle.lists()), bundle, work: Repeated::New })
            }
        };
        bundle.write(&batch.lists());
        let gradients = || {
            let capture = Capture::off();
            let tape = match mode {
                GradientMode::Replace => Tape::training_with(key),
                GradientMode::Accumulate => Tape::training_with(key).continuing(),
            };
            let pass = Pass::new(&tape, parameters, &capture);
            let (loss, value) = objective.loss(&pass, own, options.loss())?;
            drop(tape.backward_times(&loss, share));
            Ok(value)
        };
        work.run(device, gradients, |value| journal.note(value))
    }

    /// Waits for the queued steps; returns their reports.
    pub(super) fn reports(&mut self) -> Result<Vec<StepReport>> {
        let mut numbers = self.journal.take()?.into_iter().map(f64::from);
        let reports = std::mem::take(&mut self.pending).into_iter().map(|(tokens, shares)| {
            let whole: f64 = shares.iter().sum();
            let mut loss = 0.0;
            for &own in &shares {
                loss += numbers.next().unwrap_or(f64::NAN) * f64::from(own as f32 / whole as f32);
            }
            let gradient_norm = numbers.next().unwrap_or(f64::NAN);
            StepReport { loss, gradient_norm, tokens, batches: shares.len() }
        });
        Ok(reports.collect())
    }

    /// Copies the weights from the device.
    pub(super) fn fetch(&mut self, weights: &mut Weights) -> Result<()> {
        weights.parameters = self.parameters.to_host()?;
        if let Some(average) = &mut weights.average {
            self.adam.save_average(average)?;
        }
        Ok(self.adam.save(self.last, &mut weights.adam)?)
    }
}
