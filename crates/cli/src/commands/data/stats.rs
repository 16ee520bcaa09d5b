//! `polyhead data stats`: the size of a corpus, and the padding of its batches.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_text::batch::{BatchOptions, Epoch, PairLengths};
use polyhead_text::corpus::Corpus;
use polyhead_text::doctor::{CheckOptions, SideTotals, check};
use polyhead_text::tokenizer::{Encoding, Tokenizer};
use serde::Serialize;

use crate::corpus_options::CorpusOptions;
use crate::output_format::DocumentFormat;
use crate::report::{Failure, Misuse, counted, grouped, print_json, print_text, progress};

const EXAMPLES: &str = "\
Examples:
  polyhead data stats --source train.en --target train.de
  polyhead data stats --tsv train.tsv --tokenizer tokenizer.json --format json";

/// Options of `polyhead data stats`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Stats {
    #[command(flatten)]
    corpus: CorpusOptions,
    /// Also count tokens with this tokeniser: tokenizer.json, .spm, .model or a model folder
    #[arg(short, long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// Maximum number of tokens in a batch, for the padding forecast (with --tokenizer)
    #[arg(long, value_name = "N", default_value_t = BatchOptions::default().max_tokens, requires = "tokenizer")]
    max_tokens: usize,
    #[command(flatten)]
    format: DocumentFormat,
}

/// Statistics of a corpus.
#[derive(Serialize)]
struct StatsReport {
    pairs: u64,
    source: SideStats,
    target: SideStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<TokenStats>,
}

/// Statistics of the source or target lines.
#[derive(Serialize)]
struct SideStats {
    #[serde(flatten)]
    totals: SideTotals,
    /// Percentiles 50, 90, 95, 99 and 100 of the characters per line.
    percentiles: [u64; 5],
}

const PERCENTS: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 100.0];

/// Token counts, end tokens included, and a forecast of batches.
#[derive(Serialize)]
struct TokenStats {
    source: u64,
    target: u64,
    unknown: u64,
    longest: u32,
    batches: usize,
    padding_waste: f64,
    max_tokens: usize,
}

impl Stats {
    pub(crate) fn run(self) -> Result<()> {
        let corpus = self.corpus.corpus()?;
        let tokenizer = self.tokenizer.as_ref().map(Tokenizer::load).transpose()?;
        let bar = progress("lines measured");
        if tokenizer.is_some() && !corpus.can_be_read_twice() {
            return Err(Misuse {
                message: "a pipe with --tokenizer, expected files: the corpus is read twice".into(),
                hint: "write it to a file first".into(),
            }
            .into());
        }
        let report = check(&corpus, &CheckOptions::without_content(), &mut |line| bar.set_position(line))?;
        if !report.is_readable() {
            return Err(Failure {
                message: "the corpus cannot be measured as it is".into(),
                hint: "polyhead data check shows its problems".into(),
            }
            .into());
        }
        let tokens = match tokenizer {
            Some(tokenizer) => {
                Some(self.count_tokens(&corpus, &tokenizer, &mut |line| bar.set_position(line))?)
            }
            None => None,
        };
        bar.finish_and_clear();
        let side = |totals: SideTotals| SideStats {
            percentiles: PERCENTS.map(|percent| totals.percentile(percent)),
            totals,
        };
        let statistics = StatsReport {
            pairs: report.lines,
            source: side(report.source),
            target: side(report.target),
            tokens,
        };
        if self.format.is_json() { print_json(&statistics) } else { print_text(&table(&statistics)) }
    }

    fn count_tokens(
        &self,
        corpus: &Corpus,
        tokenizer: &Tokenizer,
        progress: &mut dyn FnMut(u64),
    ) -> Result<TokenStats> {
        let unknown_id = tokenizer.unknown_id();
        let mut unknown = 0;
        let mut lengths = Vec::new();
        let mut pairs = corpus.pairs()?;
        while let Some(pair) = pairs.next_pair()? {
            let mut count = |encoding: Encoding| {
                unknown += encoding.ids.iter().filter(|&&id| Some(id) == unknown_id).count() as u64;
                encoding.len() as u32 + 1 // and the end token
            };
            let source = count(tokenizer.encode(pair.source)?);
            let target = count(tokenizer.encode_target(pair.target)?);
            lengths.push(PairLengths { source, target });
            if pair.line.is_multiple_of(256) {
                progress(pair.line);
            }
        }
        let longest = lengths.iter().map(|row| row.source.max(row.target)).max().unwrap_or(0);
        let max_tokens = self.max_tokens.max(longest as usize);
        let epoch = Epoch::plan(&lengths, BatchOptions { max_tokens, ..BatchOptions::default() }, 0)?;
        Ok(TokenStats {
            source: lengths.iter().map(|row| u64::from(row.source)).sum(),
            target: lengths.iter().map(|row| u64::from(row.target)).sum(),
            unknown,
            longest,
            batches: epoch.len(),
            padding_waste: epoch.padding().waste(),
            max_tokens,
        })
    }
}

fn table(statistics: &StatsReport) -> String {
    let (source, target) = (&statistics.source, &statistics.target);
    let mut out =
        format!("{}\n\n{:<28} {:>14} {:>14}\n", counted(statistics.pairs, "pair"), "", "source", "target");
    let mut row = |name: String, source: u64, target: u64| {
        out += &format!("{name:<28} {:>14} {:>14}\n", grouped(source), grouped(target));
    };
    row("lines".into(), source.totals.lines, target.totals.lines);
    row("words".into(), source.totals.words, target.totals.words);
    row("characters".into(), source.totals.chars, target.totals.chars);
    row("bytes".into(), source.totals.bytes, target.totals.bytes);
    for (index, percent) in PERCENTS.iter().enumerate() {
        let name = format!("characters per line, {percent:.0} % ≤");
        row(name, source.percentiles[index], target.percentiles[index]);
    }
    if let Some(tokens) = &statistics.tokens {
        row("tokens, end tokens included".into(), tokens.source, tokens.target);
        out += &format!(
            "\n{}, longest line {}\n{} of up to {} per side, {:.1} % padding\n",
            counted(tokens.unknown, "unknown token"),
            counted(u64::from(tokens.longest), "token"),
            counted(tokens.batches as u64, "batch"),
            counted(tokens.max_tokens as u64, "token"),
            100.0 * tokens.padding_waste
        );
    }
    out
}
