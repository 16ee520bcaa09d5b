//! File format of an identifier, version 1; numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `polylang` |
//! | 4 | version |
//! | 4 | CRC-32 of the rest of the file |
//! | 4 × 4 | languages L, letters A, longest n-gram, rows R |
//! | 4 | f32: scale of the weights |
//! | per language | 1: length of its code, then the code |
//! | 4 × A | known letters besides a to z, ascending |
//! | R × L | weights, int8, row by row |

use std::borrow::Cow;
use std::path::Path;

use flate2::Crc;

use super::Identifier;
use super::ngrams::NgramHasher;
use crate::output::Output;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"polylang";
const VERSION: u32 = 1;
/// Longest n-gram of a file; longer ones would only cost time.
pub(super) const MAX_N: usize = 8;
/// Maximum number of languages of a file.
pub(super) const MAX_LANGUAGES: usize = 1000;
/// Maximum number of rows of the weight table.
pub(super) const MAX_ROWS: usize = 1 << 24;

impl Identifier {
    /// Reads the file that [`Identifier::save`] wrote.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = crate::whole::read(path, crate::whole::MAX_TABLE)
            .map_err(|error| Error::io(path, "read", error))?;
        decode(Cow::Owned(bytes), path)
    }

    /// Writes the identifier to a file.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        Output::save(path, &encode(self))
    }
}

pub(super) fn encode(identifier: &Identifier) -> Vec<u8> {
    let Identifier { codes, hasher, scale, weights } = identifier;
    let mut body = Vec::with_capacity(weights.len() + 4 * hasher.letters.len() + 1024);
    for number in [codes.len(), hasher.letters.len(), hasher.max_n, hasher.n_rows] {
        body.extend((number as u32).to_le_bytes());
    }
    body.extend(scale.to_le_bytes());
    for code in codes {
        body.push(code.len() as u8);
        body.extend(code.as_bytes());
    }
    body.extend(hasher.letters.iter().flat_map(|&letter| u32::from(letter).to_le_bytes()));
    body.extend(weights.iter());
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(checksum(&body).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The identifier in `bytes`; `path` is for error messages.
pub(super) fn decode(bytes: Cow<'static, [u8]>, path: &Path) -> Result<Identifier> {
    let described = Reader { bytes: &bytes, at: 0 }.read();
    let (codes, hasher, scale, at) = described.map_err(|FileError { found, hint }| Error::Format {
        path: path.to_owned(),
        line: None,
        found,
        expected: "a language identifier".into(),
        hint: hint.into(),
    })?;
    let weights = match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[at..]),
        Cow::Owned(mut bytes) => {
            bytes.drain(..at);
            Cow::Owned(bytes)
        }
    };
    Ok(Identifier { codes, hasher, scale, weights })
}

/// A malformed file: found content and remedy.
struct FileError {
    found: String,
    hint: &'static str,
}

