//! Sentence pairs as ids, and the batches of every epoch.
//!
//! The batches of epoch e are a pure function of (text, config, e): a resumed run needs only its position. With BPE-dropout or
//! augmentation every epoch tokenises the text again, with random numbers that depend on the seed, the epoch and the pair.

use std::collections::HashSet;
use std::sync::Arc;

use polyhead_models::Ids;
use polyhead_random::Random;
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};
use polyhead_text::tokenizer::BpeDropout;
use rayon::prelude::*;

use super::augment::augment;
use super::sentences::Sentences;
use crate::config::AugmentConfig;
use crate::event::SkippedRows;
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Random stream of tokenisation, apart from that of batches.
const TOKENIZE_STREAM: u64 = 0x5045_5054;

/// Options of a dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DatasetOptions {
    /// Maximum number of tokens per side, end token included; default: 256.
    pub max_length: usize,
    /// BPE-dropout: probability of skipping a merge, drawn again in every epoch; default: 0.
    pub dropout: f64,
    /// Augmentation, drawn again in every epoch; default: none.
    pub augment: AugmentConfig,
    /// Random seed; default: 1.
    pub seed: u64,
}

impl DatasetOptions {
    /// True if every epoch tokenises the text again.
    fn resamples_each_epoch(&self) -> bool {
        self.dropout > 0.0 || self.augment != AugmentConfig::default()
    }
}

impl Default for DatasetOptions {
    fn default() -> Self {
        Self { max_length: 256, dropout: 0.0, augment: AugmentConfig::default(), seed: 1 }
    }
}

/// EncodedPairs pairs.
#[derive(Debug)]
pub struct Dataset {
    pairs: Arc<EncodedPairs>,
    /// The texts, if every epoch tokenises them again; else empty.
    texts: Vec<PairText>,
    vocabulary: Vocabulary,
    options: DatasetOptions,
    skipped: SkippedRows,
}

/// A pair before tokenisation.
#[derive(Debug, Clone)]
struct PairText {
    sides: [Arc<str>; 2],
    /// Id of the language tag before the source.
    tag: Option<u32>,
}

/// Pairs as ids.
#[derive(Debug, Default)]
pub(crate) struct EncodedPairs {
    pub(crate) source: Sentences,
    pub(crate) target: Sentences,
    pub(crate) lengths: Vec<PairLengths>,
}

impl EncodedPairs {
    fn push(&mut self, [source, target]: &[Vec<u32>; 2], (end_id, n_sources): (u32, usize)) {
        self.source.push(source, end_id);
        self.target.push(target, end_id);
        let length = |ids: &[u32]| ids.len() as u32 + 1;
        // The sources of a batch are padded to one length.
        let longest = source.split(|id| n_sources > 1 && *id == end_id).map(length).max();
        let source = n_sources as u32 * longest.unwrap_or(1);
        self.lengths.push(PairLengths { source, target: length(target) });
    }

    /// Appends the pair at `index` once more.
    fn push_again(&mut self, index: usize) {
        self.source.push_again(index);
        self.target.push_again(index);
        self.lengths.push(self.lengths[index]);
    }

    /// Appends a pair of other pairs.
    fn push_from(&mut self, others: &Self, index: usize) {
        self.source.push_from(&others.source, index);
        self.target.push_from(&others.target, index);
        self.lengths.push(others.lengths[index]);
    }
}

/// Pairs encoded in parallel.
const CHUNK: usize = 1 << 14;

impl Dataset {
    /// Reads and encodes corpora in order.
    ///
    /// # Errors
    /// If a corpus cannot be read, or has no usable pair.
    pub fn read(corpora: &[RunCorpus], vocabulary: &Vocabulary, options: DatasetOptions) -> Result<Self> {
        let mut dataset = Self {
            pairs: Arc::default(),
            texts: Vec::new(),
            vocabulary: vocabulary.clone(),
            options,
            skipped: SkippedRows::default(),
        };
        let mut encoded = EncodedPairs::default();
        for (number, run_corpus) in corpora.iter().enumerate() {
            let tag = run_corpus.tag().map(|tag| vocabulary.tag_id(&tag)).transpose()?;
            let (first, before) = (encoded.lengths.len(), dataset.skipped.clone());
            let mut pairs = run_corpus.corpus.pairs()?;
            let mut chunk: Vec<(u64, PairText)> = Vec::new();
            while let Some(pair) = pairs.next_pair()? {
                let sides = [Arc::from(pair.source), Arc::from(pair.target)];
                chunk.push((pair.line, PairText { sides, tag }));
                if chunk.len() == CHUNK {
                    dataset.encode_chunk(number, std::mem::take(&mut chunk), &mut encoded)?;
                }
            }
            dataset.encode_chunk(number, chunk, &mut encoded)?;
            dataset.repeat(first, &before, run_corpus.repeat, &mut encoded);
        }
        if encoded.lengths.is_empty() {
            let SkippedRows { empty, too_long, .. } = dataset.skipped;
            return Err(Error::config(
                RunCorpus::names(corpora),
                format!("no usable pair ({empty} with an empty side, {too_long} too long)"),
                "run polyhead data check; data.max_length, train.max_tokens and model.max_len limit the tokens of a side",
            ));
        }
        dataset.pairs = Arc::new(encoded);
        Ok(dataset)
    }

