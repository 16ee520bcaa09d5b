//! `polyhead translate`: texts of the command line or lines of standard input, in order; or documents.

mod documents;
mod output;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_translate::{Engine, Evidence, Guessing, TranslateOptions, formats};

use self::documents::Document;
use self::output::Output;
use crate::decode_options::DecodeOptions;
use crate::input::{Chunks, Line, Patience};
use crate::report::{Failure, Misuse, grouped, note, progress_beside_results, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead translate --to tr 'The cat ate the mouse.'
  polyhead translate 'Kedi fareyi yedi.'
  polyhead translate --from de --to fr < book.de > book.fr
  polyhead translate --to de --n-best 3 --scores 'Good morning.'
  polyhead translate --to de --format jsonl --alignment < test.en
  polyhead translate --to de --file page.html > page.de.html
  polyhead translate --to tr --format srt < film.srt > film.tr.srt
  polyhead translate --model opus-mt-en-mul --to tur 'Good morning. How are you?'
  polyhead translate --model opus-mt-en-tr --device cuda --dtype bf16 < book.en > book.tr

Without --model, the model that comes with the program translates between English, German, French and Turkish: between two
of the last three through English. It is looked for in the folder that POLYHEAD_MODEL names, next to the program
(models/default, ../share/polyhead/models/default) and in its source. Without --from the language is guessed, of lines in
order: one is taken for another language than those before it only if that is clear. Without --to texts become English, and
English ones Turkish. What was guessed or chosen is shown on standard error, or stands in the JSON.

A line gives a line. Paragraphs are translated sentence by sentence, too long sentences in parts, and what falls into a
loop is decoded again; spaces, tabs and line breaks between sentences stay, as do lines without letters and digits. A model
that has learned it keeps web and mail addresses, @names, #tags, emoji, code, numbers and letters that it cannot spell as they are.
What was done is noted on standard error or in the JSON. With --raw a line is given to the model as it is.

--file and --format html, srt or po translate a whole document: a page with its tags, which are put back through the word
alignment, subtitles with their times, messages of gettext (those without a translation and fuzzy ones, which become fuzzy).
Scripts, styles, code, comments and what says translate=\"no\" stay as they are. Its language is guessed once.

In the text form, scores (the mean log-probability of a token, by default) and alignments (pairs of source and target
word, from 0) stand behind the translation, and --n-best puts the number of the line before it, with ||| between. In two
steps, the n best and the scores are those of the second.

Invalid UTF-8 in a line is replaced by U+FFFD and noted with the number of the line.";

/// Options of `polyhead translate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Translate {
    /// What to translate [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    #[command(flatten)]
    decode: DecodeOptions,
    /// Translations of each text, best first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    n_best: u16,
    /// Print the score of each translation
    #[arg(long)]
    scores: bool,
    /// Print which source word each target word comes from, as 0-0 1-2
    #[arg(long)]
    alignment: bool,
    /// A document to translate as a whole
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    file: Option<PathBuf>,
    /// Lines of text, or of JSON with scores, tokens and notes; or documents [default: text, of a file what its name ends with]
    #[arg(long, value_enum, hide_default_value = true)]
    format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
    Html,
    Srt,
    Po,
}

impl Translate {
    pub(crate) fn run(self) -> Result<()> {
        let options = TranslateOptions {
            n_best: self.n_best.into(),
            evidence: if self.alignment { Evidence::Alignment } else { Evidence::None },
            ..self.decode.options()?
        };
        let document_format = self.document_format()?;
        let pool = thread_pool(self.decode.threads)?;
        let engine = pool.install(|| self.decode.engine())?;
        let output = Output::new(self.format.unwrap_or(Format::Text), self.scores, self.n_best > 1);
        let work = Work { engine: &engine, options, pool: &pool, output };
        if let Some(format) = document_format {
            work.documents(format, &self.documents()?)
        } else if !self.texts.is_empty() {
            work.arguments(&self.texts)
        } else if std::io::stdin().is_terminal() {
            work.prompt()
        } else {
            work.stream()
        }
    }

    /// The format of documents; none where lines are translated.
    fn document_format(&self) -> Result<Option<formats::Format>> {
        let of_file = || self.file.as_deref().map(format_of).transpose();
        let format = match self.format {
            Some(Format::Html) => Some(formats::Format::Html),
            Some(Format::Srt) => Some(formats::Format::Srt),
            Some(Format::Po) => Some(formats::Format::Po),
            Some(Format::Text) => self.file.as_ref().map(|_| formats::Format::Text),
            Some(Format::Jsonl) if self.file.is_none() => None,
            Some(Format::Jsonl) => {
                return Err(misuse("--format jsonl with --file", "give its lines to standard input"));
            }
            None => of_file()?,
        };
        let more =
            [(self.n_best > 1, "--n-best"), (self.scores, "--scores"), (self.alignment, "--alignment")];
        match more.into_iter().find(|(is_asked, _)| *is_asked && format.is_some()) {
            Some((_, option)) => {
                Err(misuse(&format!("{option} with a document"), "a document has one translation"))
            }
            None => Ok(format),
        }
    }

