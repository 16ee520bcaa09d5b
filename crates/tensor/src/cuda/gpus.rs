//! The GPUs of a machine, before one is opened.

use cudarc::driver::{result, sys};

use super::device::describe;
use super::library::{self, device_error};
use crate::{Error, Result};

/// Minimum compute capability: bf16 products need it.
const OLDEST_CAPABILITY: (i32, i32) = (8, 0);

/// Properties of a GPU before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaDeviceInfo {
    /// Its index.
    pub ordinal: usize,
    /// Product name.
    pub name: String,
    /// Total memory in bytes.
    pub memory: usize,
    /// Compute capability, such as (9, 0).
    pub capability: (i32, i32),
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Newest CUDA version that the driver supports, such as 13.0.
    pub driver: String,
}

impl CudaDeviceInfo {
    /// Checks that its compute capability is high enough.
    ///
    /// # Errors
    /// If it is not.
    pub fn check(&self) -> Result<()> {
        let Self { name, capability: (major, minor), .. } = self;
        if self.capability < OLDEST_CAPABILITY {
            let (needed_major, needed_minor) = OLDEST_CAPABILITY;
            return device_error(
                format!(
                    "{name} has compute capability {major}.{minor}, expected {needed_major}.{needed_minor} or more"
                ),
                "use a GPU of the Ampere generation (A100, RTX 30) or newer",
            );
        }
        Ok(())
    }
}

/// Lists all GPUs of this machine.
///
/// # Errors
/// If there is no driver, or it is too old.
pub fn gpus() -> Result<Vec<CudaDeviceInfo>> {
    let driver = library::version_text(library::driver_version()?);
    let failed = |error: result::DriverError| Error::Device {
        what: format!("the NVIDIA driver does not start: {}", describe(error)),
        hint: "check that nvidia-smi works",
    };
    match result::init() {
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    }
    let count = result::device::get_count().map_err(failed)?;
    (0..count)
        .map(|ordinal| {
            use sys::CUdevice_attribute as A;
            let device = result::device::get(ordinal)?;
            // SAFETY: `device` is a device of this machine.
            let attribute = |which: A| unsafe { result::device::get_attribute(device, which) };
            Ok(CudaDeviceInfo {
                ordinal: ordinal as usize,
                name: result::device::get_name(device)?,
                // SAFETY: `device` is a device of this machine.
                memory: unsafe { result::device::total_mem(device)? },
                capability: (
                    attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                    attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
                ),
                multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
                driver: driver.clone(),
            })
        })
        .collect::<std::result::Result<_, _>>()
        .map_err(failed)
}
