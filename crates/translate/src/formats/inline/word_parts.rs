//! Words divided where tags or punctuation begin inside them, and the alignment of these parts between a text and its
//! translation.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::literals::LiteralMatch;
use crate::words::words;

/// Part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WordPart {
    /// Its bytes.
    pub(super) range: Range<usize>,
    zone: Zone,
}

/// The position of a part in its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zone {
    /// Opening punctuation.
    Lead,
    Body,
    /// Closing punctuation.
    Trail,
}

/// The words of a text in parts.
#[derive(Debug)]
pub(super) struct WordParts<'t> {
    text: &'t str,
    pub(super) parts: Vec<WordPart>,
    /// The first part of each word, and the number of all parts.
    starts: Vec<usize>,
}

impl<'t> WordParts<'t> {
    /// Divides the words of a text at the bytes `cuts`, which are sorted.
    pub(super) fn new(text: &'t str, words: &[Range<usize>], cuts: &[usize]) -> Self {
        let (mut parts, mut starts) = (Vec::with_capacity(words.len()), Vec::with_capacity(words.len() + 1));
        let mut next = 0;
        for word in words {
            starts.push(parts.len());
            let (lead, trail) = match marks(&text[word.clone()]) {
                // A word of punctuation only is closing punctuation, to be aligned with that of other words.
                _ if text[word.clone()].chars().all(is_mark) => (word.start, word.start),
                (lead, trail) => (word.start + lead, word.end - trail),
            };
            let mut start = word.start;
            while start < word.end {
                while cuts.get(next).is_some_and(|cut| *cut <= start) {
                    next += 1;
                }
                let ends = [lead, trail, word.end].into_iter().chain(cuts.get(next).copied());
                let end = ends.filter(|end| *end > start).min().unwrap_or(word.end);
                let zone = match start {
                    _ if start < lead => Zone::Lead,
                    _ if start >= trail => Zone::Trail,
                    _ => Zone::Body,
                };
                parts.push(WordPart { range: start..end, zone });
                start = end;
            }
        }
        starts.push(parts.len());
        Self { text, parts, starts }
    }

    /// The parts of a word.
    fn of_word(&self, word: usize) -> Range<usize> {
        self.starts[word]..self.starts[word + 1]
    }

    /// The bytes of a word.
    fn bytes(&self, word: usize) -> Range<usize> {
        let parts = &self.parts[self.of_word(word)];
        let end = parts.last().map_or(0, |part| part.range.end);
        parts.first().map_or(end, |part| part.range.start)..end
    }

    /// The bytes of the word of a part.
    pub(super) fn word_around(&self, part: usize) -> Range<usize> {
        self.bytes(self.starts.partition_point(|start| *start <= part) - 1)
    }

    fn zone(&self, word: usize, zone: Zone) -> impl Iterator<Item = usize> {
        self.of_word(word).filter(move |part| self.parts[*part].zone == zone)
    }

    fn str(&self, part: usize) -> &'t str {
        &self.text[self.parts[part].range.clone()]
    }

    /// The parts that overlap with a range of the text; for an empty range an empty one, after the parts before it.
    pub(super) fn within(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.parts.partition_point(|part| part.range.end <= range.start);
        let last = self.parts.partition_point(|part| part.range.start < range.end);
        first..if range.is_empty() { first } else { last.max(first) }
    }
}

/// Two texts in word parts.
#[derive(Debug)]
pub(super) struct Aligned<'t> {
    pub(super) source: WordParts<'t>,
    pub(super) target: WordParts<'t>,
    /// The source part of each target part.
    pub(super) origin: Vec<Option<usize>>,
}

/// A text and its translation.
pub(super) struct Pair<'t> {
    pub(super) source: &'t str,
    pub(super) target: &'t str,
    /// Bytes where the source is cut, sorted.
    pub(super) cuts: Vec<usize>,
    /// Literals that were found in the target, by position.
    pub(super) found: Vec<LiteralMatch>,
}

