//! `polyhead vectors train`: word vectors from raw text.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_words::vectors::{
    Architecture, Cooccurrences, Corpus, CorpusOptions, Format, GloveOptions, Loss, PhraseOptions, Progress,
    SubwordOptions, Tokenization, TrainOptions, WordVectors, train, train_glove,
};

use super::{FileFormat, check_out};
use crate::option_help::{SEED, THREADS};
use crate::report::{counted, detail, grouped, note, progress, thread_pool, time};

const EXAMPLES: &str = "\
Examples:
  polyhead vectors train corpus.txt --out vectors.txt
  polyhead vectors train *.gz --method cbow --dimensions 300 --out vectors.bin
  polyhead vectors train corpus.txt --subwords --out vectors.bin
  polyhead vectors train corpus.txt --phrases --out vectors.txt
  polyhead vectors train corpus.txt --method glove --memory 4GiB --out glove.txt

Text is read once, line by line; words of different lines are no context of each other. The same text, options and seed give the same file, bit for bit, on any number of threads.

A name that ends in .bin is written as word2vec binary, with --subwords as fastText .bin; other names as word2vec text, which gensim and fastText read.";

/// Options of `polyhead vectors train`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of the command line")]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct VectorTraining {
    /// Text, plain or gzip; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Vectors to write
    #[arg(short, long, value_name = "PATH")]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// File format [default: by the name of --out]
    #[arg(long, value_enum, value_name = "FORMAT")]
    file_format: Option<FileFormat>,
    /// Training method
    #[arg(long, value_enum, default_value_t = Method::SkipGram)]
    method: Method,
    /// Numbers of a vector
    #[arg(long, value_name = "N", default_value_t = TrainOptions::default().dimensions)]
    dimensions: usize,
    /// Passes over the text [default: 5; of GloVe, over its counts: 15]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Words on each side; skip-gram and CBOW draw a window up to it [default: 5; of GloVe: 10]
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// Negative samples of a prediction
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "hierarchical_softmax")]
    negative: usize,
    /// Hierarchical softmax instead of negative sampling
    #[arg(long)]
    hierarchical_softmax: bool,
    /// Learning rate at the beginning; it falls linearly [default: 0.025; of CBOW: 0.05; of GloVe: 0.05, with AdaGrad]
    #[arg(long, value_name = "X")]
    learning_rate: Option<f32>,
    /// Relative frequency above which occurrences are dropped at random; 0 keeps all
    #[arg(long, value_name = "X", default_value_t = TrainOptions::default().sample)]
    sample: f64,
    /// Rarer words get no vector
    #[arg(long, value_name = "N", default_value_t = CorpusOptions::default().min_count)]
    min_count: u64,
    /// Size of the vocabulary, the most frequent words [default: all]
    #[arg(long, value_name = "N")]
    max_words: Option<usize>,
    /// Words of a line: words (lower case, without punctuation) or spaces (as they are)
    #[arg(long, value_name = "HOW", default_value = "words")]
    tokenize: String,
    /// Join frequent word pairs, as in new_york
    #[arg(long)]
    phrases: bool,
    /// Score from which a pair is a phrase
    #[arg(long, value_name = "X", default_value_t = PhraseOptions::default().threshold)]
    phrase_threshold: f64,
    /// Character n-grams, which give unseen words a vector (fastText)
    #[arg(long)]
    subwords: bool,
    /// Shortest n-gram, in characters (with --subwords)
    #[arg(long, value_name = "N", default_value_t = SubwordOptions::default().min_n)]
    min_n: usize,
    /// Longest n-gram, in characters (with --subwords)
    #[arg(long, value_name = "N", default_value_t = SubwordOptions::default().max_n)]
    max_n: usize,
    /// Rows that n-grams are hashed to (with --subwords)
    #[arg(long, value_name = "N", default_value_t = SubwordOptions::default().buckets)]
    buckets: usize,
    /// Count from which a pair has full weight (GloVe)
    #[arg(long, value_name = "X", default_value_t = GloveOptions::default().x_max)]
    x_max: f32,
    /// Memory for counting pairs (GloVe), such as 512MiB or 4GiB; more goes to disk
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory)]
    memory: usize,
    #[arg(long, value_name = "N", default_value_t = 1, help = SEED)]
    seed: u64,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// Default window of GloVe.
const GLOVE_WINDOW: usize = 10;

/// A size such as `512MiB`, in bytes.
fn memory(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" | "k" | "kb" => 1 << 10,
        "mib" | "m" | "mb" => 1 << 20,
        "gib" | "g" | "gb" => 1_usize << 30,
        _ => return Err("expected a size such as 512MiB or 4GiB".into()),
    };
    let size = digits.trim().parse::<usize>().ok().and_then(|n| n.checked_mul(factor));
    size.ok_or_else(|| "expected a size such as 512MiB or 4GiB".into())
}

/// `--method`: how vectors are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Each word of a context predicts the word (word2vec)
    #[value(alias = "sg")]
    SkipGram,
    /// The mean of a context predicts the word (word2vec)
    Cbow,
    /// Products of vectors are logarithms of co-occurrence counts
    Glove,
    /// A 1 in the word's own place: the baseline
    OneHot,
}

