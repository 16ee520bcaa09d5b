//! `polyhead data clean`: the pairs without problems, and a report of every dropped pair.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_text::corpus::{Corpus, PairWriter};
use polyhead_text::doctor::{Cleaned, Cleaning, clean};
use polyhead_text::output::Output;

use super::ProblemOptions;
use crate::corpus_options::CorpusOptions;
use crate::output_format::DocumentFormat;
use crate::report::{Misuse, counted, grouped, print_json, print_text, progress};

const EXAMPLES: &str = "\
Examples:
  polyhead data clean --source train.en --target train.de \\
      --out-source clean.en --out-target clean.de --report dropped.jsonl
  polyhead data clean --tsv train.tsv.gz --out clean.tsv.gz \\
      --report dropped.jsonl.gz --keep identical,duplicate
  polyhead data clean --tsv train.tsv --languages en,de --repair \\
      --out clean.tsv --report dropped.jsonl

TSV and JSONL lines are written whole, with all other columns and fields. The report has one JSON object per dropped pair: line, reasons, details, source, target.";

/// Options of `polyhead data clean`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Clean {
    #[command(flatten)]
    corpus: CorpusOptions,
    #[command(flatten)]
    problems: ProblemOptions,
    /// Source lines to write (with --source)
    #[arg(long, value_name = "FILE", requires = "out_target")]
    out_source: Option<PathBuf>,
    /// Target lines to write (with --target)
    #[arg(long, value_name = "FILE", requires = "out_source")]
    out_target: Option<PathBuf>,
    /// Pairs to write (with --tsv or --jsonl)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["out_source", "out_target"])]
    out: Option<PathBuf>,
    /// Report of the dropped pairs and their problems, JSON lines
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// Repair wrong encoding (`CafÃ©` is `Café`) and decode character references (`&amp;` is `&`), where that is certain
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    format: DocumentFormat,
}

impl Clean {
    pub(crate) fn run(self) -> Result<()> {
        let options = self.problems.resolve(&self.corpus)?;
        let corpus = self.corpus.corpus()?;
        self.check_outputs()?;
        let kept = self.writer(&corpus)?;
        let cleaning = Cleaning { kept, report: Output::create(&self.report)?, repair: self.repair };
        let bar = progress("lines cleaned");
        let cleaned = clean(&corpus, &options, cleaning, &mut |line| bar.set_position(line))?;
        bar.finish_and_clear();
        if self.format.is_json() { print_json(&cleaned) } else { print_text(&summary(&cleaned)) }
    }

    /// Misuse if two outputs have one name: they would overwrite each other.
    fn check_outputs(&self) -> Result<()> {
        let outputs: Vec<&PathBuf> = [&self.out_source, &self.out_target, &self.out]
            .into_iter()
            .flatten()
            .chain([&self.report])
            .collect();
        match outputs.iter().enumerate().find(|(index, path)| outputs[..*index].contains(path)) {
            None => Ok(()),
            Some((_, path)) => Err(Misuse {
                message: format!("{}: named for two outputs, expected a file for each", path.display()),
                hint: "write the pairs and the report to different files".into(),
            }
            .into()),
        }
    }

    fn writer(&self, corpus: &Corpus) -> Result<PairWriter> {
        Ok(match (corpus, &self.out_source, &self.out_target, &self.out) {
            (Corpus::LineFiles { .. }, Some(source), Some(target), _) => {
                PairWriter::LineFiles { source: Output::create(source)?, target: Output::create(target)? }
            }
            (Corpus::Tsv { .. } | Corpus::Jsonl { .. }, _, _, Some(out)) => {
                PairWriter::Whole(Output::create(out)?)
            }
            _ => {
                return Err(Misuse {
                    message: "no output for this input, expected --out-source and --out-target for line files, --out \
                              for TSV and JSONL"
                        .into(),
                    hint: "see the examples of polyhead data clean --help".into(),
                }
                .into());
            }
        })
    }
}

fn summary(cleaned: &Cleaned) -> String {
    // Rounded down: 100 % means all.
    let share = |count: u64| (1000.0 * count as f64 / cleaned.read.max(1) as f64).floor() / 10.0;
    let mut out = format!(
        "{} read, {} kept ({:.1} %), {} dropped\n",
        counted(cleaned.read, "pair"),
        grouped(cleaned.kept),
        share(cleaned.kept),
        grouped(cleaned.dropped)
    );
    if cleaned.repaired > 0 {
        out += &format!("{} of the kept pairs repaired\n", grouped(cleaned.repaired));
    }
    for (&(problem, count), first) in cleaned.reasons.iter().zip(&cleaned.first) {
        let row = format!(
            "  {:<32} {:>10}  line {}: {}",
            problem.describe(),
            grouped(count),
            first.line,
            first.detail
        );
        out += row.trim_end_matches([' ', ':']);
        out.push('\n');
    }
    out
}
