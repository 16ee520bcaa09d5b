//! Loads a model folder onto a device.

use std::path::Path;

use polyhead_models::checkpoint::{self, Checkpoint};
use polyhead_tensor::{Device, Dtype};

use crate::{Error, Result};

/// Options for loading a model folder.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The device that computes; default: the CPU.
    pub device: Device,
    /// The dtype of the weights; default: that of the files. Int8 is smaller and faster, and slightly less accurate.
    pub dtype: Dtype,
}

/// Loads the model of a folder in the format of Polyhead, Hugging Face's Marian (OPUS-MT), PyTorch or fairseq.
///
/// # Errors
/// If the folder lacks a config or weights, or if they do not match.
pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Checkpoint> {
    let LoadOptions { device, dtype } = options;
    if device.policy().packs_weights {
        return Ok(checkpoint::load(folder, Some(*dtype))?);
    }
    let mut loaded = checkpoint::load(folder, None)?;
    if *dtype == Dtype::Int8 {
        let message = format!("int8 on {}, expected f32, tf32 or bf16", device.name());
        return Err(Error::request(message, "only the CPU computes with int8"));
    }
    // An int8 model is dequantised.
    loaded.parameters.unprepare();
    // Frozen parameters need no memory for gradients.
    loaded.parameters.freeze_all();
    let moved = device.in_turn(|| loaded.parameters.to_device(device));
    loaded.parameters = moved.map_err(polyhead_models::Error::from)?;
    Ok(loaded)
}

/// Checks that `folder` is a folder.
///
/// # Errors
/// If it is a file, or does not exist.
pub fn check_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let found = if folder.exists() { "a file" } else { "no such folder" };
    let message = format!("{found}, expected a model folder");
    Err(Error::file(folder, message, "check the spelling and the current folder"))
}
