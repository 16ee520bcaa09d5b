//! Work recorded once and replayed as a whole: hundreds of launches become one.
//!
//! What a recording did on addresses of memory it will do again on the same addresses, so everything that changes from one
//! replay to the next must stand in memory, and the memory must be there as long as the graph.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::{result, sys};

use super::array::Array;
use super::device::Cuda;
use crate::Result;

/// A recorded sequence of work.
#[derive(Debug)]
pub struct Graph {
    cuda: Arc<Cuda>,
    executable: sys::CUgraphExec,
    _recorded: Recorded,
    /// What it reads and nobody else keeps.
    _reads: Vec<Array>,
}

// SAFETY: a graph may be launched from any thread that has bound the context; it is not changed after its making.
unsafe impl Send for Graph {}

/// What was recorded, before it can be launched.
#[derive(Debug)]
struct Recorded(sys::CUgraph);

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: nobody else has this handle.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

/// A recording that is going on; it ends also after a panic.
struct Recording<'a> {
    cuda: &'a Cuda,
    is_over: bool,
}

impl<'a> Recording<'a> {
    fn begin(cuda: &'a Cuda) -> Result<Self> {
        // Relaxed: memory may be asked for and kernels loaded meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives as long as the card, and is not recording yet.
        cuda.keep(unsafe { result::stream::begin_capture(cuda.main_stream(), mode) }, "beginning to record");
        cuda.check()?;
        cuda.recording.store(true, Ordering::Relaxed);
        Ok(Self { cuda, is_over: false })
    }

    /// Ends it: what was recorded, and what that reads.
    fn end(&mut self) -> (std::result::Result<Recorded, result::DriverError>, Vec<Array>) {
        self.is_over = true;
        self.cuda.meet();
        self.cuda.recording.store(false, Ordering::Relaxed);
        // SAFETY: the stream is recording.
        let ended = unsafe { result::stream::end_capture(self.cuda.main_stream()) };
        (ended.map(Recorded), self.cuda.take_recorded())
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.end());
        }
    }
}

impl Graph {
    /// Records what `work` queues, without running it. What `work` makes must not be kept, except in what it returns, and
    /// there only as long as no other graph is replayed.
    ///
    /// # Errors
    /// If `work` failed or did what cannot be recorded.
    pub fn record<T>(cuda: &Arc<Cuda>, work: impl FnOnce() -> Result<T>) -> Result<(T, Self)> {
        cuda.synchronize()?;
        let mut recording = Recording::begin(cuda)?;
        let result = cuda.scratch(work);
        let (recorded, reads) = recording.end();
        let result = result?;
        cuda.check()?;
        let Some(recorded) = cuda.keep(recorded, "recording") else {
            return Err(cuda.check().expect_err("kept"));
        };
        let mut executable = std::ptr::null_mut();
        // SAFETY: the graph was just made.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut executable, recorded.0, 0).result() };
        cuda.keep(made, "preparing a recording");
        cuda.check()?;
        Ok((result, Self { cuda: Arc::clone(cuda), executable, _recorded: recorded, _reads: reads }))
    }

    /// Queues the whole work again.
    pub fn replay(&self) {
        if !self.cuda.has_failed() {
            self.cuda.bind();
            // SAFETY: the executable lives as long as this graph.
            let answer = unsafe { result::graph::launch(self.executable, self.cuda.main_stream()) };
            self.cuda.keep(answer, "replaying a recording");
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.cuda.bind();
        // SAFETY: nobody else has this handle; the driver lets a launch that runs come to its end.
        let _ = unsafe { result::graph::exec_destroy(self.executable) };
    }
}
