//! Lines of standard input in chunks: as many as have come, so that a slow writer is answered at once and a large file
//! fills whole batches without lying in memory.

use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::Result;
use polyhead_text::lines::Lines;

use crate::report::note;

/// Bytes of a line, on average, beyond which a chunk takes fewer lines.
const LINE_BYTES: usize = 256;

/// A line.
pub(crate) struct Line {
    text: String,
    /// Its number from 1, if bytes of it had to be replaced, and the first of them.
    replaced: Option<(u64, usize)>,
}

impl Line {
    /// A line of these bytes.
    pub(crate) fn new(bytes: &[u8], number: u64) -> Self {
        let replaced = std::str::from_utf8(bytes).err().map(|error| (number, error.valid_up_to() + 1));
        Self { text: String::from_utf8_lossy(bytes).into_owned(), replaced }
    }

    /// The text; what had to be replaced is noted.
    pub(crate) fn noted(self) -> String {
        if let Some((line, byte)) = self.replaced {
            note(&format!("note: standard input:{line}: invalid UTF-8 at byte {byte}, replaced by U+FFFD"));
        }
        self.text
    }
}

/// Chunks of lines.
pub(crate) struct Chunks {
    lines: Receiver<polyhead_text::Result<Line>>,
    /// Lines translated together at most.
    most: usize,
    patience: Patience,
}

/// Whether a chunk waits for lines that are not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// No: what is there is translated at once.
    None,
    /// Until it is full or the input ends, so that the same input gives the same chunks.
    UntilFull,
}

impl Chunks {
    /// Reads standard input on a thread of its own, `most` lines at a time.
    pub(crate) fn of_standard_input(most: usize, patience: Patience) -> Result<Self> {
        let (sender, lines) = sync_channel(most);
        std::thread::Builder::new().name("input".into()).spawn(move || {
            let read = || -> polyhead_text::Result<()> {
                let mut lines = Lines::open("-")?;
                while let Some(bytes) = lines.next_bytes()?.map(<[u8]>::to_vec) {
                    if sender.send(Ok(Line::new(&bytes, lines.line()))).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(error) = read() {
                // Nobody listens when the work has failed.
                let _ = sender.send(Err(error));
            }
        })?;
        Ok(Self { lines, most, patience })
    }
}

impl Iterator for Chunks {
    type Item = Result<Vec<Line>>;

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
            let is_full = chunk.len() >= self.most || bytes >= self.most * LINE_BYTES;
            next = match self.patience {
                _ if is_full => None,
                Patience::None => self.lines.try_recv().ok(),
                Patience::UntilFull => self.lines.recv().ok(),
            };
        }
        (!chunk.is_empty()).then_some(Ok(chunk))
    }
}
