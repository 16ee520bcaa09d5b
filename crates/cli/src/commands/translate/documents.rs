//! Whole documents: from arguments, a file or standard input.

use std::path::Path;

use anyhow::Result;
use polyhead_translate::formats::{Format, Layout};

use super::TranslationJob;
use super::output::MAX_NOTES;
use crate::input::{read_bytes, shown};
use crate::report::{Failure, note, print_text};

/// A document and its name in messages.
pub(super) struct Document {
    text: String,
    name: String,
}

impl Document {
    /// The document in a file, or on standard input for `-`.
    pub(super) fn of_file(path: &Path) -> Result<Self> {
        let bytes = read_bytes(path)?;
        let name = shown(path).display().to_string();
        // Text has no zero bytes; UTF-16 has one in every second byte.
        let zero = bytes.iter().position(|byte| *byte == 0).filter(|_| path != Path::new("-"));
        if let Some(at) = zero {
            let message = format!("{name}: a zero at byte {}, expected text in UTF-8", at + 1);
            return Err(Failure { message, hint: "save it as UTF-8; pictures have no text".into() }.into());
        }
        Ok(Self::new(&bytes, &name))
    }

    /// An argument of the command line, with a line end.
    pub(super) fn of_argument(text: &str, number: usize) -> Self {
        Self { text: format!("{text}\n"), name: format!("text {number}") }
    }

    fn new(bytes: &[u8], name: &str) -> Self {
        if let Err(error) = std::str::from_utf8(bytes) {
            let byte = error.valid_up_to() + 1;
            note(&format!("note: {name}: invalid UTF-8 at byte {byte}, replaced by U+FFFD"));
        }
        Self { text: String::from_utf8_lossy(bytes).into_owned(), name: name.to_owned() }
    }
}

impl TranslationJob<'_> {
    /// Translates documents and prints them one after the other.
    pub(super) fn documents(self, format: Format, documents: &[Document]) -> Result<()> {
        for Document { text, name } in documents {
            if let Err(error) = Layout::read(format, text) {
                return Err(Failure { message: format!("{name}: {error}"), hint: error.hint() }.into());
            }
            let work = || self.engine.translate_document(format, text, &self.options);
            let found = self.pool.install(work)?;
            if let Some(route) = found.route.filter(polyhead_translate::Route::is_notable) {
                note(&route.to_string());
            }
            print_text(&found.text)?;
            let warnings: Vec<_> = found.notes.iter().filter(|note| note.is_warning()).collect();
            for warning in warnings.iter().take(MAX_NOTES) {
                note(&format!("note: {name}: {warning}"));
            }
            if warnings.len() > MAX_NOTES {
                note(&format!("note: {name}: {} more notes", warnings.len() - MAX_NOTES));
            }
        }
        Ok(())
    }
}
