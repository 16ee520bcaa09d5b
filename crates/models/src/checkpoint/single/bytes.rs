//! A memory-mapped file and a reader that never goes beyond its end.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::checkpoint::safetensors::map;
use crate::{Error, Result};

/// A file in memory.
#[derive(Debug)]
pub(super) struct Mapped {
    path: PathBuf,
    /// `None` for an empty file, which cannot be mapped.
    bytes: Option<Mmap>,
}

impl Mapped {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
        let size = file.metadata().map_err(|error| Error::io(path, "read", error))?.len();
        let bytes = (size > 0).then(|| map(path, &file)).transpose()?;
        Ok(Self { path: path.to_owned(), bytes })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    pub(super) fn wrong(&self, message: impl Into<String>) -> Error {
        Error::file(&self.path, message.into(), "the file is damaged or incomplete; download it again")
    }
}

/// Reads numbers and texts one after the other, little-endian.
pub(super) struct Reader<'a> {
    file: &'a Mapped,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a Mapped) -> Self {
        Self { file, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let found = self.at.checked_add(count).and_then(|end| self.file.bytes().get(self.at..end));
        let found = found.ok_or_else(|| {
            self.file.wrong(format!(
                "{count} bytes expected at byte {} of {}",
                self.at,
                self.file.bytes().len()
            ))
        })?;
        self.at += count;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of things that take at least `size` bytes each, and hence fit into the rest of the file.
    pub(super) fn count(&mut self, size: usize) -> Result<usize> {
        let found = self.u64()?;
        let rest = self.file.bytes().len() - self.at;
        let count = usize::try_from(found)
            .ok()
            .filter(|count| count.checked_mul(size).is_some_and(|all| all <= rest));
        count.ok_or_else(|| {
            self.file.wrong(format!("{found} entries at byte {}, but {rest} bytes follow", self.at))
        })
    }

    /// A text with its length before it.
    pub(super) fn text(&mut self) -> Result<&'a str> {
        let length = self.count(1)?;
        let at = self.at;
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| self.file.wrong(format!("no UTF-8 text at byte {at}")))
    }
}
