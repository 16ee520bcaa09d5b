//! Typed access to the keys of a JSON object; an unknown key is reported together with the nearest known one.

use std::path::Path;

use polyhead_tensor::ops::linear::Activation;
use polyhead_text::spelling::nearest;
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Longest part of an unknown key that a message quotes, in characters.
const MAX_QUOTED_CHARS: usize = 100;

/// The keys of a file.
pub(super) struct Keys<'a> {
    path: &'a Path,
    map: Map<String, Value>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(path: &'a Path, map: Map<String, Value>) -> Self {
        Self { path, map }
    }

    /// Checks that every key is one of `known` or one that does not describe a model.
    pub(super) fn check_known(&self, known: &[&str]) -> Result<()> {
        let is_known = |key: &str| known.contains(&key) || ignored().any(|other| other == key);
        let Some(key) = self.map.keys().find(|key| !is_known(key)) else {
            return Ok(());
        };
        // Keeps the message short.
        let key: String = key.chars().take(MAX_QUOTED_CHARS).collect();
        let nearest = nearest(&key, known.iter().copied()).unwrap_or_default();
        let message = format!("unknown key {key:?}; the nearest known one is {nearest:?}");
        Err(Error::file(self.path, message, "correct or remove it: it would have no effect"))
    }

    /// A size; `default` if the key is missing.
    pub(super) fn size(&self, key: &str, default: usize) -> Result<usize> {
        self.get(key, default, "a whole number", |value| {
            value.as_u64().and_then(|size| usize::try_from(size).ok())
        })
    }

    /// Height and width: a size, or a list of two; twice `default` if the key is missing.
    pub(super) fn sides(&self, key: &str, default: usize) -> Result<[usize; 2]> {
        self.get(key, [default; 2], "a size, or height and width", |value| {
            let size = |value: &Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
            match value.as_array().map(Vec::as_slice) {
                None => size(value).map(|size| [size; 2]),
                Some([height, width]) => Some([size(height)?, size(width)?]),
                Some(_) => None,
            }
        })
    }

    /// A token id, or a list of one; `default` if the key is missing.
    pub(super) fn id(&self, key: &str, default: u32) -> Result<u32> {
        self.get(key, default, "an id", |value| {
            let value = match value.as_array().map(Vec::as_slice) {
                Some([single]) => single,
                _ => value,
            };
            value.as_u64().and_then(|id| u32::try_from(id).ok())
        })
    }

    /// A token id, or the first of a list; `None` if the key is missing.
    pub(super) fn first_id(&self, key: &str) -> Result<Option<u32>> {
        self.get(key, None, "an id", |value| {
            let value = value.as_array().map_or(Some(value), |list| list.first())?;
            value.as_u64().and_then(|id| u32::try_from(id).ok()).map(Some)
        })
    }

    /// A list of names; `None` if the key is missing.
    pub(super) fn names(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.get(key, None, "a list of names", |value| {
            let names = value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<Vec<String>>>().map(Some)
        })
    }

    /// Labels by their numbers, as `{"0": "no", "1": "yes"}`; `None` if the key is missing.
    pub(super) fn labels(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.get(key, None, "a label for each number from 0 on", |value| {
            let map = value.as_object()?;
            let label = |index: usize| map.get(&index.to_string())?.as_str().map(str::to_owned);
            (0..map.len()).map(label).collect::<Option<Vec<String>>>().map(Some)
        })
    }

    /// True if a key has this text.
    pub(super) fn is(&self, key: &str, text: &str) -> bool {
        self.map.get(key).is_some_and(|value| value == text)
    }

    /// A number; `default` if the key is missing.
    pub(super) fn number(&self, key: &str, default: f32) -> Result<f32> {
        self.get(key, default, "a number", |value| value.as_f64().map(|number| number as f32))
    }

    /// A boolean; `default` if the key is missing.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.get(key, default, "true or false", Value::as_bool)
    }

    /// An activation by one of its names; `default` if the key is missing.
    pub(super) fn activation(&self, key: &str, default: &str) -> Result<Activation> {
        let name = self.get(key, default.to_owned(), "a name", |value| value.as_str().map(str::to_owned))?;
        Activation::from_name(&name).ok_or_else(|| {
            let known: Vec<&str> = Activation::names().collect();
            let message = format!("{key} is {name:?}, expected one of {}", known.join(", "));
            Error::file(self.path, message, "this activation is not supported")
        })
    }

    /// Rejects every value of `key` but `only`; `why` names the unsupported feature.
    pub(super) fn only(&self, key: &str, only: &Value, why: &str) -> Result<()> {
        match self.map.get(key) {
            Some(value) if !value.is_null() && value != only => {
                let message = format!("{key} is {value}, expected {only}");
                Err(Error::file(self.path, message, format!("{why} is not supported")))
            }
            _ => Ok(()),
        }
    }

    fn get<T>(&self, key: &str, default: T, expected: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => read(value).ok_or_else(|| {
                let message = format!("{key} is {value}, expected {expected}");
                Error::file(self.path, message, "correct the value")
            }),
        }
    }
}

/// Keys that do not describe a model.
pub(super) fn ignored() -> impl Iterator<Item = &'static str> {
    include_str!("ignored.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}
