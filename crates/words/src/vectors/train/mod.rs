//! Training of skip-gram and CBOW vectors (Mikolov et al. 2013, *Efficient estimation of word representations in vector space*),
//! on any number of threads with the same bits.
//!
//! The corpus is cut into batches of a fixed number of words, and batches into rounds. In a round, threads first compute the
//! gradients of its batches against the tables as they are; then each thread adds all gradients to its own share of the rows, in
//! the order of the batches. So no result depends on which thread does what. word2vec and gensim let threads overwrite each
//! other instead. A round is short, so that frequent words, which every batch changes, are not moved too far at once.

mod batch;
mod crew;
mod kernel;
mod step;
mod table;

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use polyhead_random::Random;

use super::corpus::Corpus;
use super::huffman::Huffman;
use super::options::{Architecture, Loss, TrainOptions};
use super::sampling::{AliasTable, keep_thresholds};
use super::{Subwords, WordVectors, subword};
use crate::Result;
use batch::Source;
pub use batch::window;
use kernel::ROWS;
pub(crate) use kernel::dot_lanes;
use step::{Gradients, Place, Scratch, Sharing};
pub(crate) use table::{Lane, Table, WIDTH, lanes_of};

/// Random numbers of the initial vectors.
const INIT: u64 = 0x1417;
/// Fewest and most negative samples of skip-gram, which a batch shares. More cost time; fewer cost accuracy.
const SHARED_BY_SKIP_GRAM: [usize; 2] = [2 * WIDTH, 8 * WIDTH];
/// Numbers in the rows of these samples: 56 KiB, which stay in the cache of a core.
const SHARED_NUMBERS: usize = 14 << 10;
/// Negative samples of CBOW, which few rows share: a sample that moves by the sum over a batch costs accuracy on analogies.
const SHARED_BY_CBOW: Sharing = Sharing { samples: WIDTH, rows: 2 * ROWS };

/// Sizes of a batch and a round.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Words of the text in a batch.
    batch: usize,
    /// Batches in a round.
    batches: usize,
}

impl Cut {
    /// Most words of the text in a round, and in a batch.
    const MAX_ROUND: usize = 512;
    const MAX_BATCH: usize = 128;
    /// Occurrences of the most frequent word in a round, at the default learning rate, window and number of negative samples.
    /// Its row moves by all of them at once: with many more, the vectors of small vocabularies grow without bound.
    const MAX_REPEATS: f64 = 7.0;
    /// Words of a round with the hierarchical softmax, whose root every word changes.
    const TREE_ROUND: f64 = 64.0;

    /// The cut for words that are kept with thresholds `keep`.
    fn new(model: &Model, counts: &[u64], keep: &[u32], options: &TrainOptions) -> Self {
        let defaults = TrainOptions::default();
        let kept: Vec<f64> = counts.iter().zip(keep).map(|(&n, &keep)| n as f64 * f64::from(keep)).collect();
        let share = |values: &[f64]| values.iter().copied().fold(0.0, f64::max) / values.iter().sum::<f64>();
        let most = model.largest_share(&kept).max(share(&negative_weights(counts)));
        let slower = f64::from(defaults.rate / options.rate) * defaults.window as f64 / options.window as f64;
        let round = match options.loss {
            Loss::NegativeSampling(n) => Self::MAX_REPEATS / most * slower * 6.0 / (n as f64 + 1.0),
            Loss::HierarchicalSoftmax => Self::TREE_ROUND * slower,
        };
        let round = (round as usize).clamp(8, Self::MAX_ROUND);
        // Large batches make the most of shared samples; four are enough for a few threads.
        let batch = (round / 4 / 8 * 8).clamp(8, Self::MAX_BATCH);
        Self { batch, batches: (round / batch).max(1) }
    }
}

/// How far training is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Words of the vocabulary read, over all epochs.
    pub words: u64,
    /// Words that will be read.
    pub of: u64,
    /// Learning rate.
    pub rate: f32,
}

