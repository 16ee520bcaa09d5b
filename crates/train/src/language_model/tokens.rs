//! The token ids of a text: in memory, or beyond [`LIMIT`] in a file that is mapped into memory, so that a corpus may be larger
//! than the memory of the machine.
//!
//! The file has no name once it is mapped: it disappears with the process, however that ends.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::{Error, Result};

/// Ids that are held in memory: 256 MiB of them.
pub(crate) const LIMIT: usize = 64 << 20;
/// Bytes of an id in the file.
const BYTES: usize = size_of::<u32>();

/// The token ids of a text.
#[derive(Debug)]
pub(crate) enum TokenIds {
    Memory(Vec<u32>),
    /// Little-endian numbers of a file.
    Mapped(Mmap),
}

impl TokenIds {
    /// Some of the ids.
    pub(crate) fn range(&self, range: Range<usize>) -> Cow<'_, [u32]> {
        match self {
            Self::Memory(ids) => Cow::Borrowed(&ids[range]),
            Self::Mapped(bytes) => {
                let (ids, rest) = bytes[range.start * BYTES..range.end * BYTES].as_chunks::<BYTES>();
                debug_assert!(rest.is_empty(), "ids are whole");
                Cow::Owned(ids.iter().map(|id| u32::from_le_bytes(*id)).collect())
            }
        }
    }

    /// Bytes of memory that the system cannot take back.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Memory(ids) => ids.len() * BYTES,
            Self::Mapped(_) => 0,
        }
    }
}

/// Collects the ids of a text.
#[derive(Debug)]
pub(crate) struct TokenWriter {
    /// Ids that are not in the file.
    memory: Vec<u32>,
    file: Option<TokenFile>,
    len: usize,
    limit: usize,
    /// Folder of the file.
    folder: PathBuf,
}

#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // It is of use to this process alone, which has mapped it. Where an open file cannot be removed, it stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl TokenWriter {
    /// Keeps up to `limit` ids in memory, and more in a file in `folder`.
    pub(crate) fn new(folder: &Path, limit: usize) -> Self {
        Self { memory: Vec::new(), file: None, len: 0, limit, folder: folder.to_owned() }
    }

    /// Number of ids.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends ids.
    pub(crate) fn extend(&mut self, ids: &[u32]) -> Result<()> {
        self.memory.extend_from_slice(ids);
        self.len += ids.len();
        if self.memory.len() > self.limit { self.spill() } else { Ok(()) }
    }

    /// Moves the ids in memory to the file.
    fn spill(&mut self) -> Result<()> {
        if self.file.is_none() {
            std::fs::create_dir_all(&self.folder)
                .map_err(|error| Error::io(&self.folder, "create", error))?;
            let path =
                self.folder.join(format!(".tokens-{}-{:x}", std::process::id(), self.memory.as_ptr().addr()));
            let file = File::options().read(true).write(true).create_new(true).open(&path);
            let file = file.map_err(|error| Error::io(&path, "create", error))?;
            self.file = Some(TokenFile { path, out: BufWriter::new(file) });
            // From here on a part of it is enough.
            self.limit = self.limit.min(1 << 20);
        }
        let TokenFile { path, out } = self.file.as_mut().expect("made above");
        for id in self.memory.drain(..) {
            out.write_all(&id.to_le_bytes()).map_err(|error| Error::io(path, "write", error))?;
        }
        self.memory.shrink_to(self.limit);
        Ok(())
    }

    /// The ids.
    pub(crate) fn finish(mut self) -> Result<TokenIds> {
        if self.file.is_none() {
            return Ok(TokenIds::Memory(self.memory));
        }
        self.spill()?;
        let TokenFile { path, out } = self.file.as_mut().expect("there is a file");
        out.flush().map_err(|error| Error::io(path, "write", error))?;
        Ok(TokenIds::Mapped(map(path, out.get_ref())?))
    }
}

#[expect(unsafe_code, reason = "a memory map has no safe form")]
fn map(path: &Path, file: &File) -> Result<Mmap> {
    // SAFETY: the file was created by this process, which does not write to it any more, and has no name for other programs
    // once the writer is dropped.
    unsafe { Mmap::map(file) }.map_err(|error| Error::io(path, "map", error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    #[test]
    fn a_file_has_the_ids_of_memory_and_disappears() {
        let folder = tempfile::tempdir().unwrap();
        let ids: Vec<u32> = (0..1000).map(|i| i * 4_000_037).collect();
        let of = |limit| {
            let mut writer = TokenWriter::new(folder.path(), limit);
            for part in ids.chunks(7) {
                writer.extend(part).unwrap();
            }
            assert_eq!(writer.len(), ids.len());
            writer.finish().unwrap()
        };
        let (memory, mapped) = (of(1000), of(100));
        assert!(matches!((&memory, &mapped), (TokenIds::Memory(_), TokenIds::Mapped(_))));
        for range in [0..1000, 0..1, 99..101, 500..500, 993..1000] {
            assert_eq!(memory.range(range.clone()), &ids[range.clone()]);
            assert_eq!(mapped.range(range.clone()), &ids[range]);
        }
        assert_eq!((memory.bytes(), mapped.bytes()), (4000, 0));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
