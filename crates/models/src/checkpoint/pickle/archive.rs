//! The directory of a zip archive whose files are stored without compression, as torch.save writes them. Zip64 fields are read.

use std::collections::HashMap;
use std::ops::Range;

/// Signatures of the parts of an archive.
const FILE: [u8; 4] = *b"PK\x03\x04";
const DIRECTORY: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
/// Length of the end of the directory without its comment, and of a comment at most.
const END_BYTES: usize = 22;
const MAX_COMMENT: usize = 1 << 16;
/// The extra field with numbers of 64 bits.
const EXTRA_64: u16 = 1;

/// True if the bytes begin as an archive does.
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(&FILE)
}

/// The ranges of all files by name.
pub(super) fn files(bytes: &[u8]) -> Result<HashMap<String, Range<usize>>, String> {
    let (start, count) = directory(bytes)?;
    let mut reader = Reader { bytes, at: start };
    let mut found = HashMap::new();
    for _ in 0..count {
        reader.expect(DIRECTORY)?;
        reader.skip(6)?;
        let method = reader.u16()?;
        reader.skip(8)?;
        let (packed, size) = (reader.u32()?, reader.u32()?);
        let [name, extra, comment] = [reader.u16()?, reader.u16()?, reader.u16()?];
        reader.skip(8)?;
        let offset = reader.u32()?;
        let name = String::from_utf8_lossy(reader.take(name.into())?).into_owned();
        let numbers = wide([size, packed, offset], reader.take(extra.into())?)?;
        reader.skip(comment.into())?;
        let [size, packed, offset] = numbers;
        if method != 0 || size != packed {
            return Err(format!("{name} is compressed, expected files that are stored as they are"));
        }
        let range = content(bytes, offset, size).map_err(|message| format!("{name}: {message}"))?;
        if found.insert(name.clone(), range).is_some() {
            return Err(format!("{name} is in the archive twice"));
        }
    }
    Ok(found)
}

/// Start of the directory, and number of its entries.
fn directory(bytes: &[u8]) -> Result<(usize, u64), String> {
    let from = bytes.len().saturating_sub(END_BYTES + MAX_COMMENT);
    let end = bytes[from..].windows(END.len()).rposition(|window| window == END).map(|at| from + at);
    let end = end.ok_or("an archive without a directory")?;
    let mut reader = Reader { bytes, at: end + 10 };
    let (count, _, start) = (u64::from(reader.u16()?), reader.u32()?, u64::from(reader.u32()?));
    let locator = end.checked_sub(20).filter(|&at| bytes[at..].starts_with(&LOCATOR_64));
    let Some(locator) = locator else { return Ok((position(start, bytes)?, count)) };
    let mut reader = Reader { bytes, at: locator + 8 };
    let mut reader = Reader { bytes, at: position(reader.u64()?, bytes)? };
    reader.expect(END_64)?;
    reader.skip(28)?;
    let (count, _, start) = (reader.u64()?, reader.u64()?, reader.u64()?);
    Ok((position(start, bytes)?, count))
}

/// `[size, packed, offset]`, of which those that do not fit are in the extra field of 64 bits.
fn wide(numbers: [u32; 3], extra: &[u8]) -> Result<[u64; 3], String> {
    let mut all = numbers.map(u64::from);
    let mut reader = Reader { bytes: extra, at: 0 };
    while reader.at + 4 <= extra.len() {
        let (kind, length) = (reader.u16()?, reader.u16()?);
        let mut field = Reader { bytes: reader.take(length.into())?, at: 0 };
        if kind == EXTRA_64 {
            for number in all.iter_mut().filter(|number| **number == u64::from(u32::MAX)) {
                *number = field.u64()?;
            }
        }
    }
    Ok(all)
}

/// The content of a file whose own header is at `offset`.
fn content(bytes: &[u8], offset: u64, size: u64) -> Result<Range<usize>, String> {
    let mut reader = Reader { bytes, at: position(offset, bytes)? };
    reader.expect(FILE)?;
    reader.skip(22)?;
    let [name, extra] = [reader.u16()?, reader.u16()?];
    reader.skip(usize::from(name) + usize::from(extra))?;
    let start = reader.at;
    let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size));
    end.filter(|&end| end <= bytes.len())
        .map(|end| start..end)
        .ok_or_else(|| format!("{size} bytes at byte {start} of an archive of {}", bytes.len()))
}

fn position(offset: u64, bytes: &[u8]) -> Result<usize, String> {
    usize::try_from(offset)
        .ok()
        .filter(|&at| at <= bytes.len())
        .ok_or_else(|| format!("byte {offset} of an archive of {}", bytes.len()))
}

/// Reads little-endian numbers.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let found = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or("an archive that ends too early")?;
        self.at += count;
        Ok(found)
    }

    fn skip(&mut self, count: usize) -> Result<(), String> {
        self.take(count).map(drop)
    }

    fn expect(&mut self, signature: [u8; 4]) -> Result<(), String> {
        let at = self.at;
        if self.take(4)? == signature { Ok(()) } else { Err(format!("no entry of an archive at byte {at}")) }
    }

    fn u16(&mut self) -> Result<u16, String> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("two bytes")))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }
}
