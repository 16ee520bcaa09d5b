//! A model that is asked before every step whether its tokens are still wanted.
//!
//! The answer comes from whoever waits for the translation. A server uses the moment for other work: between two steps
//! nothing of the search is borrowed, and no other sentence changes its result.

use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_models::decode::{NextToken, StepLogits};
use polyhead_tensor::Tensor;

/// A model whose steps fail as soon as `is_wanted` returns false.
pub(super) struct Watched<'a, M> {
    model: &'a M,
    is_wanted: &'a (dyn Fn() -> bool + Sync),
    is_cancelled: AtomicBool,
}

impl<'a, M> Watched<'a, M> {
    pub(super) fn new(model: &'a M, is_wanted: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { model, is_wanted, is_cancelled: AtomicBool::new(false) }
    }

    /// True if a step failed because the tokens were not wanted any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn check(&self) -> polyhead_models::Result<()> {
        if (self.is_wanted)() {
            return Ok(());
        }
        self.is_cancelled.store(true, Ordering::Relaxed);
        Err(polyhead_models::Error::Request { message: "the request was cancelled".into() })
    }
}

impl<M: NextToken> NextToken for Watched<'_, M> {
    type State = M::State;

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> polyhead_models::Result<Self::State> {
        self.model.start(sources, n_rows)
    }

    fn step(&self, state: &mut Self::State, tokens: &[u32]) -> polyhead_models::Result<Tensor> {
        self.check()?;
        self.model.step(state, tokens)
    }

    fn step_listed(
        &self,
        state: &mut Self::State,
        tokens: &[u32],
    ) -> polyhead_models::Result<StepLogits<'_>> {
        self.check()?;
        self.model.step_listed(state, tokens)
    }

    fn step_with_attention(
        &self,
        state: &mut Self::State,
        tokens: &[u32],
    ) -> polyhead_models::Result<(Tensor, Option<Tensor>)> {
        self.check()?;
        self.model.step_with_attention(state, tokens)
    }

    fn reorder(&self, state: &mut Self::State, rows: &[usize]) {
        self.model.reorder(state, rows);
    }
}
