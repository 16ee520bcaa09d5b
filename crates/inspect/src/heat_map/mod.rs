//! Heat-maps: weights as colours, with token labels. [`svg`] draws SVG, [`terminal`] text.

pub mod svg;
pub mod terminal;

use crate::matrix::Matrix;

/// One heat-map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeatMap {
    /// Title; default: empty.
    pub title: String,
    /// Values; default: none.
    pub numbers: Matrix,
    /// Row labels; default: none.
    pub rows: Vec<String>,
    /// Column labels; default: none.
    pub columns: Vec<String>,
    /// Range of the colour scale; default: weights.
    pub range: ValueRange,
}

/// Range of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueRange {
    /// 0 to the largest value.
    #[default]
    Weights,
    /// −1 to 1.
    Signed,
    /// 0 (masked) or 1 (may attend).
    Mask,
}

impl HeatMap {
    /// Upper end of the colour scale.
    fn top(&self) -> f32 {
        match self.range {
            ValueRange::Weights => self.numbers.largest(),
            ValueRange::Signed | ValueRange::Mask => 1.0,
        }
    }

    /// A value as a fraction of the largest.
    fn part(&self, number: f32) -> f32 {
        let top = self.top();
        if top > 0.0 { number / top } else { 0.0 }
    }

    /// The map downsampled to at most `most` rows and columns by max-pooling, and the size of the pooling window.
    fn coarse(&self, most: usize) -> (Self, usize) {
        let longest = self.numbers.n_rows().max(self.numbers.n_columns());
        let step = longest.div_ceil(most.max(1)).max(1);
        if step == 1 {
            return (self.clone(), 1);
        }
        let [n_rows, n_columns] =
            [self.numbers.n_rows(), self.numbers.n_columns()].map(|length| length.div_ceil(step));
        let mut numbers = Matrix::zeros(n_rows, n_columns);
        for (row, own) in self.numbers.rows().enumerate() {
            for (cell, part) in numbers.row_mut(row / step).iter_mut().zip(own.chunks(step)) {
                *cell = part.iter().copied().fold(*cell, f32::max);
            }
        }
        let every = |labels: &[String]| labels.iter().step_by(step).cloned().collect();
        let (rows, columns) = (every(&self.rows), every(&self.columns));
        (Self { numbers, rows, columns, ..self.clone() }, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downsampling_keeps_the_largest() {
        let numbers = Matrix::new(3, vec![0.1, 0.7, 0.2, 0.3, 0.4, 0.9, 0.5, 0.0, 0.6]);
        let labels: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        let map = HeatMap { numbers, rows: labels.clone(), columns: labels, ..HeatMap::default() };
        let (coarse, step) = map.coarse(2);
        assert_eq!((coarse.numbers.numbers(), step), (&[0.7, 0.9, 0.5, 0.6][..], 2));
        assert_eq!(coarse.rows, ["a", "c"]);
        assert_eq!(map.coarse(3), (map.clone(), 1));
    }
}
