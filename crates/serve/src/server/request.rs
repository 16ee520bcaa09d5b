//! A translation request, and how its documents are sent to the scheduler: in chunks that leave room for other clients.

use std::sync::Arc;
use std::time::Instant;

use polyhead_translate::languages::detect_document;
use polyhead_translate::{Evidence, Translation};

use super::documents::{Detection, Document};
use super::language_set::LanguageSet;
use super::scheduler::{Client, FinishedSentence, RequestOptions, Scheduler};
use crate::Result;
use crate::blocking::blocking_if_large;

/// Maximum bytes of text that are sent to the scheduler at once, so that a long file takes turns with other clients.
const CHUNK_BYTES: usize = 32 << 10;

/// A unit of work that a client asks for: texts or documents (`T`) to translate.
#[derive(Debug, Clone)]
pub struct TranslationRequest<T> {
    /// The client; the queue serves clients in turn.
    pub client: Client,
    /// The texts or documents.
    pub inputs: Vec<T>,
    /// Source language; default: detected.
    pub from: Option<String>,
    /// Target language; default: the model's.
    pub to: Option<String>,
    /// Name of a model; default: the first that translates between these languages.
    pub model: Option<String>,
    /// Options of the translation.
    pub options: RequestOptions,
    /// Time at which the request is given up.
    pub deadline: Instant,
}

/// Translations of a request's documents.
#[derive(Debug)]
pub(crate) struct TranslatedDocuments {
    /// Name of the model that translated.
    pub(crate) model: String,
    /// For each document the translations of its texts.
    pub(crate) found: Vec<Vec<Translation>>,
}

/// Texts of one source language that are sent to the scheduler together.
struct TextChunk {
    from: Option<String>,
    texts: Vec<String>,
    /// Index of the document that each text belongs to.
    owners: Vec<usize>,
}

impl TranslationRequest<Arc<Document>> {
    /// Translates the documents. `on_sentence` is called for every sentence in order, with the index of its document and its
    /// index within the document.
    ///
    /// # Errors
    /// Those of [`Scheduler::translate`].
    pub(crate) async fn run(
        &self,
        scheduler: &Scheduler,
        languages: &LanguageSet,
        mut on_sentence: impl FnMut(FinishedSentence) + Send,
    ) -> Result<TranslatedDocuments> {
        let mut found: Vec<Vec<Translation>> = self.inputs.iter().map(|_| Vec::new()).collect();
        let mut counts = vec![0; self.inputs.len()];
        let mut model = self.model.clone();
        let mut options = self.options.clone();
        if self.inputs.iter().any(|document| document.needs_alignment()) {
            options.evidence = Evidence::Alignment;
        }
        let bytes = self.inputs.iter().map(|document| document.text_bytes()).sum();
        let (own, languages) = (self.clone(), languages.clone());
        let chunks = blocking_if_large(bytes, move || Ok(own.chunks(&languages))).await?;
        for TextChunk { from, texts, owners } in chunks {
            let request = TranslationRequest {
                client: self.client.clone(),
                inputs: texts,
                from,
                to: self.to.clone(),
                model: self.model.clone(),
                options: options.clone(),
                deadline: self.deadline,
            };
            let translated = scheduler.translate_watched(request, |finished| {
                let text = owners[finished.text];
                on_sentence(FinishedSentence { text, sentence: counts[text], ..finished });
                counts[text] += 1;
            });
            let translated = translated.await?;
            model.get_or_insert(translated.model);
            for (owner, translation) in owners.into_iter().zip(translated.translations) {
                found[owner].push(translation);
            }
        }
        let first = || scheduler.models().into_iter().next().map_or_else(String::new, |own| own.name);
        Ok(TranslatedDocuments { model: model.unwrap_or_else(first), found })
    }

    fn chunks(&self, languages: &LanguageSet) -> Vec<TextChunk> {
        let mut chunks: Vec<TextChunk> = Vec::new();
        let mut bytes = 0;
        for (owner, document) in self.inputs.iter().enumerate() {
            let from = self.from.clone().or_else(|| self.detect(document, languages));
            for text in document.texts() {
                let is_room = bytes + text.len() <= CHUNK_BYTES;
                if let Some(last) = chunks.last_mut().filter(|last| is_room && last.from == from) {
                    bytes += text.len();
                    last.texts.push(text.to_owned());
                    last.owners.push(owner);
                } else {
                    bytes = text.len();
                    let (texts, owners) = (vec![text.to_owned()], vec![owner]);
                    chunks.push(TextChunk { from: from.clone(), texts, owners });
                }
            }
        }
        chunks
    }

    /// The detected language of a document that is detected as a whole.
    fn detect(&self, document: &Document, languages: &LanguageSet) -> Option<String> {
        if document.detection() == Detection::Each {
            return None;
        }
        detect_document(&document.texts(), &languages.sources(), self.to.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::model_registry::LanguageAnswer;
    use polyhead_translate::formats::Format;

    fn languages() -> LanguageSet {
        let language =
            |code: &str| LanguageAnswer { code: code.into(), name: String::new(), targets: Vec::new() };
        LanguageSet::new(["en", "de", "fr", "tr"].map(language).into())
    }

    fn request(documents: Vec<Document>) -> TranslationRequest<Arc<Document>> {
        TranslationRequest {
            client: Client::Key("a".into()),
            inputs: documents.into_iter().map(Arc::new).collect(),
            from: None,
            to: Some("en".into()),
            model: None,
            options: RequestOptions::default(),
            deadline: Instant::now(),
        }
    }

    #[test]
    fn documents_are_detected_as_a_whole_and_texts_by_the_translator() {
        let html = |text| Document::read(Format::Html, text).unwrap();
        let plain = Document::read(Format::Text, "Ja. Das ist ein Haus.").unwrap();
        let request = request(vec![
            html("<p>OK</p><p>Der Hund schläft auf dem alten Sofa.</p>"),
            html("<p>Das ist gut.</p>"),
            html("<p>La maison est très petite.</p>"),
            plain,
        ]);
        let chunks = request.chunks(&languages());
        let seen: Vec<(Option<&str>, &[usize])> =
            chunks.iter().map(|own| (own.from.as_deref(), own.owners.as_slice())).collect();
        assert_eq!(seen, [(Some("de"), &[0, 0, 1][..]), (Some("fr"), &[2][..]), (None, &[3][..])]);
    }

    #[test]
    fn long_files_are_sent_in_chunks() {
        let text = "The cat ate the mouse in the garden.\n".repeat(3000);
        let request = request(vec![Document::read_file(Format::Text, &text).unwrap()]);
        let chunks = request.chunks(&languages());
        assert!(chunks.len() > 3, "{}", chunks.len());
        assert!(chunks.iter().all(|own| own.texts.iter().map(String::len).sum::<usize>() <= CHUNK_BYTES));
        assert_eq!(chunks.iter().map(|own| own.texts.len()).sum::<usize>(), 3000);
        assert!(chunks.iter().all(|own| own.from.as_deref() == Some("en")));
    }
}
