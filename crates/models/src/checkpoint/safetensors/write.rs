//! Writes named tensors in alphabetical order, to one file or to shards; the same tensors give the same bytes.
//!
//! Everything is written under temporary names first; [`PendingFiles::finish`] renames the files, the index last.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polyhead_tensor::bf16::Bf16Tensor;
use polyhead_tensor::{Dtype, Tensor};
use polyhead_text::output::Output;
use serde::Serialize;

use super::header::LENGTH_BYTES;
use super::shards::{INDEX, WHOLE, superseded};
use super::{dtype, half};
use crate::{Error, Result};

/// Elements converted at a time.
const CHUNK: usize = 1 << 16;

/// A tensor to be written.
#[derive(Debug, Clone)]
pub struct Array<'a> {
    /// The name.
    pub name: String,
    /// The shape.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: ArrayData<'a>,
}

/// The elements of a tensor to be written.
#[derive(Debug, Clone)]
pub enum ArrayData<'a> {
    /// Floating point, as consecutive slices; stored in the dtype of [`WriteOptions`].
    Floats(Vec<&'a [f32]>),
    /// The transposed matrices, one after the other, which have that many columns.
    Transposed {
        /// The elements of each, row by row.
        matrices: Vec<&'a [f32]>,
        /// Length of a row.
        columns: usize,
    },
    /// Int8, stored unchanged.
    Int8(Vec<i8>),
}

impl Array<'_> {
    /// The stored dtype, if floating-point tensors are stored as `floats`.
    fn dtype(&self, floats: Dtype) -> Dtype {
        if matches!(self.data, ArrayData::Int8(_)) { Dtype::Int8 } else { floats }
    }

    fn bytes(&self, floats: Dtype) -> u64 {
        let count = match &self.data {
            ArrayData::Floats(slices) | ArrayData::Transposed { matrices: slices, .. } => {
                slices.iter().map(|slice| slice.len()).sum()
            }
            ArrayData::Int8(values) => values.len(),
        };
        (count * self.dtype(floats).size_in_bytes()) as u64
    }
}

/// Options for writing tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// The dtype of floating-point tensors; default: F32. F16 and BF16 round to nearest.
    pub dtype: Dtype,
    /// Largest data size of a file in bytes, unless a single tensor is larger; default: 5 GB, as in Hugging Face's models.
    pub max_shard_bytes: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { dtype: Dtype::F32, max_shard_bytes: 5_000_000_000 }
    }
}

/// Files written under temporary names; dropping the value deletes them.
#[derive(Debug)]
pub struct PendingFiles {
    folder: PathBuf,
    outputs: Vec<(PathBuf, Output)>,
    /// The first `weights` of them are weights.
    weights: usize,
    bytes: u64,
}

impl PendingFiles {
    /// Total size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds another file, which is renamed after those before it.
    pub fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        let mut output = Output::create(&path).map_err(unwritten(&path))?;
        output.write(content).map_err(unwritten(&path))?;
        self.bytes += content.len() as u64;
        self.outputs.push((path, output));
        Ok(())
    }

    /// Renames all files in order; after the weights and before the other files, older weights under other names are
    /// removed.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        let paths: Vec<PathBuf> = self.outputs.iter().map(|(path, _)| path.clone()).collect();
        let old = superseded(&self.folder, &paths);
        let others = self.outputs.split_off(self.weights);
        rename(self.outputs)?;
        for path in old {
            fs::remove_file(&path).map_err(|error| Error::io(&path, "remove", error))?;
        }
        rename(others)?;
        Ok(paths)
    }
}

fn rename(outputs: Vec<(PathBuf, Output)>) -> Result<()> {
    outputs.into_iter().try_for_each(|(path, output)| output.finish().map_err(unwritten(&path)))
}

/// Writes tensors as the weights of `folder`, under temporary names.
pub fn write(folder: &Path, mut arrays: Vec<Array<'_>>, options: WriteOptions) -> Result<PendingFiles> {
    arrays.sort_by(|a, b| a.name.cmp(&b.name));
    fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create", error))?;
    let mut pending = PendingFiles { folder: folder.to_owned(), outputs: Vec::new(), weights: 0, bytes: 0 };
    let shards = split(&arrays, options);
    let count = shards.len();
    let mut index = Index::default();
    for (number, shard) in (1..).zip(shards) {
        let name = if count == 1 {
            WHOLE.to_owned()
        } else {
            format!("model-{number:05}-of-{count:05}.safetensors")
        };
        for array in shard {
            index.metadata.total_size += array.bytes(options.dtype);
            index.weight_map.insert(&array.name, name.clone());
        }
        write_file(&mut pending, &name, shard, options.dtype)?;
    }
    if count > 1 {
        let text = serde_json::to_vec_pretty(&index).expect("names and sizes always serialise");
        pending.add(INDEX, &text)?;
    }
    pending.weights = pending.outputs.len();
    Ok(pending)
}

