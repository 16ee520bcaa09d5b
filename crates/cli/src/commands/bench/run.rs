//! `polyhead bench run`: the forward pass of an encoder with random weights, states of all tokens, over a batch of random ids.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_attention::{Capture, Pass};
use polyhead_models::{DataSpec, Encoder, Ids, ModelConfig};
use polyhead_random::Random;
use polyhead_tensor::repeated::Repeated;
use polyhead_tensor::{Device, Dtype, Parameters, Tape};
use polyhead_train::memory::peak;
use serde::Serialize;
use serde_json::json;

use super::{Measurement, memory_text, print};
use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::option_help::{DEVICE, DTYPE, THREADS};
use crate::output_format::LineFormat;
use crate::report::{grouped, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead bench run --workload minilm --threads 2
  polyhead bench run --workload encoder --device cuda --dtype bf16

sequences_per_s counts rows of a batch; all rows have the same length. On a GPU, the passes are replayed as a CUDA graph; breakdown, in the JSON, has the milliseconds of a pass for each kind of work.";

/// Entries of BERT's vocabulary.
const VOCAB_SIZE: usize = 30_522;

/// An encoder and its batch.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EncoderWorkload {
    /// BERT base: 12 layers, d_model 768; 32 rows of 128 tokens
    Encoder,
    /// MiniLM: 6 layers, d_model 384; 32 rows of 64 tokens
    Minilm,
}

impl EncoderWorkload {
    /// The preset, its name in the output, and the length of a row.
    fn sizes(self) -> (&'static str, &'static str, usize) {
        match self {
            Self::Encoder => ("base", "encoder", 128),
            Self::Minilm => ("minilm", "minilm", 64),
        }
    }
}

/// Options of `polyhead bench run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchRun {
    /// The model and the length of its rows
    #[arg(long, value_enum, default_value_t = EncoderWorkload::Minilm)]
    workload: EncoderWorkload,
    /// Rows of a batch
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = positive)]
    batch: usize,
    /// Passes of a timed run
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = positive)]
    passes: usize,
    /// Number of timed runs, after a warm-up run
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    repeats: usize,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = device_name, help_heading = "Compute",
          help = DEVICE)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// A line of output.
#[derive(Serialize)]
struct RunMeasurement {
    bench: &'static str,
    workload: &'static str,
    batch: usize,
    length: usize,
    sequences_per_s_median: f64,
    sequences_per_s_best: f64,
    tokens_per_s_median: f64,
    tokens_per_s_best: f64,
    peak_memory_bytes: Option<u64>,
    weights_bytes: usize,
    threads: usize,
    dtype: ComputeDtype,
    device: String,
    model: Option<String>,
    /// Milliseconds of a pass by kind of work, on a GPU.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    breakdown: BTreeMap<&'static str, f64>,
}

impl Measurement for RunMeasurement {
    fn text(&self) -> String {
        let Self { workload, batch, length, device, threads, .. } = self;
        let [median, best] =
            [self.sequences_per_s_median, self.sequences_per_s_best].map(|rate| grouped(rate as u64));
        format!(
            "{workload:<8}{batch} × {length:<4} {device:<7} {:<5} {threads:>3} threads  {median:>9} sequences/s (best {best}){}",
            self.dtype.name(),
            memory_text(self.peak_memory_bytes)
        )
    }
}

impl BenchRun {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let (device, dtype) = self.dtype.open(&self.device)?;
            let (preset, workload, length) = self.workload.sizes();
            let (model, parameters) = random_encoder(preset, &device, dtype)?;
            let ids = self.random_ids(&model, length).to_device(&device)?;
            let pass = || {
                let (tape, capture) = (Tape::inference(), Capture::off());
                model.states(&Pass::new(&tape, &parameters, &capture), &ids)
            };
            let mut seconds = self.seconds(&device, pass)?;
            let mut profiled = Ok(());
            let breakdown = device.profile(|| profiled = pass().map(drop))?;
            profiled?;
            seconds.sort_by(f64::total_cmp);
            let rows = (self.batch * self.passes) as f64;
            let [median, best] = [seconds[seconds.len() / 2], seconds[0]].map(|seconds| rows / seconds);
            let measurement = RunMeasurement {
                bench: "run",
                workload,
                batch: self.batch,
                length,
                sequences_per_s_median: median,
                sequences_per_s_best: best,
                tokens_per_s_median: median * length as f64,
                tokens_per_s_best: best * length as f64,
                peak_memory_bytes: device.peak_memory().map(|bytes| bytes as u64).or_else(peak),
                weights_bytes: parameters.bytes(),
                threads: rayon::current_num_threads(),
                dtype: self.dtype,
                device: device.name(),
                model: device.model().map(str::to_owned),
                breakdown: breakdown.into_iter().collect(),
            };
            print(&measurement, self.format)
        })
    }

    /// Seconds of each timed run of `pass`.
    fn seconds<T>(
        &self,
        device: &Device,
        mut pass: impl FnMut() -> polyhead_models::Result<T>,
    ) -> Result<Vec<f64>> {
        let (mut repeated, mut seconds) = (Repeated::default(), Vec::new());
        for run in 0..=self.repeats {
            let start = Instant::now();
            for _ in 0..self.passes {
                repeated.run(device, &mut pass, |_| ())?;
            }
            device.synchronize()?;
            if run > 0 {
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(seconds)
    }

    fn random_ids(&self, model: &Encoder, length: usize) -> Ids {
        let row = |row: usize| -> Vec<u32> {
            let random = Random::new(1).stream(row as u64);
            (0..length as u64).map(|at| random.below(model.vocab_size(), at) as u32).collect()
        };
        let rows: Vec<Vec<u32>> = (0..self.batch).map(row).collect();
        model.ids(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

/// An encoder with random weights on the device. Its head, scores of one class, is not computed.
fn random_encoder(preset: &str, device: &Device, dtype: Dtype) -> Result<(Encoder, Parameters)> {
    let keys = json!({ "model_type": "bert", "preset": preset });
    let data = DataSpec { vocab_sizes: [VOCAB_SIZE; 2], labels: vec!["class".into()], ..DataSpec::default() };
    let config = ModelConfig::from_recipe(keys.as_object().expect("an object"))?.with_data(&data)?;
    let mut parameters = Parameters::default();
    let model = Encoder::new(config, &mut parameters)?;
    parameters.initialise(7);
    if !device.policy().packs_weights {
        return Ok((model, parameters.to_device(device)?));
    }
    parameters.prepare(dtype);
    Ok((model, parameters))
}
