//! `polyhead bench train`: a training step of an encoder-decoder Transformer, of an LSTM with attention, of a GPT-2, or of a Vision
//! Transformer, on random data.
//!
//! The encoder-decoder: post-norm, ReLU, tied embeddings, sinusoidal positions, dropout 0.1 on attention weights, after ReLU and on each
//! sub-layer's output but not on embeddings, label smoothing 0.1, AdamW. Loss, all gradients and the update are computed
//! in every step. The language models, as GPT-2, and ViT: without dropout and label smoothing, AdamW with β₂ 0.95 and gradients clipped to
//! a norm of 1.

mod gpu;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::{Capture, Pass};
use polyhead_models::vision::Images;
use polyhead_models::{Ids, ImageEncoder, LanguageModel, Model, SequenceToSequence};
use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::optim::{Adam, AdamOptions, clip_global_norm};
use polyhead_tensor::{Device, Indices, Math, Parameters, Tape, Var};
use polyhead_train::memory::peak;
use serde::Serialize;

use self::workload::{IMAGE, Sizes, Workload};
use super::{Measurement, memory_text, print};
use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::option_help::{DEVICE, SEED, THREADS, TRAINING_DTYPE};
use crate::output_format::LineFormat;
use crate::report::{Misuse, grouped, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead bench train --workload small --threads 2 --steps 10
  polyhead bench train --workload lstm --threads 2
  polyhead bench train --workload base --device cuda --dtype bf16 --steps 100
  polyhead bench train --workload lm --batch 64 --device cuda --dtype bf16
  polyhead bench train --workload vit --batch 8 --steps 3
  polyhead bench train --config shape.toml --format jsonl

A config sets every size: d_model, n_heads, d_ff, n_layers (of each stack), vocab_size, batch, length (of source and target). On a GPU the steps are replayed as a CUDA graph without pauses. In the JSON, share_of_limit is the share of 790 TFLOP/s, the bf16 matrix-product throughput of an H200, and breakdown has the milliseconds per step of each kind of work.";

/// Options of `polyhead bench train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchTrain {
    /// Model and batch sizes
    #[arg(long, value_enum, default_value_t = Workload::Small)]
    workload: Workload,
    /// TOML file with other sizes
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    config: Option<PathBuf>,
    /// Rows or images of a batch [default: that of the workload]
    #[arg(long, value_name = "N", value_parser = positive)]
    batch: Option<usize>,
    /// Number of timed steps, after two warm-up steps
    #[arg(long, value_name = "N", default_value_t = 10)]
    steps: usize,
    #[arg(long, value_name = "N", default_value_t = 1, help = SEED)]
    seed: u64,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = device_name, help_heading = "Compute",
          help = DEVICE)]
    device: String,
    #[arg(long, value_name = "DTYPE", value_parser = ComputeDtype::TRAINING, default_value = "f32",
          help_heading = "Compute", help = TRAINING_DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// The model, its data and the options of a training step.
struct TrainingTask {
    model: TrainedModel,
    parameters: Parameters,
    batch: TrainedBatch,
    expected: Indices,
    loss: CrossEntropyOptions,
    adam: AdamOptions,
    /// Largest norm of all gradients.
    max_norm: f32,
    seed: u64,
    steps: usize,
}

/// The model of a training step.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum TrainedModel {
    Pairs(SequenceToSequence),
    Text(LanguageModel),
    Images(ImageEncoder),
}

/// The input of a training step.
enum TrainedBatch {
    /// Source and target; a language model reads the target only.
    Ids(Box<[Ids; 2]>),
    Images(Box<Images>),
}

impl TrainedBatch {
    /// The batch on `device`.
    fn to_device(&self, device: &Device) -> polyhead_tensor::Result<Self> {
        Ok(match self {
            Self::Ids(ids) => {
                let [source, target] = &**ids;
                Self::Ids([source.to_device(device)?, target.to_device(device)?].into())
            }
            Self::Images(images) => Self::Images(images.to_device(device)?.into()),
        })
    }
}

impl TrainedModel {
    /// The loss of a batch.
    fn loss(
        &self,
        pass: &Pass<'_>,
        batch: &TrainedBatch,
        expected: &Indices,
        options: CrossEntropyOptions,
    ) -> polyhead_models::Result<Var> {
        match (self, batch) {
            (Self::Pairs(model), TrainedBatch::Ids(ids)) => {
                model.loss(pass, &ids[0], &ids[1], expected, options)
            }
            (Self::Text(model), TrainedBatch::Ids(ids)) => model.loss(pass, &ids[1], expected, options),
            (Self::Images(model), TrainedBatch::Images(images)) => {
                model.loss(pass, images, expected, options)
            }
            _ => unreachable!("a batch is made for its model"),
        }
    }
}

/// Times and losses of the steps.
struct StepTimes {
    /// Seconds per step, sorted.
    seconds: Vec<f64>,
    /// First and last loss.
    losses: [f32; 2],
    /// Milliseconds per step by kind of work, where the device reports them.
    breakdown: Option<BTreeMap<&'static str, f64>>,
}

/// bf16 matrix-product throughput of an H200, in operations per second.
const LIMIT: f64 = 790e12;

/// A line of output.
#[derive(Serialize)]
struct TrainMeasurement {
    bench: &'static str,
    workload: &'static str,
    /// What the rates count.
    unit: &'static str,
    tokens_per_s_median: f64,
    tokens_per_s_best: f64,
    peak_memory_bytes: Option<u64>,
    threads: usize,
    dtype: &'static str,
    device: String,
    model: Option<String>,
    parameters: usize,
    first_loss: f32,
    last_loss: f32,
    milliseconds: f64,
    share_of_limit: Option<f64>,
    breakdown: Option<BTreeMap<&'static str, f64>>,
}