/// Aligns word parts; `origins` has the source word of each target word.
pub(super) fn align<'t>(pair: &Pair<'t>, origins: &[Option<usize>]) -> Aligned<'t> {
    let (source_words, target_words) = (words(pair.source), words(pair.target));
    let source = WordParts::new(pair.source, &source_words, &pair.cuts);
    let mut cuts: Vec<usize> =
        pair.found.iter().flat_map(|found| [found.target.start, found.target.end]).collect();
    for (word, range) in target_words.iter().enumerate() {
        let Some(from) = origins[word] else { continue };
        cuts.extend(
            inner_cuts(&source, from, &pair.target[range.clone()]).into_iter().map(|cut| range.start + cut),
        );
    }
    cuts.sort_unstable();
    let target = WordParts::new(pair.target, &target_words, &cuts);
    let origin = vec![None; target.parts.len()];
    let mut aligned = Aligned { source, target, origin };
    for (word, from) in origins.iter().enumerate() {
        if let Some(from) = from {
            aligned.align_word(*from, word);
        }
    }
    aligned.align_marks_left_over();
    aligned.force(&pair.found);
    aligned
}

/// The bytes where a translated word is cut because its source word is, and the parts are the same.
fn inner_cuts(source: &WordParts<'_>, word: usize, target: &str) -> Vec<usize> {
    let parts = source.of_word(word);
    let bytes = source.bytes(word);
    if target == &source.text[bytes.clone()] {
        return parts.map(|part| source.parts[part].range.end - bytes.start).collect();
    }
    let mut cuts = Vec::new();
    let (lead, trail) = marks(target);
    let body: Vec<&str> = source.zone(word, Zone::Body).map(|part| source.str(part)).collect();
    if let [first, .., last] = body.as_slice() {
        let inside = &target[lead..target.len() - trail];
        if inside.starts_with(first) {
            cuts.push(lead + first.len());
        }
        if inside.ends_with(last) {
            cuts.push(target.len() - trail - last.len());
        }
    }
    let mut rest = &target[target.len() - trail..];
    for mark in source.zone(word, Zone::Trail).map(|part| source.str(part)) {
        let Some(behind) = rest.strip_prefix(mark) else { break };
        cuts.push(target.len() - behind.len());
        rest = behind;
    }
    cuts
}

impl Aligned<'_> {
    /// Aligns the parts of two words.
    fn align_word(&mut self, from: usize, word: usize) {
        let (sources, targets) = (self.source.of_word(from), self.target.of_word(word));
        let (from_bytes, to_bytes) = (self.source.bytes(from), self.target.bytes(word));
        if self.source.text[from_bytes.clone()] == self.target.text[to_bytes.clone()] {
            let mut part = sources.start;
            for target in targets {
                let at = self.target.parts[target].range.start - to_bytes.start;
                while self.source.parts[part].range.end - from_bytes.start <= at {
                    part += 1;
                }
                self.origin[target] = Some(part);
            }
            return;
        }
        let mut body: Vec<usize> = self.source.zone(from, Zone::Body).collect();
        if body.is_empty() {
            body = sources.collect();
        }
        let longest = body.iter().copied().rev().max_by_key(|part| self.source.parts[*part].range.len());
        let (first, last) = (body.first().copied(), body.last().copied());
        let of_body: Vec<usize> = self.target.zone(word, Zone::Body).collect();
        for (place, &target) in of_body.iter().enumerate() {
            let is = |part: &usize| body.len() > 1 && self.source.str(*part) == self.target.str(target);
            let first = first.filter(|part| place == 0 && is(part));
            let last = last.filter(|part| place + 1 == of_body.len() && is(part));
            self.origin[target] = first.or(last).or(longest);
        }
        for zone in [Zone::Lead, Zone::Trail] {
            let marks: Vec<usize> = self.source.zone(from, zone).collect();
            let targets: Vec<usize> = self.target.zone(word, zone).collect();
            for (place, target) in targets.into_iter().enumerate() {
                self.origin[target] = marks.get(place).or(marks.last()).copied();
            }
        }
    }

    /// Aligns punctuation that is left over with the same punctuation of another word.
    fn align_marks_left_over(&mut self) {
        let mut is_used = vec![false; self.source.parts.len()];
        self.origin.iter().flatten().for_each(|part| is_used[*part] = true);
        let mut left: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (part, is_used) in is_used.iter().enumerate() {
            if !is_used && self.source.parts[part].zone == Zone::Trail {
                left.entry(self.source.str(part)).or_default().push_back(part);
            }
        }
        for target in 0..self.origin.len() {
            if self.origin[target].is_none() && self.target.parts[target].zone == Zone::Trail {
                self.origin[target] = left.get_mut(self.target.str(target)).and_then(VecDeque::pop_front);
            }
        }
    }

    /// Aligns literals with their matches only.
    fn force(&mut self, found: &[LiteralMatch]) {
        let mut is_found = vec![false; self.source.parts.len()];
        for literal in found {
            self.source.within(&literal.source).for_each(|part| is_found[part] = true);
        }
        for origin in &mut self.origin {
            *origin = origin.filter(|part| !is_found[*part]);
        }
        for literal in found {
            let part = self.source.within(&literal.source).start;
            self.target.within(&literal.target).for_each(|target| self.origin[target] = Some(part));
        }
    }
}

