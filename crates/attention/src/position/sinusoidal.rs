//! Sinusoidal positions (Vaswani et al. 2017, section 3.5): sin and cos of p / 10000^(2j/d_model) for j < d_model/2.
//!
//! Three layouts are in use. The paper interleaves sines and cosines; Marian and Hugging Face put all sines first;
//! fairseq and Tensor2Tensor do so too but divide by d_model/2 − 1 in the exponent, and fairseq's first token is at
//! position padding id + 1.
//!
//! ```
//! use polyhead_attention::position::{SinusoidLayout, Sinusoidal};
//! let table = Sinusoidal { layout: SinusoidLayout::Interleaved, first: 0 }.table(2, 4);
//! assert_eq!(table.data()[..4], [0.0, 1.0, 0.0, 1.0]);
//! let expected = [1_f32.sin(), 1_f32.cos(), 0.01_f32.sin(), 0.01_f32.cos()];
//! assert!(table.data()[4..].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6));
//! ```

use polyhead_tensor::Tensor;
use polyhead_tensor::elementary::{power, sin_cos};

/// The order of sines and cosines, and their frequencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SinusoidLayout {
    /// sin, cos, sin, cos, …
    Interleaved,
    /// All sines, then all cosines.
    #[default]
    Concatenated,
    /// Same as concatenated, with d_model/2 − 1 in the exponent.
    Fairseq,
}

/// Sinusoidal position vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sinusoidal {
    /// The layout; default: all sines first.
    pub layout: SinusoidLayout,
    /// The position of the first token; default: 0.
    pub first: usize,
}

impl Sinusoidal {
    /// The table of positions, `len` × d_model.
    pub fn table(self, len: usize, d_model: usize) -> Tensor {
        self.rows(0, len, d_model)
    }

    /// The rows of tokens `start..start + len`. An odd d_model has one more sine than cosines.
    pub fn rows(self, start: usize, len: usize, d_model: usize) -> Tensor {
        let mut table = Tensor::zeros(&[len, d_model]);
        let frequencies = self.frequencies(d_model);
        let n_sines = d_model.div_ceil(2);
        for (index, row) in table.data_mut().chunks_exact_mut(d_model.max(1)).enumerate() {
            let position = (self.first + start + index) as f64;
            for (pair, frequency) in frequencies.iter().enumerate() {
                let [sin, cos] = sin_cos(position * frequency).map(|value| value as f32);
                let columns = match self.layout {
                    SinusoidLayout::Interleaved => [2 * pair, 2 * pair + 1],
                    SinusoidLayout::Concatenated => [pair, n_sines + pair],
                    SinusoidLayout::Fairseq => [pair, d_model / 2 + pair],
                };
                for (column, value) in columns.into_iter().zip([sin, cos]) {
                    if let Some(out) = row.get_mut(column) {
                        *out = value;
                    }
                }
            }
        }
        table
    }

    /// The angular frequency of each pair, in radians per position.
    fn frequencies(self, d_model: usize) -> Vec<f64> {
        let half = d_model as f64 / 2.0;
        let (count, divisor) = match self.layout {
            SinusoidLayout::Fairseq => (d_model / 2, (half.floor() - 1.0).max(1.0)),
            SinusoidLayout::Interleaved | SinusoidLayout::Concatenated => (d_model.div_ceil(2), half),
        };
        (0..count).map(|pair| power(10_000.0, -(pair as f64) / divisor)).collect()
    }
}
