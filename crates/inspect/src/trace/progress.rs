//! Progress of a search: a model wrapper that reports the best hypothesis at every step.
//!
//! It sits between the search and the model and stores the tokens of every row. The first row is the best hypothesis so far.
//! The callback can cancel the search.

use std::ops::ControlFlow;

use polyhead_models::decode::NextToken;
use polyhead_models::{Error, Result};
use polyhead_tensor::Tensor;

/// Callback that receives the ids of the best hypothesis so far; `Break` cancels the search.
pub type ProgressCallback<'a> = &'a dyn Fn(&[u32]) -> ControlFlow<()>;

/// A model that reports progress.
pub(super) struct ProgressModel<'a, M> {
    pub(super) model: M,
    pub(super) progress: ProgressCallback<'a>,
}

impl<M: NextToken> ProgressModel<'_, M> {
    fn report(&self, rows: &mut [Vec<u32>], tokens: &[u32]) -> Result<()> {
        rows.iter_mut().zip(tokens).for_each(|(row, token)| row.push(*token));
        let best = rows.first().map_or(&[][..], Vec::as_slice);
        // The first id is the start token, which is not output.
        if (self.progress)(best.get(1..).unwrap_or_default()).is_break() {
            return Err(Error::Request { message: "the search was cancelled".into() });
        }
        Ok(())
    }
}

impl<M: NextToken> NextToken for ProgressModel<'_, M> {
    type State = (M::State, Vec<Vec<u32>>);

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<Self::State> {
        Ok((self.model.start(sources, n_rows)?, vec![Vec::new(); sources.len()]))
    }

    fn step(&self, (state, rows): &mut Self::State, tokens: &[u32]) -> Result<Tensor> {
        self.report(rows, tokens)?;
        self.model.step(state, tokens)
    }

    fn step_with_attention(
        &self,
        (state, rows): &mut Self::State,
        tokens: &[u32],
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.report(rows, tokens)?;
        self.model.step_with_attention(state, tokens)
    }

    fn reorder(&self, (state, own): &mut Self::State, rows: &[usize]) {
        *own = rows.iter().map(|&row| own[row].clone()).collect();
        self.model.reorder(state, rows);
    }
}
