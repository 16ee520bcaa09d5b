//! Reused memory: a buffer returns to the pool when its last owner is dropped.
//!
//! After the first step of a training loop every buffer is found here and nothing is allocated. Batches may change
//! their shape from step to step, so buffer sizes are an eighth apart. All buffers together may take 1.5 times the peak
//! memory in use. At that limit a free buffer of up to twice the requested size is used; if there is none, the buffers
//! that were idle longest are freed before a new one is allocated.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Smallest buffer, in values.
const SMALLEST: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Returns a buffer of at least `len` values with unspecified content.
pub(crate) fn take(len: usize) -> Vec<f32> {
    if len == 0 {
        return Vec::new();
    }
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let found = pool.find(len);
    // Allocation clears memory and freeing unmaps it, both outside the lock.
    let idle = if found.is_none() { pool.make_room(size(len)) } else { Vec::new() };
    drop(pool);
    drop(idle);
    found.unwrap_or_else(|| vec![0.0; size(len)])
}

/// Returns a buffer to the pool.
pub(crate) fn give(buffer: Vec<f32>) {
    if !buffer.is_empty() {
        POOL.lock().unwrap_or_else(PoisonError::into_inner).put(buffer);
    }
}

/// Number of buffers allocated since the program began: constant once a loop is warm.
pub fn buffers_made() -> usize {
    POOL.lock().unwrap_or_else(PoisonError::into_inner).made
}

/// Bytes of all buffers, in use and free.
pub fn bytes_held() -> usize {
    POOL.lock().unwrap_or_else(PoisonError::into_inner).held * size_of::<f32>()
}

/// Frees all unused memory.
pub fn clear() {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    pool.held = pool.in_use;
    pool.free = BTreeMap::new();
}

/// Size of a new buffer for `len` values: at most an eighth more.
fn size(len: usize) -> usize {
    let len = len.max(SMALLEST);
    len.next_multiple_of(1 << len.ilog2().saturating_sub(3))
}

/// A free buffer and the time when it became free.
struct Free {
    since: u64,
    buffer: Vec<f32>,
}

/// Sizes are counted in f32 values.
struct Pool {
    /// By size; in each list the longest idle first.
    free: BTreeMap<usize, Vec<Free>>,
    /// Total size of buffers in use and free.
    held: usize,
    in_use: usize,
    /// Largest `in_use` so far.
    peak: usize,
    /// Number of buffers allocated.
    made: usize,
    /// Number of buffers returned; a logical clock.
    clock: u64,
}

impl Pool {
    const fn new() -> Self {
        Self { free: BTreeMap::new(), held: 0, in_use: 0, peak: 0, made: 0, clock: 0 }
    }

    /// Largest allowed `held`.
    fn limit(&self) -> usize {
        self.peak + self.peak / 2
    }

    /// The smallest suitable free buffer: of exactly the right size while a new one could be allocated, otherwise up to
    /// twice as large.
    fn find(&mut self, len: usize) -> Option<Vec<f32>> {
        let right = size(len);
        let room = self.held + right <= self.limit();
        let (&size, list) = self.free.range_mut(right..=if room { right } else { 2 * right }).next()?;
        let found = list.pop()?.buffer;
        if list.is_empty() {
            self.free.remove(&size);
        }
        self.count_use(size);
        Some(found)
    }

    /// Counts a new buffer of `size` as in use; returns the buffers to free for it.
    fn make_room(&mut self, size: usize) -> Vec<Free> {
        self.made += 1;
        self.held += size;
        self.count_use(size);
        let mut gone = Vec::new();
        while self.held > self.limit() {
            let idle = self.free.iter().filter_map(|(&size, list)| Some((list.first()?.since, size)));
            let Some((_, size)) = idle.min() else { break };
            let list = self.free.get_mut(&size).expect("just seen");
            gone.push(list.remove(0));
            if list.is_empty() {
                self.free.remove(&size);
            }
            self.held -= size;
        }
        gone
    }

    fn count_use(&mut self, size: usize) {
        self.in_use += size;
        self.peak = self.peak.max(self.in_use);
    }

    fn put(&mut self, buffer: Vec<f32>) {
        self.clock += 1;
        self.in_use -= buffer.len();
        self.free.entry(buffer.len()).or_default().push(Free { since: self.clock, buffer });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_random::Random;

    #[test]
    fn sizes_waste_an_eighth_at_most() {
        for len in 1..5000 {
            let size = size(len);
            assert!(size >= len && (size <= SMALLEST || size <= len + len / 8), "{len} became {size}");
            assert_eq!(super::size(size), size);
        }
    }

    fn take(pool: &mut Pool, len: usize) -> Vec<f32> {
        pool.find(len).unwrap_or_else(|| {
            pool.make_room(size(len));
            vec![0.0; size(len)]
        })
    }

    #[test]
    fn memory_stays_within_one_and_a_half_of_the_peak_for_any_lengths() {
        let (mut pool, random) = (Pool::new(), Random::new(1));
        let mut in_use = Vec::new();
        for step in 0..20_000 {
            let draw = |stream: u64, below: usize| random.stream(stream).below(below, step);
            if in_use.is_empty() || (in_use.len() < 40 && draw(0, 2) == 0) {
                let len = 1 + draw(1, 1 << (1 + draw(2, 12)));
                let buffer = take(&mut pool, len);
                assert!(buffer.len() >= len);
                in_use.push(buffer);
            } else {
                pool.put(in_use.swap_remove(draw(3, in_use.len())));
            }
            let used: usize = in_use.iter().map(Vec::len).sum();
            let free: usize = pool.free.iter().map(|(size, list)| size * list.len()).sum();
            assert_eq!([pool.in_use, pool.held], [used, used + free]);
            assert!(pool.held <= pool.peak + pool.peak / 2);
        }
    }

    #[test]
    fn a_repeated_loop_allocates_nothing_new() {
        let mut pool = Pool::new();
        let once = |pool: &mut Pool| {
            for lengths in [[100, 2000, 30], [4000, 100, 7]] {
                let buffers = lengths.map(|len| take(pool, len));
                for buffer in buffers {
                    pool.put(buffer);
                }
            }
            pool.made
        };
        let warm = [(); 3].map(|()| once(&mut pool))[2];
        assert_eq!(once(&mut pool), warm);
    }
}
