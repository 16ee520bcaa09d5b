//! The options that name a parallel corpus.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_text::corpus::Corpus;

use crate::report::Misuse;

/// The files of a corpus: two line files, one TSV or one JSONL file, each plain or gzip; `-` is standard input.
#[derive(Debug, Args)]
pub(crate) struct CorpusOptions {
    /// Source sentences, one per line (with --target)
    #[arg(long, value_name = "FILE", requires = "target")]
    source: Option<PathBuf>,
    /// Target sentences, one per line (with --source)
    #[arg(long, value_name = "FILE", requires = "source")]
    target: Option<PathBuf>,
    /// Pairs in a tab-separated file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "target"])]
    tsv: Option<PathBuf>,
    /// Pairs in a file with one JSON object per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "target", "tsv"])]
    jsonl: Option<PathBuf>,
    /// Columns of source and target in TSV files, counted from 1
    #[arg(long, value_name = "S,T", default_value = "1,2", value_parser = parse_columns)]
    columns: [usize; 2],
    /// Fields of source and target in JSONL files
    #[arg(long, value_name = "S,T", default_value = "source,target", value_parser = parse_fields)]
    fields: [String; 2],
}

impl CorpusOptions {
    /// The corpus, or misuse if none is named.
    pub(crate) fn corpus(&self) -> Result<Corpus> {
        let Self { source, target, tsv, jsonl, .. } = self;
        if let (Some(source), Some(target)) = (source, target) {
            return Ok(Corpus::LineFiles { source: source.clone(), target: target.clone() });
        }
        if let Some(path) = tsv {
            return Ok(self.tsv(path.clone()));
        }
        if let Some(path) = jsonl {
            return Ok(self.jsonl(path.clone()));
        }
        Err(Misuse {
            message: "no corpus, expected --source and --target, --tsv or --jsonl".into(),
            hint: "for example: --source train.en --target train.de".into(),
        }
        .into())
    }

    /// A TSV file with these columns.
    pub(crate) fn tsv(&self, path: PathBuf) -> Corpus {
        let [source_column, target_column] = self.columns;
        Corpus::Tsv { path, source_column, target_column }
    }

    /// A JSONL file with these fields.
    pub(crate) fn jsonl(&self, path: PathBuf) -> Corpus {
        let [source_field, target_field] = self.fields.clone();
        Corpus::Jsonl { path, source_field, target_field }
    }
}

/// The two parts of `S,T`.
pub(crate) fn two(text: &str) -> Result<[&str; 2], String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    <[&str; 2]>::try_from(parts)
        .map_err(|parts| format!("{} values, expected two, separated by a comma", parts.len()))
}

fn parse_columns(text: &str) -> Result<[usize; 2], String> {
    let mut columns = [0; 2];
    for (column, part) in columns.iter_mut().zip(two(text)?) {
        let number: usize = part.parse().map_err(|_| format!("{part:?}, expected a number"))?;
        *column = number.checked_sub(1).ok_or("columns are counted from 1")?;
    }
    Ok(columns)
}

fn parse_fields(text: &str) -> Result<[String; 2], String> {
    two(text).map(|fields| fields.map(str::to_owned))
}
