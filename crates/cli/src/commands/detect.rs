//! `polyhead detect`: the language of texts, and training of an identifier for other languages.

mod train;

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_text::language::{Detection, Identifier};
use polyhead_text::lines::Lines;
use serde_json::{Map, json};

use self::train::IdentifierTraining;
use crate::output_format::LineFormat;
use crate::report::note;

/// The code of a text without letters: "undetermined" in ISO 639.
const UNDETERMINED: &str = "und";

const EXAMPLES: &str = "\
Examples:
  polyhead detect 'The cat ate the mouse.' 'je suis etudiant'
  polyhead detect < mixed.txt | cut -f1 | sort | uniq -c
  polyhead detect --among en,de --format jsonl 'Hand'
  polyhead detect --train en=en.txt --train es=es.txt.gz \\
      --train it=en-it.tsv.gz:2 --out three.ngrams
  polyhead detect --model three.ngrams 'el gato'

Each text gives one line: language code, probability and text, separated by tabs; --format jsonl has the probabilities of all languages. Case, missing accents, digits and web and mail addresses are ignored. A text without letters is `und`, undetermined. A text in a language that the identifier was not trained on is assigned to one that it was trained on.

A training file has one text per line, plain or gzip; the column of a .tsv file, counted from 1, follows its name.

Invalid UTF-8 is replaced by U+FFFD, with a note that names the line.";

/// Options of `polyhead detect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Detect {
    /// Texts whose language to detect [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// Languages to choose from [default: all of the identifier]
    #[arg(long, value_name = "CODE,…", value_delimiter = ',')]
    among: Vec<String>,
    /// Language identifier [default: the built-in one for en, de, fr, tr]
    #[arg(short, long, value_name = "IDENTIFIER")]
    model: Option<PathBuf>,
    #[command(flatten)]
    format: LineFormat,
    #[command(flatten)]
    train: IdentifierTraining,
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
        let mut job = DetectionJob { identifier, among, format: self.format, written: 0 };
        if self.texts.is_empty() {
            return job.standard_input();
        }
        self.texts.iter().try_for_each(|text| job.write(text))
    }
}

/// An identifier with the options of one call.
struct DetectionJob<'a> {
    identifier: &'a Identifier,
    among: Vec<&'a str>,
    format: LineFormat,
    /// Number of texts that were printed.
    written: u64,
}

impl DetectionJob<'_> {
    /// Identifies the lines of standard input, each at once.
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
        let line = if self.format.is_jsonl() {
            json_line(self.written, text, guess)
        } else {
            line(text, guess.as_ref())
        };
        writeln!(std::io::stdout().lock(), "{line}")?;
        self.written += 1;
        Ok(())
    }
}

fn line(text: &str, guess: Option<&Detection>) -> String {
    // Line breaks inside a text become spaces.
    let breaks = ['\n', '\r'];
    let text =
        if text.contains(breaks) { Cow::Owned(text.replace(breaks, " ")) } else { Cow::Borrowed(text) };
    let (code, probability) = guess.map_or((UNDETERMINED, 0.0), |guess| (&guess.code, guess.probability));
    format!("{code}\t{probability:.3}\t{text}")
}

fn json_line(id: u64, text: &str, guess: Option<Detection>) -> String {
    let Some(Detection { code, probability, others }) = guess else {
        return json!({"id": id, "text": text, "code": null, "probability": null, "probabilities": {}})
            .to_string();
    };
    let mut all = Map::new();
    all.insert(code.clone(), probability.into());
    all.extend(others.into_iter().map(|(code, probability)| (code, probability.into())));
    json!({"id": id, "text": text, "code": code, "probability": probability, "probabilities": all})
        .to_string()
}
