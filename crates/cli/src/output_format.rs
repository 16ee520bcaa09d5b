//! `--format`: text by default, one JSON document for a command with one result, JSON lines for one with many.

use clap::{Args, ValueEnum};

use crate::choices::Choices;

/// The format of results on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Human-readable text
    Text,
    /// One JSON document
    Json,
    /// One JSON object per line
    Jsonl,
}

impl OutputFormat {
    const DOCUMENT: Choices<Self> = Choices::new(&[Self::Text, Self::Json]).answering(&[(
        "jsonl",
        "json",
        "this command has one result, so its JSON is one document: --format json",
    )]);
    const LINES: Choices<Self> =
        Choices::new(&[Self::Text, Self::Jsonl]).answering(&[("json", "jsonl", JSONL_REASON)]);
}

/// The reason why a command with many results takes `jsonl` instead of `json`.
pub(crate) const JSONL_REASON: &str = "this command prints one JSON object per line: --format jsonl";

/// `--format` of a command with one result.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DocumentFormat {
    /// Output format
    #[arg(long = "format", value_name = "FORMAT", default_value = "text", value_parser = OutputFormat::DOCUMENT)]
    output_format: OutputFormat,
}

impl DocumentFormat {
    /// True for `--format json`.
    pub(crate) fn is_json(self) -> bool {
        self.output_format == OutputFormat::Json
    }
}

/// `--format` of a command with a result per input or measurement.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LineFormat {
    /// Output format
    #[arg(long = "format", value_name = "FORMAT", default_value = "text", value_parser = OutputFormat::LINES)]
    output_format: OutputFormat,
}

impl LineFormat {
    /// True for `--format jsonl`.
    pub(crate) fn is_jsonl(self) -> bool {
        self.output_format == OutputFormat::Jsonl
    }
}
