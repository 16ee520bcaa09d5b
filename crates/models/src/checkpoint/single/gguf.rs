//! GGUF, the file format of llama.cpp: metadata, then descriptions of tensors, then their values.
//!
//! Nothing is allocated for a length that does not fit into the file.

use std::collections::HashMap;

use super::bytes::{Mapped, Reader};
use super::tensors::{Entry, Kind};
use crate::{Error, Result};

/// The first bytes of a file.
pub(super) const MAGIC: &[u8] = b"GGUF";
/// Axes of a tensor.
const MAX_AXES: u32 = 4;
/// Longest list.
const MAX_LIST: usize = 1 << 22;
/// Deepest nesting of lists.
const MAX_DEPTH: usize = 4;

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meta {
    /// A whole number.
    Whole(i128),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Meta>),
}

/// The head of a file.
pub(super) struct Header {
    pub(super) metadata: HashMap<String, Meta>,
    pub(super) tensors: HashMap<String, Entry>,
}

/// Reads the metadata and the descriptions of the tensors, whose values lie inside the file.
pub(super) fn header(file: &Mapped) -> Result<Header> {
    let mut reader = Reader::new(file);
    reader.take(MAGIC.len())?;
    let version = reader.u32()?;
    if !(2..=3).contains(&version) {
        let message = format!("version {version} of GGUF, expected 2 or 3");
        return Err(Error::file(file.path(), message, "convert the model again with a current llama.cpp"));
    }
    // A tensor takes at least 24 bytes, an entry of the metadata 13.
    let n_tensors = reader.count(24)?;
    let n_entries = reader.count(13)?;
    let mut metadata = HashMap::new();
    for _ in 0..n_entries {
        let key = reader.text()?.to_owned();
        let kind = reader.u32()?;
        let value = meta(file, &mut reader, kind, 0)?;
        metadata.insert(key, value);
    }
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(Meta::Whole(size)) if *size > 0 && *size <= 1 << 20 => *size as usize,
        Some(other) => return Err(file.wrong(format!("alignment {other:?}"))),
    };
    let mut found = Vec::new();
    for _ in 0..n_tensors {
        found.push(described(file, &mut reader)?);
    }
    let start = reader.at().next_multiple_of(alignment);
    let mut tensors = HashMap::new();
    for (name, kind, shape, offset) in found {
        let bytes = kind.bytes(&shape).and_then(|size| {
            let first = start.checked_add(usize::try_from(offset).ok()?)?;
            let end = first.checked_add(size)?;
            (end <= file.bytes().len()).then_some(first..end)
        });
        let bytes = bytes.ok_or_else(|| {
            file.wrong(format!("tensor {name:.100} of shape {shape:?} is outside the file"))
        })?;
        if tensors.insert(name.clone(), Entry { kind, shape, bytes }).is_some() {
            return Err(file.wrong(format!("tensor {name:.100} occurs twice")));
        }
    }
    Ok(Header { metadata, tensors })
}

/// Name, kind, shape (slowest axis first) and offset of a tensor.
fn described(file: &Mapped, reader: &mut Reader<'_>) -> Result<(String, Kind, Vec<usize>, u64)> {
    let name = reader.text()?.to_owned();
    let n_axes = reader.u32()?;
    if n_axes > MAX_AXES {
        return Err(file.wrong(format!("tensor {name:.100} has {n_axes} axes, expected at most {MAX_AXES}")));
    }
    let mut shape = (0..n_axes)
        .map(|_| {
            let size = reader.u64()?;
            usize::try_from(size).map_err(|_| file.wrong(format!("tensor {name:.100} has an axis of {size}")))
        })
        .collect::<Result<Vec<_>>>()?;
    shape.reverse();
    let kind = reader.u32()?;
    let kind = Kind::of_gguf(kind).map_err(|found| {
        let message = format!("tensor {name:.100} is quantised as {found}, expected F32, F16, BF16 or Q8_0");
        Error::file(file.path(), message, "download the model in Q8_0 or F16, or convert it again")
    })?;
    Ok((name, kind, shape, reader.u64()?))
}

/// A value of the given type.
fn meta(file: &Mapped, reader: &mut Reader<'_>, kind: u32, depth: usize) -> Result<Meta> {
    fn number<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N]> {
        Ok(reader.take(N)?.try_into().expect("as many bytes as were taken"))
    }
    Ok(match kind {
        0 => Meta::Whole(u8::from_le_bytes(number(reader)?).into()),
        1 => Meta::Whole(i8::from_le_bytes(number(reader)?).into()),
        2 => Meta::Whole(u16::from_le_bytes(number(reader)?).into()),
        3 => Meta::Whole(i16::from_le_bytes(number(reader)?).into()),
        4 => Meta::Whole(u32::from_le_bytes(number(reader)?).into()),
        5 => Meta::Whole(i32::from_le_bytes(number(reader)?).into()),
        6 => Meta::Number(f32::from_le_bytes(number(reader)?).into()),
        7 => Meta::Flag(number::<1>(reader)? != [0]),
        8 => Meta::Text(reader.text()?.to_owned()),
        9 if depth < MAX_DEPTH => {
            let inner = reader.u32()?;
            let count = reader.count(width(inner))?;
            if count > MAX_LIST {
                return Err(file.wrong(format!("a list of {count} values, expected at most {MAX_LIST}")));
            }
            let mut list = Vec::new();
            for _ in 0..count {
                list.push(meta(file, reader, inner, depth + 1)?);
            }
            Meta::List(list)
        }
        10 => Meta::Whole(u64::from_le_bytes(number(reader)?).into()),
        11 => Meta::Whole(i64::from_le_bytes(number(reader)?).into()),
        12 => Meta::Number(f64::from_le_bytes(number(reader)?)),
        other => return Err(file.wrong(format!("metadata of type {other} at byte {}", reader.at()))),
    })
}

/// The least number of bytes of a value.
fn width(kind: u32) -> usize {
    match kind {
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        9 => 12,
        _ => 1,
    }
}
