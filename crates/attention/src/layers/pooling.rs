//! Pooling, one vector for a whole sequence: rows × length × d_model → rows × d_model.
//!
//! First: the state of the first position, as for BERT's class token (Devlin et al. 2019). Mean: the mean over a row's
//! tokens, as in Sentence-BERT (Reimers & Gurevych 2019) and deep averaging networks (Iyyer et al. 2015).
//!
//! ```
//! use polyhead_attention::{Capture, Pass, layers::Pooling};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let (tape, capture, parameters) = (Tape::inference(), Capture::off(), Parameters::default());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let x = Var::constant(Tensor::new(&[1, 3, 2], vec![1.0, 2.0, 3.0, 6.0, 9.0, 9.0]));
//! let pooled = |pooling: Pooling| pooling.forward(&pass, &x, &[2].into());
//! assert_eq!(pooled(Pooling::First)?.value().data(), [1.0, 2.0]);
//! assert_eq!(pooled(Pooling::Mean)?.value().data(), [2.0, 4.0]); // the third token is padding
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::attention::{AttentionOptions, attention};
use polyhead_tensor::ops::elementwise::scale;
use polyhead_tensor::ops::shape::slice;
use polyhead_tensor::{Indices, Result, Var};

use crate::pass::Pass;

/// The largest head width used to compute the mean.
const MAX_HEAD_WIDTH: usize = 64;

/// The reduction of a sequence to one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooling {
    /// The state of the first position.
    #[default]
    First,
    /// The mean over the positions that are not padding.
    Mean,
}

impl Pooling {
    /// Pools x (rows × length × d_model) over each row's `lengths` tokens → rows × d_model.
    ///
    /// # Errors
    /// If x does not have three axes.
    pub fn forward(self, pass: &Pass<'_>, x: &Var, lengths: &Indices) -> Result<Var> {
        let (rows, width) = (x.shape()[0], x.shape()[2]);
        let first = slice(pass.tape, x, 1, 0..1)?;
        let pooled = match self {
            Self::First => first,
            Self::Mean => {
                // A query of zeros gives all keys the same score, so attention returns their mean, padding masked.
                let zeros = scale(pass.tape, &first, 0.0);
                let n_heads = (1..=width)
                    .find(|n| width.is_multiple_of(*n) && width / n <= MAX_HEAD_WIDTH)
                    .unwrap_or(1);
                let key_lengths = Some(lengths.clone());
                let options = AttentionOptions { n_heads, key_lengths, ..AttentionOptions::default() };
                attention(pass.tape, &zeros, x, x, &options)?
            }
        };
        Ok(pooled.reshaped(&[rows, width]))
    }
}
