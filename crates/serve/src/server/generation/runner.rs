//! The runner of a language model: a thread that steps its running batch as long as there is work.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use polyhead_engine::Generator;

use super::running::RunningBatch;
use super::turns::Turns;
use super::{GenerationPool, TextJob};
use crate::front::rate::Client;
use crate::server::queue::QueueFull;
use crate::{Error, Result};

/// A thread that generates the texts of one model.
#[derive(Debug)]
pub(super) struct Runner {
    shared: Arc<RunnerQueue>,
    thread: Option<JoinHandle<()>>,
}

/// The queue of a runner.
#[derive(Debug)]
pub(super) struct RunnerQueue {
    state: Mutex<QueueState>,
    filled: Condvar,
}

#[derive(Debug)]
pub(super) struct QueueState {
    pub(super) turns: Turns<WaitingText>,
    is_closed: bool,
}

/// A text that waits for its turn.
#[derive(Debug)]
pub(super) struct WaitingText {
    pub(super) job: TextJob,
    /// The number under which the batch keeps it, if it has begun.
    pub(super) paused: Option<u64>,
}

impl Runner {
    pub(super) fn start(generator: Arc<Generator>, name: &str, pool: &Arc<GenerationPool>) -> Result<Self> {
        let turns = Turns::new(pool.waiting);
        let state = Mutex::new(QueueState { turns, is_closed: false });
        let shared = Arc::new(RunnerQueue { state, filled: Condvar::new() });
        let threads = rayon::ThreadPoolBuilder::new().num_threads(pool.threads).build();
        let threads = threads.map_err(|error| Error::Server(std::io::Error::other(error)))?;
        let (queue, pool) = (shared.clone(), pool.clone());
        let thread = std::thread::Builder::new().name(format!("generate-{name}"));
        let work = move || threads.install(|| RunningBatch::new(&generator, &queue, &pool).run());
        let thread = thread.spawn(work).map_err(Error::Server)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues texts of a client; none if there is no room.
    pub(super) fn push(&self, client: &Client, jobs: Vec<TextJob>) -> std::result::Result<(), QueueFull> {
        let waiting = jobs.into_iter().map(|job| WaitingText { job, paused: None }).collect();
        let mut state = self.shared.lock();
        if state.is_closed {
            return Err(QueueFull::Total(state.turns.waiting()));
        }
        state.turns.push(client, waiting)?;
        drop(state);
        self.shared.filled.notify_all();
        Ok(())
    }

    /// Refuses new texts, and waits until the others are finished or abandoned.
    pub(super) fn close(mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // A runner that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl RunnerQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are texts; `None` once the queue is closed and empty.
    pub(super) fn wait(&self) -> Option<MutexGuard<'_, QueueState>> {
        let mut state = self.lock();
        while state.turns.waiting() == 0 {
            if state.is_closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(state)
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }
}
