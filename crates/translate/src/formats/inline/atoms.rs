//! Words in pieces: where tags stand inside them, and where marks such as full stops begin. Which atom of a translation
//! comes from which of its text.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::literals::Found;
use crate::words::words;

/// Part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Atom {
    /// Its bytes.
    pub(super) range: Range<usize>,
    zone: Zone,
}

/// Where in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zone {
    /// Opening marks.
    Lead,
    Body,
    /// Closing marks.
    Trail,
}

/// A text in atoms.
#[derive(Debug)]
pub(super) struct Atoms<'t> {
    text: &'t str,
    pub(super) atoms: Vec<Atom>,
    /// The first atom of each word, and the number of all.
    starts: Vec<usize>,
}

impl<'t> Atoms<'t> {
    /// Cuts a text at `cuts`, which are sorted.
    pub(super) fn new(text: &'t str, words: &[Range<usize>], cuts: &[usize]) -> Self {
        let (mut atoms, mut starts) = (Vec::with_capacity(words.len()), Vec::with_capacity(words.len() + 1));
        let mut next = 0;
        for word in words {
            starts.push(atoms.len());
            let (lead, trail) = match marks(&text[word.clone()]) {
                // A full stop that stands alone belongs to one that does not.
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
                atoms.push(Atom { range: start..end, zone });
                start = end;
            }
        }
        starts.push(atoms.len());
        Self { text, atoms, starts }
    }

    /// The atoms of a word.
    fn of_word(&self, word: usize) -> Range<usize> {
        self.starts[word]..self.starts[word + 1]
    }

    /// The bytes of a word.
    fn bytes(&self, word: usize) -> Range<usize> {
        let atoms = &self.atoms[self.of_word(word)];
        let end = atoms.last().map_or(0, |atom| atom.range.end);
        atoms.first().map_or(end, |atom| atom.range.start)..end
    }

    /// The bytes of the word that an atom is part of.
    pub(super) fn word_around(&self, atom: usize) -> Range<usize> {
        self.bytes(self.starts.partition_point(|start| *start <= atom) - 1)
    }

    fn zone(&self, word: usize, zone: Zone) -> impl Iterator<Item = usize> {
        self.of_word(word).filter(move |atom| self.atoms[*atom].zone == zone)
    }

    fn str(&self, atom: usize) -> &'t str {
        &self.text[self.atoms[atom].range.clone()]
    }

    /// The atoms that a range of the text has a part of; for an empty range none, behind those before it.
    pub(super) fn within(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.atoms.partition_point(|atom| atom.range.end <= range.start);
        let last = self.atoms.partition_point(|atom| atom.range.start < range.end);
        first..if range.is_empty() { first } else { last.max(first) }
    }
}

/// Two texts in atoms.
#[derive(Debug)]
pub(super) struct Aligned<'t> {
    pub(super) source: Atoms<'t>,
    pub(super) target: Atoms<'t>,
    /// The source atom of each target atom.
    pub(super) origin: Vec<Option<usize>>,
}

/// What is put together.
pub(super) struct Pair<'t> {
    pub(super) source: &'t str,
    pub(super) target: &'t str,
    /// Where the source is cut, sorted.
    pub(super) cuts: Vec<usize>,
    /// Literals that were found in the target, by place.
    pub(super) found: Vec<Found>,
}

/// Aligns atoms; `origins` has the source word of each target word.
pub(super) fn align<'t>(pair: &Pair<'t>, origins: &[Option<usize>]) -> Aligned<'t> {
    let (source_words, target_words) = (words(pair.source), words(pair.target));
    let source = Atoms::new(pair.source, &source_words, &pair.cuts);
    let mut cuts: Vec<usize> =
        pair.found.iter().flat_map(|found| [found.target.start, found.target.end]).collect();
    for (word, range) in target_words.iter().enumerate() {
        let Some(from) = origins[word] else { continue };
        cuts.extend(
            inner_cuts(&source, from, &pair.target[range.clone()]).into_iter().map(|cut| range.start + cut),
        );
    }
    cuts.sort_unstable();
    let target = Atoms::new(pair.target, &target_words, &cuts);
    let origin = vec![None; target.atoms.len()];
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