impl VectorTraining {
    pub(crate) fn run(self) -> Result<()> {
        check_out(&self.out, self.overwrite)?;
        let tokenization = Tokenization::parse(&self.tokenize)?;
        let pool = thread_pool(self.threads)?;
        let options = self.options(pool.current_num_threads());
        options.check()?;
        let corpus = pool.install(|| self.read(tokenization))?;
        let vectors = match self.method {
            Method::OneHot => WordVectors::one_hot(corpus.vocabulary().clone()),
            Method::Glove => pool.install(|| self.glove(&corpus))?,
            Method::SkipGram | Method::Cbow => train_shown(&corpus, &options)?,
        };
        let format =
            self.file_format.map_or_else(|| Format::of_path(&self.out, &vectors), FileFormat::format);
        vectors.save(&self.out, format)?;
        if self.subwords && format != Format::FastTextBinary {
            note(
                "note: the file has no character n-grams, which give unseen words a vector: --out FILE.bin keeps them",
            );
        }
        note(&format!(
            "wrote {}: {}, {}",
            self.out.display(),
            counted(vectors.len() as u64, "word"),
            counted(vectors.dimensions() as u64, "dimension")
        ));
        Ok(())
    }

    fn options(&self, threads: usize) -> TrainOptions {
        let architecture =
            if self.method == Method::Cbow { Architecture::Cbow } else { Architecture::SkipGram };
        let loss = if self.hierarchical_softmax {
            Loss::HierarchicalSoftmax
        } else {
            Loss::NegativeSampling(self.negative)
        };
        let subwords = SubwordOptions { min_n: self.min_n, max_n: self.max_n, buckets: self.buckets };
        let defaults = TrainOptions::default();
        TrainOptions {
            dimensions: self.dimensions,
            architecture,
            loss,
            window: self.window.unwrap_or(defaults.window),
            epochs: self.epochs.unwrap_or(defaults.epochs),
            rate: self.learning_rate.unwrap_or(architecture.rate()),
            sample: self.sample,
            subwords: self.subwords.then_some(subwords),
            seed: self.seed,
            threads,
        }
    }

    /// Counts pairs, then trains on the counts.
    fn glove(&self, corpus: &Corpus) -> Result<WordVectors> {
        let defaults = GloveOptions::default();
        let options = GloveOptions {
            dimensions: self.dimensions,
            epochs: self.epochs.unwrap_or(defaults.epochs),
            rate: self.learning_rate.unwrap_or(defaults.rate),
            x_max: self.x_max,
            seed: self.seed,
        };
        let start = Instant::now();
        let bar = progress("words counted");
        let window = self.window.unwrap_or(GLOVE_WINDOW);
        let counts = Cooccurrences::count(corpus, window, self.memory, &|words| bar.set_position(words))?;
        bar.finish_and_clear();
        note(&format!(
            "{} counted in {}, {} on disk",
            counted(counts.len(), "pair"),
            time(start.elapsed().as_secs_f64()),
            counted(counts.runs() as u64, "sorted run")
        ));
        let bar = progress("epochs");
        let vectors = train_glove(corpus.vocabulary(), &counts, &options, &mut |epoch, error| {
            bar.set_position(epoch as u64);
            detail(|| format!("epoch {epoch}: mean weighted squared error {error:.5}"));
        })?;
        bar.finish_and_clear();
        Ok(vectors)
    }

    fn read(&self, tokenization: Tokenization) -> Result<Corpus> {
        let phrases = PhraseOptions { threshold: self.phrase_threshold, ..PhraseOptions::default() };
        let options = CorpusOptions {
            tokenization,
            min_count: self.min_count,
            max_words: self.max_words,
            phrases: self.phrases.then_some(phrases),
            temporary: None,
        };
        let bar = progress("words read");
        let corpus = Corpus::read(&self.files, &options, &mut |words| bar.set_position(words))?;
        bar.finish_and_clear();
        note(&format!(
            "{} of text, {} in the vocabulary",
            counted(corpus.n_words(), "word"),
            grouped(corpus.vocabulary().len() as u64)
        ));
        Ok(corpus)
    }
}

/// Trains with a progress line and a note of the speed.
fn train_shown(corpus: &Corpus, options: &TrainOptions) -> Result<WordVectors> {
    let bar = progress("words trained");
    let shown = AtomicU64::new(0);
    let start = Instant::now();
    let vectors = train(corpus, options, &|progress: Progress| {
        // The bar takes a lock; a hundred times a run is enough.
        let percent = progress.words * 100 / progress.of.max(1);
        if shown.swap(percent, Ordering::Relaxed) != percent {
            bar.set_position(progress.words);
        }
        true
    })?;
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    let words = corpus.n_words() * options.epochs as u64;
    note(&format!(
        "trained {} in {} ({}/s)",
        counted(words, "word"),
        time(seconds),
        grouped((words as f64 / seconds.max(1e-9)) as u64)
    ));
    Ok(vectors)
}