    fn encode_chunk(
        &mut self,
        corpus: usize,
        chunk: Vec<(u64, PairText)>,
        encoded: &mut EncodedPairs,
    ) -> Result<()> {
        let ids = chunk
            .par_iter()
            .map(|(_, PairText { sides: [source, target], tag })| {
                self.vocabulary.encode([source, target], *tag)
            })
            .collect::<Result<Vec<_>>>()?;
        let [_, end_id] = self.vocabulary.special_ids();
        for ((line, text), ids) in chunk.into_iter().zip(ids) {
            let longest = ids.iter().map(Vec::len).max().unwrap_or(0) + 1;
            // Of several sources one may be missing.
            let is_empty = ids[0].iter().skip(usize::from(text.tag.is_some())).all(|id| *id == end_id);
            if is_empty || ids[1].is_empty() {
                self.skipped.empty += 1;
            } else if longest > self.options.max_length {
                self.skipped.too_long += 1;
                self.skipped.first_too_long.get_or_insert((corpus, line, longest));
            } else {
                encoded.push(&ids, (end_id, self.vocabulary.n_sources()));
                if self.options.resamples_each_epoch() {
                    self.texts.push(text);
                }
            }
        }
        Ok(())
    }

    /// Repeats the pairs from index `first` on, and what was skipped since `before`, until they are there `times` times.
    fn repeat(&mut self, first: usize, before: &SkippedRows, times: usize, encoded: &mut EncodedPairs) {
        let more = times.saturating_sub(1);
        self.skipped.empty += more * (self.skipped.empty - before.empty);
        self.skipped.too_long += more * (self.skipped.too_long - before.too_long);
        let end = encoded.lengths.len();
        for _ in 0..more {
            for index in first..end {
                encoded.push_again(index);
            }
            if self.options.resamples_each_epoch() {
                self.texts.extend_from_within(first..end);
            }
        }
    }

    /// Tokens of the longest target.
    pub fn longest_target(&self) -> usize {
        self.pairs.lengths.iter().map(|pair| pair.target as usize).max().unwrap_or(0)
    }

    /// The pairs of one epoch, augmented and with BPE-dropout; a pair that would get too long stays unchanged.
    fn encode_epoch(&self, epoch: u64) -> Result<EncodedPairs> {
        let Self { options: DatasetOptions { max_length, dropout, augment: changes, seed }, .. } = *self;
        let numbers = Random::new(Random::new(seed ^ TOKENIZE_STREAM).stream(epoch).u64(0));
        let ids = self
            .texts
            .par_iter()
            .enumerate()
            .map(|(index, PairText { sides: [source, target], tag })| {
                let random = |purpose| numbers.stream_pair(index as u64, purpose);
                let sides = [source.as_ref(), target.as_ref()];
                let changed = augment(sides, changes, random(2));
                if changed.is_none() && dropout == 0.0 {
                    return Ok(None);
                }
                let seen = changed.as_ref().map_or(sides, |[source, target]| [source, target]);
                let ids = if dropout > 0.0 {
                    let dropouts =
                        [0, 1].map(|side| BpeDropout { probability: dropout, random: random(side) });
                    self.vocabulary.encode_with_dropout(seen, *tag, dropouts)?
                } else {
                    self.vocabulary.encode(seen, *tag)?
                };
                let fits = ids.iter().all(|ids| ids.len() < max_length);
                Ok(fits.then_some(ids))
            })
            .collect::<Result<Vec<_>>>()?;
        let mut encoded = EncodedPairs::default();
        let [_, end_id] = self.vocabulary.special_ids();
        for (index, changed) in ids.iter().enumerate() {
            match changed {
                Some(ids) => encoded.push(ids, (end_id, self.vocabulary.n_sources())),
                None => encoded.push_from(&self.pairs, index),
            }
        }
        Ok(encoded)
    }
}

