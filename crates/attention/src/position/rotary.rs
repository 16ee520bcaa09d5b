//! Rotary positions (Su et al. 2021): queries and keys are rotated by angles proportional to their positions, so that their
//! dot product depends on the distance alone.
//!
//! ```
//! use polyhead_attention::position::Rotary;
//! use polyhead_tensor::ops::rotary::RotaryOptions;
//! use polyhead_tensor::{Tape, Tensor, Var};
//! let rotary = Rotary::new(2, 16, RotaryOptions::default())?;
//! let x = Var::constant(Tensor::new(&[1, 1, 2], vec![1.0, 0.0]));
//! let rotated = rotary.rotate(&Tape::inference(), &x, 3)?; // position 3: by 3 radians
//! assert!((rotated.value().data()[0] - 3_f32.cos()).abs() < 1e-6);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::rotary::{RotaryOptions, RotaryTable, rotary};
use polyhead_tensor::{Result, Tape, Var};

/// The rotation of every position.
#[derive(Debug, Clone)]
pub struct Rotary {
    table: RotaryTable,
    d_key: usize,
}

impl Rotary {
    /// Rotations for heads of width `d_key` at up to `max_len` positions.
    ///
    /// # Errors
    /// If `d_key` is odd.
    pub fn new(d_key: usize, max_len: usize, options: RotaryOptions) -> Result<Self> {
        Ok(Self { table: RotaryTable::new(d_key, max_len, options)?, d_key })
    }

    /// The table of sines and cosines.
    pub fn table(&self) -> &RotaryTable {
        &self.table
    }

    /// Rotates x (batch × length × (n_heads·d_key)), whose first token is at position `start`.
    ///
    /// # Errors
    /// If the table has too few positions.
    pub fn rotate(&self, tape: &Tape, x: &Var, start: usize) -> Result<Var> {
        let &[batch, length, width] = x.shape() else {
            return rotary(tape, x, &self.table, start);
        };
        let heads = x.reshaped(&[batch, length, width / self.d_key, self.d_key]);
        Ok(rotary(tape, &heads, &self.table, start)?.reshaped(&[batch, length, width]))
    }
}
