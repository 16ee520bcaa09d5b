//! The batches of one epoch after the other. Where every epoch cuts the text anew and the device works beside this process,
//! the next one is made meanwhile: a GPU would wait longer for it than it trains on it.

use std::thread::{Scope, ScopedJoinHandle};

use polyhead_tensor::Device;
use polyhead_text::batch::BatchOptions;

use crate::Result;
use crate::config::RunConfig;
use crate::objective::Dataset;
use crate::preparation::batches;

/// How epochs are made.
#[derive(Debug)]
pub(super) struct Epochs<'a, D> {
    data: &'a D,
    batches: BatchOptions,
    /// The last epoch there can be, by train.max_epochs.
    last: u64,
    runs_ahead: bool,
}

/// Epochs and the one that is being made.
pub(super) struct Making<'scope, 'env, D: Dataset> {
    epochs: Epochs<'env, D>,
    scope: &'scope Scope<'scope, 'env>,
    /// One that was made before, with its number.
    made: Option<(u64, D::Epoch)>,
    next: Option<(u64, ScopedJoinHandle<'scope, Result<D::Epoch>>)>,
}

impl<'a, D: Dataset> Epochs<'a, D> {
    pub(super) fn new(config: &RunConfig, data: &'a D, device: &Device) -> Self {
        let last = config.train.max_epochs.checked_sub(1).unwrap_or(u64::MAX);
        let runs_ahead = data.cuts_anew() && device.policy().steps_ahead > 1;
        Self { data, batches: batches(config), last, runs_ahead }
    }

    /// Ready to make some beside the training; the first one may be there already.
    pub(super) fn in_scope<'scope>(
        self,
        scope: &'scope Scope<'scope, 'a>,
        first: D::Epoch,
    ) -> Making<'scope, 'a, D>
    where
        D::Epoch: 'scope,
    {
        Making { epochs: self, scope, made: Some((0, first)), next: None }
    }
}

impl<'scope, D: Dataset> Making<'scope, '_, D>
where
    D::Epoch: 'scope,
{
    /// Epoch number `number`; the one after it is begun.
    pub(super) fn take(&mut self, number: u64) -> Result<D::Epoch> {
        let Epochs { data, batches, last, runs_ahead } = self.epochs;
        let made = self.made.take().filter(|(known, _)| *known == number);
        let known = self.next.take().filter(|(known, _)| *known == number);
        let epoch = match known.map(|(_, making)| making.join()) {
            Some(Ok(made)) => made?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => match made {
                Some((_, made)) => made,
                None => data.epoch(batches, number)?,
            },
        };
        if runs_ahead && number < last {
            self.next = Some((number + 1, self.scope.spawn(move || data.epoch(batches, number + 1))));
        }
        Ok(epoch)
    }
}
