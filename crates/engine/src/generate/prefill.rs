//! Prefill: the states after several prompts, each shared prefix computed once.
//!
//! The prompts are a tree that parts where they do. Its levels are computed one after the other: the rows of a level are copied
//! for each branch, and every branch reads its own tokens, all in one pass.

use polyhead_models::decode::NextToken as _;
use polyhead_models::{LanguageModelDecoding, LanguageModelState};

use super::prompt_cache::{PromptCache, shared_prefixes};
use crate::Result;

/// A row while levels are computed: a text, or a prefix of several.
struct Branch {
    /// The texts that begin with it.
    texts: Vec<usize>,
    /// Tokens read.
    length: usize,
}

/// The state with a row for each of `texts`, which has read it; equal texts are read once.
pub(super) fn prefill(
    decoding: &LanguageModelDecoding<'_>,
    texts: &[&[u32]],
    cache: &mut PromptCache,
) -> Result<LanguageModelState> {
    let mut distinct: Vec<&[u32]> = texts.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let index = |text: &&[u32]| distinct.binary_search(text).expect("every text is among the distinct ones");
    let empty = decoding.read(&[&[]], 1)?;
    if !decoding.is_extendable(&empty) {
        let mut state = decoding.read(&distinct, texts.len())?;
        let rows: Vec<usize> = texts.iter().map(index).collect();
        decoding.reorder(&mut state, &rows);
        return Ok(state);
    }
    let (mut state, mut branches) = roots(decoding, empty, &distinct, cache)?;
    let from: Vec<usize> = (0..distinct.len())
        .map(|text| {
            branches.iter().find(|branch| branch.texts.contains(&text)).map_or(0, |found| found.length)
        })
        .collect();
    let lengths = shared_prefixes(&distinct, &from, cache.recent());
    let is_open = |branch: &Branch| branch.texts.iter().any(|&text| distinct[text].len() > branch.length);
    while branches.iter().any(is_open) {
        let next = divided(&branches, &distinct, &lengths);
        let parents: Vec<usize> = next.iter().map(|(parent, _)| *parent).collect();
        if !parents.iter().copied().eq(0..branches.len()) {
            decoding.reorder(&mut state, &parents);
        }
        let read: Vec<&[u32]> = next
            .iter()
            .map(|(parent, branch)| &distinct[branch.texts[0]][branches[*parent].length..branch.length])
            .collect();
        decoding.extend(&mut state, &read)?;
        branches = next.into_iter().map(|(_, branch)| branch).collect();
        for (row, branch) in branches.iter().enumerate() {
            if is_open(branch) {
                let text = distinct[branch.texts[0]];
                cache.insert(decoding, &text[..branch.length], (&state, row))?;
            }
        }
    }
    for text in &distinct {
        cache.remember(text);
    }
    let row = |text: &&[u32]| {
        let index = index(text);
        branches.iter().position(|branch| branch.texts == [index]).expect("every text is a branch at the end")
    };
    let rows: Vec<usize> = texts.iter().map(row).collect();
    if !rows.iter().copied().eq(0..branches.len()) {
        decoding.reorder(&mut state, &rows);
    }
    Ok(state)
}

/// The states that the cache has, and one that has read nothing for all other texts.
fn roots(
    decoding: &LanguageModelDecoding<'_>,
    mut state: LanguageModelState,
    texts: &[&[u32]],
    cache: &mut PromptCache,
) -> Result<(LanguageModelState, Vec<Branch>)> {
    let mut branches = vec![Branch { texts: Vec::new(), length: 0 }];
    for (index, text) in texts.iter().enumerate() {
        // Texts are sorted, so those that begin alike are neighbours.
        if let Some(last) = branches[1..].last_mut()
            && texts[last.texts[0]].starts_with(&text[..last.length.min(text.len())])
            && last.length <= text.len()
        {
            last.texts.push(index);
            continue;
        }
        match cache.find(decoding, text)? {
            Some((length, known)) => {
                decoding.join(&mut state, known)?;
                branches.push(Branch { texts: vec![index], length });
            }
            None => branches[0].texts.push(index),
        }
    }
    if branches[0].texts.is_empty() {
        branches.remove(0);
        let rows: Vec<usize> = (1..=branches.len()).collect();
        decoding.reorder(&mut state, &rows);
    }
    Ok((state, branches))
}

/// The branches of the next level, each with its parent: texts of one parent stay together up to the next length at which they
/// part, if they are equal so far.
fn divided(branches: &[Branch], texts: &[&[u32]], lengths: &[Vec<usize>]) -> Vec<(usize, Branch)> {
    let mut next: Vec<(usize, Branch)> = Vec::new();
    for (parent, branch) in branches.iter().enumerate() {
        let first = next.len();
        for &text in &branch.texts {
            let reached = texts[text].len();
            let length =
                lengths[text].iter().copied().find(|&length| length > branch.length).unwrap_or(reached);
            // Texts are sorted, so those that go on together are neighbours.
            match next[first..].last_mut() {
                Some((_, last))
                    if last.length == length && texts[last.texts[0]][..length] == texts[text][..length] =>
                {
                    last.texts.push(text);
                }
                _ => next.push((parent, Branch { texts: vec![text], length })),
            }
        }
    }
    next
}
