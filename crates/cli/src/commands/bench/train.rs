//! `polyhead bench train`: one training step of an encoder-decoder Transformer on random data.
//!
//! The model is put together here by hand from the operations of `tensor`: post-norm, ReLU, tied embeddings, sinusoidal
//! positions, dropout 0.1 on attention weights, after ReLU and on each sub-layer's output, label smoothing 0.1, AdamW.
//! Loss, all gradients and the update are computed in every step.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_random::Random;
use polyhead_tensor::ops::attention::{AttentionOptions, Direction, attention};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{Activation, LinearOptions, linear};
use polyhead_tensor::ops::norm::{NormOptions, layer_norm};
use polyhead_tensor::optim::{Adam, AdamOptions};
use polyhead_tensor::{ParameterId, Parameters, Tape, Tensor, Var};
use serde::{Deserialize, Serialize};

use crate::report::{Failure, peak_memory_bytes, thread_pool};

const EXAMPLES: &str = "Examples:
  polyhead bench train --workload small --threads 2 --steps 10
  polyhead bench train --config shape.toml

A config names every size: d_model, n_heads, d_ff, n_layers (in each stack), vocab_size, batch, length (source and target).";

/// Options of `polyhead bench train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Train {
    /// Which workload
    #[arg(long, value_enum, default_value_t = Workload::Small)]
    workload: Workload,
    /// A TOML file with another shape
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    config: Option<PathBuf>,
    /// Where to run
    #[arg(long, value_enum, default_value_t = DeviceName::Cpu)]
    device: DeviceName,
    /// Numbers to compute with
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Steps that are timed, after two to warm up
    #[arg(long, value_name = "N", default_value_t = 10)]
    steps: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Workload {
    /// d_model 256, 4 heads, d_ff 1024, 3+3 layers, 8000 pieces, 64 × (24 + 24) tokens
    Small,
    /// d_model 512, 8 heads, d_ff 2048, 6+6 layers, 32000 pieces, 256 × (32 + 32) tokens
    Base,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DeviceName {
    Cpu,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Dtype {
    F32,
}

/// Sizes of a workload.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    d_model: usize,
    n_heads: usize,
    d_ff: usize,
    n_layers: usize,
    vocab_size: usize,
    batch: usize,
    length: usize,
}

impl Sizes {
    fn load(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|error| polyhead_text::Error::io(path, "open", error))?;
        let sizes: Self = toml::from_str(&text).map_err(|error| Failure {
            message: format!("{}: {}", path.display(), error.message()),
            hint: "polyhead bench train --help names every size".into(),
        })?;
        let Self { d_model, n_heads, d_ff, n_layers, vocab_size, batch, length } = sizes;
        if [d_model, n_heads, d_ff, n_layers, vocab_size, batch, length].contains(&0)
            || d_model % n_heads != 0
        {
            return Err(Failure {
                message: format!(
                    "{}: {sizes:?}, expected sizes above 0 and a d_model that the heads can share",
                    path.display()
                ),
                hint: "for instance d_model = 256 with n_heads = 4".into(),
            }
            .into());
        }
        Ok(sizes)
    }
}

