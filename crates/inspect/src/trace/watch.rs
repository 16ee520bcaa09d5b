//! A model that tells of a translation while it is being searched for.
//!
//! It stands between the search and the model and remembers what every row was given. The first row is the best
//! hypothesis so far. Whoever is told can end the search.

use std::ops::ControlFlow;

use polyhead_models::decode::NextToken;
use polyhead_models::{Error, Result};
use polyhead_tensor::Tensor;

/// Who is told of the best hypothesis so far, by its ids.
pub type Watcher<'a> = &'a dyn Fn(&[u32]) -> ControlFlow<()>;

/// A model that is watched.
pub(super) struct Watched<'a, M> {
    pub(super) model: M,
    pub(super) watcher: Watcher<'a>,
}

impl<M: NextToken> Watched<'_, M> {
    fn tell(&self, rows: &mut [Vec<u32>], tokens: &[u32]) -> Result<()> {
        rows.iter_mut().zip(tokens).for_each(|(row, token)| row.push(*token));
        let best = rows.first().map_or(&[][..], Vec::as_slice);
        // What stands first is the start, which nobody wrote.
        if (self.watcher)(best.get(1..).unwrap_or_default()).is_break() {
            return Err(Error::Request { message: "the search was ended before its end".into() });
        }
        Ok(())
    }
}

impl<M: NextToken> NextToken for Watched<'_, M> {
    type State = (M::State, Vec<Vec<u32>>);

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<Self::State> {
        Ok((self.model.start(sources, n_rows)?, vec![Vec::new(); sources.len()]))
    }

    fn step(&self, (state, rows): &mut Self::State, tokens: &[u32]) -> Result<Tensor> {
        self.tell(rows, tokens)?;
        self.model.step(state, tokens)
    }

    fn step_attending(
        &self,
        (state, rows): &mut Self::State,
        tokens: &[u32],
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.tell(rows, tokens)?;
        self.model.step_attending(state, tokens)
    }

    fn reorder(&self, (state, own): &mut Self::State, rows: &[usize]) {
        *own = rows.iter().map(|&row| own[row].clone()).collect();
        self.model.reorder(state, rows);
    }
}
