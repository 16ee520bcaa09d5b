//! Work that is done again and again in the same form: as it is the first time, recorded the second time, and replayed from
//! then on. What changes from one time to the next stands in memory of the device.

use crate::Error;
use crate::device::{Device, Graph};
use crate::tensor::Tensor;

/// One piece of work and its recording. On the processor it is simply done.
#[derive(Debug, Default)]
pub struct Repeated {
    /// What the work hangs on.
    form: Vec<usize>,
    recorded: Option<(Tensor, Graph)>,
}

impl Repeated {
    /// Does `work`, or replays it where it was recorded in this form. Its result must outlive the recording, and is written
    /// over the next time.
    ///
    /// # Errors
    /// If `work` fails, or does what cannot be recorded.
    pub fn run<E: From<Error>>(
        &mut self,
        device: &Device,
        form: &[usize],
        work: impl FnOnce() -> Result<Tensor, E>,
    ) -> Result<Tensor, E> {
        if device.is_cpu() {
            return work();
        }
        if self.form != form {
            (self.form, self.recorded) = (form.to_vec(), None);
            return work();
        }
        if self.recorded.is_none() {
            self.recorded = Some(device.record(work)?);
        }
        let (result, graph) = self.recorded.as_ref().expect("just recorded");
        graph.replay();
        Ok(result.clone())
    }
}
