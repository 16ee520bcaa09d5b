//! `polyhead keys`: the file of API keys that a server reads.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use polyhead_serve::front::keys;
use polyhead_text::output::Output;

use crate::report::{Failure, Misuse, note, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead keys add keys.txt shop
  polyhead keys add keys.txt app --per-minute 600
  polyhead keys list keys.txt
  polyhead keys remove keys.txt shop

The file has a line for each key: its name, the hash of the key, and how many requests a minute it may make. A key is shown once,
when it is added; the file does not hold it, so that a lost one is replaced by removing and adding.";

/// What to do with the keys.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Keys {
    /// Make a key, print it, and add its hash to the file
    Add(Add),
    /// List the names in the file, with their requests a minute
    List(List),
    /// Take a key out of the file
    Remove(Remove),
}

/// Options of `polyhead keys add`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Add {
    /// The file; a new one is its owner's alone
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the owner of the key is called in logs: letters, digits, `.`, `_` and `-`
    #[arg(value_name = "NAME")]
    name: String,
    /// Requests a minute [default: those that the server allows everybody]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_minute: Option<u32>,
}

/// Options of `polyhead keys list`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Options of `polyhead keys remove`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Remove {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The name of the key
    #[arg(value_name = "NAME")]
    name: String,
}

impl Keys {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Add(add) => add.run(),
            Self::List(list) => list.run(),
            Self::Remove(remove) => remove.run(),
        }
    }
}

impl Add {
    fn run(self) -> Result<()> {
        if !keys::is_name(&self.name) {
            let message =
                format!("the name {:?}, expected 1 to 64 letters, digits, `.`, `_` and `-`", self.name);
            return Err(Misuse { message, hint: "such as shop or app-2".into() }.into());
        }
        let mut text = read(&self.file, Missing::Empty)?;
        if keys::Keys::parse(&text, &self.file)?.iter().any(|key| *key.name == *self.name) {
            let message = format!("{}: there is a key {:?} already", self.file.display(), self.name);
            let hint = "choose another name, or remove that one first".into();
            return Err(Failure { message, hint }.into());
        }
        let key = keys::new_key()?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &keys::line(&self.name, &key, self.per_minute);
        text.push('\n');
        Output::save_private(&self.file, text.as_bytes())?;
        print_text(&format!("{key}\n"))?;
        note(&format!("This is the only time that the key is shown; {} has its hash.", self.file.display()));
        Ok(())
    }
}

impl List {
    fn run(self) -> Result<()> {
        let keys = keys::Keys::parse(&read(&self.file, Missing::Failure)?, &self.file)?;
        if let Some(warning) = keys::warning(&self.file) {
            note(&format!("warning: {warning}"));
        }
        let lines = keys.iter().map(|key| {
            let rate = key.per_minute.map_or("-".into(), |rate| rate.to_string());
            format!("{}\t{rate}\n", key.name)
        });
        print_text(&lines.collect::<String>())
    }
}

impl Remove {
    fn run(self) -> Result<()> {
        let text = read(&self.file, Missing::Failure)?;
        let Some(kept) = keys::without(&text, &self.name) else {
            let message = format!("{}: no key {:?}", self.file.display(), self.name);
            return Err(Failure { message, hint: "polyhead keys list shows the names".into() }.into());
        };
        Ok(Output::save_private(&self.file, kept.as_bytes())?)
    }
}

/// What a file that is not there means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Empty,
    Failure,
}

fn read(path: &Path, missing: Missing) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && missing == Missing::Empty => Ok(String::new()),
        found => {
            Ok(found.map_err(|source| polyhead_serve::Error::KeyFile { path: path.to_owned(), source })?)
        }
    }
}
