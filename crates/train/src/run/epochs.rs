//! The batches of one epoch after the other. If every epoch tokenises the text again (BPE-dropout, augmentation) and training
//! is on a GPU, the next epoch is prepared in the background: it takes longer to prepare than the GPU trains on it.

use std::thread::{Scope, ScopedJoinHandle};

use polyhead_tensor::Device;
use polyhead_text::batch::BatchOptions;

use crate::Result;
use crate::config::RunConfig;
use crate::objective::Dataset;
use crate::preparation::batches;

/// The dataset and options that epochs are made from.
#[derive(Debug)]
pub(super) struct Epochs<'a, D> {
    data: &'a D,
    batches: BatchOptions,
    /// Index of the last epoch, by train.max_epochs.
    last: u64,
    runs_ahead: bool,
}

/// Epochs, with the next one prepared in the background.
pub(super) struct EpochPrefetcher<'scope, 'env, D: Dataset> {
    epochs: Epochs<'env, D>,
    scope: &'scope Scope<'scope, 'env>,
    /// An epoch that is ready, with its index.
    ready: Option<(u64, D::Epoch)>,
    next: Option<(u64, ScopedJoinHandle<'scope, Result<D::Epoch>>)>,
}

impl<'a, D: Dataset> Epochs<'a, D> {
    pub(super) fn new(config: &RunConfig, data: &'a D, device: &Device) -> Self {
        let last = config.train.max_epochs.checked_sub(1).unwrap_or(u64::MAX);
        let runs_ahead = data.resamples_each_epoch() && device.policy().steps_ahead > 1;
        Self { data, batches: batches(config), last, runs_ahead }
    }

    /// Epochs that may spawn threads in `scope`; `first` is epoch 0.
    pub(super) fn in_scope<'scope>(
        self,
        scope: &'scope Scope<'scope, 'a>,
        first: D::Epoch,
    ) -> EpochPrefetcher<'scope, 'a, D>
    where
        D::Epoch: 'scope,
    {
        EpochPrefetcher { epochs: self, scope, ready: Some((0, first)), next: None }
    }
}

impl<'scope, D: Dataset> EpochPrefetcher<'scope, '_, D>
where
    D::Epoch: 'scope,
{
    /// Returns epoch `number`, and starts preparing the next one.
    pub(super) fn take(&mut self, number: u64) -> Result<D::Epoch> {
        let Epochs { data, batches, last, runs_ahead } = self.epochs;
        let ready = self.ready.take().filter(|(known, _)| *known == number);
        let known = self.next.take().filter(|(known, _)| *known == number);
        let epoch = match known.map(|(_, making)| making.join()) {
            Some(Ok(ready)) => ready?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => match ready {
                Some((_, ready)) => ready,
                None => data.epoch(batches, number)?,
            },
        };
        if runs_ahead && number < last {
            self.next = Some((number + 1, self.scope.spawn(move || data.epoch(batches, number + 1))));
        }
        Ok(epoch)
    }
}
