//! `polyhead ngram train`: counts n-grams and estimates a model.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_words::ngram::{Discounts, Progress, TextUnit, TrainOptions, train};

use crate::option_help::THREADS;
use crate::report::{counted, grouped, note, progress, thread_pool, time};

const EXAMPLES: &str = "\
Examples:
  polyhead ngram train --order 3 --out en.ngram train.en
  polyhead ngram train --order 5 --prune 0,0,1 --out en.arpa a.en.gz b.en.gz
  polyhead ngram train --order 6 --characters --out letters.ngram book.txt
  polyhead ngram train --memory 256M --out large.ngram large.en
  zcat *.gz | polyhead ngram train --out all.ngram -

Every line is a sentence, and words are what stands between white space: tokenise the text first if punctuation should be a word of its own. Probabilities are those of interpolated modified Kneser–Ney smoothing (Chen & Goodman 1998), as KenLM's lmplz computes them. The result does not depend on the number of threads or on --memory.

--prune 0,0,1 removes the n-grams of order 3 and above that occur once. --memory limits the counting; the model itself, up to 16 bytes an n-gram, is built in memory.";

/// Options of `polyhead ngram train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NgramTraining {
    /// Text, one sentence per line, plain or gzip; - is standard input
    #[arg(value_name = "FILE", required = true)]
    texts: Vec<PathBuf>,
    /// Model to write: .arpa, or any other name for the binary format
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Length of the longest n-grams
    #[arg(long, value_name = "N", default_value_t = 3)]
    order: usize,
    /// Predict characters instead of words
    #[arg(long)]
    characters: bool,
    /// Largest counts of n-grams to remove, from order 1; the last applies to all further orders
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    prune: Vec<u64>,
    /// Discounts of an order whose counts give none: D1,D2,D3
    #[arg(long, value_name = "D,D,D", value_delimiter = ',', default_value = "0.5,1,1.5")]
    fallback: Vec<f64>,
    /// Memory for counting, such as 512M or 4G; more is written to the temporary folder
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = memory)]
    memory: usize,
    #[arg(long, value_name = "N", help = THREADS)]
    threads: Option<usize>,
}

/// A number of bytes with K, M or G.
pub(super) fn memory(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B')
    {
        "" => 1.0,
        "K" => 1024.0,
        "M" => 1024.0 * 1024.0,
        "G" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err("expected bytes, or a number with K, M or G, as in 512M".into()),
    };
    match digits.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok((number * factor) as usize),
        _ => Err("expected bytes, or a number with K, M or G, as in 512M".into()),
    }
}

impl NgramTraining {
    pub(crate) fn run(self) -> Result<()> {
        let Ok(fallback) = <[f64; 3]>::try_from(self.fallback.clone()) else {
            return Err(crate::report::Misuse {
                message: format!("--fallback with {} numbers, expected 3", self.fallback.len()),
                hint: "for example: --fallback 0.5,1,1.5".into(),
            }
            .into());
        };
        let options = TrainOptions {
            order: self.order,
            unit: if self.characters { TextUnit::Character } else { TextUnit::Word },
            prune: self.prune.clone(),
            fallback,
            memory: self.memory,
            ..TrainOptions::default()
        };
        let (start, bar) = (Instant::now(), progress("reading"));
        let trained = thread_pool(self.threads)?.install(|| {
            train(&self.texts, &options, &mut |step| match step {
                Progress::Read(lines) => {
                    bar.set_message(counted(lines, "line"));
                    bar.tick();
                }
                other => bar.suspend(|| note(&reported(other))),
            })
        });
        bar.finish_and_clear();
        let trained = trained?;
        for (order, Discounts { amounts, is_fallback }) in (1..).zip(&trained.discounts) {
            if *is_fallback {
                note(&format!(
                    "note: order {order}: too few n-grams that occur once, twice, three and four times to estimate discounts; \
                     using {amounts:?}"
                ));
            }
        }
        trained.model.save(&self.out)?;
        let counts: Vec<String> = trained.model.counts().iter().map(|count| grouped(*count as u64)).collect();
        let seconds = time(start.elapsed().as_secs_f64());
        note(&format!(
            "{}: order {}, {} n-grams, in {seconds}",
            self.out.display(),
            self.order,
            counts.join(" + ")
        ));
        Ok(())
    }
}

fn reported(step: Progress) -> String {
    match step {
        Progress::Read(lines) => counted(lines, "line"),
        Progress::Counted { lines, units, distinct, runs } => {
            let [lines, units] = [counted(lines, "line"), counted(units, "token")];
            let disk = if runs > 0 {
                format!(", {} on disk", counted(runs as u64, "sorted run"))
            } else {
                String::new()
            };
            format!("{lines}, {units}, {} distinct{disk}", grouped(distinct as u64))
        }
        Progress::Estimating { ngrams } => format!("estimating {}", counted(ngrams, "n-gram")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_units() {
        assert_eq!(memory("512M"), Ok(512 << 20));
        assert_eq!((memory("1.5GiB"), memory("4096")), (Ok(3 << 29), Ok(4096)));
        assert!(memory("much").is_err() && memory("0").is_err() && memory("3T").is_err());
    }
}
