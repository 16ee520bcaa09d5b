//! The decoder: a causal `Stack` over embedded tokens, applied to whole sequences in training and to prompts, and token by
//! token in decoding.

use polyhead_attention::layers::{Embedding, Norm};
use polyhead_attention::{Builder, Pass, SiteGroup};
use polyhead_tensor::ops::attention::StepRows;
use polyhead_tensor::repeated::Repeated;
use polyhead_tensor::{Error, Result, Tensor, Var};

use super::config::PositionConfig;
use super::cross::Source;
use super::input::{Input, InputOptions};
use super::stack::{Stack, StackOptions, StackState};
use crate::ids::Ids;

/// The decoder stack: embeddings and a causal stack.
#[derive(Debug, Clone)]
pub(crate) struct DecoderStack {
    input: Input,
    stack: Stack,
    name: &'static str,
    /// Size of the vocabulary.
    vocab_size: usize,
    /// Maximum number of positions, if positions come from a table.
    max_len: Option<usize>,
}

/// Decoder state: the K/V cache and the projected source.
#[derive(Debug)]
pub struct DecoderState {
    stack: StackState,
    /// The recorded step (a CUDA graph), and the shapes it was recorded for.
    repeated: Repeated<Tensor>,
    recorded_shapes: [usize; 2],
}

/// Permission to record a step on a device and replay it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Allowed: the result of the step stays valid after it is recorded.
    Allowed,
    /// Not allowed: the result would not stay valid.
    Never,
}

impl DecoderState {
    /// The source sentence of each row.
    pub fn sentences(&self) -> &[usize] {
        self.stack.cache.rows().sources()
    }

    /// Number of tokens of the longest row so far.
    pub fn len(&self) -> usize {
        self.stack.cache.len()
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.stack.cache.is_empty()
    }

    /// Number of tokens of each row so far.
    pub fn lengths(&self) -> &[usize] {
        self.stack.cache.rows().lengths()
    }

    /// Replaces row i by row `rows[i]`.
    pub fn reorder(&mut self, rows: &[usize]) {
        self.stack.cache.reorder(rows);
    }

    /// Appends the rows of another state of the same model, without a source.
    pub(crate) fn join(&mut self, other: &Self) {
        self.stack.cache.join(&other.stack.cache);
        self.repeated = Repeated::New;
    }

    /// Frees the memory of rows that have left, on the CPU.
    pub(crate) fn release(&mut self) {
        self.stack.cache.release();
    }

    /// True if texts can be appended to rows that have tokens, and rows be copied: on the CPU.
    pub(crate) fn is_extendable(&self) -> bool {
        self.stack.cache.rows().is_on_cpu()
    }

    /// A copy of the first `length` tokens of one row, without a source; `None` on a GPU.
    pub(crate) fn prefix(&self, row: usize, length: usize) -> Option<Self> {
        let cache = self.stack.cache.prefix(row, length)?;
        let stack = StackState { cache, memory: Vec::new() };
        Some(Self { stack, repeated: Repeated::New, recorded_shapes: [0; 2] })
    }
}

impl DecoderStack {
    /// Declares the stack under `builder`; `embedding` has `vocab_size` rows and may be shared.
    pub(crate) fn new(
        builder: &mut Builder<'_>,
        (embedding, vocab_size): (Embedding, usize),
        input: &InputOptions,
        stack: &StackOptions,
    ) -> Result<Self> {
        let is_limited = matches!(input.position, PositionConfig::Learned {} | PositionConfig::Rotary { .. });
        Ok(Self {
            input: Input::new(builder, embedding, input),
            stack: Stack::new(builder, stack)?,
            name: stack.kind.stack,
            vocab_size,
            max_len: is_limited.then_some(input.max_len),
        })
    }

