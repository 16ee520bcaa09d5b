//! The weights of a model folder: `model.safetensors`, or shards that `model.safetensors.index.json` lists; without them
//! PyTorch's `pytorch_model.bin`, whole or in shards.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polyhead_tensor::{Dtype, Tensor};
use polyhead_text::whole;
use serde::Deserialize;

use super::file::TensorFile;
use crate::{Error, Result};

/// The file of an unsharded model.
pub(super) const WHOLE: &str = "model.safetensors";
/// The file that maps each tensor to its shard.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// The same for PyTorch's files.
const TORCH_WHOLE: &str = "pytorch_model.bin";
const TORCH_INDEX: &str = "pytorch_model.bin.index.json";

/// All tensors of a model folder.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    files: Vec<TensorFile>,
    /// The index in `files` of each tensor.
    shards: BTreeMap<String, usize>,
}

#[derive(Debug, Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Opens the weights of `folder`; only headers are read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        for (whole, index) in [(WHOLE, INDEX), (TORCH_WHOLE, TORCH_INDEX)] {
            let [whole, index] = [whole, index].map(|name| folder.join(name));
            if whole.exists() {
                return Ok(Self::whole(TensorFile::open(whole)?));
            }
            if index.exists() {
                return Self::sharded(folder, index);
            }
        }
        Err(no_weights(folder))
    }

    /// True if `folder` has weights, valid or not.
    pub fn exist_in(folder: impl AsRef<Path>) -> bool {
        [WHOLE, INDEX, TORCH_WHOLE, TORCH_INDEX].iter().any(|name| folder.as_ref().join(name).exists())
    }

    /// Empty weights, for a folder without any.
    pub(crate) fn none(folder: &Path) -> Result<Self> {
        let empty = [&2_u64.to_le_bytes()[..], b"{}"].concat();
        Ok(Self::whole(TensorFile::from_bytes(folder.join(WHOLE), empty)?))
    }

    /// The weights of one file.
    pub fn whole(file: TensorFile) -> Self {
        let shards = file.names().map(|name| (name.to_owned(), 0)).collect();
        Self { path: file.path().to_owned(), files: vec![file], shards }
    }

    fn sharded(folder: &Path, path: PathBuf) -> Result<Self> {
        let index = read_index(&path)?;
        let mut names: Vec<&String> = index.weight_map.values().collect();
        names.sort();
        names.dedup();
        let files = names.iter().map(|shard| open_shard(folder, &path, shard)).collect::<Result<Vec<_>>>()?;
        let mut shards = BTreeMap::new();
        for (name, shard) in &index.weight_map {
            let position = names.binary_search(&shard).expect("every shard is in the list");
            if files[position].shape(name).is_none() {
                let message = format!("the index lists tensor {name} in {shard}, which does not contain it");
                return Err(Error::file(
                    &path,
                    message,
                    "index and shards belong to different models; download them again",
                ));
            }
            shards.insert(name.clone(), position);
        }
        for (position, file) in files.iter().enumerate() {
            if let Some(name) = file.names().find(|name| shards.get(*name) != Some(&position)) {
                let message = format!("tensor {name} in {} is missing from the index", names[position]);
                return Err(Error::file(
                    &path,
                    message,
                    "index and shards belong to different models; download them again",
                ));
            }
        }
        Ok(Self { path, files, shards })
    }

    /// The file, or the index of the shards.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file or the shards.
    pub fn files(&self) -> &[TensorFile] {
        &self.files
    }

    /// All names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shards.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.file(name)?.shape(name)
    }

    /// The dtype of a tensor.
    pub fn dtype(&self, name: &str) -> Option<Dtype> {
        self.file(name)?.dtype(name)
    }

    /// A floating-point tensor, converted to f32.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let message = || {
            Error::file(&self.path, format!("no tensor {name}"), "do the weights belong to another model?")
        };
        self.file(name).ok_or_else(message)?.tensor(name)
    }

    /// Releases the mapped pages of a tensor that has been read.
    pub(crate) fn forget(&self, name: &str) {
        if let Some(file) = self.file(name) {
            file.forget(name);
        }
    }

    /// An int8 tensor, row by row.
    pub fn int8(&self, name: &str) -> Result<Vec<i8>> {
        let message = || {
            Error::file(&self.path, format!("no tensor {name}"), "do the weights belong to another model?")
        };
        self.file(name).ok_or_else(message)?.int8(name)
    }

    fn file(&self, name: &str) -> Option<&TensorFile> {
        self.shards.get(name).map(|&position| &self.files[position])
    }
}

/// Files of an older model in `folder` that are not in `keep`: its shards, its single file and its index.
pub(super) fn superseded(folder: &Path, keep: &[PathBuf]) -> Vec<PathBuf> {
    let index = folder.join(INDEX);
    let listed = read_index(&index).map(|index| index.weight_map.into_values().collect()).unwrap_or_default();
    let mut names: Vec<String> = listed;
    names.retain(|name| is_file_name(name));
    names.extend([WHOLE.to_owned(), INDEX.to_owned()]);
    names.sort();
    names.dedup();
    let paths = names.into_iter().map(|name| folder.join(name));
    paths.filter(|path| !keep.contains(path) && path.is_file()).collect()
}

fn read_index(path: &Path) -> Result<Index> {
    let text = whole::read(path, whole::MAX_SETTINGS).map_err(|error| Error::io(path, "read", error))?;
    let wrong =
        |error| Error::file(path, format!("not an index of shards: {error}"), "download the file again");
    serde_json::from_slice(&text).map_err(wrong)
}

fn open_shard(folder: &Path, index: &Path, shard: &str) -> Result<TensorFile> {
    if !is_file_name(shard) {
        let message = format!("shard {shard:?}, expected a file name in the same folder");
        return Err(Error::file(index, message, "an index lists files beside it, without folders"));
    }
    let path = folder.join(shard);
    if !path.exists() {
        let message = format!("shard {shard} is missing");
        return Err(Error::file(index, message, "download the missing file into the same folder"));
    }
    TensorFile::open(path)
}

fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|last| last == name)
}

fn no_weights(folder: &Path) -> Error {
    let message = format!("neither {WHOLE} nor {INDEX} nor {TORCH_WHOLE} is there");
    Error::file(folder, message, "name the folder that contains the model's weights")
}