impl FileError {
    fn damaged(found: impl Into<String>) -> Self {
        Self { found: found.into(), hint: "the file is damaged: copy it again, or train it again" }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Everything before the weights, and their byte offset.
    fn read(mut self) -> Result<(Vec<String>, NgramHasher, f32, usize), FileError> {
        if !self.bytes.starts_with(MAGIC) {
            let hint = "polyhead detect --train CODE=FILE … --out FILE trains one";
            return Err(FileError { found: "unknown file format".into(), hint });
        }
        self.at = MAGIC.len();
        let version = self.u32()?;
        if version != VERSION {
            let found = format!("format version {version} instead of {VERSION}");
            return Err(FileError {
                found,
                hint: "train it again, or use the version of polyhead that wrote it",
            });
        }
        let sum = self.u32()?;
        if checksum(&self.bytes[self.at..]) != sum {
            return Err(FileError::damaged("content that does not match its checksum"));
        }
        let n_codes = self.number("languages", MAX_LANGUAGES)?;
        let n_letters = self.u32()? as usize;
        let max_n = self.number("characters in an n-gram", MAX_N)?;
        let n_rows = self.number("rows", MAX_ROWS)?;
        let scale = f32::from_bits(self.u32()?);
        if !(scale.is_finite() && scale > 0.0) {
            return Err(FileError::damaged(format!("a scale of {scale}")));
        }
        let codes = self.codes(n_codes)?;
        let letters = self.letters(n_letters)?;
        let (found, expected) = (self.bytes.len() - self.at, n_rows * n_codes);
        if found != expected {
            return Err(FileError::damaged(format!("{found} bytes of weights instead of {expected}")));
        }
        Ok((codes, NgramHasher { letters, max_n, n_rows }, scale, self.at))
    }

    fn codes(&mut self, n_codes: usize) -> Result<Vec<String>, FileError> {
        let mut codes: Vec<String> = Vec::new();
        for _ in 0..n_codes {
            let len = self.take(1)?[0];
            let code = String::from_utf8_lossy(self.take(len.into())?).into_owned();
            if code.is_empty() || codes.contains(&code) {
                return Err(FileError::damaged(format!("an empty or repeated language code {code:?}")));
            }
            codes.push(code);
        }
        Ok(codes)
    }

    fn letters(&mut self, n_letters: usize) -> Result<Vec<char>, FileError> {
        let numbers = self.take(n_letters.saturating_mul(4))?.chunks_exact(4);
        let letters: Option<Vec<char>> = numbers.map(|bytes| char::from_u32(four(bytes))).collect();
        letters
            .filter(|letters| letters.is_sorted_by(|a, b| a < b))
            .ok_or_else(|| FileError::damaged("letters out of order"))
    }

    /// Reads a number from 1 to `most`.
    fn number(&mut self, name: &str, most: usize) -> Result<usize, FileError> {
        let number = self.u32()? as usize;
        if (1..=most).contains(&number) {
            Ok(number)
        } else {
            Err(FileError::damaged(format!("{number} {name} instead of 1 to {most}")))
        }
    }

    fn u32(&mut self) -> Result<u32, FileError> {
        self.take(4).map(four)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], FileError> {
        let taken = self.bytes[self.at..].get(..len).ok_or_else(|| FileError::damaged("a truncated file"))?;
        self.at += len;
        Ok(taken)
    }
}

fn four(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small() -> Identifier {
        let hasher = NgramHasher { letters: vec!['\'', 'é', 'ı'], max_n: 3, n_rows: 5 };
        let codes = vec!["en".to_owned(), "pt-BR".to_owned()];
        Identifier { codes, hasher, scale: 0.25, weights: Cow::Owned((120..130).collect()) }
    }

    fn message(bytes: Vec<u8>) -> String {
        decode(Cow::Owned(bytes), "f.ngrams".as_ref()).unwrap_err().to_string()
    }

    /// `bytes` with a valid checksum, so that the reader has to find the damage itself.
    fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = checksum(&bytes[16..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn load_returns_what_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.ngrams");
        small().save(&path).unwrap();
        assert_eq!(Identifier::load(&path).unwrap(), small());
        assert_eq!(std::fs::read(&path).unwrap(), encode(&small()));
    }

    #[test]
    fn damage_is_named() {
        let good = encode(&small());
        assert_eq!(
            message(b"hello".to_vec()),
            "f.ngrams: unknown file format, expected a language identifier"
        );
        let mut newer = good.clone();
        newer[8] = 2;
        assert!(message(newer).contains("format version 2 instead of 1"));
        assert!(message(good[..10].to_vec()).contains("truncated file"));
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            message(summed(bytes))
        };
        assert!(with(16, 0).contains("0 languages instead of 1 to 1000"));
        assert!(with(24, 9).contains("9 characters in an n-gram instead of 1 to 8"));
        assert!(with(28, 6).contains("10 bytes of weights instead of 12"));
        assert!(with(35, 0xff).contains("a scale of -"));
        assert!(with(20, 200).contains("truncated file"));
    }

    #[test]
    fn every_changed_or_missing_byte_is_detected() {
        let good = encode(&small());
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 0x10;
            message(changed);
            message(good[..at].to_vec());
        }
        message([good, vec![0]].concat());
    }

    proptest! {
        #[test]
        fn no_file_makes_the_reader_panic(tail in prop::collection::vec(any::<u8>(), 0..80), kept in 16_usize..40) {
            let mut bytes = encode(&small());
            bytes.truncate(kept);
            bytes.extend(tail);
            if let Ok(identifier) = decode(Cow::Owned(summed(bytes)), "f".as_ref()) {
                identifier.identify("the été");
            }
        }
    }
}
