//! `polyhead vectors nearest` and `polyhead vectors analogy`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use polyhead_words::vectors::{Cosines, Neighbour, WordVectors};
use serde_json::json;

use super::{VECTORS, load};
use crate::option_help::THREADS;
use crate::output_format::LineFormat;
use crate::report::{Misuse, thread_pool};

const NEAREST_EXAMPLES: &str = "\
Examples:
  polyhead vectors nearest vectors.txt monday
  polyhead vectors nearest vectors.txt paris london --count 5
  polyhead vectors nearest vectors.bin king --minus man --plus woman
  polyhead vectors nearest vectors.txt monday --format jsonl

Each word gives a table of words and cosines. With --plus and --minus the vectors are added and subtracted first.";

const ANALOGY_EXAMPLES: &str = "\
Examples:
  polyhead vectors analogy vectors.txt man king woman
  polyhead vectors analogy vectors.txt paris france berlin madrid spain rome

Three words a b c ask: a is to b as c is to …? The answer is the word nearest to b − a + c, of unit vectors. Several analogies may follow each other.";

/// Options that both commands have.
#[derive(Debug, Args)]
struct Comparison {
    /// Number of words to list
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    count: usize,
    /// Compare with the first words of the file only, which are the most frequent [default: all]
    #[arg(long, value_name = "N")]
    among: Option<usize>,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// Options of `polyhead vectors nearest`.
#[derive(Debug, Args)]
#[command(after_help = NEAREST_EXAMPLES)]
pub(crate) struct Nearest {
    #[arg(value_name = "VECTORS", help = VECTORS)]
    vectors: PathBuf,
    /// Words
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    /// Word to add to each query; repeatable
    #[arg(long, value_name = "WORD")]
    plus: Vec<String>,
    /// Word to subtract from each query; repeatable
    #[arg(long, value_name = "WORD")]
    minus: Vec<String>,
    #[command(flatten)]
    comparison: Comparison,
}

impl Nearest {
    pub(crate) fn run(self) -> Result<()> {
        let vectors = load(&self.vectors)?;
        let queries = self.words.iter().map(|word| self.query(&vectors, word)).collect::<Result<Vec<_>>>()?;
        self.comparison.answer(&vectors, &queries)
    }

    fn query(&self, vectors: &WordVectors, word: &str) -> Result<Query> {
        let mut sum = vectors.require(word)?.into_owned();
        let mut except: Vec<u32> = vectors.id(word).into_iter().collect();
        let mut label = word.to_owned();
        let signed =
            self.plus.iter().map(|word| (word, 1.0)).chain(self.minus.iter().map(|word| (word, -1.0)));
        for (word, sign) in signed {
            let vector = vectors.require(word)?;
            sum.iter_mut().zip(vector.iter()).for_each(|(sum, x)| *sum += sign * x);
            except.extend(vectors.id(word));
            label.push_str(&format!(" {} {word}", if sign > 0.0 { '+' } else { '−' }));
        }
        Ok(Query { label, vector: sum, except })
    }
}

/// Options of `polyhead vectors analogy`.
#[derive(Debug, Args)]
#[command(after_help = ANALOGY_EXAMPLES)]
pub(crate) struct Analogy {
    #[arg(value_name = "VECTORS", help = VECTORS)]
    vectors: PathBuf,
    /// Three words, or several times three
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    comparison: Comparison,
}

impl Analogy {
    pub(crate) fn run(self) -> Result<()> {
        if !self.words.len().is_multiple_of(3) {
            bail!(Misuse {
                message: format!("{} words, expected three for each analogy", self.words.len()),
                hint: "for example: man king woman".into(),
            });
        }
        let vectors = load(&self.vectors)?;
        let mut queries = Vec::new();
        for three in self.words.chunks_exact(3) {
            let (vector, except) = Cosines::new(&vectors, 0).analogy([&three[0], &three[1], &three[2]])?;
            let label = format!("{} is to {} as {} is to", three[0], three[1], three[2]);
            queries.push(Query { label, vector, except });
        }
        self.comparison.answer(&vectors, &queries)
    }
}

/// A query vector with its label and the words that are no answers.
struct Query {
    label: String,
    vector: Vec<f32>,
    except: Vec<u32>,
}

impl Comparison {
    fn answer(&self, vectors: &WordVectors, queries: &[Query]) -> Result<()> {
        let pool = thread_pool(self.threads)?;
        let given: Vec<(Vec<f32>, Vec<u32>)> =
            queries.iter().map(|query| (query.vector.clone(), query.except.clone())).collect();
        let found = pool.install(|| {
            Cosines::new(vectors, self.among.unwrap_or(usize::MAX)).nearest_of_all(&given, self.count)
        });
        let mut out = std::io::stdout().lock();
        for (number, (query, found)) in queries.iter().zip(found).enumerate() {
            if self.format.is_jsonl() {
                let words: Vec<_> = found
                    .iter()
                    .map(|Neighbour { id, cosine }| json!({"word": vectors.vocabulary().word(*id), "cosine": cosine}))
                    .collect();
                writeln!(out, "{}", json!({"query": query.label, "nearest": words}))?;
                continue;
            }
            if number > 0 {
                writeln!(out)?;
            }
            writeln!(out, "{}", query.label)?;
            for Neighbour { id, cosine } in found {
                writeln!(out, "  {cosine:.3}  {}", vectors.vocabulary().word(id))?;
            }
        }
        Ok(())
    }
}
