//! `polyhead detect --train`: a language identifier from lines of text.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_text::Error;
use polyhead_text::language::{IdentifierOptions, Trainer};
use polyhead_text::lines::Lines;

use crate::input::shown;
use crate::option_help::{SEED, with_default};
use crate::report::{Failure, Misuse, bytes, note, progress};

/// Options of training an identifier.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub(super) struct IdentifierTraining {
    /// Train on text of a language: en=FILE or en=FILE.tsv:2; repeatable
    #[arg(long, value_name = "CODE=FILE", value_parser = parse_text, requires = "out",
          conflicts_with_all = ["texts", "among", "model", "output_format"])]
    train: Vec<TrainingText>,
    /// Identifier to write
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace an existing identifier
    #[arg(long)]
    overwrite: bool,
    /// Rows of the weight table, one byte per language and row [default: 32768]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Maximum length of an n-gram, in characters [default: 5]
    #[arg(long, value_name = "N")]
    max_n: Option<usize>,
    /// Training examples per language [default: 1000000]
    #[arg(long, value_name = "N")]
    examples: Option<usize>,
    #[arg(long, value_name = "N", help = with_default(SEED, "1"))]
    seed: Option<u64>,
}

/// Text of one language.
#[derive(Debug, Clone)]
struct TrainingText {
    code: String,
    path: PathBuf,
    /// Column of a TSV file, from 0.
    column: Option<usize>,
}

impl IdentifierTraining {
    /// True if an identifier is to be trained; misuse where only options of training are given.
    pub(super) fn is_asked_for(&self) -> Result<bool> {
        // clap does not apply `requires` where a conflicting argument is given.
        let given = [
            ("--out", self.out.is_some()),
            ("--overwrite", self.overwrite),
            ("--rows", self.rows.is_some()),
            ("--max-n", self.max_n.is_some()),
            ("--examples", self.examples.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if self.train.is_empty() => Err(Misuse {
                message: format!("{name} without --train, expected --train CODE=FILE"),
                hint: "leave it out to detect languages; results go to standard output".into(),
            }
            .into()),
            _ => Ok(!self.train.is_empty()),
        }
    }

    pub(super) fn run(self) -> Result<()> {
        let out = self.out.clone().expect("clap requires it");
        if out.exists() && !self.overwrite {
            let message = format!("{}: already exists, expected a new file", out.display());
            let hint = "name another file with --out, or add --overwrite".into();
            return Err(Failure { message, hint }.into());
        }
        let mut trainer = Trainer::default();
        // A missing file is reported before the files ahead of it are read.
        for TrainingText { code, path, .. } in &self.train {
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
        bar.set_message("examples per language");
        let options = self.options();
        let n_examples = options.n_examples as f64;
        let identifier = trainer.train(&options, &mut |done| bar.set_position((done * n_examples) as u64))?;
        bar.finish_and_clear();
        identifier.save(&out)?;
        let size = std::fs::metadata(&out).map_or(0, |metadata| metadata.len());
        let codes: Vec<&str> = identifier.codes().collect();
        note(&format!("wrote {} ({}; {})", out.display(), codes.join(", "), bytes(size)));
        Ok(())
    }

    fn options(&self) -> IdentifierOptions {
        let default = IdentifierOptions::default();
        IdentifierOptions {
            n_rows: self.rows.unwrap_or(default.n_rows),
            max_n: self.max_n.unwrap_or(default.max_n),
            n_examples: self.examples.unwrap_or(default.n_examples),
            seed: self.seed.unwrap_or(default.seed),
        }
    }
}

impl TrainingText {
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
                hint: format!(
                    "choose a column after the name: {}={}:1",
                    self.code,
                    shown(&self.path).display()
                ),
            })?;
            found(text)?;
        }
        Ok(())
    }
}

fn columns(number: usize) -> String {
    format!("{number} tab-separated column{}", if number == 1 { "" } else { "s" })
}

fn parse_text(argument: &str) -> Result<TrainingText, String> {
    let Some((code, path)) =
        argument.split_once('=').filter(|(code, path)| !code.is_empty() && !path.is_empty())
    else {
        return Err("expected CODE=FILE, such as en=text.txt".into());
    };
    let is_tsv = |path: &str| {
        let name = path.to_lowercase();
        name.strip_suffix(".gz").unwrap_or(&name).rsplit('.').next() == Some("tsv")
    };
    let text = |path: &str, column| TrainingText { code: code.to_owned(), path: path.into(), column };
    match path.rsplit_once(':').filter(|(path, _)| is_tsv(path)) {
        Some((path, column)) => match column.parse::<usize>().ok().and_then(|column| column.checked_sub(1)) {
            Some(column) => Ok(text(path, Some(column))),
            None => Err(format!("column {column:?}, expected a number from 1")),
        },
        None if is_tsv(path) => Err(format!("a .tsv file without a column, expected {code}={path}:1")),
        None => Ok(text(path, None)),
    }
}
