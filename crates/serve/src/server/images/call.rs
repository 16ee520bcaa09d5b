//! A call to an image classifier: size → memory → queue → classes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use polyhead_engine::classify::Class;
use polyhead_engine::image::{ImageLimits, ImageSummary, decode};
use tokio::sync::oneshot;

use super::{LoadedImages, QueuedImage};
use crate::Error;
use crate::blocking::blocking;
use crate::front::budget::MemoryReservation;
use crate::front::rate::Client;
use crate::server::routes::{ServerState, reserve};
use crate::server::scheduler::{Scheduler, Slice};
use crate::server::work::QueuedWork;

/// Bytes for each pixel while it is decoded: coefficients of a progressive JPEG, the pixels, turned and resized.
const PIXEL: usize = 16;

/// A checked call.
#[derive(Debug)]
pub(crate) struct ImageCall {
    pub(crate) client: Client,
    /// Name of the model; default: the first.
    pub(crate) model: Option<String>,
    /// A PNG or JPEG file.
    pub(crate) file: Bytes,
    pub(crate) deadline: Instant,
}

impl ImageCall {
    /// The classes of the image, the most probable first. The reservation is that of the request, and grows by what the work
    /// needs.
    pub(crate) async fn run(
        self,
        state: &ServerState,
        memory: &mut MemoryReservation,
    ) -> Result<Vec<Class>, Error> {
        let deadline = self.deadline;
        let late = || {
            let seconds = state.limits.deadline.as_secs();
            state.scheduler.busy(format!("the image was not classified within the deadline of {seconds} s"))
        };
        let answer = tokio::time::timeout_at(deadline.into(), self.answer(state, memory)).await;
        answer.unwrap_or_else(|_| Err(late()))
    }

    async fn answer(self, state: &ServerState, memory: &mut MemoryReservation) -> Result<Vec<Class>, Error> {
        let limits = ImageLimits { max_megapixels: state.limits.megapixels };
        let size = decode::measure(&self.file, Path::new("image"), limits)
            .map_err(|error| Error::unreadable(&error))?;
        let pixels = size[0] * size[1];
        let scheduler = state.scheduler.clone();
        let summary = scheduler.image_summary(self.model.as_deref())?;
        reserve(memory, self.file.len() + PIXEL * pixels + working_bytes(&summary), "the image")?;
        let Self { client, model, file, deadline } = self;
        let loaded = blocking(move || scheduler.images(model.as_deref())).await?;
        let (reply, classes) = oneshot::channel();
        let image = QueuedImage { loaded, file, limits, pixels, reply };
        let scheduler = &state.scheduler;
        scheduler.check_work([image.work(); 2], &scheduler.pool.image_counters.meter, deadline)?;
        scheduler.queue(&client, vec![QueuedWork::Image(image)], Slice::First).await?;
        classes.await.unwrap_or_else(|_| Err(scheduler.busy("the server is shutting down".into())))
    }
}

/// Bytes for the states of an image, and its classes.
fn working_bytes(summary: &ImageSummary) -> usize {
    let labels: usize = summary.labels.iter().map(|label| label.len() + 64).sum();
    16 * summary.length * summary.d_model * size_of::<f32>() + labels
}

impl Scheduler {
    /// An image classifier by its name, default: the first; loads it if necessary, which may take a while.
    ///
    /// # Errors
    /// 404 if no model has this name, or if it cannot be loaded.
    pub(crate) fn images(&self, model: Option<&str>) -> crate::Result<Arc<LoadedImages>> {
        let found = self.registry.images(model)?;
        self.plan_memory();
        Ok(found)
    }
}
