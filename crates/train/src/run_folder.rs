//! The folder of a run: its config, what it was made from, and whether it can go on with what there is now.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use polyhead_text::output::Output;
use serde::{Deserialize, Serialize};
use toml::Value;

use crate::config::{self, RunConfig};
use crate::fingerprint::Fingerprint;
use crate::preparation::Stage;
use crate::schedule::Curve;
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

/// The resolved config.
pub(crate) const CONFIG: &str = "config.toml";
const ORIGIN: &str = "run.json";
/// Held by the process that trains.
const LOCK: &str = ".lock";
/// The finished model.
pub(crate) const MODEL: &str = "model";

/// Keys that may differ when a run goes on: they do not change what is learned. On another device the rest of a run has other
/// bits, and other dropout, since a card rounds the sizes of batches.
const FREE: [&str; 16] = [
    "out",
    "train.device",
    "train.dtype",
    "train.max_steps",
    "train.max_epochs",
    "train.max_minutes",
    "train.log_every",
    "train.divergence",
    "validation.patience",
    "validation.every_minutes",
    "checkpoint",
    "data.source_language",
    "data.target_language",
    // Files are compared by their content.
    "data.train",
    "data.valid",
    "tokenizer.file",
];

/// What a run was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The version of this program.
    pub(crate) version: String,
    /// The seed.
    pub(crate) seed: u64,
    /// Files of training text, in order.
    pub(crate) train: Vec<Fingerprint>,
    /// Files of validation text.
    pub(crate) valid: Vec<Fingerprint>,
    /// Files of the tokeniser in the run folder.
    pub(crate) tokenizer: Vec<Fingerprint>,
}

/// A run folder.
#[derive(Debug, Clone)]
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
}

