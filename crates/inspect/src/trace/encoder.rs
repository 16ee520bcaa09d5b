//! The trace of a text under an encoder: its attention, the states of its tokens after each layer, and the output of its head.
//!
//! One pass gives all three. A masked language model predicts a word at every token, not only at masks; at others it reads the
//! token that it predicts.

use polyhead_attention::{Capture, Filter, Intervention, Pass};
use polyhead_engine::classify::Class;
use polyhead_engine::encoder::modules::Normalisation;
use polyhead_engine::encoder::tag::{Entity, Tagger};
use polyhead_engine::encoder::{HeadedEncoder, TextInput};
use polyhead_engine::{Classifier, LongTexts, TextEncoder};
use polyhead_models::encoder::EncoderHead;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use super::observe::{KeepActivations, captured_pass, weights_of};
use super::text::labels::PieceLabels;
use super::text::prediction::Readout;
use super::text::{Prediction, TextCallback};
use super::{AttentionWeights, CaptureVectors, ObserveOptions, Trace, TraceOutcome, TraceSide};
use crate::Result;
use crate::states::States;

/// Name of the only sequence.
const SIDE: &str = "text";

/// Options of the trace of a text under an encoder.
#[derive(Debug, Clone)]
pub struct EncoderOptions {
    /// What happens to a text that is too long; default: it is refused.
    pub long: LongTexts,
    /// Most probable words at each token of a masked language model; default: 5.
    pub n_alternatives: usize,
    /// Attention to capture; default: all.
    pub filter: Filter,
    /// Capture of queries, keys and values; default: no.
    pub vectors: CaptureVectors,
    /// Changes to the model; default: none.
    pub intervention: Intervention,
}

impl Default for EncoderOptions {
    fn default() -> Self {
        Self {
            long: LongTexts::Refuse,
            n_alternatives: 5,
            filter: Filter::default(),
            vectors: CaptureVectors::No,
            intervention: Intervention::default(),
        }
    }
}

