//! Points and orders of a batch as integer lists, so that a GPU can record a training step for each shape.
//!
//! Coordinates travel as the bits of f32 numbers. Key 0 of a row is the end of the answer, key k its point k − 1.

use polyhead_tensor::{Device, Indices, Result, Tensor};

/// The target of a padding position; the loss ignores it.
pub const NO_POINT: u32 = u32::MAX;

/// Points of a batch, padded to one length.
#[derive(Debug, Clone)]
pub struct Points {
    /// rows × length × d_point, the bits of f32; scaled.
    coordinates: Indices,
    /// rows × (1 + length), the bits of f32: 0 for the end and for points, −∞ for padding.
    mask: Indices,
    /// Number of points of each row.
    lengths: Indices,
    /// A 0 for each row: the id of a vector that all rows share.
    shared: Indices,
    rows: usize,
    length: usize,
    d_point: usize,
}

impl Points {
    /// Pads rows of scaled coordinates to `length` points; a row without points is padding.
    ///
    /// # Panics
    /// If a row has more than `length` points, or not a multiple of `d_point` numbers.
    pub(super) fn new(rows: &[Vec<f32>], length: usize, d_point: usize) -> Self {
        let (mut coordinates, mut mask, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for (index, row) in rows.iter().enumerate() {
            let count = row.len() / d_point;
            assert!(count <= length && row.len() == count * d_point, "{} numbers", row.len());
            coordinates.extend(row.iter().map(|number| number.to_bits()));
            coordinates.resize((index + 1) * length * d_point, 0);
            mask.extend(std::iter::repeat_n(0, 1 + count));
            mask.resize((index + 1) * (1 + length), f32::NEG_INFINITY.to_bits());
            lengths.push(count as u32);
        }
        let [coordinates, mask, lengths, shared] =
            [coordinates, mask, lengths, vec![0; rows.len()]].map(Indices::from);
        Self { coordinates, mask, lengths, shared, rows: rows.len(), length, d_point }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of points of a row, padding included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// All its integer lists.
    pub fn lists(&self) -> [&Indices; 4] {
        [&self.coordinates, &self.mask, &self.lengths, &self.shared]
    }

    /// A batch of the same shape with other lists, which may be on a GPU.
    #[must_use]
    pub fn with(&self, [coordinates, mask, lengths, shared]: [Indices; 4]) -> Self {
        Self { coordinates, mask, lengths, shared, ..*self }
    }

    /// The batch on `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let [coordinates, mask, lengths, shared] = self.lists().map(|list| list.to_device(device));
        Ok(self.with([coordinates?, mask?, lengths?, shared?]))
    }

    /// rows × length × d_point.
    pub(super) fn coordinates(&self) -> Tensor {
        Tensor::from_bits(&[self.rows, self.length, self.d_point], &self.coordinates)
    }

    /// rows × (1 + length): 0 for keys, −∞ for padding.
    pub(super) fn mask(&self) -> Tensor {
        Tensor::from_bits(&[self.rows, 1 + self.length], &self.mask)
    }

    /// Number of points of each row.
    pub(super) fn lengths(&self) -> &Indices {
        &self.lengths
    }

    /// A 0 for each row.
    pub(super) fn shared(&self) -> &Indices {
        &self.shared
    }
}

/// Orders of a batch, padded to one length: what the decoder reads, and what it must point to.
#[derive(Debug, Clone)]
pub struct Orders {
    /// rows × length: the place of what the decoder reads among all rows × (1 + points); 0 of a row is the start.
    inputs: Indices,
    /// rows × length: keys; 0 is the end, and [`NO_POINT`] padding.
    targets: Indices,
    /// rows × length: the row of each step.
    rows: Indices,
    length: usize,
}

impl Orders {
    /// Pads orders over rows of `points` points each to `length` steps, the end included; `None` is a padding row.
    ///
    /// # Panics
    /// If an order and its end do not fit.
    pub fn new(rows: &[Option<&[u32]>], points: usize, length: usize) -> Self {
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for (index, row) in rows.iter().enumerate() {
            let start = (index * (1 + points)) as u32;
            let order = row.unwrap_or_default();
            assert!(order.len() < length, "{} points and the end for {length} steps", order.len());
            inputs.push(start);
            inputs.extend(order.iter().map(|point| start + 1 + point));
            inputs.resize((index + 1) * length, start);
            targets.extend(order.iter().map(|point| 1 + point));
            targets.extend(row.map(|_| 0));
            targets.resize((index + 1) * length, NO_POINT);
        }
        let rows = (0..rows.len() * length).map(|step| (step / length) as u32).collect();
        Self { inputs: inputs.into(), targets: targets.into(), rows, length }
    }

    /// One step for each row: the place of what the decoder reads.
    pub(super) fn step(inputs: Vec<u32>) -> Self {
        let rows = (0..inputs.len() as u32).collect();
        Self { inputs: inputs.into(), targets: Vec::new().into(), rows, length: 1 }
    }

    /// Number of steps of a row, padding included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// All its integer lists.
    pub fn lists(&self) -> [&Indices; 3] {
        [&self.inputs, &self.targets, &self.rows]
    }

    /// A batch of the same shape with other lists, which may be on a GPU.
    #[must_use]
    pub fn with(&self, [inputs, targets, rows]: [Indices; 3]) -> Self {
        Self { inputs, targets, rows, ..*self }
    }

    /// The batch on `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        let [inputs, targets, rows] = self.lists().map(|list| list.to_device(device));
        Ok(self.with([inputs?, targets?, rows?]))
    }

    /// What the decoder reads.
    pub(super) fn inputs(&self) -> &Indices {
        &self.inputs
    }

    /// What it must point to.
    pub(super) fn targets(&self) -> &Indices {
        &self.targets
    }

    /// The row of each step.
    pub(super) fn rows(&self) -> &Indices {
        &self.rows
    }
}
