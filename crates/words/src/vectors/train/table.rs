//! A table of rows that threads read together, then change row by row.

use std::cell::UnsafeCell;

/// Numbers of one vector register; rows are padded to whole lanes with zeros.
pub(crate) const WIDTH: usize = 16;

/// Sixteen numbers, aligned to a cache line.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub(crate) struct Lane(pub(crate) [f32; WIDTH]);

impl Lane {
    pub(crate) const ZERO: Self = Self([0.0; WIDTH]);
}

/// Lanes of a row of `dimensions` numbers.
pub(crate) fn lanes_of(dimensions: usize) -> usize {
    dimensions.div_ceil(WIDTH)
}

/// Rows of `lanes` lanes each.
#[derive(Debug)]
pub(crate) struct Table {
    cells: Box<[UnsafeCell<Lane>]>,
    lanes: usize,
}

// SAFETY: shared access is by `row`, which only reads, and by `row_mut`, whose caller promises that no other thread touches
// that row.
unsafe impl Sync for Table {}

impl Table {
    /// `rows` rows of zeros.
    pub(crate) fn zeros(rows: usize, lanes: usize) -> Self {
        Self { cells: (0..rows * lanes).map(|_| UnsafeCell::new(Lane::ZERO)).collect(), lanes }
    }

    /// Lanes of a row.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// The row, to read.
    ///
    /// # Safety
    /// No thread changes the row while the result lives.
    pub(crate) unsafe fn row(&self, row: usize) -> &[Lane] {
        let cells = &self.cells[row * self.lanes..][..self.lanes];
        // SAFETY: `UnsafeCell<Lane>` has the layout of `Lane`; the caller promises that nobody writes.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), self.lanes) }
    }

    /// The row, to change.
    ///
    /// # Safety
    /// No other reference to the row exists while the result lives.
    #[allow(clippy::mut_from_ref)] // the cells are `UnsafeCell`; the caller promises to be alone
    pub(crate) unsafe fn row_mut(&self, row: usize) -> &mut [Lane] {
        let cells = &self.cells[row * self.lanes..][..self.lanes];
        // SAFETY: as in `row`; the caller promises that this is the only reference.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()).cast(), self.lanes) }
    }

    /// The row of a table that is not shared.
    pub(crate) fn own_row_mut(&mut self, row: usize) -> &mut [Lane] {
        // SAFETY: `&mut self` excludes every other reference.
        unsafe { self.row_mut(row) }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.cells.len() / self.lanes
    }

    /// The first `dimensions` numbers of each of `rows`.
    pub(crate) fn numbers(&mut self, rows: std::ops::Range<usize>, dimensions: usize) -> Vec<f32> {
        let mut all = Vec::with_capacity(rows.len() * dimensions);
        for row in rows {
            let lanes = self.own_row_mut(row);
            all.extend(lanes.iter().flat_map(|lane| lane.0).take(dimensions));
        }
        all
    }

    /// Asks the memory for a row that is needed soon.
    pub(crate) fn prefetch(&self, row: usize) {
        #[cfg(target_arch = "x86_64")]
        for lane in 0..self.lanes {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let address = self.cells.as_ptr().wrapping_add(row * self.lanes + lane);
            // SAFETY: a prefetch never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = row;
    }
}
