//! The run folder: its config, the fingerprints of its text, and the check that a run can be resumed.

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

/// File of the resolved config.
pub(crate) const CONFIG: &str = "config.toml";
const PROVENANCE: &str = "run.json";
/// Locked by the process that trains.
const LOCK: &str = ".lock";
/// Folder of the finished model.
pub(crate) const MODEL: &str = "model";

/// Keys that may differ when a run is resumed: they do not change the result. On another device the rest of a run has different
/// bits, and different dropout, since batch shapes are rounded on a GPU.
const MAY_DIFFER: [&str; 16] = [
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

/// Version, seed and input files of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Provenance {
    /// Version of Polyhead.
    pub(crate) version: String,
    /// The seed.
    pub(crate) seed: u64,
    /// Training files, in order.
    pub(crate) train: Vec<Fingerprint>,
    /// Validation files.
    pub(crate) valid: Vec<Fingerprint>,
    /// Tokeniser files in the run folder.
    pub(crate) tokenizer: Vec<Fingerprint>,
}

/// A run folder.
#[derive(Debug, Clone)]
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
}

impl RunFolder {
    /// Creates a run folder; a new run needs an empty one.
    pub(crate) fn create(path: &Path, stage: Stage) -> Result<Self> {
        if stage == Stage::Fresh && path.join(PROVENANCE).exists() {
            return Err(Error::run(
                path,
                "the folder already contains a run, expected a new folder",
                format!(
                    "resume it: polyhead train {} --resume; or choose another folder: --out",
                    path.display()
                ),
            ));
        }
        if path.is_file() {
            return Err(Error::run(
                path,
                "a file, expected a folder for the run",
                "choose another with --out",
            ));
        }
        fs::create_dir_all(path).map_err(|error| Error::io(path, "create the folder", error))?;
        if let (Stage::Fresh, Some(name)) = (stage, unrelated_file(path)) {
            return Err(Error::run(
                path,
                format!("contains {name}, expected an empty folder for a new run"),
                "choose another with --out, or with `out` in the recipe",
            ));
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Locks the folder against other training processes until the file is dropped.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.path.join(LOCK);
        let file = File::create(&path).map_err(|error| Error::io(&path, "write", error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::run(
                &self.path,
                "another process is training in this folder",
                "wait for it to end, or choose another folder: --out",
            )),
            // On a file system without locks training goes ahead.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        }
    }

    /// Writes the config and the provenance. From then on the run exists.
    pub(crate) fn begin(&self, config: &RunConfig, origin: &Provenance) -> Result<()> {
        Output::save(self.path.join(CONFIG), config::dump(&config.with_absolute_paths()).as_bytes())?;
        let text = serde_json::to_string_pretty(origin).expect("an origin is always JSON") + "\n";
        Ok(Output::save(self.path.join(PROVENANCE), text.as_bytes())?)
    }

    /// Opens the folder of an existing run; `None` if there is no run.
    pub(crate) fn open(path: &Path) -> Result<Option<(Self, Provenance)>> {
        let origin = path.join(PROVENANCE);
        if !origin.exists() {
            return Ok(None);
        }
        let text = fs::read(&origin).map_err(|error| Error::io(&origin, "open", error))?;
        let origin = serde_json::from_slice(&text)
            .map_err(|error| Error::run(&origin, error.to_string(), "the file may be of another version"))?;
        Ok(Some((Self { path: path.to_owned() }, origin)))
    }

    /// Refuses to resume with a different config or different text; the message lists the differences.
    pub(crate) fn check(&self, config: &RunConfig, was: &Provenance, now: &Provenance) -> Result<()> {
        let stored = config::load(&self.path.join(CONFIG), &[])?;
        // The run's own config holds absolute paths.
        let differences = differences(&stored, &config.with_absolute_paths());
        if !differences.is_empty() {
            return Err(Error::run(
                &self.path,
                format!("the config differs from that of the run: {}", differences.join("; ")),
                "resume with the run's own config, or start another run with --out",
            ));
        }
        let all = [
            ("training text", &was.train, &now.train),
            ("validation text", &was.valid, &now.valid),
            ("tokeniser", &was.tokenizer, &now.tokenizer),
        ];
        for (what, was, now) in all {
            if was.len() != now.len() {
                let message =
                    format!("{} files of {what} now, {} when the run started", now.len(), was.len());
                return Err(Error::run(
                    &self.path,
                    message,
                    "restore the files, or start another run with --out",
                ));
            }
            for (was, now) in was.iter().zip(now) {
                if !was.is_same_content(now) {
                    let message = format!(
                        "this {what} changed since the run started: {} bytes now, {} then; SHA-256 {}… now, {}… then",
                        now.bytes,
                        was.bytes,
                        &now.sha256[..12],
                        &was.sha256[..12]
                    );
                    return Err(Error::run(
                        &now.path,
                        message,
                        "restore the file, or start another run with --out",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// A file in the folder that does not belong to a run, if there is one.
fn unrelated_file(folder: &Path) -> Option<String> {
    let names =
        fs::read_dir(folder).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    // A refused attempt leaves these behind.
    let is_own = |name: &String| {
        name == LOCK
            || Vocabulary::FILES.contains(&name.as_str())
            || Path::new(name).extension().is_some_and(|e| e == "tmp")
    };
    let mut unrelated: Vec<String> = names.filter(|name| !is_own(name)).collect();
    unrelated.sort();
    unrelated.into_iter().next()
}

/// Differences that matter, each key with both values.
fn differences(stored: &RunConfig, given: &RunConfig) -> Vec<String> {
    let flat = |config: &RunConfig| {
        let mut keys = BTreeMap::new();
        let value = Value::try_from(config).expect("a config has no key that TOML could not write");
        flatten(String::new(), &value, &mut keys);
        keys
    };
    let (mut stored_keys, mut given_keys) = (flat(stored), flat(given));
    for (keys, config) in [(&mut stored_keys, stored), (&mut given_keys, given)] {
        // Paths of corpora may differ, their languages and repetitions may not.
        let uses = config.data.train.iter().map(|corpus| (&corpus.languages, corpus.repeat));
        keys.insert("use of data.train".into(), format!("{:?}", uses.collect::<Vec<_>>()));
    }
    // If the learning rate decays until the end of the run, its length matters.
    let decays =
        matches!(given.schedule.curve, Curve::Cosine | Curve::Linear) && given.schedule.total_steps.is_none();
    let is_free = |key: &str| {
        let free = MAY_DIFFER.iter().any(|free| key == *free || key.starts_with(&format!("{free}.")));
        free && !(decays && key == "train.max_steps")
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
