//! The documents of a request: plain text, or a format whose markup is preserved.
//!
//! A document is split into texts, each text is translated by itself, and the document is written with the translations.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use polyhead_translate::formats::{Format, Layout, TranslatedText};
use polyhead_translate::{Candidate, Note, Route, Translation};

use crate::blocking::blocking_if_large;
use crate::{Error, Result};

/// A parsed document.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    body: Body,
    detection: Detection,
}

/// Scope of language detection in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detection {
    /// Each text by itself, when it is translated.
    Each,
    /// All texts together, once: a single text may be too short.
    Whole,
}

#[derive(Debug, Clone)]
enum Body {
    /// A text that is translated as a whole.
    Plain(String),
    Layout(Layout),
}

impl Document {
    /// Parses a text of a request.
    ///
    /// # Errors
    /// If it is not of this format.
    pub(crate) fn read(format: Format, text: &str) -> Result<Self> {
        match format {
            Format::Text => Ok(Self { body: Body::Plain(text.to_owned()), detection: Detection::Each }),
            _ => Self::read_file(format, text),
        }
    }

    /// Parses a file. The lines of plain text are translated one by one, so that a long file is many short texts.
    ///
    /// # Errors
    /// If it is not of this format.
    pub(crate) fn read_file(format: Format, text: &str) -> Result<Self> {
        let body = Body::Layout(Layout::read(format, text).map_err(Error::Translate)?);
        Ok(Self { body, detection: Detection::Whole })
    }

    /// Parses the texts of a request; long ones on a thread of their own.
    ///
    /// # Errors
    /// If one is not of this format.
    pub(crate) async fn read_all(format: Format, texts: Vec<String>) -> Result<Vec<Arc<Self>>> {
        let bytes = texts.iter().map(String::len).sum();
        let read = move || {
            let documents = texts.iter().map(|text| Ok(Arc::new(Self::read(format, text)?)));
            documents.collect()
        };
        blocking_if_large(bytes, read).await
    }

    /// Bytes of the texts to translate.
    pub(crate) fn text_bytes(&self) -> usize {
        self.texts().iter().map(|text| text.len()).sum()
    }

    /// The texts to translate, in order.
    pub(crate) fn texts(&self) -> Vec<&str> {
        match &self.body {
            Body::Plain(text) => vec![text],
            Body::Layout(layout) => layout.texts(),
        }
    }

    /// The scope of its language detection.
    pub(crate) fn detection(&self) -> Detection {
        self.detection
    }

    /// True if a text contains tags, which are placed by word alignments.
    pub(crate) fn needs_alignment(&self) -> bool {
        match &self.body {
            Body::Plain(_) => false,
            Body::Layout(layout) => layout.needs_alignment(),
        }
    }

    /// The n-best translated documents without duplicates, from the translations of the texts.
    pub(crate) fn candidates(&self, found: &[Translation]) -> Vec<Candidate> {
        let ranks = found.iter().map(|own| own.n_best.len()).max().unwrap_or(1);
        let mut candidates: Vec<Candidate> = Vec::new();
        for rank in 0..ranks {
            let candidate = self.candidate(found, rank);
            if !candidates.iter().any(|other| other.text == candidate.text) {
                candidates.push(candidate);
            }
        }
        candidates
    }

    /// The document made of the candidate with this rank of every text, or of the best where a text has fewer.
    fn candidate(&self, found: &[Translation], rank: usize) -> Candidate {
        let chosen: Vec<&Candidate> =
            found.iter().map(|own| own.n_best.get(rank).unwrap_or_else(|| own.best())).collect();
        let alignments: Vec<Vec<(usize, usize)>> = found
            .iter()
            .zip(&chosen)
            .map(|(own, chosen)| {
                let best = own.alignment.as_deref().unwrap_or_default();
                if !self.needs_alignment() {
                    Vec::new()
                } else if chosen.text == own.text() {
                    best.to_vec()
                } else {
                    transferred(own.text(), best, &chosen.text)
                }
            })
            .collect();
        let texts = chosen.iter().zip(&alignments);
        let filled: Vec<TranslatedText<'_>> =
            texts.map(|(own, alignment)| TranslatedText { text: &own.text, alignment }).collect();
        let written: Vec<&&Candidate> = chosen.iter().filter(|own| own.tokens > 0).collect();
        Candidate {
            text: self.write(&filled, route(found)),
            score: written.iter().map(|own| own.score).sum::<f64>() / written.len().max(1) as f64,
            log_probability: written.iter().map(|own| own.log_probability).sum(),
            tokens: written.iter().map(|own| own.tokens).sum(),
        }
    }

