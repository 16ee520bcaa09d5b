//! `polyhead shortlist`: train a lexical shortlist for a model.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use polyhead_models::checkpoint::shortlist::SHORTLIST;
use polyhead_text::corpus::Corpus;
use polyhead_translate::shortlist::{
    LanguagePair, ShortlistOptions, ShortlistProgress, TableSummary, is_worth_learning, train_shortlist,
};

use crate::decode_options::positive;
use crate::default_model;
use crate::option_help::{MODEL, THREADS};
use crate::report::{Failure, Misuse, bytes, counted, note, print_text, progress, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead shortlist train -m models/en-de --tsv train.tsv --languages en,de
  polyhead translate -m models/en-de 'Good morning.'
  polyhead translate -m models/en-de --shortlist none 'Good morning.'";

const TRAIN_EXAMPLES: &str = "\
Examples:
  polyhead shortlist train -m models/en-de --tsv train.tsv --languages en,de
  polyhead shortlist train -m models/four --tsv en-de.tsv --languages en,de \\
      --tsv en-fr.tsv --languages en,fr --out four.safetensors

A lexical shortlist names, for each sentence, the target tokens that its translation may need: the frequent tokens of the target language, the probable translations of each source token, the source tokens themselves, and all digits, punctuation, single characters and special tokens. Only their probabilities are computed, which makes decoding on the CPU faster. Translations are the same except where a token is missing.

The probabilities of token translations are learnt from parallel text by IBM Model 1, with the model's tokeniser, for every direction that the model was trained on; one pair in a hundred is held out to measure the coverage. The same text gives the same file on any number of threads.

A model folder that has a file shortlist.safetensors uses it; --shortlist none turns it off. A file fits only the tokeniser that it was made with.";

/// Subcommands of `polyhead shortlist`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Shortlist {
    /// Learn a lexical shortlist from parallel text
    Train(ShortlistTraining),
}

/// Options of `polyhead shortlist train`.
#[derive(Debug, Args)]
#[command(after_help = TRAIN_EXAMPLES)]
pub(crate) struct ShortlistTraining {
    #[arg(short, long, value_name = "DIR", help = MODEL)]
    model: Option<PathBuf>,
    /// Pairs in a tab-separated file, plain or gzip; repeatable
    #[arg(long, value_name = "FILE", required = true)]
    tsv: Vec<PathBuf>,
    /// Languages of the two columns, once for all files or once for each --tsv
    #[arg(long, value_name = "A,B", required = true, value_parser = parse_languages)]
    languages: Vec<[String; 2]>,
    /// Target languages to list tokens for; the others use all tokens [default: all]
    #[arg(long, value_name = "LANGUAGES", value_delimiter = ',')]
    into: Vec<String>,
    /// File to write [default: shortlist.safetensors in the model folder]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// Candidates of each source token, at most 255
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u8).range(1..))]
    per_token: u8,
    /// Frequent tokens of each target language, on the list of every sentence
    #[arg(long, value_name = "N", default_value_t = ShortlistOptions::default().frequent)]
    frequent: usize,
    /// Leave out candidates below this probability
    #[arg(long, value_name = "P", default_value_t = ShortlistOptions::default().min_probability)]
    min_probability: f32,
    /// Pairs of each two languages to learn from, evenly spread over the text; pairs longer than 140 characters are left out
    #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = positive)]
    max_pairs: usize,
    #[arg(long, value_name = "N", help = THREADS)]
    threads: Option<usize>,
}

impl Shortlist {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Train(train) => train.run(),
        }
    }
}

impl ShortlistTraining {
    fn run(self) -> Result<()> {
        let folder = default_model::or(self.model.as_deref())?;
        let out = self.out.clone().unwrap_or_else(|| folder.join(SHORTLIST));
        if out.exists() && !self.overwrite {
            let message = format!("{}: already exists, expected a new file", out.display());
            let hint = "name another file with --out, or add --overwrite".into();
            return Err(Failure { message, hint }.into());
        }
        let texts = self.texts()?;
        let options = ShortlistOptions {
            per_token: self.per_token.into(),
            frequent: self.frequent,
            min_probability: self.min_probability,
            into: self.into.clone(),
            ..ShortlistOptions::default()
        };
        let bar = progress("pairs tokenised");
        let report = |step| match step {
            ShortlistProgress::Tokenized(pairs) => bar.set_position(pairs as u64),
            ShortlistProgress::Iteration(done, all) => {
                bar.set_message(format!("iteration {done} of {all}, pairs tokenised"));
            }
        };
        let pool = thread_pool(self.threads)?;
        let trained = pool.install(|| train_shortlist(&folder, &texts, &options, &report))?;
        bar.finish_and_clear();
        let size = trained.file.save(&out)?;
        print_text(&summary(&trained.tables))?;
        let entries: usize = trained.tables.iter().map(|table| table.entries).sum();
        note(&format!(
            "wrote {} ({}, {}, {})",
            out.display(),
            counted(trained.tables.len() as u64, "table"),
            counted(entries as u64, "candidate"),
            bytes(size)
        ));
        Ok(())
    }

