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
    recorded: sys::CUgraph,
    executable: sys::CUgraphExec,
    /// What it reads and nobody else keeps.
    _reads: Vec<Array>,
}

// SAFETY: a graph may be launched from any thread that has bound the context; it is not changed after its making.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `work` queues, without running it. What `work` makes must not be kept, except in what it returns, and
    /// there only as long as no other graph is replayed.
    ///
    /// # Errors
    /// If `work` failed or did what cannot be recorded.
    pub fn record<T>(cuda: &Arc<Cuda>, work: impl FnOnce() -> Result<T>) -> Result<(T, Self)> {
        cuda.synchronize()?;
        // Relaxed: memory may be asked for and kernels loaded meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives as long as the card, and is not recording yet.
        cuda.keep(unsafe { result::stream::begin_capture(cuda.main_stream(), mode) }, "beginning to record");
        cuda.check()?;
        cuda.recording.store(true, Ordering::Relaxed);
        let result = cuda.scratch(work);
        cuda.meet();
        cuda.recording.store(false, Ordering::Relaxed);
        // SAFETY: as above; the recording is ended also after an error.
        let ended = unsafe { result::stream::end_capture(cuda.main_stream()) };
        let reads = cuda.take_recorded();
        let result = result?;
        cuda.check()?;
        let Some(graph) = cuda.keep(ended, "recording") else {
            return Err(cuda.check().expect_err("kept"));
        };
        let mut executable = std::ptr::null_mut();
        // SAFETY: the graph was just made.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).result() };
        cuda.keep(made, "preparing a recording");
        cuda.check()?;
        Ok((result, Self { cuda: Arc::clone(cuda), recorded: graph, executable, _reads: reads }))
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
        // SAFETY: nobody else has these handles; the driver waits for a launch that runs.
        unsafe {
            let _ = result::graph::exec_destroy(self.executable);
            let _ = result::graph::destroy(self.recorded);
        }
    }
}
