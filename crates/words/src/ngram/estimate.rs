//! Modified Kneser–Ney smoothing, interpolated (Chen & Goodman 1998; Heafield et al. 2013).
//!
//! a(w₁…wₙ) is the count of an n-gram of the highest order and of one that begins a sentence; for the others it is the
//! number of distinct words before it. With D₁, D₂, D₃₊ for a = 1, 2, ≥ 3:
//!
//! p(w | c) = (a(c w) − D(a)) / Σ a(c ·) + γ(c)·p(w | c′),  γ(c) = Σ D(a(c ·)) / Σ a(c ·),  c′ = c without its first word,
//! D_k = k − (k+1)·Y·n_{k+1}/n_k,  Y = n₁/(n₁ + 2n₂), from the numbers n_k of n-grams with a = k.
//!
//! Unigrams are interpolated with the uniform distribution over all words, `<unk>` included. A pruned n-gram gives its whole
//! count to γ.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::count::{self, CountOptions, Progress, TextUnit};
use super::model::{Entry, NgramModel};
use super::vocabulary::Words;
use super::{BEGIN, MAX_ORDER, UNKNOWN};
use crate::{Error, Result};

/// Log₁₀ of a probability of zero, as other programs write it.
const ZERO: f32 = -99.0;

/// Options of training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// Length of the longest n-grams; default: 3.
    pub order: usize,
    /// Unit that is predicted; default: words.
    pub unit: TextUnit,
    /// For each order from 1, the largest count of n-grams to remove; the last applies to all further orders. Default: none.
    pub prune: Vec<u64>,
    /// D₁, D₂ and D₃₊ of an order whose counts of counts give no valid ones; default: 0.5, 1, 1.5.
    pub fallback: [f64; 3],
    /// Bytes of memory for counting; more is written to disk; default: 1 GiB.
    pub memory: usize,
    /// Folder of temporary files; default: the system's.
    pub temporary: PathBuf,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            order: 3,
            unit: TextUnit::Word,
            prune: Vec::new(),
            fallback: [0.5, 1.0, 1.5],
            memory: 1 << 30,
            temporary: std::env::temp_dir(),
        }
    }
}

/// The discounts of one order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Discounts {
    /// D₁, D₂ and D₃₊.
    pub amounts: [f64; 3],
    /// True if they are the fallback, as the counts of counts give no valid ones.
    pub is_fallback: bool,
}

/// A trained model and its discounts, from order 1.
#[derive(Debug, Clone)]
pub struct Estimated {
    /// The model.
    pub model: NgramModel,
    /// The discounts of each order.
    pub discounts: Vec<Discounts>,
}