/// The output side of a model.
#[derive(Debug)]
enum Outputs {
    /// A row for each word, and negative samples.
    Words { sampler: AliasTable, sharing: Sharing, n_negative: usize },
    /// A row for each inner node of a Huffman tree.
    Nodes(Huffman),
}

/// The tables, and what they are trained towards.
#[derive(Debug)]
struct Model {
    input: Table,
    output: Table,
    outputs: Outputs,
    architecture: Architecture,
    /// For each word the rows of its n-grams, after those of the words.
    subwords: Option<Vec<Box<[u32]>>>,
}

impl Model {
    fn new(corpus: &Corpus, options: &TrainOptions) -> Self {
        let vocabulary = corpus.vocabulary();
        let n_words = vocabulary.len();
        let lanes = lanes_of(options.dimensions);
        let outputs = match options.loss {
            Loss::NegativeSampling(n_negative) => {
                let shared = match options.architecture {
                    Architecture::SkipGram => {
                        let [fewest, most] = SHARED_BY_SKIP_GRAM;
                        let samples = SHARED_NUMBERS / (lanes * WIDTH) / WIDTH * WIDTH;
                        Sharing { samples: samples.clamp(fewest, most), rows: usize::MAX }
                    }
                    Architecture::Cbow => SHARED_BY_CBOW,
                };
                let samples = shared.samples.max(n_negative.next_multiple_of(WIDTH));
                let sampler = AliasTable::new(&negative_weights(vocabulary.counts()));
                Outputs::Words { sampler, sharing: Sharing { samples, ..shared }, n_negative }
            }
            Loss::HierarchicalSoftmax => Outputs::Nodes(Huffman::new(vocabulary.counts())),
        };
        let n_outputs = match &outputs {
            Outputs::Words { .. } => n_words,
            Outputs::Nodes(tree) => tree.n_nodes(),
        };
        let subwords = options.subwords.as_ref().map(|options| {
            let rows = |word: &String| {
                let mut rows = Vec::new();
                subword::buckets(word, options, |bucket| rows.push(n_words as u32 + bucket));
                rows.into_boxed_slice()
            };
            vocabulary.words().iter().map(rows).collect()
        });
        let n_inputs = n_words + options.subwords.as_ref().map_or(0, |subwords| subwords.buckets);
        let mut input = Table::zeros(n_inputs, lanes);
        for row in 0..n_inputs {
            let random = Random::new(options.seed).stream_pair(INIT, row as u64);
            let numbers = input.own_row_mut(row).iter_mut().flat_map(|lane| &mut lane.0);
            for (index, number) in numbers.take(options.dimensions).enumerate() {
                *number = (random.uniform(index as u64) as f32 - 0.5) / options.dimensions as f32;
            }
        }
        Self {
            input,
            output: Table::zeros(n_outputs, lanes),
            outputs,
            architecture: options.architecture,
            subwords,
        }
    }

    /// The largest share of occurrences that change the vector of one word, of occurrences `kept`: those of the word, or, where
    /// n-grams are shared, the mean over its rows.
    fn largest_share(&self, kept: &[f64]) -> f64 {
        let mut rows = vec![0.0; self.input.len()];
        for (word, kept) in kept.iter().enumerate() {
            self.for_each_input_row(word as u32, |row| rows[row as usize] += kept);
        }
        let mean = |word: usize| {
            let (mut sum, mut n) = (0.0, 0.0);
            self.for_each_input_row(word as u32, |row| {
                sum += rows[row as usize];
                n += 1.0;
            });
            sum / n
        };
        (0..kept.len()).map(mean).fold(0.0, f64::max) / kept.iter().sum::<f64>()
    }

    /// Passes the rows of the input table whose mean is the vector of `word`.
    fn for_each_input_row(&self, word: u32, mut take: impl FnMut(u32)) {
        take(word);
        if let Some(subwords) = &self.subwords {
            subwords[word as usize].iter().copied().for_each(take);
        }
    }
}

/// Counts to the power of 3/4, by roots: powers differ in the last bit between systems.
fn negative_weights(counts: &[u64]) -> Vec<f64> {
    counts.iter().map(|&count| (count as f64).sqrt() * (count as f64).sqrt().sqrt()).collect()
}

