//! Sounds with their texts, and the batches of every epoch.
//!
//! Samples are in memory as 16-bit numbers; frames are computed for each batch. What an epoch changes about a sound is a pure
//! function of (seed, epoch, row).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use polyhead_engine::speech::{LogMel, MOST_SECONDS, resample, wav};
use polyhead_models::speech::Frames;
use polyhead_models::{Ids, SpeechRecognizer};
use polyhead_random::Random;
use polyhead_tensor::Indices;
use polyhead_text::batch::{BatchOptions, Epoch, PaddingStats, PairLengths, Rounding};
use rayon::prelude::*;

use super::augment;
use crate::config::{RunConfig, SoundConfig};
use crate::event::SkippedRows;
use crate::objective::{self, EpochBatches};
use crate::run_corpus::RunCorpus;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Random stream of the changes of sounds, apart from that of batches.
const STREAM: u64 = 0x534F_554E;
/// Sounds read at once.
const CHUNK: usize = 256;

/// Longest sounds and texts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) frames: usize,
    pub(super) tokens: usize,
}

/// A sound with its text.
#[derive(Debug, Clone)]
struct SpeechRow {
    samples: Arc<[i16]>,
    text: Arc<str>,
    /// Ids with the end token.
    ids: Arc<[u32]>,
}

impl SpeechRow {
    fn samples(&self) -> Vec<f32> {
        self.samples.iter().map(|sample| f32::from(*sample) / 32_768.0).collect()
    }
}

/// Sounds with their texts.
#[derive(Debug)]
pub(crate) struct SpeechRows {
    table: Arc<SpeechTable>,
    skipped: SkippedRows,
}

#[derive(Debug)]
struct SpeechTable {
    rows: Vec<SpeechRow>,
    /// Frames and tokens of each, as they are.
    lengths: Vec<PairLengths>,
    /// Without weights: it lays out its input.
    layout: SpeechRecognizer,
    features: LogMel,
    limits: Limits,
    sound: SoundConfig,
    seed: u64,
}

impl SpeechRows {
    /// Reads corpora whose sources are paths of WAV files, relative to the corpus.
    pub(super) fn read(
        corpora: &[RunCorpus],
        (vocabulary, layout): (&Vocabulary, &SpeechRecognizer),
        limits: Limits,
        config: &RunConfig,
    ) -> Result<Self> {
        let features = LogMel::of(layout);
        let (mut rows, mut lengths, mut skipped) = (Vec::new(), Vec::new(), SkippedRows::default());
        for (number, run_corpus) in corpora.iter().enumerate() {
            let first = rows.len();
            for chunk in lines(run_corpus)?.chunks(CHUNK) {
                let read = chunk.par_iter().map(|line| row(run_corpus, line, (vocabulary, layout)));
                for ((line, ..), row) in chunk.iter().zip(read.collect::<Result<Vec<_>>>()?) {
                    let own = PairLengths {
                        source: features.n_frames(row.samples.len()) as u32,
                        target: row.ids.len() as u32,
                    };
                    if row.ids.len() == 1 {
                        skipped.empty += 1;
                    } else if own.source as usize > limits.frames || row.ids.len() > limits.tokens {
                        skipped.too_long += 1;
                        skipped.first_too_long.get_or_insert((
                            number,
                            *line,
                            own.source.max(own.target) as usize,
                        ));
                    } else {
                        lengths.push(own);
                        rows.push(row);
                    }
                }
            }
            let own: (Vec<SpeechRow>, Vec<PairLengths>) = (rows[first..].to_vec(), lengths[first..].to_vec());
            for _ in 1..run_corpus.repeat {
                rows.extend(own.0.clone());
                lengths.extend(own.1.clone());
            }
        }
        if rows.is_empty() {
            let SkippedRows { empty, too_long, .. } = skipped;
            let message = format!("no usable sound ({empty} without text, {too_long} too long)");
            let hint = "data.max_length and model.max_len limit the tokens of a text, model.max_frames and train.max_tokens \
                        the frames of a sound, 100 a second";
            return Err(Error::config(RunCorpus::names(corpora), message, hint));
        }
        let (layout, sound, seed) = (layout.clone(), config.sound, config.seed);
        let table = SpeechTable { rows, lengths, layout, features, limits, sound, seed };
        Ok(Self { table: Arc::new(table), skipped })
    }