impl objective::Dataset for Dataset {
    type Batch = Batch;
    type Epoch = EpochData;

    fn len(&self) -> usize {
        self.pairs.lengths.len()
    }

    /// Number of source and target tokens, end tokens included.
    fn tokens(&self) -> [usize; 2] {
        [self.pairs.source.tokens(), self.pairs.target.tokens()]
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        !self.texts.is_empty()
    }

    fn epoch(&self, batches: BatchOptions, epoch: u64) -> Result<EpochData> {
        let pairs =
            if self.texts.is_empty() { self.pairs.clone() } else { Arc::new(self.encode_epoch(epoch)?) };
        let plan = Epoch::plan(&pairs.lengths, batches, epoch)?;
        let [pad_id, end_id] = self.vocabulary.special_ids();
        let sources = (self.vocabulary.n_sources(), end_id);
        Ok(EpochData { pairs, plan, pad_id, sources, known: self.vocabulary.known_ids() })
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub struct EpochData {
    pairs: Arc<EncodedPairs>,
    plan: Epoch,
    pad_id: u32,
    /// Number of texts in a source, and the token that ends each.
    sources: (usize, u32),
    /// Size of the vocabulary and id of words that it lacks, for a model that copies these.
    known: Option<(usize, u32)>,
}

/// A batch for teacher forcing.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Source ids, each row with its end token; a model that copies also has those of words that the vocabulary lacks, and those
    /// of a model of several sources are divided into them.
    pub source: Ids,
    /// Decoder input: the start token, then the target without its end token.
    pub target: Ids,
    /// Expected output: the target with its end token, then padding.
    pub expected: Indices,
    /// Tokens of `expected` without padding.
    pub tokens: usize,
}

impl objective::Batch for Batch {
    fn weight(&self) -> usize {
        self.tokens
    }

    fn lists(&self) -> Vec<&Indices> {
        let Self { source, target, expected, .. } = self;
        let extended = source.is_extended().then(|| source.extended());
        let all = [source.ids(), source.lengths(), target.ids(), target.lengths(), expected];
        all.into_iter().chain(extended).chain(source.source_lists()).collect()
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let (all, more) = lists.split_at(5);
        let [ids, lengths, target_ids, target_lengths, expected] = <[Indices; 5]>::try_from(all.to_vec())
            .expect("five lists, and more where words are copied or there are several sources");
        let source = self.source.with(ids, lengths);
        let source = match more.first() {
            Some(extended) if self.source.is_extended() => source.with_extended(extended.clone()),
            _ => source.with_source_lists(more),
        };
        let target = self.target.with(target_ids, target_lengths);
        Self { source, target, expected, tokens: self.tokens }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.source.rows(), self.source.length(), self.target.length()]
    }
}

impl EpochBatches for EpochData {
    type Batch = Batch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<Batch> {
        let indices = self.plan.batches_from(index).next()?;
        let [source, target] = [&self.pairs.source, &self.pairs.target].map(|side| {
            let rows = indices.iter().map(|&pair| Some(side.get(pair as usize)));
            rows.chain(std::iter::repeat(None)).take(rounding.rows(indices.len())).collect::<Vec<_>>()
        });
        let given: Vec<Option<Vec<u32>>> = target
            .iter()
            .map(|row| row.map(|ids| [&[self.pad_id], &ids[..ids.len() - 1]].concat()))
            .collect();
        let given: Vec<Option<&[u32]>> = given.iter().map(Option::as_deref).collect();
        let padded = |rows: &[Option<&[u32]>], length: usize| {
            Ids::padded_to((0..copies).flat_map(|_| rows.iter().copied()), length, self.pad_id)
        };
        let ids = |rows: &[Option<&[u32]>]| {
            let longest = rows.iter().flatten().map(|row| row.len()).max().unwrap_or(0);
            padded(rows, rounding.length(longest).max(1))
        };
        let tokens = target.iter().flatten().map(|ids| ids.len()).sum();
        let (expected, target) = (ids(&target).ids().clone(), ids(&given));
        let source = match self.sources {
            (1, _) => ids(&source),
            (n_sources, _) => {
                let longest = indices.iter().map(|&pair| self.pairs.lengths[pair as usize].source).max();
                let each = rounding.length(longest.unwrap_or(1) as usize).div_ceil(n_sources).max(1);
                padded(&source, n_sources * each).divided(self.sources, Some(each), self.pad_id)
            }
        };
        let known = |ids: Ids| match self.known {
            Some((vocab_size, unknown_id)) => ids.known(vocab_size, unknown_id),
            None => ids,
        };
        let (source, target) = (known(source), known(target));
        Some(Batch { source, target, expected, tokens })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let padded =
            self.sizes(rounding).map(|[rows, source, target]| (rows * (source + target)) as u64).sum();
        PaddingStats { padded, ..self.plan.padding() }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        let all = self.sizes(rounding);
        all.max_by_key(|[rows, source, target]| rows * (source + 4 * target)).unwrap_or([0; 3])
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}

impl EpochData {
    /// `[rows, source length, target length]` of all batches.
    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 3]> {
        self.plan.batches().map(move |batch| {
            let longest = |side: fn(&PairLengths) -> u32| {
                let lengths = batch.iter().map(|&pair| side(&self.pairs.lengths[pair as usize]));
                rounding.length(lengths.max().unwrap_or(0) as usize)
            };
            [rounding.rows(batch.len()), longest(|pair| pair.source), longest(|pair| pair.target)]
        })
    }
}

