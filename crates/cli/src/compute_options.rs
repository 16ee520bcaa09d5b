//! Where a model runs: device, dtype and threads.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_engine::LoadOptions;

use crate::compute_dtype::{ComputeDtype, device_name};
use crate::model_folder::{report_loaded, resolve};
use crate::option_help::{DEVICE, DTYPE, THREADS};
use crate::report::thread_pool;

/// Options of a command that runs a model of `engine`.
#[derive(Debug, Args)]
pub(crate) struct ComputeOptions {
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Compute", help = DEVICE,
          value_parser = device_name)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

impl ComputeOptions {
    /// Loads a model and works with it, on the threads and the device that the options name.
    pub(crate) fn with_model<M: Send + Sync>(
        &self,
        model: &Path,
        load: impl FnOnce(&Path, &LoadOptions) -> polyhead_engine::Result<M> + Send,
        work: impl FnOnce(&M) -> Result<()> + Send,
    ) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let (device, dtype) = self.dtype.open(&self.device)?;
            let folder = resolve(model)?;
            let loaded = load(&folder, &LoadOptions { device: device.clone(), dtype })?;
            report_loaded(&folder, &device, self.dtype.name(), start);
            work(&loaded)
        })
    }
}
