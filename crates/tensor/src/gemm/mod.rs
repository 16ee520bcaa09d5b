//! Matrix products: C = A·B or C += A·B, with A of M×K, B of K×N.
//!
//! Every element of C is one chain of fused multiply-adds over k = 0, 1, … K−1, starting from 0 or from the old element:
//!
//! c ← fma(a₀, b₀, c), c ← fma(a₁, b₁, c), …
//!
//! Vectors run across columns, never along k, and blocks along k pass the running sum on through C. So the bits do not
//! depend on M, N, block sizes, threads or instruction set, and a row alone gives the same result as in a batch.
//!
//! The blocking follows Goto & van de Geijn 2008 (*Anatomy of high-performance matrix multiplication*): B is packed
//! once into panels of 16 or 32 columns; each task takes a block of rows of A, packs a slice of it 256 values deep so
//! that it stays in the second-level cache, and multiplies tile by tile in registers. A transposed A that meets few
//! panels is read in place.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod int8;
mod kernel;
mod matrix;
mod pack;
mod portable;
pub mod reference;

use rayon::prelude::*;

use self::kernel::{Kernel, Tile};
pub use self::matrix::{Matrix, MatrixMut};
pub use self::pack::Packed;
use self::pack::pack_rows;
use crate::isa::Isa;

/// Depth of a block along k.
const DEPTH: usize = 256;
/// Maximum number of rows of A that a task packs at once.
const MAX_BLOCK_ROWS: usize = 168;
/// An A with contiguous columns is packed only if there are more panels of B than this.
const MAX_UNPACKED_PANELS: usize = 8;
/// Minimum multiply-adds of a task.
const MIN_TASK_WORK: usize = 1 << 18;
/// Tasks per thread, so that a late thread does not delay the rest.
const TASKS_PER_THREAD: usize = 3;

/// Treatment of the old content of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// C = A·B.
    Overwrite,
    /// C += A·B.
    Accumulate,
}

/// C = A·B or C += A·B with the best instructions of the CPU, on the threads of the current pool.
///
/// # Panics
/// If the shapes do not fit together.
///
/// ```
/// use polyhead_tensor::gemm::{Matrix, MatrixMut, Output, gemm};
/// let (a, b, mut c) = ([1., 2., 3., 4.], [5., 6., 7., 8.], [0.; 4]);
/// gemm(&mut MatrixMut::new(&mut c, 2, 2), Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2), Output::Overwrite);
/// assert_eq!(c, [19., 22., 43., 50.]);
/// ```
pub fn gemm(c: &mut MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>, output: Output) {
    gemm_on(Isa::best(), c, a, b, output);
}

/// As [`gemm`] with the given instruction set.
///
/// # Panics
/// If the shapes do not fit together or the CPU lacks the instructions.
pub fn gemm_on(isa: Isa, c: &mut MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>, output: Output) {
    let threads = rayon::current_num_threads();
    let packed = Packed::into_buffer(isa, b, PACKED_PANELS.take(), threads);
    multiply(c, a, &packed, output, threads);
    PACKED_PANELS.set(packed.into_data());
}

/// As [`gemm`] on the calling thread only, for small products inside a parallel task.
///
/// # Panics
/// If the shapes do not fit together.
pub(crate) fn gemm_serial(c: &mut MatrixMut<'_>, a: Matrix<'_>, b: Matrix<'_>, output: Output) {
    let packed = Packed::into_buffer(Isa::best(), b, PACKED_PANELS.take(), 1);
    multiply(c, a, &packed, output, 1);
    PACKED_PANELS.set(packed.into_data());
}

/// As [`gemm`] with a B that was packed before, for weights used many times.
///
/// # Panics
/// If the shapes do not fit together.
pub fn gemm_packed(c: &mut MatrixMut<'_>, a: Matrix<'_>, b: &Packed, output: Output) {
    multiply(c, a, b, output, rayon::current_num_threads());
}

/// As [`gemm_packed`] on the calling thread only.
///
/// # Panics
/// If the shapes do not fit together.
pub(crate) fn gemm_packed_serial(c: &mut MatrixMut<'_>, a: Matrix<'_>, b: &Packed, output: Output) {
    multiply(c, a, b, output, 1);
}

fn multiply(c: &mut MatrixMut<'_>, a: Matrix<'_>, b: &Packed, output: Output, threads: usize) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert!(
        k == b.depth && c.rows == m && c.cols == n,
        "gemm: {m}×{k} · {}×{n} into {}×{}",
        b.depth,
        c.rows,
        c.cols
    );
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        if output == Output::Overwrite {
            c.fill(0.0);
        }
        return;
    }
    let kernel = Kernel::of(b.isa);
    let grid = Grid::new([m, n, k], &kernel, threads);
    let target = c.shared();
    let run = |index: usize| {
        let (rows, panels) = grid.task(index);
        let task = Task { a, b, kernel: &kernel, target, output };
        // SAFETY: tasks cover disjoint rows × columns of C.
        PACKED_ROWS.with_borrow_mut(|scratch| unsafe { task.run(rows, panels, scratch) });
    };
    if threads == 1 || grid.n_tasks() == 1 {
        (0..grid.n_tasks()).for_each(run);
    } else {
        (0..grid.n_tasks()).into_par_iter().with_max_len(1).for_each(run);
    }
}

