//! A decoder that writes the text of something that was encoded, a sound or an image: a causal stack with cross-attention to the
//! encoder's states and tied embeddings. Speech recognisers and captioners share it.
//!
//! [`Encoded`] are the states of several inputs, [`EncodedDecoding`] is the decoder for the searches of [`crate::decode`]. A
//! source is the index of an encoded input, so that several searches share one pass of the encoder.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{AttentionKind, Builder, Capture, Mask, Pass, SiteGroup, Watch};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy};
use polyhead_tensor::ops::shape::{concat, slice};
use polyhead_tensor::{Indices, Parameters, Tape, Tensor, Var};

use crate::Result;
use crate::decode::NextToken;
use crate::ids::Ids;
use crate::transformer::config::{CrossProjection, PositionConfig, StackConfig};
use crate::transformer::cross::{CrossOptions, EncodedRows, Source};
use crate::transformer::decoder::{DecoderStack, DecoderState, Replay};
use crate::transformer::input::InputOptions;
use crate::transformer::stack::{LayerOptions, SpecialLayers, StackOptions};

/// Causal self-attention over the text.
const DECODER: AttentionKind = AttentionKind::self_attention(1, "decoder", "target").causal();

/// Options of a decoder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextDecoderOptions {
    /// Sizes of the stack.
    pub(crate) sizes: StackConfig,
    /// Width, norms, activation and dropout of the layers.
    pub(crate) layer: LayerOptions,
    /// The cross-attention.
    pub(crate) cross: AttentionKind,
    /// Positions of the text.
    pub(crate) position: PositionConfig,
    /// Longest text in tokens.
    pub(crate) max_len: usize,
    /// Size of the vocabulary.
    pub(crate) vocab_size: usize,
    /// Id of padding.
    pub(crate) pad_id: u32,
}

/// The decoder: embeddings, a causal stack with cross-attention, and the output layer.
#[derive(Debug, Clone)]
pub struct TextDecoder {
    stack: DecoderStack,
    /// Embeddings of tokens, and the output layer.
    embedding: Embedding,
    cross: SiteGroup,
}

/// The encoder states of several inputs.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// rows × positions × d_model.
    states: Var,
    /// Number of positions of each row.
    lengths: Vec<u32>,
}

impl Encoded {
    /// States (rows × positions × d_model) and the number of positions of each row.
    pub(crate) fn new(states: Var, lengths: Vec<u32>) -> Self {
        Self { states, lengths }
    }

    /// Number of positions of each input.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// One of the inputs.
    ///
    /// # Errors
    /// If there is no such input.
    pub fn one(&self, pass: &Pass<'_>, row: usize) -> Result<Self> {
        self.select(pass, &[row])
    }

    /// The inputs in `rows`, in that order.
    fn select(&self, pass: &Pass<'_>, rows: &[usize]) -> Result<Self> {
        if rows.iter().copied().eq(0..self.lengths.len()) {
            return Ok(self.clone());
        }
        let row = |&row: &usize| slice(pass.tape, &self.states, 0, row..row + 1);
        let parts = rows.iter().map(row).collect::<polyhead_tensor::Result<Vec<Var>>>()?;
        let states = concat(pass.tape, &parts.iter().collect::<Vec<_>>(), 0)?;
        Ok(Self { states, lengths: rows.iter().map(|&row| self.lengths[row]).collect() })
    }
}

impl TextDecoder {
    /// Declares the stack under `decoder`; `embedding` was declared before.
    pub(crate) fn new(
        builder: &mut Builder<'_>,
        embedding: Embedding,
        options: &TextDecoderOptions,
    ) -> Result<Self> {
        let &TextDecoderOptions { sizes, layer, cross, position, max_len, vocab_size, pad_id } = options;
        let stack = StackOptions {
            kind: DECODER,
            sizes,
            layer: LayerOptions { max_len, ..layer },
            mask: Mask::full(),
            cross: Some(CrossOptions::one(cross, CrossProjection::PerLayer)),
            special: SpecialLayers::default(),
        };
        let input = InputOptions {
            d_model: layer.d_model,
            position,
            max_len,
            pad_id,
            scale_embedding: false,
            dropout: layer.dropout.embedding,
        };
        let target = (embedding.clone(), vocab_size);
        let stack = DecoderStack::new(&mut builder.at("decoder"), target, &input, &stack)?;
        let cross = SiteGroup { kind: cross, n_layers: sizes.n_layers, heads: sizes.heads(layer.d_model) };
        Ok(Self { stack, embedding, cross })
    }

