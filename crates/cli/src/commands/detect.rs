//! `polyhead detect`: which language texts are in, and training of an identifier for other languages.

mod train;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_text::language::{Guess, Identifier};
use polyhead_text::lines::Lines;
use serde_json::{Map, json};

use self::train::Train;
use crate::report::note;

/// What is printed for a text without letters: the code of ISO 639 for "undetermined".
const UNDETERMINED: &str = "und";

const EXAMPLES: &str = "\
Examples:
  polyhead detect 'The cat ate the mouse.' 'je suis etudiant'
  polyhead detect < mixed.txt | cut -f1 | sort | uniq -c
  polyhead detect --among en,de --format jsonl 'Hand'
  polyhead detect --train en=en.txt --train es=es.txt.gz --train it=en-it.tsv.gz:2 --out three.ngrams
  polyhead detect --model three.ngrams 'el gato'

A text gives a line: the language's code, its probability and the text, with tabs between. Upper case, missing accents,
digits, addresses and e-mails do not matter; a text without letters is `und`, undetermined. A text in a language that the
identifier does not know is taken for one that it knows.

A file to train on has a text on each line, plain or gzip; of a .tsv file the column stands behind the name, from 1.

Invalid UTF-8 in a line is replaced by U+FFFD and noted with the number of the line.";

/// Options of `polyhead detect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Detect {
    /// Texts to look at [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// Languages that come into question [default: all that the identifier knows]
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    among: Vec<String>,
    /// Another identifier [default: the built-in one of en, de, fr, tr]
    #[arg(long, short, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Lines of text, or of JSON with the probabilities of all languages
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    train: Train,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

impl Detect {
    pub(crate) fn run(self) -> Result<()> {
        if self.train.is_asked_for()? {
            return self.train.run();
        }
        let loaded = self.model.as_ref().map(Identifier::load).transpose()?;
        let identifier = loaded.as_ref().unwrap_or_else(|| Identifier::four());
        let all: Vec<&str> = identifier.codes().collect();
        let asked: Vec<&str> = self.among.iter().map(|code| code.trim()).collect();
        let among = if asked.is_empty() { all } else { asked };
        identifier.check_codes(&among)?;
        let mut work = Work { identifier, among, format: self.format, written: 0 };
        if self.texts.is_empty() {
            return work.standard_input();
        }
        self.texts.iter().try_for_each(|text| work.write(text))
    }
}

/// An identifier at work.
struct Work<'a> {
    identifier: &'a Identifier,
    among: Vec<&'a str>,
    format: Format,
    /// Texts written so far.
    written: u64,
}

impl Work<'_> {
    /// Line by line, each answered at once.
    fn standard_input(&mut self) -> Result<()> {
        let is_typed = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let prompt = || {
            let mut stderr = std::io::stderr();
            if is_typed { write!(stderr, "> ").and_then(|()| stderr.flush()) } else { Ok(()) }
        };
        prompt()?;
        let mut lines = Lines::open("-")?;
        while let Some(bytes) = lines.next_bytes()? {
            let text = String::from_utf8_lossy(bytes);
            if let Err(error) = std::str::from_utf8(bytes) {
                let byte = error.valid_up_to() + 1;
                let line = self.written + 1;
                note(&format!(
                    "note: standard input:{line}: invalid UTF-8 at byte {byte}, replaced by U+FFFD"
                ));
            }
            self.write(&text)?;
            prompt()?;
        }
        if is_typed {
            note("");
        }
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let guess = self.identifier.identify_among(text, &self.among);
        let line = match self.format {
            Format::Text => line(text, guess.as_ref()),
            Format::Jsonl => json_line(self.written, text, guess),
        };
        writeln!(std::io::stdout().lock(), "{line}")?;
        self.written += 1;
        Ok(())
    }
}

fn line(text: &str, guess: Option<&Guess>) -> String {
    // A text gives a line, whatever stands in it.
    let breaks = ['\n', '\r'];
    let text =
        if text.contains(breaks) { Cow::Owned(text.replace(breaks, " ")) } else { Cow::Borrowed(text) };
    let (code, probability) = guess.map_or((UNDETERMINED, 0.0), |guess| (&guess.code, guess.probability));
    format!("{code}\t{probability:.3}\t{text}")
}

fn json_line(id: u64, text: &str, guess: Option<Guess>) -> String {
    let Some(Guess { code, probability, others }) = guess else {
        return json!({"id": id, "text": text, "code": null, "probability": null, "probabilities": {}})
            .to_string();
    };
    let mut all = Map::new();
    all.insert(code.clone(), probability.into());
    all.extend(others.into_iter().map(|(code, probability)| (code, probability.into())));
    json!({"id": id, "text": text, "code": code, "probability": probability, "probabilities": all})
        .to_string()
}
