//! Word and character models: segmentation into words, each from one `▁` to the next, or into single characters.

use super::normalizer::{Normalizer, SPACE};
use super::trie::Trie;
use super::{Segment, char_len};

/// Segments `text` into words.
pub(crate) fn words(pieces: &Trie, unknown: u32, text: &str) -> Vec<Segment> {
    let starts = text.match_indices(SPACE).map(|(at, _)| at).filter(|&at| at > 0);
    let ends = starts.chain((!text.is_empty()).then_some(text.len()));
    let mut start = 0;
    ends.map(|end| {
        let id = pieces.get(&text[start..end]).unwrap_or(unknown);
        start = end;
        Segment { end, id }
    })
    .collect()
}

/// Segments `text` into characters and user-defined symbols.
pub(crate) fn characters(pieces: &Trie, unknown: u32, text: &str, symbols: &Normalizer) -> Vec<Segment> {
    let mut segments = Vec::with_capacity(text.len());
    let mut start = 0;
    while start < text.len() {
        let end = start + symbols.symbol(&text[start..]).unwrap_or_else(|| char_len(text.as_bytes()[start]));
        segments.push(Segment { end, id: pieces.get(&text[start..end]).unwrap_or(unknown) });
        start = end;
    }
    segments
}
