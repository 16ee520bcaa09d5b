//! Writing named arrays: alphabetically, in one file or in shards, so that the same arrays give the same bytes.
//!
//! Everything is written under temporary names first; [`Unfinished::finish`] gives the names, the index last.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polyhead_tensor::Tensor;
use polyhead_tensor::bf16::Bf16Tensor;
use polyhead_text::output::Output;
use serde::Serialize;

use super::dtype::Dtype;
use super::half;
use super::header::LENGTH_BYTES;
use super::shards::{INDEX, WHOLE, superseded};
use crate::{Error, Result};

/// Numbers that are converted at a time.
const CHUNK: usize = 1 << 16;

/// An array to be written.
#[derive(Debug, Clone)]
pub struct Array<'a> {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub numbers: Numbers<'a>,
}

/// The numbers of an array.
#[derive(Debug, Clone)]
pub enum Numbers<'a> {
    /// Floating point, in pieces that follow each other; stored as the options say.
    Floats(Vec<&'a [f32]>),
    /// Bytes with signs, stored as they are.
    Int8(Vec<i8>),
}

impl Array<'_> {
    /// How it is stored where floating-point numbers are stored as `floats`.
    fn dtype(&self, floats: Dtype) -> Dtype {
        if matches!(self.numbers, Numbers::Int8(_)) { Dtype::I8 } else { floats }
    }

    fn bytes(&self, floats: Dtype) -> u64 {
        let count = match &self.numbers {
            Numbers::Floats(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
            Numbers::Int8(bytes) => bytes.len(),
        };
        (count * self.dtype(floats).size()) as u64
    }
}

/// How arrays are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// How numbers are stored; F32. F16 and BF16 round to the nearest.
    pub dtype: Dtype,
    /// Most bytes of numbers in a file, unless one array has more; 5 GB, as in Hugging Face's models.
    pub max_shard_bytes: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { dtype: Dtype::F32, max_shard_bytes: 5_000_000_000 }
    }
}

/// Files that are written and do not have their names yet; dropped, they vanish.
#[derive(Debug)]
pub struct Unfinished {
    folder: PathBuf,
    outputs: Vec<(PathBuf, Output)>,
    /// So many of them, the first, are weights.
    weights: usize,
    bytes: u64,
}

impl Unfinished {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds another file, to be named after those before it.
    pub fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        let mut output = Output::create(&path).map_err(unwritten(&path))?;
        output.write(content).map_err(unwritten(&path))?;
        self.bytes += content.len() as u64;
        self.outputs.push((path, output));
        Ok(())
    }

    /// Gives all files their names, in order; weights that were there before under other names go before further files
    /// come.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        let paths: Vec<PathBuf> = self.outputs.iter().map(|(path, _)| path.clone()).collect();
        let old = superseded(&self.folder, &paths);
        let further = self.outputs.split_off(self.weights);
        name(self.outputs)?;
        for path in old {
            fs::remove_file(&path).map_err(|error| Error::io(&path, "remove", error))?;
        }
        name(further)?;
        Ok(paths)
    }
}

fn name(outputs: Vec<(PathBuf, Output)>) -> Result<()> {
    outputs.into_iter().try_for_each(|(path, output)| output.finish().map_err(unwritten(&path)))
}

/// Writes arrays as the weights of `folder`, still without their final names.
pub fn write(folder: &Path, mut arrays: Vec<Array<'_>>, options: WriteOptions) -> Result<Unfinished> {
    arrays.sort_by(|a, b| a.name.cmp(&b.name));
    fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create", error))?;
    let mut unfinished = Unfinished { folder: folder.to_owned(), outputs: Vec::new(), weights: 0, bytes: 0 };
    let shards = cut(&arrays, options);
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
        write_file(&mut unfinished, &name, shard, options.dtype)?;
    }
    if count > 1 {
        let text = serde_json::to_vec_pretty(&index).expect("names and numbers are always JSON");
        unfinished.add(INDEX, &text)?;
    }
    unfinished.weights = unfinished.outputs.len();
    Ok(unfinished)
}

