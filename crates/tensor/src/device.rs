//! Where numbers live and operations run.
//!
//! This is the seam for other devices: above this crate, code calls [`ops`](crate::ops) on [`Tensor`](crate::Tensor)s and
//! never sees a buffer, a kernel or a thread. A tensor knows its device, and an operation runs where its inputs are.
//!
//! ```
//! use polyhead_tensor::device::{Device, Math};
//! assert_eq!(Device::open("cpu", Math::F32)?.name(), "cpu");
//! # Ok::<(), polyhead_tensor::Error>(())
//! ```

use std::fmt;

use crate::error::Error;
use crate::{Result, error};

/// A device; cloning names the same one.
#[derive(Debug, Clone, Default)]
pub enum Device {
    /// The processor, all threads of the current pool.
    #[default]
    Cpu,
}

/// How a device multiplies matrices and keeps activations; parameters, their gradients and all sums are f32 throughout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Math {
    /// Products of f32, as the processor computes them.
    #[default]
    F32,
    /// Products of f32 whose factors are rounded to 10 bits.
    Tf32,
    /// Activations and the factors of products have 7 bits.
    Bf16,
}

impl Math {
    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for Math {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Device {
    /// The device called `cpu`, `cuda`, `cuda:N`, or `auto`: a card where one can be used, else the processor.
    ///
    /// # Errors
    /// If there is no such device, it cannot be used, or it cannot compute so.
    pub fn open(name: &str, math: Math) -> Result<Self> {
        match name {
            "cpu" if math != Math::F32 => error::device(
                format!("the processor computes in f32, not in {math}"),
                "leave the numbers to compute with out, or choose a card",
            ),
            "cpu" => Ok(Self::Cpu),
            "auto" => Ok(Self::Cpu),
            _ if name == "cuda" || name.starts_with("cuda:") => Err(Self::no_card()),
            _ => error::device(
                format!("there is no device {name:?}, expected auto, cpu, cuda or cuda:0"),
                "polyhead devices lists what there is",
            ),
        }
    }

    /// Why no card can be used; none where one can.
    pub fn obstacle() -> Option<Error> {
        Some(Self::no_card())
    }

    fn no_card() -> Error {
        Error::Device {
            what: "this program was built without CUDA".into(),
            hint: "build it with: cargo build --release --features cuda",
        }
    }

    /// Its name in options and reports.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
        }
    }

    /// Whether it is the processor.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }
}
