//! The decoder: a causal `Stack` over embedded tokens, applied to whole sequences in training and token by token in
//! decoding.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{Builder, Pass, SiteGroup};
use polyhead_tensor::ops::attention::StepRows;
use polyhead_tensor::repeated::Repeated;
use polyhead_tensor::{Error, Result, Tensor, Var};

use super::config::PositionConfig;
use super::input::{Input, InputOptions};
use super::stack::{Source, Stack, StackOptions, StackState};
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

    /// Number of tokens so far.
    pub fn len(&self) -> usize {
        self.stack.cache.len()
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.stack.cache.is_empty()
    }

    /// Replaces row i by row `rows[i]`.
    pub fn reorder(&mut self, rows: &[usize]) {
        self.stack.cache.reorder(rows);
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

    /// Decodes target ids, which attend to `source` → rows × target length × d_model.
    pub(crate) fn forward(&self, pass: &Pass<'_>, source: Option<Source<'_>>, target: &Ids) -> Result<Var> {
        let x = self.input.forward(pass, target.ids(), target.length(), 0)?;
        pass.capture.activation(|| format!("{}.embedding", self.name), &x);
        self.stack.forward(pass, x, None, source)
    }

    /// The state before the first token: one row per source sentence, with capacity for `n_rows` rows.
    pub(crate) fn start(
        &self,
        pass: &Pass<'_>,
        memory: Option<&Var>,
        source_lengths: &[u32],
        n_rows: usize,
    ) -> Result<DecoderState> {
        let rows = StepRows::of_sources(source_lengths, n_rows).on(&pass.parameters.device());
        let stack = self.stack.start(pass, memory, rows)?;
        Ok(DecoderState { stack, repeated: Repeated::New, recorded_shapes: [0; 2] })
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

    /// Checks ids and length, since operations do not check their inputs when they are replayed.
    fn check(&self, len: usize, tokens: &[u32]) -> Result<()> {
        let vocab_size = self.vocab_size;
        if let Some((position, &id)) = tokens.iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
            return Err(Error::Id { operation: "embedding", id, position, vocab_size });
        }
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
