//! Fingerprint of a file: its size and SHA-256, as `sha256sum` prints it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// Size and hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Path of the file.
    pub path: PathBuf,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

impl Fingerprint {
    /// Reads a file, or the files below a folder in the order of their names, and hashes them.
    pub fn of(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Self::of_folder(path);
        }
        let mut file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
        let (mut hash, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 18]);
        loop {
            let n = file.read(&mut buffer).map_err(|error| Error::io(path, "read", error))?;
            if n == 0 {
                break;
            }
            hash.update(&buffer[..n]);
            bytes += n as u64;
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path: path.to_owned(), bytes, sha256 })
    }

    /// The sum of the sizes of the files below a folder, and the hash of their names and hashes.
    fn of_folder(path: &Path) -> Result<Self> {
        let error = |error| Error::io(path, "read", error);
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(error)?;
        entries.sort();
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        for entry in entries {
            let own = Self::of(&entry)?;
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            hash.update(format!("{name}\0{}\n", own.sha256));
            bytes += own.bytes;
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { path: path.to_owned(), bytes, sha256 })
    }

    /// True if both have the same content; paths may differ.
    pub fn is_same_content(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.sha256 == other.sha256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let found = Fingerprint::of(&path).unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(found.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(found.bytes, 3);
    }
}
