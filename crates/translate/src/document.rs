//! Translation of a document: its texts through the model, its markup around them.

use crate::formats::{Format, Layout, TranslatedText};
use crate::languages::detect::document_sample;
use crate::options::{Evidence, Mode, TranslateOptions};
use crate::route::Route;
use crate::translation::{Note, Translation};
use crate::{Engine, Error, Result};

/// A translated document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentTranslation {
    /// The document.
    pub text: String,
    /// Notes on what was done or went wrong, each once.
    pub notes: Vec<Note>,
    /// The languages, where the model states its directions and the document has letters.
    pub route: Option<Route>,
}

impl Engine {
    /// Translates a document. Its language, where none is given, is detected once; only texts that clearly are in another
    /// one are translated from that. The best translation is used, and alignments are computed where tags need them.
    ///
    /// # Errors
    /// If the document is not of this format, or if the options are invalid for this model.
    pub fn translate_document(
        &self,
        format: Format,
        text: &str,
        options: &TranslateOptions,
    ) -> Result<DocumentTranslation> {
        let n_sources = self.model().n_sources();
        if n_sources > 1 {
            let message = format!("a document for a model of {n_sources} sources, expected lines");
            return Err(Error::request(
                message,
                "pass lines on standard input, with tabs between their texts",
            ));
        }
        let layout = Layout::read(format, text)?;
        let texts = layout.texts();
        let route = self.document_route(&texts, options)?;
        let mut options = TranslateOptions { n_best: 1, ..options.clone() };
        if let Some(route) = &route {
            options.from = Some(route.from.clone());
            options.to = Some(route.to.clone());
        }
        let translations = self.translate_texts(&texts, &layout.tagged(), &options)?;
        let translated: Vec<TranslatedText<'_>> = translations.iter().map(translated).collect();
        let mut notes = Vec::new();
        translations
            .iter()
            .flat_map(|translation| &translation.notes)
            .for_each(|note| note.add_to(&mut notes));
        let route = route.or_else(|| translations.iter().find_map(|translation| translation.route.clone()));
        let language = route.as_ref().map(|route| route.to.as_str());
        Ok(DocumentTranslation { text: layout.write_in(&translated, language), notes, route })
    }

    /// The route that all texts share, if the language has to be detected.
    fn document_route(&self, texts: &[&str], options: &TranslateOptions) -> Result<Option<Route>> {
        if options.from.is_some() || options.mode == Mode::Raw || self.languages().directions().is_empty() {
            return Ok(None);
        }
        let sample = document_sample(texts);
        let plans = self.route(&[&sample], options)?;
        Ok(plans.into_iter().next().and_then(|plan| plan.route))
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

fn translated(translation: &Translation) -> TranslatedText<'_> {
    TranslatedText {
        text: translation.text(),
        alignment: translation.alignment.as_deref().unwrap_or_default(),
    }
}
