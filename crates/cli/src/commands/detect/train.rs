//! `polyhead detect --train`: an identifier from lines of text.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_text::Error;
use polyhead_text::language::{TrainOptions, Trainer};
use polyhead_text::lines::Lines;

use crate::report::{Misuse, bytes, note, progress};

/// Options of the training.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub(super) struct Train {
    /// Train an identifier: text of a language, as en=FILE or en=FILE.tsv:2; once or more for each language
    #[arg(long, value_name = "CODE=FILE", value_parser = parse_text, requires = "out",
          conflicts_with_all = ["texts", "among", "model", "format"])]
    train: Vec<Text>,
    /// File to write
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Rows of the table of weights; a row is a byte for each language [default: 32768]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Longest n-gram, in characters [default: 5]
    #[arg(long, value_name = "N")]
    max_n: Option<usize>,
    /// Examples drawn of each language [default: 1000000]
    #[arg(long, value_name = "N")]
    examples: Option<usize>,
    /// Seed of the draws [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Text of one language.
#[derive(Debug, Clone)]
struct Text {
    code: String,
    path: PathBuf,
    /// Column of a TSV file, from 0.
    column: Option<usize>,
}

impl Train {
    /// Whether there is something to train; an error where only options of training are given.
    pub(super) fn is_asked_for(&self) -> Result<bool> {
        // `requires` of clap gives way where texts are given too.
        let given = [
            ("--out", self.out.is_some()),
            ("--rows", self.rows.is_some()),
            ("--max-n", self.max_n.is_some()),
            ("--examples", self.examples.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if self.train.is_empty() => Err(Misuse {
                message: format!("{name} without a language to train, expected --train CODE=FILE"),
                hint: "texts are looked at without it; results go to standard output".into(),
            }
            .into()),
            _ => Ok(!self.train.is_empty()),
        }
    }

    pub(super) fn run(self) -> Result<()> {
        let mut trainer = Trainer::default();
        // A wrong name should not surface after the files before it were read.
        for Text { code, path, .. } in &self.train {
            trainer.add(code, "")?;
            if path != Path::new("-") {
                std::fs::metadata(path).map_err(|error| Error::io(path, "open", error))?;
            }
        }
        let bar = progress("lines read");
        for text in &self.train {
            text.read(|line| {
                bar.inc(1);
                trainer.add(&text.code, line)
            })?;
        }
        bar.set_message("examples of each language");
        let options = self.options();
        let n_examples = options.n_examples as f64;
        let identifier = trainer.train(&options, &mut |done| bar.set_position((done * n_examples) as u64))?;
        bar.finish_and_clear();
        let out = self.out.expect("clap requires it");
        identifier.save(&out)?;
        let size = std::fs::metadata(&out).map_or(0, |metadata| metadata.len());
        let codes: Vec<&str> = identifier.codes().collect();
        note(&format!("wrote {} ({}; {})", out.display(), codes.join(", "), bytes(size)));
        Ok(())
    }

    fn options(&self) -> TrainOptions {
        let default = TrainOptions::default();
        TrainOptions {
            n_rows: self.rows.unwrap_or(default.n_rows),
            max_n: self.max_n.unwrap_or(default.max_n),
            n_examples: self.examples.unwrap_or(default.n_examples),
            seed: self.seed.unwrap_or(default.seed),
        }
    }
}

impl Text {
    fn read(&self, mut found: impl FnMut(&str) -> polyhead_text::Result<()>) -> polyhead_text::Result<()> {
        let mut lines = Lines::open(&self.path)?;
        let mut number = 0;
        while let Some(line) = lines.next_text()? {
            number += 1;
            let Some(column) = self.column else {
                found(line)?;
                continue;
            };
            let text = line.split('\t').nth(column).ok_or_else(|| Error::Format {
                path: self.path.clone(),
                line: Some(number),
                found: columns(line.split('\t').count()),
                expected: format!("a column {}", column + 1),
                hint: format!("the column stands behind the name: {}={}:1", self.code, self.path.display()),
            })?;
            found(text)?;
        }
        Ok(())
    }
}

fn columns(number: usize) -> String {
    format!("{number} tab-separated column{}", if number == 1 { "" } else { "s" })
}

fn parse_text(argument: &str) -> Result<Text, String> {
    let Some((code, path)) =
        argument.split_once('=').filter(|(code, path)| !code.is_empty() && !path.is_empty())
    else {
        return Err("no language and file, expected CODE=FILE as en=text.txt".into());
    };
    let is_tsv = |path: &str| {
        let name = path.to_lowercase();
        name.strip_suffix(".gz").unwrap_or(&name).rsplit('.').next() == Some("tsv")
    };
    let text = |path: &str, column| Text { code: code.to_owned(), path: path.into(), column };
    match path.rsplit_once(':').filter(|(path, _)| is_tsv(path)) {
        Some((path, column)) => match column.parse::<usize>().ok().and_then(|column| column.checked_sub(1)) {
            Some(column) => Ok(text(path, Some(column))),
            None => Err(format!("column {column:?}, expected a number from 1")),
        },
        None if is_tsv(path) => Err(format!("a file with columns, expected which one: {code}={path}:1")),
        None => Ok(text(path, None)),
    }
}
