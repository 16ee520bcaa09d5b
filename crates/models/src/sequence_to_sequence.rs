//! The sequence-to-sequence view: models that map a source sequence to a target sequence, for decoding, training and
//! inspection.
//!
//! Their sites call the two sequences `source` and `target`; their embedding tables are `embedding`, or `source_embedding`
//! and `target_embedding`.

use polyhead_attention::layers::Embedding;
use polyhead_attention::{Capture, Filter, Intervention, Pass, Site, Sites};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions};
use polyhead_tensor::{Indices, ParameterId, Parameters, Tape, Tensor, Var};

use crate::copying::{CopyShare, Copying, Losses, TrainingLoss};
use crate::decode::NextToken;
use crate::ids::Ids;
use crate::model::ModelConfig;
use crate::recurrent::{RecurrentState, RecurrentTranslator};
use crate::transformer::Translator;
use crate::transformer::translator::TranslatorState;
use crate::{Error, Result};

/// A sequence-to-sequence model.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program holds few models and rarely moves them")]
pub enum SequenceToSequence {
    /// The encoder-decoder Transformer.
    Transformer(Translator),
    /// A recurrent encoder and decoder.
    Recurrent(RecurrentTranslator),
}

/// The special token ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialIds {
    /// Padding.
    pub pad_id: u32,
    /// End of sequence.
    pub end_id: u32,
    /// The token that decoding starts from.
    pub start_id: u32,
}

impl From<Translator> for SequenceToSequence {
    fn from(model: Translator) -> Self {
        Self::Transformer(model)
    }
}

impl From<RecurrentTranslator> for SequenceToSequence {
    fn from(model: RecurrentTranslator) -> Self {
        Self::Recurrent(model)
    }
}

impl SequenceToSequence {
    /// Builds the model that `config` describes and declares its parameters.
    ///
    /// # Errors
    /// If the config is invalid, or describes a model that is not sequence-to-sequence.
    pub fn new(config: impl Into<ModelConfig>, parameters: &mut Parameters) -> Result<Self> {
        crate::Model::new(&config.into(), parameters)?.into_sequence_to_sequence()
    }

    /// The config of the model.
    pub fn config(&self) -> ModelConfig {
        match self {
            Self::Transformer(model) => model.config().into(),
            Self::Recurrent(model) => model.config().into(),
        }
    }

    /// Vocabulary sizes of source and target.
    pub fn vocab_sizes(&self) -> [usize; 2] {
        match self {
            Self::Transformer(model) => [model.config().source_vocab_size, model.config().target_vocab_size],
            Self::Recurrent(model) => [model.config().source_vocab_size, model.config().target_vocab_size],
        }
    }

    /// The special ids of the model.
    pub fn special_ids(&self) -> SpecialIds {
        match self {
            Self::Transformer(model) => {
                let config = model.config();
                SpecialIds { pad_id: config.pad_id, end_id: config.end_id, start_id: config.start_id }
            }
            Self::Recurrent(model) => {
                let config = model.config();
                SpecialIds { pad_id: config.pad_id, end_id: config.end_id, start_id: config.start_id }
            }
        }
    }

