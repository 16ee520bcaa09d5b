//! One file of tensors, memory-mapped: safetensors, or PyTorch's (`checkpoint/pickle`).
//!
//! ```
//! use polyhead_models::checkpoint::safetensors::TensorFile;
//! let header = br#"{"ids":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}"#;
//! let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[7, 0, 0, 0, 9, 0, 0, 0]].concat();
//! let file = TensorFile::from_bytes("example", bytes)?;
//! assert_eq!(file.ids("ids")?, [7, 9]);
//! # Ok::<(), polyhead_models::Error>(())
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use polyhead_tensor::bf16::Bf16Tensor;
use polyhead_tensor::{Dtype, Tensor};

use super::half;
use super::header::{self, Entry};
use crate::checkpoint::pickle;
use crate::{Error, Result};

/// The beginning of a file that stands for another one in a repository with large files.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// A file of named tensors whose header has been checked.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    bytes: Bytes,
    entries: Vec<Entry>,
    indices: HashMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl TensorFile {
    /// Memory-maps a file and checks its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
        Self::new(path.to_owned(), Bytes::Mapped(map(path, &file)?))
    }

    /// The same for bytes in memory; `name` is the path in messages.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self> {
        Self::new(name.into(), Bytes::Owned(bytes))
    }

    fn new(path: PathBuf, bytes: Bytes) -> Result<Self> {
        if bytes.as_slice().starts_with(LFS_POINTER) {
            let message = "a pointer of Git LFS, not the file itself";
            return Err(Error::file(&path, message, "fetch the file: git lfs pull"));
        }
        let (entries, metadata) = if let Some(entries) = pickle::entries(&path, bytes.as_slice())? {
            (entries, BTreeMap::new())
        } else {
            let header::Header { entries, metadata } = header::parse(&path, bytes.as_slice())?;
            (entries, metadata)
        };
        let indices = entries.iter().zip(0..).map(|(entry, index)| (entry.name.clone(), index)).collect();
        Ok(Self { path, bytes, entries, indices, metadata })
    }

    /// The path it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.as_slice().len()
    }

    /// The metadata of the header, such as `format`.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The names of the tensors, in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The dtype of a tensor.
    pub fn dtype(&self, name: &str) -> Option<Dtype> {
        self.find(name).map(|entry| entry.dtype)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|entry| entry.shape.as_slice())
    }

    /// A floating-point tensor, converted to f32.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let entry = self.entry(name)?;
        let bytes = &*self.elements(entry);
        match entry.dtype {
            Dtype::F32 => Ok(Tensor::new(&entry.shape, chunks(bytes).map(f32::from_le_bytes).collect())),
            Dtype::F16 => {
                let elements = chunks(bytes).map(|pair| half::to_f32(u16::from_le_bytes(pair)));
                Ok(Tensor::new(&entry.shape, elements.collect()))
            }
            Dtype::Bf16 => {
                Ok(Bf16Tensor::new(&entry.shape, chunks(bytes).map(u16::from_le_bytes).collect()).to_f32())
            }
            other => Err(self.wrong_type(name, other, "f32, f16 or bf16")),
        }
    }

    /// An int8 tensor, row by row.
    pub fn int8(&self, name: &str) -> Result<Vec<i8>> {
        let entry = self.entry(name)?;
        match entry.dtype {
            Dtype::Int8 => Ok(self.elements(entry).iter().map(|byte| byte.cast_signed()).collect()),
            other => Err(self.wrong_type(name, other, "int8")),
        }
    }

    /// The bytes of a U8 tensor.
    pub fn bytes(&self, name: &str) -> Result<&[u8]> {
        let entry = self.entry(name)?;
        match entry.dtype {
            Dtype::U8 if entry.strides.is_none() => Ok(&self.bytes.as_slice()[entry.bytes.clone()]),
            other => Err(self.wrong_type(name, other, "u8")),
        }
    }

    /// An integer tensor as token ids, row by row.
    pub fn ids(&self, name: &str) -> Result<Vec<u32>> {
        let entry = self.entry(name)?;
        let bytes = &*self.elements(entry);
        let integers: Vec<i64> = match entry.dtype {
            Dtype::I64 => chunks(bytes).map(i64::from_le_bytes).collect(),
            Dtype::I32 => chunks(bytes).map(|four| i64::from(i32::from_le_bytes(four))).collect(),
            other => return Err(self.wrong_type(name, other, "i64 or i32")),
        };
        let ids = integers.into_iter().map(|integer| {
            u32::try_from(integer).map_err(|_| {
                let message = format!("tensor {name} holds {integer}, expected ids from 0 to {}", u32::MAX);
                Error::file(&self.path, message, "integer tensors are read as token ids only")
            })
        });
        ids.collect()
    }

    /// The bytes of a tensor, row by row.
    fn elements(&self, entry: &Entry) -> Cow<'_, [u8]> {
        let bytes = &self.bytes.as_slice()[entry.bytes.clone()];
        let Some(strides) = &entry.strides else { return Cow::Borrowed(bytes) };
        let size = entry.dtype.size_in_bytes();
        let mut offsets = vec![0];
        for (&axis, stride) in entry.shape.iter().zip(strides) {
            offsets = offsets
                .iter()
                .flat_map(|offset| (0..axis).map(move |index| offset + index * stride))
                .collect();
        }
        Cow::Owned(offsets.into_iter().flat_map(|offset| &bytes[offset * size..][..size]).copied().collect())
    }

    /// Releases the mapped pages of a tensor that has been read; reading it again loads it from disk.
    pub(crate) fn forget(&self, name: &str) {
        if let (Bytes::Mapped(bytes), Some(entry)) = (&self.bytes, self.find(name)) {
            forget(bytes, entry.bytes.clone());
        }
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        self.indices.get(name).map(|&index| &self.entries[index])
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.find(name).ok_or_else(|| {
            let message = format!("no tensor {name} among {}", self.entries.len());
            Error::file(&self.path, message, "does the file belong to another model?")
        })
    }

    fn wrong_type(&self, name: &str, found: Dtype, expected: &str) -> Error {
        let message = format!("tensor {name} has dtype {found}, expected {expected}");
        Error::file(&self.path, message, "store it in one of these dtypes")
    }
}

/// Consecutive elements of N bytes.
fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "only this call releases pages before the mapping ends")]
fn forget(bytes: &Mmap, range: std::ops::Range<usize>) {
    // SAFETY: the mapping is backed by a file and never written, so a page that is read again has the same bytes.
    let done =
        unsafe { bytes.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len()) };
    // Pages that are not released do no harm.
    drop(done);
}

#[cfg(not(unix))]
fn forget(_: &Mmap, _: std::ops::Range<usize>) {}

#[expect(
    unsafe_code,
    reason = "a memory map has no safe form; our own writer never changes a file, it replaces it"
)]
pub(in crate::checkpoint) fn map(path: &Path, file: &File) -> Result<Mmap> {
    // SAFETY: the mapping is only read. A program that changes the file in place meanwhile could corrupt values or, by
    // truncating it, kill the process; every reader of memory-mapped models accepts this.
    unsafe { Mmap::map(file) }.map_err(|error| Error::io(path, "read", error))
}
