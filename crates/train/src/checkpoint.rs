//! Checkpoints of a run: a model folder, plus everything that the trainer needs to resume exactly.
//!
//! ```text
//! RUN/checkpoints/step-00001200/           a model folder that `polyhead translate` loads
//!     SHA256SUMS                           checksums of its files, for `sha256sum -c`
//!     trainer/state.json                   step, position, validations, …
//!     trainer/model.safetensors            parameters, Adam moments, moving average, by our own parameter names
//!     trainer/SHA256SUMS
//! ```
//!
//! A checkpoint is written under a temporary name, every file is flushed to disk, then it is renamed: it is complete or absent.
//! Older checkpoints lose their `trainer` folder, so that many can be kept for averaging.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use polyhead_models::checkpoint::safetensors::{self, Array, ArrayData, TensorFile, WriteOptions};
use polyhead_tensor::{Parameters, Tensor};
use polyhead_text::output::Output;

use crate::fingerprint::Fingerprint;
use crate::learner::Weights;
use crate::state::TrainerState;
use crate::{Error, Result};

const SUMS: &str = "SHA256SUMS";
const TRAINER: &str = "trainer";
const STATE: &str = "state.json";
const WEIGHTS: &str = "model.safetensors";
/// Number of newest checkpoints that a run can resume from.
const RESUMABLE: usize = 2;

/// The checkpoints of a run.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
}

/// A damaged checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedCheckpoint {
    /// Its folder.
    pub path: PathBuf,
    /// Reason why it cannot be used.
    pub reason: String,
}

impl Checkpoints {
    /// The checkpoints of a run folder.
    pub fn of_run(run: &Path) -> Self {
        Self { folder: run.join("checkpoints") }
    }

    /// The checkpoint folder of a step.
    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.join(format!("step-{step:08}"))
    }

    /// All steps that have a checkpoint, ascending.
    pub fn steps(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut steps: Vec<u64> = entries
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok())
            .collect();
        steps.sort_unstable();
        steps
    }

    /// Starts a checkpoint: an empty folder under a temporary name.
    pub(crate) fn begin(&self, step: u64) -> Result<PendingFiles> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| Error::io(&self.folder, "create the folder", error))?;
        self.sweep();
        let temporary = self.folder.join(format!(".step-{step:08}.{}.tmp", std::process::id()));
        fs::create_dir(&temporary).map_err(|error| Error::io(&temporary, "create the folder", error))?;
        Ok(PendingFiles { temporary, path: self.path(step), parent: self.folder.clone() })
    }

    /// Removes temporary folders of a killed run.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_hidden = entry.file_name().to_str().is_some_and(|name| name.starts_with('.'));
            if is_hidden && path.extension().is_some_and(|extension| extension == "tmp") {
                // A folder that cannot be removed only takes space.
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    /// Loads the newest intact checkpoint into `weights`; returns its state, and newer checkpoints that are damaged.
    pub(crate) fn restore(&self, weights: &mut Weights) -> (Option<TrainerState>, Vec<DamagedCheckpoint>) {
        let mut damaged = Vec::new();
        for step in self.steps().into_iter().rev() {
            let path = self.path(step);
            if !path.join(TRAINER).is_dir() {
                // A checkpoint kept for averaging only.
                continue;
            }
            match read(&path, weights) {
                Ok(state) => return (Some(state), damaged),
                Err(error) => damaged.push(DamagedCheckpoint { path, reason: error.to_string() }),
            }
        }
        (None, damaged)
    }

    /// Removes checkpoints that are neither among the `keep_last` newest nor in `keep`.
    pub(crate) fn prune(&self, keep_last: usize, keep: &[u64]) -> Result<()> {
        let steps = self.steps();
        let newest = |count: usize| &steps[steps.len().saturating_sub(count)..];
        let (resumable, recent) = (newest(RESUMABLE), newest(keep_last.max(RESUMABLE)));
        for &step in steps.iter().filter(|step| !resumable.contains(step)) {
            let path = self.path(step);
            let obsolete =
                if recent.contains(&step) || keep.contains(&step) { path.join(TRAINER) } else { path };
            if obsolete.exists() {
                remove(&obsolete, &self.folder)?;
            }
        }
        Ok(())
    }
}

/// Renames before removing, so that a half-removed folder is never taken for an intact one.
fn remove(path: &Path, parent: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = parent.join(format!(".removed-{name}.{}.tmp", std::process::id()));
    let gone = fs::rename(path, &temporary).and_then(|()| fs::remove_dir_all(&temporary));
    gone.map_err(|error| Error::io(path, "remove", error))
}

/// A checkpoint under its temporary name; removed when dropped.
#[derive(Debug)]
pub(crate) struct PendingFiles {
    temporary: PathBuf,
    path: PathBuf,
    parent: PathBuf,
}

