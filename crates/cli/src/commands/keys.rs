//! `polyhead keys`: the API key file of a server.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use polyhead_serve::front::keys;
use polyhead_text::output::Output;
use serde_json::json;

use crate::output_format::DocumentFormat;
use crate::report::{Failure, Misuse, note, print_json, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead keys add keys.txt shop
  polyhead keys add keys.txt app --per-minute 600
  polyhead keys list keys.txt
  polyhead keys remove keys.txt shop

The file has one line per key: its name, the hash of the key and its limit of requests per minute. A key is printed once, when it is added; the file has only its hash. To replace a lost key, remove it and add it again.";

const ADD_EXAMPLES: &str = "\
Examples:
  polyhead keys add keys.txt shop
  polyhead keys add keys.txt app --per-minute 600

The key is printed once, on standard output; the file has only its hash. A running server reads the file again on SIGHUP.";

const LIST_EXAMPLES: &str = "\
Examples:
  polyhead keys list keys.txt
  polyhead keys list keys.txt --format json

Each key gives one line: its name and its limit of requests per minute, separated by a tab; - is the server's own limit.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  polyhead keys remove keys.txt shop";

/// Subcommands of `polyhead keys`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Keys {
    /// Create a key, print it, and add its hash to the file
    Add(AddKey),
    /// List the names of the keys and their limits
    List(ListKeys),
    /// Remove a key from the file
    Remove(RemoveKey),
}

/// Options of `polyhead keys add`.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddKey {
    /// Key file; created, readable by its owner only, if it does not exist
    #[arg(value_name = "KEYS")]
    file: PathBuf,
    /// Name of the key in logs: letters, digits, `.`, `_` and `-`
    #[arg(value_name = "NAME")]
    name: String,
    /// Maximum number of requests per minute [default: the server's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    per_minute: Option<u32>,
}

/// Options of `polyhead keys list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListKeys {
    /// Key file
    #[arg(value_name = "KEYS")]
    file: PathBuf,
    #[command(flatten)]
    format: DocumentFormat,
}

/// Options of `polyhead keys remove`.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveKey {
    /// Key file
    #[arg(value_name = "KEYS")]
    file: PathBuf,
    /// Name of the key
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

impl AddKey {
    fn run(self) -> Result<()> {
        if !keys::is_name(&self.name) {
            let message =
                format!("the name {:?}, expected 1 to 64 letters, digits, `.`, `_` and `-`", self.name);
            return Err(Misuse { message, hint: "for example: shop or app-2".into() }.into());
        }
        let mut text = read(&self.file, MissingFile::Empty)?;
        if keys::Keys::parse(&text, &self.file)?.iter().any(|key| *key.name == *self.name) {
            let message = format!("{}: a key {:?} already exists", self.file.display(), self.name);
            let hint = "choose another name, or remove that key first".into();
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
        note(&format!("note: the key is shown only this time; {} has its hash", self.file.display()));
        Ok(())
    }
}

impl ListKeys {
    fn run(self) -> Result<()> {
        let keys = keys::Keys::parse(&read(&self.file, MissingFile::Failure)?, &self.file)?;
        if let Some(warning) = keys::warning(&self.file) {
            note(&format!("warning: {warning}"));
        }
        if self.format.is_json() {
            let list = keys.iter().map(|key| json!({ "name": *key.name, "per_minute": key.per_minute }));
            return print_json(&list.collect::<Vec<_>>());
        }
        let lines = keys.iter().map(|key| {
            let rate = key.per_minute.map_or("-".into(), |rate| rate.to_string());
            format!("{}\t{rate}\n", key.name)
        });
        print_text(&lines.collect::<String>())
    }
}

impl RemoveKey {
    fn run(self) -> Result<()> {
        let text = read(&self.file, MissingFile::Failure)?;
        let Some(rest) = keys::without(&text, &self.name) else {
            let message = format!("{}: no key {:?}", self.file.display(), self.name);
            return Err(Failure { message, hint: "polyhead keys list shows the names".into() }.into());
        };
        Ok(Output::save_private(&self.file, rest.as_bytes())?)
    }
}

/// Treatment of a key file that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFile {
    Empty,
    Failure,
}

fn read(path: &Path, missing: MissingFile) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && missing == MissingFile::Empty => {
            Ok(String::new())
        }
        found => {
            Ok(found.map_err(|source| polyhead_serve::Error::KeyFile { path: path.to_owned(), source })?)
        }
    }
}
