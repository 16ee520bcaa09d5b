//! The three libraries a card needs, found at run time: the driver, NVRTC (which compiles kernels) and cuBLASLt (products).
//!
//! The program is built without any of them. A library that is missing is an obstacle that can be told, not a crash.

use cudarc::{cublaslt, driver, nvrtc};

use crate::{Error, Result};

/// The oldest CUDA that a driver must know: machine code of our compiler needs it.
pub(super) const OLDEST_DRIVER: i32 = 13000;

/// The error that something about a card is not as it must be.
pub(super) fn obstacle<T>(what: impl Into<String>, hint: &'static str) -> Result<T> {
    Err(Error::Device { what: what.into(), hint })
}

/// 13000 → "13.0".
pub(super) fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The version of CUDA that the driver knows, once there is a driver that can be used.
pub(super) fn driver_version() -> Result<i32> {
    // SAFETY: loads a library by its usual name and asks it nothing.
    if !unsafe { driver::sys::is_culib_present() } {
        return obstacle(
            "no NVIDIA driver: libcuda is not found",
            "is there a card, and its driver installed?",
        );
    }
    let mut version = 0;
    // SAFETY: writes one number; every driver has this function.
    let status = unsafe { driver::sys::cuDriverGetVersion(&raw mut version) };
    if status != driver::sys::CUresult::CUDA_SUCCESS {
        return obstacle(format!("the driver does not answer ({status:?})"), "does nvidia-smi work?");
    }
    if version < OLDEST_DRIVER {
        let [found, needed] = [version, OLDEST_DRIVER].map(version_text);
        return obstacle(
            format!("the driver knows CUDA {found}, expected {needed} or newer"),
            "install a newer NVIDIA driver (580 or later)",
        );
    }
    Ok(version)
}

/// Whether kernels can be compiled and products computed.
pub(super) fn check_libraries() -> Result<()> {
    // SAFETY: loads a library by its usual names and asks it nothing.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        return obstacle(
            "libnvrtc, which compiles kernels, is not found",
            "install the CUDA 13 toolkit or the package nvidia-cuda-nvrtc, and add its folder to LD_LIBRARY_PATH",
        );
    }
    // SAFETY: as above.
    if !unsafe { cublaslt::sys::is_culib_present() } {
        return obstacle(
            "libcublasLt, which multiplies matrices, is not found",
            "install the CUDA 13 toolkit or the package nvidia-cublas, and add its folder to LD_LIBRARY_PATH",
        );
    }
    Ok(())
}

/// The version of NVRTC, for the names of compiled kernels.
pub(super) fn compiler_version() -> String {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers; the library was found before.
    unsafe { nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    format!("{major}.{minor}")
}
