//! Text files line by line: plain, or gzip, detected by its first two bytes; `-` is standard input.
//!
//! Only `\n` ends a line; one `\r` before it is dropped. Other characters that some tools read as line ends
//! (U+2028, U+0085, a lone `\r`) stay inside the line, so they never misalign two files.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

const BUFFER_BYTES: usize = 1 << 18;
/// Bytes of the longest line: more is no text, and might have no end.
pub const MAX_LINE_BYTES: usize = 16 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Reader of a text file, line by line.
///
/// ```
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("a.txt");
/// std::fs::write(&path, "Je suis étudiant\r\nmerci")?;
/// let mut lines = polyhead_text::lines::Lines::open(&path)?;
/// assert_eq!(lines.next_text()?, Some("Je suis étudiant"));
/// assert_eq!(lines.next_text()?, Some("merci"));
/// assert_eq!(lines.next_text()?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    path: PathBuf,
    line: u64,
    buffer: Vec<u8>,
    has_mark: bool,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lines({}:{})", self.path.display(), self.line)
    }
}

impl Lines {
    /// Opens `path`; `-` means standard input.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path == Path::new("-") {
            return Self::from_reader(io::stdin(), "standard input");
        }
        let file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
        let metadata = file.metadata().map_err(|error| Error::io(path, "open", error))?;
        if metadata.is_dir() {
            return Err(Error::io(path, "open", io::Error::new(io::ErrorKind::IsADirectory, "is a folder")));
        }
        Self::from_reader(file, path)
    }

    /// Lines of any reader; `name` replaces the path in error messages.
    pub fn from_reader(reader: impl Read + Send + 'static, name: impl AsRef<Path>) -> Result<Self> {
        let path = name.as_ref().to_owned();
        let failed = |error| Error::io(&path, "read", error);
        let (is_gzip, reader) = peek(reader, &GZIP_MAGIC).map_err(failed)?;
        let unpacked: Box<dyn Read + Send> =
            if is_gzip { Box::new(MultiGzDecoder::new(BufReader::new(reader))) } else { Box::new(reader) };
        // A byte-order mark before the first line is not part of the text.
        let (has_mark, mut unpacked) = peek(unpacked, &BYTE_ORDER_MARK).map_err(failed)?;
        if has_mark {
            unpacked.read_exact(&mut [0; BYTE_ORDER_MARK.len()]).map_err(failed)?;
        }
        let reader = Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked));
        Ok(Self { reader, path, line: 0, buffer: Vec::new(), has_mark })
    }

    /// True if a byte-order mark was skipped before the first line.
    pub fn has_byte_order_mark(&self) -> bool {
        self.has_mark
    }

    /// Bytes of the next line without its line end, or `None` at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be read, or the line is longer than [`MAX_LINE_BYTES`].
    pub fn next_bytes(&mut self) -> Result<Option<&[u8]>> {
        self.buffer.clear();
        let read = self
            .reader
            .by_ref()
            .take(MAX_LINE_BYTES as u64 + 2)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| Error::io(&self.path, "read", error))?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        if self.bytes().len() > MAX_LINE_BYTES {
            self.buffer = Vec::new();
            return Err(Error::Format {
                path: self.path.clone(),
                line: Some(self.line),
                found: format!("a line of more than {} MiB", MAX_LINE_BYTES >> 20),
                expected: "lines of text".into(),
                hint: "is this a text file? break long lines".into(),
            });
        }
        Ok(Some(self.bytes()))
    }

    /// The next line as text, or `None` at the end of the file.
    pub fn next_text(&mut self) -> Result<Option<&str>> {
        if self.next_bytes()?.is_none() {
            return Ok(None);
        }
        match std::str::from_utf8(self.bytes()) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                Err(Error::Utf8 { path: self.path.clone(), line: self.line, byte: error.valid_up_to() + 1 })
            }
        }
    }

    /// True if the line last returned ended with `\r\n`.
    pub fn ends_with_crlf(&self) -> bool {
        self.buffer.ends_with(b"\r\n")
    }

    /// The bytes of the line last returned.
    pub(crate) fn bytes(&self) -> &[u8] {
        without_line_end(&self.buffer)
    }

    /// Number of the line last returned, from 1; 0 before the first.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The path as passed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all lines at once, for small files (test sets, references).
    pub fn read_all(path: impl AsRef<Path>) -> Result<Vec<String>> {
        Self::open(path)?.rest()
    }

    /// Reads the lines that are left.
    pub fn rest(mut self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        while let Some(text) = self.next_text()? {
            all.push(text.to_owned());
        }
        Ok(all)
    }
}

