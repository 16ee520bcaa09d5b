//! The three libraries that a GPU needs, found at run time: the driver, NVRTC (compiles kernels) and cuBLASLt
//! (products).
//!
//! The program is built without any of them. A missing library is an error with a hint, not a crash.

use cudarc::{cublaslt, driver, nvrtc};

use crate::{Error, Result};

/// Oldest CUDA version that the driver must support: machine code of the compiler needs it.
pub(super) const OLDEST_DRIVER: i32 = 13000;

/// Returns a device error with a hint.
pub(super) fn device_error<T>(what: impl Into<String>, hint: &'static str) -> Result<T> {
    Err(Error::Device { what: what.into(), hint })
}

/// Formats a CUDA version: 13000 → "13.0".
pub(super) fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Newest CUDA version that the driver supports, if there is a usable driver.
pub(super) fn driver_version() -> Result<i32> {
    // SAFETY: loads the library by its usual name and calls nothing in it.
    if !unsafe { driver::sys::is_culib_present() } {
        return device_error(
            "no NVIDIA driver: libcuda is not found",
            "check that this machine has an NVIDIA GPU and that its driver is installed",
        );
    }
    let mut version = 0;
    // SAFETY: writes one integer; every driver has this function.
    let status = unsafe { driver::sys::cuDriverGetVersion(&raw mut version) };
    if status != driver::sys::CUresult::CUDA_SUCCESS {
        return device_error(
            format!("the NVIDIA driver does not respond ({status:?})"),
            "check that nvidia-smi works",
        );
    }
    if version < OLDEST_DRIVER {
        let [found, needed] = [version, OLDEST_DRIVER].map(version_text);
        return device_error(
            format!("the NVIDIA driver supports CUDA {found}, expected {needed} or newer"),
            "install a newer NVIDIA driver (580 or later)",
        );
    }
    Ok(version)
}

/// Checks that kernels can be compiled and products computed.
pub(super) fn check_libraries() -> Result<()> {
    // SAFETY: loads the library by its usual names and calls nothing in it.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        return device_error(
            "libnvrtc, which compiles kernels, is not found",
            "install the CUDA 13 toolkit or the package nvidia-cuda-nvrtc, and add its folder to LD_LIBRARY_PATH",
        );
    }
    // SAFETY: loads the library by its usual names and calls nothing in it.
    if !unsafe { cublaslt::sys::is_culib_present() } {
        return device_error(
            "libcublasLt, which multiplies matrices, is not found",
            "install the CUDA 13 toolkit or the package nvidia-cublas, and add its folder to LD_LIBRARY_PATH",
        );
    }
    Ok(())
}

/// Version of NVRTC, part of the file names of compiled kernels.
pub(super) fn compiler_version() -> String {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two integers; the library was found before.
    unsafe { nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    format!("{major}.{minor}")
}
