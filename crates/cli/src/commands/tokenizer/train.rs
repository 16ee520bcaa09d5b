//! `polyhead tokenizer train`: a `tokenizer.json` trained on raw text.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use polyhead_text::Error;
use polyhead_text::lines::Lines;
use polyhead_text::tokenizer::{
    HuggingFace, LetterCase, Normalization, SpecialTokens, TokenizerKind, TrainOptions, TrainProgress,
    UnicodeForm, UnknownCharacters, WordSplit, train,
};

use crate::option_help::THREADS;
use crate::report::{Failure, Misuse, counted, note, progress, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead tokenizer train --input train.en --input train.de --vocab-size 8000 \\
      --out tokenizer.json
  polyhead tokenizer train --input train.tsv.gz --kind unigram --unknown bytes \\
      --tag '<2de>' --tag '<2fr>' --out t.json
  polyhead tokenizer train --source train.en --target train.de --separate \\
      --out tokenizers/

Every column of a .tsv file and every string field of a .jsonl file is a text; .gz is decompressed. Python's `tokenizers` loads the result and gives the same ids (with encode_special_tokens = True, as here: a special token inside a text is encoded as text).";

/// Options of `polyhead tokenizer train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct TokenizerTraining {
    /// Text to train on; - is standard input; repeatable
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["source", "target"])]
    input: Vec<PathBuf>,
    /// Source text (with --target); repeatable
    #[arg(long, value_name = "FILE", requires = "target")]
    source: Vec<PathBuf>,
    /// Target text (with --source); repeatable
    #[arg(long, value_name = "FILE", requires = "source")]
    target: Vec<PathBuf>,
    /// Train two tokenisers, source.json and target.json in the folder --out
    #[arg(long, requires = "source")]
    separate: bool,
    /// Columns of .tsv files to use, counted from 1 [default: all]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    columns: Vec<usize>,
    /// Fields of .jsonl files to use [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    fields: Vec<String>,
    /// Tokeniser to write (with --separate, a folder)
    #[arg(short, long, value_name = "PATH")]
    out: PathBuf,
    /// Replace an existing tokeniser
    #[arg(long)]
    overwrite: bool,
    /// Algorithm
    #[arg(long, value_enum, default_value_t = Algorithm::Bpe)]
    kind: Algorithm,
    /// Vocabulary size, special tokens included [default: 8000; for word and char, all]
    #[arg(long, value_name = "N")]
    vocab_size: Option<usize>,
    /// Encoding of characters that are not in the vocabulary
    #[arg(long, value_enum, default_value_t = UnknownName::Token)]
    unknown: UnknownName,
    /// Unicode normalisation form
    #[arg(long, value_enum, default_value_t = NormalForm::Nfkc)]
    normalize: NormalForm,
    /// Convert to lower case
    #[arg(long)]
    lowercase: bool,
    /// Word boundaries, for --kind word
    #[arg(long, value_enum, default_value_t = WordBoundary::Whitespace)]
    split: WordBoundary,
    /// Share of the text's characters that the vocabulary covers
    #[arg(long, value_name = "X", default_value_t = TrainOptions::default().character_coverage)]
    character_coverage: f64,
    /// Minimum frequency of a merge or word
    #[arg(long, value_name = "N", default_value_t = TrainOptions::default().min_frequency)]
    min_frequency: u64,
    /// Special token to add, such as <2tr>; repeatable
    #[arg(long, value_name = "TOKEN")]
    tag: Vec<String>,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

/// `--kind`: the tokenisation algorithm.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Algorithm {
    /// Byte-pair encoding (Sennrich et al. 2016)
    Bpe,
    /// Unigram language model (Kudo 2018)
    Unigram,
    /// WordPiece, as in BERT
    Wordpiece,
    /// Whole words
    Word,
    /// Characters
    #[value(alias = "character")]
    Char,
}

