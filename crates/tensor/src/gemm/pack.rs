//! Copies of A and B in the order in which the kernels read them.

use rayon::prelude::*;

use super::DEPTH;
use super::kernel::Kernel;
use super::matrix::Matrix;
use crate::isa::Isa;

/// A slab with fewer numbers is packed by one thread.
const PARALLEL_NUMBERS: usize = 1 << 15;

/// B in panels: for each block along k and each panel of columns, depth × panel_cols numbers; zeros beyond the edge.
#[derive(Debug, Clone)]
pub struct Packed {
    pub(super) isa: Isa,
    pub(super) depth: usize,
    pub(super) cols: usize,
    panel_cols: usize,
    data: Vec<f32>,
}

impl Packed {
    /// Packs `b` for the best instructions of this machine.
    pub fn new(b: Matrix<'_>) -> Self {
        Self::on(Isa::best(), b)
    }

    /// Packs `b` for chosen instructions.
    ///
    /// # Panics
    /// If the machine lacks them.
    pub fn on(isa: Isa, b: Matrix<'_>) -> Self {
        Self::into_buffer(isa, b, Vec::new(), rayon::current_num_threads())
    }

    /// As [`Packed::on`], into a buffer that was used before, on so many threads. On one thread nothing else can run in
    /// between, which callers that hold a scratch buffer rely on.
    pub(super) fn into_buffer(isa: Isa, b: Matrix<'_>, mut data: Vec<f32>, threads: usize) -> Self {
        let panel_cols = Kernel::of(isa).panel_cols;
        let (depth, cols) = (b.rows, b.cols);
        let panels = cols.div_ceil(panel_cols);
        data.resize(depth * panels * panel_cols, 0.0);
        for (block, slab) in data.chunks_mut((DEPTH * panels * panel_cols).max(1)).enumerate() {
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

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.data.len() * size_of::<f32>()
    }

    /// One column of B.
    ///
    /// # Panics
    /// If there is no such column or `out` has not as many numbers as B has rows.
    pub fn column(&self, col: usize, out: &mut [f32]) {
        assert!(col < self.cols && out.len() == self.depth, "column {col} of {} × {}", self.depth, self.cols);
        for (block, out) in out.chunks_mut(DEPTH).enumerate() {
            let panel = self.panel(col / self.panel_cols, block * DEPTH, out.len());
            let numbers = panel[col % self.panel_cols..].iter().step_by(self.panel_cols);
            out.iter_mut().zip(numbers).for_each(|(out, number)| *out = *number);
        }
    }

    /// The buffer, to be used again.
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
    if cols < panel_cols {
        out.fill(0.0);
    }
    for (depth, row) in out.chunks_exact_mut(panel_cols).enumerate() {
        match b.row_slice(start + depth, col, cols) {
            Some(slice) => match (row.first_chunk_mut::<32>(), slice.first_chunk::<32>()) {
                // A whole panel is copied in registers; a call for so few numbers would cost more than the copy.
                (Some(row), Some(slice)) => *row = *slice,
                _ => row[..cols].copy_from_slice(slice),
            },
            None => break,
        }
    }
    // Columns of B that lie side by side are rows of its transpose.
    let transposed = b.t();
    if b.row_slice(start, col, 1).is_none() {
        #[cfg(target_arch = "x86_64")]
        if cols == super::avx512::PANEL_COLS && transposed.row_slice(col, start, deep).is_some() {
            let columns = std::array::from_fn(|j| {
                transposed.row_slice(col + j, start, deep).expect("as the first column")
            });
            let (out, _) = out.as_chunks_mut();
            // SAFETY: only the kernel for AVX-512 has panels of this width, and it is used only where the machine has it.
            return unsafe { super::avx512::transpose_panel(&columns, out) };
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

/// Packs `rows` × `depths` of A into tiles of `tile_rows` rows, depth by depth; zeros beyond the last row.
pub(super) fn pack_rows(
    a: Matrix<'_>,
    rows: std::ops::Range<usize>,
    depths: std::ops::Range<usize>,
    tile_rows: usize,
    out: &mut Vec<f32>,
) {
    let tiles = rows.len().div_ceil(tile_rows);
    out.resize(tiles * tile_rows * depths.len(), 0.0);
    for (tile, out) in out.chunks_exact_mut(tile_rows * depths.len()).enumerate() {
        let first = rows.start + tile * tile_rows;
        let count = tile_rows.min(rows.end - first);
        if count < tile_rows {
            out.fill(0.0);
            pack_edge(a, [first, count], depths.clone(), tile_rows, out);
            continue;
        }
        // The size of a tile is known when compiling, so that its rows stay in registers.
        match tile_rows {
            14 => pack_tile::<14>(a, first, depths.clone(), out),
            6 => pack_tile::<6>(a, first, depths.clone(), out),
            _ => pack_edge(a, [first, count], depths.clone(), tile_rows, out),
        }
    }
}

/// A tile that does not fill its rows, number by number.
fn pack_edge(
    a: Matrix<'_>,
    [first, count]: [usize; 2],
    depths: std::ops::Range<usize>,
    tile_rows: usize,
    out: &mut [f32],
) {
    for (depth, out) in depths.zip(out.chunks_exact_mut(tile_rows)) {
        for (row, out) in out[..count].iter_mut().enumerate() {
            *out = a.get(first + row, depth);
        }
    }
}

/// A whole tile: rows side by side become columns, or columns are copied as they are.
fn pack_tile<const ROWS: usize>(
    a: Matrix<'_>,
    first: usize,
    depths: std::ops::Range<usize>,
    out: &mut [f32],
) {
    let (out, _) = out.as_chunks_mut::<ROWS>();
    if a.t().row_slice(depths.start, first, ROWS).is_some() {
        for (depth, out) in depths.zip(out) {
            let column = a.t().row_slice(depth, first, ROWS).and_then(|column| column.first_chunk::<ROWS>());
            *out = *column.expect("columns lie side by side");
        }
        return;
    }
    let deep = depths.len();
    let rows: [Option<&[f32]>; ROWS] =
        std::array::from_fn(|row| a.row_slice(first + row, depths.start, deep));
    if rows.iter().any(Option::is_none) {
        return pack_edge(a, [first, ROWS], depths, ROWS, out.as_flattened_mut());
    }
    let rows = rows.map(|row| row.expect("just checked"));
    #[cfg(target_arch = "x86_64")]
    if let (Some(&rows), true) =
        (rows.first_chunk::<{ super::avx512::TILE_ROWS }>(), ROWS == super::avx512::TILE_ROWS)
    {
        let (out, _) = out.as_flattened_mut().as_chunks_mut();
        // SAFETY: only the kernel for AVX-512 has tiles of this height, and it is used only where the machine has it.
        return unsafe { super::avx512::transpose(rows, out) };
    }
    for (depth, out) in out.iter_mut().enumerate() {
        for row in 0..ROWS {
            out[row] = rows[row][depth];
        }
    }
}
