//! `polyhead bench`: how fast the machine runs the parts, one JSON line for each measurement.

mod attention;
mod gemm;
mod ops;
mod train;
mod translate;

use anyhow::Result;
use clap::Subcommand;
use polyhead_random::Random;
use polyhead_tensor::Tensor;

/// The benches.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Full, windowed and global attention by length: time and memory
    Attention(attention::Attention),
    /// Matrix products of the training workloads next to the machine's peak
    Gemm(gemm::Gemm),
    /// Single operations, forward and back, and long attention next to its products alone
    Ops(ops::Ops),
    /// One training step of an encoder-decoder Transformer, in target tokens a second
    Train(train::Train),
    /// Decoding with random weights, in target tokens a second
    Translate(translate::Translate),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Attention(attention) => attention.run(),
            Self::Gemm(gemm) => gemm.run(),
            Self::Ops(ops) => ops.run(),
            Self::Train(train) => train.run(),
            Self::Translate(translate) => translate.run(),
        }
    }
}

/// Numbers from −½ to ½, others for each stream.
fn random(shape: &[usize], stream: u64) -> Tensor {
    let random = Random::new(3).stream(stream);
    let len = shape.iter().product::<usize>() as u64;
    Tensor::new(shape, (0..len).map(|index| random.uniform(index) as f32 - 0.5).collect())
}
