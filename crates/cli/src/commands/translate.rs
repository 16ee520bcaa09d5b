//! `polyhead translate`: texts of the command line, lines of standard input, or documents.

mod documents;
mod lexical;
mod output;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_translate::{Engine, Evidence, LanguageDetection, TranslateOptions, formats};

use self::documents::Document;
use self::lexical::{LexicalConstraints, LexicalOptions};
use self::output::Output;
use crate::choices::Choices;
use crate::decode_options::DecodeOptions;
use crate::input::{ChunkFill, Chunks, InputLine, count_lines, joined_sources};
use crate::line_progress::{LineCounts, LineProgress};
use crate::output_format::JSONL_REASON;
use crate::report::{Failure, Misuse, counted, grouped, note, thread_pool};
use crate::window::Window;

const EXAMPLES: &str = "\
Examples:
  polyhead translate --to tr 'The cat ate the mouse.'
  polyhead translate 'Kedi fareyi yedi.'
  polyhead translate --from de --to fr < book.de > book.fr
  polyhead translate --to de --n-best 3 --scores 'Good morning.'
  polyhead translate --to de --lexical fraß 'The cat ate the mouse.'
  polyhead translate --to de --lexical-file terms.tsv < test.en
  polyhead translate --to de --format jsonl --alignment < test.en
  polyhead translate -m runs/copying/model --copy 'Marlow knows the teacher .'
  polyhead translate -m runs/sources/model 'Guten Morgen.' 'Bonjour.'
  polyhead translate -m runs/sources/model < de-fr.tsv > en
  polyhead translate --to de --file page.html > page.de.html
  polyhead translate --to tr --format srt < film.srt > film.tr.srt
  polyhead translate -m opus-mt-en-mul --to tur 'Good morning. How are you?'
  polyhead translate --to tr --device cuda --dtype bf16 < book.en > book.tr

Models: the bundled model translates between English, German, French and Turkish; routes between the last three go via English. Without --model, the model is that of the folder POLYHEAD_MODEL, of models/default next to the program, the installed one with the name default (see polyhead models), that of ../share/polyhead/models/default, or that of the source tree. --model takes a model folder, a run folder or the name of an installed model.

Languages: without --from the source language is detected; a line is taken to be in another language than the lines before it only if that is clear. Without --to, text is translated into English, and English text into the language of the locale (LC_ALL, LC_MESSAGES or LANG) if the model translates into it, otherwise into Turkish. Text in a language or script that the model does not translate is noted. The languages are printed on standard error and are part of the JSON.

Text: each line gives one line, which is written as soon as it and those before it are done; line ends stay as they are, \\n or \\r\\n. On a terminal, lines done, the speed and the remaining time are shown. Ctrl-C keeps the lines that are done. Paragraphs are translated sentence by sentence; sentences that are too long are split, and repetition loops are decoded again. White space between sentences and lines without letters or digits are preserved. A model trained for it also preserves web and mail addresses, @names, #tags, emoji, code, numbers and characters that are not in its vocabulary. Notes about this are printed on standard error and are part of the JSON; a sentence whose translation has a low probability is noted as unsure. --raw passes each line to the model unchanged.

Documents: --file, or --format html, srt or po, translates a whole document. Hard-wrapped paragraphs of plain text are joined and wrapped again. HTML tags are placed by word alignment; alt, title, placeholder and the description are translated, and lang is set. Subtitles keep their times; a sentence may continue in the next subtitle. Untranslated and fuzzy gettext messages are translated and marked fuzzy, with their accelerators (_File). Scripts, styles, code, comments and elements with translate=\"no\" are preserved. The language of a document is detected once.

Words: --lexical and --lexical-file name words or phrases that translations must contain (grid beam search). They may appear in any order and be inflected further. Each text must be one sentence; the search takes longer with each token of a phrase.

Several sources: for a model of several sources (model.sources in its recipe), a line has its texts with tabs between, and as many arguments are the texts of one source. A missing text is left empty. Lines are translated as with --raw, and --alignment is that with the first text.

Columns: in text output, --scores appends the score (by default the mean log-probability per token) and --alignment the pairs of source and target word, counted from 0; --copy appends the copied words, each with its source and target word and, in JSON, the share of copying in its probability; --n-best puts the line number first. Columns are separated by |||. On a route via English, n-best lists and scores are those of the second hop.

Invalid UTF-8 is replaced by U+FFFD, with a note that names the line.";

