//! The trace of a text under a language model: attention over the text so far, and the distribution of the next token after each
//! token.
//!
//! 1. `tokens.rs` is the text with its tokens, generated ones included; `labels.rs` has readable labels of the vocabulary.
//! 2. `prediction.rs` has the distributions, `lens.rs` those of each layer, `contribution.rs` what each layer adds to a logit.
//!
//! One pass reads all tokens, also the last. It has the bits of generation token by token, so the distribution after the last
//! token is the one that `polyhead generate` draws from. Position t reads token t and predicts token t + 1.

mod contribution;
pub(super) mod labels;
mod lens;
pub(super) mod prediction;
mod tokens;

use std::ops::{ControlFlow, Range};

use polyhead_attention::{Capture, Filter, Intervention, Pass};
use polyhead_engine::Generator;
use polyhead_tensor::{Tape, Tensor, Var};

use self::labels::PieceLabels;
use self::prediction::Readout;
use self::tokens::TextTokens;
use super::observe::{KeepActivations, captured_pass, weights_of};
use super::{CaptureVectors, ObserveOptions, Trace, TraceOutcome};
use crate::{Error, Result};

pub use contribution::{Contribution, Contributions, Target};
pub use lens::LensLayer;
pub use prediction::{Following, PredictedToken, Prediction};
pub use tokens::Continuation;

/// The text of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextInput {
    /// A text, after the start token if the model has one.
    Text(String),
    /// Tokens, the start token included.
    Ids(Vec<u32>),
}

/// Options of the trace of a text.
#[derive(Debug, Clone)]
pub struct TextOptions {
    /// Tokens to append; default: none.
    pub continuation: Option<Continuation>,
    /// Most probable tokens after each token; default: 5.
    pub n_alternatives: usize,
    /// True to leave out the distributions after tokens, the largest part of the work; default: false.
    pub without_predictions: bool,
    /// Positions of the logit lens; default: none.
    pub lens: LensPositions,
    /// Logits to divide among the layers; default: none.
    pub contributions: Vec<Target>,
    /// True to divide the logit of the following token at every position, too; default: false.
    pub all_contributions: bool,
    /// Attention to capture; default: all.
    pub filter: Filter,
    /// Capture of queries, keys and values; default: no.
    pub vectors: CaptureVectors,
    /// Changes to the model; default: none.
    pub intervention: Intervention,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            continuation: None,
            n_alternatives: 5,
            without_predictions: false,
            lens: LensPositions::None,
            contributions: Vec::new(),
            all_contributions: false,
            filter: Filter::default(),
            vectors: CaptureVectors::No,
            intervention: Intervention::default(),
        }
    }
}

impl TextOptions {
    /// True if the outputs of layers are needed.
    fn needs_stream(&self) -> bool {
        self.lens != LensPositions::None || self.all_contributions || !self.contributions.is_empty()
    }
}

/// The positions of the logit lens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LensPositions {
    /// No position.
    #[default]
    None,
    /// All positions.
    All,
    /// Some positions.
    Some(Range<usize>),
}

impl LensPositions {
    /// The positions in a text of `length` tokens.
    fn of(&self, length: usize) -> Option<Range<usize>> {
        match self {
            Self::None => None,
            Self::All => Some(0..length),
            Self::Some(range) => Some(range.clone()),
        }
    }
}

/// The progress of a trace.
#[derive(Debug, Clone, Copy)]
pub enum TextProgress<'a> {
    /// Tokens were generated: their text and their number so far.
    Generated(&'a str, usize),
    /// Some of the work after that is done.
    Working,
}

