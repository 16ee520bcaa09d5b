//! The options that name a parallel corpus.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_text::corpus::Corpus;
use polyhead_text::csv::Column;

use crate::report::Misuse;

/// The files of a corpus: two line files, one TSV, CSV or JSONL file, each plain or gzip; `-` is standard input.
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
    /// Pairs in a CSV file with a header
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "target", "tsv"])]
    csv: Option<PathBuf>,
    /// Pairs in a file with one JSON object per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "target", "tsv", "csv"])]
    jsonl: Option<PathBuf>,
    /// Columns of source and target in TSV and CSV files, counted from 1; or their names in a CSV file
    #[arg(long, value_name = "S,T", default_value = "1,2", value_parser = parse_columns)]
    columns: Columns,
    /// Fields of source and target in JSONL files
    #[arg(long, value_name = "S,T", default_value = "source,target", value_parser = parse_fields)]
    fields: [String; 2],
}

/// Columns of source and target.
type Columns = [Column; 2];

impl CorpusOptions {
    /// The corpus, or misuse if none is named.
    pub(crate) fn corpus(&self) -> Result<Corpus> {
        let Self { source, target, tsv, csv, jsonl, .. } = self;
        if let (Some(source), Some(target)) = (source, target) {
            return Ok(Corpus::LineFiles { source: source.clone(), target: target.clone() });
        }
        if let Some(path) = tsv {
            return self.tsv(path.clone());
        }
        if let Some(path) = csv {
            return Ok(self.csv(path.clone()));
        }
        if let Some(path) = jsonl {
            return Ok(self.jsonl(path.clone()));
        }
        Err(Misuse {
            message: "no corpus, expected --source and --target, --tsv, --csv or --jsonl".into(),
            hint: "for example: --source train.en --target train.de".into(),
        }
        .into())
    }

    /// A TSV file with these columns, or misuse if they have names.
    pub(crate) fn tsv(&self, path: PathBuf) -> Result<Corpus> {
        let number = |column: &Column| match column {
            Column::Number(number) => Ok(number - 1),
            Column::Name(name) => Err(Misuse {
                message: format!("--columns: {name:?}, expected a number: only CSV files have a header"),
                hint: "columns are counted from 1".into(),
            }),
        };
        let [source_column, target_column] = self.columns.each_ref().map(number);
        Ok(Corpus::Tsv { path, source_column: source_column?, target_column: target_column? })
    }

    /// A CSV file with these columns.
    pub(crate) fn csv(&self, path: PathBuf) -> Corpus {
        let [source_column, target_column] = self.columns.clone();
        Corpus::Csv { path, source_column, target_column }
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

fn parse_columns(text: &str) -> Result<Columns, String> {
    let column = |part: &str| match part.parse::<usize>() {
        Ok(0) => Err("columns are counted from 1".to_owned()),
        Ok(number) => Ok(Column::Number(number)),
        Err(_) if part.is_empty() => Err("an empty name, expected a column".to_owned()),
        Err(_) => Ok(Column::Name(part.to_owned())),
    };
    let [source, target] = two(text)?;
    Ok([column(source)?, column(target)?])
}

fn parse_fields(text: &str) -> Result<[String; 2], String> {
    two(text).map(|fields| fields.map(str::to_owned))
}