/// Options of `polyhead translate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Translate {
    /// Texts to translate [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    #[command(flatten)]
    decode: DecodeOptions,
    #[command(flatten)]
    lexical: LexicalOptions,
    /// Number of translations of each text, best first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    n_best: u16,
    /// Print the score of each translation
    #[arg(long)]
    scores: bool,
    /// Print the word alignment, such as 0-0 1-2
    #[arg(long)]
    alignment: bool,
    /// Print the words that a model with copying copied, and their source words, such as Zorblax 1-2
    #[arg(long, conflicts_with = "alignment")]
    copy: bool,
    /// Document to translate as a whole; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    file: Option<PathBuf>,
    /// Output format, or the format of a document [default: text; for --file, by its extension]
    #[arg(long, value_name = "FORMAT", value_parser = TranslationFormat::CHOICES)]
    format: Option<TranslationFormat>,
}

/// `--format`: lines of text or JSON, or a document format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TranslationFormat {
    /// One line per text
    Text,
    /// One JSON object per text, with scores, tokens and notes
    Jsonl,
    /// HTML document
    Html,
    /// SubRip subtitles
    Srt,
    /// gettext messages
    Po,
}

impl TranslationFormat {
    const CHOICES: Choices<Self> = Choices::new(&[Self::Text, Self::Jsonl, Self::Html, Self::Srt, Self::Po])
        .answering(&[("json", "jsonl", JSONL_REASON)]);
}

impl Translate {
    pub(crate) fn run(self) -> Result<()> {
        let options = TranslateOptions {
            n_best: self.n_best.into(),
            evidence: match (self.alignment, self.copy) {
                (true, _) => Evidence::Alignment,
                (false, true) => Evidence::Copies,
                (false, false) => Evidence::None,
            },
            ..self.decode.options()?
        };
        let document_format = self.document_format()?;
        if self.texts.is_empty() && self.file.is_none() && self.decode.reads_standard_input() {
            let message = "standard input is read twice (texts and --shortlist), expected once".into();
            return Err(Misuse { message, hint: "name a file for --shortlist".into() }.into());
        }
        let lexical = self.lexical.read()?;
        let pool = thread_pool(self.decode.threads)?;
        let engine = pool.install(|| self.decode.engine())?;
        let format = self.format.unwrap_or(TranslationFormat::Text);
        let output = Output::new(format, self.scores, self.n_best > 1);
        let job = TranslationJob { engine: &engine, options, lexical, pool: &pool, output };
        if let Some(format) = document_format {
            job.documents(format, &self.documents()?)
        } else if !self.texts.is_empty() {
            let texts = joined_sources(self.texts, engine.model().n_sources());
            job.arguments(&texts)
        } else if std::io::stdin().is_terminal() {
            job.prompt()
        } else {
            job.stream()
        }
    }

    /// The document format; none where lines are translated.
    fn document_format(&self) -> Result<Option<formats::Format>> {
        let of_file = || self.file.as_deref().map(format_of).transpose();
        let format = match self.format {
            Some(TranslationFormat::Html) => Some(formats::Format::Html),
            Some(TranslationFormat::Srt) => Some(formats::Format::Srt),
            Some(TranslationFormat::Po) => Some(formats::Format::Po),
            Some(TranslationFormat::Text) => self.file.as_ref().map(|_| formats::Format::Text),
            Some(TranslationFormat::Jsonl) if self.file.is_none() => None,
            Some(TranslationFormat::Jsonl) => {
                return Err(misuse("--format jsonl with --file", "pass the lines on standard input"));
            }
            None => of_file()?,
        };
        if self.lexical.is_given() && format.is_some() {
            return Err(misuse("--lexical with a document", "pass its sentences one per line"));
        }
        let more = [
            (self.n_best > 1, "--n-best"),
            (self.scores, "--scores"),
            (self.alignment, "--alignment"),
            (self.copy, "--copy"),
        ];
        match more.into_iter().find(|(is_given, _)| *is_given && format.is_some()) {
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
        Ok(vec![Document::of_file(self.file.as_deref().unwrap_or(Path::new("-")))?])
    }
}

/// The document format of a file, by its extension; plain text where it has none.
fn format_of(file: &Path) -> Result<formats::Format> {
    let Some(ending) = file.extension() else { return Ok(formats::Format::Text) };
    formats::Format::from_extension(file).ok_or_else(|| {
        let found = format!("{}: extension .{}", file.display(), ending.display());
        let message = format!("{found}, expected .txt, .html, .htm, .xhtml, .srt, .po or .pot");
        Misuse { message, hint: "convert it to one of these; --format text is for plain text, and translates markup as if it were words".into() }.into()
    })
}

fn misuse(found: &str, hint: &str) -> anyhow::Error {
    Misuse { message: format!("{found}, expected one of the two"), hint: hint.into() }.into()
}

/// A loaded model with the options and the output of one call.
struct TranslationJob<'a> {
    engine: &'a Engine,
    options: TranslateOptions,
    lexical: LexicalConstraints,
    pool: &'a rayon::ThreadPool,
    output: Output,
}