    /// The pairs of each two languages.
    fn texts(&self) -> Result<Vec<LanguagePair>> {
        let (n_files, n_languages) = (self.tsv.len(), self.languages.len());
        if n_languages != 1 && n_languages != n_files {
            return Err(Misuse {
                message: format!("{n_languages} --languages for {n_files} --tsv, expected 1 or {n_files}"),
                hint: "give --languages once for all files, or once for each, in the same order".into(),
            }
            .into());
        }
        let mut samples: Vec<([String; 2], Sample)> = Vec::new();
        let bar = progress("pairs read");
        for (path, languages) in self.tsv.iter().zip(self.languages.iter().cycle()) {
            let index = samples.iter().position(|(known, _)| known == languages).unwrap_or_else(|| {
                samples.push((languages.clone(), Sample::new(self.max_pairs)));
                samples.len() - 1
            });
            let corpus = Corpus::Tsv { path: path.clone(), source_column: 0, target_column: 1 };
            let mut pairs = corpus.pairs()?;
            while let Some(pair) = pairs.next_pair()? {
                if is_worth_learning([pair.source, pair.target]) {
                    samples[index].1.add(|| [pair.source.to_owned(), pair.target.to_owned()]);
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        if let Some((languages, _)) = samples.iter().find(|(_, sample)| sample.kept.is_empty()) {
            return Err(Failure {
                message: format!("no pairs in {}, expected text to learn from", languages.join(",")),
                hint: "each line of --tsv has a sentence, a tab and its translation".into(),
            }
            .into());
        }
        let pair =
            |(languages, sample): ([String; 2], Sample)| LanguagePair { languages, pairs: sample.finish() };
        Ok(samples.into_iter().map(pair).collect())
    }
}

/// An even sample of a stream whose length is not known: every n-th pair, where n doubles when too many are kept.
struct Sample {
    kept: Vec<[String; 2]>,
    seen: usize,
    step: usize,
    max: usize,
}

impl Sample {
    fn new(max: usize) -> Self {
        Self { kept: Vec::new(), seen: 0, step: 1, max }
    }

    fn add(&mut self, pair: impl FnOnce() -> [String; 2]) {
        if self.seen.is_multiple_of(self.step) {
            self.kept.push(pair());
            if self.kept.len() == 2 * self.max {
                let mut index = 0;
                self.kept.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.step *= 2;
            }
        }
        self.seen += 1;
    }

    /// At most `max` of the kept pairs, evenly spread.
    fn finish(self) -> Vec<[String; 2]> {
        let (n, max) = (self.kept.len(), self.max);
        if n <= max {
            return self.kept;
        }
        let is_chosen = |index: usize| (index + 1) * max / n > index * max / n;
        self.kept
            .into_iter()
            .enumerate()
            .filter(|(index, _)| is_chosen(*index))
            .map(|(_, pair)| pair)
            .collect()
    }
}

/// A line for each table: tag, directions, pairs, candidates, mean size of a list and coverage.
fn summary(tables: &[TableSummary]) -> String {
    let line = |table: &TableSummary| {
        let directions: Vec<String> =
            table.directions.iter().map(|(from, to)| format!("{from}-{to}")).collect();
        format!(
            "{} ({}): {}, {}, {:.0} tokens on a list, coverage {:.2} %\n",
            table.tag,
            directions.join(", "),
            counted(table.pairs as u64, "pair"),
            counted(table.entries as u64, "candidate"),
            table.mean_size,
            100.0 * table.coverage
        )
    };
    tables.iter().map(line).collect()
}

fn parse_languages(text: &str) -> Result<[String; 2], String> {
    let parts: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
    match <[String; 2]>::try_from(parts) {
        Ok(two) if two.iter().all(|code| !code.is_empty()) && two[0] != two[1] => Ok(two),
        _ => Err("expected two languages, separated by a comma, such as en,de".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_evenly_spread() {
        let sample = |n: usize, max| {
            let mut sample = Sample::new(max);
            (0..n).for_each(|number| sample.add(|| [number.to_string(), String::new()]));
            sample.finish().into_iter().map(|[number, _]| number.parse().unwrap()).collect::<Vec<usize>>()
        };
        assert_eq!(sample(3, 5), [0, 1, 2]);
        // Of 0 to 8 the even ones are kept, of these five the second, fourth and fifth.
        assert_eq!(sample(9, 3), [2, 6, 8]);
        let many = sample(1000, 10);
        assert_eq!(many.len(), 10);
        assert!(many.windows(2).all(|pair| (64..=160).contains(&(pair[1] - pair[0]))), "{many:?}");
    }

    #[test]
    fn two_different_languages_are_expected() {
        assert_eq!(parse_languages("en, de"), Ok(["en".to_owned(), "de".to_owned()]));
        for wrong in ["en", "en,", "en,de,fr", "en,en", ""] {
            assert!(parse_languages(wrong).is_err(), "{wrong}");
        }
    }
}
