//! Translated files: stored in memory until they are downloaded or expire, up to a total size and half of it for a client.
//!
//! The bytes of a file count in the memory budget until the last download of it has ended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::front::keys::random_digits;
use crate::front::rate::Client;
use crate::{Error, Result};

/// Bytes that are percent-encoded in a file name.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-');

/// Options of [`TranslatedFiles`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesOptions {
    /// Bytes of all files together, half of them for a client; the oldest are dropped first, a client's own before those of
    /// others; default: 64 MiB.
    pub bytes: usize,
    /// Lifetime of a file; default: 20 minutes.
    pub lifetime: Duration,
}

impl Default for FilesOptions {
    fn default() -> Self {
        Self { bytes: 64 << 20, lifetime: Duration::from_secs(1200) }
    }
}

/// A translated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedFile {
    /// Its name for the download.
    pub name: String,
    /// Its content, which holds its memory reservation.
    pub bytes: Bytes,
    /// The client that sent it.
    pub client: Client,
}

/// The stored files.
#[derive(Debug, Default)]
pub struct TranslatedFiles {
    options: FilesOptions,
    /// Id, time of storing and file, the oldest first.
    files: Mutex<VecDeque<StoredFile>>,
}

/// Id, time of storing, file.
type StoredFile = (String, Instant, TranslatedFile);

impl TranslatedFiles {
    /// An empty store.
    pub fn new(options: FilesOptions) -> Self {
        Self { options, files: Mutex::default() }
    }

    /// Stores a file and returns its id, 32 random hexadecimal digits.
    ///
    /// # Errors
    /// If the file alone exceeds the limit, or the system has no random numbers.
    pub fn store(&self, file: TranslatedFile) -> Result<String> {
        let size = file.bytes.len();
        if size > self.options.bytes {
            let limit = format!("{} bytes", self.options.bytes);
            return Err(Error::TooLarge { found: format!("a translation of {size} bytes"), limit });
        }
        let id = random_digits::<16>()?;
        let mut files = self.lock();
        let own = |files: &VecDeque<StoredFile>| -> usize {
            files
                .iter()
                .filter(|stored| stored.2.client == file.client)
                .map(|stored| stored.2.bytes.len())
                .sum()
        };
        while own(&files) + size > self.options.bytes.div_ceil(2).max(size) {
            let Some(oldest) = files.iter().position(|stored| stored.2.client == file.client) else { break };
            files.remove(oldest);
        }
        let mut bytes = size + files.iter().map(|(_, _, own)| own.bytes.len()).sum::<usize>();
        while bytes > self.options.bytes {
            let Some((_, _, oldest)) = files.pop_front() else { break };
            bytes -= oldest.bytes.len();
        }
        files.push_back((id.clone(), Instant::now(), file));
        Ok(id)
    }

    /// The file with an id, unless it has expired.
    pub fn find(&self, id: &str) -> Option<TranslatedFile> {
        self.lock().iter().find(|(own, _, _)| own == id).map(|(_, _, file)| file.clone())
    }

    /// Bytes of all stored files.
    pub fn bytes(&self) -> usize {
        self.lock().iter().map(|(_, _, own)| own.bytes.len()).sum()
    }

    /// The stored files, without expired ones.
    fn lock(&self) -> MutexGuard<'_, VecDeque<StoredFile>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        while files.front().is_some_and(|(_, since, _)| since.elapsed() >= self.options.lifetime) {
            files.pop_front();
        }
        files
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

/// The `Content-Disposition` header for a file name: in ASCII for old clients, and in UTF-8 (RFC 6266).
pub(crate) fn disposition(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._- ".contains(letter);
    let plain: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    let encoded = utf8_percent_encode(name, ESCAPED);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(client: &str, size: usize) -> TranslatedFile {
        let client = Client::Key(client.into());
        TranslatedFile { name: "a.txt".into(), bytes: vec![b'x'; size].into(), client }
    }

    #[test]
    fn the_oldest_files_are_dropped_first() {
        let files = TranslatedFiles::new(FilesOptions { bytes: 10, ..FilesOptions::default() });
        let ids: Vec<String> = [("a", 4), ("b", 4), ("c", 6)]
            .map(|(client, size)| files.store(file(client, size)).unwrap())
            .into();
        let sizes: Vec<Option<usize>> =
            ids.iter().map(|id| files.find(id).map(|own| own.bytes.len())).collect();
        assert_eq!((sizes, files.bytes()), (vec![None, Some(4), Some(6)], 10));
        assert_eq!(files.store(file("a", 11)).unwrap_err().status(), 413);
        assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        assert!(ids[0] != ids[1] && files.find("").is_none());
    }

    #[test]
    fn a_client_drops_its_own_files_first() {
        let files = TranslatedFiles::new(FilesOptions { bytes: 12, ..FilesOptions::default() });
        let ids: Vec<String> =
            ["a", "b", "b", "b"].map(|client| files.store(file(client, 3)).unwrap()).into();
        let found: Vec<bool> = ids.iter().map(|id| files.find(id).is_some()).collect();
        assert_eq!(found, [true, false, true, true]);
    }

    #[test]
    fn files_expire() {
        let files = TranslatedFiles::new(FilesOptions {
            lifetime: Duration::from_millis(20),
            ..FilesOptions::default()
        });
        let id = files.store(file("a", 1)).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!((files.find(&id), files.bytes()), (None, 0));
    }

    #[test]
    fn names_are_escaped() {
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