/// Callback that receives the progress of a trace; `Break` cancels it.
pub type TextCallback<'a> = &'a dyn Fn(TextProgress<'_>) -> ControlFlow<()>;

/// The trace of a text besides its tokens and attention.
#[derive(Debug, Clone)]
pub struct TextTrace {
    /// Number of tokens at the end of the text that the model generated.
    pub n_generated: usize,
    /// The distribution after each token; empty if they were left out.
    pub predictions: Vec<Prediction>,
    /// The first position of the lens.
    pub lens_start: usize,
    /// The logit lens; `None` if it was not asked for.
    pub lens: Option<Vec<LensLayer>>,
    /// What the layers add to logits; `None` if no logit was asked for.
    pub contributions: Option<Contributions>,
    /// Vocabulary size.
    pub vocab_size: usize,
}

impl TextTrace {
    /// Sum of the log-probabilities of all tokens but the first, whose probability is not known.
    pub fn log_probability(&self) -> f64 {
        let following = self.predictions.iter().filter_map(|own| own.following.as_ref());
        following.map(|own| f64::from(own.log_probability)).sum()
    }
}

impl Trace {
    /// Reads a text, or continues it first, and records the trace.
    ///
    /// # Errors
    /// If the text is empty or longer than the context, the options do not fit the model, or the callback cancels the trace.
    pub fn of_text(
        generator: &Generator,
        input: &TextInput,
        options: &TextOptions,
        progress: TextCallback<'_>,
    ) -> Result<Self> {
        let tokens = TextTokens::new(generator, input)?.continued(generator, options, progress)?;
        let (model, ids) = (generator.model(), tokens.ids());
        let (hidden, mut captured) = pass_over(generator, ids, options)?;
        check(progress, TextProgress::Working)?;
        let attentions = weights_of(std::mem::take(&mut captured.weights));
        let stream = options.needs_stream().then(|| model.residual_stream(&captured)).transpose()?;
        let labels = PieceLabels::new(generator.tokenizer());
        let (tape, capture) = (Tape::inference(), Capture::off());
        let readout = Readout {
            pass: Pass::new(&tape, generator.parameters(), &capture),
            labels: &labels,
            n_alternatives: options.n_alternatives,
            progress,
        };
        let mut wanted = options.contributions.clone();
        wanted.extend(options.all_contributions.then(|| Target::all(ids.len())).into_iter().flatten());
        let kept = contribution::positions(&wanted, ids.len())?;
        let of_model = |rows: &Var| Ok(model.logits(&readout.pass, rows)?);
        let (predictions, logits) = if options.without_predictions {
            (Vec::new(), readout.logits(hidden.value(), &kept, of_model)?)
        } else {
            readout.predictions(hidden.value(), ids, &kept, of_model)?
        };
        let positions = options.lens.of(ids.len());
        let lens_start = positions.as_ref().map_or(0, |range| range.start);
        let lens = stream.as_ref().zip(positions);
        let lens = lens.map(|(stream, range)| lens::layers(&readout, stream, ids, range)).transpose()?;
        let targets = contribution::targets(&wanted, ids, &logits)?;
        let contributions = stream.as_ref().filter(|_| !targets.is_empty());
        let contributions = contributions
            .map(|stream| contribution::contributions(&readout, stream, &targets, &logits))
            .transpose()?;
        let outcome = TextTrace {
            n_generated: tokens.n_generated(),
            predictions,
            lens_start,
            lens,
            contributions,
            vocab_size: model.vocab_size(),
        };
        Ok(Self {
            sites: model.sites(),
            d_model: model.config().d_model(),
            sides: vec![tokens.into_side()],
            outcome: TraceOutcome::Text(outcome),
            attentions,
            vectors: captured.vectors,
            intervention: options.intervention.clone(),
        })
    }
}

/// One pass over all tokens: the input of the output layer, and what was captured.
fn pass_over(
    generator: &Generator,
    ids: &[u32],
    options: &TextOptions,
) -> Result<(Var, polyhead_attention::Trace)> {
    let observe = ObserveOptions {
        filter: options.filter.clone(),
        vectors: options.vectors,
        intervention: Some(&options.intervention).filter(|changed| !changed.is_empty()),
    };
    let activations = if options.needs_stream() { KeepActivations::Yes } else { KeepActivations::No };
    captured_text_pass(generator, ids, &observe, activations)
}

/// One pass over tokens: the input of the output layer, and what was captured.
pub(crate) fn captured_text_pass(
    generator: &Generator,
    ids: &[u32],
    observe: &ObserveOptions<'_>,
    activations: KeepActivations,
) -> Result<(Var, polyhead_attention::Trace)> {
    let (model, parameters) = (generator.model(), generator.parameters());
    let read = model.ids([Some(ids)].into_iter(), ids.len());
    let read = read.to_device(&parameters.device()).map_err(polyhead_models::Error::from)?;
    captured_pass(parameters, observe, activations, |pass| Ok(model.hidden(pass, &read)?))
}

/// Some rows of a matrix on the host.
fn rows_of(matrix: &Tensor, rows: Range<usize>) -> Tensor {
    let width = matrix.shape().last().copied().unwrap_or(1);
    let data = matrix.data()[rows.start * width..rows.end * width].to_vec();
    Tensor::new(&[rows.len(), width], data)
}

/// An error if the callback cancels the trace.
fn check(progress: TextCallback<'_>, state: TextProgress<'_>) -> Result<()> {
    match progress(state) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Translate(polyhead_engine::Error::Cancelled)),
    }
}
