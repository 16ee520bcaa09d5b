//! Memory that is used again: a buffer goes back to the pool when its last user is gone.
//!
//! After the first step of a training loop every buffer is found here and nothing is asked of the system. Batches differ
//! in shape from step to step, so buffers come in classes of like length, eight to each power of two, and one of the next
//! larger classes does as well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Free buffers by class, each filled up to the length of its class.
static FREE: Mutex<BTreeMap<usize, Vec<Vec<f32>>>> = Mutex::new(BTreeMap::new());
/// Buffers that had to be made.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// The length of the class: `len` rounded up to three binary digits after the first.
fn class(len: usize) -> usize {
    let step = (len.next_power_of_two() / 16).max(1);
    len.div_ceil(step) * step
}

/// A buffer of `len` numbers, whatever they are.
pub(crate) fn take(len: usize) -> Vec<f32> {
    let class = class(len);
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut near = free.range_mut(class..=class + class / 4);
    let found = near.find_map(|(_, buffers)| buffers.pop());
    drop(free);
    let mut buffer = found.unwrap_or_else(|| {
        MADE.fetch_add(1, Ordering::Relaxed);
        vec![0.0; class]
    });
    buffer.truncate(len);
    buffer
}

/// Gives a buffer back.
pub(crate) fn give(mut buffer: Vec<f32>) {
    let class = class(buffer.len());
    if class == 0 {
        return;
    }
    // A buffer that was not made here has no room for more than its length.
    let class = if buffer.capacity() >= class { buffer.capacity() } else { buffer.len() };
    buffer.resize(class, 0.0);
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    free.entry(class).or_default().push(buffer);
}

/// How many buffers had to be made since the program began: it stands still once a loop is warm.
pub fn buffers_made() -> usize {
    MADE.load(Ordering::Relaxed)
}

/// Returns all free memory to the system.
pub fn clear() {
    FREE.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
