//! Word alignment from the cross-attention of one decoder layer, averaged over its heads (Garg et al. 2019; the model names
//! the layer, `SequenceToSequence::alignment_site`).
//!
//! The model reads the pair once with the translation given. Attention weights of tokens are summed over words (runs without
//! white space), those of a target word in proportion to the length of its tokens, so that *Boston'da* is aligned with
//! *Boston* and not with *in*:
//!
//! a(j) = argmax_i Σ_{t ∈ j} |t| Σ_{s ∈ i} w_ts, with |t| in bytes; of equals the first source word.
//!
//! Names and numbers that occur once in both texts are aligned with each other. This is evidence of the model, not of the
//! language: attention may go elsewhere than to the word that is translated.
//!
//! ```
//! use polyhead_translate::alignment::{TokenAttention, WordAligner};
//! let mut aligner = WordAligner::new("the cat", "die Katze");
//! aligner.add_attention(&TokenAttention {
//!     source_spans: vec![0..3, 3..7],
//!     target_spans: vec![0..3, 3..7, 7..9],
//!     target_lengths: vec![3, 4, 2],
//!     weights: vec![0.8, 0.2, 0.1, 0.9, 0.6, 0.4],
//! });
//! assert_eq!(aligner.alignment(), [(0, 0), (1, 1)]);
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use polyhead_attention::Filter;
use polyhead_attention::{Capture, Pass};
use polyhead_models::Ids;
use polyhead_tensor::Tape;

use crate::mask::{MaskedSentence, RestoredSentence};
use crate::words::{word_at, words};
use crate::{Engine, Result};

/// The attention of target tokens to source tokens.
#[derive(Debug, Clone, Default)]
pub struct TokenAttention {
    /// Bytes of the source text of each source token; empty for a tag or an end token.
    pub source_spans: Vec<Range<usize>>,
    /// Bytes of the target text of each target token.
    pub target_spans: Vec<Range<usize>>,
    /// Length of each target token in bytes, as the model wrote it: its share in its word.
    pub target_lengths: Vec<usize>,
    /// Attention weights, summed or averaged over heads: target tokens × source tokens, row by row.
    pub weights: Vec<f64>,
}

/// Aligns the words of two texts.
#[derive(Debug, Clone)]
pub struct WordAligner<'t> {
    source: &'t str,
    target: &'t str,
    source_words: Vec<Range<usize>>,
    target_words: Vec<Range<usize>>,
    /// For each target word, the weights of source words.
    weights: Vec<BTreeMap<usize, f64>>,
}

impl<'t> WordAligner<'t> {
    /// An aligner of a text and its translation.
    pub fn new(source: &'t str, target: &'t str) -> Self {
        let (source_words, target_words) = (words(source), words(target));
        let weights = vec![BTreeMap::new(); target_words.len()];
        Self { source, target, source_words, target_words, weights }
    }

    /// Adds the attention of tokens to that of their words.
    pub fn add_attention(&mut self, attention: &TokenAttention) {
        let source_words = attention.source_spans.iter().map(|token| word_at(&self.source_words, token));
        let source_words: Vec<Option<usize>> = source_words.collect();
        let rows = attention.weights.chunks(source_words.len().max(1));
        let targets = attention.target_spans.iter().zip(&attention.target_lengths);
        for ((token, length), row) in targets.zip(rows) {
            let Some(target_word) = word_at(&self.target_words, token) else { continue };
            for (source_word, weight) in source_words.iter().zip(row) {
                if let Some(source_word) = source_word {
                    *self.weights[target_word].entry(*source_word).or_insert(0.0) += weight * *length as f64;
                }
            }
        }
    }

    /// Aligns a preserved range of the source with its range in the target, word by word; both in bytes. Further words of the
    /// target belong to the last one of the source (*$5* and *5 $*).
    pub(crate) fn add_copy(&mut self, source: &Range<usize>, target: &Range<usize>) {
        let source = overlapping(&self.source_words, source);
        let Some(last) = source.clone().next_back() else { return };
        for (source, target) in
            source.chain(std::iter::repeat(last)).zip(overlapping(&self.target_words, target))
        {
            self.weights[target].insert(source, f64::INFINITY);
        }
    }

    /// Pairs of a source word and a target word, counted from 0, by target words; none for a word without weights.
    pub fn alignment(mut self) -> Vec<(usize, usize)> {
        for (source, target) in self.same_names() {
            self.weights[target].insert(source, f64::INFINITY);
        }
        let strongest = |(target, weights): (usize, &BTreeMap<usize, f64>)| {
            let (source, weight) = weights.iter().rev().max_by(|a, b| f64::total_cmp(a.1, b.1))?;
            (*weight > 0.0).then_some((*source, target))
        };
        self.weights.iter().enumerate().filter_map(strongest).collect()
    }

