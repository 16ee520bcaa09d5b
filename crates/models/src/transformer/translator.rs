//! The translator: embeddings, encoder, decoder, and the output layer that gives a logit for every target id.
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
use polyhead_attention::{Builder, Capture, Filter, Intervention, Kind, Pass};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy, output_r_drop};
use polyhead_tensor::ops::r_drop::{RDrop, RDropOptions, r_drop};
use polyhead_tensor::{Indices, Init, ParameterId, Parameters, Tape, Tensor, Var};

use super::config::{Tie, TransformerConfig};
use super::decoder::{Decoder, DecoderState, Replay};
use super::encoder::Encoder;
use crate::Result;
use crate::decode::NextToken;
use crate::ids::Ids;

/// An encoder-decoder Transformer.
#[derive(Debug, Clone)]
pub struct Translator {
    config: TransformerConfig,
    encoder: Encoder,
    decoder: Decoder,
    output: Embedding,
    output_bias: Option<ParameterId>,
}

impl Translator {
    /// Declares all parameters; they have no values yet.
    ///
    /// # Errors
    /// If the config describes no model.
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
        let encoder = Encoder::new(&mut builder.at("encoder"), source, config)?;
        let decoder = Decoder::new(&mut builder.at("decoder"), target, config)?;
        Ok(Self { config: config.clone(), encoder, decoder, output, output_bias })
    }

    /// Its sizes and choices.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// Source ids → rows × source length × d_model.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn encode(&self, pass: &Pass<'_>, source: &Ids) -> Result<Var> {
        Ok(self.encoder.forward(pass, source)?)
    }

    /// Logits of the token after each target token: rows × target length × vocabulary.
    ///
    /// # Errors
    /// If an id is outside the vocabulary.
    pub fn forward(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<Var> {
        let x = self.decode_all(pass, source, target)?;
        self.logits(pass, &x)
    }

    /// What goes into the output layer: rows × target length × d_model.
    fn decode_all(&self, pass: &Pass<'_>, source: &Ids, target: &Ids) -> Result<Var> {
        let memory = self.encode(pass, source)?;
        Ok(self.decoder.forward(pass, &memory, source.lengths(), target)?)
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
        let x = self.decode_all(pass, source, target)?;
        match self.output.output(pass, self.output_bias).filter(|_| !pass.capture.wants_activations()) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x: &x, weight: &weight, bias: bias.as_ref() };
                Ok(output_cross_entropy(pass.tape, layer, expected, options)?)
            }
            None => Ok(cross_entropy(pass.tape, &self.logits(pass, &x)?, expected, options)?),
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
        let x = self.decode_all(pass, source, target)?;
        match self.output.output(pass, self.output_bias).filter(|_| !pass.capture.wants_activations()) {
            Some((weight, bias)) => {
                let layer = OutputLayer { x: &x, weight: &weight, bias: bias.as_ref() };
                Ok(output_r_drop(pass.tape, layer, expected, options)?)
            }
            None => Ok(r_drop(pass.tape, &self.logits(pass, &x)?, expected, options)?),
        }
    }

    /// The rows of the output layer and what is added to its logits.
    pub(super) fn output_parameters(&self) -> (ParameterId, Option<ParameterId>) {
        (self.output.weight(), self.output_bias)
    }

    fn logits(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        let logits = self.output.logits(pass, x, self.output_bias)?;
        pass.capture.activation(|| "logits".into(), &logits);
        Ok(logits)
    }
}

/// A translator with its values, ready to decode.
#[derive(Debug, Clone, Copy)]
pub struct Decoding<'a> {
    /// The model.
    pub model: &'a Translator,
    /// Its values.
    pub parameters: &'a Parameters,
    /// What is to be seen of it.
    pub capture: &'a Capture,
    /// What is changed in it; nothing.
    pub intervention: Option<&'a Intervention>,
}

impl<'a> Decoding<'a> {
    /// A model that decodes as it is.
    pub const fn new(model: &'a Translator, parameters: &'a Parameters, capture: &'a Capture) -> Self {
        Self { model, parameters, capture, intervention: None }
    }

    fn with_pass<T>(&self, work: impl FnOnce(&Pass<'_>) -> Result<T>) -> Result<T> {
        let tape = Tape::inference();
        let intervention = self.intervention;
        work(&Pass { intervention, ..Pass::new(&tape, self.parameters, self.capture) })
    }

    /// One step up to the output layer: rows × d_model, on the processor.
    pub(super) fn hidden(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<Tensor> {
        let hidden = self.with_pass(|pass| {
            self.model.decoder.step(pass, (state, tokens), Replay::Never, |x| Ok(x.value().clone()))
        })?;
        Ok(hidden.to_host()?)
    }
}

impl NextToken for Decoding<'_> {
    type State = DecoderState;

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<DecoderState> {
        let source = Ids::padded(sources, self.model.config.pad_id);
        self.with_pass(|pass| {
            let memory = self.model.encode(pass, &source.to_device(&self.parameters.device())?)?;
            Ok(self.model.decoder.start(pass, &memory, source.lengths().host(), n_rows)?)
        })
    }

    fn step(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<Tensor> {
        self.with_pass(|pass| {
            self.model.decoder.step(pass, (state, tokens), Replay::Allowed, |x| {
                let logits = self.model.output.step_logits(pass, x, self.model.output_bias)?;
                pass.capture.activation(|| "logits".into(), &logits);
                Ok(logits.value().clone())
            })
        })
    }

    fn step_attending(&self, state: &mut DecoderState, tokens: &[u32]) -> Result<(Tensor, Option<Tensor>)> {
        let last = self.model.config.decoder.n_layers.saturating_sub(1);
        let filter = Filter { kind: Some(Kind::Cross), layers: Some(vec![last]), ..Filter::default() };
        // Takes the place of what the caller captures, which sees no weights of these steps.
        let capture = Capture::on(filter);
        let logits = Decoding { capture: &capture, ..*self }.step(state, tokens)?;
        let weights = capture.take().weights.pop();
        Ok((logits, weights.map(|weights| mean_over_heads(&weights.weights))))
    }

    fn reorder(&self, state: &mut DecoderState, rows: &[usize]) {
        state.reorder(rows);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::config::{PositionConfig, RotaryPairing, StackConfig};

    #[test]
    fn the_deepest_model_is_declared_at_once_and_its_layers_share_their_turns() {
        let stack = StackConfig::new(1024, 1, 1);
        let config = TransformerConfig {
            d_model: 2,
            encoder: stack,
            decoder: stack,
            position: PositionConfig::Rotary { base: 1e4, pairing: RotaryPairing::Halves },
            max_len: 1 << 18,
            ..TransformerConfig::tiny(9)
        };
        let started = std::time::Instant::now();
        Translator::new(&config, &mut Parameters::default()).unwrap();
        // With turns of its own for each layer it would be 4 GiB and minutes.
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }
}
