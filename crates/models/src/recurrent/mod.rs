//! Recurrent sequence-to-sequence models: an encoder and a decoder of RNN, GRU or LSTM layers, with or without attention.
//! [`encoder`] is a classifier and [`language_model`] a language model of the same layers.
//!
//! Sutskever, Vinyals & Le 2014 (no attention), Bahdanau, Cho & Bengio 2015 (attention before the cell), Luong, Pham &
//! Manning 2015 (after it, with input feeding and local attention), Cheng, Dong & Lapata 2016 (LSTMN), See, Liu & Manning
//! 2017 (copying with coverage, [`crate::copying`]).
//!
//! ```
//! use polyhead_models::recurrent::{RecurrentConfig, RecurrentTranslator};
//! use polyhead_tensor::Parameters;
//! let config = RecurrentConfig { source_vocab_size: 100, target_vocab_size: 90, ..RecurrentConfig::default() };
//! let mut parameters = Parameters::default();
//! RecurrentTranslator::new(&config, &mut parameters)?;
//! assert!(parameters.find("encoder.layers.1.backward.weight_hh").is_some());
//! # Ok::<(), polyhead_models::Error>(())
//! ```

pub mod config;
mod decoder;
pub mod encoder;
pub mod language_model;
mod stack;
mod state;

use polyhead_attention::layers::{Dropout, Embedding};
use polyhead_attention::multi_head::HeadShape;
use polyhead_attention::{Builder, Pass, Site, SiteGroup, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy, output_r_drop};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::{Indices, Init, ParameterId, Parameters, Tensor, Var};

pub use self::config::{Cell, DecoderAttention, LocalAttention, RecurrentConfig};
use self::decoder::{CROSS, Decoded, DecoderStack, SITE};
pub use self::encoder::{RecurrentEncoder, RecurrentEncoderConfig, StatePooling};
pub use self::language_model::{RecurrentLanguageModel, RecurrentLanguageModelConfig};
use self::stack::RecurrentStack;
pub use self::state::RecurrentState;
pub(crate) use self::state::gathered_memory;
use crate::Result;
use crate::copying::{self, CopyGate, CopyTerms, Copying, DecoderOutput};
use crate::ids::Ids;
use crate::transformer::config::Tie;

/// A recurrent sequence-to-sequence model.
#[derive(Debug, Clone)]
pub struct RecurrentTranslator {
    config: RecurrentConfig,
    source: Embedding,
    target: Embedding,
    encoder: RecurrentStack,
    decoder: DecoderStack,
    copy: Option<CopyGate>,
    output: Embedding,
    output_bias: Option<ParameterId>,
}

