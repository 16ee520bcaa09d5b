//! Literals: words that must come back as they are, matched in a translation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::word_parts::marks;
use super::{Node, NodeKind};
use crate::words::words;

/// Maximum number of words that are compared with a literal, in either direction.
const MAX_TRIES: usize = 8;

/// A literal in the text and in the translation, in bytes.
#[derive(Debug, Clone)]
pub(super) struct LiteralMatch {
    pub(super) source: Range<usize>,
    pub(super) target: Range<usize>,
}

/// Finds the literals of a text in its translation, by position; each near the words that are aligned with its own.
pub(super) fn find(
    source: &str,
    nodes: &[Node],
    target: &str,
    origins: &[Option<usize>],
) -> Vec<LiteralMatch> {
    if !nodes.iter().any(|node| node.kind == NodeKind::Literal) {
        return Vec::new();
    }
    let (source_words, target_words) = (words(source), words(target));
    let mut firsts = vec![None; source_words.len()];
    for (word, origin) in origins.iter().enumerate().rev() {
        if let Some(origin) = origin {
            firsts[*origin] = Some(word);
        }
    }
    let mut places: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for (index, word) in target_words.iter().enumerate() {
        places.entry(core(&target[word.clone()]).1).or_default().insert(index);
    }
    let mut taken: BTreeMap<usize, LiteralMatch> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.kind == NodeKind::Literal) {
        let text = &source[node.text.clone()];
        let word = source_words.partition_point(|word| word.end <= node.text.start);
        let expected = firsts.get(word).copied().flatten().unwrap_or(word);
        let Some(first) = text.split_whitespace().next() else { continue };
        let (skipped, key) = core(first);
        let is_free = |range: &Range<usize>| {
            taken.range(..range.end).next_back().is_none_or(|(_, last)| last.target.end <= range.start)
        };
        // An unchanged word has the literal at the same position, perhaps among other letters.
        let same = source_words.get(word).zip(target_words.get(expected)).and_then(|(from, to)| {
            let start = to.start + (node.text.start - from.start);
            let range = start..start + text.len();
            let stays = source[from.clone()] == target[to.clone()] && target.get(range.clone()) == Some(text);
            (stays && is_free(&range)).then_some(range)
        });
        let alone = || {
            nearest(places.get(key)?, expected).find_map(|candidate| {
                let word = &target_words[candidate];
                let start = (word.start + core(&target[word.clone()]).0).checked_sub(skipped)?;
                let range = start..start + text.len();
                (stands_alone(target, &range, text) && is_free(&range)).then_some(range)
            })
        };
        let found = same.or_else(alone);
        if let Some(found) = found {
            taken.insert(found.start, LiteralMatch { source: node.text.clone(), target: found });
        }
    }
    taken.into_values().collect()
}

/// Words near the expected one, the nearest first.
fn nearest(places: &BTreeSet<usize>, expected: usize) -> impl Iterator<Item = usize> {
    let behind = places.range(expected..).take(MAX_TRIES);
    let before = places.range(..expected).rev().take(MAX_TRIES);
    let mut all: Vec<usize> = behind.chain(before).copied().collect();
    all.sort_by_key(|place| place.abs_diff(expected));
    all.into_iter()
}

/// True if `text` is at this range, and not part of a longer word.
fn stands_alone(target: &str, range: &Range<usize>, text: &str) -> bool {
    let is_inside = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    target.get(range.clone()) == Some(text)
        && !is_inside(target[..range.start].chars().next_back())
        && !is_inside(target[range.end..].chars().next())
}

/// A word without the punctuation around it, and the bytes before it.
fn core(word: &str) -> (usize, &str) {
    let (lead, trail) = marks(word);
    (lead, &word[lead..word.len() - trail])
}
