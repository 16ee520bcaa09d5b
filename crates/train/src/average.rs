//! The mean of several checkpoints' weights.
//!
//! Vaswani et al. 2017 average the last 5 or 20 checkpoints: the mean of weights near the end of a run is mostly better than
//! any one of them.

use std::path::PathBuf;

use polyhead_models::Model;
use polyhead_models::checkpoint::{Checkpoint, load};
use polyhead_tensor::{Parameters, Tensor};

use crate::{Error, Result};

/// An averaged model.
#[derive(Debug)]
pub struct Averaged {
    /// The model; its config is that of every folder.
    pub model: Model,
    /// Its weights.
    pub parameters: Parameters,
}

/// Averages the models in `folders`, loading one at a time.
///
/// # Errors
/// If there is none, one cannot be read, or their configs differ.
pub fn average(folders: &[PathBuf]) -> Result<Averaged> {
    let Some((first, others)) = folders.split_first() else {
        return Err(Error::config(
            "average",
            "no checkpoint, expected one or more",
            "name the checkpoint folders",
        ));
    };
    let Checkpoint { model, mut parameters, .. } = load(first, None)?;
    if others.is_empty() {
        return Ok(Averaged { model, parameters });
    }
    let config = model.config();
    let numbers = |parameters: &Parameters| -> Vec<Vec<f64>> {
        parameters.iter().map(|(_, _, value)| value.data().iter().map(|&x| f64::from(x)).collect()).collect()
    };
    let mut sums = numbers(&parameters);
    for folder in others {
        let Checkpoint { model: other, parameters: more, .. } = load(folder, None)?;
        if other.config() != config {
            let message = format!("its config differs from that of {}", first.display());
            return Err(Error::run(folder, message, "only checkpoints of one run can be averaged"));
        }
        for (sums, (_, _, value)) in sums.iter_mut().zip(more.iter()) {
            sums.iter_mut().zip(value.data()).for_each(|(sum, &x)| *sum += f64::from(x));
        }
    }
    let ids: Vec<_> = parameters.declared().map(|(id, _, shape)| (id, shape.to_vec())).collect();
    for ((id, shape), sums) in ids.into_iter().zip(sums) {
        let mean = sums.into_iter().map(|sum| (sum / folders.len() as f64) as f32).collect();
        parameters.set(id, Tensor::new(&shape, mean));
    }
    Ok(Averaged { model, parameters })
}
