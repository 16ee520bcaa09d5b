//! A model folder, read for a device.

use std::path::Path;

use polyhead_models::checkpoint::{self, Checkpoint};
use polyhead_tensor::{Device, Precision};

use crate::{Error, Result};

/// How a folder is read.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Where the model computes; default: the CPU.
    pub device: Device,
    /// What weights are held as; default: as they are in the files. Int8 is smaller and faster, and a little less exact.
    pub precision: Precision,
}

/// Reads the model of a folder of ours, of Hugging Face's Marian or OPUS-MT, or of fairseq.
///
/// # Errors
/// If the folder lacks a config or weights, or if they do not fit together.
pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Checkpoint> {
    let LoadOptions { device, precision } = options;
    if device.policy().packs_weights {
        return Ok(checkpoint::load(folder, Some(*precision))?);
    }
    let mut found = checkpoint::load(folder, None)?;
    if *precision == Precision::Int8 {
        let message = format!("int8 on {}, expected f32, tf32 or bf16 there", device.name());
        return Err(Error::request(message, "only the CPU computes with int8"));
    }
    // An int8 folder is read as the numbers that it stands for.
    found.parameters.unprepare();
    // Frozen parameters need no memory for gradients.
    found.parameters.freeze_all();
    let moved = device.in_turn(|| found.parameters.to_device(device));
    found.parameters = moved.map_err(polyhead_models::Error::from)?;
    Ok(found)
}

/// Refuses what is no folder.
///
/// # Errors
/// If `folder` is a file, or is not there.
pub fn check_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let found = if folder.exists() { "a file" } else { "no such folder" };
    let message = format!("{found}, expected the folder of a model");
    Err(Error::file(folder, message, "check the spelling and the current folder"))
}
