//! A view of models that read one sequence and write another: what decoding, training and looking need of any of them.
//!
//! Their sites call the two `source` and `target`; their tables of embeddings are `embedding`, or `source_embedding` and
//! `target_embedding`.

use polyhead_attention::{Capture, Filter, Intervention, Pass, Site, Sites};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions};
use polyhead_tensor::{Indices, ParameterId, Parameters, Tape, Tensor, Var};

use crate::decode::NextToken;
use crate::ids::Ids;
use crate::model::ModelConfig;
use crate::transformer::Translator;
use crate::transformer::decoder::{DecoderState, Replay};
use crate::{Error, Result};

/// A model that writes a sequence for one that it reads.
#[derive(Debug, Clone)]
pub enum SequenceToSequence {
    /// The encoder-decoder Transformer.
    Transformer(Translator),
}

/// Ids with a meaning of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialIds {
    /// Fills up batches.
    pub pad_id: u32,
    /// Ends a sequence.
    pub end_id: u32,
    /// What writing starts from.
    pub start_id: u32,
}

impl From<Translator> for SequenceToSequence {
    fn from(model: Translator) -> Self {
        Self::Transformer(model)
    }
}

impl SequenceToSequence {
    /// Declares the parameters of the model that `config` describes.
    ///
    /// # Errors
    /// If it describes none, or one that writes nothing.
    pub fn new(config: impl Into<ModelConfig>, parameters: &mut Parameters) -> Result<Self> {
        crate::Model::new(&config.into(), parameters)?.into_sequence_to_sequence()
    }

    /// Its sizes and choices.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::Transformer(model) => model.config().into(),
        }
    }

    /// Ids of source and target.
    pub fn vocab_sizes(&self) -> [usize; 2] {
        match self {
            Self::Transformer(model) => [model.config().source_vocab_size, model.config().target_vocab_size],
        }
    }

    /// Its special ids.
    pub fn special_ids(&self) -> SpecialIds {
        match self {
            Self::Transformer(model) => {
                let config = model.config();
                SpecialIds { pad_id: config.pad_id, end_id: config.end_id, start_id: config.start_id }
            }
        }
    }

    /// Most tokens of a sequence that it is made for.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Transformer(model) => model.config().max_len,
        }
    }

    /// Its attentions.
    pub fn sites(&self) -> Sites {
        match self {
            Self::Transformer(model) => model.sites(),
        }
    }

    /// The attention from target to source that agrees best with human word alignments, its heads averaged; none of a model
    /// that does not attend to its source.
    pub fn alignment_site(&self) -> Option<Site> {
        match self {
            Self::Transformer(model) => Some(model.alignment_site()),
        }
    }

    /// The attention from target to source of the last layer, which the coverage penalty counts.
    fn last_cross_site(&self) -> Option<Site> {
        let kind = self.alignment_site()?.kind;
        let n_layers = self.sites().of(kind)?.n_layers;
        Some(Site { kind, layer: n_layers.saturating_sub(1) })
    }

    /// Logits of the token after each target token: rows × target length × vocabulary.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<Var> {
        match self {
            Self::Transformer(model) => model.forward(pass, source, target),
        }
    }

    /// The mean cross-entropy of `expected` after `target` (teacher forcing), one number.
    ///
    /// # Errors
    /// If an id is outside the vocabulary or the lengths differ.
    pub fn loss(
        &self,
        pass: &Pass<'_>,
        source: &Ids,
        target: &Ids,
        expected: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        match self {
            Self::Transformer(model) => model.loss(pass, source, target, expected, options),
        }
    }

    /// The loss of two passes whose dropout differs: `source` and `target` hold every sentence twice, all of them for the
    /// first pass and after them all for the second; `expected` has the ids of one pass.
    ///
    /// # Errors
    /// If an id is outside the vocabulary or the lengths differ.
    pub fn r_drop_loss(
        &self,
        pass: &Pass<'_>,
        source: &Ids,
        target: &Ids,
        expected: &Indices,
        options: RDropOptions,
    ) -> Result<RDrop> {
        match self {
            Self::Transformer(model) => model.r_drop_loss(pass, source, target, expected, options),
        }
    }

    /// The rows of the output layer and the bias of its logits.
    pub(crate) fn output_parameters(&self) -> (ParameterId, Option<ParameterId>) {
        match self {
            Self::Transformer(model) => model.output_parameters(),
        }
    }
}

