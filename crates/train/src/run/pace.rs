//! Progress of a run, estimated time, and limits.

use std::sync::atomic::{AtomicBool, Ordering};

use super::Run;
use crate::event::{Ending, Event};
use crate::learner::EpochOf;
use crate::memory::peak;
use crate::objective::{EpochBatches as _, Objective};

impl<O: Objective> Run<'_, O> {
    /// The limit that the run has reached before its next step, if any.
    pub(super) fn limit(&self) -> Option<Ending> {
        let train = &self.config.train;
        let minutes = self.state.seconds / 60.0;
        let own_minutes = self.started.elapsed().as_secs_f64() / 60.0;
        if train.max_steps > 0 && self.state.step >= train.max_steps {
            Some(Ending::Steps)
        } else if train.max_epochs > 0 && self.state.position.epoch >= train.max_epochs {
            Some(Ending::Epochs)
        } else if train.max_minutes > 0.0 && minutes >= train.max_minutes {
            Some(Ending::Time)
        } else if self.config.validation.patience > 0 && self.state.waiting >= self.config.validation.patience
        {
            Some(Ending::Patience)
        } else if self.is_stopping() {
            Some(Ending::Stopped)
        } else if self.options.max_minutes.is_some_and(|most| own_minutes >= most) {
            Some(Ending::Paused)
        } else {
            None
        }
    }

    /// True if something besides the next step may follow a step: a log line, a validation, a checkpoint, the end.
    pub(super) fn pauses_after(&self, step: u64) -> bool {
        let (train, validation, checkpoint) =
            (&self.config.train, &self.config.validation, &self.config.checkpoint);
        [train.log_every, validation.every_steps, checkpoint.every_steps, train.max_steps]
            .into_iter()
            .any(|every| every > 0 && step.is_multiple_of(every))
    }

    /// True if the run was asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        is_set(self.options.stop)
    }

    /// Reports the estimated time of an epoch and of the rest of the run.
    pub(super) fn report_time(&mut self, epoch: &EpochOf<O>, epochs: f64) {
        let batches = self.own_steps as f64 * self.config.train.accumulate as f64;
        let seconds = self.own_seconds / batches * epoch.len() as f64;
        let train = &self.config.train;
        let by_epochs = (train.max_epochs > 0).then_some((train.max_epochs as f64 - epochs) * seconds);
        let step = self.own_seconds / self.own_steps as f64;
        let by_steps =
            (train.max_steps > 0).then(|| train.max_steps.saturating_sub(self.state.step) as f64 * step);
        let by_time = (train.max_minutes > 0.0).then_some(train.max_minutes * 60.0 - self.state.seconds);
        let rest = [by_epochs, by_steps, by_time].into_iter().flatten().reduce(f64::min);
        let on_device = self.device.peak_memory().map(|bytes| bytes as u64);
        (self.on_event)(&Event::Timed { epoch: seconds, rest, peak_memory: on_device.or_else(peak) });
    }

    /// Fraction done, by the nearest limit, 0 to 1.
    pub(super) fn done(&self, epochs: f64) -> Option<f64> {
        let train = &self.config.train;
        let by_steps = (train.max_steps > 0).then(|| self.state.step as f64 / train.max_steps as f64);
        let by_epochs = (train.max_epochs > 0).then(|| epochs / train.max_epochs as f64);
        let by_time = (train.max_minutes > 0.0).then(|| self.state.seconds / 60.0 / train.max_minutes);
        [by_steps, by_epochs, by_time].into_iter().flatten().reduce(f64::max).map(|done| done.min(1.0))
    }
}

/// True if there is a flag and it is set.
pub(super) fn is_set(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}
