//! The speed of attention on a GPU: each set of kernels in turn, so that a run compares them.

use std::time::Instant;

use anyhow::Result;
use polyhead_tensor::ops::attention::{AttentionKernels, AttentionOptions, Direction, attention};
use polyhead_tensor::{Device, StepKey, Tape, Tensor};
use serde::Serialize;

use super::super::{Measurement, print, random};
use super::BenchAttention;

const LENGTHS: [usize; 5] = [512, 1024, 2048, 4096, 8192];

const N_HEADS: usize = 8;

/// Tokens of a batch; longer sequences are a batch of one.
const TOKENS: usize = 32_768;

/// Runs before the time is taken, which compile the kernels.
const WARM_UP: usize = 3;
/// Runs per measurement of time.
const RUNS: usize = 10;

/// A line of output.
#[derive(Serialize)]
struct GpuMeasurement {
    bench: &'static str,
    device: String,
    model: Option<String>,
    kernels: &'static str,
    length: usize,
    batch: usize,
    d_head: usize,
    causal: bool,
    dropout: f32,
    forward_ms: f64,
    forward_and_back_ms: f64,
    tflops: f64,
}

impl Measurement for GpuMeasurement {
    fn text(&self) -> String {
        let Self { kernels, length, forward_ms, forward_and_back_ms, tflops, .. } = self;
        let mask = if self.causal { "causal" } else { "full" };
        format!(
            "{kernels:<8} length {length:>5} {mask:<6}  forward {forward_ms:>8.3} ms  forward + backward \
             {forward_and_back_ms:>8.3} ms  {tflops:>6.1} TFLOP/s"
        )
    }
}

/// The inputs of an attention and the gradient of its result.
struct Inputs {
    sides: [Tensor; 3],
    gradient: Tensor,
    key: StepKey,
}

impl Inputs {
    fn new(shape: &[usize], device: &Device) -> Result<Self> {
        // Values of variance 1, as those of a normalised layer.
        let make = |stream| {
            let mut values = random(shape, stream);
            values.data_mut().iter_mut().for_each(|value| *value *= 12_f32.sqrt());
            values.to_device(device)
        };
        let sides = [make(0)?, make(1)?, make(2)?];
        Ok(Self { sides, gradient: make(3)?, key: StepKey::new(device) })
    }

    fn run(&self, options: &AttentionOptions, with_backward: bool) -> Result<()> {
        let tape = if with_backward || options.dropout > 0.0 {
            Tape::training_with(&self.key)
        } else {
            Tape::inference()
        };
        let [query, key, value] = self.sides.each_ref().map(|side| tape.input(side.clone()));
        let out = attention(&tape, &query, &key, &value, options)?;
        if with_backward {
            drop(tape.backward_from(&out, &self.gradient));
        }
        Ok(())
    }
}

impl BenchAttention {
    /// Measures every length, mask and set of kernels.
    pub(super) fn on_gpu(&self, device: &Device) -> Result<()> {
        let lengths = self.length.map_or(LENGTHS.to_vec(), |length| vec![length]);
        for length in lengths {
            let batch = (TOKENS / length).max(1);
            let inputs = Inputs::new(&[batch, length, N_HEADS * self.d_head], device)?;
            for direction in [Direction::Both, Direction::Causal] {
                for (kernels, name) in [
                    (AttentionKernels::Untiled, "untiled"),
                    (AttentionKernels::Portable, "portable"),
                    (AttentionKernels::Fastest, "fastest"),
                ] {
                    device.set_attention_kernels(kernels);
                    let options = AttentionOptions {
                        n_heads: N_HEADS,
                        direction,
                        dropout: self.dropout,
                        ..AttentionOptions::default()
                    };
                    let forward_ms = self.time(device, || inputs.run(&options, false))?;
                    let forward_and_back_ms = self.time(device, || inputs.run(&options, true))?;
                    let causal = direction == Direction::Causal;
                    let products = if causal { 3.5 } else { 7.0 };
                    let product = 2.0 * (batch * N_HEADS * length * length * self.d_head) as f64;
                    let measurement = GpuMeasurement {
                        bench: "attention",
                        device: device.name(),
                        model: device.model().map(str::to_owned),
                        kernels: name,
                        length,
                        batch,
                        d_head: self.d_head,
                        causal,
                        dropout: self.dropout,
                        forward_ms,
                        forward_and_back_ms,
                        tflops: products * product / forward_and_back_ms / 1e9,
                    };
                    print(&measurement, self.format)?;
                }
            }
        }
        device.set_attention_kernels(AttentionKernels::Fastest);
        Ok(())
    }

    /// Milliseconds per run, the best of some means.
    fn time(&self, device: &Device, run: impl Fn() -> Result<()>) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..WARM_UP {
            device.scratch(&run)?;
        }
        device.synchronize()?;
        for _ in 0..self.repeats {
            let start = Instant::now();
            for _ in 0..RUNS {
                device.scratch(&run)?;
            }
            device.synchronize()?;
            best = best.min(1e3 * start.elapsed().as_secs_f64() / RUNS as f64);
        }
        Ok(best)
    }
}