#[cfg(test)]
mod tests {
    use polyhead_attention::{Capture, Pass};
    use polyhead_models::{ModelConfig, SequenceToSequence};
    use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
    use polyhead_tensor::{Parameters, Tape};

    use super::*;

    const FEW: Rounding = Rounding::Few { max_length: 100 };

    /// Five pairs in one batch, ids 3 to 10.
    fn epoch() -> EpochData {
        let mut pairs = EncodedPairs::default();
        for pair in 0..5 {
            let ids = |length: u32| (0..length).map(|at| 3 + (pair * 5 + at) % 8).collect::<Vec<u32>>();
            pairs.push(&[ids(1 + pair), ids(6 - pair)], (2, 1));
        }
        let plan = Epoch::plan(&pairs.lengths, BatchOptions::default(), 0).unwrap();
        EpochData { pairs: Arc::new(pairs), plan, pad_id: 0, sources: (1, 2), known: None }
    }

    #[test]
    fn the_decoder_input_is_the_expected_output_shifted_by_one() {
        let batch = epoch().batch(0, 1, Rounding::Exact).unwrap();
        assert_eq!((batch.source.rows(), batch.source.length(), batch.target.length()), (5, 6, 7));
        assert_eq!(batch.tokens, (2..=6).map(|length| length + 1).sum::<usize>());
        for (given, expected) in batch.target.ids().host().chunks(7).zip(batch.expected.host().chunks(7)) {
            let end = expected.iter().position(|&id| id == 2).unwrap();
            assert_eq!((given[0], &given[1..=end]), (0, &expected[..end]));
            assert!(given[end + 1..].iter().chain(&expected[end + 1..]).all(|&id| id == 0));
        }
    }

    #[test]
    fn padding_rows_have_no_tokens_and_do_not_count() {
        let [exact, few] = [Rounding::Exact, FEW].map(|rounding| epoch().batch(0, 1, rounding).unwrap());
        assert_eq!((few.source.rows(), few.source.length(), few.target.length()), (8, 6, 8));
        assert_eq!((&few.source.lengths().host()[5..], few.tokens), (&[0; 3][..], exact.tokens));
        let mut parameters = Parameters::default();
        let config = ModelConfig::preset("tiny", 11).unwrap();
        let model = SequenceToSequence::new(config, &mut parameters).unwrap();
        parameters.initialise(3);
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let options = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(0) };
        let [exact, few] = [exact, few].map(|batch| {
            let loss = model.loss(&pass, &batch.source, &batch.target, &batch.expected, options).unwrap();
            loss.value().data()[0].to_bits()
        });
        assert_eq!(exact, few);
    }

    #[test]
    fn copies_are_padded_alike() {
        let batch = epoch().batch(0, 2, FEW).unwrap();
        for rows in [batch.source.ids(), batch.source.lengths(), batch.target.ids(), &batch.expected] {
            let (first, second) = rows.host().split_at(rows.len() / 2);
            assert_eq!(first, second);
        }
        assert_eq!((batch.source.rows(), batch.tokens), (16, 25));
        let padding = [Rounding::Exact, FEW].map(|rounding| epoch().padding(rounding).padded);
        assert_eq!((padding, epoch().n_sizes(FEW)), ([5 * (6 + 7), 8 * (6 + 8)], 1));
    }
}
