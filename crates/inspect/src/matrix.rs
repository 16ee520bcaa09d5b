//! A table of numbers: one head's weights, row i for query i, column j for key j.

/// Numbers in rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix {
    n_columns: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    /// Rows of `n_columns` numbers, one after the other.
    ///
    /// # Panics
    /// If the last row is not full.
    pub fn new(n_columns: usize, numbers: Vec<f32>) -> Self {
        assert!(n_columns > 0 && numbers.len().is_multiple_of(n_columns), "rows are full");
        Self { n_columns, numbers }
    }

    /// Zeros.
    pub fn zeros(n_rows: usize, n_columns: usize) -> Self {
        Self::new(n_columns, vec![0.0; n_rows * n_columns])
    }

    /// How many rows.
    pub fn n_rows(&self) -> usize {
        self.numbers.len() / self.n_columns.max(1)
    }

    /// How many columns.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// All numbers, row after row.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.n_columns..][..self.n_columns]
    }

    /// One row, to be changed.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.numbers[row * self.n_columns..][..self.n_columns]
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.n_columns.max(1))
    }

    /// The largest number; 0 of none.
    pub fn largest(&self) -> f32 {
        self.numbers.iter().copied().fold(0.0, f32::max)
    }

    /// a·self + b·other.
    #[must_use]
    pub fn mixed(&self, a: f32, other: &Self, b: f32) -> Self {
        let pairs = self.numbers.iter().zip(&other.numbers);
        Self { n_columns: self.n_columns, numbers: pairs.map(|(x, y)| a * x + b * y).collect() }
    }

    /// self·other, with the rows of `other` as many as our columns.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        let mut product = Self::zeros(self.n_rows(), other.n_columns);
        for (out, row) in product.numbers.chunks_exact_mut(other.n_columns).zip(self.rows()) {
            for (weight, theirs) in row.iter().zip(other.rows()).filter(|(weight, _)| **weight != 0.0) {
                out.iter_mut().zip(theirs).for_each(|(sum, number)| *sum += weight * number);
            }
        }
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_textbook() {
        let a = Matrix::new(2, vec![1.0, 2.0, 0.0, 4.0]);
        let b = Matrix::new(3, vec![1.0, 0.0, 2.0, 3.0, 1.0, 0.0]);
        assert_eq!(a.times(&b), Matrix::new(3, vec![7.0, 2.0, 2.0, 12.0, 4.0, 0.0]));
        assert_eq!(a.mixed(0.5, &a, 0.5), a);
        assert_eq!((b.n_rows(), b.n_columns(), b.largest(), b.row(1)), (2, 3, 3.0, &[3.0, 1.0, 0.0][..]));
    }
}
