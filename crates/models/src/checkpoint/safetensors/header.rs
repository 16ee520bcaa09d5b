//! The header of a file: names, dtypes, shapes and offsets of its tensors, checked against the file's size.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::Path;

use polyhead_tensor::Dtype;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::dtype;
use crate::{Error, Result};

/// Size in bytes of the length field before the header.
pub(super) const LENGTH_BYTES: usize = 8;
/// Largest header in bytes; that of a model with a million tensors is about this long.
const MAX_BYTES: u64 = 100 << 20;
const DAMAGED: &str = "the file is damaged or incomplete; download it again";

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::checkpoint) struct Entry {
    pub(in crate::checkpoint) name: String,
    pub(in crate::checkpoint) dtype: Dtype,
    pub(in crate::checkpoint) shape: Vec<usize>,
    /// Its byte range, from the start of the file.
    pub(in crate::checkpoint) bytes: Range<usize>,
    /// Distances in elements along each axis, if rows do not follow each other.
    pub(in crate::checkpoint) strides: Option<Vec<usize>>,
}

/// A parsed header.
#[derive(Debug)]
pub(super) struct Header {
    /// In file order.
    pub(super) entries: Vec<Entry>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Parses and checks the header of a file; `path` is for messages.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Header> {
    let text = text(path, bytes)?;
    let raw: RawHeader = serde_json::from_slice(text)
        .map_err(|error| Error::file(path, format!("the header is not valid JSON: {error}"), DAMAGED))?;
    let start = LENGTH_BYTES + text.len();
    let mut names = HashSet::new();
    let mut entries = Vec::new();
    for (name, raw) in raw.arrays {
        if !names.insert(name.clone()) {
            return Err(Error::file(path, format!("tensor {name} is listed twice"), DAMAGED));
        }
        let entry = entry(&name, &raw, start, bytes.len() - start)
            .map_err(|message| Error::file(path, format!("tensor {name}: {message}"), DAMAGED))?;
        entries.push(entry);
    }
    entries.sort_by_key(|entry| (entry.bytes.start, entry.bytes.end));
    check_cover(&entries, start, bytes.len()).map_err(|message| Error::file(path, message, DAMAGED))?;
    Ok(Header { entries, metadata: raw.metadata })
}

/// The JSON text, which follows its length.
fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a [u8]> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        let message = format!("{} bytes, expected at least 8 for the length of the header", bytes.len());
        return Err(Error::file(path, message, DAMAGED));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_BYTES {
        let message = format!("a header of {length} bytes, expected at most {MAX_BYTES}");
        return Err(Error::file(path, message, "this is probably not a safetensors file"));
    }
    rest.get(..length as usize).ok_or_else(|| {
        let message = format!("a header of {length} bytes, but only {} bytes follow its length", rest.len());
        Error::file(path, message, DAMAGED)
    })
}

/// One tensor, with its offsets checked; `start` and `available` are the offset and the size of the data section.
fn entry(name: &str, raw: &RawArray, start: usize, available: usize) -> std::result::Result<Entry, String> {
    let dtype = dtype::from_header_name(&raw.dtype).ok_or_else(|| {
        format!(
            "dtype {}, expected one of {}",
            raw.dtype,
            dtype::HEADER_NAMES.map(|(name, _)| name).join(", ")
        )
    })?;
    let [begin, end] = raw.data_offsets;
    if begin > end {
        return Err(format!("begins at byte {begin} but ends at byte {end}"));
    }
    if end > available as u64 {
        return Err(format!("ends at byte {end} of the data, but there are only {available}"));
    }
    let size = raw.shape.iter().try_fold(dtype.size_in_bytes() as u64, |size, &axis| size.checked_mul(axis));
    let size = size.ok_or_else(|| format!("shape {:?} has more elements than a u64 can count", raw.shape))?;
    if size != end - begin {
        return Err(format!("{} bytes, expected {size} for shape {:?} of {}", end - begin, raw.shape, dtype));
    }
    let shape = raw.shape.iter().map(|&axis| usize::try_from(axis)).collect::<std::result::Result<_, _>>();
    let shape = shape.map_err(|_| format!("shape {:?} is too large for this machine", raw.shape))?;
    // Both offsets are at most `available`, which is a usize.
    let bytes = start + begin as usize..start + end as usize;
    Ok(Entry { name: name.to_owned(), dtype, shape, bytes, strides: None })
}

/// Checks that the tensors, in file order, are contiguous and fill the file.
fn check_cover(entries: &[Entry], start: usize, file_len: usize) -> std::result::Result<(), String> {
    let mut before = "the header";
    let mut end = start;
    for entry in entries {
        let begin = entry.bytes.start;
        if begin < end {
            return Err(format!("tensor {} overlaps {before} by {} bytes", entry.name, end - begin));
        }
        if begin > end {
            return Err(format!(
                "{} bytes between {before} and tensor {} belong to no tensor",
                begin - end,
                entry.name
            ));
        }
        (before, end) = (&entry.name, entry.bytes.end);
    }
    if end < file_len {
        return Err(format!("{} bytes after {before} belong to no tensor", file_len - end));
    }
    Ok(())
}

/// One entry as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArray {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// A header as written, duplicate names included.
#[derive(Debug, Default)]
struct RawHeader {
    arrays: Vec<(String, RawArray)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an entry for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<RawHeader, A::Error> {
        let mut header = RawHeader::default();
        while let Some(name) = map.next_key::<String>()? {
            let at = |error| A::Error::custom(format!("entry {name}: {error}"));
            if name == "__metadata__" {
                header.metadata = map.next_value().map_err(at)?;
            } else {
                let array = map.next_value().map_err(at)?;
                header.arrays.push((name, array));
            }
        }
        Ok(header)
    }
}