/// `--unknown`: the encoding of characters that are not in the vocabulary.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum UnknownName {
    /// `<unk>`
    Token,
    /// UTF-8 bytes, so that every character can be encoded
    Bytes,
}

/// `--normalize`: the Unicode normalisation form.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum NormalForm {
    None,
    Nfc,
    Nfkc,
}

/// `--split`: the word boundaries.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum WordBoundary {
    /// At white space, for tokenised text
    Whitespace,
    /// At white space and around punctuation
    Punctuation,
}

impl TokenizerTraining {
    pub(crate) fn run(self) -> Result<()> {
        self.check_out()?;
        thread_pool(self.threads)?.install(|| self.train())
    }

    /// Failure if a tokeniser exists at `--out` and `--overwrite` is missing.
    fn check_out(&self) -> Result<()> {
        let names = if self.separate { &["source.json", "target.json"][..] } else { &[""] };
        let paths =
            names.iter().map(|name| if name.is_empty() { self.out.clone() } else { self.out.join(name) });
        match paths.into_iter().find(|path| path.is_file() && !self.overwrite) {
            None => Ok(()),
            Some(path) => bail!(Failure {
                message: format!("{}: already exists, expected a new file", path.display()),
                hint: "name another file with --out, or add --overwrite".into(),
            }),
        }
    }

    fn train(&self) -> Result<()> {
        let options = self.options();
        if self.separate {
            if self.source.is_empty() {
                bail!(Misuse {
                    message: "--separate without --source and --target, expected both".into(),
                    hint: "for one tokeniser of all text, leave out --separate".into(),
                });
            }
            let trained = [self.learn(&self.source, &options)?, self.learn(&self.target, &options)?];
            std::fs::create_dir_all(&self.out)
                .map_err(|error| Error::io(&self.out, "create the folder", error))?;
            for (tokenizer, name) in trained.iter().zip(["source.json", "target.json"]) {
                save(tokenizer, &self.out.join(name))?;
            }
            return Ok(());
        }
        let files: Vec<PathBuf> =
            [&self.input, &self.source, &self.target].into_iter().flatten().cloned().collect();
        if files.is_empty() {
            bail!(Misuse {
                message: "no text, expected --input, or --source and --target".into(),
                hint: "for example: --input train.en --input train.de".into(),
            });
        }
        save(&self.learn(&files, &options)?, &self.out)
    }

    fn options(&self) -> TrainOptions {
        let kind = match self.kind {
            Algorithm::Bpe => TokenizerKind::Bpe,
            Algorithm::Unigram => TokenizerKind::Unigram,
            Algorithm::Wordpiece => TokenizerKind::WordPiece,
            Algorithm::Word => TokenizerKind::Word,
            Algorithm::Char => TokenizerKind::Character,
        };
        let all_entries = matches!(kind, TokenizerKind::Word | TokenizerKind::Character);
        let form = match self.normalize {
            NormalForm::None => UnicodeForm::None,
            NormalForm::Nfc => UnicodeForm::Nfc,
            NormalForm::Nfkc => UnicodeForm::Nfkc,
        };
        let case = if self.lowercase { LetterCase::Lower } else { LetterCase::Keep };
        let defaults = TrainOptions::default();
        TrainOptions {
            kind,
            vocab_size: self.vocab_size.or(if all_entries { None } else { defaults.vocab_size }),
            unknown: match self.unknown {
                UnknownName::Token => UnknownCharacters::Token,
                UnknownName::Bytes => UnknownCharacters::Bytes,
            },
            normalization: Normalization { form, case },
            word_split: match self.split {
                WordBoundary::Whitespace => WordSplit::Whitespace,
                WordBoundary::Punctuation => WordSplit::Punctuation,
            },
            character_coverage: self.character_coverage,
            min_frequency: self.min_frequency,
            special: SpecialTokens { tags: self.tag.clone(), ..SpecialTokens::default() },
            ..defaults
        }
    }
}

