//! Memory that is used again: a buffer goes back to the pool when its last user is gone.
//!
//! After the first step of a training loop every buffer is found here and nothing is asked of the system. Batches may
//! change their shape from step to step, so buffers come in sizes an eighth apart. All of them together may take half more
//! than the most that was ever in use at once. At that limit a free buffer up to twice as long as asked for will do, and
//! where there is none, what was idle longest goes back to the system before something new is made.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// No buffer has fewer numbers.
const SMALLEST: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// A buffer of `len` numbers or more, whatever they are.
pub(crate) fn take(len: usize) -> Vec<f32> {
    if len == 0 {
        return Vec::new();
    }
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let found = pool.find(len);
    // Memory is cleared, and what is given back unmapped, while others may go on.
    let idle = if found.is_none() { pool.make_room(size(len)) } else { Vec::new() };
    drop(pool);
    drop(idle);
    found.unwrap_or_else(|| vec![0.0; size(len)])
}

/// Gives a buffer that was taken back.
pub(crate) fn give(buffer: Vec<f32>) {
    if !buffer.is_empty() {
        POOL.lock().unwrap_or_else(PoisonError::into_inner).put(buffer);
    }
}

/// How many buffers had to be made since the program began: it stands still once a loop is warm.
pub fn buffers_made() -> usize {
    POOL.lock().unwrap_or_else(PoisonError::into_inner).made
}

/// Bytes of all buffers, in use and free.
pub fn bytes_held() -> usize {
    POOL.lock().unwrap_or_else(PoisonError::into_inner).held * size_of::<f32>()
}

/// Returns all free memory to the system.
pub fn clear() {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    pool.held = pool.in_use;
    pool.free = BTreeMap::new();
}

/// The size of a new buffer for `len` numbers: at most an eighth more.
fn size(len: usize) -> usize {
    let len = len.max(SMALLEST);
    len.next_multiple_of(1 << len.ilog2().saturating_sub(3))
}

/// A free buffer and when it became free.
struct Free {
    since: u64,
    buffer: Vec<f32>,
}

/// Numbers are counted in f32.
struct Pool {
    /// By size, those free for longest first.
    free: BTreeMap<usize, Vec<Free>>,
    /// In use and free.
    held: usize,
    in_use: usize,
    /// The most that ever was in use.
    peak: usize,
    /// Buffers that had to be made.
    made: usize,
    /// Counts what is given back.
    clock: u64,
}

impl Pool {
    const fn new() -> Self {
        Self { free: BTreeMap::new(), held: 0, in_use: 0, peak: 0, made: 0, clock: 0 }
    }

    /// How much may be held.
    fn limit(&self) -> usize {
        self.peak + self.peak / 2
    }

    /// The smallest free buffer that will do: of the right size as long as there is room to make one, otherwise longer.
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

    /// Counts a new buffer of `size` as in use; returns what goes back to the system for it.
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
    fn whatever_lengths_come_memory_stays_within_one_and_a_half_of_the_most_used() {
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
    fn a_loop_that_repeats_makes_nothing_new() {
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
