//! Tensors of a file that torch.save wrote: each is a view (offset, sizes, strides) of a storage, which several may share.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use polyhead_tensor::Dtype;

use super::archive;
use super::machine::{self, Id, Object, Objects};
use crate::checkpoint::safetensors::Entry;
use crate::{Error, Result};

/// The program of an archive, and what the folder beside it begins with.
const PROGRAM: &str = "/data.pkl";
const DATA: &str = "/data/";
const BYTE_ORDER: &str = "/byteorder";
/// The number that a file begins with that is no archive, as a pickle of protocol 2.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";
/// Keys of dictionaries that hold the weights among other things.
const WEIGHTS: [&str; 2] = ["model", "state_dict"];
const DAMAGED: &str =
    "the file is damaged, or not one of weights; convert it to safetensors where it was made";

/// True if the bytes begin as torch.save began its files before version 1.6.
pub(super) fn is_legacy(bytes: &[u8]) -> bool {
    bytes.starts_with(LEGACY)
}

/// The tensors of an archive.
pub(super) fn of_archive(path: &Path, bytes: &[u8]) -> Result<Vec<Entry>> {
    let wrong = |message: String| Error::file(path, message, DAMAGED);
    let files = archive::files(bytes).map_err(wrong)?;
    let mut programs = files.keys().filter_map(|name| name.strip_suffix(PROGRAM));
    let (Some(root), None) = (programs.next(), programs.next()) else {
        return Err(wrong(format!("an archive without one FOLDER{PROGRAM}, expected a file of torch.save")));
    };
    if let Some(order) = files.get(&format!("{root}{BYTE_ORDER}"))
        && bytes[order.clone()] != *b"little"
    {
        return Err(wrong("numbers in big-endian order, expected little-endian".into()));
    }
    let program = &bytes[files[&format!("{root}{PROGRAM}")].clone()];
    let (objects, result, _) = machine::run(program).map_err(wrong)?;
    let range = |key: &str, _| files.get(&format!("{root}{DATA}{key}")).cloned();
    tensors(&objects, result, &range).map_err(wrong)
}

/// The tensors of a file of before version 1.6: four pickles, a list of storages, and their numbers in that order.
pub(super) fn of_legacy(path: &Path, bytes: &[u8]) -> Result<Vec<Entry>> {
    let wrong = |message: String| Error::file(path, message, DAMAGED);
    let mut at = 0;
    let mut next = || {
        let (objects, result, length) = machine::run(&bytes[at..]).map_err(wrong)?;
        at += length;
        Ok::<_, Error>((objects, result))
    };
    // The magic number, the version of the protocol, and sizes of C's types.
    for _ in 0..3 {
        next()?;
    }
    let (objects, result) = next()?;
    let (keys, list) = next()?;
    let keys =
        keys.list(list).unwrap_or_default().iter().map(|&key| keys.text(key)).collect::<Option<Vec<_>>>();
    let keys = keys.ok_or_else(|| wrong("no list of storages".into()))?;
    let sizes = storages(&objects);
    let mut ranges = HashMap::new();
    for key in keys {
        let size = sizes.get(key).copied().ok_or_else(|| wrong(format!("storage {key} is in no tensor")))?;
        let count = bytes.get(at..at + 8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        let length = count.and_then(|count| usize::try_from(count).ok()?.checked_mul(size));
        let end = length.and_then(|length| (at + 8).checked_add(length)).filter(|&end| end <= bytes.len());
        let end = end.ok_or_else(|| wrong(format!("storage {key} ends after the end of the file")))?;
        ranges.insert(key.to_owned(), at + 8..end);
        at = end;
    }
    tensors(&objects, result, &|key, _| ranges.get(key).cloned()).map_err(wrong)
}

/// Bytes of an element of each storage.
fn storages(objects: &Objects<'_>) -> HashMap<String, usize> {
    let all = (0..objects.len()).filter_map(|id| Storage::new(objects, id).ok());
    all.map(|storage| (storage.key.to_owned(), storage.dtype.size_in_bytes())).collect()
}

/// A storage as the pickle describes it.
struct Storage<'a> {
    dtype: Dtype,
    key: &'a str,
}

impl<'a> Storage<'a> {
    /// Reads `("storage", kind, key, location, size, …)`.
    fn new(objects: &Objects<'a>, id: Id) -> std::result::Result<Self, String> {
        let Object::Persistent(description) = *objects.get(id) else {
            return Err("a tensor without a storage".into());
        };
        let parts = objects.list(description).unwrap_or_default();
        let &[_, kind, key, ..] = parts else { return Err("a storage without a key".into()) };
        let (Object::Global(kind), Some(key)) = (objects.get(kind), objects.text(key)) else {
            return Err("a storage without a kind".into());
        };
        let kind = kind.rsplit('.').next().unwrap_or_default();
        Ok(Self {
            dtype: dtype(kind).ok_or_else(|| format!("a storage of kind {kind}, expected numbers"))?,
            key,
        })
    }
}

