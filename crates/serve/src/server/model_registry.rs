//! The model registry: models are loaded on demand, and unloaded when another needs the memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polyhead_text::language::Identifier;
use polyhead_translate::languages::{Languages, name, short};
use polyhead_translate::{Engine, LoadOptions};
use serde::Serialize;

use crate::front::process::resident_bytes;
use crate::{Error, Result};

/// A model folder to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFolder {
    /// Name by which clients choose it.
    pub name: String,
    /// Path of the folder.
    pub folder: PathBuf,
}

/// A loaded model; running requests keep it alive while a reload replaces it.
#[derive(Debug)]
pub struct LoadedModel {
    /// The model.
    pub engine: Engine,
    /// Name by which clients choose it.
    pub name: String,
    /// Serial number, unique among all models ever loaded.
    pub serial: u64,
}

/// All models, in the order of the options.
#[derive(Debug)]
pub(crate) struct ModelRegistry {
    slots: Vec<ModelSlot>,
    options: LoadOptions,
    /// Memory limit of the process in bytes.
    max_memory: Option<u64>,
    /// Held while a model is loaded: one at a time.
    loading: Mutex<()>,
    serial: AtomicU64,
}

#[derive(Debug)]
struct ModelSlot {
    model: ModelFolder,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    languages: Arc<Languages>,
    loaded: Option<Arc<LoadedModel>>,
    /// Estimated bytes while it is loaded.
    bytes: u64,
    /// Time of the last use, by the registry's counter.
    used: u64,
}

/// A source language and its target languages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LanguageAnswer {
    /// Its two-letter code.
    pub code: String,
    /// Its English name.
    pub name: String,
    /// Codes of its target languages.
    pub targets: Vec<String>,
}

/// A model in the answer to `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelEntry {
    /// Its name.
    pub name: String,
    /// True if it is in memory.
    pub is_loaded: bool,
    /// Pairs of source and target language, direct or through a third.
    pub directions: Vec<[String; 2]>,
}

impl ModelRegistry {
    /// Reads the languages of all models and loads the first model.
    ///
    /// # Errors
    /// If a folder holds no model, two models share a name, or one exceeds the memory limit.
    pub(crate) fn open(
        models: &[ModelFolder],
        options: LoadOptions,
        max_memory: Option<u64>,
    ) -> Result<Self> {
        let mut slots: Vec<ModelSlot> = Vec::new();
        for model in models {
            if slots.iter().any(|slot| slot.model.name == model.name) {
                let message = format!("two models called {:?}, expected different names", model.name);
                return Err(Error::request(message, "name one NAME=DIR"));
            }
            let languages = Arc::new(Languages::of(&model.folder)?);
            let state = SlotState { languages, loaded: None, bytes: forecast(&model.folder), used: 0 };
            slots.push(ModelSlot { model: model.clone(), state: Mutex::new(state) });
        }
        let registry =
            Self { slots, options, max_memory, loading: Mutex::new(()), serial: AtomicU64::new(0) };
        for slot in &registry.slots {
            registry.check_memory(&slot.model.folder)?;
        }
        if !registry.slots.is_empty() {
            registry.loaded(0)?;
        }
        Ok(registry)
    }

    /// Fails if this model alone would exceed the memory limit.
    fn check_memory(&self, folder: &Path) -> Result<()> {
        let (Some(limit), Some(now)) = (self.max_memory, resident_bytes()) else { return Ok(()) };
        let need = now + forecast(folder) + WORK;
        if need <= limit {
            return Ok(());
        }
        let [need, limit] = [need, limit].map(|bytes| bytes.div_ceil(1 << 20));
        let message = format!(
            "{}: needs about {need} MiB including the program itself, expected at most {limit} MiB",
            folder.display()
        );
        Err(Error::request(message, "raise --max-memory, or quantise the model"))
    }

    /// Index of the model with this name, or of the first for this direction; a missing `from` is detected from `sample` where
    /// there are several models.
    ///
    /// # Errors
    /// If no model fits.
    pub(crate) fn choose(
        &self,
        model: Option<&str>,
        from: Option<&str>,
        to: Option<&str>,
        sample: &str,
    ) -> Result<usize> {
        if let Some(name) = model {
            let found = self.slots.iter().position(|slot| slot.model.name == name);
            return found.ok_or_else(|| {
                let known: Vec<&str> = self.slots.iter().map(|slot| slot.model.name.as_str()).collect();
                let message = format!("no model {name:?}, expected one of {}", known.join(", "));
                Error::request(message, "leave it out, or see /v1/models")
            });
        }
        if self.slots.len() == 1 {
            return Ok(0);
        }
        let detect = || Identifier::four().identify(sample).map(|guess| guess.code);
        let (from, to) = (from.map(short).or_else(detect), to.map(short));
        let fits = |from: Option<&str>| {
            self.slots.iter().position(|slot| covers(&slot.languages(), from, to.as_deref()))
        };
        fits(from.as_deref()).or_else(|| fits(None)).ok_or_else(|| {
            let name = |code: Option<String>| code.map_or_else(|| "any language".into(), |code| name(&code));
            let message = format!("no model from {} into {}", name(from), name(to));
            Error::request(message, "see /languages")
        })
    }