    /// The samples and texts of the first `most` sounds.
    pub(super) fn sounds(&self, most: usize) -> Vec<(Vec<f32>, String)> {
        let rows = self.table.rows.iter().take(most);
        rows.map(|row| (row.samples(), row.text.to_string())).collect()
    }
}

/// Line number, path and text of each row.
fn lines(run_corpus: &RunCorpus) -> Result<Vec<(u64, String, String)>> {
    let mut pairs = run_corpus.corpus.pairs()?;
    let mut found = Vec::new();
    while let Some(pair) = pairs.next_pair()? {
        found.push((pair.line, pair.source.to_owned(), pair.target.to_owned()));
    }
    Ok(found)
}

/// The row of a line.
fn row(
    run_corpus: &RunCorpus,
    (line, path, text): &(u64, String, String),
    (vocabulary, layout): (&Vocabulary, &SpeechRecognizer),
) -> Result<SpeechRow> {
    let manifest = run_corpus.corpus.source_path();
    let path = manifest.parent().unwrap_or_else(|| Path::new("")).join(path.trim());
    let sound = wav::read(&path, MOST_SECONDS).map_err(|error| {
        let place = format!("{}:{line}", manifest.display());
        let hint = "a line is the path of a WAV file, relative to this file, a tab, and its text";
        Error::data(place, error.to_string(), hint)
    })?;
    let samples = resample(&sound.samples, sound.rate, layout.config().sample_rate as u32);
    let number = |sample: &f32| (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16;
    let mut ids = vocabulary.target().encode_target(text)?.ids;
    ids.push(vocabulary.special_ids()[1]);
    Ok(SpeechRow { samples: samples.iter().map(number).collect(), text: text.trim().into(), ids: ids.into() })
}

impl objective::Dataset for SpeechRows {
    type Batch = SpeechBatch;
    type Epoch = SpeechEpoch;

    fn len(&self) -> usize {
        self.table.rows.len()
    }

    /// Frames of all sounds, and tokens of all texts.
    fn tokens(&self) -> [usize; 2] {
        let sum =
            |side: fn(&PairLengths) -> u32| self.table.lengths.iter().map(|row| side(row) as usize).sum();
        [sum(|row| row.source), sum(|row| row.target)]
    }

    fn bytes(&self) -> usize {
        self.table.rows.iter().map(|row| 2 * row.samples.len() + 4 * row.ids.len()).sum()
    }

    fn skipped(&self) -> &SkippedRows {
        &self.skipped
    }

    fn resamples_each_epoch(&self) -> bool {
        false
    }

    fn epoch(&self, options: BatchOptions, number: u64) -> Result<SpeechEpoch> {
        let table = Arc::clone(&self.table);
        let speeds: Vec<u32> = (0..table.rows.len()).map(|row| table.speed(number, row)).collect();
        let lengths = table.rows.iter().zip(&table.lengths).zip(&speeds);
        let lengths: Vec<PairLengths> = lengths
            .map(|((row, own), speed)| {
                let samples = augment::length(row.samples.len(), *speed);
                PairLengths { source: table.features.n_frames(samples) as u32, ..*own }
            })
            .collect();
        let plan = Epoch::plan(&lengths, options, number)?;
        Ok(SpeechEpoch { table, plan, number, speeds, lengths })
    }
}

impl SpeechTable {
    fn random(&self, epoch: u64, row: usize) -> Random {
        let numbers = Random::new(Random::new(self.seed ^ STREAM).stream(epoch).u64(0));
        numbers.stream(row as u64)
    }

    /// The speed of a sound in an epoch; its own if it would get too long.
    fn speed(&self, epoch: u64, row: usize) -> u32 {
        let own = augment::speed(SoundConfig::default(), Random::new(0));
        if self.sound.speed == 0.0 {
            return own;
        }
        let speed = augment::speed(self.sound, self.random(epoch, row));
        let samples = augment::length(self.rows[row].samples.len(), speed);
        if self.features.n_frames(samples) > self.limits.frames { own } else { speed }
    }
}

/// A batch of sounds with their texts.
#[derive(Debug, Clone)]
pub(crate) struct SpeechBatch {
    pub(super) frames: Frames,
    pub(super) target: Ids,
    pub(super) expected: Indices,
    /// Tokens of all texts.
    tokens: usize,
}

impl objective::Batch for SpeechBatch {
    fn weight(&self) -> usize {
        self.tokens
    }

    fn lists(&self) -> Vec<&Indices> {
        let target = [self.target.ids(), self.target.lengths(), &self.expected];
        self.frames.lists().into_iter().chain(target).collect()
    }

    fn with(&self, lists: &[Indices]) -> Self {
        let [a, b, c, d, e, f, ids, lengths, expected] =
            <[Indices; 9]>::try_from(lists.to_vec()).expect("a batch has nine lists");
        Self {
            frames: self.frames.with([a, b, c, d, e, f]),
            target: self.target.with(ids, lengths),
            expected,
            tokens: self.tokens,
        }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.frames.rows(), self.frames.length(), self.target.length()]
    }
}

