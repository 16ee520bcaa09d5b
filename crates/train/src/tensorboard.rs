//! Event files for TensorBoard: scalars and texts of a run, written without TensorFlow.
//!
//! A file is a sequence of TFRecords: the length as u64, its checksum, the bytes, their checksum. A checksum is a CRC-32C,
//! rotated right by 15 bits plus a constant ("masked"). The bytes are one `Event` message of TensorFlow's `event.proto`, encoded
//! here by hand, since scalars and texts need few fields. The first event is the version, the second a session start:
//! TensorBoard drops points of earlier files at its step and later, so a run resumed from an older checkpoint shows one line.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use polyhead_text::{Error, Result};

/// Writer of an event file. Events are on disk after [`EventWriter::flush`], at the latest when dropped.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EventWriter {
    /// Creates a new file in `folder`, which is created if missing. `wall_time` is now, in seconds since 1970; points of
    /// earlier files in the folder at `first_step` and later are discarded by TensorBoard.
    pub fn create(folder: &Path, wall_time: f64, first_step: u64) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|error| Error::io(folder, "create the folder", error))?;
        let (path, file) = new_file(folder, wall_time)?;
        let mut writer = Self { path, file: BufWriter::new(file) };
        writer.event(wall_time, 0, |event| event.bytes(event::FILE_VERSION, b"brain.Event:2"))?;
        writer.event(wall_time, first_step, |event| {
            event.message(event::SESSION_LOG, |log| log.integer(session_log::STATUS, session_log::START));
        })?;
        writer.flush()?;
        Ok(writer)
    }

    /// The file being written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a point to the curve `tag`; tags are grouped by the part before `/`. TensorBoard stores f32.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f64, wall_time: f64) -> Result<()> {
        self.summary(tag, step, wall_time, |summary| summary.float(value::SIMPLE_VALUE, value as f32))
    }

    /// Adds a text, shown as Markdown.
    pub fn text(&mut self, tag: &str, step: u64, text: &str, wall_time: f64) -> Result<()> {
        self.summary(tag, step, wall_time, |summary| {
            summary.message(value::TENSOR, |tensor| {
                tensor.integer(tensor::DTYPE, tensor::STRING);
                tensor.message(tensor::SHAPE, |_| {});
                tensor.bytes(tensor::STRING_VALUE, text.as_bytes());
            });
            summary.message(value::METADATA, |metadata| {
                metadata.message(metadata::PLUGIN, |plugin| plugin.bytes(metadata::PLUGIN_NAME, b"text"));
                metadata.integer(metadata::DATA_CLASS, metadata::TENSOR_CLASS);
            });
        })
    }

    /// Flushes the buffer, so that a running TensorBoard sees all events.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| Error::io(&self.path, "write", error))
    }

    /// Writes an event with one summary value; `fill` adds its fields except the tag.
    fn summary(&mut self, tag: &str, step: u64, time: f64, fill: impl FnOnce(&mut Message)) -> Result<()> {
        self.event(time, step, |event| {
            event.message(event::SUMMARY, |summary| {
                summary.message(value::IN_SUMMARY, |value| {
                    value.bytes(value::TAG, tag.as_bytes());
                    fill(value);
                });
            });
        })
    }

    fn event(&mut self, wall_time: f64, step: u64, fill: impl FnOnce(&mut Message)) -> Result<()> {
        let mut event = Message::default();
        event.double(event::WALL_TIME, wall_time);
        if step > 0 {
            event.integer(event::STEP, step);
        }
        fill(&mut event);
        self.file.write_all(&record(&event.0)).map_err(|error| Error::io(&self.path, "write", error))
    }
}

/// Creates a file with a new name. TensorBoard reads the files of a folder in the order of their names, hence by time.
fn new_file(folder: &Path, wall_time: f64) -> Result<(PathBuf, File)> {
    let name = format!("events.out.tfevents.{:010}.polyhead.{}", wall_time as u64, std::process::id());
    let mut path = folder.join(&name);
    for repeat in 1.. {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                path = folder.join(format!("{name}.{repeat:04}"));
            }
            Err(error) => return Err(Error::io(path, "write", error)),
        }
    }
    unreachable!("some number is free")
}

/// `data` framed as a TFRecord.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked(crc32c(&length)).to_le_bytes());
    record.extend(data);
    record.extend(masked(crc32c(data)).to_le_bytes());
    record
}

fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bits reflected.
fn crc32c(data: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc_table();
    !data.iter().fold(u32::MAX, |crc, &byte| TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8))
}

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0x82f6_3b78 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// A protobuf message being encoded: each field is its number and wire type, then its value.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn integer(&mut self, field: u64, number: u64) {
        self.key(field, 0);
        self.varint(number);
    }

    fn double(&mut self, field: u64, number: f64) {
        self.key(field, 1);
        self.0.extend(number.to_le_bytes());
    }

    fn float(&mut self, field: u64, number: f32) {
        self.key(field, 5);
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}

/// Fields of `Event`.
mod event {
    pub(super) const WALL_TIME: u64 = 1;
    pub(super) const STEP: u64 = 2;
    pub(super) const FILE_VERSION: u64 = 3;
    pub(super) const SUMMARY: u64 = 5;
    pub(super) const SESSION_LOG: u64 = 7;
}

/// Fields of `SessionLog`.
mod session_log {
    pub(super) const STATUS: u64 = 1;
    pub(super) const START: u64 = 1;
}

/// Fields of `Summary` and `Summary.Value`.
mod value {
    pub(super) const IN_SUMMARY: u64 = 1;
    pub(super) const TAG: u64 = 1;
    pub(super) const SIMPLE_VALUE: u64 = 2;
    pub(super) const TENSOR: u64 = 8;
    pub(super) const METADATA: u64 = 9;
}

/// Fields of `TensorProto`.
mod tensor {
    pub(super) const DTYPE: u64 = 1;
    pub(super) const STRING: u64 = 7;
    pub(super) const SHAPE: u64 = 2;
    pub(super) const STRING_VALUE: u64 = 8;
}

/// Fields of `SummaryMetadata` and its `PluginData`.
mod metadata {
    pub(super) const PLUGIN: u64 = 1;
    pub(super) const PLUGIN_NAME: u64 = 1;
    pub(super) const DATA_CLASS: u64 = 4;
    pub(super) const TENSOR_CLASS: u64 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the CRC catalogue, and the test vectors of RFC 3720.
    #[test]
    fn checksums_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn files_of_the_same_second_get_different_names() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("logs/tensorboard");
        let paths = [0, 5, 9].map(|step| EventWriter::create(&runs, 12.0, step).unwrap().path().to_owned());
        assert!(paths.is_sorted() && paths[0] != paths[1] && paths[1] != paths[2], "{paths:?}");
        let name = paths[0].file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("events.out.tfevents.0000000012.polyhead."), "{name}");
    }

    #[test]
    fn an_error_names_the_file_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs");
        fs::write(&path, "").unwrap();
        let error = EventWriter::create(&path, 0.0, 0).unwrap_err().to_string();
        assert!(error.contains("logs: cannot create the folder"), "{error}");
    }
}
