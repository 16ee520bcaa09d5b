//! The training step on a GPU: recorded once as a CUDA graph, replayed without pauses.

use std::time::Instant;

use anyhow::Result;
use polyhead_attention::{Capture, Pass};
use polyhead_models::Error;
use polyhead_tensor::journal::Journal;
use polyhead_tensor::optim::{GpuAdam, GpuAdamOptions};
use polyhead_tensor::repeated::Repeated;
use polyhead_tensor::{Device, StepKey, Tape, Tensor};

use super::{StepTimes, TrainingTask};

/// Number of time measurements; the steps are split evenly.
const PARTS: usize = 5;

impl TrainingTask {
    /// Times the steps on a GPU.
    pub(super) fn on_gpu(&self, device: &Device) -> Result<StepTimes> {
        let parameters = self.parameters.to_device(device)?;
        let (batch, expected) = (self.batch.to_device(device)?, self.expected.to_device(device)?);
        let options = GpuAdamOptions { adam: self.adam, max_norm: self.max_norm };
        let adam = GpuAdam::new(&parameters, options, None)?;
        let mut key = StepKey::new(device);
        let mut journal = Journal::new(device, 2)?;
        let mut work = Repeated::default();
        let mut step = 0;
        let mut next = |work: &mut Repeated<Tensor>, then: &mut dyn FnMut(&Tensor)| -> Result<(), Error> {
            key.set(self.seed, step);
            step += 1;
            adam.set(step, self.adam.learning_rate, 0.0);
            let one_step = || {
                let (tape, capture) = (Tape::training_with(&key), Capture::off());
                let pass = Pass::new(&tape, &parameters, &capture);
                let loss = self.model.loss(&pass, &batch, &expected, self.loss)?;
                let value = loss.value().clone();
                drop(tape.backward(&loss));
                adam.step();
                Ok(value)
            };
            work.run(device, one_step, then)
        };
        next(&mut work, &mut |loss| journal.note(loss))?;
        next(&mut work, &mut |_| {})?;
        device.synchronize()?;
        let each = self.steps.div_ceil(PARTS);
        let mut seconds = Vec::new();
        while seconds.len() * each < self.steps {
            let start = Instant::now();
            for _ in 0..each {
                next(&mut work, &mut |_| {})?;
            }
            device.synchronize()?;
            seconds.push(start.elapsed().as_secs_f64() / each as f64);
        }
        seconds.sort_by(f64::total_cmp);
        next(&mut work, &mut |loss| journal.note(loss))?;
        let losses = journal.take()?;
        // Without the graph, so that each kernel can be timed.
        let mut failed = Ok(());
        let families = device.profile(|| failed = next(&mut Repeated::default(), &mut |_| {}))?;
        failed?;
        let busy: f64 = families.iter().map(|(_, milliseconds)| milliseconds).sum();
        let gaps = 1e3 * seconds[seconds.len() / 2] - busy;
        let breakdown = families.into_iter().chain([("gaps", gaps)]).collect();
        Ok(StepTimes { seconds, losses: [losses[0], losses[1]], breakdown: Some(breakdown) })
    }
}
