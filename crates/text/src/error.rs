//! Everything that can go wrong with text: what was found, what was expected, and a hint.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about text or the files it lives in. `Display` is one line; [`Error::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read or write.
    #[error("{}: cannot {action}: {}", path.display(), lower(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as a verb: `open`, `read`, `write`.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A line is not UTF-8.
    #[error("{}:{line}: invalid UTF-8 at byte {byte} of the line", path.display())]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The first wrong byte of the line, from 1.
        byte: usize,
    },
    /// A file does not have the form it should have.
    #[error("{}: {found}, expected {expected}", at(path, *line))]
    Format {
        /// The file.
        path: PathBuf,
        /// The line, from 1, where the form has lines.
        line: Option<u64>,
        /// What stands there.
        found: String,
        /// What should stand there.
        expected: String,
        /// What to do about it.
        hint: String,
    },
    /// Two files that belong together line by line have different numbers of lines.
    #[error(
        "{} has {source_lines} lines, {} has {target_lines}: expected the same number",
        source_path.display(), target_path.display()
    )]
    LineCounts {
        /// The source file.
        source_path: PathBuf,
        /// The target file.
        target_path: PathBuf,
        /// Lines of the source file.
        source_lines: u64,
        /// Lines of the target file.
        target_lines: u64,
    },
    /// There is no text to work with.
    #[error("{what}: no text found, expected at least one line that is not empty")]
    Empty {
        /// The file or files.
        what: String,
    },
    /// An option has a value that makes no sense.
    #[error("{name}: {found}, expected {expected}")]
    Option {
        /// The option's name.
        name: &'static str,
        /// The value found.
        found: String,
        /// The values that would do.
        expected: String,
        /// What to do about it.
        hint: String,
    },
    /// The asked vocabulary has no room for what it must hold.
    #[error("vocabulary size {asked} asked, but special tokens, bytes and characters alone need {smallest}")]
    VocabularyTooSmall {
        /// The size asked for.
        asked: usize,
        /// Entries that must fit.
        smallest: usize,
    },
    /// The asked vocabulary is larger than the text allows.
    #[error("vocabulary size {asked} asked, but the text yields at most {largest}")]
    VocabularyTooLarge {
        /// The size asked for.
        asked: usize,
        /// The largest size that training on this text can reach.
        largest: usize,
    },
    /// An id or piece that the vocabulary does not hold.
    #[error("{found} is not in the vocabulary of {vocab_size} entries")]
    Unknown {
        /// The id or piece, in words: `id 9000`, `piece "<2tr>"`.
        found: String,
        /// Entries in the vocabulary.
        vocab_size: usize,
    },
}

impl Error {
    /// A failed system call on `path`.
    pub fn io(path: impl AsRef<Path>, action: &'static str, source: std::io::Error) -> Self {
        Self::Io { path: path.as_ref().to_owned(), action, source }
    }

    /// True where the caller asked for something that makes no sense, rather than something having failed.
    pub fn is_misuse(&self) -> bool {
        matches!(self, Self::Option { .. })
    }

    /// What the reader of the message can do.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { source, .. } => io_hint(source).into(),
            Self::Utf8 { path, .. } => format!(
                "convert the file, for instance: iconv -f LATIN1 -t UTF-8 {}; \
                 polyhead data check lists every such line",
                path.display()
            ),
            Self::LineCounts { .. } => {
                "polyhead data check --source … --target … says where the two drift apart".into()
            }
            Self::Empty { .. } => "check the path; an empty .gz also reads as no text".into(),
            Self::VocabularyTooSmall { smallest, .. } => format!(
                "ask for --vocab-size {smallest} or more, or lower --character-coverage so that rare characters need \
                 no entry of their own"
            ),
            Self::VocabularyTooLarge { largest, .. } => {
                format!("ask for --vocab-size {largest} or give more text")
            }
            Self::Unknown { .. } => "are tokeniser and model from the same folder?".into(),
            Self::Format { hint, .. } | Self::Option { hint, .. } => hint.clone(),
        }
    }
}

fn io_hint(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind as Kind;
    match source.kind() {
        Kind::NotFound => "check the spelling and the current folder",
        Kind::PermissionDenied => "check the permissions of the file and its folder",
        Kind::IsADirectory => "name a file inside this folder",
        Kind::NotADirectory => "a part of the path is a file, not a folder",
        Kind::StorageFull => "free some space or write to another disk",
        Kind::InvalidInput | Kind::InvalidData | Kind::UnexpectedEof => {
            "the file may be damaged or cut short; a .gz can be tested with: gzip -t"
        }
        _ => "check the path and the disk",
    }
}

fn at(path: &Path, line: Option<u64>) -> String {
    match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    }
}

/// The system's message in lower case and without its number, so that it reads on inside a sentence.
fn lower(source: &std::io::Error) -> String {
    let text = source.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
