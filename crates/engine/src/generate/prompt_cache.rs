//! The prompt cache: states after prompts, so that a prompt that begins like another computes only what follows.
//!
//! [`shared_prefixes`] finds where prompts part; the states there are kept, and copied for each prompt that continues them. A
//! state does not depend on how it was reached, so a text has the same bits with and without the cache.

use polyhead_models::{LanguageModelDecoding, LanguageModelState};

use crate::Result;

/// Prefixes are shared in steps of this many tokens; a shorter one is computed again.
pub(super) const STEP: usize = 16;
/// Texts whose state is kept.
const MAX_ENTRIES: usize = 16;
/// Tokens whose state is kept, unless a caller says how many.
const MAX_TOKENS: usize = 16_384;
/// Prompts that are remembered without a state, to find what the next ones share with them.
const MAX_RECENT: usize = 32;

/// States after prompts, the most recently used last.
#[derive(Debug)]
pub(super) struct PromptCache {
    entries: Vec<Entry>,
    /// Tokens whose state is kept.
    max_tokens: usize,
    recent: Vec<Vec<u32>>,
    /// Tokens that were not computed again.
    reused: u64,
}

#[derive(Debug)]
struct Entry {
    ids: Vec<u32>,
    /// One row that has read `ids`.
    state: LanguageModelState,
}

impl Default for PromptCache {
    fn default() -> Self {
        Self::new(MAX_TOKENS)
    }
}

impl PromptCache {
    /// A cache of the states of `max_tokens` tokens.
    pub(super) fn new(max_tokens: usize) -> Self {
        Self { entries: Vec::new(), max_tokens, recent: Vec::new(), reused: 0 }
    }

    /// Tokens that were not computed again.
    pub(super) fn reused(&self) -> u64 {
        self.reused
    }

    /// A copy of the state after the longest known prefix of `ids`, and its length.
    pub(super) fn find(
        &mut self,
        decoding: &LanguageModelDecoding<'_>,
        ids: &[u32],
    ) -> Result<Option<(usize, LanguageModelState)>> {
        let mut candidates: Vec<(usize, usize)> = self
            .entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (common(&entry.ids, ids), index))
            .filter(|&(length, _)| length >= STEP)
            .collect();
        candidates.sort_unstable();
        while let Some((length, index)) = candidates.pop() {
            let entry = &self.entries[index];
            if let Some(state) = decoding.prefix(&entry.state, 0, [length, entry.ids.len()])? {
                let entry = self.entries.remove(index);
                self.entries.push(entry);
                self.reused += length as u64;
                return Ok(Some((length, state)));
            }
        }
        Ok(None)
    }

    /// Keeps the state of a row that has read `ids`.
    pub(super) fn insert(
        &mut self,
        decoding: &LanguageModelDecoding<'_>,
        ids: &[u32],
        (state, row): (&LanguageModelState, usize),
    ) -> Result<()> {
        let is_kept = self.entries.iter().any(|entry| entry.ids == ids);
        if is_kept || ids.len() < STEP || ids.len() > self.max_tokens {
            return Ok(());
        }
        let Some(state) = decoding.prefix(state, row, [ids.len(); 2])? else { return Ok(()) };
        self.entries.push(Entry { ids: ids.to_vec(), state });
        let mut tokens: usize = self.entries.iter().map(|entry| entry.ids.len()).sum();
        while self.entries.len() > MAX_ENTRIES || tokens > self.max_tokens {
            tokens -= self.entries.remove(0).ids.len();
        }
        Ok(())
    }

    /// Prompts that were read lately.
    pub(super) fn recent(&self) -> &[Vec<u32>] {
        &self.recent
    }

    /// Remembers a prompt, without its state.
    pub(super) fn remember(&mut self, ids: &[u32]) {
        if ids.len() < STEP || self.recent.iter().any(|recent| recent == ids) {
            return;
        }
        if self.recent.len() >= MAX_RECENT {
            self.recent.remove(0);
        }
        self.recent.push(ids.to_vec());
    }
}

/// Length of the common prefix.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The lengths, in steps of [`STEP`] and above `from[i]`, at which other texts or `others` part from text i, ascending; its own
/// length is the last.
pub(super) fn shared_prefixes(texts: &[&[u32]], from: &[usize], others: &[Vec<u32>]) -> Vec<Vec<usize>> {
    let shared = |(index, (&text, &from)): (usize, (&&[u32], &usize))| {
        let beside = texts.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, &other)| other);
        let mut lengths: Vec<usize> = beside
            .chain(others.iter().map(Vec::as_slice))
            .filter(|other| *other != text)
            .map(|other| common(text, other) / STEP * STEP)
            .filter(|&length| length > from && length < text.len())
            .collect();
        lengths.push(text.len());
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    };
    texts.iter().zip(from).enumerate().map(shared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_share_what_they_begin_with_in_steps() {
        let text = |shared: u32, length: u32, own: u32| -> Vec<u32> {
            (0..length).map(|id| if id < shared { id } else { own }).collect()
        };
        let (a, b, c) = (text(40, 50, 100), text(40, 45, 101), text(20, 30, 102));
        let found = shared_prefixes(&[&a, &b, &c], &[0; 3], &[]);
        assert_eq!(found, [vec![16, 32, 50], vec![16, 32, 45], vec![16, 30]]);
        // What is known already is not shared again.
        assert_eq!(shared_prefixes(&[&a, &b], &[32, 0], &[]), [vec![50], vec![32, 45]]);
        // A prompt of before, and one that is all of another.
        assert_eq!(shared_prefixes(&[&a], &[0], std::slice::from_ref(&c)), [vec![16, 50]]);
        let whole = text(32, 32, 0);
        assert_eq!(shared_prefixes(&[&a, &whole], &[0; 2], &[]), [vec![32, 50], vec![32]]);
        assert_eq!(shared_prefixes(&[&[], &a], &[0; 2], &[]), [vec![0], vec![50]]);
    }
}
