//! The encoder-decoder Transformer: embeddings, encoder stack, decoder stack, and an output layer with a logit per target
//! id.
//!
//! ```
//! use polyhead_models::transformer::{TransformerConfig, Translator};
//! use polyhead_tensor::Parameters;
//! let mut parameters = Parameters::default();
//! Translator::new(&TransformerConfig::base(37_000), &mut parameters)?;
//! assert_eq!(parameters.count(), 63_082_496);
//! # Ok::<(), polyhead_models::Error>(())
//! ```

use polyhead_attention::layers::Embedding;
use polyhead_attention::{AttentionKind, Builder, Pass, Site, Sites};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy, output_r_drop};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::{Indices, Init, ParameterId, Parameters, Tensor, Var};

use super::config::{Tie, TransformerConfig};
use super::decoder::{DecoderStack, DecoderState, Replay};
use super::input::InputOptions;
use super::sources::{CROSS, ENCODERS, EncodedSources, Encoders, source_lengths};
use super::stack::{LayerOptions, SpecialLayers, StackOptions};
use crate::Result;
use crate::copying::{self, CopyHead, CopySources, CopyTerms, Copying, DecoderOutput};
use crate::ids::Ids;

/// Causal self-attention over the target.
const DECODER: AttentionKind = AttentionKind::self_attention(1, "decoder", "target").causal();

/// An encoder-decoder Transformer.
#[derive(Debug, Clone)]
pub struct Translator {
    config: TransformerConfig,
    encoders: Encoders,
    decoder: DecoderStack,
    copy: Option<CopyHead>,
    output: Embedding,
    output_bias: Option<ParameterId>,
}

/// The decoder state of a translator.
#[derive(Debug)]
pub struct TranslatorState {
    pub(crate) decoder: DecoderState,
    /// The sources that the copy head copies from.
    copy: Option<CopySources>,
}

impl Translator {
    /// Builds the model and declares all parameters, still without values.
    ///
    /// # Errors
    /// If the config is invalid.
    pub fn new(config: &TransformerConfig, parameters: &mut Parameters) -> Result<Self> {
        config.validate()?;
        let mut builder = Builder::new(parameters);
        let &TransformerConfig { source_vocab_size, target_vocab_size, d_model, .. } = config;
        let mut table = |name: &str, vocab_size| Embedding::new(&mut builder.at(name), vocab_size, d_model);
        let [source, target] = match config.tie {
            Tie::All | Tie::SourceTarget => {
                let shared = table("embedding", source_vocab_size);
                [shared.clone(), shared]
            }
            Tie::None | Tie::TargetOutput => {
                [table("source_embedding", source_vocab_size), table("target_embedding", target_vocab_size)]
            }
        };
        let output = match config.tie {
            Tie::All | Tie::TargetOutput => target.clone(),
            Tie::None | Tie::SourceTarget => table("output", target_vocab_size),
        };
        let output_bias = config
            .output_bias
            .then(|| builder.at("output").declare("bias", &[target_vocab_size], Init::Zeros));
        let (layer, input) = (config.layer(), config.input());
        let encoder_stack = StackOptions {
            kind: ENCODERS[0],
            sizes: config.encoder,
            layer,
            mask: config.encoder_sight.mask(),
            cross: None,
            special: SpecialLayers::default(),
        };
        let encoders = Encoders::new(&mut builder, &source, &input, (config, &encoder_stack))?;
        let decoder_stack = StackOptions {
            kind: DECODER,
            sizes: config.decoder,
            mask: config.decoder_sight.mask(),
            cross: Some(config.cross()),
            special: SpecialLayers::default(),
            ..encoder_stack
        };
        let target = (target, target_vocab_size);
        let decoder = DecoderStack::new(&mut builder.at("decoder"), target, &input, &decoder_stack)?;
        let copy = match config.copy {
            Copying::None => None,
            Copying::PointerGenerator => Some(CopyHead::new(&mut builder.at("copy"), d_model)?),
        };
        Ok(Self { config: config.clone(), encoders, decoder, copy, output, output_bias })
    }

    /// The config of the model.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// The embeddings of source tokens.
    pub fn source_embedding(&self) -> &Embedding {
        self.encoders.embedding()
    }

    /// The attention layers of the model.
    pub fn sites(&self) -> Sites {
        let copy = self.copy.as_ref().map(CopyHead::site_group);
        Sites::new(self.encoders.sites().chain(self.decoder.sites()).chain(copy).collect())
    }

    /// The cross-attention layer used for word alignment, to the first source; see [`TransformerConfig::alignment_layer`].
    pub fn alignment_site(&self) -> Site {
        Site { kind: CROSS[0], layer: self.config.alignment_layer() }
    }

