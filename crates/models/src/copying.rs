//! Copying: a pointer-generator mixes what a decoder generates with words of its source (See, Liu & Manning 2017, "Get To
//! The Point").
//!
//! P(w) = p·P_vocab(w) + (1 − p)·Σ_{i: source_i = w} a_i. p = σ(v·[context; state; input] + b) is computed at each step, and
//! a is the attention to the source. A source word that the vocabulary lacks has an id of its own sentence, vocab_size + k for
//! the k-th such word ([`Ids::known`]); so the vocabulary of a batch is extended by as many ids as its sources have tokens.
//!
//! Recurrent decoders copy by their attention to the source. A Transformer has one more head for it, over the outputs of
//! encoder and decoder: heads of its layers serve other purposes, and the fused attention never stores its weights.

use polyhead_attention::layers::Linear;
use polyhead_attention::multi_head::HeadShape;
use polyhead_attention::score::{ScoreKind, ScoreOptions};
use polyhead_attention::source_attention::Local;
use polyhead_attention::{AttentionKind, Builder, Memory, Pass, Site, SiteGroup, SourceAttention};
use polyhead_tensor::ops::copying::{CopyMixture, copy_cross_entropy, copy_distribution, coverage_loss};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::elementwise::{add, scale, sigmoid};
use polyhead_tensor::ops::shape::concat;
use polyhead_tensor::{Device, Indices, Tape, Tensor, Var};
use serde::{Deserialize, Serialize};

use crate::ids::Ids;
use crate::recurrent::gathered_memory;
use crate::{Error, Result};

/// The attention of a Transformer's copy head.
pub(crate) const COPY: AttentionKind = AttentionKind {
    rank: 3,
    name: "copy",
    stack: "decoder",
    sub_layer: "copy_attention",
    queries: "target",
    keys: "source",
    is_causal: false,
};

/// Whether a decoder copies words of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copying {
    /// It generates only.
    #[default]
    None,
    /// Pointer-generator (See, Liu & Manning 2017).
    PointerGenerator,
}

/// The keys of a config that concern copying.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyKeys {
    pub(crate) copy: Copying,
    pub(crate) coverage: f32,
    pub(crate) vocab_sizes: [usize; 2],
    pub(crate) unknown_id: u32,
}

impl CopyKeys {
    /// Adds what is inconsistent.
    pub(crate) fn check(self, problems: &mut Vec<String>) {
        let Self { copy, coverage, vocab_sizes: [source, target], unknown_id } = self;
        if !(coverage >= 0.0 && coverage.is_finite()) {
            problems.push(format!("coverage is {coverage}, expected 0 or more"));
        }
        if copy == Copying::None {
            if coverage > 0.0 {
                problems.push(format!(
                    "coverage is {coverage} without copying, expected copy = \"pointer_generator\""
                ));
            }
            return;
        }
        if source != target {
            problems.push(format!(
                "copying with {source} source ids and {target} target ids: a copied word needs the same id on both \
                 sides, expected one vocabulary"
            ));
        }
        if unknown_id as usize >= target {
            problems.push(format!(
                "unknown_id is {unknown_id}, expected an id below the vocabulary size {target}"
            ));
        }
    }

    /// The choice in words.
    pub(crate) fn describe(self) -> Option<(&'static str, String)> {
        let coverage = match self.coverage {
            0.0 => "no coverage".to_owned(),
            weight => format!("coverage loss × {weight}"),
        };
        (self.copy != Copying::None).then(|| ("copying", format!("pointer-generator, {coverage}")))
    }
}

/// The loss of a batch.
#[derive(Debug, Clone)]
pub struct TrainingLoss {
    /// What is minimised: the cross-entropy and, with coverage, its loss. A scalar.
    pub loss: Var,
    /// The mean cross-entropy. A scalar.
    pub cross_entropy: Tensor,
}

/// The parts of the loss, scalars.
pub(crate) struct Losses {
    pub(crate) cross_entropy: Var,
    /// The coverage loss times its weight.
    pub(crate) coverage: Option<Var>,
}

impl Losses {
    /// Their sum.
    pub(crate) fn total(self, tape: &Tape) -> Result<TrainingLoss> {
        let Self { cross_entropy, coverage } = self;
        let loss = match coverage {
            Some(coverage) => add(tape, &cross_entropy, &coverage)?,
            None => cross_entropy.clone(),
        };
        Ok(TrainingLoss { loss, cross_entropy: cross_entropy.value().clone() })
    }
}