    /// Longest sequence in tokens.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Transformer(model) => model.config().max_len,
            Self::Recurrent(model) => model.config().max_len,
        }
    }

    /// Number of sources that the model reads together, each with its end token in one list of ids.
    pub fn n_sources(&self) -> usize {
        match self {
            Self::Transformer(model) => model.config().sources,
            Self::Recurrent(_) => 1,
        }
    }

    /// The embeddings of source tokens.
    pub fn source_embedding(&self) -> &Embedding {
        match self {
            Self::Transformer(model) => model.source_embedding(),
            Self::Recurrent(model) => model.source_embedding(),
        }
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        match self {
            Self::Transformer(model) => model.sites(),
            Self::Recurrent(model) => model.sites(),
        }
    }

    /// The cross-attention layer that agrees best with human word alignments, averaged over its heads; of several sources it
    /// attends to the first. `None` for a model that does not attend to its source.
    pub fn alignment_site(&self) -> Option<Site> {
        match self {
            Self::Transformer(model) => Some(model.alignment_site()),
            Self::Recurrent(model) => model.alignment_site(),
        }
    }

    /// The cross-attention of the last layer, from which the coverage penalty is computed.
    fn last_cross_site(&self) -> Option<Site> {
        let kind = self.alignment_site()?.kind;
        let n_layers = self.sites().of(kind)?.n_layers;
        Some(Site { kind, layer: n_layers.saturating_sub(1) })
    }

    /// Sequences as a batch; words that the vocabulary of a model that copies lacks have ids from its size on.
    pub fn ids(&self, rows: &[&[u32]]) -> Ids {
        let ids = Ids::padded(rows, self.special_ids().pad_id);
        match self.unknown_id() {
            Some(unknown_id) => ids.known(self.vocab_sizes()[1], unknown_id),
            None => ids,
        }
    }

    /// Source sequences as a batch, divided into the sources of a model that reads several.
    pub fn source_ids(&self, rows: &[&[u32]]) -> Ids {
        let SpecialIds { pad_id, end_id, .. } = self.special_ids();
        self.ids(rows).divided((self.n_sources(), end_id), None, pad_id)
    }

    /// True if the decoder copies source words, also those that the vocabulary lacks ([`crate::copying`]).
    pub fn copies(&self) -> bool {
        self.unknown_id().is_some()
    }

    /// The id of words that the vocabulary lacks, if the model copies.
    fn unknown_id(&self) -> Option<u32> {
        let (copy, unknown_id) = match self {
            Self::Transformer(model) => (model.config().copy, model.config().unknown_id),
            Self::Recurrent(model) => (model.config().copy, model.config().unknown_id),
        };
        (copy != Copying::None).then_some(unknown_id)
    }

    /// Logits of the token after each target token: rows × target length × vocab_size. Of a model that copies ln P over the
    /// vocabulary and the words that only the source has, without gradients: rows × target length × (vocab_size + source
    /// length).
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<Var> {
        match self {
            Self::Transformer(model) => model.forward(pass, source, target),
            Self::Recurrent(model) => model.forward(pass, source, target),
        }
    }

    /// Mean cross-entropy of `expected` given `target` (teacher forcing). A scalar.
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
        Ok(self.losses(pass, source, target, expected, options)?.cross_entropy)
    }

    /// What training minimises, and the cross-entropy in it: they differ by the coverage loss of a model that copies.
    ///
    /// # Errors
    /// If an id is outside the vocabulary or the lengths differ.
    pub fn training_loss(
        &self,
        pass: &Pass<'_>,
        source: &Ids,
        target: &Ids,
        expected: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<TrainingLoss> {
        self.losses(pass, source, target, expected, options)?.total(pass.tape)
    }

    fn losses(
        &self,
        pass: &Pass<'_>,
        source: &Ids,
        target: &Ids,
        expected: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<Losses> {
        match self {
            Self::Transformer(model) => model.losses(pass, source, target, expected, options),
            Self::Recurrent(model) => model.losses(pass, source, target, expected, options),
        }
    }

    /// For each token of `target`, which the model wrote of `source`, how far it was copied; none for a model that only
    /// generates. Both have the ids that decoding reads and writes.
    ///
    /// # Errors
    /// If an id is neither in the vocabulary nor in the source.
    pub fn copy_shares(
        &self,
        parameters: &Parameters,
        [source, target]: [&[u32]; 2],
        start_id: u32,
    ) -> Result<Option<Vec<CopyShare>>> {
        if !self.copies() || target.is_empty() {
            return Ok(None);
        }
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, parameters, &capture);
        let given: Vec<u32> =
            [start_id].into_iter().chain(target.iter().copied()).take(target.len()).collect();
        let device = parameters.device();
        let [read, given] = [source, &given].map(|row| self.ids(&[row]).to_device(&device));
        let (read, given) = (read?, given?);
        let (logits, copied) = match self {
            Self::Transformer(model) => model.copied(&pass, &read, &given)?,
            Self::Recurrent(model) => model.copied(&pass, &read, &given)?,
        };
        let log_probabilities = copied.extended(&logits, &read)?;
        let width = log_probabilities.value().len() / target.len();
        if let Some(id) = target.iter().find(|id| **id as usize >= width) {
            let message = format!("the token {id} is neither in the vocabulary nor in the source");
            return Err(Error::Request { message });
        }
        copied.shares(source, target, log_probabilities.value()).map(Some)
    }

    /// The R-Drop loss of two passes with different dropout: `source` and `target` hold all sentences for the first pass,
    /// then all again for the second; `expected` has the ids of one pass.
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
            Self::Recurrent(model) => model.r_drop_loss(pass, source, target, expected, options),
        }
    }

    /// The weight of the output layer and the bias of the logits.
    pub(crate) fn output_parameters(&self) -> (ParameterId, Option<ParameterId>) {
        match self {
            Self::Transformer(model) => model.output_parameters(),
            Self::Recurrent(model) => model.output_parameters(),
        }
    }
}

