//! Which source word a target word comes from: the cross-attention of one decoder layer, averaged over its heads (Garg et al.
//! 2019; which layer, `SequenceToSequence::alignment_site` says).
//!
//! The model reads the pair once with the translation given. Weights of pieces are summed over words (runs without white
//! space), those of a target word in proportion to the length of its pieces, so that *Boston'da* goes with *Boston* and not with
//! *in*; and every target word goes to its strongest source word. Names and numbers that stand once in both texts go
//! together. This is evidence of the model, not of the language: attention may look elsewhere than at the word it translates.

use std::collections::BTreeMap;
use std::ops::Range;

use polyhead_attention::Filter;
use polyhead_attention::{Capture, Pass};
use polyhead_models::Ids;
use polyhead_tensor::Tape;

use crate::form::{Form, Restored};
use crate::words::{word_at, words};
use crate::{Engine, Result};

/// Where a part stands in its text and in the translation, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) source: Range<usize>,
    /// Where its translation begins.
    pub(crate) target: usize,
    /// What the model wrote; none where the source was copied.
    pub(crate) written: Option<String>,
    /// What the model read in place of the source, and what became of what it wrote; none where both are as they are.
    pub(crate) form: Option<(Form, Restored)>,
}

impl Place {
    /// Whether the model wrote nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.as_ref().is_some_and(String::is_empty)
    }

    /// Ranges of the source, in its own bytes, that stand unchanged in the translation, and where.
    fn copies(&self) -> Vec<(Range<usize>, Range<usize>)> {
        match (&self.form, &self.written) {
            (Some((_, restored)), _) => restored.copies.clone(),
            (None, Some(_)) => Vec::new(),
            (None, None) => vec![(0..self.source.len(), 0..self.source.len())],
        }
    }
}

/// Pairs of a source word and a target word, by target words; `tag` stands before every source.
pub(crate) fn of_texts(
    engine: &Engine,
    tag: Option<u32>,
    source: &str,
    target: &str,
    places: &[Place],
) -> Result<Vec<(usize, usize)>> {
    let texts = Texts { source_words: words(source), target_words: words(target) };
    // For each target word the source words that it looks at, and how much.
    let mut strengths = vec![BTreeMap::new(); texts.target_words.len()];
    for place in places {
        if let Some(written) = &place.written {
            let read = place.form.as_ref().map_or(&source[place.source.clone()], |(form, _)| &form.text);
            let weights = Pair { engine, tag, source: read, target: written }.weights()?;
            texts.add_weights(place, &weights, &mut strengths);
        }
        // What is copied stands for itself, word by word.
        for (copied, there) in place.copies() {
            let from = overlapping(&texts.source_words, place.source.start, &copied);
            for (source, target) in from.zip(overlapping(&texts.target_words, place.target, &there)) {
                strengths[target].insert(source, f64::INFINITY);
            }
        }
    }
    for (source, target) in texts.same_names(source, target) {
        strengths[target].insert(source, f64::INFINITY);
    }
    let strongest = |(target, strengths): (usize, &BTreeMap<usize, f64>)| {
        let (source, weight) = strengths.iter().rev().max_by(|a, b| f64::total_cmp(a.1, b.1))?;
        (*weight > 0.0).then_some((*source, target))
    };
    Ok(strengths.iter().enumerate().filter_map(strongest).collect())
}

/// Where the words of two texts stand.
struct Texts {
    source_words: Vec<Range<usize>>,
    target_words: Vec<Range<usize>>,
}

impl Texts {
    /// Adds the weights of a part's pieces to those of its words.
    fn add_weights(&self, place: &Place, weights: &PieceWeights, strengths: &mut [BTreeMap<usize, f64>]) {
        let source_words = weights.source_spans.iter().map(|piece| {
            let piece = place.form.as_ref().map_or(piece.clone(), |(form, _)| form.origin.map(piece));
            word_at(&self.source_words, &moved(&piece, place.source.start))
        });
        let source_words: Vec<Option<usize>> = source_words.collect();
        for (piece, row) in weights.target_spans.iter().zip(weights.rows.chunks(weights.width.max(1))) {
            let (form, length) = (place.form.as_ref(), piece.len() as f64);
            let piece = form.map_or(piece.clone(), |(_, restored)| restored.place.map(piece));
            let Some(target_word) = word_at(&self.target_words, &moved(&piece, place.target)) else {
                continue;
            };
            for (source_word, weight) in source_words.iter().zip(row) {
                if let Some(source_word) = source_word {
                    *strengths[target_word].entry(*source_word).or_insert(0.0) += weight * length;
                }
            }
        }
    }
}