impl Workload {
    fn sizes(self) -> Sizes {
        match self {
            Self::Small => Sizes {
                d_model: 256,
                n_heads: 4,
                d_ff: 1024,
                n_layers: 3,
                vocab_size: 8000,
                batch: 64,
                length: 24,
            },
            Self::Base => Sizes {
                d_model: 512,
                n_heads: 8,
                d_ff: 2048,
                n_layers: 6,
                vocab_size: 32000,
                batch: 256,
                length: 32,
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Small => "T-small",
            Self::Base => "T-base",
        }
    }
}

const DROPOUT: f32 = 0.1;

/// One line of output.
#[derive(Serialize)]
struct Line {
    bench: &'static str,
    workload: &'static str,
    tokens_per_s_median: f64,
    tokens_per_s_best: f64,
    peak_memory_bytes: Option<u64>,
    threads: usize,
    dtype: &'static str,
    device: &'static str,
    parameters: usize,
    first_loss: f32,
    last_loss: f32,
}

impl Train {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            // There is one of each so far; the match says so when another comes.
            let (DeviceName::Cpu, Dtype::F32) = (self.device, self.dtype);
            let sizes = self.config.as_deref().map_or_else(|| Ok(self.workload.sizes()), Sizes::load)?;
            let mut parameters = Parameters::default();
            let model = Model::new(&mut parameters, sizes);
            let mut adam =
                Adam::new(AdamOptions { weight_decay: 0.01, learning_rate: 1e-4, ..AdamOptions::default() });
            let ids = |stream| -> Vec<u32> {
                let random = Random::new(1).stream(stream);
                (0..sizes.batch * sizes.length)
                    .map(|i| random.below(sizes.vocab_size, i as u64) as u32)
                    .collect()
            };
            let (source, target, expected) = (ids(1), ids(2), ids(3));
            let mut losses = Vec::new();
            let mut seconds = Vec::new();
            for step in 0..self.steps.max(1) + 2 {
                let start = Instant::now();
                let tape = Tape::training(1, step as u64);
                let loss = model.loss(&tape, &parameters, [&source, &target, &expected])?;
                losses.push(loss.value().data()[0]);
                let gradients = tape.backward(&loss);
                drop(loss);
                adam.step(&mut parameters, &gradients);
                if step >= 2 {
                    seconds.push(start.elapsed().as_secs_f64());
                }
            }
            seconds.sort_by(f64::total_cmp);
            let tokens = (sizes.batch * sizes.length) as f64;
            let line = Line {
                bench: "train",
                workload: if self.config.is_some() { "config" } else { self.workload.name() },
                tokens_per_s_median: tokens / seconds[seconds.len() / 2],
                tokens_per_s_best: tokens / seconds[0],
                peak_memory_bytes: peak_memory_bytes(),
                threads: rayon::current_num_threads(),
                dtype: "f32",
                device: parameters.value(model.table).device().name(),
                parameters: parameters.count(),
                first_loss: losses[0],
                last_loss: losses[losses.len() - 1],
            };
            Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string(&line)?)?)
        })
    }
}

/// A weight and its bias.
struct Linear {
    weight: ParameterId,
    bias: ParameterId,
}

/// One attention with its four projections and the norm after it.
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    norm: [ParameterId; 2],
}

struct Layer {
    own: Attention,
    cross: Option<Attention>,
    inner: Linear,
    outer: Linear,
    norm: [ParameterId; 2],
}

struct Model {
    sizes: Sizes,
    table: ParameterId,
    positions: Tensor,
    encoder: Vec<Layer>,
    decoder: Vec<Layer>,
}

/// Adds parameters with random start values.
struct Builder<'a> {
    parameters: &'a mut Parameters,
    d_model: usize,
}

impl Builder<'_> {
    fn random(&mut self, name: &str, shape: &[usize], spread: f32) -> ParameterId {
        let random = Random::new(7).stream(self.parameters.count() as u64);
        let len = shape.iter().product::<usize>() as u64;
        let data = (0..len).map(|i| (random.uniform(i) as f32 * 2.0 - 1.0) * spread).collect();
        self.parameters.add(name, Tensor::new(shape, data))
    }

    fn linear(&mut self, name: &str, d_in: usize, d_out: usize) -> Linear {
        let spread = 1.0 / (d_in as f32).sqrt();
        Linear {
            weight: self.random(&format!("{name}.weight"), &[d_out, d_in], spread),
            bias: self.random(&format!("{name}.bias"), &[d_out], spread),
        }
    }

    fn norm(&mut self, name: &str) -> [ParameterId; 2] {
        let shape = [self.d_model];
        let ones = Tensor::new(&shape, vec![1.0; self.d_model]);
        [
            self.parameters.add(format!("{name}.weight"), ones),
            self.parameters.add(format!("{name}.bias"), Tensor::zeros(&shape)),
        ]
    }

    fn attention(&mut self, name: &str) -> Attention {
        let d = self.d_model;
        Attention {
            query: self.linear(&format!("{name}.query"), d, d),
            key: self.linear(&format!("{name}.key"), d, d),
            value: self.linear(&format!("{name}.value"), d, d),
            output: self.linear(&format!("{name}.output"), d, d),
            norm: self.norm(&format!("{name}.norm")),
        }
    }

    fn layer(&mut self, name: &str, d_ff: usize, has_cross: bool) -> Layer {
        Layer {
            own: self.attention(&format!("{name}.self_attention")),
            cross: has_cross.then(|| self.attention(&format!("{name}.cross_attention"))),
            inner: self.linear(&format!("{name}.feed_forward.inner"), self.d_model, d_ff),
            outer: self.linear(&format!("{name}.feed_forward.outer"), d_ff, self.d_model),
            norm: self.norm(&format!("{name}.feed_forward.norm")),
        }
    }
}