impl RunFolder {
    /// Makes the folder of a run, which a run that has not begun must have for itself.
    pub(crate) fn create(path: &Path, stage: Stage) -> Result<Self> {
        if stage == Stage::Fresh && path.join(ORIGIN).exists() {
            return Err(Error::run(
                path,
                "a run is there already, expected a new folder",
                format!(
                    "go on with it: polyhead train {} --resume; or name another folder: --out",
                    path.display()
                ),
            ));
        }
        if path.is_file() {
            return Err(Error::run(path, "a file, expected a folder for the run", "name another with --out"));
        }
        fs::create_dir_all(path).map_err(|error| Error::io(path, "create the folder", error))?;
        if let (Stage::Fresh, Some(name)) = (stage, foreign(path)) {
            return Err(Error::run(
                path,
                format!("holds {name}, expected an empty folder for a new run"),
                "name another with --out, or with `out` in the recipe",
            ));
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Keeps other processes from training here until the file is dropped.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.path.join(LOCK);
        let file = File::create(&path).map_err(|error| Error::io(&path, "write", error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::run(
                &self.path,
                "another process trains here, expected a folder of its own for each",
                "wait for it, or name another folder: --out",
            )),
            // A file system without locks does not keep anybody from training.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        }
    }

    /// Writes what the run is and what it is made from. The run has begun when this is there.
    pub(crate) fn begin(&self, config: &RunConfig, origin: &Origin) -> Result<()> {
        Output::save(self.path.join(CONFIG), config::dump(&config.with_absolute_paths()).as_bytes())?;
        let text = serde_json::to_string_pretty(origin).expect("an origin is always JSON") + "\n";
        Ok(Output::save(self.path.join(ORIGIN), text.as_bytes())?)
    }

    /// The folder of a run that is to go on; none where it has not begun yet.
    pub(crate) fn open(path: &Path) -> Result<Option<(Self, Origin)>> {
        let origin = path.join(ORIGIN);
        if !origin.exists() {
            return Ok(None);
        }
        let text = fs::read(&origin).map_err(|error| Error::io(&origin, "open", error))?;
        let origin = serde_json::from_slice(&text)
            .map_err(|error| Error::run(&origin, error.to_string(), "was it written by another version?"))?;
        Ok(Some((Self { path: path.to_owned() }, origin)))
    }

    /// Refuses to go on with another config or other text than the run began with; says what differs.
    pub(crate) fn check(&self, config: &RunConfig, was: &Origin, now: &Origin) -> Result<()> {
        let stored = config::load(&self.path.join(CONFIG), &[])?;
        // The run's own config holds absolute paths.
        let differences = differences(&stored, &config.with_absolute_paths());
        if !differences.is_empty() {
            return Err(Error::run(
                &self.path,
                format!("the config is not the run's: {}", differences.join("; ")),
                "go on with the run's own config, or begin another run with --out",
            ));
        }
        let all = [
            ("training text", &was.train, &now.train),
            ("validation text", &was.valid, &now.valid),
            ("tokeniser", &was.tokenizer, &now.tokenizer),
        ];
        for (what, was, now) in all {
            if was.len() != now.len() {
                let message = format!("{} files of {what} now, {} when the run began", now.len(), was.len());
                return Err(Error::run(
                    &self.path,
                    message,
                    "restore the files, or begin another run with --out",
                ));
            }
            for (was, now) in was.iter().zip(now) {
                if !was.is_same_content(now) {
                    let message = format!(
                        "this {what} changed since the run began: {} bytes now, {} then; SHA-256 {}… now, {}… then",
                        now.bytes,
                        was.bytes,
                        &now.sha256[..12],
                        &was.sha256[..12]
                    );
                    return Err(Error::run(
                        &now.path,
                        message,
                        "restore the file, or begin another run with --out",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A file that no run has left here, if there is one.
fn foreign(folder: &Path) -> Option<String> {
    let names =
        fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    // An attempt that was refused leaves these behind.
    let is_own = |name: &String| {
        name == LOCK
            || Vocabulary::FILES.contains(&name.as_str())
            || Path::new(name).extension().is_some_and(|e| e == "tmp")
    };
    let mut foreign: Vec<String> = names.filter(|name| !is_own(name)).collect();
    foreign.sort();
    foreign.into_iter().next()
}

/// Keys that differ and matter, each with both values.
fn differences(stored: &RunConfig, given: &RunConfig) -> Vec<String> {
    let flat = |config: &RunConfig| {
        let mut keys = BTreeMap::new();
        let value = Value::try_from(config).expect("a config has no key that TOML could not write");
        flatten(String::new(), &value, &mut keys);
        keys
    };
    let (mut stored_keys, mut given_keys) = (flat(stored), flat(given));
    for (keys, config) in [(&mut stored_keys, stored), (&mut given_keys, given)] {
        // Paths of corpora may differ, not what they are used for.
        let uses = config.data.train.iter().map(|corpus| (&corpus.languages, corpus.repeat));
        keys.insert("use of data.train".into(), format!("{:?}", uses.collect::<Vec<_>>()));
    }
    // Where the fall of the rate ends with the run, its length matters.
    let falls =
        matches!(given.schedule.curve, Curve::Cosine | Curve::Linear) && given.schedule.total_steps.is_none();
    let is_free = |key: &str| {
        let free = FREE.iter().any(|free| key == *free || key.starts_with(&format!("{free}.")));
        free && !(falls && key == "train.max_steps")
    };
    let none = || "nothing".to_owned();
    let mut keys: Vec<&String> = stored_keys.keys().chain(given_keys.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| !is_free(key) && stored_keys.get(*key) != given_keys.get(*key))
        .map(|key| {
            let was = stored_keys.get(key).cloned().unwrap_or_else(none);
            let now = given_keys.get(key).cloned().unwrap_or_else(none);
            format!("{key} is {now}, was {was}")
        })
        .collect()
}

fn flatten(key: String, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(key, value, into);
            }
        }
        other => drop(into.insert(key, other.to_string())),
    }
}
