//! A document in its format: its texts through the model, and back to where they stood.

use std::collections::HashSet;

use crate::formats::{Filled, Format, Layout};
use crate::options::{Evidence, Mode, TranslateOptions};
use crate::route::{Route, journeys};
use crate::translation::{Note, Translation};
use crate::{Engine, Result};

/// Bytes of a document that its language is guessed by.
const GUESSED_BYTES: usize = 20_000;

/// What came of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentTranslation {
    /// The document.
    pub text: String,
    /// What was done or went wrong, each once.
    pub notes: Vec<Note>,
    /// From which language into which, where the model says what it was trained on and the document has letters.
    pub route: Option<Route>,
}

impl Engine {
    /// Translates a document. Its language, where nobody says it, is guessed once; only what clearly is of another one is
    /// translated from that. The best translation is taken, and alignments are computed where tags need them.
    ///
    /// # Errors
    /// If the document is not of this format, or if the options make no sense for this model.
    pub fn translate_document(
        &self,
        format: Format,
        text: &str,
        options: &TranslateOptions,
    ) -> Result<DocumentTranslation> {
        let layout = Layout::read(format, text)?;
        let texts = layout.texts();
        let route = self.route_of(&texts, options)?;
        let mut options = TranslateOptions { n_best: 1, ..options.clone() };
        if let Some(route) = &route {
            options.from = Some(route.from.clone());
            options.to = Some(route.to.clone());
        }
        let translations = self.translate_texts(&texts, &layout.tagged(), &options)?;
        let filled: Vec<Filled<'_>> = translations.iter().map(filled).collect();
        let mut seen = HashSet::new();
        let notes = translations.iter().flat_map(|translation| &translation.notes);
        let notes = notes.filter(|note| seen.insert(note.to_string())).cloned().collect();
        let route = route.or_else(|| translations.iter().find_map(|translation| translation.route.clone()));
        Ok(DocumentTranslation { text: layout.write(&filled), notes, route })
    }

    /// The way of texts as one, where it has to be guessed.
    fn route_of(&self, texts: &[&str], options: &TranslateOptions) -> Result<Option<Route>> {
        if options.from.is_some() || options.mode == Mode::Raw || self.languages().directions().is_empty() {
            return Ok(None);
        }
        let mut all = String::new();
        for text in texts {
            all.extend(text.chars().take(GUESSED_BYTES));
            all.push('\n');
            if all.len() >= GUESSED_BYTES {
                break;
            }
        }
        let journeys = journeys(self.languages(), &[&all], options)?;
        Ok(journeys.into_iter().next().and_then(|journey| journey.route))
    }

    /// Translates texts, with alignments for those that are `tagged`.
    fn translate_texts(
        &self,
        texts: &[&str],
        tagged: &[bool],
        options: &TranslateOptions,
    ) -> Result<Vec<Translation>> {
        let mut found = [Vec::new().into_iter(), Vec::new().into_iter()];
        for (evidence, found) in [Evidence::None, Evidence::Alignment].into_iter().zip(&mut found) {
            let is_tagged = evidence == Evidence::Alignment;
            let chosen = texts.iter().zip(tagged).filter(|(_, tagged)| **tagged == is_tagged);
            let chosen: Vec<&str> = chosen.map(|(text, _)| *text).collect();
            *found = self.translate(&chosen, &TranslateOptions { evidence, ..options.clone() })?.into_iter();
        }
        let [plain, aligned] = &mut found;
        Ok(tagged.iter().filter_map(|tagged| if *tagged { aligned.next() } else { plain.next() }).collect())
    }
}

fn filled(translation: &Translation) -> Filled<'_> {
    Filled { text: translation.text(), alignment: translation.alignment.as_deref().unwrap_or_default() }
}
