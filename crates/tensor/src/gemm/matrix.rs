//! Views of matrices: a slice, a shape and two strides, so that a transpose is free.

use std::marker::PhantomData;

/// A matrix to read.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows × cols`, row after row.
    ///
    /// # Panics
    /// If `data` is shorter.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Self {
        Self::strided(data, [rows, cols], [cols, 1])
    }

    /// `shape` = [rows, cols] with the distances between neighbours in each direction.
    ///
    /// # Panics
    /// If an element lies outside `data`.
    pub fn strided(data: &'a [f32], [rows, cols]: [usize; 2], [row_stride, col_stride]: [usize; 2]) -> Self {
        let last = rows.saturating_sub(1) * row_stride + cols.saturating_sub(1) * col_stride;
        assert!(
            rows * cols == 0 || last < data.len(),
            "a {rows}×{cols} matrix needs {} numbers, found {}",
            last + 1,
            data.len()
        );
        Self { data, rows, cols, row_stride, col_stride }
    }

    /// The transpose.
    #[must_use]
    pub fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// One element.
    pub fn get(self, row: usize, col: usize) -> f32 {
        self.data[row * self.row_stride + col * self.col_stride]
    }

    /// The elements from (`row`, `col`) on and the distance between columns, if rows lie side by side in each column.
    pub(super) fn columns_from(self, row: usize, col: usize) -> Option<(&'a [f32], usize)> {
        let start = row + col * self.col_stride;
        (self.row_stride == 1 && self.col_stride > 0).then(|| (&self.data[start..], self.col_stride))
    }

    /// `len` elements of `row` from `col` on, if they lie side by side.
    pub(super) fn row_slice(self, row: usize, col: usize, len: usize) -> Option<&'a [f32]> {
        let start = row * self.row_stride + col;
        (self.col_stride == 1).then(|| &self.data[start..start + len])
    }
}

/// A matrix to write, row after row.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    data: *mut f32,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    row_stride: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

impl<'a> MatrixMut<'a> {
    /// `rows × cols`, row after row.
    ///
    /// # Panics
    /// If `data` is shorter.
    pub fn new(data: &'a mut [f32], rows: usize, cols: usize) -> Self {
        assert!(
            rows * cols <= data.len(),
            "a {rows}×{cols} matrix needs {} numbers, found {}",
            rows * cols,
            data.len()
        );
        Self { data: data.as_mut_ptr(), rows, cols, row_stride: cols, borrow: PhantomData }
    }

    /// `shape` = [rows, cols] at an address, with the distance between neighbouring rows.
    ///
    /// # Safety
    /// Every element can be written, rows do not overlap, and nobody else touches them for as long as this lives.
    pub(crate) unsafe fn from_raw(data: *mut f32, [rows, cols]: [usize; 2], row_stride: usize) -> Self {
        Self { data, rows, cols, row_stride, borrow: PhantomData }
    }

    /// Sets every element.
    pub fn fill(&mut self, value: f32) {
        for row in 0..self.rows {
            // SAFETY: the row lies inside the matrix.
            unsafe { std::slice::from_raw_parts_mut(self.data.add(row * self.row_stride), self.cols) }
                .fill(value);
        }
    }

    /// A handle that several threads may write through, each its own elements.
    pub(super) fn shared(&mut self) -> Shared {
        Shared { data: self.data, row_stride: self.row_stride }
    }
}

/// The address of C for tasks that write disjoint parts of it.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    data: *mut f32,
    pub(super) row_stride: usize,
}

// SAFETY: tasks write disjoint elements, and the exclusive borrow of C lasts until all have ended.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The address of an element.
    ///
    /// # Safety
    /// The element lies inside the matrix.
    pub(super) unsafe fn at(self, row: usize, col: usize) -> *mut f32 {
        // SAFETY: promised by the caller.
        unsafe { self.data.add(row * self.row_stride + col) }
    }
}
