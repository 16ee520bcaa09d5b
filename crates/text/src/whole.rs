//! Whole small files, up to a limit: a config or a tokeniser that has no end must not fill the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of the largest config, index or list of settings.
pub const MAX_SETTINGS: u64 = 64 << 20;

/// Bytes of the largest tokeniser or other table.
pub const MAX_TABLE: u64 = 512 << 20;

/// The bytes of a file of at most `most` bytes.
///
/// # Errors
/// If it cannot be read, or is larger.
pub fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    read_from(File::open(path)?, most)
}

/// All bytes of a reader, at most `most`.
///
/// # Errors
/// If it cannot be read, or has more.
pub fn read_from(reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("more than {} MiB, expected less in such a file", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_an_error() {
        let error = read_from(io::repeat(0), 3 << 20).unwrap_err();
        assert_eq!(error.to_string(), "more than 3 MiB, expected less in such a file");
        assert_eq!(read_from(&b"abc"[..], 3).unwrap(), b"abc");
        assert!(read_from(&b"abcd"[..], 3).is_err());
    }
}
