//! The number of steps that a recipe makes, counted with its own tokeniser and batches before the run.

use std::path::{Path, PathBuf};

use polyhead_text::corpus::Corpus;
use polyhead_text::output::Output;

use crate::config::{RunConfig, TrainConfig};
use crate::objective::{Dataset as _, EpochBatches as _, Objective as _, Prepared};
use crate::preparation::{Corpora, batches};
use crate::run_corpus::RunCorpus;
use crate::translation::Translation;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// Pairs of a corpus that are counted; larger corpora are sampled.
const COUNTED_PAIRS: u64 = 100_000;

/// The steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepForecast {
    /// Steps of an epoch.
    pub per_epoch: u64,
    /// Steps after which train.max_steps or train.max_epochs ends the run, if one is set; validation.patience may end it
    /// earlier.
    pub most: Option<u64>,
    /// True if the corpus was sampled, so that the numbers are estimates.
    pub is_sampled: bool,
}

impl StepForecast {
    /// The steps of a run whose epochs have `n_batches` batches.
    pub(crate) fn of_batches(train: &TrainConfig, n_batches: u64) -> Self {
        let per_epoch = n_batches.div_ceil(train.accumulate.max(1) as u64);
        let by_steps = (train.max_steps > 0).then_some(train.max_steps);
        let by_epochs = (train.max_epochs > 0).then(|| train.max_epochs.saturating_mul(per_epoch));
        let most = [by_steps, by_epochs].into_iter().flatten().min();
        Self { per_epoch, most, is_sampled: false }
    }
}

/// Counts the steps of a translation recipe: trains its tokeniser and forms the batches of its first epoch. Of more than
/// 100,000 pairs, evenly spaced ones are taken; `pairs` is the number of pairs.
///
/// # Errors
/// If the text cannot be read, or a temporary file not written.
pub fn forecast_steps(config: &RunConfig, pairs: u64) -> Result<StepForecast> {
    let folder = TemporaryFolder::create()?;
    let mut corpora = Corpora::new(config)?;
    let every = pairs.div_ceil(COUNTED_PAIRS).max(1);
    if every > 1 {
        for (index, run_corpus) in corpora.train.iter_mut().enumerate() {
            let corpus = sample(&run_corpus.corpus, every, (&folder.path, index))?;
            *run_corpus = RunCorpus { corpus, ..run_corpus.clone() };
        }
    }
    corpora.valid.clear();
    let vocabulary = Vocabulary::train(config, &corpora.train, &folder.path)?;
    let Prepared { data, .. } = Translation::prepare(config, &corpora, Some(&vocabulary))?;
    let n_batches = data.epoch(batches(config), 0)?.len() as u64 * every;
    Ok(StepForecast { is_sampled: every > 1, ..StepForecast::of_batches(&config.train, n_batches) })
}

/// Writes every `every`-th pair of a corpus to files in `folder`.
fn sample(corpus: &Corpus, every: u64, (folder, index): (&Path, usize)) -> Result<Corpus> {
    let [source, target] = ["source", "target"].map(|side| folder.join(format!("{index}.{side}")));
    let mut files = [Output::create(&source)?, Output::create(&target)?];
    let (mut pairs, mut number) = (corpus.pairs()?, 0_u64);
    while let Some(pair) = pairs.next_pair()? {
        if number.is_multiple_of(every) {
            for (file, text) in files.iter_mut().zip([pair.source, pair.target]) {
                // A text of a JSONL file may hold line ends.
                file.write_line(&text.replace(['\n', '\r'], " "))?;
            }
        }
        number += 1;
    }
    for file in files {
        file.finish()?;
    }
    Ok(Corpus::LineFiles { source, target })
}

/// A folder that is removed when dropped.
struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("polyhead-init-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Error::io(&path, "create the folder", error))?;
        Ok(Self { path })
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed only takes space.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_limit_ends_the_run() {
        let train = |max_steps, max_epochs| TrainConfig {
            max_steps,
            max_epochs,
            accumulate: 3,
            ..TrainConfig::default()
        };
        let most = |max_steps, max_epochs| StepForecast::of_batches(&train(max_steps, max_epochs), 10).most;
        assert_eq!(
            [most(0, 0), most(7, 0), most(0, 5), most(99, 5), most(7, 5)],
            [None, Some(7), Some(20), Some(20), Some(7)]
        );
    }

    #[test]
    fn a_sample_has_every_nth_pair() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tsv");
        std::fs::write(&path, "a\tb\nc\td\ne\tf\ng\th\n").unwrap();
        let corpus = Corpus::Tsv { path, source_column: 0, target_column: 1 };
        let Corpus::LineFiles { source, target } = sample(&corpus, 3, (folder.path(), 0)).unwrap() else {
            panic!("a sample is two files")
        };
        let text = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!([text(source), text(target)], ["a\ng\n", "b\nh\n"]);
    }
}