impl TokenizerTraining {
    /// Trains one tokeniser.
    fn learn(&self, files: &[PathBuf], options: &TrainOptions) -> Result<HuggingFace> {
        // A missing file is reported before the files ahead of it are read.
        for file in files.iter().filter(|file| *file != Path::new("-")) {
            std::fs::metadata(file).map_err(|error| Error::io(file, "open", error))?;
        }
        let bar = progress("lines read");
        let mut texts = TextReader {
            files: files.iter().rev().cloned().collect(),
            open: None,
            pending: Vec::new(),
            columns: &self.columns,
            fields: &self.fields,
        };
        let lines = std::iter::from_fn(|| {
            bar.inc(1);
            texts.next()
        });
        let tokenizer = train(lines, options, &mut |advance| match advance {
            TrainProgress::Counted(words) => {
                bar.set_position(0);
                bar.set_message(format!("{words} distinct words, steps"));
            }
            TrainProgress::Advanced => bar.inc(1),
        });
        bar.finish_and_clear();
        tokenizer.map_err(|error| match error {
            Error::Empty { .. } => {
                let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                Error::Empty { what: names.join(", ") }.into()
            }
            error => error.into(),
        })
    }
}

fn save(tokenizer: &HuggingFace, path: &Path) -> Result<()> {
    tokenizer.save(path)?;
    note(&format!(
        "wrote {} ({}, {})",
        path.display(),
        tokenizer.model_name(),
        counted(tokenizer.vocab_size() as u64, "entry")
    ));
    Ok(())
}

/// All texts of several files: lines, columns of TSV, string fields of JSONL.
struct TextReader<'a> {
    /// Remaining files, the next one last.
    files: Vec<PathBuf>,
    open: Option<Lines>,
    /// Remaining texts of the current line, the next one last.
    pending: Vec<String>,
    /// Columns of TSV to use, from 1; all if empty.
    columns: &'a [usize],
    /// Fields of JSONL to use; all if empty.
    fields: &'a [String],
}

impl Iterator for TextReader<'_> {
    type Item = polyhead_text::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.pending.pop() {
                return Some(Ok(text));
            }
            let lines = match &mut self.open {
                Some(lines) => lines,
                None => match Lines::open(self.files.pop()?) {
                    Ok(lines) => self.open.insert(lines),
                    Err(error) => return Some(Err(error)),
                },
            };
            match lines.next_text() {
                Ok(None) => self.open = None,
                Ok(Some(line)) => {
                    let line = line.to_owned();
                    match texts_of(line, lines, self.columns, self.fields) {
                        Ok(texts) => self.pending = texts,
                        Err(error) => return Some(Err(error)),
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The texts of one line in reverse order.
fn texts_of(
    line: String,
    lines: &Lines,
    columns: &[usize],
    fields: &[String],
) -> polyhead_text::Result<Vec<String>> {
    let name = lines.path().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    match name.strip_suffix(".gz").unwrap_or(&name).rsplit('.').next() {
        Some("tsv") => {
            let is_used = |index: usize| columns.is_empty() || columns.contains(&(index + 1));
            let texts = line.split('\t').enumerate().filter(|(index, _)| is_used(*index));
            return Ok(texts
                .map(|(_, text)| text.to_owned())
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect());
        }
        Some("jsonl") => {}
        _ => return Ok(vec![line]),
    }
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&line).map_err(|error| Error::Format {
            path: lines.path().to_owned(),
            line: Some(lines.line()),
            found: format!("no JSON object ({error})"),
            expected: "an object with string fields".into(),
            hint: "a file of plain lines needs another extension than .jsonl".into(),
        })?;
    let texts = object.into_iter().filter_map(|(field, value)| match value {
        serde_json::Value::String(text) if fields.is_empty() || fields.contains(&field) => Some(text),
        _ => None,
    });
    Ok(texts.collect())
}
