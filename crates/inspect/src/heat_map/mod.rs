//! Heat-maps: weights as colours, tokens beside and above them. [`svg`] draws them for paper, [`terminal`] for a terminal.

pub mod colour;
pub mod svg;
pub mod terminal;

use crate::matrix::Matrix;

/// One map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeatMap {
    /// What it shows; empty by default.
    pub title: String,
    /// Its numbers; none by default.
    pub numbers: Matrix,
    /// A label for each row; none by default.
    pub rows: Vec<String>,
    /// A label for each column; none by default.
    pub columns: Vec<String>,
    /// How numbers become colours; as weights by default.
    pub range: Range,
}

/// Which numbers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Range {
    /// From 0 to the largest.
    #[default]
    Weights,
    /// From −1 to 1.
    Signed,
    /// 0 for no and 1 for yes.
    Seen,
}

impl HeatMap {
    /// The largest number that a colour stands for.
    fn top(&self) -> f32 {
        match self.range {
            Range::Weights => self.numbers.largest(),
            Range::Signed | Range::Seen => 1.0,
        }
    }

    /// A number as a part of the largest.
    fn part(&self, number: f32) -> f32 {
        let top = self.top();
        if top > 0.0 { number / top } else { 0.0 }
    }

    /// The map with at most `most` rows and columns: each cell the largest of several. How many, across and down.
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
    fn a_coarse_map_keeps_the_largest() {
        let numbers = Matrix::new(3, vec![0.1, 0.7, 0.2, 0.3, 0.4, 0.9, 0.5, 0.0, 0.6]);
        let labels: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        let map = HeatMap { numbers, rows: labels.clone(), columns: labels, ..HeatMap::default() };
        let (coarse, step) = map.coarse(2);
        assert_eq!((coarse.numbers.numbers(), step), (&[0.7, 0.9, 0.5, 0.6][..], 2));
        assert_eq!(coarse.rows, ["a", "c"]);
        assert_eq!(map.coarse(3), (map.clone(), 1));
    }
}