/// Trains a model on the lines of text files.
///
/// ```
/// use polyhead_words::ngram::{TrainOptions, train};
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("a.txt");
/// std::fs::write(&path, "a b a c\na b b c\na b a d\n")?;
/// let model = train(&[path], &TrainOptions::default(), &mut |_| {})?.model;
/// assert!(model.score_line("a b a").log10 > model.score_line("d c b").log10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If an option is out of range, or a text is empty, cannot be read or contains a reserved word.
pub fn train(
    texts: &[PathBuf],
    options: &TrainOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Estimated> {
    let thresholds = options.thresholds()?;
    let mut words = Words::new();
    let mut trie = Trie::new(options.order);
    let TrainOptions { unit, memory, .. } = *options;
    let counting = CountOptions { texts, unit, memory, folder: Path::new(&options.temporary) };
    let mut each = |record: &[u32], count: u64| trie.add(record, count);
    macro_rules! by_order {
        ($($order:literal)*) => {
            match options.order {
                $($order => count::count::<$order>(&counting, &mut words, progress, &mut each)?,)*
                _ => unreachable!("the order was checked"),
            }
        };
    }
    by_order!(1 2 3 4 5 6 7 8 9 10);
    progress(Progress::Estimating { ngrams: trie.levels.iter().map(|level| level.words.len() as u64).sum() });
    trie.finish();
    let discounts: Vec<Discounts> =
        trie.levels.iter().map(|level| level.discounts(options.fallback)).collect();
    let levels = estimate(trie, &thresholds, &discounts);
    Ok(Estimated { model: NgramModel::new(words, levels, unit), discounts })
}

impl TrainOptions {
    /// The pruning threshold of each order.
    fn thresholds(&self) -> Result<Vec<u64>> {
        if !(1..=MAX_ORDER).contains(&self.order) {
            return Err(Error::request(
                format!("order {}, expected 1 to {MAX_ORDER}", self.order),
                "3 is usual for words, 6 for characters",
            ));
        }
        let wrong = |message: String| {
            Err(Error::request(message, "for instance 0,0,1: no n-gram of order 3 or more that occurs once"))
        };
        if self.prune.len() > self.order {
            return wrong(format!("{} pruning thresholds for order {}", self.prune.len(), self.order));
        }
        if self.prune.first().is_some_and(|first| *first > 0) {
            return wrong("a pruning threshold for single words, expected 0".into());
        }
        if !self.prune.is_sorted() {
            return wrong(format!("pruning thresholds {:?}, expected none below the one before", self.prune));
        }
        if let Some(amount) =
            self.fallback.iter().zip([1.0, 2.0, 3.0]).find(|(own, most)| !(0.0..=*most).contains(*own))
        {
            return Err(Error::request(
                format!("a fallback discount of {}, expected 0 to {}", amount.0, amount.1),
                "the usual ones are 0.5,1,1.5",
            ));
        }
        let last = self.prune.last().copied().unwrap_or(0);
        Ok((0..self.order).map(|at| self.prune.get(at).copied().unwrap_or(last)).collect())
    }
}

/// Counted n-grams as a trie over reversed n-grams: a level for each order, in the order of the records.
struct Trie {
    levels: Vec<Level>,
    last: Vec<u32>,
}

#[derive(Default)]
struct Level {
    /// The first word of each n-gram.
    words: Vec<u32>,
    /// First child of each node in the next level, and the end of the last node's.
    begins: Vec<u32>,
    /// The adjusted count a.
    counts: Vec<u32>,
    /// The number of occurrences.
    raw: Vec<u32>,
}

impl Trie {
    fn new(order: usize) -> Self {
        let mut levels: Vec<Level> = std::iter::repeat_with(Level::default).take(order).collect();
        // `<unk>` and `<s>` are never counted; with them, a node of the first level is at the index of its word.
        levels[0] =
            Level { words: vec![UNKNOWN, BEGIN], begins: vec![0, 0], counts: vec![0; 2], raw: vec![0; 2] };
        Self { levels, last: vec![0; order] }
    }

    /// Adds a record; records come in ascending order.
    fn add(&mut self, record: &[u32], count: u64) {
        let order = record.len();
        let length = record.iter().position(|id| *id == 0).unwrap_or(order);
        let common =
            record.iter().zip(&self.last).take_while(|(own, last)| own == last && **own != 0).count();
        for depth in common..length {
            let begin = self.levels.get(depth + 1).map_or(0, |next| next.words.len() as u32);
            let level = &mut self.levels[depth];
            level.words.push(record[depth] - 1);
            level.begins.push(begin);
            level.counts.push(0);
            level.raw.push(0);
            if let Some(count) = depth.checked_sub(1).and_then(|above| self.levels[above].counts.last_mut()) {
                *count += 1;
            }
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        for level in &mut self.levels[..length] {
            if let Some(raw) = level.raw.last_mut() {
                *raw = raw.saturating_add(count);
            }
        }
        // The highest order, or the beginning of a sentence: the count itself.
        if let Some(own) = self.levels[length - 1].counts.last_mut() {
            *own = count;
        }
        self.last.copy_from_slice(record);
    }

    fn finish(&mut self) {
        for depth in 0..self.levels.len() {
            let end = self.levels.get(depth + 1).map_or(0, |next| next.words.len() as u32);
            self.levels[depth].begins.push(end);
        }
    }
}

impl Level {
    fn children(&self, node: usize) -> std::ops::Range<usize> {
        self.begins[node] as usize..self.begins[node + 1] as usize
    }

    /// The discounts of this order.
    fn discounts(&self, fallback: [f64; 3]) -> Discounts {
        let mut n = [0_u64; 5];
        self.counts.iter().filter(|count| (1..=4).contains(*count)).for_each(|count| n[*count as usize] += 1);
        let y = n[1] as f64 / (n[1] + 2 * n[2]) as f64;
        let amounts = [1, 2, 3].map(|k| k as f64 - (k + 1) as f64 * y * n[k + 1] as f64 / n[k] as f64);
        let is_valid = (1..=3).all(|k| n[k] > 0 && (0.0..=k as f64).contains(&amounts[k - 1]));
        if is_valid {
            Discounts { amounts, is_fallback: false }
        } else {
            Discounts { amounts: fallback, is_fallback: true }
        }
    }
}

/// The counts after one context.
#[derive(Debug, Clone, Copy, Default)]
struct ContextCounts {
    /// Σ a, pruned n-grams included.
    sum: u64,
    /// Σ a of pruned n-grams.
    pruned: u64,
    /// Numbers of n-grams that are not pruned with a = 1, 2, ≥ 3.
    n: [u32; 3],
}

impl ContextCounts {
    fn add(&mut self, count: u32, is_pruned: bool) {
        self.sum += u64::from(count);
        if is_pruned {
            self.pruned += u64::from(count);
        } else if count > 0 {
            self.n[count.min(3) as usize - 1] += 1;
        }
    }

    /// γ; 1 without any count.
    fn gamma(&self, discounts: &Discounts) -> f64 {
        if self.sum == 0 {
            return 1.0;
        }
        let freed: f64 = self.n.iter().zip(discounts.amounts).map(|(n, amount)| f64::from(*n) * amount).sum();
        (freed + self.pruned as f64) / self.sum as f64
    }
}

/// The probability of one n-gram after its context, without that of the lower order.
fn discounted(count: u32, context: &ContextCounts, discounts: &Discounts) -> f64 {
    if count == 0 {
        return 0.0;
    }
    (f64::from(count) - discounts.amounts[count.min(3) as usize - 1]) / context.sum as f64
}

/// The levels of the model.
fn estimate(mut trie: Trie, thresholds: &[u64], discounts: &[Discounts]) -> Vec<Vec<Entry>> {
    let order = trie.levels.len();
    let is_kept = |level: &Level, depth: usize, node: usize| {
        depth == 0 || u64::from(level.raw[node]) > thresholds[depth]
    };
    let mut all = ContextCounts::default();
    trie.levels[0].counts.iter().for_each(|count| all.add(*count, false));
    let uniform = all.gamma(&discounts[0]) / (trie.levels[0].words.len() - 1) as f64;
    let mut probabilities: Vec<f64> =
        trie.levels[0].counts.iter().map(|count| discounted(*count, &all, &discounts[0]) + uniform).collect();
    let mut contexts: Vec<u32> = Vec::new();
    let mut nodes: Vec<Vec<Entry>> = Vec::with_capacity(order);
    for depth in 0..order {
        // The contexts of the next level are nodes of this one.
        let mut backoffs = vec![ContextCounts::default(); trie.levels[depth].words.len()];
        let mut next_contexts = Vec::new();
        if depth + 1 < order {
            next_contexts = contexts_below(&trie, depth, &contexts);
            let next = &trie.levels[depth + 1];
            for (node, &context) in next_contexts.iter().enumerate() {
                let is_pruned = !is_kept(next, depth + 1, node);
                backoffs[context as usize].add(next.counts[node], is_pruned);
            }
        }
        let level = &trie.levels[depth];
        nodes.push(level_nodes(level, &probabilities, &backoffs, discounts.get(depth + 1)));
        if depth + 1 == order {
            break;
        }
        let (next, own) = (&trie.levels[depth + 1], &discounts[depth + 1]);
        let mut below = vec![0.0; next.words.len()];
        for (parent, &lower) in probabilities.iter().enumerate() {
            for node in level.children(parent) {
                let context = &backoffs[next_contexts[node] as usize];
                below[node] = discounted(next.counts[node], context, own) + context.gamma(own) * lower;
            }
        }
        (probabilities, contexts) = (below, next_contexts);
        // Counts above are not needed any more, except the first level's words.
        trie.levels[depth].counts = Vec::new();
    }
    if thresholds.iter().any(|threshold| *threshold > 0) {
        prune(&mut nodes, |depth, node| is_kept(&trie.levels[depth], depth, node));
    }
    nodes
}

/// The nodes of one level with log₁₀ probabilities and back-offs.
fn level_nodes(
    level: &Level,
    probabilities: &[f64],
    backoffs: &[ContextCounts],
    discounts: Option<&Discounts>,
) -> Vec<Entry> {
    let is_first = level.words.get(BEGIN as usize) == Some(&BEGIN) && level.words.first() == Some(&UNKNOWN);
    let node = |(index, &word): (usize, &u32)| {
        let begins = is_first && index == BEGIN as usize;
        let prob = if begins { ZERO } else { probabilities[index].log10() as f32 };
        let backoff = discounts.map_or(0.0, |discounts| backoffs[index].gamma(discounts).log10() as f32);
        Entry { word, prob, backoff, begin: level.begins[index] }
    };
    let end = Entry { begin: level.begins.last().copied().unwrap_or(0), ..Entry::default() };
    let mut nodes: Vec<Entry> = level.words.par_iter().enumerate().map(node).collect();
    nodes.push(end);
    nodes
}

/// The context of every node of the level below `depth`, as a node of the level `depth`.
///
/// A node (wₙ, wₙ₋₁ … w₁) has the context (wₙ₋₁ … w₁), which is the child w₁ of its parent's context.
fn contexts_below(trie: &Trie, depth: usize, contexts: &[u32]) -> Vec<u32> {
    let (above, level) = (&trie.levels[depth], &trie.levels[depth + 1]);
    if depth == 0 {
        return level.words.clone();
    }
    let of_parent = |parent: usize| {
        let siblings = trie.levels[depth - 1].children(contexts[parent] as usize);
        let mut rest = &above.words[siblings.clone()];
        let mut first = siblings.start;
        above.children(parent).map(move |node| {
            // Both lists ascend, so the search goes on where it ended.
            let found = rest.partition_point(|word| *word < level.words[node]);
            first += found;
            rest = &rest[found..];
            first as u32
        })
    };
    (0..above.words.len()).into_par_iter().flat_map_iter(of_parent).collect()
}

/// Removes nodes; the children of a removed node are removed too.
fn prune(levels: &mut [Vec<Entry>], is_kept: impl Fn(usize, usize) -> bool) {
    for depth in 1..levels.len() {
        let (above, own) = levels.split_at_mut(depth);
        let (above, own) = (&mut above[depth - 1], &mut own[0]);
        let last = own.len() - 1;
        let mut moved = Vec::with_capacity(own.len());
        let mut kept = 0_u32;
        for node in 0..last {
            moved.push(kept);
            kept += u32::from(is_kept(depth, node));
        }
        moved.push(kept);
        let mut index = 0;
        own.retain(|_| {
            index += 1;
            index > last || is_kept(depth, index - 1)
        });
        for node in above.iter_mut() {
            node.begin = moved[node.begin as usize];
        }
    }
}