/// One epoch: its batches in order.
#[derive(Debug)]
pub(crate) struct SpeechEpoch {
    table: Arc<SpeechTable>,
    plan: Epoch,
    number: u64,
    speeds: Vec<u32>,
    /// Frames and tokens of each sound in this epoch.
    lengths: Vec<PairLengths>,
}

impl SpeechEpoch {
    fn size(&self, batch: &[u32], rounding: Rounding) -> [usize; 3] {
        let longest = |side: fn(&PairLengths) -> u32| {
            batch.iter().map(|&row| side(&self.lengths[row as usize]) as usize).max().unwrap_or(0)
        };
        let frames = match rounding {
            Rounding::Exact => Rounding::Exact,
            Rounding::Few { .. } => Rounding::Few { max_length: self.table.layout.config().max_frames },
        };
        [
            rounding.rows(batch.len()),
            frames.length(longest(|row| row.source)).max(1),
            rounding.length(longest(|row| row.target)).max(1),
        ]
    }

    fn sizes(&self, rounding: Rounding) -> impl Iterator<Item = [usize; 3]> {
        self.plan.batches().map(move |batch| self.size(batch, rounding))
    }

    /// The frames of a sound in this epoch.
    fn frames(&self, row: usize) -> Vec<f32> {
        let SpeechTable { rows, features, layout, sound, .. } = &*self.table;
        let random = self.table.random(self.number, row);
        let samples = augment::changed(&rows[row].samples(), self.speeds[row], *sound, random);
        let mut frames = features.frames(&samples, self.lengths[row].source as usize);
        augment::mask(&mut frames, layout.config().n_mels, *sound, random);
        frames
    }
}

impl EpochBatches for SpeechEpoch {
    type Batch = SpeechBatch;

    fn len(&self) -> usize {
        self.plan.len()
    }

    fn batch(&self, index: usize, copies: usize, rounding: Rounding) -> Option<SpeechBatch> {
        let batch = self.plan.batches_from(index).next()?;
        let [n_rows, n_frames, n_tokens] = self.size(batch, rounding);
        let layout = &self.table.layout;
        let sounds: Vec<Vec<f32>> = batch.par_iter().map(|&row| self.frames(row as usize)).collect();
        let mut once: Vec<Option<usize>> = (0..batch.len()).map(Some).collect();
        once.resize(n_rows, None);
        let rows = once.repeat(copies);
        let ids = |row: usize| &*self.table.rows[batch[row] as usize].ids;
        let texts = rows.iter().map(|row| row.map(ids));
        let (target, expected) = Ids::shifted(texts, n_tokens, layout.special_ids());
        Some(SpeechBatch {
            frames: layout.frames(rows.iter().map(|row| row.map(|row| sounds[row].as_slice())), n_frames),
            target,
            expected,
            tokens: batch.iter().map(|&row| self.lengths[row as usize].target as usize).sum(),
        })
    }

    fn padding(&self, rounding: Rounding) -> PaddingStats {
        let padded =
            self.sizes(rounding).map(|[rows, frames, tokens]| (rows * (frames + tokens)) as u64).sum();
        let tokens = self.lengths.iter().map(|row| u64::from(row.source + row.target)).sum();
        PaddingStats { tokens, padded }
    }

    fn largest(&self, rounding: Rounding) -> [usize; 3] {
        self.sizes(rounding)
            .max_by_key(|[rows, frames, tokens]| rows * (frames + 8 * tokens))
            .unwrap_or([0; 3])
    }

    fn n_sizes(&self, rounding: Rounding) -> usize {
        self.sizes(rounding).collect::<HashSet<_>>().len()
    }
}
