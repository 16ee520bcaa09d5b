//! `polyhead tokenizer train`: a `tokenizer.json` from raw text.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use polyhead_text::Error;
use polyhead_text::lines::Lines;
use polyhead_text::tokenizer::{
    Case, Form, HuggingFace, Kind, Normalization, Progress, SpecialTokens, Split, TrainOptions, Unknown,
    train,
};

use crate::report::{Misuse, note, progress, thread_pool};

const EXAMPLES: &str = "Examples:
  polyhead tokenizer train --input train.en --input train.de --vocab-size 8000 --out tokenizer.json
  polyhead tokenizer train --input train.tsv.gz --kind unigram --unknown bytes --tag '<2de>' --tag '<2fr>' --out t.json
  polyhead tokenizer train --source train.en --target train.de --separate --out tokenizers/

A .tsv file is read column by column, each column a text of its own; of a .jsonl file every text field counts; .gz is
unpacked. Python's `tokenizers` reads the result and gives the same ids (with encode_special_tokens = True, as here: a
special token inside a text is text).";

/// Options of `polyhead tokenizer train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Train {
    /// Text to train on; may be given several times
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["source", "target"])]
    input: Vec<PathBuf>,
    /// Source side, for a shared tokeniser, or with --separate for one of its own
    #[arg(long, value_name = "FILE", requires = "target")]
    source: Vec<PathBuf>,
    /// Target side
    #[arg(long, value_name = "FILE", requires = "source")]
    target: Vec<PathBuf>,
    /// Train two tokenisers, source.json and target.json in the folder --out
    #[arg(long, requires = "source")]
    separate: bool,
    /// Columns of .tsv files that count, from 1 [default: all]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    columns: Vec<usize>,
    /// Fields of .jsonl files that count [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    fields: Vec<String>,
    /// File to write (with --separate a folder)
    #[arg(long, short, value_name = "PATH")]
    out: PathBuf,
    /// What the pieces are
    #[arg(long, value_enum, default_value_t = KindName::Bpe)]
    kind: KindName,
    /// Entries of the vocabulary, special tokens included [default: 8000; for words and characters: all]
    #[arg(long, value_name = "N")]
    vocab_size: Option<usize>,
    /// What becomes of characters without an entry
    #[arg(long, value_enum, default_value_t = UnknownName::Token)]
    unknown: UnknownName,
    /// Unicode normal form
    #[arg(long, value_enum, default_value_t = FormName::Nfkc)]
    normalize: FormName,
    /// Turn capitals into small letters
    #[arg(long)]
    lowercase: bool,
    /// Where words end (for --kind word)
    #[arg(long, value_enum, default_value_t = SplitName::Whitespace)]
    split: SplitName,
    /// Share of the text's characters that get entries of their own
    #[arg(long, value_name = "X", default_value_t = TrainOptions::default().character_coverage)]
    character_coverage: f64,
    /// Rarest pair or word that gets an entry
    #[arg(long, value_name = "N", default_value_t = TrainOptions::default().min_frequency)]
    min_frequency: u64,
    /// A special token such as <2tr>; may be given several times
    #[arg(long, value_name = "TOKEN")]
    tag: Vec<String>,
    /// Threads to count with [default: all cores]; the result is the same for any number
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindName {
    Bpe,
    Unigram,
    Wordpiece,
    Word,
    #[value(alias = "character")]
    Char,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum UnknownName {
    /// `<unk>`
    Token,
    /// Their UTF-8 bytes: every character has an id
    Bytes,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormName {
    None,
    Nfc,
    Nfkc,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SplitName {
    /// At spaces: for text that is already tokenised
    Whitespace,
    /// At spaces and around punctuation
    Punctuation,
}

impl Train {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| self.train())
    }

    fn train(&self) -> Result<()> {
        let options = self.options();
        if self.separate {
            if self.source.is_empty() {
                bail!(Misuse {
                    message: "--separate without two sides, expected --source and --target".into(),
                    hint: "one tokeniser for all text needs no --separate".into(),
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
                message: "no text given, expected --input, or --source and --target".into(),
                hint: "for instance: --input train.en --input train.de".into(),
            });
        }
        save(&self.learn(&files, &options)?, &self.out)
    }

    fn options(&self) -> TrainOptions {
        let kind = match self.kind {
            KindName::Bpe => Kind::Bpe,
            KindName::Unigram => Kind::Unigram,
            KindName::Wordpiece => Kind::WordPiece,
            KindName::Word => Kind::Word,
            KindName::Char => Kind::Character,
        };
        let all_entries = matches!(kind, Kind::Word | Kind::Character);
        let form = match self.normalize {
            FormName::None => Form::None,
            FormName::Nfc => Form::Nfc,
            FormName::Nfkc => Form::Nfkc,
        };
        let case = if self.lowercase { Case::Lower } else { Case::Keep };
        let defaults = TrainOptions::default();
        TrainOptions {
            kind,
            vocab_size: self.vocab_size.or(if all_entries { None } else { defaults.vocab_size }),
            unknown: match self.unknown {
                UnknownName::Token => Unknown::Token,
                UnknownName::Bytes => Unknown::Bytes,
            },
            normalization: Normalization { form, case },
            word_split: match self.split {
                SplitName::Whitespace => Split::Whitespace,
                SplitName::Punctuation => Split::Punctuation,
            },
            character_coverage: self.character_coverage,
            min_frequency: self.min_frequency,
            special: SpecialTokens { tags: self.tag.clone(), ..SpecialTokens::default() },
            ..defaults
        }
    }
}

impl Train {
    fn learn(&self, files: &[PathBuf], options: &TrainOptions) -> Result<HuggingFace> {
        // A wrong name should not surface after minutes of work on the files before it.
        for file in files.iter().filter(|file| *file != Path::new("-")) {
            std::fs::metadata(file).map_err(|error| Error::io(file, "open", error))?;
        }
        let bar = progress("lines read");
        let mut texts = Texts {
            files: files.iter().rev().cloned().collect(),
            open: None,
            waiting: Vec::new(),
            columns: &self.columns,
            fields: &self.fields,
        };
        let lines = std::iter::from_fn(|| {
            bar.inc(1);
            texts.next()
        });
        let tokenizer = train(lines, options, &mut |advance| match advance {
            Progress::Counted(words) => {
                bar.set_position(0);
                bar.set_message(format!("{words} distinct words, steps"));
            }
            Progress::Advanced => bar.inc(1),
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
        "wrote {} ({}, {} entries)",
        path.display(),
        tokenizer.model_name(),
        tokenizer.vocab_size()
    ));
    Ok(())
}

/// All texts of several files: lines, columns of TSV, text fields of JSONL.
struct Texts<'a> {
    /// Files to come, the next one last.
    files: Vec<PathBuf>,
    open: Option<Lines>,
    /// Texts of the current line, the next one last.
    waiting: Vec<String>,
    /// Columns of TSV that count, from 1; all if empty.
    columns: &'a [usize],
    /// Fields of JSONL that count; all if empty.
    fields: &'a [String],
}

impl Iterator for Texts<'_> {
    type Item = polyhead_text::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.waiting.pop() {
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
                        Ok(texts) => self.waiting = texts,
                        Err(error) => return Some(Err(error)),
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The texts of one line, the first one last.
fn texts_of(
    line: String,
    lines: &Lines,
    columns: &[usize],
    fields: &[String],
) -> polyhead_text::Result<Vec<String>> {
    let name = lines.path().file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    match name.strip_suffix(".gz").unwrap_or(&name).rsplit('.').next() {
        Some("tsv") => {
            let counts = |index: usize| columns.is_empty() || columns.contains(&(index + 1));
            let texts = line.split('\t').enumerate().filter(|(index, _)| counts(*index));
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
            expected: "an object with text fields".into(),
            hint: "a file of plain lines should not be called .jsonl".into(),
        })?;
    let texts = object.into_iter().filter_map(|(field, value)| match value {
        serde_json::Value::String(text) if fields.is_empty() || fields.contains(&field) => Some(text),
        _ => None,
    });
    Ok(texts.collect())
}
