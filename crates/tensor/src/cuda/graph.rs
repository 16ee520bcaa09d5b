//! CUDA graphs: work that is recorded once and replayed as a whole, so that hundreds of launches become one.
//!
//! A replay uses the addresses of the recording, so everything that changes from one replay to the next must be in
//! memory, and the memory must live as long as the graph.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::{result, sys};

use super::array::Array;
use super::device::Cuda;
use crate::Result;

/// An executable CUDA graph.
#[derive(Debug)]
pub struct CudaGraph {
    cuda: Arc<Cuda>,
    executable: sys::CUgraphExec,
    _recorded: Recorded,
    /// Arrays that it reads and nobody else retains.
    _reads: Vec<Array>,
}

// SAFETY: a graph may be launched from any thread that has bound the context; it is not changed after its creation.
unsafe impl Send for CudaGraph {}

/// A captured graph, before it is made executable.
#[derive(Debug)]
struct Recorded(sys::CUgraph);

impl Drop for Recorded {
    fn drop(&mut self) {
        // SAFETY: this is the only owner of the handle.
        let _ = unsafe { result::graph::destroy(self.0) };
    }
}

/// A recording in progress; it ends also after a panic.
struct Recording<'a> {
    cuda: &'a Cuda,
    is_over: bool,
}

impl<'a> Recording<'a> {
    fn begin(cuda: &'a Cuda) -> Result<Self> {
        // Relaxed: memory may be allocated and kernels loaded meanwhile.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives as long as the device, and is not recording yet.
        cuda.note_result(
            unsafe { result::stream::begin_capture(cuda.main_stream(), mode) },
            "beginning to record",
        );
        cuda.check()?;
        cuda.recording.store(true, Ordering::Relaxed);
        Ok(Self { cuda, is_over: false })
    }

    /// Ends the recording: returns the graph and the arrays that it reads.
    fn end(&mut self) -> (std::result::Result<Recorded, result::DriverError>, Vec<Array>) {
        self.is_over = true;
        self.cuda.join_branch();
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

impl CudaGraph {
    /// Records what `work` queues, without running it. What `work` allocates must not outlive it, except for its
    /// result, which is valid until another graph is replayed.
    ///
    /// # Errors
    /// If `work` failed or did something that cannot be recorded.
    pub fn record<T>(cuda: &Arc<Cuda>, work: impl FnOnce() -> Result<T>) -> Result<(T, Self)> {
        cuda.synchronize()?;
        let mut recording = Recording::begin(cuda)?;
        let result = cuda.scratch(work);
        let (recorded, reads) = recording.end();
        let result = result?;
        cuda.check()?;
        let Some(recorded) = cuda.note_result(recorded, "recording") else {
            return Err(cuda.check().expect_err("an error was recorded"));
        };
        let mut executable = std::ptr::null_mut();
        // SAFETY: the graph was just created.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut executable, recorded.0, 0).result() };
        cuda.note_result(made, "preparing a recording");
        cuda.check()?;
        Ok((result, Self { cuda: Arc::clone(cuda), executable, _recorded: recorded, _reads: reads }))
    }

    /// Queues the recorded work again.
    pub fn replay(&self) {
        if !self.cuda.has_failed() {
            self.cuda.bind();
            // SAFETY: the executable lives as long as this graph.
            let answer = unsafe { result::graph::launch(self.executable, self.cuda.main_stream()) };
            self.cuda.note_result(answer, "replaying a recording");
        }
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        self.cuda.bind();
        // SAFETY: this is the only owner of the handle; the driver lets a running launch finish.
        let _ = unsafe { result::graph::exec_destroy(self.executable) };
    }
}
