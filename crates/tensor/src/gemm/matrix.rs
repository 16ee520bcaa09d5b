//! Matrix views: a slice, a shape and two strides, so that a transpose is free.

use std::marker::PhantomData;

/// A read-only matrix.
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
    /// `rows × cols`, row-major.
    ///
    /// # Panics
    /// If `data` is shorter.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Self {
        Self::strided(data, [rows, cols], [cols, 1])
    }

    /// `shape` = [rows, cols] with the strides between neighbouring rows and columns.
    ///
    /// # Panics
    /// If an element lies outside `data`.
    pub fn strided(data: &'a [f32], [rows, cols]: [usize; 2], [row_stride, col_stride]: [usize; 2]) -> Self {
        let last = rows.saturating_sub(1) * row_stride + cols.saturating_sub(1) * col_stride;
        assert!(
            rows * cols == 0 || last < data.len(),
            "a {rows}×{cols} matrix needs {} values, found {}",
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

    /// The elements from (`row`, `col`) and the stride between columns, if each column is contiguous.
    pub(super) fn columns_from(self, row: usize, col: usize) -> Option<(&'a [f32], usize)> {
        let start = row + col * self.col_stride;
        (self.row_stride == 1 && self.col_stride > 0).then(|| (&self.data[start..], self.col_stride))
    }

    /// `len` elements of `row` from `col`, if rows are contiguous.
    pub(super) fn row_slice(self, row: usize, col: usize, len: usize) -> Option<&'a [f32]> {
        let start = row * self.row_stride + col;
        (self.col_stride == 1).then(|| &self.data[start..start + len])
    }
}

/// A writable matrix, row-major.
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
    /// `rows × cols`, row-major.
    ///
    /// # Panics
    /// If `data` is shorter.
    pub fn new(data: &'a mut [f32], rows: usize, cols: usize) -> Self {
        assert!(
            rows * cols <= data.len(),
            "a {rows}×{cols} matrix needs {} values, found {}",
            rows * cols,
            data.len()
        );
        Self { data: data.as_mut_ptr(), rows, cols, row_stride: cols, borrow: PhantomData }
    }

    /// `shape` = [rows, cols] at an address, with the stride between rows.
    ///
    /// # Safety
    /// Every element is writable, rows do not overlap, and nobody else accesses them for the lifetime of the view.
    pub(crate) unsafe fn from_raw(data: *mut f32, [rows, cols]: [usize; 2], row_stride: usize) -> Self {
        Self { data, rows, cols, row_stride, borrow: PhantomData }
    }

    /// Sets every element.
    pub fn fill(&mut self, value: f32) {
        (0..self.rows).for_each(|row| self.row_mut(row).fill(value));
    }

    /// # Panics
    /// If there is no such row.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: the row lies inside the matrix, which is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(row * self.row_stride), self.cols) }
    }

    /// A handle through which several threads may write, each its own elements.
    pub(super) fn shared(&mut self) -> Shared {
        Shared { data: self.data, row_stride: self.row_stride }
    }
}

/// Address of C for tasks that write disjoint parts of it.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    data: *mut f32,
    pub(super) row_stride: usize,
}

// SAFETY: tasks write disjoint elements, and the exclusive borrow of C outlives them.
unsafe impl Send for Shared {}
// SAFETY: as for Send: shared use only hands out addresses of disjoint elements.
unsafe impl Sync for Shared {}

impl Shared {
    /// Address of an element.
    ///
    /// # Safety
    /// The element lies inside the matrix.
    pub(super) unsafe fn at(self, row: usize, col: usize) -> *mut f32 {
        // SAFETY: the caller guarantees that the element lies inside the matrix.
        unsafe { self.data.add(row * self.row_stride + col) }
    }
}
