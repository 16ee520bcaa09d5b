//! Memory that is used again: a buffer goes back to the pool when its last user is gone.
//!
//! After the first step of a training loop every buffer is found here and nothing is asked of the system.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Free buffers by length.
static FREE: Mutex<Option<HashMap<usize, Vec<Vec<f32>>>>> = Mutex::new(None);
/// Buffers that had to be made.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// A buffer of `len` numbers, whatever they are.
pub(crate) fn take(len: usize) -> Vec<f32> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = free.get_or_insert_default().get_mut(&len).and_then(Vec::pop);
    drop(free);
    found.unwrap_or_else(|| {
        MADE.fetch_add(1, Ordering::Relaxed);
        vec![0.0; len]
    })
}

/// Gives a buffer back.
pub(crate) fn give(buffer: Vec<f32>) {
    if !buffer.is_empty() {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.get_or_insert_default().entry(buffer.len()).or_default().push(buffer);
    }
}

/// How many buffers had to be made since the program began: it stands still once a loop is warm.
pub fn buffers_made() -> usize {
    MADE.load(Ordering::Relaxed)
}

/// Returns all free memory to the system.
pub fn clear() {
    *FREE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