/// Runs of arrays of at most `max_shard_bytes`; at least one run.
fn cut<'a, 'b>(arrays: &'a [Array<'b>], options: WriteOptions) -> Vec<&'a [Array<'b>]> {
    let mut shards = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (place, array) in arrays.iter().enumerate() {
        let size = array.bytes(options.dtype);
        if place > begin && bytes + size > options.max_shard_bytes {
            shards.push(&arrays[begin..place]);
            (begin, bytes) = (place, 0);
        }
        bytes += size;
    }
    shards.push(&arrays[begin..]);
    shards
}

fn write_file(unfinished: &mut Unfinished, name: &str, arrays: &[Array<'_>], dtype: Dtype) -> Result<()> {
    let path = unfinished.folder.join(name);
    let mut output = Output::create(&path).map_err(unwritten(&path))?;
    let header = header(arrays, dtype);
    output.write(&(header.len() as u64).to_le_bytes()).map_err(unwritten(&path))?;
    output.write(&header).map_err(unwritten(&path))?;
    unfinished.bytes += (LENGTH_BYTES + header.len()) as u64;
    for array in arrays {
        match &array.numbers {
            Numbers::Floats(pieces) => {
                for chunk in pieces.iter().flat_map(|piece| piece.chunks(CHUNK)) {
                    let bytes = encode(chunk, dtype).map_err(|(message, hint)| {
                        Error::file(&path, format!("tensor {}: {message}", array.name), hint)
                    })?;
                    output.write(&bytes).map_err(unwritten(&path))?;
                }
            }
            Numbers::Int8(bytes) => {
                let bytes: Vec<u8> = bytes.iter().map(|byte| byte.cast_unsigned()).collect();
                output.write(&bytes).map_err(unwritten(&path))?;
            }
        }
        unfinished.bytes += array.bytes(dtype);
    }
    unfinished.outputs.push((path, output));
    Ok(())
}

/// The JSON text of the header, with spaces up to a multiple of eight bytes.
fn header(arrays: &[Array<'_>], dtype: Dtype) -> Vec<u8> {
    #[derive(Serialize)]
    struct Place<'a> {
        dtype: &'static str,
        shape: &'a [usize],
        data_offsets: [u64; 2],
    }
    // "pt" is what transformers asks of a file before it reads it.
    let mut text = br#"{"__metadata__":{"format":"pt"}"#.to_vec();
    let mut end = 0;
    for array in arrays {
        let begin = end;
        end += array.bytes(dtype);
        let place =
            Place { dtype: array.dtype(dtype).name(), shape: &array.shape, data_offsets: [begin, end] };
        text.push(b',');
        serde_json::to_writer(&mut text, &array.name).expect("a string is always JSON");
        text.push(b':');
        serde_json::to_writer(&mut text, &place).expect("names and numbers are always JSON");
    }
    text.push(b'}');
    text.resize(text.len().next_multiple_of(8), b' ');
    text
}

/// Little-endian bytes, or what is wrong and what to do about it.
fn encode(numbers: &[f32], dtype: Dtype) -> std::result::Result<Vec<u8>, (String, &'static str)> {
    match dtype {
        Dtype::F32 => Ok(numbers.iter().flat_map(|number| number.to_le_bytes()).collect()),
        Dtype::F16 => {
            let halves: Vec<u16> = numbers.iter().map(|&number| half::from_f32(number)).collect();
            check_range(numbers, |place| half::to_f32(halves[place]), dtype)?;
            Ok(halves.iter().flat_map(|half| half.to_le_bytes()).collect())
        }
        Dtype::Bf16 => {
            let rounded = Bf16Tensor::from_f32(&Tensor::new(&[numbers.len()], numbers.to_vec()));
            check_range(numbers, |place| f32::from_bits(u32::from(rounded.bits()[place]) << 16), dtype)?;
            Ok(rounded.bits().iter().flat_map(|half| half.to_le_bytes()).collect())
        }
        other => {
            Err((format!("cannot be written as {other}, expected F32, F16 or BF16"), "choose one of these"))
        }
    }
}

/// A finite number must not become infinite.
fn check_range(
    numbers: &[f32],
    stored: impl Fn(usize) -> f32,
    dtype: Dtype,
) -> std::result::Result<(), (String, &'static str)> {
    let lost = (0..numbers.len()).find(|&place| numbers[place].is_finite() && !stored(place).is_finite());
    match lost {
        Some(place) => {
            let message = format!("holds {:e}, which {dtype} cannot hold", numbers[place]);
            Err((message, "store the model as BF16 or F32"))
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