/// sin and cos of position / 10000^(2j/d), interleaved.
fn sinusoidal(length: usize, d_model: usize) -> Tensor {
    let number = |index: usize| {
        let (position, column) = (index / d_model, index % d_model);
        let angle = position as f64 / 10000_f64.powf((column / 2 * 2) as f64 / d_model as f64);
        (if column % 2 == 0 { angle.sin() } else { angle.cos() }) as f32
    };
    Tensor::new(&[length, d_model], (0..length * d_model).map(number).collect())
}

impl Model {
    fn new(parameters: &mut Parameters, sizes: Sizes) -> Self {
        let mut builder = Builder { parameters, d_model: sizes.d_model };
        let table = builder.random(
            "embedding",
            &[sizes.vocab_size, sizes.d_model],
            1.7 / (sizes.d_model as f32).sqrt(),
        );
        let mut layers = |stack: &str, has_cross: bool| -> Vec<Layer> {
            (0..sizes.n_layers)
                .map(|i| builder.layer(&format!("{stack}.{i}"), sizes.d_ff, has_cross))
                .collect()
        };
        let (encoder, decoder) = (layers("encoder", false), layers("decoder", true));
        Self { sizes, table, positions: sinusoidal(sizes.length, sizes.d_model), encoder, decoder }
    }

    fn loss(
        &self,
        tape: &Tape,
        parameters: &Parameters,
        [source, target, expected]: [&[u32]; 3],
    ) -> Result<Var> {
        let step = Step { tape, parameters, n_heads: self.sizes.n_heads };
        let table = tape.parameter(parameters, self.table);
        let scale = (self.sizes.d_model as f32).sqrt();
        let options = EmbeddingOptions { scale, positions: Some(self.positions.clone()) };
        let mut memory = embedding(tape, source, self.sizes.length, &table, &options)?;
        for layer in &self.encoder {
            memory = step.layer(layer, &memory, None)?;
        }
        let mut x = embedding(tape, target, self.sizes.length, &table, &options)?;
        for layer in &self.decoder {
            x = step.layer(layer, &x, Some(&memory))?;
        }
        let logits = linear(tape, &x, &table, None, LinearOptions::default())?;
        let options = CrossEntropyOptions { label_smoothing: 0.1, ..CrossEntropyOptions::default() };
        Ok(cross_entropy(tape, &logits, expected, options)?)
    }
}

/// One pass through the layers.
struct Step<'a> {
    tape: &'a Tape,
    parameters: &'a Parameters,
    n_heads: usize,
}

impl Step<'_> {
    fn var(&self, id: ParameterId) -> Var {
        self.tape.parameter(self.parameters, id)
    }

    fn linear(&self, layer: &Linear, x: &Var, options: LinearOptions) -> Result<Var> {
        Ok(linear(self.tape, x, &self.var(layer.weight), Some(&self.var(layer.bias)), options)?)
    }

    fn norm(&self, x: &Var, residual: &Var, norm: [ParameterId; 2]) -> Result<Var> {
        let [gamma, beta] = norm.map(|id| self.var(id));
        let options = NormOptions { dropout: DROPOUT, ..NormOptions::default() };
        Ok(layer_norm(self.tape, x, Some(residual), [&gamma, &beta], options)?)
    }

    fn attention(&self, layer: &Attention, x: &Var, memory: &Var, direction: Direction) -> Result<Var> {
        let plain = LinearOptions::default();
        let query = self.linear(&layer.query, x, plain)?;
        let key = self.linear(&layer.key, memory, plain)?;
        let value = self.linear(&layer.value, memory, plain)?;
        let options = AttentionOptions {
            n_heads: self.n_heads,
            direction,
            dropout: DROPOUT,
            ..AttentionOptions::default()
        };
        let context = attention(self.tape, &query, &key, &value, &options)?;
        let output = self.linear(&layer.output, &context, plain)?;
        self.norm(&output, x, layer.norm)
    }

    fn layer(&self, layer: &Layer, x: &Var, memory: Option<&Var>) -> Result<Var> {
        let direction = if memory.is_some() { Direction::Causal } else { Direction::Both };
        let mut x = self.attention(&layer.own, x, x, direction)?;
        if let (Some(cross), Some(memory)) = (&layer.cross, memory) {
            x = self.attention(cross, &x, memory, Direction::Both)?;
        }
        let inner = LinearOptions { activation: Activation::Relu, dropout: DROPOUT };
        let hidden = self.linear(&layer.inner, &x, inner)?;
        let output = self.linear(&layer.outer, &hidden, LinearOptions::default())?;
        self.norm(&output, &x, layer.norm)
    }
}