impl Measurement for TrainMeasurement {
    fn text(&self) -> String {
        let Self { workload, unit, dtype, device, first_loss, last_loss, milliseconds, .. } = self;
        let [median, best] =
            [self.tokens_per_s_median, self.tokens_per_s_best].map(|rate| grouped(rate as u64));
        format!(
            "{workload:<8}{device:<7} {dtype:<5} {median:>9} {unit}/s (best {best})  {milliseconds:.2} ms per step  \
             loss {first_loss:.4} → {last_loss:.4}{}",
            memory_text(self.peak_memory_bytes)
        )
    }
}

impl BenchTrain {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let math = self.dtype.math().expect("the parser accepts no int8");
            let device = Device::open(&self.device, math)?;
            if device.math() != math {
                return Err(Misuse {
                    message: format!("--dtype {} on {}, expected f32 there", math.name(), device.name()),
                    hint: "leave out --dtype, or choose a GPU with --device".into(),
                }
                .into());
            }
            let mut sizes = self.config.as_deref().map_or_else(|| Ok(self.workload.sizes()), Sizes::load)?;
            sizes.batch = self.batch.unwrap_or(sizes.batch);
            let mut task = self.task(sizes)?;
            let queues = device.policy().steps_ahead > 1;
            let times = if queues { task.on_gpu(&device)? } else { task.on_cpu()? };
            let StepTimes { seconds, losses: [first_loss, last_loss], breakdown } = times;
            let (tokens, median) = (sizes.units() as f64, seconds[seconds.len() / 2]);
            let measurement = TrainMeasurement {
                bench: "train",
                workload: if self.config.is_some() { "config" } else { self.workload.name() },
                unit: if matches!(task.model, TrainedModel::Images(_)) { "images" } else { "target tokens" },
                tokens_per_s_median: tokens / median,
                tokens_per_s_best: tokens / seconds[0],
                peak_memory_bytes: device.peak_memory().map(|bytes| bytes as u64).or_else(peak),
                threads: rayon::current_num_threads(),
                dtype: device.math().name(),
                device: device.name(),
                model: device.model().map(str::to_owned),
                parameters: task.parameters.count(),
                first_loss,
                last_loss,
                milliseconds: 1e3 * median,
                share_of_limit: (device.math() == Math::Bf16).then(|| sizes.operations() / median / LIMIT),
                breakdown,
            };
            print(&measurement, self.format)
        })
    }

    fn task(&self, sizes: Sizes) -> Result<TrainingTask> {
        let mut parameters = Parameters::default();
        let model = match Model::new(&sizes.config()?, &mut parameters)? {
            Model::LanguageModel(model) => TrainedModel::Text(model),
            Model::Image(model) => TrainedModel::Images(model),
            other => TrainedModel::Pairs(other.into_sequence_to_sequence()?),
        };
        let is_plain = !matches!(model, TrainedModel::Pairs(_));
        let adam = AdamOptions { weight_decay: 0.01, learning_rate: 1e-4, ..AdamOptions::default() };
        parameters.initialise(self.seed);
        let ids = |stream| -> Vec<u32> {
            let random = Random::new(self.seed).stream(stream);
            (0..sizes.tokens()).map(|i| random.below(sizes.vocab_size, i as u64) as u32).collect()
        };
        let batch = match &model {
            TrainedModel::Images(model) => TrainedBatch::Images(self.images(model, sizes).into()),
            _ => TrainedBatch::Ids([1, 2].map(|stream| sizes.rows(&ids(stream))).into()),
        };
        let expected: Vec<u32> = ids(3).into_iter().take(sizes.units()).collect();
        Ok(TrainingTask {
            model,
            parameters,
            batch,
            expected: expected.into(),
            loss: CrossEntropyOptions { label_smoothing: if is_plain { 0.0 } else { 0.1 }, ignored_id: None },
            adam: if is_plain { AdamOptions { learning_rate: 3e-4, beta2: 0.95, ..adam } } else { adam },
            max_norm: if is_plain { 1.0 } else { f32::INFINITY },
            seed: self.seed,
            steps: self.steps.max(1),
        })
    }
}

impl BenchTrain {
    /// Random images.
    fn images(&self, model: &ImageEncoder, sizes: Sizes) -> Images {
        let length = 3 * IMAGE * IMAGE;
        let image = |row: usize| -> Vec<f32> {
            let random = Random::new(self.seed).stream(10 + row as u64);
            (0..length).map(|at| 2.0 * random.uniform(at as u64) as f32 - 1.0).collect()
        };
        let images: Vec<Vec<f32>> = (0..sizes.batch).map(image).collect();
        model.images(images.iter().map(|image| Some(image.as_slice())), [IMAGE; 2])
    }
}

impl TrainingTask {
    /// Times the steps on the CPU.
    fn on_cpu(&mut self) -> Result<StepTimes> {
        let (mut adam, capture) = (Adam::new(self.adam), Capture::off());
        let (mut losses, mut seconds) = (Vec::new(), Vec::new());
        for step in 0..self.steps + 2 {
            let start = Instant::now();
            let tape = Tape::training(self.seed, step as u64);
            let pass = Pass::new(&tape, &self.parameters, &capture);
            let loss = self.model.loss(&pass, &self.batch, &self.expected, self.loss)?;
            losses.push(loss.value().data()[0]);
            let mut gradients = tape.backward(&loss);
            drop(loss);
            if self.max_norm.is_finite() {
                clip_global_norm(&mut gradients, self.max_norm);
            }
            adam.step(&mut self.parameters, &gradients);
            if step >= 2 {
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        seconds.sort_by(f64::total_cmp);
        Ok(StepTimes { seconds, losses: [losses[0], losses[losses.len() - 1]], breakdown: None })
    }
}