/// Trains vectors of the words of `corpus`. `progress` is called now and then; training stops early if it returns false.
///
/// # Errors
/// If the options are invalid.
pub fn train(
    corpus: &Corpus,
    options: &TrainOptions,
    progress: &(dyn Fn(Progress) -> bool + Sync),
) -> Result<WordVectors> {
    options.check()?;
    let mut model = Model::new(corpus, options);
    run_rounds(&model, corpus, options, progress);
    let vocabulary = corpus.vocabulary().clone();
    let (n_words, dimensions) = (vocabulary.len(), options.dimensions);
    let mut words = model.input.numbers(0..n_words, dimensions);
    let Some(subwords) = &options.subwords else {
        return Ok(WordVectors::new(vocabulary, dimensions, words));
    };
    words.shrink_to_fit();
    let buckets = model.input.numbers(n_words..n_words + subwords.buckets, dimensions);
    drop(std::mem::replace(&mut model.input, Table::zeros(0, 1)));
    let n_outputs = model.output.len();
    let mut outputs = model.output.numbers(0..n_outputs, dimensions);
    // fastText has an output row for each word also where its tree has one node less.
    outputs.resize(n_words * dimensions, 0.0);
    let subwords = Subwords { options: subwords.clone(), words, buckets, outputs };
    Ok(WordVectors::with_subwords(vocabulary, dimensions, subwords))
}

/// Runs all rounds of all epochs.
fn run_rounds(
    model: &Model,
    corpus: &Corpus,
    options: &TrainOptions,
    progress: &(dyn Fn(Progress) -> bool + Sync),
) {
    let ids = corpus.ids();
    let keep = keep_thresholds(corpus.vocabulary().counts(), options.sample);
    let source = Source { ids, keep: &keep, window: options.window, seed: options.seed };
    let counts = corpus.vocabulary().counts();
    let cut = Cut::new(model, counts, &keep, options);
    let per_round = cut.batch * cut.batches;
    let rounds_per_epoch = ids.len().div_ceil(per_round);
    let gradients: Vec<RwLock<Gradients>> = (0..cut.batches).map(|_| RwLock::default()).collect();
    // Two counters take turns, so that one can be reset while nobody uses it.
    let next = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let stopped = AtomicBool::new(false);
    let total = (ids.len() * options.epochs) as u64;
    let threads = options.threads.clamp(1, cut.batches);
    crew::run(threads, |thread, barrier| {
        let mut scratch = Scratch::default();
        for round in 0..rounds_per_epoch * options.epochs {
            let (epoch, start) = (round / rounds_per_epoch, round % rounds_per_epoch * per_round);
            let done = (epoch * ids.len() + start) as u64;
            let share = done as f32 / total as f32;
            let rate = options.rate + (TrainOptions::MIN_RATE.min(options.rate) - options.rate) * share;
            loop {
                let batch = next[round % 2].fetch_add(1, Ordering::Relaxed);
                if batch >= cut.batches {
                    break;
                }
                let start = start + batch * cut.batch;
                let place = Place { epoch: epoch as u64, start, end: start + cut.batch, rate };
                let mut found = gradients[batch].write().expect("no thread panics while it holds a lock");
                if start < ids.len() {
                    // SAFETY: tables change only after the barrier below.
                    unsafe { step::compute(model, &source, place, &mut scratch, &mut found) };
                } else {
                    found.input_changes.clear();
                    found.output_changes.clear();
                }
            }
            barrier.wait();
            for found in &gradients {
                let found = found.read().expect("no thread panics while it holds a lock");
                kernel::apply(&model.input, &found.input_changes, &found.input, (thread, threads));
                kernel::apply(&model.output, &found.output_changes, &found.output, (thread, threads));
            }
            if thread == 0 {
                next[round % 2].store(0, Ordering::Relaxed);
                if round % 256 == 0 && !progress(Progress { words: done, of: total, rate }) {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
            barrier.wait();
            if stopped.load(Ordering::Relaxed) {
                break;
            }
        }
    });
}
