//! Translated files that wait to be fetched: in memory, for a while, up to so many bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;

use crate::front::keys::random_digits;
use crate::{Error, Result};

/// How files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesOptions {
    /// Bytes of all files together; the oldest go first. 64 MiB.
    pub bytes: usize,
    /// How long a file is kept; 20 minutes.
    pub lifetime: Duration,
}

impl Default for FilesOptions {
    fn default() -> Self {
        Self { bytes: 64 << 20, lifetime: Duration::from_secs(1200) }
    }
}

/// A file that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// What it is called, for whoever fetches it.
    pub name: String,
    /// What it holds.
    pub bytes: Bytes,
}

/// Files that wait.
#[derive(Debug, Default)]
pub struct Files {
    options: FilesOptions,
    /// The oldest first.
    kept: Mutex<VecDeque<(String, Instant, KeptFile)>>,
}

impl Files {
    /// None yet.
    pub fn new(options: FilesOptions) -> Self {
        Self { options, kept: Mutex::default() }
    }

    /// Keeps a file; the id is all that it can be found by, and cannot be guessed.
    ///
    /// # Errors
    /// If the file alone is too large, or the system has no random numbers.
    pub fn keep(&self, file: KeptFile) -> Result<String> {
        let size = file.bytes.len();
        if size > self.options.bytes {
            let limit = format!("{} bytes", self.options.bytes);
            return Err(Error::TooLarge { found: format!("a translation of {size} bytes"), limit });
        }
        let id = random_digits::<16>()?;
        let mut kept = self.lock();
        let mut bytes = size + kept.iter().map(|(_, _, own)| own.bytes.len()).sum::<usize>();
        while bytes > self.options.bytes {
            let Some((_, _, oldest)) = kept.pop_front() else { break };
            bytes -= oldest.bytes.len();
        }
        kept.push_back((id.clone(), Instant::now(), file));
        Ok(id)
    }

    /// The file of an id, while it is kept.
    pub fn find(&self, id: &str) -> Option<KeptFile> {
        self.lock().iter().find(|(own, _, _)| own == id).map(|(_, _, file)| file.clone())
    }

    /// Bytes of all files that wait.
    pub fn bytes(&self) -> usize {
        self.lock().iter().map(|(_, _, own)| own.bytes.len()).sum()
    }

    /// The files, less those whose time is over.
    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, Instant, KeptFile)>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.front().is_some_and(|(_, since, _)| since.elapsed() >= self.options.lifetime) {
            kept.pop_front();
        }
        kept
    }
}

/// The name of a translated file: `letter.txt` into Turkish is `letter_tr.txt`.
pub(crate) fn translated_name(name: &str, to: &str) -> String {
    let name = if name.is_empty() { "translation" } else { name };
    match name.rsplit_once('.') {
        Some((stem, end)) if !stem.is_empty() => format!("{stem}_{to}.{end}"),
        _ => format!("{name}_{to}.txt"),
    }
}

/// The header that names a file: in ASCII for old clients, and whole.
pub(crate) fn disposition(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._- ".contains(letter);
    let plain: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let whole: String = name
        .bytes()
        .map(|byte| if is_bare(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{whole}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: usize) -> KeptFile {
        KeptFile { name: "a.txt".into(), bytes: vec![b'x'; size].into() }
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_bytes() {
        let files = Files::new(FilesOptions { bytes: 10, ..FilesOptions::default() });
        let ids: Vec<String> = [4, 4, 6].map(|size| files.keep(file(size)).unwrap()).into();
        let sizes: Vec<Option<usize>> =
            ids.iter().map(|id| files.find(id).map(|own| own.bytes.len())).collect();
        assert_eq!((sizes, files.bytes()), (vec![None, Some(4), Some(6)], 10));
        assert_eq!(files.keep(file(11)).unwrap_err().status(), 413);
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        assert!(ids[0] != ids[1] && files.find("").is_none());
    }

    #[test]
    fn files_go_when_their_time_is_over() {
        let files =
            Files::new(FilesOptions { lifetime: Duration::from_millis(20), ..FilesOptions::default() });
        let id = files.keep(file(1)).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!((files.find(&id), files.bytes()), (None, 0));
    }

    #[test]
    fn names_are_words_to_show() {
        assert_eq!(translated_name("letter.txt", "tr"), "letter_tr.txt");
        assert_eq!(
            [translated_name("", "de"), translated_name(".po", "de")],
            ["translation_de.txt", ".po_de.txt"]
        );
        assert_eq!(
            disposition("na\"ï\r\nve.txt"),
            "attachment; filename=\"na____ve.txt\"; filename*=UTF-8''na%22%C3%AF%0D%0Ave.txt"
        );
    }
}
