//! Validation pairs drawn from a corpus that has none: both parts are written to new files, the corpus is not changed.
//!
//! Validation must not contain training sentences: another pair with a held-out source goes to neither part.

use std::collections::{BinaryHeap, HashSet};
use std::path::PathBuf;

use polyhead_random::Random;
use polyhead_text::corpus::{Corpus, Pair};
use polyhead_text::output::Output;

use crate::{Error, Result};

/// Random stream that chooses pairs.
const STREAM: u64 = 0x484f_4c44;

/// Options of [`hold_out`].
#[derive(Debug, Clone)]
pub struct HoldOut {
    /// Pairs held out.
    pub count: u64,
    /// Random seed; default: 1.
    pub seed: u64,
    /// Source and target files of the training part.
    pub train: [PathBuf; 2],
    /// Source and target files of the validation part.
    pub valid: [PathBuf; 2],
}

/// Pairs in each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldOutCounts {
    /// Training pairs.
    pub train: u64,
    /// Validation pairs.
    pub valid: u64,
    /// Pairs left out because their source is held out.
    pub left_out: u64,
}

/// Default number of pairs to hold out of `pairs`: 1 %, at least 100, at most 2000; a fifth of very few.
pub fn default_hold_out(pairs: u64) -> u64 {
    (pairs / 100).clamp(100, 2000).min(pairs / 5)
}

/// Splits a corpus; pairs with an empty side go to neither part.
///
/// # Errors
/// If the corpus cannot be read, a file not written, or nothing is left to learn from.
pub fn hold_out(corpus: &Corpus, options: &HoldOut) -> Result<HoldOutCounts> {
    let chosen = chosen(corpus, options)?;
    let mut sources = HashSet::new();
    each(corpus, |number, pair| {
        if chosen.contains(&number) {
            sources.insert(pair.source.to_owned());
        }
        Ok(())
    })?;
    let [mut train, mut valid] = [open(&options.train)?, open(&options.valid)?];
    let mut split = HoldOutCounts { train: 0, valid: 0, left_out: 0 };
    each(corpus, |number, pair| {
        let (files, count) = if chosen.contains(&number) {
            (&mut valid, &mut split.valid)
        } else if sources.contains(pair.source) {
            split.left_out += 1;
            return Ok(());
        } else {
            (&mut train, &mut split.train)
        };
        *count += 1;
        for (file, text) in files.iter_mut().zip([pair.source, pair.target]) {
            // A text of a JSONL file may hold line ends.
            file.write_line(&text.replace(['\n', '\r'], " "))?;
        }
        Ok(())
    })?;
    if split.train == 0 {
        return Err(Error::config(
            "--hold-out",
            format!("{} pairs held out and none left, expected some to train on", split.valid),
            "hold out fewer, or name a validation set",
        ));
    }
    for file in train.into_iter().chain(valid) {
        file.finish()?;
    }
    Ok(split)
}

fn open(paths: &[PathBuf; 2]) -> Result<[Output; 2]> {
    Ok([Output::create(&paths[0])?, Output::create(&paths[1])?])
}

/// Indices of the pairs with the smallest random numbers.
fn chosen(corpus: &Corpus, options: &HoldOut) -> Result<HashSet<u64>> {
    let random = Random::new(options.seed).stream(STREAM);
    let mut smallest = BinaryHeap::new();
    each(corpus, |number, _| {
        smallest.push((random.u64(number), number));
        if smallest.len() as u64 > options.count {
            smallest.pop();
        }
        Ok(())
    })?;
    Ok(smallest.into_iter().map(|(_, number)| number).collect())
}

/// Calls `act` with every pair that has text on both sides, and its index.
fn each(corpus: &Corpus, mut act: impl FnMut(u64, Pair<'_>) -> Result<()>) -> Result<()> {
    let (mut pairs, mut number) = (corpus.pairs()?, 0);
    while let Some(pair) = pairs.next_pair()? {
        if !pair.source.trim().is_empty() && !pair.target.trim().is_empty() {
            act(number, pair)?;
            number += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_text::lines::Lines;

    #[test]
    fn the_parts_are_disjoint_and_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.tsv");
        let text: String = (0..500).map(|n| format!("s{}\tt{n}\n", n / 2)).collect();
        std::fs::write(&path, text + "\tempty\n").unwrap();
        let corpus = Corpus::Tsv { path, source_column: 0, target_column: 1 };
        let file = |name: &str| folder.path().join(name);
        let options = HoldOut {
            count: 40,
            seed: 1,
            train: [file("t.s.gz"), file("t.t.gz")],
            valid: [file("v.s"), file("v.t")],
        };
        let split = hold_out(&corpus, &options).unwrap();
        let read = |path: &PathBuf| Lines::read_all(path).unwrap();
        let [sources, targets] = options.train.each_ref().map(read);
        let [valid_sources, valid_targets] = options.valid.each_ref().map(read);
        assert_eq!((split.valid, split.train + split.valid + split.left_out), (40, 500));
        assert_eq!((sources.len() as u64, valid_targets.len()), (split.train, 40));
        assert!(split.left_out > 20 && !sources.iter().any(|source| valid_sources.contains(source)));
        let all = sources.iter().zip(&targets).chain(valid_sources.iter().zip(&valid_targets));
        for (source, target) in all {
            assert_eq!(source[1..].parse::<u32>().unwrap(), target[1..].parse::<u32>().unwrap() / 2);
        }
        let other = HoldOut { seed: 2, ..options.clone() };
        hold_out(&corpus, &other).unwrap();
        assert_ne!(valid_targets, read(&other.valid[1]), "another seed chooses different pairs");
        let all = HoldOut { count: 500, ..options };
        let error = hold_out(&corpus, &all).unwrap_err().to_string();
        assert!(error.contains("500 pairs held out and none left"), "{error}");
    }

    #[test]
    fn default_numbers() {
        let numbers = [4, 50, 5000, 50_000, 5_000_000].map(default_hold_out);
        assert_eq!(numbers, [0, 10, 100, 500, 2000]);
    }
}