/// A reader preceded by the bytes already read from it.
type Refilled<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// True if `reader` begins with `magic`, and a reader that still yields its first bytes. A pipe may deliver them one by
/// one; reading stops at the first byte that differs, since a short line may be all there is for a while.
fn peek<R: Read>(mut reader: R, magic: &[u8]) -> io::Result<(bool, Refilled<R>)> {
    let mut start = Vec::with_capacity(magic.len());
    while start.len() < magic.len() && magic.starts_with(&start) {
        if reader.by_ref().take(1).read_to_end(&mut start)? == 0 {
            break;
        }
    }
    Ok((start == magic, io::Cursor::new(start).chain(reader)))
}

/// `bytes` without one final `\n` or `\r\n`.
fn without_line_end(bytes: &[u8]) -> &[u8] {
    let Some(line) = bytes.strip_suffix(b"\n") else { return bytes };
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(bytes: &'static [u8]) -> Result<Vec<String>> {
        let mut lines = Lines::from_reader(bytes, "test")?;
        let mut out = Vec::new();
        while let Some(text) = lines.next_text()? {
            out.push(text.to_owned());
        }
        Ok(out)
    }

    #[test]
    fn only_newlines_end_a_line() {
        assert_eq!(
            all("a\rb\r\nc\u{2028}d\n\n\u{85}e\r".as_bytes()).unwrap(),
            ["a\rb", "c\u{2028}d", "", "\u{85}e\r"]
        );
        assert!(all(b"").unwrap().is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_an_error() {
        let long = |bytes: usize| io::repeat(b'x').take(bytes as u64).chain(&b"\nb"[..]);
        let mut lines = Lines::from_reader(io::repeat(0), "zero").unwrap();
        let error = lines.next_text().unwrap_err();
        assert_eq!(error.to_string(), "zero:1: a line of more than 16 MiB, expected lines of text");
        assert!(!error.hint().is_empty());
        let mut lines = Lines::from_reader(long(MAX_LINE_BYTES), "long").unwrap();
        assert_eq!(lines.next_bytes().unwrap().unwrap().len(), MAX_LINE_BYTES);
        assert_eq!(lines.next_text().unwrap(), Some("b"));
        assert!(Lines::from_reader(long(MAX_LINE_BYTES + 1), "longer").unwrap().next_bytes().is_err());
        // A bomb: a few kilobytes of gzip that unpack to a line of 32 MiB.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::copy(&mut io::repeat(b'a').take(32 << 20), &mut encoder).unwrap();
        let packed = io::Cursor::new(encoder.finish().unwrap());
        assert!(Lines::from_reader(packed, "bomb").unwrap().next_bytes().is_err());
    }

    #[test]
    fn invalid_utf8_names_line_and_byte() {
        let error = all(b"good\nab\xffcd\n").unwrap_err().to_string();
        assert_eq!(error, "test:2: invalid UTF-8 at byte 3 of the line");
    }

    #[test]
    fn several_gzip_members_read_as_one_file() {
        let mut bytes = Vec::new();
        for part in ["one\ntw", "o\nthree\n"] {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(part.as_bytes()).unwrap();
            bytes.extend(encoder.finish().unwrap());
        }
        let bytes: &'static [u8] = bytes.leak();
        assert_eq!(all(bytes).unwrap(), ["one", "two", "three"]);
        assert!(all(&bytes[..bytes.len() - 4]).is_err(), "a gzip cut short must not read as complete");
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let marked = |bytes: &'static [u8]| Lines::from_reader(bytes, "test").unwrap().has_byte_order_mark();
        assert_eq!([marked("\u{feff}a".as_bytes()), marked(b"a")], [true, false]);
        assert_eq!(all("\u{feff}a\n\u{feff}b".as_bytes()).unwrap(), ["a", "\u{feff}b"]);
        assert_eq!(all(b"\xef\xbb").unwrap_err().to_string(), "test:1: invalid UTF-8 at byte 1 of the line");
    }

    #[test]
    fn a_folder_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = Lines::open(folder.path()).unwrap_err();
        assert!(error.to_string().ends_with("cannot open: is a folder"), "{error}");
        assert_eq!(error.hint(), "name a file inside this folder");
    }
}
