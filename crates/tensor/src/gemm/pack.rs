//! Packed copies of A and B in the order in which the kernels read them.

use rayon::prelude::*;

use super::DEPTH;
use super::kernel::Kernel;
use super::matrix::Matrix;
use crate::isa::Isa;
use crate::pool;

/// Smaller slabs are packed by one thread.
const PARALLEL_NUMBERS: usize = 1 << 15;

/// B in panels: for each block along k and each panel of columns, depth × panel_cols values; zeros beyond the edge.
#[derive(Debug, Clone)]
pub struct Packed {
    pub(super) isa: Isa,
    pub(super) depth: usize,
    pub(super) cols: usize,
    panel_cols: usize,
    data: Vec<f32>,
}

impl Packed {
    /// Packs `b` for the best instructions of this CPU.
    pub fn new(b: Matrix<'_>) -> Self {
        Self::on(Isa::best(), b)
    }

    /// Packs `b` for the given instruction set.
    ///
    /// # Panics
    /// If the CPU lacks it.
    pub fn on(isa: Isa, b: Matrix<'_>) -> Self {
        Self::into_buffer(isa, b, Vec::new(), rayon::current_num_threads())
    }

    /// As [`Packed::new`] with memory from the pool; [`Packed::recycle`] returns it.
    pub(crate) fn pooled(b: Matrix<'_>) -> Self {
        let isa = Isa::best();
        let panel_cols = Kernel::of(isa).panel_cols;
        let data = pool::take(b.rows * b.cols.next_multiple_of(panel_cols));
        Self::into_buffer(isa, b, data, rayon::current_num_threads())
    }

    /// Returns the memory to the pool.
    pub(crate) fn recycle(self) {
        pool::give(self.data);
    }

    /// As [`Packed::on`], into a used buffer, on `threads` threads. On one thread no other task can run in between,
    /// which callers that hold a scratch buffer rely on.
    pub(super) fn into_buffer(isa: Isa, b: Matrix<'_>, mut data: Vec<f32>, threads: usize) -> Self {
        let panel_cols = Kernel::of(isa).panel_cols;
        let (depth, cols) = (b.rows, b.cols);
        let panels = cols.div_ceil(panel_cols);
        let len = depth * panels * panel_cols;
        // A buffer that is too long stays so: shortening it would mean clearing it when it grows again.
        if data.len() < len {
            data.resize(len, 0.0);
        }
        for (block, slab) in data[..len].chunks_mut((DEPTH * panels * panel_cols).max(1)).enumerate() {
            let start = block * DEPTH;
            let deep = DEPTH.min(depth - start);
            let pack = |(panel, out): (usize, &mut [f32])| {
                let col = panel * panel_cols;
                pack_panel(b, start, [col, panel_cols.min(cols - col)], out, panel_cols);
            };
            if threads == 1 || slab.len() < PARALLEL_NUMBERS {
                slab.chunks_mut(deep * panel_cols).enumerate().for_each(pack);
            } else {
                slab.par_chunks_mut(deep * panel_cols).enumerate().for_each(pack);
            }
        }
        Self { isa, depth, cols, panel_cols, data }
    }

    /// Rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        [self.depth, self.cols]
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.depth * self.cols.next_multiple_of(self.panel_cols) * size_of::<f32>()
    }

    /// Writes one column of B to `out`.
    ///
    /// # Panics
    /// If there is no such column or `out` does not have as many values as B has rows.
    pub fn column(&self, col: usize, out: &mut [f32]) {
        assert!(col < self.cols && out.len() == self.depth, "column {col} of {} × {}", self.depth, self.cols);
        for (block, out) in out.chunks_mut(DEPTH).enumerate() {
            let panel = self.panel(col / self.panel_cols, block * DEPTH, out.len());
            let numbers = panel[col % self.panel_cols..].iter().step_by(self.panel_cols);
            out.iter_mut().zip(numbers).for_each(|(out, number)| *out = *number);
        }
    }

    /// The buffer, for reuse.
    pub(super) fn into_data(self) -> Vec<f32> {
        self.data
    }

    /// The `deep` rows from `start` (a multiple of [`DEPTH`]) of one panel.
    pub(super) fn panel(&self, panel: usize, start: usize, deep: usize) -> &[f32] {
        let panels = self.cols.div_ceil(self.panel_cols);
        let at = (start * panels + panel * deep) * self.panel_cols;
        &self.data[at..at + deep * self.panel_cols]
    }
}

fn pack_panel(b: Matrix<'_>, start: usize, [col, cols]: [usize; 2], out: &mut [f32], panel_cols: usize) {
    let deep = out.len() / panel_cols;
    for (depth, row) in out.chunks_exact_mut(panel_cols).enumerate() {
        match b.row_slice(start + depth, col, cols) {
            Some(slice) => match (row.first_chunk_mut::<32>(), slice.first_chunk::<32>()) {
                // A whole panel is copied in registers; a call to memcpy would cost more than the copy.
                (Some(row), Some(slice)) => *row = *slice,
                _ => copy_and_clear(row, slice),
            },
            None => break,
        }
    }
    // Contiguous columns of B are rows of its transpose.
    let transposed = b.t();
    if b.row_slice(start, col, 1).is_none() {
        #[cfg(target_arch = "x86_64")]
        if panel_cols == super::avx512::PANEL_COLS && transposed.row_slice(col, start, deep).is_some() {
            let mut columns = [&[][..]; super::avx512::PANEL_COLS];
            for (j, column) in columns[..cols].iter_mut().enumerate() {
                *column = transposed.row_slice(col + j, start, deep).expect("as the first column");
            }
            let (out, _) = out.as_chunks_mut();
            // SAFETY: only the AVX-512 kernel has panels of this width, and `Kernel::of` has checked the instructions.
            return unsafe { super::avx512::transpose_panel(&columns[..cols], out) };
        }
        if cols < panel_cols {
            out.fill(0.0);
        }
        for j in 0..cols {
            match transposed.row_slice(col + j, start, deep) {
                Some(slice) => {
                    for (depth, &value) in slice.iter().enumerate() {
                        out[depth * panel_cols + j] = value;
                    }
                }
                None => {
                    for depth in 0..deep {
                        out[depth * panel_cols + j] = b.get(start + depth, col + j);
                    }
                }
            }
        }
    }
}

