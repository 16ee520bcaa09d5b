//! The error type of this crate: every variant holds values (paths, lines, sizes), prints as one line and has a hint.
//!
//! The line is `where: found, expected …`, in lower case, without a full stop. The hint is an imperative sentence or a
//! command to run; programs print it on a line of its own, after `hint: `.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about text, or about the files that hold it. `Display` is one line; [`Error::hint`] is the remedy.
///
/// ```
/// use polyhead_text::{Error, lines::Lines};
/// let error: Error = Lines::open("no/such.txt").unwrap_err();
/// assert!(error.to_string().starts_with("no/such.txt: cannot open: "));
/// assert_eq!(error.hint(), "check the spelling and the current folder");
/// ```
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to open, read or write a file.
    #[error("{}: cannot {action}: {}", path.display(), system_message(source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted operation as a verb: `open`, `read`, `write`.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A line is not UTF-8.
    #[error("{}:{line}: invalid UTF-8 at byte {byte} of the line", path.display())]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// The first invalid byte of the line, from 1.
        byte: usize,
    },
    /// The content of a file is not in the expected format.
    #[error("{}: {found}, expected {expected}", location(path, *line))]
    Format {
        /// The file.
        path: PathBuf,
        /// Line number, from 1; `None` for formats without lines.
        line: Option<u64>,
        /// The content found, as a noun phrase.
        found: String,
        /// The content expected, as a noun phrase.
        expected: String,
        /// The remedy; see [`Error::hint`].
        hint: String,
    },
    /// Two files that correspond line by line have different numbers of lines.
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
    /// The input holds no text.
    #[error("{what}: no text found, expected at least one line that is not empty")]
    Empty {
        /// The input: a path, or words such as `training text`.
        what: String,
    },
    /// An option has an invalid value. The one variant that is misuse: see [`Error::is_misuse`].
    #[error("{name}: {found}, expected {expected}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// The value found.
        found: String,
        /// The valid values.
        expected: String,
        /// The remedy; see [`Error::hint`].
        hint: String,
    },
    /// The requested vocabulary is smaller than its obligatory entries.
    #[error(
        "vocabulary size {requested}, expected at least {minimum} for special tokens, bytes and single characters"
    )]
    VocabularyTooSmall {
        /// The requested size.
        requested: usize,
        /// Number of obligatory entries.
        minimum: usize,
    },
    /// The requested vocabulary is larger than the training text allows.
    #[error("vocabulary size {requested}, expected at most {maximum}, which is all that the text yields")]
    VocabularyTooLarge {
        /// The requested size.
        requested: usize,
        /// The largest size that training on this text can reach.
        maximum: usize,
    },
    /// An id or a token that is not in the vocabulary.
    #[error("{found} is not in the vocabulary of {vocab_size} entries")]
    UnknownToken {
        /// The id or token as displayed: `id 9000`, `token "<2tr>"`.
        found: String,
        /// Number of entries in the vocabulary.
        vocab_size: usize,
    },
}

impl Error {
    /// A failed system call on `path`.
    pub fn io(path: impl AsRef<Path>, action: &'static str, source: std::io::Error) -> Self {
        Self::Io { path: path.as_ref().to_owned(), action, source }
    }

    /// An id that is not in a vocabulary of `vocab_size` entries.
    pub(crate) fn unknown_id(id: u32, vocab_size: usize) -> Self {
        Self::UnknownToken { found: format!("id {id}"), vocab_size }
    }

    /// True if the caller passed an invalid option; false if the operation itself failed.
    pub fn is_misuse(&self) -> bool {
        matches!(self, Self::Option { .. })
    }

    /// The remedy, as an imperative sentence or a command to run. Never empty.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { source, .. } => io_hint(source).into(),
            Self::Utf8 { path, .. } => format!(
                "convert the file, for instance: iconv -f LATIN1 -t UTF-8 {}; \
                 polyhead data check lists every such line",
                path.display()
            ),
            Self::LineCounts { .. } => {
                "find the first misaligned line with: polyhead data check --source … --target …".into()
            }
            Self::Empty { .. } => "check the path; an empty .gz also reads as no text".into(),
            Self::VocabularyTooSmall { minimum, .. } => format!(
                "use --vocab-size {minimum} or more, or lower --character-coverage so that rare characters need no \
                 entry of their own"
            ),
            Self::VocabularyTooLarge { maximum, .. } => {
                format!("use --vocab-size {maximum} or less, or more text")
            }
            Self::UnknownToken { .. } => {
                "check that the tokeniser and the model are from the same folder".into()
            }
            Self::Format { hint, .. } | Self::Option { hint, .. } => hint.clone(),
        }
    }
}

fn io_hint(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::NotFound => "check the spelling and the current folder",
        ErrorKind::PermissionDenied => "check the permissions of the file and its folder",
        ErrorKind::IsADirectory => "name a file inside this folder",
        ErrorKind::NotADirectory => "a part of the path is a file, not a folder",
        ErrorKind::StorageFull => "free some space or write to another disk",
        ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
            "the file may be damaged or cut short; a .gz can be tested with: gzip -t"
        }
        _ => "check the path and the disk",
    }
}

/// `path:line`, or `path` alone.
fn location(path: &Path, line: Option<u64>) -> String {
    match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    }
}

/// The system's message with its first letter in lower case and without `(os error 2)`, to continue a sentence.
///
/// ```
/// let error = std::io::Error::from_raw_os_error(2);
/// assert_eq!(polyhead_text::error::system_message(&error), "no such file or directory");
/// ```
pub fn system_message(source: &std::io::Error) -> String {
    let text = source.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
