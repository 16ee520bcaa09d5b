//! Standard input in chunks of lines: those that have arrived, so that an interactive writer gets an answer at once and
//! a large file fills whole batches without being held in memory. Also: text files where `-` is standard input.

use std::io::IsTerminal as _;
#[cfg(unix)]
use std::os::{fd::AsFd as _, unix::fs::FileExt as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::Result;
use polyhead_tensor::Device;
use polyhead_text::lines::Lines;
use polyhead_text::whole;

use crate::report::note;

/// Mean length of a line, in bytes, above which a chunk holds fewer lines.
const LINE_BYTES: usize = 256;

/// The name of standard input in messages.
pub(crate) const STANDARD_INPUT: &str = "standard input";

/// The bytes of a file, or of standard input for `-`.
pub(crate) fn read_bytes(path: &Path) -> polyhead_text::Result<Vec<u8>> {
    let failed = |error| polyhead_text::Error::io(path, "open", error);
    if path != Path::new("-") {
        return whole::read(path, whole::MAX_TABLE).map_err(failed);
    }
    let read = whole::read_from(std::io::stdin().lock(), whole::MAX_TABLE);
    read.map_err(|error| polyhead_text::Error::io(Path::new(STANDARD_INPUT), "read", error))
}

/// The path as messages name it.
pub(crate) fn shown(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new(STANDARD_INPUT) } else { path }
}

/// A line of standard input.
pub(crate) struct InputLine {
    text: String,
    end: LineEnd,
    /// Line number from 1 and position of the first invalid byte from 1, where bytes were replaced.
    replaced: Option<(u64, usize)>,
}

/// The end of a line, which its translation gets too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// `\n`
    Newline,
    /// `\r\n`
    CarriageReturn,
}

impl LineEnd {
    /// Its characters.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Newline => "\n",
            Self::CarriageReturn => "\r\n",
        }
    }
}

impl InputLine {
    /// A line of these bytes; invalid UTF-8 becomes U+FFFD.
    pub(crate) fn new(bytes: &[u8], number: u64) -> Self {
        let replaced = std::str::from_utf8(bytes).err().map(|error| (number, error.valid_up_to() + 1));
        Self { text: String::from_utf8_lossy(bytes).into_owned(), end: LineEnd::Newline, replaced }
    }

    /// The end of the line.
    pub(crate) fn end(&self) -> LineEnd {
        self.end
    }

    /// The text; prints a note if bytes were replaced.
    pub(crate) fn into_text(self) -> String {
        if let Some((line, byte)) = self.replaced {
            note(&format!("note: standard input:{line}: invalid UTF-8 at byte {byte}, replaced by U+FFFD"));
        }
        self.text
    }
}

/// Chunks of lines.
pub(crate) struct Chunks {
    lines: Receiver<polyhead_text::Result<InputLine>>,
    /// Maximum number of lines in a chunk.
    max_lines: usize,
    fill: ChunkFill,
}

/// The lines that a chunk takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkFill {
    /// The lines that have arrived.
    Arrived,
    /// As many as fit, waiting for them, so that the same input gives the same chunks.
    Full,
}

impl ChunkFill {
    /// Full chunks for a GPU, whose batches take turns, unless a person types; else what has arrived.
    pub(crate) fn for_device(device: &Device) -> Self {
        let is_typed = std::io::stdin().is_terminal();
        if device.policy().takes_turns && !is_typed { Self::Full } else { Self::Arrived }
    }
}

impl Chunks {
    /// Reads standard input on a thread of its own, `max_lines` lines at a time.
    pub(crate) fn of_standard_input(max_lines: usize, fill: ChunkFill) -> Result<Self> {
        Self::open(Path::new("-"), max_lines, fill)
    }

    /// Same as [`Chunks::of_standard_input`] for a file.
    pub(crate) fn open(path: &Path, max_lines: usize, fill: ChunkFill) -> Result<Self> {
        let (sender, lines) = sync_channel(max_lines);
        let path = path.to_owned();
        std::thread::Builder::new().name("input".into()).spawn(move || {
            let read = || -> polyhead_text::Result<()> {
                let mut lines = Lines::open(&path)?;
                while let Some(bytes) = lines.next_bytes()?.map(<[u8]>::to_vec) {
                    let end = if lines.ends_with_crlf() { LineEnd::CarriageReturn } else { LineEnd::Newline };
                    if sender.send(Ok(InputLine { end, ..InputLine::new(&bytes, lines.line()) })).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(error) = read() {
                // The receiver is gone if the command has failed.
                let _ = sender.send(Err(error));
            }
        })?;
        Ok(Self { lines, max_lines, fill })
    }

    /// Sets the maximum number of lines of the next chunks.
    pub(crate) fn set_max_lines(&mut self, max_lines: usize) {
        self.max_lines = max_lines;
    }
}

/// Larger files are not counted before they are translated.
const MAX_COUNTED_BYTES: u64 = 1 << 30;

/// The number of lines of standard input, if it is a plain file that is not compressed; nothing is consumed.
#[cfg(unix)]
pub(crate) fn count_lines() -> Option<u64> {
    let mut file = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut at = std::io::Seek::stream_position(&mut file).ok()?;
    if size.saturating_sub(at) > MAX_COUNTED_BYTES {
        return None;
    }
    let (mut buffer, mut lines, mut last) = (vec![0; 1 << 16], 0, b'\n');
    let first = at;
    loop {
        let read = file.read_at(&mut buffer, at).ok()?;
        let Some(&end) = buffer[..read].last() else { break };
        // Compressed.
        if at == first && buffer[..read].starts_with(&[0x1f, 0x8b]) {
            return None;
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
        (at, last) = (at + read as u64, end);
    }
    Some(lines + u64::from(last != b'\n'))
}

/// The number of lines of standard input; not known here.
#[cfg(not(unix))]
pub(crate) fn count_lines() -> Option<u64> {
    None
}

impl Iterator for Chunks {
    type Item = Result<Vec<InputLine>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        let mut next = self.lines.recv().ok();
        while let Some(line) = next {
            match line {
                Ok(line) => {
                    bytes += line.text.len();
                    chunk.push(line);
                }
                Err(error) => return Some(Err(error.into())),
            }
            let is_full = chunk.len() >= self.max_lines || bytes >= self.max_lines * LINE_BYTES;
            next = match self.fill {
                _ if is_full => None,
                ChunkFill::Arrived => self.lines.try_recv().ok(),
                ChunkFill::Full => self.lines.recv().ok(),
            };
        }
        (!chunk.is_empty()).then_some(Ok(chunk))
    }
}
/// Arguments of the command line as texts: for a model of several sources as many are the texts of one source, with tabs between.
pub(crate) fn joined_sources(arguments: Vec<String>, n_sources: usize) -> Vec<String> {
    let is_one = n_sources > 1
        && arguments.len() == n_sources
        && !arguments.iter().any(|argument| argument.contains('\t'));
    if is_one { vec![arguments.join("\t")] } else { arguments }
}