/// Decoder state: the K/V cache or recurrent state, and the projected source.
#[derive(Debug)]
pub enum DecodingState {
    /// The state of the encoder-decoder Transformer.
    Transformer(TranslatorState),
    /// The state of a recurrent decoder.
    Recurrent(RecurrentState),
}

impl DecodingState {
    /// The source sentence of each row.
    pub fn sentences(&self) -> &[usize] {
        match self {
            Self::Transformer(state) => state.decoder.sentences(),
            Self::Recurrent(state) => state.sentences(),
        }
    }
}

/// A model with its parameters, ready to decode.
#[derive(Debug, Clone, Copy)]
pub struct Decoding<'a> {
    /// The model.
    pub model: &'a SequenceToSequence,
    /// The values of its parameters.
    pub parameters: &'a Parameters,
    /// Captured weights and activations.
    pub capture: &'a Capture,
    /// Changes to heads and layers; default: none.
    pub intervention: Option<&'a Intervention>,
}

/// The result of a decoding step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutput {
    /// Logits of the next token.
    Logits,
    /// The input of the output layer.
    Hidden,
}

impl<'a> Decoding<'a> {
    /// A model without an intervention.
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

    /// One step up to the output layer: rows × d_model, in CPU memory.
    pub(crate) fn hidden(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<Tensor> {
        Ok(self.next(state, tokens, StepOutput::Hidden)?.to_host()?)
    }

    fn next(&self, state: &mut DecodingState, tokens: &[u32], output: StepOutput) -> Result<Tensor> {
        self.with_pass(|pass| match (self.model, state) {
            (SequenceToSequence::Transformer(model), DecodingState::Transformer(state)) => match output {
                StepOutput::Logits => model.step(pass, state, tokens),
                StepOutput::Hidden => model.step_hidden(pass, state, tokens),
            },
            (SequenceToSequence::Recurrent(model), DecodingState::Recurrent(state)) => {
                let found = model.step(pass, state, tokens)?;
                match output {
                    StepOutput::Logits => model.step_logits(pass, &found, state),
                    StepOutput::Hidden => Ok(found.x.value().clone()),
                }
            }
            _ => unreachable!("a state belongs to the model that started it"),
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
            SequenceToSequence::Recurrent(model) => Ok(DecodingState::Recurrent(model.start(pass, &source)?)),
        })
    }

    fn step(&self, state: &mut DecodingState, tokens: &[u32]) -> Result<Tensor> {
        self.next(state, tokens, StepOutput::Logits)
    }

    fn step_with_attention(
        &self,
        state: &mut DecodingState,
        tokens: &[u32],
    ) -> Result<(Tensor, Option<Tensor>)> {
        let Some(site) = self.model.last_cross_site() else { return Ok((self.step(state, tokens)?, None)) };
        let filter = Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), ..Filter::default() };
        // Replaces the caller's capture, which records no weights of these steps.
        let capture = Capture::on(filter);
        let logits = Decoding { capture: &capture, ..*self }.step(state, tokens)?;
        let weights = capture.take().weights.pop();
        Ok((logits, weights.map(|weights| mean_over_heads(&weights.weights))))
    }

    fn reorder(&self, state: &mut DecodingState, rows: &[usize]) {
        match state {
            DecodingState::Transformer(state) => state.decoder.reorder(rows),
            DecodingState::Recurrent(state) => state.reorder(rows),
        }
    }
}

/// Mean over heads: rows × n_heads × 1 × source length → rows × source length.
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