/// Copies `from` to the beginning of `to` and fills the rest with zeros.
fn copy_and_clear(to: &mut [f32], from: &[f32]) {
    let (head, tail) = to.split_at_mut(from.len());
    head.copy_from_slice(from);
    tail.fill(0.0);
}

/// Packs `rows` × `depths` of A into tiles of `tile_rows` rows, depth by depth; zeros beyond the last row. The tiles
/// are at the beginning of `buffer`, which grows if needed.
pub(super) fn pack_rows<'a>(
    a: Matrix<'_>,
    rows: std::ops::Range<usize>,
    depths: std::ops::Range<usize>,
    tile_rows: usize,
    buffer: &'a mut Vec<f32>,
) -> &'a [f32] {
    let len = rows.len().next_multiple_of(tile_rows) * depths.len();
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    let out = &mut buffer[..len];
    for (tile, out) in out.chunks_exact_mut(tile_rows * depths.len()).enumerate() {
        let first = rows.start + tile * tile_rows;
        let rows_of_tile = [first, tile_rows.min(rows.end - first)];
        // The size of a tile is a compile-time constant, so that its rows stay in registers.
        match tile_rows {
            14 => pack_tile::<14>(a, rows_of_tile, depths.clone(), out),
            6 => pack_tile::<6>(a, rows_of_tile, depths.clone(), out),
            _ => pack_elements(a, rows_of_tile, depths.clone(), tile_rows, out),
        }
    }
    out
}

/// Packs a tile element by element: the reference, for any layout.
fn pack_elements(
    a: Matrix<'_>,
    [first, count]: [usize; 2],
    depths: std::ops::Range<usize>,
    tile_rows: usize,
    out: &mut [f32],
) {
    for (depth, out) in depths.zip(out.chunks_exact_mut(tile_rows)) {
        for (row, out) in out.iter_mut().enumerate() {
            *out = if row < count { a.get(first + row, depth) } else { 0.0 };
        }
    }
}

/// Packs a tile of `count` rows from `first`: contiguous rows are transposed, contiguous columns copied.
fn pack_tile<const ROWS: usize>(
    a: Matrix<'_>,
    [first, count]: [usize; 2],
    depths: std::ops::Range<usize>,
    out: &mut [f32],
) {
    let deep = depths.len();
    if a.t().row_slice(depths.start, first, count).is_some() {
        let (out, _) = out.as_chunks_mut::<ROWS>();
        for (depth, out) in depths.zip(out) {
            let column = a.t().row_slice(depth, first, count).expect("columns lie side by side");
            match column.first_chunk::<ROWS>() {
                Some(column) => *out = *column,
                None => copy_and_clear(out, column),
            }
        }
        return;
    }
    if a.row_slice(first, depths.start, deep).is_none() {
        return pack_elements(a, [first, count], depths, ROWS, out);
    }
    let mut rows = [&[][..]; ROWS];
    for (row, slice) in rows[..count].iter_mut().enumerate() {
        *slice = a.row_slice(first + row, depths.start, deep).expect("as the first row");
    }
    #[cfg(target_arch = "x86_64")]
    if ROWS == super::avx512::TILE_ROWS {
        let (out, _) = out.as_chunks_mut();
        // SAFETY: only the AVX-512 kernel has tiles of this height, and `Kernel::of` has checked the instructions.
        return unsafe { super::avx512::transpose(&rows[..count], out) };
    }
    for (depth, out) in out.chunks_exact_mut(ROWS).enumerate() {
        for (out, row) in out.iter_mut().zip(rows) {
            *out = row.get(depth).copied().unwrap_or(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_any_layout_and_height_equal_those_packed_element_by_element() {
        let data: Vec<f32> = (0..40 * 40).map(|number| number as f32).collect();
        let layouts = [[40, 1], [1, 40], [40, 2]].map(|strides| Matrix::strided(&data, [20, 19], strides));
        for a in layouts {
            for (rows, depths) in [(0..20, 0..19), (3..4, 2..19), (0..14, 1..18), (5..13, 0..1)] {
                for tile_rows in [4, 6, 14] {
                    if tile_rows == 14 && !Isa::ALL[Isa::ALL.len() - 1].is_usable() {
                        continue;
                    }
                    let mut buffer = vec![f32::NAN; 1000];
                    let found = pack_rows(a, rows.clone(), depths.clone(), tile_rows, &mut buffer);
                    let mut expected = vec![f32::NAN; found.len()];
                    let tile = (tile_rows * depths.len()).max(1);
                    for (index, out) in expected.chunks_exact_mut(tile).enumerate() {
                        let first = rows.start + index * tile_rows;
                        let rows_of_tile = [first, tile_rows.min(rows.end - first)];
                        pack_elements(a, rows_of_tile, depths.clone(), tile_rows, out);
                    }
                    assert_eq!(found, expected, "{rows:?} {depths:?} {tile_rows}");
                }
            }
        }
    }
}