    /// The attention layers of the stack.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        self.stack.sites()
    }

    /// The norm after the last layer.
    pub(crate) fn final_norm(&self) -> Option<&Norm> {
        self.stack.final_norm()
    }

    /// Maximum number of positions, if positions come from a table.
    pub(crate) fn max_len(&self) -> Option<usize> {
        self.max_len
    }

    /// Decodes target ids, which attend to `source` → rows × target length × d_model.
    pub(crate) fn forward(&self, pass: &Pass<'_>, source: Option<Source<'_>>, target: &Ids) -> Result<Var> {
        let x = self.input.forward(pass, target.ids(), target.length(), 0)?;
        pass.capture.activation(|| format!("{}.embedding", self.name), &x);
        self.stack.forward(pass, x, None, source)
    }

    /// The state before the first token: one row per source sentence, with capacity for `n_rows` rows. `source_lengths` are in
    /// CPU memory: those of the source, or of several together and then of each.
    pub(crate) fn start(
        &self,
        pass: &Pass<'_>,
        source: Option<Source<'_>>,
        source_lengths: &[&[u32]],
        n_rows: usize,
    ) -> Result<DecoderState> {
        let rows = StepRows::of_several(source_lengths, n_rows).on(&pass.parameters.device());
        let stack = self.stack.start(pass, source, rows)?;
        Ok(DecoderState { stack, repeated: Repeated::New, recorded_shapes: [0; 2] })
    }

    /// The state after `ids`, with capacity for `n_rows` rows; the stack has no cross-attention. One pass over all tokens gives
    /// the bits of a step for each.
    pub(crate) fn prefill(&self, pass: &Pass<'_>, ids: &Ids, n_rows: usize) -> Result<DecoderState> {
        let device = pass.parameters.device();
        let lengths: Vec<usize> = ids.lengths().host().iter().map(|&length| length as usize).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        self.check_len(longest)?;
        check_ids(ids.ids().host(), self.vocab_size)?;
        let rows = StepRows::new(lengths.len(), n_rows).on(&device).filled(&lengths);
        let stack = if longest == 0 {
            self.stack.start(pass, None, rows)?
        } else {
            let ids = ids.to_device(&device)?;
            let x = self.input.forward(pass, ids.ids(), ids.length(), 0)?;
            pass.capture.activation(|| format!("{}.embedding", self.name), &x);
            self.stack.prefill(pass, x, rows)?
        };
        Ok(DecoderState { stack, repeated: Repeated::New, recorded_shapes: [0; 2] })
    }

    /// Appends a text to each row, on the CPU: one pass over all tokens, with the bits of a step for each.
    pub(crate) fn extend(&self, pass: &Pass<'_>, state: &mut DecoderState, texts: &[&[u32]]) -> Result<()> {
        let cache = &mut state.stack.cache;
        let ends = cache.rows().lengths().iter().zip(texts).map(|(length, text)| length + text.len());
        let longest = ends.max().unwrap_or(0);
        self.check_len(longest)?;
        check_ids(&texts.concat(), self.vocab_size)?;
        let rows = cache.begin_texts(texts, self.stack.mask());
        let done = self.newest(pass, &mut state.stack);
        state.stack.cache.end_texts(rows, texts);
        done.map(drop)
    }

    /// One decoding step, a token per row: `finish` maps rows × d_model to the result of the step, a row per token. A
    /// device that can replay a recorded step does so, unless there is a capture or an intervention, or `replay` forbids
    /// it.
    pub(crate) fn step<E: From<Error>>(
        &self,
        pass: &Pass<'_>,
        (state, tokens): (&mut DecoderState, &[u32]),
        replay: Replay,
        finish: impl FnOnce(&Var) -> std::result::Result<Tensor, E>,
    ) -> std::result::Result<Tensor, E> {
        let DecoderState { stack, repeated, recorded_shapes } = state;
        self.check(stack.cache.len(), tokens)?;
        stack.cache.begin(tokens, self.stack.mask());
        if std::mem::replace(recorded_shapes, stack.cache.rows().recording_key()) != *recorded_shapes {
            *repeated = Repeated::New;
        }
        let is_recorded =
            stack.cache.rows().are_few() && pass.capture.is_off() && pass.intervention.is_none();
        let work = || finish(&self.newest(pass, stack)?);
        let mut y = None;
        match replay {
            Replay::Allowed if is_recorded => {
                repeated.run(&pass.parameters.device(), work, |result| y = Some(result.clone()))?;
            }
            Replay::Allowed | Replay::Never => y = Some(work()?),
        }
        state.stack.cache.advance();
        Ok(y.expect("both branches set the result").first_rows(tokens.len()))
    }

    /// Checks that there are positions for texts of `longest` tokens.
    fn check_len(&self, longest: usize) -> Result<()> {
        match self.max_len.filter(|max_len| *max_len < longest) {
            Some(max_len) => {
                let expected = format!("at least {longest} positions");
                Err(Error::Shape { operation: "prefill", name: "positions", found: vec![max_len], expected })
            }
            None => Ok(()),
        }
    }

    /// Checks ids and length, since operations do not check their inputs when they are replayed.
    fn check(&self, len: usize, tokens: &[u32]) -> Result<()> {
        check_ids(tokens, self.vocab_size)?;
        match self.max_len {
            Some(max_len) if len >= max_len => {
                let expected = format!("more than {len} positions");
                Err(Error::Shape { operation: "step", name: "positions", found: vec![max_len], expected })
            }
            _ => Ok(()),
        }
    }

    /// Decodes the newest token of each row → rows × d_model.
    fn newest(&self, pass: &Pass<'_>, state: &mut StackState) -> Result<Var> {
        state.cache.rows().follow_parents();
        let x = self.input.step(pass, state.cache.rows())?;
        pass.capture.activation(|| format!("{}.embedding", self.name), &x);
        self.stack.step(pass, x, state)
    }
}

fn check_ids(ids: &[u32], vocab_size: usize) -> Result<()> {
    match ids.iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
        Some((position, &id)) => Err(Error::Id { operation: "embedding", id, position, vocab_size }),
        None => Ok(()),
    }
}
