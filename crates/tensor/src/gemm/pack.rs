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
        Self::into_buffer(isa, b, Vec::new())
    }

    /// As [`Packed::on`], into a buffer that was used before.
    pub(super) fn into_buffer(isa: Isa, b: Matrix<'_>, mut data: Vec<f32>) -> Self {
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
            if slab.len() < PARALLEL_NUMBERS {
                slab.chunks_mut(deep * panel_cols).enumerate().for_each(pack);
            } else {
                slab.par_chunks_mut(deep * panel_cols).enumerate().for_each(pack);
            }
        }
        Self { isa, depth, cols, panel_cols, data }
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
            Some(slice) => row[..cols].copy_from_slice(slice),
            None => break,
        }
    }
    // Columns of B that lie side by side are rows of its transpose.
    let transposed = b.t();
    if b.row_slice(start, col, 1).is_none() {
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
    let deep = depths.len();
    let tiles = rows.len().div_ceil(tile_rows);
    out.resize(tiles * tile_rows * deep, 0.0);
    for (tile, out) in out.chunks_exact_mut(tile_rows * deep).enumerate() {
        let first = rows.start + tile * tile_rows;
        let count = tile_rows.min(rows.end - first);
        if count < tile_rows {
            out.fill(0.0);
        }
        if a.t().row_slice(depths.start, first, count).is_some() {
            for (depth, out) in out.chunks_exact_mut(tile_rows).enumerate() {
                if let Some(column) = a.t().row_slice(depths.start + depth, first, count) {
                    out[..count].copy_from_slice(column);
                }
            }
            continue;
        }
        for i in 0..count {
            match a.row_slice(first + i, depths.start, deep) {
                Some(row) => {
                    for (depth, &value) in row.iter().enumerate() {
                        out[depth * tile_rows + i] = value;
                    }
                }
                None => {
                    for depth in 0..deep {
                        out[depth * tile_rows + i] = a.get(first + i, depths.start + depth);
                    }
                }
            }
        }
    }
}