    fn write(&self, filled: &[TranslatedText<'_>], route: Option<&Route>) -> String {
        match &self.body {
            Body::Plain(text) => filled.first().map_or(text.as_str(), |own| own.text).to_owned(),
            Body::Layout(layout) => layout.write_in(filled, route.map(|route| route.to.as_str())),
        }
    }
}

/// The notes on all texts, without duplicates.
pub(crate) fn notes(found: &[Translation]) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for note in found.iter().flat_map(|own| &own.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

/// The route of the first text that has one.
pub(crate) fn route(found: &[Translation]) -> Option<&Route> {
    found.iter().find_map(|own| own.route.as_ref())
}

/// Transfers the alignment of the best translation to another candidate, word by equal word.
fn transferred(best: &str, alignment: &[(usize, usize)], other: &str) -> Vec<(usize, usize)> {
    let mut sources: HashMap<usize, Vec<usize>> = HashMap::new();
    for (source, target) in alignment {
        sources.entry(*target).or_default().push(*source);
    }
    let mut positions: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (position, word) in best.split_whitespace().enumerate() {
        positions.entry(word).or_default().push_back(position);
    }
    let mut pairs = Vec::new();
    for (index, word) in other.split_whitespace().enumerate() {
        if let Some(position) = positions.get_mut(word).and_then(VecDeque::pop_front) {
            pairs.extend(sources.get(&position).into_iter().flatten().map(|source| (*source, index)));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translation(texts: &[&str], alignment: &[(usize, usize)]) -> Translation {
        let candidates = texts.iter().enumerate().map(|(rank, text)| Candidate {
            text: (*text).to_owned(),
            score: -(rank as f64) - 1.0,
            log_probability: -3.0,
            tokens: 2,
        });
        Translation {
            n_best: candidates.collect(),
            alignment: Some(alignment.to_vec()),
            copied: None,
            notes: vec![Note::Split { sentences: 2 }],
            source_tokens: 3,
            route: None,
            segments: Vec::new(),
        }
    }

    #[test]
    fn tags_of_other_candidates_follow_the_words_of_the_best() {
        let document = Document::read(Format::Html, "<p>The <b>cat</b> slept.</p>").unwrap();
        assert_eq!((document.texts(), document.needs_alignment()), (vec!["The cat slept."], true));
        let texts = ["Die Katze schlief.", "Es schlief die Katze.", "Die Katze schlief."];
        let found = [translation(&texts, &[(0, 0), (1, 1), (2, 2)])];
        let candidates = document.candidates(&found);
        assert_eq!(candidates.len(), 2);
        assert_eq!(candidates[0].text, "<p>Die <b>Katze</b> schlief.</p>");
        assert_eq!(candidates[1].text.replace("<b>", "").replace("</b>", ""), "<p>Es schlief die Katze.</p>");
        assert_eq!(
            transferred("Die Katze schlief.", &[(0, 0), (1, 1), (2, 2)], "Gut schlief. Katze"),
            [(2, 1), (1, 2)]
        );
    }

    #[test]
    fn line_ends_of_a_file_are_preserved() {
        let document = Document::read_file(Format::Text, "a\r\n\nb").unwrap();
        assert_eq!(document.texts(), ["a", "b"]);
        let found = ["x", "y"].map(|text| translation(&[text], &[]));
        let [candidate] = &document.candidates(&found)[..] else { panic!("one") };
        assert_eq!((candidate.text.as_str(), candidate.tokens), ("x\r\n\ny", 4));
        assert_eq!((candidate.score, candidate.log_probability), (-1.0, -6.0));
        assert_eq!(notes(&found), [Note::Split { sentences: 2 }]);
        let empty = Document::read_file(Format::Text, "").unwrap();
        assert_eq!(empty.candidates(&[])[0].text, "");
    }
}
