//! `polyhead bench gemm`: matrix products against the CPU's peak.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_tensor::gemm::{Matrix, MatrixMut, Output, Packed, gemm, gemm_packed};
use polyhead_tensor::isa::Isa;
use polyhead_tensor::peak;
use serde::Serialize;

use super::{Measurement, print};
use crate::option_help::THREADS;
use crate::output_format::LineFormat;
use crate::report::thread_pool;

const EXAMPLES: &str = "\
Examples:
  polyhead bench gemm --threads 2
  POLYHEAD_ISA=avx2 polyhead bench gemm --threads 1 --format jsonl";

/// Options of `polyhead bench gemm`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct BenchGemm {
    /// Number of runs; the best and the median are printed
    #[arg(long, value_name = "N", default_value_t = 10)]
    repeats: usize,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// A product of a training step: its name, [M, N, K], and which operands are transposed.
struct Shape {
    name: &'static str,
    shape: [usize; 3],
    transposed: [bool; 2],
}

const fn shape(name: &'static str, shape: [usize; 3], transposed: [bool; 2]) -> Shape {
    Shape { name, shape, transposed }
}

/// Workload T-small: 64 × 24 tokens, d_model 256, d_ff 1024, vocabulary 8000; and rows of a decoding step at the end.
const SHAPES: &[Shape] = &[
    shape("projection", [1536, 256, 256], [false, false]),
    shape("feed-forward in", [1536, 1024, 256], [false, false]),
    shape("feed-forward out", [1536, 256, 1024], [false, false]),
    shape("logits", [1536, 8000, 256], [false, true]),
    shape("projection, input gradient", [1536, 256, 256], [false, true]),
    shape("feed-forward in, input gradient", [1536, 256, 1024], [false, true]),
    shape("feed-forward out, input gradient", [1536, 1024, 256], [false, true]),
    shape("logits, input gradient", [1536, 256, 8000], [false, false]),
    shape("projection, weight gradient", [256, 256, 1536], [true, false]),
    shape("feed-forward in, weight gradient", [256, 1024, 1536], [true, false]),
    shape("feed-forward out, weight gradient", [1024, 256, 1536], [true, false]),
    shape("logits, weight gradient", [8000, 256, 1536], [true, false]),
    shape("square", [2048, 2048, 2048], [false, false]),
    shape("one row", [1, 2048, 512], [false, false]),
    shape("four rows", [4, 2048, 512], [false, false]),
];

/// A line of output.
#[derive(Serialize)]
struct GemmMeasurement {
    bench: &'static str,
    name: &'static str,
    m: usize,
    n: usize,
    k: usize,
    dtype: &'static str,
    isa: &'static str,
    threads: usize,
    gflops_best: f64,
    gflops_median: f64,
    /// With B packed beforehand, as for constant weights.
    gflops_packed_best: f64,
    gflops_peak: f64,
    share_of_peak: f64,
}

impl Measurement for GemmMeasurement {
    fn text(&self) -> String {
        let Self { name, m, n, k, gflops_best, gflops_median, gflops_packed_best, share_of_peak, .. } = self;
        format!(
            "{name:<34}{m:>5} × {n:>4} × {k:>4}  best {gflops_best:>7.1}  median {gflops_median:>7.1}  \
             packed {gflops_packed_best:>7.1} GFLOP/s  {:>5.1} % of peak",
            100.0 * share_of_peak
        )
    }
}

impl BenchGemm {
    pub(crate) fn run(self) -> Result<()> {
        let pool = thread_pool(self.threads)?;
        pool.install(|| {
            let isa = Isa::best();
            let peak = peak::measure(isa, self.repeats) / 1e9;
            for shape in SHAPES {
                print(&self.measure(shape, peak), self.format)?;
            }
            Ok(())
        })
    }

    fn measure(&self, &Shape { name, shape: [m, n, k], transposed }: &Shape, peak: f64) -> GemmMeasurement {
        let (a, b, mut c) = (vec![0.5; m * k], vec![0.25; k * n], vec![0.0; m * n]);
        let a = if transposed[0] { Matrix::new(&a, k, m).t() } else { Matrix::new(&a, m, k) };
        let b = if transposed[1] { Matrix::new(&b, n, k).t() } else { Matrix::new(&b, k, n) };
        let operations = 2.0 * (m * n * k) as f64 / 1e9;
        let mut times = self.times(|| gemm(&mut MatrixMut::new(&mut c, m, n), a, b, Output::Overwrite));
        times.sort_by(f64::total_cmp);
        let packed = Packed::new(b);
        let packed_times =
            self.times(|| gemm_packed(&mut MatrixMut::new(&mut c, m, n), a, &packed, Output::Overwrite));
        let best = operations / times[0];
        GemmMeasurement {
            bench: "gemm",
            name,
            m,
            n,
            k,
            dtype: "f32",
            isa: Isa::best().name(),
            threads: rayon::current_num_threads(),
            gflops_best: best,
            gflops_median: operations / times[times.len() / 2],
            gflops_packed_best: operations / packed_times.into_iter().fold(f64::INFINITY, f64::min),
            gflops_peak: peak,
            share_of_peak: best / peak,
        }
    }

    /// Seconds of each run, after a warm-up run.
    fn times(&self, mut work: impl FnMut()) -> Vec<f64> {
        work();
        let timed = |_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        };
        (0..self.repeats.max(1)).map(timed).collect()
    }
}