/// The trace of a text besides its tokens and attention.
#[derive(Debug, Clone)]
pub struct EncoderTrace {
    /// The states of its tokens; `None` if the model has none.
    pub states: Option<States>,
    /// The output of the head.
    pub head: HeadOutput,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

/// The output of the head of an encoder.
#[derive(Debug, Clone)]
pub enum HeadOutput {
    /// Without a head, the vector of the text that `polyhead embed` prints.
    Vector(Vec<f32>),
    /// Classes, the most probable first.
    Classes(Vec<Class>),
    /// The classes of each token, the most probable first, and the entities.
    Tags(Vec<Vec<Class>>, Vec<Entity>),
    /// The distribution of words at each token; `following` is the token itself.
    Words(Vec<Prediction>),
}

impl EncoderTrace {
    /// The classes of the text, if the model is a classifier of texts.
    pub fn classes(&self) -> Option<&[Class]> {
        match &self.head {
            HeadOutput::Classes(classes) => Some(classes),
            _ => None,
        }
    }
}

impl Trace {
    /// Reads a text with an encoder and records the trace.
    ///
    /// # Errors
    /// If the text is empty or too long, or the callback cancels the trace.
    pub fn of_encoding(
        encoder: &HeadedEncoder,
        text: &str,
        options: &EncoderOptions,
        progress: TextCallback<'_>,
    ) -> Result<Self> {
        let (text, input) = encoder.read(text, options.long)?;
        let observe = ObserveOptions {
            filter: options.filter.clone(),
            vectors: options.vectors,
            intervention: Some(&options.intervention).filter(|changed| !changed.is_empty()),
        };
        let own = encoder.encoder();
        let (output, mut captured) = captured_encoder_pass(own, &input.encoding.ids, &observe)?;
        let attentions = weights_of(std::mem::take(&mut captured.weights));
        let states = states_of(own, &captured)?;
        let output = output.value().to_host().map_err(polyhead_models::Error::from)?;
        let head = match encoder {
            HeadedEncoder::Classes(classifier) => HeadOutput::Classes(classes(classifier, output)?),
            HeadedEncoder::Tags(tagger) => tags(tagger, (&text, &input), output)?,
            HeadedEncoder::Words(_) => {
                let options = (options.n_alternatives, progress);
                HeadOutput::Words(words(own, &input.encoding.ids, &output, options)?)
            }
            HeadedEncoder::States(_) => HeadOutput::Vector(own.vector_of(
                output.data(),
                own.model().config().d_model(),
                Normalisation::AsModel,
            )),
        };
        let outcome = EncoderTrace { states, head, cut_from: input.cut_from };
        Ok(Self {
            sites: own.model().sites(),
            d_model: own.model().config().d_model(),
            sides: vec![TraceSide::new(SIDE, &text, input.encoding)],
            outcome: TraceOutcome::Encoder(outcome),
            attentions,
            vectors: captured.vectors,
            intervention: options.intervention.clone(),
        })
    }
}

/// What was observed in a pass of an encoder.
#[derive(Debug, Clone)]
pub struct EncoderPass {
    /// Attention weights, in order of computation.
    pub attentions: Vec<AttentionWeights>,
    /// Queries, keys and values, if captured.
    pub vectors: Vec<polyhead_attention::vectors::Vectors>,
    /// The states of the tokens; `None` if the model has none.
    pub states: Option<States>,
}

/// Runs an encoder on the ids of a text.
///
/// # Errors
/// If an id is outside the vocabulary, or there are more ids than the model accepts.
pub fn observe_encoder(
    encoder: &TextEncoder,
    ids: &[u32],
    options: &ObserveOptions<'_>,
) -> Result<EncoderPass> {
    let (_, mut captured) = captured_encoder_pass(encoder, ids, options)?;
    let attentions = weights_of(std::mem::take(&mut captured.weights));
    let states = states_of(encoder, &captured)?;
    Ok(EncoderPass { attentions, vectors: captured.vectors, states })
}

fn states_of(encoder: &TextEncoder, captured: &polyhead_attention::Trace) -> Result<Option<States>> {
    let sites = encoder.model().sites();
    let stacks = sites.stacks();
    let Some(group) = stacks.first() else { return Ok(None) };
    States::captured(captured, group.kind.stack, group.n_layers)
}

/// A pass over the ids of a text: logits of classes, else the states of the last layer; and what was captured.
pub(crate) fn captured_encoder_pass(
    encoder: &TextEncoder,
    ids: &[u32],
    options: &ObserveOptions<'_>,
) -> Result<(Var, polyhead_attention::Trace)> {
    let (model, parameters) = (encoder.model(), encoder.parameters());
    let ids = model.ids(&[ids]).to_device(&parameters.device()).map_err(polyhead_models::Error::from)?;
    captured_pass(parameters, options, KeepActivations::Yes, |pass| {
        Ok(match model.head() {
            EncoderHead::Classes => model.classify(pass, &ids)?,
            EncoderHead::TokenClasses => model.token_logits(pass, &ids)?,
            EncoderHead::None | EncoderHead::MaskedLanguageModel => model.states(pass, &ids)?,
        })
    })
}

fn classes(classifier: &Classifier, logits: Tensor) -> Result<Vec<Class>> {
    let found = classifier.probabilities(&Var::constant(logits));
    let found = found.value().to_host().map_err(polyhead_models::Error::from)?;
    Ok(classifier.classes(found.data()))
}

fn tags(tagger: &Tagger, (text, input): (&str, &TextInput), logits: Tensor) -> Result<HeadOutput> {
    let found = softmax(&Tape::inference(), &Var::constant(logits));
    let found = found.value().to_host().map_err(polyhead_models::Error::from)?;
    let labels = tagger.encoder().model().labels();
    let rows = found.data().chunks_exact(labels.len().max(1));
    let classes = |row: &[f32]| {
        let all = labels.iter().zip(row);
        let mut all: Vec<Class> =
            all.map(|(label, own)| Class { label: label.clone(), probability: f64::from(*own) }).collect();
        all.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        all
    };
    let best: Vec<(usize, f32)> = rows.clone().map(best).collect();
    Ok(HeadOutput::Tags(rows.map(classes).collect(), tagger.entities(text, input, &best)))
}

/// The most probable class, of equal ones the first.
fn best(row: &[f32]) -> (usize, f32) {
    let mut found = (0, f32::NEG_INFINITY);
    for (class, &probability) in row.iter().enumerate() {
        if probability > found.1 {
            found = (class, probability);
        }
    }
    found
}

/// The distributions of words at all tokens.
fn words(
    encoder: &TextEncoder,
    ids: &[u32],
    states: &Tensor,
    (n_alternatives, progress): (usize, TextCallback<'_>),
) -> Result<Vec<Prediction>> {
    let labels = PieceLabels::new(encoder.tokenizer());
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass::new(&tape, encoder.parameters(), &capture);
    let readout = Readout { pass, labels: &labels, n_alternatives, progress };
    let width = states.shape().last().copied().unwrap_or(1);
    let states = states.clone().reshaped(&[ids.len(), width]);
    // A readout looks up the token after each position; here it is the token at the position.
    let own: Vec<u32> = std::iter::once(0).chain(ids.iter().copied()).collect();
    let logits = |rows: &Var| Ok(encoder.model().word_logits(&readout.pass, rows.clone())?);
    readout.of_rows(&states, 0..ids.len(), &own, logits, |_, _| {})
}
