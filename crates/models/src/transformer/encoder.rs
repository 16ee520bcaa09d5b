//! The encoder: a bidirectional `Stack` over embedded tokens.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{AttentionKind, Builder, Pass, SiteGroup};
use polyhead_tensor::{Result, Var};

use super::input::{Input, InputOptions};
use super::stack::{Stack, StackOptions};
use crate::ids::Ids;

/// The encoder stack: embeddings and a stack without a causal mask.
#[derive(Debug, Clone)]
pub(crate) struct EncoderStack {
    input: Input,
    stack: Stack,
    name: &'static str,
}

impl EncoderStack {
    /// Declares the stack under `builder`; `embedding` may be shared.
    pub(crate) fn new(
        builder: &mut Builder<'_>,
        embedding: Embedding,
        input: &InputOptions,
        stack: &StackOptions,
    ) -> Result<Self> {
        let input = Input::new(builder, embedding, input);
        Ok(Self { input, stack: Stack::new(builder, stack)?, name: stack.kind.stack })
    }

    /// The same layers with the same parameters for another sequence.
    pub(crate) fn named(&self, kind: AttentionKind) -> Self {
        Self { stack: self.stack.named(kind), name: kind.stack, ..self.clone() }
    }

    /// The table of embeddings.
    pub(crate) fn embedding(&self) -> &Embedding {
        self.input.embedding()
    }

    /// The attention layers of the stack.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        self.stack.sites()
    }

    /// Encodes ids → rows × length × d_model.
    pub(crate) fn forward(&self, pass: &Pass<'_>, ids: &Ids) -> Result<Var> {
        let x = self.input.forward(pass, ids.ids(), ids.length(), 0)?;
        pass.capture.activation(|| format!("{}.embedding", self.name), &x);
        self.stack.forward(pass, x, Some(ids.lengths()), None)
    }
}