    /// A model, loaded if necessary; unused models are unloaded if memory is short.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub(crate) fn loaded(&self, index: usize) -> Result<Arc<LoadedModel>> {
        let slot = &self.slots[index];
        if let Some(found) = slot.take(self.count()) {
            return Ok(found);
        }
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = slot.take(self.count()) {
            return Ok(found);
        }
        self.make_room(&slot.model.folder)?;
        let loaded = Arc::new(self.load(&slot.model)?);
        let mut state = slot.lock();
        state.loaded = Some(loaded.clone());
        state.used = self.count();
        Ok(loaded)
    }

    fn load(&self, model: &ModelFolder) -> Result<LoadedModel> {
        let engine = Engine::load(&model.folder, &self.options)?;
        Ok(LoadedModel { engine, name: model.name.clone(), serial: self.count() })
    }

    /// Unloads the least recently used models until another fits.
    fn make_room(&self, folder: &Path) -> Result<()> {
        let Some(limit) = self.max_memory else { return Ok(()) };
        while resident_bytes().is_some_and(|now| now + forecast(folder) + WORK > limit) {
            if !self.unload_one() {
                let found = format!(
                    "not enough memory for another model beside those in use (limit {} MiB)",
                    limit >> 20
                );
                return Err(Error::Busy { found, retry_after: 1 });
            }
        }
        Ok(())
    }

    /// Unloads the least recently used model that no request holds; false if there is none.
    pub(crate) fn unload_one(&self) -> bool {
        let idle = self.slots.iter().filter_map(|slot| {
            let state = slot.lock();
            // A model that a request holds would stay in memory anyway.
            let is_idle = state.loaded.as_ref().is_some_and(|loaded| Arc::strong_count(loaded) == 1);
            is_idle.then_some((state.used, slot))
        });
        let Some((_, oldest)) = idle.min_by_key(|(used, _)| *used) else { return false };
        oldest.lock().loaded = None;
        polyhead_tensor::pool::clear();
        true
    }

    /// Reads all folders again and reloads the loaded models; running requests finish with the old ones. Returns the number
    /// of loaded models.
    ///
    /// # Errors
    /// If one cannot be read; then none is replaced.
    pub(crate) fn reload(&self) -> Result<usize> {
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Vec::new();
        for slot in &self.slots {
            let languages = Arc::new(Languages::of(&slot.model.folder)?);
            // Old and new model are in memory at the same time for a while.
            let is_loaded = slot.lock().loaded.is_some();
            let loaded = if is_loaded {
                self.make_room(&slot.model.folder)?;
                Some(Arc::new(self.load(&slot.model)?))
            } else {
                None
            };
            next.push((languages, loaded));
        }
        let count = next.iter().filter(|(_, loaded)| loaded.is_some()).count();
        for (slot, (languages, loaded)) in self.slots.iter().zip(next) {
            let mut state = slot.lock();
            (state.languages, state.loaded) = (languages, loaded);
        }
        Ok(count)
    }

    /// All source languages, with their target languages.
    pub(crate) fn languages(&self) -> Vec<LanguageAnswer> {
        let mut found: Vec<LanguageAnswer> = Vec::new();
        for (from, to) in self.slots.iter().flat_map(|slot| slot.languages().routes()) {
            let (Some(from), Some(to)) = (from, to) else { continue };
            let index = found.iter().position(|own| own.code == from).unwrap_or_else(|| {
                found.push(LanguageAnswer { name: name(&from), code: from, targets: Vec::new() });
                found.len() - 1
            });
            if !found[index].targets.contains(&to) {
                found[index].targets.push(to);
            }
        }
        found
    }

    /// All models.
    pub(crate) fn models(&self) -> Vec<ModelEntry> {
        let entry = |slot: &ModelSlot| {
            let ways = slot.languages().routes();
            let known = |code: Option<String>| code.unwrap_or_else(|| "und".into());
            ModelEntry {
                name: slot.model.name.clone(),
                is_loaded: slot.lock().loaded.is_some(),
                directions: ways.into_iter().map(|(from, to)| [known(from), known(to)]).collect(),
            }
        };
        self.slots.iter().map(entry).collect()
    }

    /// Estimated bytes of all loaded models.
    pub(crate) fn bytes(&self) -> u64 {
        let own = |slot: &ModelSlot| {
            let state = slot.lock();
            if state.loaded.is_some() { state.bytes } else { 0 }
        };
        self.slots.iter().map(own).sum()
    }

    /// The next value of the counter.
    fn count(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}

impl ModelSlot {
    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn languages(&self) -> Arc<Languages> {
        self.lock().languages.clone()
    }

    /// The model if it is loaded; marks it as used at `now`.
    fn take(&self, now: u64) -> Option<Arc<LoadedModel>> {
        let mut state = self.lock();
        state.used = now;
        state.loaded.clone()
    }
}

/// Working memory in bytes, beside the models.
const WORK: u64 = 64 << 20;

/// Estimated bytes of a loaded model: its weights, a quarter more for their packed layout, and the tokeniser's tables.
fn forecast(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let weights = files.filter(|file| {
        let name = file.file_name();
        [".safetensors", ".bin", ".pt"].iter().any(|end| name.to_string_lossy().ends_with(end))
    });
    let bytes: u64 = weights.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    bytes + bytes / 4 + TABLES
}

/// Bytes of a tokeniser's tables.
const TABLES: u64 = 16 << 20;

/// True if a model translates from a language into another; `None` matches any.
fn covers(languages: &Languages, from: Option<&str>, to: Option<&str>) -> bool {
    let is_any_or = |own: &Option<String>, asked: Option<&str>| {
        own.as_deref().is_none_or(|own| asked.is_none_or(|asked| own == asked))
    };
    languages.routes().iter().any(|(own_from, own_to)| is_any_or(own_from, from) && is_any_or(own_to, to))
}