/// The source word of each target word: that of its first pair. Words between two aligned ones get, in order, the words
/// between their source words, if none of these is aligned.
pub(super) fn origins(n_source: usize, n_target: usize, alignment: &[(usize, usize)]) -> Vec<Option<usize>> {
    let mut origins = vec![None; n_target];
    // The first and the last target word of each source word.
    let mut ends: Vec<Option<(usize, usize)>> = vec![None; n_source];
    for &(source, target) in alignment.iter().filter(|pair| pair.0 < n_source && pair.1 < n_target) {
        if origins[target].is_none() {
            origins[target] = Some(source);
            let (first, last) = ends[source].unwrap_or((target, target));
            ends[source] = Some((first.min(target), last.max(target)));
        }
    }
    // The number of aligned target words before each.
    let mut counts = vec![0];
    for origin in &origins {
        counts.push(counts.last().copied().unwrap_or(0) + usize::from(origin.is_some()));
    }
    let mut start = 0;
    while start < n_source {
        if ends[start].is_some() {
            start += 1;
            continue;
        }
        let end = (start..n_source).find(|word| ends[*word].is_some()).unwrap_or(n_source);
        let first = if start == 0 { 0 } else { ends[start - 1].map_or(0, |ends| ends.1 + 1) };
        let last = if end == n_source { n_target } else { ends[end].map_or(n_target, |ends| ends.0) };
        if first < last && counts[first] == counts[last] && origins[first].is_none() {
            for target in first..last {
                origins[target] = Some(start + (target - first) * (end - start) / (last - first));
            }
        }
        start = end;
    }
    origins
}

/// The bytes of opening and closing punctuation around a word; 0 where there is nothing else.
pub(super) fn marks(word: &str) -> (usize, usize) {
    let lead = word.len() - word.trim_start_matches(is_mark).len();
    if lead == word.len() {
        return (0, 0);
    }
    (lead, word.len() - word.trim_end_matches(is_mark).len())
}

fn is_mark(letter: char) -> bool {
    matches!(
        letter,
        '.' | ','
            | ';'
            | ':'
            | '!'
            | '?'
            | '…'
            | '"'
            | '\''
            | '“'
            | '”'
            | '„'
            | '‚'
            | '‘'
            | '’'
            | '«'
            | '»'
            | '‹'
            | '›'
            | '('
            | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '¿'
            | '¡'
            | '。'
            | '，'
            | '、'
            | '；'
            | '：'
            | '！'
            | '？'
            | '「'
            | '」'
            | '『'
            | '』'
            | '（'
            | '）'
    )
}