impl RecurrentTranslator {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &RecurrentConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &RecurrentConfig { source_vocab_size, target_vocab_size, d_embedding, d_model, .. } = config;
        let mut table =
            |name: &str, vocab_size, width| Embedding::new(&mut builder.at(name), vocab_size, width);
        let [source, target] = match config.tie {
            Tie::All | Tie::SourceTarget => {
                let shared = table("embedding", source_vocab_size, d_embedding);
                [shared.clone(), shared]
            }
            Tie::None | Tie::TargetOutput => [
                table("source_embedding", source_vocab_size, d_embedding),
                table("target_embedding", target_vocab_size, d_embedding),
            ],
        };
        let output = match config.tie {
            Tie::All | Tie::TargetOutput => target.clone(),
            Tie::None | Tie::SourceTarget => table("output", target_vocab_size, d_model),
        };
        let output_bias = config
            .output_bias
            .then(|| builder.at("output").declare("bias", &[target_vocab_size], Init::Zeros));
        let encoder = RecurrentStack::new(&mut builder, &config.encoder_options());
        let decoder = DecoderStack::new(&mut builder.at("decoder"), config)?;
        let copy = (config.copy != Copying::None)
            .then(|| CopyGate::new(&mut builder.at("copy.gate"), 2 * d_model + d_embedding));
        Ok(Self { config: config.clone(), source, target, encoder, decoder, copy, output, output_bias })
    }

    /// The config of the model.
    pub fn config(&self) -> &RecurrentConfig {
        &self.config
    }

    /// The embeddings of source tokens.
    pub fn source_embedding(&self) -> &Embedding {
        &self.source
    }

    /// The attention layers of the model: one from target to source, or none.
    pub fn sites(&self) -> Sites {
        let attends = self.config.attention != DecoderAttention::None;
        let heads = HeadShape::even(self.config.d_model, 1);
        let group = attends.then_some(SiteGroup { kind: CROSS, n_layers: 1, heads });
        Sites::new(group.into_iter().collect())
    }

    /// The attention to the source; `None` without attention.
    pub fn alignment_site(&self) -> Option<Site> {
        (self.config.attention != DecoderAttention::None).then_some(SITE)
    }

    fn embed(&self, pass: &Pass<'_>, table: &Embedding, ids: &Indices, length: usize) -> Result<Var> {
        let &RecurrentConfig { d_embedding, dropout, .. } = &self.config;
        embed(pass, (table, d_embedding), (ids, length), dropout)
    }

    fn encode(&self, pass: &Pass<'_>, source: &Ids) -> Result<stack::Encoded> {
        let x = self.embed(pass, &self.source, source.ids(), source.length())?;
        pass.capture.activation(|| "encoder.embedding".into(), &x);
        Ok(self.encoder.forward(pass, &x, Some(source.lengths()), None)?)
    }

    /// The ids without words that the vocabulary lacks, if the model copies.
    fn known(&self, ids: &Ids) -> Ids {
        let &RecurrentConfig { target_vocab_size, unknown_id, .. } = &self.config;
        if self.copy.is_some() { ids.known(target_vocab_size, unknown_id) } else { ids.clone() }
    }

    /// Logits of the token after each target token; see [`crate::SequenceToSequence::forward`].
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<Var> {
        let source = &self.known(source);
        let DecoderOutput { x, copied } = self.decode_all(pass, source, target)?;
        let logits = self.logits(pass, &x)?;
        match copied {
            Some(copied) => copied.extended(&logits, source),
            None => Ok(logits),
        }
    }

    /// What the output layer and copying compute with.
    pub(crate) fn decode_all(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<DecoderOutput> {
        let (source, target) = (&self.known(source), &self.known(target));
        let encoded = self.encode(pass, source)?;
        let memory = self.decoder.memory(pass, &encoded.states, source.lengths())?;
        let mut state = self.decoder.start(pass, encoded.last, memory.as_ref())?;
        let x = self.embed(pass, &self.target, target.ids(), target.length())?;
        pass.capture.activation(|| "decoder.embedding".into(), &x);
        let decoded = self.decoder.forward(pass, &x, memory.as_ref(), &mut state)?;
        self.output(pass, decoded, &x)
    }

    /// Adds what is copied by to the outputs of the decoder for embedded tokens.
    fn output(&self, pass: &Pass<'_>, decoded: Decoded, embedded: &Var) -> Result<DecoderOutput> {
        let Decoded { vector: x, attended } = decoded;
        let copied = match (&self.copy, attended) {
            (Some(copy), Some(attended)) => {
                let gate = copy.forward(pass, &[&attended.context, &attended.hidden, embedded])?;
                Some(CopyTerms { weights: attended.weights, gate })
            }
            _ => None,
        };
        Ok(DecoderOutput { x, copied })
    }

    /// The logits of the generator, and what is copied by, for a model that copies.
    pub(crate) fn copied(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<(Var, CopyTerms)> {
        let DecoderOutput { x, copied } = self.decode_all(pass, source, target)?;
        Ok((self.logits(pass, &x)?, copied.expect("the caller asks a model that copies")))
    }

    /// The cross-entropy of `expected` given `target` (teacher forcing), and the weighted coverage loss. Scalars.
    pub(crate) fn losses(
        &self,
        pass: &Pass<'_>,
        source: &Ids,
        target: &Ids,
        expected: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<copying::Losses> {
        let source = &self.known(source);
        let DecoderOutput { x, copied } = self.decode_all(pass, source, target)?;
        if let Some(copied) = copied {
            let logits = (&self.logits(pass, &x)?, source);
            return copied.losses(pass.tape, logits, expected, options, self.config.coverage);
        }
        let cross_entropy = self.cross_entropy(pass, &x, expected, options)?;
        Ok(copying::Losses { cross_entropy, coverage: None })
    }

    fn cross_entropy(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        expected: &Indices,
        options: CrossEntropyOptions,
    ) -> Result<Var> {
        match self.output.output(pass, self.output_bias).filter(|_| !pass.capture.wants_activations()) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x, weight: &weight, bias: bias.as_ref() };
                Ok(output_cross_entropy(pass.tape, layer, expected, options)?)
            }
            None => Ok(cross_entropy(pass.tape, &self.logits(pass, x)?, expected, options)?),
        }
    }

    /// The R-Drop loss; see [`crate::SequenceToSequence::r_drop_loss`].
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
        if self.copy.is_some() {
            return Err(copying::no_r_drop());
        }
        let DecoderOutput { x, .. } = self.decode_all(pass, source, target)?;
        match self.output.output(pass, self.output_bias).filter(|_| !pass.capture.wants_activations()) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x: &x, weight: &weight, bias: bias.as_ref() };
                Ok(output_r_drop(pass.tape, layer, expected, options)?)
            }
            None => Ok(r_drop(pass.tape, &self.logits(pass, &x)?, expected, options)?),
        }
    }

    /// The decoder state before the first token, with one row per sentence.
    pub(crate) fn start(&self, pass: &Pass<'_>, source: &Ids) -> Result<RecurrentState> {
        let source = &self.known(source);
        let on_device = source.to_device(&pass.parameters.device())?;
        let encoded = self.encode(pass, &on_device)?;
        let memory = self.decoder.memory(pass, &encoded.states, on_device.lengths())?;
        let step = self.decoder.start(pass, encoded.last, memory.as_ref())?;
        Ok(RecurrentState::new(step, memory, source))
    }

    /// One decoding step, a token per row.
    pub(crate) fn step(
        &self,
        pass: &Pass<'_>,
        state: &mut RecurrentState,
        tokens: &[u32],
    ) -> Result<DecoderOutput> {
        let known = self.known(&Ids::padded_to(tokens.chunks(1).map(Some), 1, self.config.pad_id));
        let tokens = known.ids().host();
        check_ids(tokens, self.config.target_vocab_size)?;
        let device = pass.parameters.device();
        let ids = Indices::from(tokens).to_device(&device)?;
        let x = self.embed(pass, &self.target, &ids, 1)?;
        let (step, memory) = state.for_step(&device)?;
        let decoded = self.decoder.forward(pass, &x, memory, step)?;
        let output = self.output(pass, decoded, &x)?;
        Ok(DecoderOutput { x: output.x.reshaped(&[tokens.len(), self.config.d_model]), ..output })
    }

    /// The logits of a step: rows × vocab_size, or ln P over the extended vocabulary if the model copies.
    pub(crate) fn step_logits(
        &self,
        pass: &Pass<'_>,
        output: &DecoderOutput,
        state: &RecurrentState,
    ) -> Result<Tensor> {
        let logits = self.output.step_logits(pass, &output.x, self.output_bias)?;
        pass.capture.activation(|| "logits".into(), &logits);
        match &output.copied {
            Some(copied) => copied.distribution(&logits, &state.source_ids()),
            None => Ok(logits.value().clone()),
        }
    }

    /// The weight of the output layer and the bias of the logits.
    pub(crate) fn output_parameters(&self) -> (ParameterId, Option<ParameterId>) {
        (self.output.weight(), self.output_bias)
    }

    fn logits(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        let logits = self.output.logits(pass, x, self.output_bias)?;
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }
}

/// Embeds ids → rows × length × d_embedding. Rows of the table are scaled to unit variance.
fn embed(
    pass: &Pass<'_>,
    (table, width): (&Embedding, usize),
    (ids, length): (&Indices, usize),
    dropout: f32,
) -> Result<Var> {
    let options = EmbeddingOptions { scale: (width as f32).sqrt(), positions: None };
    let x = table.forward(pass, ids, length, &options)?;
    Ok(Dropout::new(dropout).forward(pass, &x)?)
}

/// Checks ids that are not on the host when they are used.
fn check_ids(ids: &[u32], vocab_size: usize) -> Result<()> {
    match ids.iter().enumerate().find(|(_, id)| **id as usize >= vocab_size) {
        Some((position, &id)) => {
            Err(polyhead_tensor::Error::Id { operation: "embedding", id, position, vocab_size }.into())
        }
        None => Ok(()),
    }
}