    fn documents(&self) -> Result<Vec<Document>> {
        if !self.texts.is_empty() {
            let texts = self.texts.iter().enumerate();
            return Ok(texts.map(|(index, text)| Document::of_argument(text, index + 1)).collect());
        }
        let document =
            self.file.as_ref().map_or_else(Document::of_standard_input, |file| Document::of_file(file))?;
        Ok(vec![document])
    }
}

/// The format of a file by its name.
fn format_of(file: &Path) -> Result<formats::Format> {
    let Some(ending) = file.extension() else { return Ok(formats::Format::Text) };
    formats::Format::from_extension(file).ok_or_else(|| {
        let found = format!("{}: a file that ends with .{}", file.display(), ending.display());
        let message = format!("{found}, expected .txt, .html, .htm, .xhtml, .srt, .po or .pot");
        Misuse { message, hint: "--format says what it is; text translates it line by line".into() }.into()
    })
}

fn misuse(found: &str, hint: &str) -> anyhow::Error {
    Misuse { message: format!("{found}, expected one of the two"), hint: hint.into() }.into()
}

/// A model at work.
struct Work<'a> {
    engine: &'a Engine,
    options: TranslateOptions,
    pool: &'a rayon::ThreadPool,
    output: Output,
}

impl Work<'_> {
    fn arguments(mut self, texts: &[String]) -> Result<()> {
        self.translate(texts)?;
        self.output.finish();
        Ok(())
    }

    /// Line by line, with a prompt.
    fn prompt(mut self) -> Result<()> {
        for number in 1.. {
            let mut stderr = std::io::stderr();
            write!(stderr, "> ").and_then(|()| stderr.flush())?;
            let mut bytes = Vec::new();
            if std::io::stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let text = Line::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes), number).noted();
            self.translate(&[text])?;
        }
        note("");
        Ok(())
    }

    /// Lines as they come, many at a time where they come fast.
    fn stream(mut self) -> Result<()> {
        self.options.guessing = Guessing::InOrder;
        let start = Instant::now();
        let bar = progress_beside_results("tokens");
        let (mut lines, mut tokens) = (0_u64, 0_u64);
        // A GPU wants full batches; a person who types wants an answer to every line.
        let is_typed = std::io::stdin().is_terminal();
        let patience = if self.engine.device().policy().takes_turns && !is_typed {
            Patience::UntilFull
        } else {
            Patience::None
        };
        for chunk in Chunks::of_standard_input(self.engine.texts_at_once(), patience)? {
            let chunk = chunk?;
            let texts: Vec<String> = chunk.into_iter().map(Line::noted).collect();
            lines += texts.len() as u64;
            tokens += self.translate(&texts)?;
            bar.set_message(format!("{} lines, tokens", grouped(lines)));
            bar.set_position(tokens);
        }
        bar.finish_and_clear();
        self.output.finish();
        if std::io::stderr().is_terminal() {
            let seconds = start.elapsed().as_secs_f64();
            let rate = grouped((tokens as f64 / seconds) as u64);
            note(&format!(
                "{} lines, {} tokens in {seconds:.1} s ({rate} tokens/s)",
                grouped(lines),
                grouped(tokens)
            ));
        }
        Ok(())
    }

    /// Translates and writes some texts; the number of tokens.
    fn translate(&mut self, texts: &[String]) -> Result<u64> {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = match self.pool.install(|| self.engine.translate(&borrowed, &self.options)) {
            Ok(found) => found,
            Err(error) => return self.up_to_the_fault(&borrowed, error),
        };
        self.output.write(&borrowed, &found)?;
        self.options.follow(&borrowed);
        Ok(found.iter().map(|translation| translation.best().tokens as u64).sum())
    }

    /// Writes what comes before the text that cannot be translated, and names its line.
    fn up_to_the_fault(&mut self, texts: &[&str], error: polyhead_translate::Error) -> Result<u64> {
        let is_request = matches!(error, polyhead_translate::Error::Request { .. });
        if !is_request || self.engine.translate(&[], &self.options).is_err() {
            // No text is at fault.
            return Err(error.into());
        }
        for &text in texts {
            match self.pool.install(|| self.engine.translate(&[text], &self.options)) {
                Ok(found) => self.output.write(&[text], &found)?,
                Err(error) => {
                    let message = format!("line {}: {error}", self.output.written() + 1);
                    return Err(Failure { message, hint: error.hint() }.into());
                }
            }
        }
        Err(error.into())
    }
}