/// What a model remembers of the tokens so far and of the source.
#[derive(Debug)]
pub enum DecodingState {
    /// Of the encoder-decoder Transformer.
    Transformer(DecoderState),
}

impl DecodingState {
    /// The source sentence of each row.
    pub fn sentences(&self) -> &[usize] {
        match self {
            Self::Transformer(state) => state.sentences(),
        }
    }
}

/// A model with its values, ready to decode.
#[derive(Debug, Clone, Copy)]
pub struct Decoding<'a> {
    /// The model.
    pub model: &'a SequenceToSequence,
    /// Its values.
    pub parameters: &'a Parameters,
    /// Collects what is asked for.
    pub capture: &'a Capture,
    /// What is changed in it; nothing.
    pub intervention: Option<&'a Intervention>,
}

/// What a step of decoding gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutput {
    /// Logits of the next token.
    Logits,
    /// What goes into the output layer.
    Hidden,
}

impl<'a> Decoding<'a> {
    /// A model that decodes as it is.
    pub const fn new(
        model: &'a SequenceToSequence,
        parameters: &'a Parameters,
        capture: &'a Capture,
    ) -> Self {
        Self { model, parameters, capture, intervention: None }
    }

    fn with_pass<T>(&self, work: impl FnOnce(&Pass<'_>) -> Result<T>) -> Result<T> {
        let tape = Tape::inference();
        let intervention = self.intervention;
        work(&Pass { intervention, ..Pass::new(&tape, self.parameters, self.capture) })
    }

    /// One step up to the output layer: rows × d_model, in the memory of the CPU.
    pub(crate) fn hidden(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<Tensor> {
        Ok(self.next(state, tokens, StepOutput::Hidden)?.to_host()?)
    }

    fn next(&self, state: &mut DecodingState, tokens: &[u32], output: StepOutput) -> Result<Tensor> {
        self.with_pass(|pass| match (self.model, state) {
            (SequenceToSequence::Transformer(model), DecodingState::Transformer(state)) => match output {
                StepOutput::Logits => {
                    model.step(pass, (state, tokens), Replay::Allowed, |x| model.step_logits(pass, x))
                }
                StepOutput::Hidden => {
                    model.step(pass, (state, tokens), Replay::Never, |x| Ok::<_, Error>(x.value().clone()))
                }
            },
        })
    }
}

impl NextToken for Decoding<'_> {
    type State = DecodingState;

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<DecodingState> {
        let source = Ids::padded(sources, self.model.special_ids().pad_id);
        self.with_pass(|pass| match self.model {
            SequenceToSequence::Transformer(model) => {
                Ok(DecodingState::Transformer(model.start(pass, &source, n_rows)?))
            }
        })
    }

    fn step(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<Tensor> {
        self.next(state, tokens, StepOutput::Logits)
    }

    fn step_attending(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<(Tensor, Option<Tensor>)> {
        let Some(site) = self.model.last_cross_site() else { return Ok((self.step(state, tokens)?, None)) };
        let filter = Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), ..Filter::default() };
        // Takes the place of what the caller captures, which sees no weights of these steps.
        let capture = Capture::on(filter);
        let logits = Decoding { capture: &capture, ..*self }.step(state, tokens)?;
        let weights = capture.take().weights.pop();
        Ok((logits, weights.map(|weights| mean_over_heads(&weights.weights))))
    }

    fn reorder(&self, state: &mut DecodingState, rows: &[usize]) {
        match state {
            DecodingState::Transformer(state) => state.reorder(rows),
        }
    }
}

/// rows × heads × 1 × source length → rows × source length.
fn mean_over_heads(weights: &Tensor) -> Tensor {
    let [rows, n_heads, _, length] = <[usize; 4]>::try_from(weights.shape()).expect("weights have four axes");
    let mut mean = Tensor::zeros(&[rows, length]);
    for (mean, heads) in
        mean.data_mut().chunks_exact_mut(length).zip(weights.data().chunks_exact(n_heads * length))
    {
        for head in heads.chunks_exact(length) {
            mean.iter_mut().zip(head).for_each(|(mean, weight)| *mean += weight / n_heads as f32);
        }
    }
    mean
}
