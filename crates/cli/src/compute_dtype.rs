//! `--dtype` and `--device`: the dtype that a command computes in, and the device it computes on.

use anyhow::Result;
use clap::ValueEnum;
use polyhead_tensor::{Device, Dtype, Math};
use serde::Serialize;

use crate::choices::Choices;
use crate::report::Misuse;

/// The dtype that a model computes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ComputeDtype {
    /// f32 throughout
    F32,
    /// f32, with tf32 matrix products; GPU only
    Tf32,
    /// bf16 activations and matrix products, f32 weights and sums; GPU only
    Bf16,
    /// int8 weights; CPU only
    Int8,
}

impl ComputeDtype {
    /// Dtypes that a model can be trained in.
    pub(crate) const TRAINING: Choices<Self> = Choices::new(&[Self::F32, Self::Tf32, Self::Bf16]);
    /// Dtypes of the CPU.
    pub(crate) const CPU: Choices<Self> = Choices::new(&[Self::F32, Self::Int8]);

    /// The arithmetic that a device is opened with; none for int8, which is a dtype of weights.
    pub(crate) fn math(self) -> Option<Math> {
        match self {
            Self::F32 => Some(Math::F32),
            Self::Tf32 => Some(Math::Tf32),
            Self::Bf16 => Some(Math::Bf16),
            Self::Int8 => None,
        }
    }

    /// The dtype as a recipe names it; none for int8.
    pub(crate) fn training(self) -> Option<Dtype> {
        match self {
            Self::F32 => Some(Dtype::F32),
            Self::Tf32 => Some(Dtype::Tf32),
            Self::Bf16 => Some(Dtype::Bf16),
            Self::Int8 => None,
        }
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.math().map_or("int8", Math::name)
    }

    /// Opens the device `name` for this dtype; returns it with the dtype of the loaded weights.
    pub(crate) fn open(self, name: &str) -> Result<(Device, Dtype)> {
        let misuse = |message: String, hint: &str| Misuse { message, hint: hint.into() };
        let Some(math) = self.math() else {
            // int8 runs on the CPU only, so `auto` is the CPU.
            return match name {
                "cpu" | "auto" => Ok((Device::Cpu, Dtype::Int8)),
                _ => Err(misuse(
                    format!("--dtype int8 on {name}, expected f32, tf32 or bf16 there"),
                    "int8 runs on the CPU: --device cpu",
                )
                .into()),
            };
        };
        let device = Device::open(name, math)?;
        if device.math() != math {
            let message = format!("--dtype {} on {}, expected f32 or int8 there", math.name(), device.name());
            return Err(misuse(message, "leave out --dtype, or choose a GPU with --device").into());
        }
        Ok((device, Dtype::F32))
    }
}

/// Parses the name of a device; that the device exists is checked when it is opened.
pub(crate) fn device_name(text: &str) -> Result<String, String> {
    Device::check_name(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}