    /// Names and numbers that occur once in each text, without an ending after an apostrophe (*Boston'da*).
    fn same_names(&self) -> Vec<(usize, usize)> {
        let sources = once(self.source_words.iter().map(|word| name(&self.source[word.clone()])));
        let targets = once(self.target_words.iter().map(|word| name(&self.target[word.clone()])));
        let both = sources.iter().filter_map(|(name, source)| Some(((*source)?, (*targets.get(name)?)?)));
        both.collect()
    }
}

/// The alignment of two hops: pairs of words with a common word in the middle text.
pub(crate) fn compose(first: &[(usize, usize)], second: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let origin = |middle: usize| first.iter().find(|pair| pair.1 == middle).map(|pair| pair.0);
    second.iter().filter_map(|&(middle, target)| Some((origin(middle)?, target))).collect()
}

/// A segment of a text and its translation.
#[derive(Debug, Clone)]
pub(crate) struct AlignedPart<'a> {
    /// Its bytes in the source.
    pub(crate) source: Range<usize>,
    /// The byte of the target where its translation begins.
    pub(crate) target: usize,
    /// Length in bytes of its translation where it was copied or replaced.
    pub(crate) copied_len: usize,
    /// The model's output; none where the source was copied.
    pub(crate) written: Option<String>,
    /// The mask and the restored sentence; none where the model read and wrote the texts as they are.
    pub(crate) restored: Option<(&'a MaskedSentence, RestoredSentence)>,
}

impl AlignedPart<'_> {
    /// True if the model wrote nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.as_ref().is_some_and(String::is_empty)
    }

    /// Ranges of the source segment that were copied, and their ranges in its translation, both in the segment's bytes.
    fn copies(&self) -> Vec<(Range<usize>, Range<usize>)> {
        match (&self.restored, &self.written) {
            (Some((_, restored)), _) => restored.copies.clone(),
            (None, Some(_)) => Vec::new(),
            (None, None) => vec![(0..self.source.len(), 0..self.copied_len)],
        }
    }

    /// The attention between what the model read and wrote, with spans in the bytes of the texts.
    fn attention(&self, pair: &TokenPair<'_>) -> Result<TokenAttention> {
        let mut attention = pair.attention()?;
        for span in &mut attention.source_spans {
            let own = self.restored.as_ref().map_or(span.clone(), |(masked, _)| masked.origin.map(span));
            *span = shifted(&own, self.source.start);
        }
        for span in &mut attention.target_spans {
            let own =
                self.restored.as_ref().map_or(span.clone(), |(_, restored)| restored.position.map(span));
            *span = shifted(&own, self.target);
        }
        Ok(attention)
    }
}

/// The alignment of a text and its translation, both as the model reads and writes them; `tag` precedes the text.
pub(crate) fn align_words(
    engine: &Engine,
    tag: Option<u32>,
    [source, target]: [&str; 2],
) -> Result<Vec<(usize, usize)>> {
    let mut aligner = WordAligner::new(source, target);
    aligner.add_attention(&TokenPair { engine, tag, source, target }.attention()?);
    Ok(aligner.alignment())
}

/// The alignment of a text and its translation, segment by segment; `tag` precedes every segment.
pub(crate) fn align_parts(
    engine: &Engine,
    tag: Option<u32>,
    [source, target]: [&str; 2],
    parts: &[AlignedPart<'_>],
) -> Result<Vec<(usize, usize)>> {
    let mut aligner = WordAligner::new(source, target);
    for part in parts {
        if let Some(written) = &part.written {
            let read =
                part.restored.as_ref().map_or(&source[part.source.clone()], |(masked, _)| &masked.text);
            let pair = TokenPair { engine, tag, source: read, target: written };
            aligner.add_attention(&part.attention(&pair)?);
        }
        for (copied, copy) in part.copies() {
            aligner.add_copy(&shifted(&copied, part.source.start), &shifted(&copy, part.target));
        }
    }
    Ok(aligner.alignment())
}

/// The index of each name; none where it occurs more than once.
fn once<'a>(names: impl Iterator<Item = Option<&'a str>>) -> BTreeMap<&'a str, Option<usize>> {
    let mut indices = BTreeMap::new();
    for (index, name) in names.enumerate().filter_map(|(index, name)| Some((index, name?))) {
        indices.entry(name).and_modify(|index| *index = None).or_insert(Some(index));
    }
    indices
}

