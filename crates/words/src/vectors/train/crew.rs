//! A crew of threads that work in step: everybody finishes a phase before anybody begins the next.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Turns of waiting before a thread lets others run: phases take microseconds, so waiting is mostly short.
const SPINS: usize = 2_000;

/// A barrier that spins first.
#[derive(Debug)]
pub(crate) struct Barrier {
    size: usize,
    arrived: AtomicUsize,
    phase: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    /// A barrier for `size` threads.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            arrived: AtomicUsize::new(0),
            phase: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Waits until all threads have arrived.
    pub(crate) fn wait(&self) {
        let phase = self.phase.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.size {
            self.arrived.store(0, Ordering::Relaxed);
            self.phase.store(phase.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut turns = 0;
        while self.phase.load(Ordering::Acquire) == phase {
            assert!(!self.broken.load(Ordering::Relaxed), "another thread panicked");
            turns += 1;
            if turns < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Tells waiting threads if its own thread panics, so that they do not wait for ever.
struct Alarm<'a>(&'a Barrier);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs `work(thread, barrier)` on `size` threads, the last on this one.
pub(crate) fn run(size: usize, work: impl Fn(usize, &Barrier) + Sync) {
    let barrier = Barrier::new(size);
    let member = |thread: usize| {
        let _alarm = Alarm(&barrier);
        work(thread, &barrier);
    };
    std::thread::scope(|scope| {
        for thread in 0..size - 1 {
            let member = &member;
            scope.spawn(move || member(thread));
        }
        member(size - 1);
    });
}
