//! A matrix: the weights of one head, row i for query i, column j for key j.

/// An f32 matrix, row-major.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix {
    n_columns: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    /// A matrix from row-major numbers.
    ///
    /// # Panics
    /// If the last row is incomplete.
    pub fn new(n_columns: usize, numbers: Vec<f32>) -> Self {
        assert!(n_columns > 0 && numbers.len().is_multiple_of(n_columns), "rows are full");
        Self { n_columns, numbers }
    }

    /// A matrix of zeros.
    pub fn zeros(n_rows: usize, n_columns: usize) -> Self {
        Self::new(n_columns, vec![0.0; n_rows * n_columns])
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.numbers.len() / self.n_columns.max(1)
    }

    /// Number of columns.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// All numbers, row-major.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.n_columns..][..self.n_columns]
    }

    /// One row, mutable.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.numbers[row * self.n_columns..][..self.n_columns]
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.n_columns.max(1))
    }

    /// The largest number, at least 0.
    pub fn largest(&self) -> f32 {
        self.numbers.iter().copied().fold(0.0, f32::max)
    }

    /// a·self + b·other.
    #[must_use]
    pub fn mixed(&self, a: f32, other: &Self, b: f32) -> Self {
        let pairs = self.numbers.iter().zip(&other.numbers);
        Self { n_columns: self.n_columns, numbers: pairs.map(|(x, y)| a * x + b * y).collect() }
    }

    /// Matrix product self·other.
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
    fn products_by_hand() {
        let a = Matrix::new(2, vec![1.0, 2.0, 0.0, 4.0]);
        let b = Matrix::new(3, vec![1.0, 0.0, 2.0, 3.0, 1.0, 0.0]);
        assert_eq!(a.times(&b), Matrix::new(3, vec![7.0, 2.0, 2.0, 12.0, 4.0, 0.0]));
        assert_eq!(a.mixed(0.5, &a, 0.5), a);
        assert_eq!((b.n_rows(), b.n_columns(), b.largest(), b.row(1)), (2, 3, 3.0, &[3.0, 1.0, 0.0][..]));
    }
}