    /// The attention layers of the stack.
    pub(crate) fn sites(&self) -> impl Iterator<Item = SiteGroup> {
        self.stack.sites()
    }

    /// The cross-attention, from the text to the encoder's positions.
    pub fn cross_attention(&self) -> SiteGroup {
        self.cross
    }

    /// Logits of the token after each target token: rows × target length × vocab_size.
    pub(crate) fn forward(&self, pass: &Pass<'_>, source: EncodedRows<'_>, target: &Ids) -> Result<Var> {
        let x = self.stack.forward(pass, Some(Source::one(source)), target)?;
        self.logits(pass, &x)
    }

    /// The same of inputs that are encoded already, one for each row of `target`.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward_encoded(&self, pass: &Pass<'_>, encoded: &Encoded, target: &Ids) -> Result<Var> {
        let device = pass.parameters.device();
        let lengths: Indices = encoded.lengths.iter().copied().collect();
        let lengths = &lengths.to_device(&device)?;
        self.forward(pass, (&encoded.states, lengths), &target.to_device(&device)?)
    }

    /// Mean cross-entropy of `expected` given `target` (teacher forcing). A scalar.
    pub(crate) fn loss(
        &self,
        pass: &Pass<'_>,
        source: EncodedRows<'_>,
        target: &Ids,
        (expected, options): (&Indices, CrossEntropyOptions),
    ) -> Result<Var> {
        let x = self.stack.forward(pass, Some(Source::one(source)), target)?;
        match self.embedding.output(pass, None).filter(|_| !pass.capture.wants_activations()) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x: &x, weight: &weight, bias: bias.as_ref() };
                Ok(output_cross_entropy(pass.tape, layer, expected, options)?)
            }
            None => Ok(cross_entropy(pass.tape, &self.logits(pass, &x)?, expected, options)?),
        }
    }

    fn logits(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        let logits = self.embedding.logits(pass, x, None)?;
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }
}

/// A decoder with its parameters and encoded inputs, ready to decode.
#[derive(Debug, Clone, Copy)]
pub struct EncodedDecoding<'a> {
    /// The decoder.
    pub decoder: &'a TextDecoder,
    /// The values of its parameters.
    pub parameters: &'a Parameters,
    /// Captured weights and activations.
    pub capture: &'a Capture,
    /// The inputs; the source of a search is the index of one.
    pub encoded: &'a Encoded,
    /// Whether the text is still wanted, asked before each step; default: always.
    pub watch: Option<Watch<'a>>,
}

impl EncodedDecoding<'_> {
    fn with_pass<T>(&self, work: impl FnOnce(&Pass<'_>) -> Result<T>) -> Result<T> {
        let tape = Tape::inference();
        work(&Pass::new(&tape, self.parameters, self.capture))
    }
}

impl NextToken for EncodedDecoding<'_> {
    type State = DecoderState;

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<DecoderState> {
        let rows: Vec<usize> = sources.iter().map(|source| source[0] as usize).collect();
        self.with_pass(|pass| {
            let Encoded { states, lengths } = self.encoded.select(pass, &rows)?;
            let indices: Indices = lengths.iter().copied().collect();
            let source = Source::one((&states, &indices));
            Ok(self.decoder.stack.start(pass, Some(source), &[&lengths], n_rows)?)
        })
    }

    fn step(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<Tensor> {
        if self.watch.is_some_and(|Watch(is_wanted)| !is_wanted()) {
            return Err(polyhead_tensor::Error::Cancelled.into());
        }
        self.with_pass(|pass| {
            self.decoder.stack.step(pass, (state, tokens), Replay::Allowed, |x| {
                let logits = self.decoder.embedding.step_logits(pass, x, None)?;
                pass.capture.activation(|| "logits".into(), &logits);
                Ok(logits.value().clone())
            })
        })
    }

    fn reorder(&self, state: &mut DecoderState, rows: &[usize]) {
        state.reorder(rows);
    }
}