fn dtype(kind: &str) -> Option<Dtype> {
    Some(match kind {
        "FloatStorage" => Dtype::F32,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::Bf16,
        "DoubleStorage" => Dtype::F64,
        "LongStorage" => Dtype::I64,
        "IntStorage" => Dtype::I32,
        "CharStorage" => Dtype::Int8,
        "ByteStorage" => Dtype::U8,
        "BoolStorage" => Dtype::Bool,
        _ => return None,
    })
}

/// All tensors of a dictionary of weights, or of the dictionary of weights in a dictionary.
fn tensors(
    objects: &Objects<'_>,
    result: Id,
    range: &dyn Fn(&str, Dtype) -> Option<Range<usize>>,
) -> std::result::Result<Vec<Entry>, String> {
    let Object::Dictionary(pairs) = objects.get(result) else {
        return Err("no dictionary, expected the weights of a model by name".into());
    };
    let inner = pairs.iter().find_map(|&(key, value)| {
        let is_weights = objects.text(key).is_some_and(|key| WEIGHTS.contains(&key));
        if let (true, Object::Dictionary(pairs)) = (is_weights, objects.get(value)) {
            Some(pairs)
        } else {
            None
        }
    });
    let mut found: HashMap<String, Entry> = HashMap::new();
    for &(key, value) in inner.unwrap_or(pairs) {
        let (Some(name), Object::Tensor(arguments)) = (objects.text(key), objects.get(value)) else {
            continue;
        };
        let name = modern(name);
        let entry = entry(objects, &name, *arguments, range)
            .map_err(|message| format!("tensor {name}: {message}"))?;
        found.insert(name, entry);
    }
    if found.is_empty() {
        return Err("no tensors, expected the weights of a model by name".into());
    }
    let mut all: Vec<Entry> = found.into_values().collect();
    all.sort_by(|a, b| (a.bytes.start, &a.name).cmp(&(b.bytes.start, &b.name)));
    Ok(all)
}

/// The name of a parameter today: models that were converted from TensorFlow have its names of those of a norm.
fn modern(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((module, "gamma")) => format!("{module}.weight"),
        Some((module, "beta")) => format!("{module}.bias"),
        _ => name.to_owned(),
    }
}

/// The tensor that `(storage, offset, sizes, strides, …)` describes.
fn entry(
    objects: &Objects<'_>,
    name: &str,
    arguments: Id,
    range: &dyn Fn(&str, Dtype) -> Option<Range<usize>>,
) -> std::result::Result<Entry, String> {
    let Some(&[storage, offset, sizes, strides, ..]) = objects.list(arguments) else {
        return Err("a view of nothing".into());
    };
    let Storage { dtype, key } = Storage::new(objects, storage)?;
    let whole = range(key, dtype).ok_or_else(|| format!("storage {key} is missing"))?;
    let number = |id: Id| objects.number(id).and_then(|number| usize::try_from(number).ok());
    let numbers = |id: Id| objects.list(id)?.iter().map(|&id| number(id)).collect::<Option<Vec<usize>>>();
    let (Some(offset), Some(shape), Some(strides)) = (number(offset), numbers(sizes), numbers(strides))
    else {
        return Err("no sizes and strides".into());
    };
    if shape.len() != strides.len() {
        return Err(format!("{} sizes and {} strides", shape.len(), strides.len()));
    }
    let outside = || format!("{shape:?} with strides {strides:?} at {offset} is outside of its storage");
    let is_empty = shape.contains(&0);
    let last = shape.iter().zip(&strides).try_fold(0_usize, |last, (&size, &stride)| {
        last.checked_add(size.saturating_sub(1).checked_mul(stride)?)
    });
    // Elements from the first to the last that is read.
    let span = if is_empty { Some(0) } else { last.and_then(|last| last.checked_add(1)) };
    let size = dtype.size_in_bytes();
    let start = offset.checked_mul(size).and_then(|start| whole.start.checked_add(start));
    let end = span.and_then(|span| start?.checked_add(span.checked_mul(size)?));
    let (Some(start), Some(end)) = (start, end.filter(|&end| end <= whole.end)) else {
        return Err(outside());
    };
    // A hostile view may repeat one element any number of times.
    let count = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    if count.is_none_or(|count| count > (whole.end - whole.start) / size) {
        return Err(outside());
    }
    let is_contiguous =
        is_empty || strides == row_major(&shape) || span == count && is_ordered(&shape, &strides);
    let strides = (!is_contiguous).then_some(strides);
    Ok(Entry { name: name.to_owned(), dtype, shape, bytes: start..end, strides })
}

/// Strides of a tensor whose rows follow each other.
fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// True if strides differ from those of rows that follow each other only along axes of one element.
fn is_ordered(shape: &[usize], strides: &[usize]) -> bool {
    row_major(shape)
        .iter()
        .zip(strides)
        .zip(shape)
        .all(|((expected, found), size)| *size == 1 || expected == found)
}