thread_local! {
    /// Each thread's last packed B, reused between calls.
    static PACKED_PANELS: std::cell::Cell<Vec<f32>> = const { std::cell::Cell::new(Vec::new()) };
    /// Each thread's packed slice of A, reused between calls.
    static PACKED_ROWS: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Division of C among tasks.
struct Grid {
    rows: usize,
    panels: usize,
    block_rows: usize,
    block_panels: usize,
    row_blocks: usize,
    panel_blocks: usize,
}

impl Grid {
    fn new([m, n, k]: [usize; 3], kernel: &Kernel, threads: usize) -> Self {
        let panels = n.div_ceil(kernel.panel_cols);
        let tiles = m.div_ceil(kernel.tile_rows);
        let worth = (m * n * k / MIN_TASK_WORK).max(1);
        let wanted = if threads == 1 { 1 } else { (threads * TASKS_PER_THREAD).min(worth) };
        let least_row_blocks = m.div_ceil(MAX_BLOCK_ROWS);
        // Rows first: a block of rows is packed once and used with all of B. Columns only if there are too few rows.
        let row_blocks = wanted.max(least_row_blocks).min(tiles);
        let block_tiles = tiles.div_ceil(row_blocks);
        let row_blocks = tiles.div_ceil(block_tiles);
        let panel_blocks = wanted.div_ceil(row_blocks).min(panels);
        let block_panels = panels.div_ceil(panel_blocks);
        Self {
            rows: m,
            panels,
            block_rows: block_tiles * kernel.tile_rows,
            block_panels,
            row_blocks,
            panel_blocks: panels.div_ceil(block_panels),
        }
    }

    fn n_tasks(&self) -> usize {
        self.row_blocks * self.panel_blocks
    }

    /// Rows of A and panels of B of task `index`.
    fn task(&self, index: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let (row_block, panel_block) = (index % self.row_blocks, index / self.row_blocks);
        let rows = row_block * self.block_rows..((row_block + 1) * self.block_rows).min(self.rows);
        let panels =
            panel_block * self.block_panels..((panel_block + 1) * self.block_panels).min(self.panels);
        (rows, panels)
    }
}

/// One task's view of the product.
struct Task<'a> {
    a: Matrix<'a>,
    b: &'a Packed,
    kernel: &'a Kernel,
    target: matrix::Shared,
    output: Output,
}

impl Task<'_> {
    /// Multiplies `rows` of A with `panels` of B.
    ///
    /// # Safety
    /// No other task writes these elements of C meanwhile.
    unsafe fn run(
        &self,
        rows: std::ops::Range<usize>,
        panels: std::ops::Range<usize>,
        scratch: &mut Vec<f32>,
    ) {
        let &Kernel { tile_rows, panel_cols, .. } = self.kernel;
        let (n, depth) = (self.b.cols, self.b.depth);
        for start in (0..depth).step_by(DEPTH) {
            let deep = DEPTH.min(depth - start);
            let continues = start > 0 || self.output == Output::Accumulate;
            let columns = self.a.columns_from(rows.start, start);
            let few = panels.len() <= MAX_UNPACKED_PANELS;
            // (values, step between tiles, step between depths)
            let (a, step, a_stride) = if let Some((numbers, stride)) = columns.filter(|_| few) {
                (numbers, tile_rows, stride)
            } else {
                let tiles = pack_rows(self.a, rows.clone(), start..start + deep, tile_rows, scratch);
                (tiles, tile_rows * deep, tile_rows)
            };
            for panel in panels.clone() {
                let b = self.b.panel(panel, start, deep);
                let cols = panel_cols.min(n - panel * panel_cols);
                for (tile, row) in rows.clone().step_by(tile_rows).enumerate() {
                    let a = &a[tile * step..];
                    let count = tile_rows.min(rows.end - row);
                    assert!(a.len() >= (deep - 1) * a_stride + count, "the kernel reads A without checks");
                    let tile = Tile {
                        a,
                        a_stride,
                        b,
                        // SAFETY: row < M and the panel's first column < N.
                        c: unsafe { self.target.at(row, panel * panel_cols) },
                        row_stride: self.target.row_stride,
                        rows: count,
                        cols,
                        continues,
                    };
                    // SAFETY: the tile lies inside this task's part of C; the kernel's instructions were checked.
                    unsafe { self.kernel.multiply(&tile) };
                }
            }
        }
    }
}
