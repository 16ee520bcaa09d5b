//! Log-mel frames of a batch as integer lists, so that a GPU can record a training step for each shape.
//!
//! Numbers travel as the bits of f32. The stem gathers the three inputs of each output of a convolution by index; an index
//! outside of a sound is that of a row of zeros, so that padding never changes a sound.

use polyhead_attention::position::Sinusoidal;
use polyhead_tensor::{Device, Indices, Result, Tensor};

/// Inputs of one output of a convolution.
pub(super) const TAPS: usize = 3;

/// Log-mel frames of a batch, padded to one length.
#[derive(Debug, Clone)]
pub struct Frames {
    /// (rows × length + 1) × n_mels, the bits of f32; the last row is zero.
    features: Indices,
    /// rows × length × 3: the inputs of each output of the first convolution.
    first: Indices,
    /// rows × positions × 3: those of the second, whose stride is 2.
    second: Indices,
    /// d_model zeros, the bits of f32.
    zeros: Indices,
    /// positions × d_model: the sinusoids of the positions, the bits of f32; zeros for a model with learned positions.
    sinusoids: Indices,
    /// Number of positions of each row after the stem.
    lengths: Indices,
    rows: usize,
    length: usize,
}

impl Frames {
    /// Pads rows of frames (each flat, n_mels numbers a frame) to `length` frames; `None` is a padding row.
    ///
    /// # Panics
    /// If a row has more than `length` frames, or not a multiple of n_mels numbers.
    pub(super) fn new<'a>(
        rows: impl Iterator<Item = Option<&'a [f32]>>,
        length: usize,
        (n_mels, d_model, sinusoidal): (usize, usize, Option<Sinusoidal>),
    ) -> Self {
        let (mut features, mut counts) = (Vec::new(), Vec::new());
        for (index, row) in rows.map(Option::unwrap_or_default).enumerate() {
            let count = row.len() / n_mels;
            assert!(count <= length && row.len() == count * n_mels, "{} numbers", row.len());
            features.extend(row.iter().map(|number| number.to_bits()));
            features.resize((index + 1) * length * n_mels, 0);
            counts.push(count);
        }
        features.resize(features.len() + n_mels, 0);
        let (rows, positions) = (counts.len(), length.div_ceil(2));
        let zero = (rows * length) as u32;
        let taps = |outputs: usize, stride: usize| -> Indices {
            let mut indices = Vec::with_capacity(rows * outputs * TAPS);
            for (row, &count) in counts.iter().enumerate() {
                for output in 0..outputs {
                    let exists = output * stride < count;
                    indices.extend((0..TAPS).map(|tap| match (output * stride + tap).checked_sub(1) {
                        Some(frame) if exists && frame < count => (row * length + frame) as u32,
                        _ => zero,
                    }));
                }
            }
            indices.into()
        };
        Self {
            first: taps(length, 1),
            second: taps(positions, 2),
            features: features.into(),
            zeros: vec![0; d_model].into(),
            sinusoids: match sinusoidal {
                Some(table) => {
                    let table = table.rows(0, positions, d_model);
                    table.data().iter().map(|number| number.to_bits()).collect()
                }
                None => vec![0; d_model].into(),
            },
            lengths: counts.iter().map(|count| count.div_ceil(2) as u32).collect(),
            rows,
            length,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of frames of a row, padding included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of positions of a row after the stem, padding included.
    pub(super) fn positions(&self) -> usize {
        self.length.div_ceil(2)
    }

    /// Number of positions of each row after the stem.
    pub fn lengths(&self) -> &Indices {
        &self.lengths
    }

    /// All its integer lists.
    pub fn lists(&self) -> [&Indices; 6] {
        [&self.features, &self.first, &self.second, &self.zeros, &self.sinusoids, &self.lengths]
    }

    /// A batch of the same shape with other lists, which may be on a GPU.
    #[must_use]
    pub fn with(&self, [features, first, second, zeros, sinusoids, lengths]: [Indices; 6]) -> Self {
        Self { features, first, second, zeros, sinusoids, lengths, ..*self }
    }

    /// The batch on `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let lists = self.lists().map(|list| list.to_device(device));
        let [features, first, second, zeros, sinusoids, lengths] = lists;
        Ok(self.with([features?, first?, second?, zeros?, sinusoids?, lengths?]))
    }

    /// (rows × length + 1) × n_mels; the last row is zero.
    pub(super) fn features(&self) -> Tensor {
        let rows = self.rows * self.length + 1;
        Tensor::from_bits(&[rows, self.features.len() / rows], &self.features)
    }

    /// The inputs of each output of the first convolution.
    pub(super) fn first(&self) -> &Indices {
        &self.first
    }

    /// The inputs of each output of the second convolution.
    pub(super) fn second(&self) -> &Indices {
        &self.second
    }

    /// positions × d_model: the sinusoids of the positions.
    pub(super) fn sinusoids(&self) -> Tensor {
        Tensor::from_bits(&[self.positions(), self.zeros.len()], &self.sinusoids)
    }

    /// 1 × d_model zeros.
    pub(super) fn zeros(&self) -> Tensor {
        Tensor::from_bits(&[1, self.zeros.len()], &self.zeros)
    }
}