/// What a decoder copies by, for each target position.
#[derive(Debug, Clone)]
pub(crate) struct CopyTerms {
    /// Attention to the source: rows × target length × source length.
    pub(crate) weights: Var,
    /// ln(p/(1 − p)): rows × target length × 1.
    pub(crate) gate: Var,
}

/// What the output layer and copying compute with, for each target position.
pub(crate) struct DecoderOutput {
    /// The input of the output layer: rows × target length × d_model.
    pub(crate) x: Var,
    /// What is copied by; `None` for a model that only generates.
    pub(crate) copied: Option<CopyTerms>,
}

/// The part of an output that each target token owes to copying.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyShare {
    /// p, the probability of generating.
    pub generate: f32,
    /// The share of copying in the probability of the token, from 0 to 1.
    pub share: f32,
    /// The source position of the token with the largest weight; none if the source does not have it.
    pub position: Option<usize>,
}

impl CopyTerms {
    /// Mean −ln P, and the coverage loss with its weight.
    pub(crate) fn losses(
        &self,
        tape: &Tape,
        (logits, source): (&Var, &Ids),
        expected: &Indices,
        options: CrossEntropyOptions,
        coverage: f32,
    ) -> Result<Losses> {
        let mixture = self.mixture(logits, source.extended());
        let cross_entropy = copy_cross_entropy(tape, mixture, expected, options)?;
        let coverage = match coverage {
            0.0 => None,
            weight => {
                let loss = coverage_loss(tape, &self.weights, expected, options.ignored_id)?;
                Some(scale(tape, &loss, weight))
            }
        };
        Ok(Losses { cross_entropy, coverage })
    }

    /// ln P over the extended vocabulary, of whole targets, without gradients: rows × target length × (vocab_size + source
    /// length).
    pub(crate) fn extended(&self, logits: &Var, source: &Ids) -> Result<Var> {
        let &[rows, length, vocab_size] = logits.shape() else { unreachable!("logits have three axes") };
        let found = self.distribution(logits, source.extended())?;
        Ok(Var::constant(found.reshaped(&[rows, length, vocab_size + source.length()])))
    }

    fn mixture<'a>(&'a self, logits: &'a Var, sources: &'a Indices) -> CopyMixture<'a> {
        CopyMixture { logits, weights: &self.weights, gate: &self.gate, sources }
    }

    /// ln P over the extended vocabulary: rows of the logits × (vocab_size + source length), in CPU memory.
    pub(crate) fn distribution(&self, logits: &Var, sources: &Indices) -> Result<Tensor> {
        Ok(copy_distribution(self.mixture(logits, sources))?)
    }

    /// For each token of one target, which the decoder wrote of one source, how far it was copied; `log_probabilities` are
    /// the model's of that target.
    pub(crate) fn shares(
        &self,
        source: &[u32],
        target: &[u32],
        log_probabilities: &Tensor,
    ) -> Result<Vec<CopyShare>> {
        let [weights, gate] = [self.weights.value().to_host()?, self.gate.value().to_host()?];
        let width = log_probabilities.len() / target.len().max(1);
        let share = |(t, &id): (usize, &u32)| {
            let row = &weights.data()[t * source.len()..][..source.len()];
            let own = || source.iter().zip(row).enumerate().filter(|(_, (source, _))| **source == id);
            let copied: f32 = own().map(|(_, (_, weight))| weight).sum();
            let best = own().max_by(|(a, (_, x)), (b, (_, y))| x.total_cmp(y).then(b.cmp(a)));
            let generate = 1.0 / (1.0 + (-gate.data()[t]).exp());
            let probability = log_probabilities.data()[t * width + id as usize].exp();
            let share = ((1.0 - generate) * copied / probability.max(f32::MIN_POSITIVE)).min(1.0);
            CopyShare { generate, share, position: best.map(|(position, _)| position) }
        };
        Ok(target.iter().enumerate().map(share).collect())
    }
}

/// The error about R-Drop, which compares distributions over the vocabulary.
pub(crate) fn no_r_drop() -> Error {
    unsupported(
        "R-Drop",
        "it compares what two passes generate, and a copied word may not be in the vocabulary",
    )
}

