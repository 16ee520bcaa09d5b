//! The decoder: a causal `Stack` over embedded tokens, all of them at once in training, one after the other in decoding.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{Builder, Pass, SiteGroup};
use polyhead_tensor::ops::attention::StepRows;
use polyhead_tensor::repeated::Repeated;
use polyhead_tensor::{Error, Result, Tensor, Var};

use super::config::PositionConfig;
use super::input::{Input, InputOptions};
use super::stack::{Source, Stack, StackOptions, StackState};
use crate::ids::Ids;

/// Writes a sequence.
#[derive(Debug, Clone)]
pub(crate) struct DecoderStack {
    input: Input,
    stack: Stack,
    name: &'static str,
    /// Ids that can be embedded.
    vocab_size: usize,
    /// Most positions, where each needs a row of a table.
    max_len: Option<usize>,
}

/// DecoderStack state: the K/V cache and the projected source.
#[derive(Debug)]
pub struct DecoderState {
    stack: StackState,
    /// The recorded step, and the shapes it was recorded for.
    repeated: Repeated<Tensor>,
    form: [usize; 2],
}

/// May a device record a step and replay it?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// The result of the step outlives its recording.
    Allowed,
    /// It does not.
    Never,
}

impl DecoderState {
    /// The source sentence of each row.
    pub fn sentences(&self) -> &[usize] {
        self.stack.cache.rows().sources()
    }

    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.stack.cache.len()
    }

    /// True before the first token.
    pub fn is_empty(&self) -> bool {
        self.stack.cache.is_empty()
    }

    /// Row i becomes what row `rows[i]` was.
    pub fn reorder(&mut self, rows: &[usize]) {
        self.stack.cache.reorder(rows);
    }
}

impl DecoderStack {
    /// Declares the stack here; `embedding` may be shared, and has `vocab_size` rows.
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

    /// Its attentions.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        self.stack.sites()
    }

    /// Target ids, and the sequence that they attend to → rows × target length × d_model.
    pub(crate) fn forward(&self, pass: &Pass<'_>, source: Option<Source<'_>>, target: &Ids) -> Result<Var> {
        let x = self.input.forward(pass, target.ids(), target.length(), 0)?;
        pass.capture.activation(|| format!("{}.embedding", self.name), &x);
        self.stack.forward(pass, x, None, source)
    }

    /// The state before the first token: one row for each source sentence, room for `n_rows` rows.
    pub(crate) fn start(
        &self,
        pass: &Pass<'_>,
        memory: Option<&Var>,
        source_lengths: &[u32],
        n_rows: usize,
    ) -> Result<DecoderState> {
        let rows = StepRows::of_sources(source_lengths, n_rows).on(&pass.parameters.device());
        let stack = self.stack.start(pass, memory, rows)?;
        Ok(DecoderState { stack, repeated: Repeated::New, form: [0; 2] })
    }

    /// One token in each row: `finish` gets rows × d_model and gives what a step is to give, a row for each token. Where a
    /// device can replay a step it does so, unless something is captured or changed or `finish` is not to be recorded.
    pub(crate) fn step<E: From<Error>>(
        &self,
        pass: &Pass<'_>,
        (state, tokens): (&mut DecoderState, &[u32]),
        replay: Replay,
        finish: impl FnOnce(&Var) -> std::result::Result<Tensor, E>,
    ) -> std::result::Result<Tensor, E> {
        let DecoderState { stack, repeated, form } = state;
        self.check(stack.cache.len(), tokens)?;
        stack.cache.begin(tokens, self.stack.mask());
        if std::mem::replace(form, stack.cache.rows().form()) != *form {
            *repeated = Repeated::New;
        }
        let is_recorded =
            stack.cache.rows().are_few() && pass.capture.is_off() && pass.intervention.is_none();
        let work = || finish(&self.newest(pass, stack)?);
        let mut y = None;
        match replay {
            Replay::Allowed if is_recorded => {
                repeated.go(&pass.parameters.device(), work, |found| y = Some(found.clone()))?;
            }
            Replay::Allowed | Replay::Never => y = Some(work()?),
        }
        state.stack.cache.advance();
        Ok(y.expect("a step gives something").first_rows(tokens.len()))
    }

    /// What operations check when they are done is not checked again when they are replayed.
    fn check(&self, len: usize, tokens: &[u32]) -> Result<()> {
        let vocab_size = self.vocab_size;
        if let Some((place, &id)) = tokens.iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
            return Err(Error::Id { operation: "embedding", id, position: place, vocab_size });
        }
        match self.max_len {
            Some(max_len) if len >= max_len => {
                let expected = format!("more than {len} places");
                Err(Error::Shape { operation: "step", name: "places", found: vec![max_len], expected })
            }
            _ => Ok(()),
        }
    }

    /// The newest token of each row → rows × d_model.
    fn newest(&self, pass: &Pass<'_>, state: &mut StackState) -> Result<Var> {
        state.cache.rows().follow_parents();
        let x = self.input.step(pass, state.cache.rows())?;
        pass.capture.activation(|| format!("{}.embedding", self.name), &x);
        self.stack.step(pass, x, state)
    }
}