impl PendingFiles {
    /// The temporary folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.temporary
    }

    /// Adds the trainer's state and renames the checkpoint.
    pub(crate) fn finish(self, weights: &Weights, state: &TrainerState) -> Result<PathBuf> {
        let trainer = self.temporary.join(TRAINER);
        write_sums(&self.temporary)?;
        fs::create_dir(&trainer).map_err(|error| Error::io(&trainer, "create the folder", error))?;
        safetensors::write(
            &trainer,
            arrays(weights),
            WriteOptions { max_shard_bytes: u64::MAX, ..WriteOptions::default() },
        )?
        .finish()?;
        let text = serde_json::to_string_pretty(state).expect("a state is always JSON") + "\n";
        Output::save(trainer.join(STATE), text.as_bytes())?;
        write_sums(&trainer)?;
        sync(&trainer)?;
        sync(&self.temporary)?;
        if self.path.exists() {
            // The same step again, after a rollback: the old one is replaced.
            remove(&self.path, &self.parent)?;
        }
        fs::rename(&self.temporary, &self.path).map_err(|error| Error::io(&self.path, "write", error))?;
        sync(&self.parent)?;
        Ok(self.path.clone())
    }
}

impl Drop for PendingFiles {
    fn drop(&mut self) {
        // After the rename nothing is left to remove.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

fn sync(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|error| Error::io(folder, "write", error))
}

/// The files of a folder, sorted, without the checksum file.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let unread = |error| Error::io(folder, "read", error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        if path.is_file() && path.file_name().is_some_and(|name| name != SUMS) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Writes the checksums of a folder's files in the format of `sha256sum`.
pub(crate) fn write_sums(folder: &Path) -> Result<()> {
    let mut text = String::new();
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text += &format!("{}  {name}\n", Fingerprint::of(&path)?.sha256);
    }
    Ok(Output::save(folder.join(SUMS), text.as_bytes())?)
}

/// Checks a folder against its checksums.
pub(crate) fn check_sums(folder: &Path) -> Result<()> {
    let path = folder.join(SUMS);
    let text = fs::read_to_string(&path).map_err(|error| Error::io(&path, "open", error))?;
    for line in text.lines() {
        let (sum, name) = line.split_once("  ").unwrap_or((line, ""));
        let file = folder.join(name);
        if Fingerprint::of(&file)?.sha256 != sum {
            return Err(Error::run(
                &file,
                "checksum mismatch: the file changed after it was written",
                "restore it from a copy",
            ));
        }
    }
    Ok(())
}

/// The arrays that a run resumes from.
fn arrays(weights: &Weights) -> Vec<Array<'_>> {
    let mut arrays = Vec::new();
    for (id, name, value) in weights.parameters.iter() {
        arrays.push(array_of("parameter", name, value));
        if let Some([m, v]) = weights.adam.moments(id) {
            arrays.push(array_of("adam_m", name, m));
            arrays.push(array_of("adam_v", name, v));
        }
    }
    for (_, name, value) in weights.average.iter().flat_map(Parameters::iter) {
        arrays.push(array_of("average", name, value));
    }
    arrays
}

fn array_of<'a>(kind: &str, name: &str, tensor: &'a Tensor) -> Array<'a> {
    Array {
        name: format!("{kind}.{name}"),
        shape: tensor.shape().to_vec(),
        data: ArrayData::Floats(vec![tensor.data()]),
    }
}

fn read(folder: &Path, weights: &mut Weights) -> Result<TrainerState> {
    let trainer = folder.join(TRAINER);
    check_sums(folder)?;
    check_sums(&trainer)?;
    let path = trainer.join(STATE);
    let text = fs::read(&path).map_err(|error| Error::io(&path, "open", error))?;
    let state: TrainerState = serde_json::from_slice(&text)
        .map_err(|error| Error::run(&path, error.to_string(), "the checkpoint may be of another version"))?;
    let file = TensorFile::open(trainer.join(WEIGHTS))?;
    let declared: Vec<_> = weights
        .parameters
        .declared()
        .map(|(id, name, shape)| (id, name.to_owned(), shape.to_vec()))
        .collect();
    let tensor = |kind: &str, name: &str, shape: &[usize]| -> Result<Tensor> {
        let full = format!("{kind}.{name}");
        let tensor = file.tensor(&full)?;
        if tensor.shape() != shape {
            let message = format!("{full} is {:?}, expected {shape:?}", tensor.shape());
            return Err(Error::run(file.path(), message, "the config is not that of the run"));
        }
        Ok(tensor)
    };
    let mut moments = Vec::new();
    for (id, name, shape) in &declared {
        weights.parameters.set(*id, tensor("parameter", name, shape)?);
        if file.shape(&format!("adam_m.{name}")).is_some() {
            moments.push((*id, [tensor("adam_m", name, shape)?, tensor("adam_v", name, shape)?]));
        }
        if let Some(average) = &mut weights.average {
            average.set(*id, tensor("average", name, shape)?);
        }
    }
    weights.adam.restore(state.step, moments);
    Ok(state)
}