impl Texts {
    /// Names and numbers that stand once in each text, an ending after an apostrophe aside (*Boston'da*).
    fn same_names(&self, source: &str, target: &str) -> Vec<(usize, usize)> {
        let sources = once(self.source_words.iter().map(|word| name(&source[word.clone()])));
        let targets = once(self.target_words.iter().map(|word| name(&target[word.clone()])));
        let both = sources.iter().filter_map(|(name, source)| Some(((*source)?, (*targets.get(name)?)?)));
        both.collect()
    }
}

/// Where each name stands; none where it stands more than once.
fn once<'a>(names: impl Iterator<Item = Option<&'a str>>) -> BTreeMap<&'a str, Option<usize>> {
    let mut places = BTreeMap::new();
    for (place, name) in names.enumerate().filter_map(|(place, name)| Some((place, name?))) {
        places.entry(name).and_modify(|place| *place = None).or_insert(Some(place));
    }
    places
}

/// A word without marks and ending, if it is a number or begins with a capital and is no short one, as *In* is.
fn name(word: &str) -> Option<&str> {
    let word = word.trim_matches(|character: char| !character.is_alphanumeric());
    let name = word.split(['\'', '’']).next()?;
    let is_capitalised = name.starts_with(char::is_uppercase) && name.chars().count() >= 3;
    (is_capitalised || name.starts_with(|first: char| first.is_ascii_digit())).then_some(name)
}

/// The words that a range has a part of.
fn overlapping(words: &[Range<usize>], offset: usize, range: &Range<usize>) -> Range<usize> {
    let first = words.partition_point(|word| word.end <= offset + range.start);
    first..words.partition_point(|word| word.start < offset + range.end).max(first)
}

/// A piece of a part, as a piece of the text in which the part begins at `start`.
fn moved(piece: &Range<usize>, start: usize) -> Range<usize> {
    start + piece.start..start + piece.end
}

struct Pair<'a> {
    engine: &'a Engine,
    tag: Option<u32>,
    source: &'a str,
    target: &'a str,
}

/// Target pieces × source pieces, with the text that each stands for.
struct PieceWeights {
    source_spans: Vec<Range<usize>>,
    target_spans: Vec<Range<usize>>,
    width: usize,
    rows: Vec<f64>,
}

impl Pair<'_> {
    fn weights(&self) -> Result<PieceWeights> {
        let Engine { model, parameters, tokenizers, .. } = self.engine;
        let ids = model.special_ids();
        let source = tokenizers.encode_source(self.source, ids.end_id)?;
        let target = tokenizers.encode_target(self.target)?;
        let source_ids: Vec<u32> = self.tag.into_iter().chain(source.ids).collect();
        let tag_span = self.tag.map(|_| 0..0);
        // The decoder reads the start token and all but the last; position i then writes piece i.
        let mut target_ids = vec![self.engine.generation().start_id];
        target_ids.extend(target.ids.iter().take(target.ids.len().saturating_sub(1)));
        // Cut anew, a translation can have more pieces than it was written with.
        target_ids.truncate(model.max_len());
        let layers = |layer: usize| Some(vec![layer]);
        let filter = match model.alignment_site() {
            Some(site) => Filter { kind: Some(site.kind), layers: layers(site.layer), ..Filter::default() },
            None => Filter { layers: Some(Vec::new()), ..Filter::default() },
        };
        let captured = self.engine.in_turn(|| {
            let (tape, capture) = (Tape::inference(), Capture::on(filter));
            let pass = Pass::new(&tape, parameters, &capture);
            let padded = |row: &[u32]| Ids::padded(&[row], ids.pad_id).to_device(&parameters.device());
            model.forward(&pass, &padded(&source_ids)?, &padded(&target_ids)?)?;
            Ok::<_, polyhead_models::Error>(capture.take().weights)
        })?;
        let width = source_ids.len();
        let mut rows = vec![0.0; width * target_ids.len()];
        for captured in captured {
            for head in captured.weights.data().chunks(rows.len()) {
                rows.iter_mut().zip(head).for_each(|(sum, weight)| *sum += f64::from(*weight));
            }
        }
        Ok(PieceWeights {
            source_spans: tag_span.into_iter().chain(source.offsets).collect(),
            target_spans: target.offsets,
            width,
            rows,
        })
    }
}