/// The error of an operation that a model with copying does not have.
pub(crate) fn unsupported(what: &str, reason: &str) -> Error {
    Error::Request { message: format!("{what} with a model that copies: {reason}") }
}

/// p: whether the next word is generated or copied.
#[derive(Debug, Clone)]
pub(crate) struct CopyGate {
    gate: Linear,
}

impl CopyGate {
    /// Declares `weight` and `bias` for inputs of `width` values.
    pub(crate) fn new(builder: &mut Builder<'_>, width: usize) -> Self {
        Self { gate: Linear::new(builder, width, 1) }
    }

    /// ln(p/(1 − p)) from vectors of each position, which are put side by side.
    pub(crate) fn forward(&self, pass: &Pass<'_>, parts: &[&Var]) -> Result<Var> {
        let gate = self.gate.forward(pass, &concat(pass.tape, parts, 2)?)?;
        if pass.capture.wants_activations() {
            pass.capture.activation(|| "copy.generate".into(), &sigmoid(pass.tape, &gate));
        }
        Ok(gate)
    }
}

/// The copy head of a Transformer: one attention head over the outputs of encoder and decoder, with scores qᵀ·W·k/√d_model.
#[derive(Debug, Clone)]
pub(crate) struct CopyHead {
    attention: SourceAttention,
    gate: CopyGate,
    d_model: usize,
}

impl CopyHead {
    /// Declares `attention` and `gate`.
    pub(crate) fn new(builder: &mut Builder<'_>, d_model: usize) -> Result<Self> {
        let kind = ScoreKind::General;
        let options = ScoreOptions { kind, d_query: d_model, d_key: d_model, ..ScoreOptions::default() };
        let site = Site { kind: COPY, layer: 0 };
        let attention = SourceAttention::new(&mut builder.at("attention"), options, Local::Global, site)?;
        Ok(Self { attention, gate: CopyGate::new(&mut builder.at("gate"), 2 * d_model), d_model })
    }

    /// Its attention.
    pub(crate) fn site_group(&self) -> SiteGroup {
        SiteGroup { kind: COPY, n_layers: 1, heads: HeadShape::even(self.d_model, 1) }
    }

    /// Keys and values of encoder states.
    pub(crate) fn memory(&self, pass: &Pass<'_>, states: &Var, lengths: &Indices) -> Result<Memory> {
        Ok(self.attention.memory(pass, states, lengths)?)
    }

    /// What is copied by, for decoder outputs x: rows × length × d_model.
    pub(crate) fn forward(&self, pass: &Pass<'_>, x: &Var, memory: &Memory) -> Result<CopyTerms> {
        let query = scale(pass.tape, x, 1.0 / (self.d_model as f32).sqrt());
        let (context, weights) = self.attention.attend(pass, &query, memory, 0)?;
        self.attention.capture(pass, std::slice::from_ref(&weights))?;
        let gate = self.gate.forward(pass, &[&context, x])?;
        Ok(CopyTerms { weights, gate })
    }
}

/// The sources of a decoder state: their ids, and the encoder states that its rows copy from.
#[derive(Debug)]
pub(crate) struct CopySources {
    /// The sources, in CPU memory.
    ids: Ids,
    memory: Option<Memory>,
    /// The memory of the rows of a step, with the sentence of each row.
    rows: Option<(Vec<usize>, Memory)>,
}

impl CopySources {
    /// The sources of a state; a decoder with a memory of its own needs no other.
    pub(crate) fn new(ids: &Ids, memory: Option<Memory>) -> Self {
        Self { ids: ids.clone(), memory, rows: None }
    }

    /// The ids of the source of each row.
    pub(crate) fn ids(&self, sentences: &[usize]) -> Indices {
        let (all, length) = (self.ids.extended().host(), self.ids.length());
        sentences.iter().flat_map(|&sentence| all[sentence * length..][..length].iter().copied()).collect()
    }

    /// The memory of rows, given the sentence of each.
    pub(crate) fn memory(&mut self, sentences: &[usize], device: &Device) -> Result<&Memory> {
        let memory = self.memory.as_ref().expect("a copy head has a memory");
        if self.rows.as_ref().is_none_or(|(of, _)| of != sentences) {
            let lengths = self.ids.lengths().host();
            self.rows = Some((sentences.to_vec(), gathered_memory(memory, sentences, lengths, device)?));
        }
        Ok(&self.rows.as_ref().expect("just set").1)
    }
}
