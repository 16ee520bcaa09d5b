//! `polyhead vectors evaluate`: scores on similarity and analogy test sets.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_words::vectors::WordVectors;
use polyhead_words::vectors::evaluate::{Answers, TestSet, analogies, similarity};
use serde_json::{Value, json};

use super::{VECTORS, load};
use crate::option_help::THREADS;
use crate::output_format::LineFormat;
use crate::report::{detail, grouped, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead vectors evaluate vectors.txt EN-WS-353-ALL.txt EN-MEN-TR-3k.txt.gz
  polyhead vectors evaluate vectors.bin questions-words.txt --verbose
  polyhead vectors evaluate vectors.txt EN-SIMLEX-999.txt --format jsonl

A similarity set has two words and a score on each line; the result is 100 times Spearman's correlation of cosines with scores. An analogy set has four words on each line, in sections that begin with `: name`; the result is the percentage of correct answers (3CosAdd). Words are looked up as they are, then in lower case; pairs and analogies with unknown words are left out and counted.";

/// Options of `polyhead vectors evaluate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VectorEvaluation {
    #[arg(value_name = "VECTORS", help = VECTORS)]
    vectors: PathBuf,
    /// Test sets, plain or gzip
    #[arg(value_name = "FILE", required = true)]
    sets: Vec<PathBuf>,
    /// Answers of analogies are among the first words of the file
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    among: usize,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

impl VectorEvaluation {
    pub(crate) fn run(self) -> Result<()> {
        let sets =
            self.sets.iter().map(|path| Ok((path, TestSet::load(path)?))).collect::<Result<Vec<_>>>()?;
        let vectors = load(&self.vectors)?;
        let pool = thread_pool(self.threads)?;
        for (path, set) in sets {
            let (text, json) = pool.install(|| self.score(&vectors, &name(path), &set));
            let line = if self.format.is_jsonl() { json.to_string() } else { text };
            writeln!(std::io::stdout(), "{line}")?;
        }
        Ok(())
    }

    fn score(&self, vectors: &WordVectors, name: &str, set: &TestSet) -> (String, Value) {
        match set {
            TestSet::Similarity(pairs) => {
                let found = similarity(vectors, pairs);
                let text = format!(
                    "{name}\t{:.1}\tSpearman\t{} of {} pairs",
                    100.0 * found.spearman,
                    grouped(found.found as u64),
                    grouped(found.pairs as u64)
                );
                let json = json!({
                    "set": name, "spearman": found.spearman, "pearson": found.pearson,
                    "found": found.found, "pairs": found.pairs,
                });
                (text, json)
            }
            TestSet::Analogies(sections, questions) => {
                let answers = analogies(vectors, sections.len(), questions, self.among);
                let mut total = Answers::default();
                for (section, answers) in sections.iter().zip(&answers) {
                    detail(|| {
                        format!(
                            "  {section}: {:.1} % of {}",
                            100.0 * answers.accuracy(),
                            grouped(answers.found as u64)
                        )
                    });
                    total.correct += answers.correct;
                    total.found += answers.found;
                    total.questions += answers.questions;
                }
                let text = format!(
                    "{name}\t{:.1}\t% correct\t{} of {} analogies",
                    100.0 * total.accuracy(),
                    grouped(total.found as u64),
                    grouped(total.questions as u64)
                );
                let by_section: serde_json::Map<String, Value> = sections
                    .iter()
                    .zip(&answers)
                    .map(|(name, answers)| (name.clone(), json!(answers)))
                    .collect();
                let json = json!({
                    "set": name, "accuracy": total.accuracy(), "correct": total.correct,
                    "found": total.found, "questions": total.questions, "sections": by_section,
                });
                (text, json)
            }
        }
    }
}

/// The file's name without its extensions.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".txt").unwrap_or(name).to_owned()
}
