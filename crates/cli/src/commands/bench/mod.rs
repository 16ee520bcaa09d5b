//! `polyhead bench`: how fast the machine runs the parts, one JSON line for each measurement.

mod attention;
mod gemm;
mod ops;
mod train;
mod translate;

use anyhow::Result;
use clap::Subcommand;

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
