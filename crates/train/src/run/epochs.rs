//! The batches of one epoch after the other. Where every epoch cuts the text anew and a card trains, the next one is made
//! meanwhile: the card would wait longer for it than it trains on it.

use std::thread::{Scope, ScopedJoinHandle};

use polyhead_tensor::Device;
use polyhead_text::batch::BatchOptions;

use crate::Result;
use crate::config::RunConfig;
use crate::dataset::{Dataset, EpochData};
use crate::preparation::Preparation;

/// How epochs are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epochs<'a> {
    data: &'a Dataset,
    batches: BatchOptions,
    /// The last epoch there can be, by train.max_epochs.
    last: u64,
    runs_ahead: bool,
}

/// Epochs and the one that is being made.
pub(super) struct Making<'scope, 'env> {
    epochs: Epochs<'env>,
    scope: &'scope Scope<'scope, 'env>,
    next: Option<(u64, ScopedJoinHandle<'scope, Result<EpochData>>)>,
}

impl<'a> Epochs<'a> {
    pub(super) fn new(config: &RunConfig, data: &'a Dataset, device: &Device) -> Self {
        let last = config.train.max_epochs.checked_sub(1).unwrap_or(u64::MAX);
        let runs_ahead = data.cuts_anew() && !device.is_cpu();
        Self { data, batches: Preparation::batches(config), last, runs_ahead }
    }

    /// Ready to make some beside the training.
    pub(super) fn in_scope<'scope>(self, scope: &'scope Scope<'scope, 'a>) -> Making<'scope, 'a> {
        Making { epochs: self, scope, next: None }
    }
}

impl Making<'_, '_> {
    /// Epoch number `number`; the one after it is begun.
    pub(super) fn take(&mut self, number: u64) -> Result<EpochData> {
        let Epochs { data, batches, last, runs_ahead } = self.epochs;
        let known = self.next.take().filter(|(known, _)| *known == number);
        let epoch = match known.map(|(_, making)| making.join()) {
            Some(Ok(made)) => made?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => data.epoch(batches, number)?,
        };
        if runs_ahead && number < last {
            self.next = Some((number + 1, self.scope.spawn(move || data.epoch(batches, number + 1))));
        }
        Ok(epoch)
    }
}