impl TranslationJob<'_> {
    /// Translates the texts of the command line.
    fn arguments(mut self, texts: &[String]) -> Result<()> {
        self.translate(texts)?;
        self.output.finish();
        Ok(())
    }

    /// Translates lines that a person types, with a prompt.
    fn prompt(mut self) -> Result<()> {
        for number in 1.. {
            let mut stderr = std::io::stderr();
            write!(stderr, "> ").and_then(|()| stderr.flush())?;
            let mut bytes = Vec::new();
            if std::io::stdin().lock().read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let text = InputLine::new(bytes.strip_suffix(b"\n").unwrap_or(&bytes), number).into_text();
            self.translate(&[text])?;
        }
        note("");
        Ok(())
    }

    /// Translates standard input, a window of lines at a time: those that have arrived, as many as take about a second.
    fn stream(mut self) -> Result<()> {
        self.options.detection = LanguageDetection::InOrder;
        let has_terminal = std::io::stderr().is_terminal();
        // Results that are printed to the same terminal show the progress themselves.
        let mut progress = if !has_terminal || std::io::stdout().is_terminal() {
            LineProgress::hidden()
        } else {
            LineProgress::new(count_lines())
        };
        let device = self.engine.device();
        let mut window = Window::for_device(&device, self.pool.current_num_threads());
        let fill = ChunkFill::for_device(&device);
        let mut chunks = Chunks::of_standard_input(self.engine.texts_at_once(), fill)?;
        chunks.set_max_lines(window.lines());
        while let Some(chunk) = chunks.next() {
            let (start, chunk) = (Instant::now(), chunk?);
            self.output.set_line_ends(chunk.iter().map(InputLine::end).collect());
            let texts: Vec<String> = chunk.into_iter().map(InputLine::into_text).collect();
            let tokens = self.translate(&texts)?;
            progress.add(texts.len() as u64, tokens);
            window.took(texts.len(), start.elapsed());
            chunks.set_max_lines(window.lines());
        }
        let LineCounts { lines, tokens, .. } = progress.finish();
        self.output.finish();
        if has_terminal {
            let seconds = progress.seconds();
            let rate = grouped((tokens as f64 / seconds) as u64);
            note(&format!(
                "{}, {} in {seconds:.1} s ({rate} tokens/s)",
                counted(lines, "line"),
                counted(tokens, "token")
            ));
        }
        Ok(())
    }

    /// Translates and prints some texts; returns the number of target tokens.
    fn translate(&mut self, texts: &[String]) -> Result<u64> {
        let mut tokens = 0;
        for (range, lexical) in self.lexical.groups(self.output.written(), texts.len())? {
            self.options.lexical = lexical;
            tokens += self.translate_alike(&texts[range])?;
        }
        Ok(tokens)
    }

    /// Translates and prints texts with the same options; returns the number of target tokens.
    fn translate_alike(&mut self, texts: &[String]) -> Result<u64> {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = match self.pool.install(|| self.engine.translate(&borrowed, &self.options)) {
            Ok(found) => found,
            Err(error) => return self.translate_until_error(&borrowed, error),
        };
        self.output.write(&borrowed, &found)?;
        self.options.follow(&borrowed);
        Ok(found.iter().map(|translation| translation.best().tokens as u64).sum())
    }

    /// Prints the translations before the text that cannot be translated, and returns an error that names its line.
    fn translate_until_error(&mut self, texts: &[&str], error: polyhead_translate::Error) -> Result<u64> {
        let is_request = matches!(error, polyhead_translate::Error::Request(_));
        if !is_request || self.engine.translate(&[], &self.options).is_err() {
            // The options are wrong, not a text.
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
