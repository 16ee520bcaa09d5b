//! The innermost product, chosen by instruction set: one tile of C in registers.

use crate::isa::Isa;

/// One tile: rows × cols of C, and the slices of A and B that it needs.
pub(super) struct Tile<'a> {
    /// For each depth, the values of the rows side by side.
    pub(super) a: &'a [f32],
    /// Distance between depths of A: `tile_rows` if it was packed.
    pub(super) a_stride: usize,
    /// Packed: for each depth, `panel_cols` values.
    pub(super) b: &'a [f32],
    /// First element of the tile in C.
    pub(super) c: *mut f32,
    /// Distance between rows of C.
    pub(super) row_stride: usize,
    /// Rows in the matrix.
    pub(super) rows: usize,
    /// Columns in the matrix.
    pub(super) cols: usize,
    /// True if the sums start from the values in C.
    pub(super) continues: bool,
}

/// A tile kernel for an instruction set.
pub(super) struct Kernel {
    isa: Isa,
    /// Rows of a full tile.
    pub(super) tile_rows: usize,
    /// Columns of a full tile.
    pub(super) panel_cols: usize,
}

impl Kernel {
    /// The kernel for `isa`.
    ///
    /// # Panics
    /// If the CPU lacks the instructions: running them would be undefined behaviour.
    pub(super) fn of(isa: Isa) -> Self {
        assert!(isa.is_usable(), "this CPU has no {} instructions", isa.name());
        let (tile_rows, panel_cols) = match isa {
            Isa::Portable => (super::portable::TILE_ROWS, super::portable::PANEL_COLS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => (super::avx2::TILE_ROWS, super::avx2::PANEL_COLS),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => (super::avx512::TILE_ROWS, super::avx512::PANEL_COLS),
            #[cfg(not(target_arch = "x86_64"))]
            _ => unreachable!("checked above"),
        };
        Self { isa, tile_rows, panel_cols }
    }

    /// Multiplies one tile.
    ///
    /// # Safety
    /// `tile.c` points to rows × cols writable values that nobody else accesses.
    pub(super) unsafe fn multiply(&self, tile: &Tile<'_>) {
        // SAFETY: `of` has checked the instructions; the caller guarantees the rest.
        unsafe {
            match self.isa {
                Isa::Portable => super::portable::multiply(tile),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => super::avx2::multiply(tile),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => super::avx512::multiply(tile),
                #[cfg(not(target_arch = "x86_64"))]
                _ => {}
            }
        }
    }
}