    /// Encodes source ids → rows × source length × d_model; of several sources the first.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn encode(&self, pass: &Pass<'_>, source: &Ids) -> Result<Var> {
        Ok(self.encoded(pass, &self.read(source))?.first().clone())
    }

    fn encoded(&self, pass: &Pass<'_>, source: &Ids) -> Result<EncodedSources> {
        Ok(self.encoders.forward(pass, source)?)
    }

    /// Source ids as the encoders read them: without words that the vocabulary lacks, if the model copies, and divided into its
    /// sources.
    pub(crate) fn read(&self, ids: &Ids) -> Ids {
        let &TransformerConfig { sources, end_id, pad_id, .. } = &self.config;
        self.known(ids).divided((sources, end_id), None, pad_id)
    }

    /// The ids without words that the vocabulary lacks, if the model copies.
    fn known(&self, ids: &Ids) -> Ids {
        let &TransformerConfig { target_vocab_size, unknown_id, .. } = &self.config;
        if self.copy.is_some() { ids.known(target_vocab_size, unknown_id) } else { ids.clone() }
    }

    /// Logits of the token after each target token; see [`crate::SequenceToSequence::forward`].
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<Var> {
        let source = &self.read(source);
        let DecoderOutput { x, copied } = self.decode_all(pass, source, target)?;
        let logits = self.logits(pass, &x)?;
        match copied {
            Some(copied) => copied.extended(&logits, source),
            None => Ok(logits),
        }
    }

    /// What the output layer and copying compute with.
    pub(crate) fn decode_all(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<DecoderOutput> {
        let (source, target) = (&self.read(source), &self.known(target));
        let encoded = self.encoded(pass, source)?;
        let states = encoded.first();
        let x = self.decoder.forward(pass, Some(encoded.source(source)), target)?;
        let copy = |copy: &CopyHead| copy.forward(pass, &x, &copy.memory(pass, states, source.lengths())?);
        let copied = self.copy.as_ref().map(copy).transpose()?;
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
        let source = &self.read(source);
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

    /// The decoder state before the first token: one row per sentence, with capacity for `n_rows` rows.
    pub(crate) fn start(&self, pass: &Pass<'_>, source: &Ids, n_rows: usize) -> Result<TranslatorState> {
        let source = &self.read(source);
        let on_device = source.to_device(&pass.parameters.device())?;
        let encoded = self.encoded(pass, &on_device)?;
        let attended = encoded.source(&on_device);
        let decoder = self.decoder.start(pass, Some(attended), &source_lengths(source), n_rows)?;
        let copy = |copy: &CopyHead| -> Result<CopySources> {
            let memory = copy.memory(pass, encoded.first(), on_device.lengths())?;
            Ok(CopySources::new(source, Some(memory)))
        };
        Ok(TranslatorState { decoder, copy: self.copy.as_ref().map(copy).transpose()? })
    }

    /// One decoding step up to the output layer: rows × d_model.
    pub(crate) fn step_hidden(
        &self,
        pass: &Pass<'_>,
        state: &mut TranslatorState,
        tokens: &[u32],
    ) -> Result<Tensor> {
        let known = self.known(&Ids::padded_to(tokens.chunks(1).map(Some), 1, self.config.pad_id));
        let step = (&mut state.decoder, known.ids().host());
        self.decoder.step(pass, step, Replay::Never, |x| Ok(x.value().clone()))
    }

    /// One decoding step: rows × vocab_size, or ln P over the extended vocabulary if the model copies.
    pub(crate) fn step(
        &self,
        pass: &Pass<'_>,
        state: &mut TranslatorState,
        tokens: &[u32],
    ) -> Result<Tensor> {
        let logits = |x: &Var| -> Result<Var> {
            let logits = self.output.step_logits(pass, x, self.output_bias)?;
            pass.capture.activation(|| "logits".into(), &logits);
            Ok(logits)
        };
        let Some(copy) = &self.copy else {
            let step = (&mut state.decoder, tokens);
            return self.decoder.step(pass, step, Replay::Allowed, |x| Ok(logits(x)?.value().clone()));
        };
        // Mixing reads the weights, which a recording cannot.
        let x = Var::constant(self.step_hidden(pass, state, tokens)?);
        let sentences = state.decoder.sentences();
        let sources = state.copy.as_mut().expect("set at the start");
        let ids = sources.ids(sentences);
        let memory = sources.memory(sentences, &pass.parameters.device())?;
        let query = x.reshaped(&[tokens.len(), 1, self.config.d_model]);
        let copied = copy.forward(pass, &query, memory)?;
        copied.distribution(&logits(&x)?, &ids)
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

impl TransformerConfig {
    fn layer(&self) -> LayerOptions {
        let &Self {
            d_model,
            norm_order,
            final_norm,
            norm_epsilon,
            activation,
            position,
            max_len,
            dropout,
            ..
        } = self;
        LayerOptions {
            d_model,
            norm_order,
            final_norm,
            norm_epsilon,
            activation,
            position,
            max_len,
            dropout,
            ..LayerOptions::default()
        }
    }

    fn input(&self) -> InputOptions {
        let &Self { d_model, position, max_len, pad_id, scale_embedding, dropout, .. } = self;
        InputOptions { d_model, position, max_len, pad_id, scale_embedding, dropout: dropout.embedding }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::config::{PositionConfig, RotaryPairing, StackConfig};

    #[test]
    fn the_layers_of_a_deep_model_share_one_table_of_rotations() {
        let stack = StackConfig::new(1024, 1, 1);
        let config = TransformerConfig {
            d_model: 2,
            encoder: stack,
            decoder: stack,
            position: PositionConfig::Rotary { base: 1e4, pairing: RotaryPairing::Halves, scaling: None },
            max_len: 1 << 18,
            ..TransformerConfig::tiny(9)
        };
        let started = std::time::Instant::now();
        Translator::new(&config, &mut Parameters::default()).unwrap();
        // With a table for each layer this would take 4 GiB and minutes.
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }
}
