//! Parallel loops over rows; each row belongs to one thread, so results do not depend on the number of threads.

use rayon::prelude::*;

/// Values per task.
const TASK_NUMBERS: usize = 1 << 14;

/// Calls `work(first_row, rows)` on blocks of whole rows of `data`.
pub(crate) fn rows(data: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    if data.is_empty() || width == 0 {
        return;
    }
    let block = (TASK_NUMBERS / width).max(1);
    if data.len() <= TASK_NUMBERS {
        return work(0, data);
    }
    data.par_chunks_mut(block * width).enumerate().for_each(|(index, rows)| work(index * block, rows));
}

/// Calls `work(start, numbers)` on blocks of `data`.
pub(crate) fn elements(data: &mut [f32], work: impl Fn(usize, &mut [f32]) + Sync) {
    rows(data, 1, work);
}