/// A word without punctuation and ending, if it is a number, or capitalised and of three letters or more (not *In*).
fn name(word: &str) -> Option<&str> {
    let word = word.trim_matches(|character: char| !character.is_alphanumeric());
    let name = word.split(['\'', '’']).next()?;
    let is_capitalised = name.starts_with(char::is_uppercase) && name.chars().count() >= 3;
    (is_capitalised || name.starts_with(|first: char| first.is_ascii_digit())).then_some(name)
}

/// The indices of the words that overlap with a range.
fn overlapping(words: &[Range<usize>], range: &Range<usize>) -> Range<usize> {
    let first = words.partition_point(|word| word.end <= range.start);
    first..words.partition_point(|word| word.start < range.end).max(first)
}

/// A range in the bytes of a segment as one of the text in which the segment begins at `start`.
fn shifted(range: &Range<usize>, start: usize) -> Range<usize> {
    start + range.start..start + range.end
}

/// A source and its translation, both as the model reads and writes them.
struct TokenPair<'a> {
    engine: &'a Engine,
    tag: Option<u32>,
    source: &'a str,
    target: &'a str,
}

impl TokenPair<'_> {
    /// The attention of the alignment layer, summed over its heads, from one forward pass.
    fn attention(&self) -> Result<TokenAttention> {
        let Engine { model, parameters, tokenizers, .. } = self.engine;
        let ids = model.special_ids();
        let source = tokenizers.encode_source(self.source, ids.end_id)?;
        let target = tokenizers.encode_target_of(self.target, &tokenizers.unknown_words(&source)?)?;
        let source_ids: Vec<u32> = self.tag.into_iter().chain(source.ids).collect();
        let tag_span = self.tag.map(|_| 0..0);
        // The decoder reads the start token and all but the last; position i then writes token i.
        let mut target_ids = vec![self.engine.generation().start_id];
        target_ids.extend(target.ids.iter().take(target.ids.len().saturating_sub(1)));
        // Tokenised anew, a translation can have more tokens than it was written with.
        target_ids.truncate(model.max_len());
        let layers = |layer: usize| Some(vec![layer]);
        let filter = match model.alignment_site() {
            Some(site) => Filter { kind: Some(site.kind), layers: layers(site.layer), ..Filter::default() },
            None => Filter { layers: Some(Vec::new()), ..Filter::default() },
        };
        let captured = self.engine.in_turn(|| {
            let (tape, capture) = (Tape::inference(), Capture::on(filter));
            let pass = Pass::new(&tape, parameters, &capture);
            let on_device = |ids: Ids| ids.to_device(&parameters.device());
            let (source, target) = (model.source_ids(&[&source_ids]), model.ids(&[&target_ids]));
            model.forward(&pass, &on_device(source)?, &on_device(target)?)?;
            Ok::<_, polyhead_models::Error>(capture.take().weights)
        })?;
        // Of several sources the first is aligned.
        let n_keys = captured.first().map_or(source_ids.len(), |first| first.weights.shape()[3]);
        let mut weights = vec![0.0; n_keys * target_ids.len()];
        for captured in captured {
            for head in captured.weights.data().chunks(weights.len()) {
                weights.iter_mut().zip(head).for_each(|(sum, weight)| *sum += f64::from(*weight));
            }
        }
        Ok(TokenAttention {
            source_spans: tag_span.into_iter().chain(source.offsets).take(n_keys).collect(),
            target_lengths: target.offsets.iter().map(Range::len).collect(),
            target_spans: target.offsets,
            weights,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_of_two_hops_are_composed() {
        assert_eq!(compose(&[(0, 0), (2, 1), (1, 2)], &[(1, 0), (2, 1), (5, 2)]), [(2, 0), (1, 1)]);
    }

    #[test]
    fn the_strongest_source_word_wins_and_of_equals_the_first() {
        let mut aligner = WordAligner::new("a b c", "x y z");
        let spans = vec![0..1, 2..3, 4..5];
        let weights = vec![0.2, 0.5, 0.3, 0.0, 0.0, 0.0, 0.4, 0.1, 0.4];
        let (source_spans, target_spans, target_lengths) = (spans.clone(), spans, vec![1; 3]);
        aligner.add_attention(&TokenAttention { source_spans, target_spans, target_lengths, weights });
        assert_eq!(aligner.alignment(), [(1, 0), (0, 2)]);
    }

    #[test]
    fn names_and_copies_override_attention() {
        let mut aligner = WordAligner::new("In Boston we saw it", "Boston'da onu gördük");
        aligner.add_attention(&TokenAttention {
            source_spans: vec![0..2, 2..9],
            target_spans: vec![0..7, 7..9],
            target_lengths: vec![7, 2],
            weights: vec![0.9, 0.1, 0.9, 0.1],
        });
        aligner.add_copy(&(17..19), &(10..13));
        assert_eq!(aligner.alignment(), [(1, 0), (4, 1)]);
    }
}