/// Where a translated word is cut because its source word is, and the parts are the same.
fn inner_cuts(source: &Atoms<'_>, word: usize, target: &str) -> Vec<usize> {
    let atoms = source.of_word(word);
    let bytes = source.bytes(word);
    if target == &source.text[bytes.clone()] {
        return atoms.map(|atom| source.atoms[atom].range.end - bytes.start).collect();
    }
    let mut cuts = Vec::new();
    let (lead, trail) = marks(target);
    let body: Vec<&str> = source.zone(word, Zone::Body).map(|atom| source.str(atom)).collect();
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
    for mark in source.zone(word, Zone::Trail).map(|atom| source.str(atom)) {
        let Some(behind) = rest.strip_prefix(mark) else { break };
        cuts.push(target.len() - behind.len());
        rest = behind;
    }
    cuts
}

impl Aligned<'_> {
    /// Aligns the atoms of two words.
    fn align_word(&mut self, from: usize, word: usize) {
        let (sources, targets) = (self.source.of_word(from), self.target.of_word(word));
        let (from_bytes, to_bytes) = (self.source.bytes(from), self.target.bytes(word));
        if self.source.text[from_bytes.clone()] == self.target.text[to_bytes.clone()] {
            let mut atom = sources.start;
            for target in targets {
                let at = self.target.atoms[target].range.start - to_bytes.start;
                while self.source.atoms[atom].range.end - from_bytes.start <= at {
                    atom += 1;
                }
                self.origin[target] = Some(atom);
            }
            return;
        }
        let mut body: Vec<usize> = self.source.zone(from, Zone::Body).collect();
        if body.is_empty() {
            body = sources.collect();
        }
        let longest = body.iter().copied().rev().max_by_key(|atom| self.source.atoms[*atom].range.len());
        let (first, last) = (body.first().copied(), body.last().copied());
        let of_body: Vec<usize> = self.target.zone(word, Zone::Body).collect();
        for (place, &target) in of_body.iter().enumerate() {
            let is = |atom: &usize| body.len() > 1 && self.source.str(*atom) == self.target.str(target);
            let first = first.filter(|atom| place == 0 && is(atom));
            let last = last.filter(|atom| place + 1 == of_body.len() && is(atom));
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

    /// A full stop belongs to a full stop, wherever its word has gone.
    fn align_marks_left_over(&mut self) {
        let mut is_used = vec![false; self.source.atoms.len()];
        self.origin.iter().flatten().for_each(|atom| is_used[*atom] = true);
        let mut left: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (atom, is_used) in is_used.iter().enumerate() {
            if !is_used && self.source.atoms[atom].zone == Zone::Trail {
                left.entry(self.source.str(atom)).or_default().push_back(atom);
            }
        }
        for target in 0..self.origin.len() {
            if self.origin[target].is_none() && self.target.atoms[target].zone == Zone::Trail {
                self.origin[target] = left.get_mut(self.target.str(target)).and_then(VecDeque::pop_front);
            }
        }
    }

    /// Lets literals have what was found of them, and nothing else.
    fn force(&mut self, found: &[Found]) {
        let mut is_found = vec![false; self.source.atoms.len()];
        for literal in found {
            self.source.within(&literal.source).for_each(|atom| is_found[atom] = true);
        }
        for origin in &mut self.origin {
            *origin = origin.filter(|atom| !is_found[*atom]);
        }
        for literal in found {
            let atom = self.source.within(&literal.source).start;
            self.target.within(&literal.target).for_each(|target| self.origin[target] = Some(atom));
        }
    }
}

/// The source word of each target word: the first pair of each, and for words between two aligned ones what stands between
/// theirs, in order, if nothing of that is aligned.
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
    // How many of the target words before each are aligned.
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

/// The bytes of opening and closing marks around a word; none where there is nothing else.
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