/// Consecutive tensors of at most `max_shard_bytes` each; at least one shard.
fn split<'a, 'b>(arrays: &'a [Array<'b>], options: WriteOptions) -> Vec<&'a [Array<'b>]> {
    let mut shards = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (index, array) in arrays.iter().enumerate() {
        let size = array.bytes(options.dtype);
        if index > begin && bytes + size > options.max_shard_bytes {
            shards.push(&arrays[begin..index]);
            (begin, bytes) = (index, 0);
        }
        bytes += size;
    }
    shards.push(&arrays[begin..]);
    shards
}

fn write_file(pending: &mut PendingFiles, name: &str, arrays: &[Array<'_>], dtype: Dtype) -> Result<()> {
    let path = pending.folder.join(name);
    let mut output = Output::create(&path).map_err(unwritten(&path))?;
    let header = header(arrays, dtype);
    output.write(&(header.len() as u64).to_le_bytes()).map_err(unwritten(&path))?;
    output.write(&header).map_err(unwritten(&path))?;
    pending.bytes += (LENGTH_BYTES + header.len()) as u64;
    for array in arrays {
        let mut write = |chunk: &[f32]| {
            let bytes = encode(chunk, dtype).map_err(|(message, hint)| {
                Error::file(&path, format!("tensor {}: {message}", array.name), hint)
            })?;
            output.write(&bytes).map_err(unwritten(&path))
        };
        match &array.data {
            ArrayData::Floats(slices) => {
                slices.iter().flat_map(|slice| slice.chunks(CHUNK)).try_for_each(write)?;
            }
            ArrayData::Transposed { matrices, columns } => {
                for matrix in matrices {
                    let column =
                        |column: usize| matrix.iter().skip(column).step_by((*columns).max(1)).copied();
                    write(&(0..*columns).flat_map(column).collect::<Vec<f32>>())?;
                }
            }
            ArrayData::Int8(values) => {
                let bytes: Vec<u8> = values.iter().map(|byte| byte.cast_unsigned()).collect();
                output.write(&bytes).map_err(unwritten(&path))?;
            }
        }
        pending.bytes += array.bytes(dtype);
    }
    pending.outputs.push((path, output));
    Ok(())
}

/// The JSON text of the header, padded with spaces to a multiple of eight bytes.
fn header(arrays: &[Array<'_>], dtype: Dtype) -> Vec<u8> {
    #[derive(Serialize)]
    struct Entry<'a> {
        dtype: &'static str,
        shape: &'a [usize],
        data_offsets: [u64; 2],
    }
    // transformers refuses to read a file whose format is not "pt".
    let mut text = br#"{"__metadata__":{"format":"pt"}"#.to_vec();
    let mut end = 0;
    for array in arrays {
        let begin = end;
        end += array.bytes(dtype);
        let entry = Entry {
            dtype: dtype::header_name(array.dtype(dtype)),
            shape: &array.shape,
            data_offsets: [begin, end],
        };
        text.push(b',');
        serde_json::to_writer(&mut text, &array.name).expect("a string always serialises");
        text.push(b':');
        serde_json::to_writer(&mut text, &entry).expect("names and sizes always serialise");
    }
    text.push(b'}');
    text.resize(text.len().next_multiple_of(8), b' ');
    text
}

/// Little-endian bytes; the error is a message and a hint.
fn encode(values: &[f32], dtype: Dtype) -> std::result::Result<Vec<u8>, (String, &'static str)> {
    match dtype {
        Dtype::F32 => Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        Dtype::F16 => {
            let halves: Vec<u16> = values.iter().map(|&value| half::from_f32(value)).collect();
            check_range(values, |index| half::to_f32(halves[index]), dtype)?;
            Ok(halves.iter().flat_map(|half| half.to_le_bytes()).collect())
        }
        Dtype::Bf16 => {
            let rounded = Bf16Tensor::from_f32(&Tensor::new(&[values.len()], values.to_vec()));
            check_range(values, |index| f32::from_bits(u32::from(rounded.bits()[index]) << 16), dtype)?;
            Ok(rounded.bits().iter().flat_map(|half| half.to_le_bytes()).collect())
        }
        other => Err((
            format!("cannot be written as {other}, expected f32, f16 or bf16"),
            "choose one of these dtypes",
        )),
    }
}

/// Checks that no finite value becomes infinite.
fn check_range(
    values: &[f32],
    stored: impl Fn(usize) -> f32,
    dtype: Dtype,
) -> std::result::Result<(), (String, &'static str)> {
    let overflow = (0..values.len()).find(|&index| values[index].is_finite() && !stored(index).is_finite());
    match overflow {
        Some(index) => {
            let message = format!("holds {:e}, which overflows {dtype}", values[index]);
            Err((message, "store the model as bf16 or f32"))
        }
        None => Ok(()),
    }
}

fn unwritten(path: &Path) -> impl Fn(polyhead_text::Error) -> Error + '_ {
    |error| match error {
        polyhead_text::Error::Io { path, action, source } => Error::Io { path, action, source },
        other => Error::io(path, "write", std::io::Error::other(other)),
    }
}

#[derive(Debug, Default, Serialize)]
struct Index<'a> {
    metadata: IndexMetadata,
    weight_map: BTreeMap<&'a str, String>,
}

#[derive(Debug, Default, Serialize)]
struct IndexMetadata {
    total_size: u64,
}
