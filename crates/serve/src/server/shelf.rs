//! The models of a server: loaded when somebody asks for one, and put away for another when memory is short.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polyhead_text::language::Identifier;
use polyhead_translate::languages::{Languages, name, short};
use polyhead_translate::{Engine, LoadOptions};
use serde::Serialize;

use crate::front::process::resident_bytes;
use crate::{Error, Result};

/// A model that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFolder {
    /// What clients call it.
    pub name: String,
    /// Where it lies.
    pub folder: PathBuf,
}

/// A loaded model; what is under way keeps it while another takes its place.
#[derive(Debug)]
pub struct Loaded {
    /// The model.
    pub engine: Engine,
    /// What clients call it.
    pub name: String,
    /// Differs between all that were ever loaded.
    pub serial: u64,
}

/// All models, in the order in which they were named.
#[derive(Debug)]
pub(crate) struct Shelf {
    places: Vec<Place>,
    options: LoadOptions,
    /// Most bytes of the program; none, so as many as it takes.
    max_memory: Option<u64>,
    /// One model is loaded at a time.
    loading: Mutex<()>,
    serial: AtomicU64,
}

#[derive(Debug)]
struct Place {
    model: ModelFolder,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    languages: Arc<Languages>,
    loaded: Option<Arc<Loaded>>,
    /// When it was last asked for, by the shelf's count.
    used: u64,
}

/// A language with those that it can be translated into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LanguageAnswer {
    /// Its two-letter code.
    pub code: String,
    /// Its English name.
    pub name: String,
    /// The codes of the languages that it can be translated into.
    pub targets: Vec<String>,
}

/// A model as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelEntry {
    /// What it is called.
    pub name: String,
    /// Whether it is in memory.
    pub is_loaded: bool,
    /// From which language into which it translates, in one step or two.
    pub directions: Vec<[String; 2]>,
}

impl Shelf {
    /// Looks at all models and loads the first.
    ///
    /// # Errors
    /// If a folder holds no model, two have one name, or the memory cannot be enough.
    pub(crate) fn open(
        models: &[ModelFolder],
        options: LoadOptions,
        max_memory: Option<u64>,
    ) -> Result<Self> {
        let mut places: Vec<Place> = Vec::new();
        for model in models {
            if places.iter().any(|place| place.model.name == model.name) {
                let message = format!("two models called {:?}, expected different names", model.name);
                return Err(Error::Request { message, hint: "name one NAME=DIR".into() });
            }
            let state = State { languages: Arc::new(Languages::of(&model.folder)?), loaded: None, used: 0 };
            places.push(Place { model: model.clone(), state: Mutex::new(state) });
        }
        let shelf = Self { places, options, max_memory, loading: Mutex::new(()), serial: AtomicU64::new(0) };
        for place in &shelf.places {
            shelf.check_memory(&place.model.folder)?;
        }
        if !shelf.places.is_empty() {
            shelf.loaded(0)?;
        }
        Ok(shelf)
    }

    /// An error where a model alone is more than the program may have.
    fn check_memory(&self, folder: &Path) -> Result<()> {
        let (Some(limit), Some(now)) = (self.max_memory, resident_bytes()) else { return Ok(()) };
        let need = now + forecast(folder) + WORK;
        if need <= limit {
            return Ok(());
        }
        let [need, limit] = [need, limit].map(|bytes| bytes.div_ceil(1 << 20));
        let message = format!(
            "{}: needs about {need} MiB with the program around it, expected at most {limit} MiB",
            folder.display()
        );
        Err(Error::Request { message, hint: "raise --max-memory, or quantize the model".into() })
    }

    /// The model for a direction, or the one that is named. What is not said is guessed from `sample` where models differ.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn choose(
        &self,
        model: Option<&str>,
        from: Option<&str>,
        to: Option<&str>,
        sample: &str,
    ) -> Result<usize> {
        if let Some(wanted) = model {
            let found = self.places.iter().position(|place| place.model.name == wanted);
            return found.ok_or_else(|| {
                let known: Vec<&str> = self.places.iter().map(|place| place.model.name.as_str()).collect();
                let message = format!("no model {wanted:?}, expected one of {}", known.join(", "));
                Error::Request { message, hint: "leave it out, or see /v1/models".into() }
            });
        }
        if self.places.len() == 1 {
            return Ok(0);
        }
        let guess = || Identifier::four().identify(sample).map(|guess| guess.code);
        let (from, to) = (from.map(short).or_else(guess), to.map(short));
        let fits = |from: Option<&str>| {
            self.places.iter().position(|place| covers(&place.languages(), from, to.as_deref()))
        };
        fits(from.as_deref()).or_else(|| fits(None)).ok_or_else(|| {
            let name = |code: Option<String>| code.map_or_else(|| "any language".into(), |code| name(&code));
            let message = format!("no model from {} into {}", name(from), name(to));
            Error::Request { message, hint: "see /languages".into() }
        })
    }

    /// A model, loaded where it is not yet; others that nobody uses are put away if memory is short.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub(crate) fn loaded(&self, index: usize) -> Result<Arc<Loaded>> {
        let place = &self.places[index];
        if let Some(found) = place.take(self.count()) {
            return Ok(found);
        }
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = place.take(self.count()) {
            return Ok(found);
        }
        self.make_room(&place.model.folder)?;
        let loaded = Arc::new(self.load(&place.model)?);
        let mut state = place.lock();
        state.loaded = Some(loaded.clone());
        state.used = self.count();
        Ok(loaded)
    }

    fn load(&self, model: &ModelFolder) -> Result<Loaded> {
        let engine = Engine::load(&model.folder, &self.options)?;
        Ok(Loaded { engine, name: model.name.clone(), serial: self.count() })
    }

    /// Puts away what was not asked for the longest, until another model fits.
    fn make_room(&self, folder: &Path) -> Result<()> {
        let Some(limit) = self.max_memory else { return Ok(()) };
        while resident_bytes().is_some_and(|now| now + forecast(folder) + WORK > limit) {
            if !self.put_one_away() {
                let found =
                    format!("no memory for another model beside those in use, of {} MiB", limit >> 20);
                return Err(Error::Busy { found, retry_after: 1 });
            }
        }
        Ok(())
    }

    /// Puts the model away that was not asked for the longest and that nobody uses; false where there is none.
    pub(crate) fn put_one_away(&self) -> bool {
        let idle = self.places.iter().filter_map(|place| {
            let state = place.lock();
            // Whoever holds it now would keep it in memory all the same.
            let is_idle = state.loaded.as_ref().is_some_and(|loaded| Arc::strong_count(loaded) == 1);
            is_idle.then_some((state.used, place))
        });
        let Some((_, oldest)) = idle.min_by_key(|(used, _)| *used) else { return false };
        oldest.lock().loaded = None;
        polyhead_tensor::pool::clear();
        true
    }

    /// Reads all folders again, the loaded ones whole; what is under way ends with what it began with. How many were loaded.
    ///
    /// # Errors
    /// If one cannot be read; all stay as they were then.
    pub(crate) fn reload(&self) -> Result<usize> {
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Vec::new();
        for place in &self.places {
            let languages = Arc::new(Languages::of(&place.model.folder)?);
            // Both are in memory for a while.
            let is_loaded = place.lock().loaded.is_some();
            let loaded = if is_loaded {
                self.make_room(&place.model.folder)?;
                Some(Arc::new(self.load(&place.model)?))
            } else {
                None
            };
            next.push((languages, loaded));
        }
        let count = next.iter().filter(|(_, loaded)| loaded.is_some()).count();
        for (place, (languages, loaded)) in self.places.iter().zip(next) {
            let mut state = place.lock();
            (state.languages, state.loaded) = (languages, loaded);
        }
        Ok(count)
    }

    /// All languages, with what they can be translated into.
    pub(crate) fn languages(&self) -> Vec<LanguageAnswer> {
        let mut found: Vec<LanguageAnswer> = Vec::new();
        for (from, to) in self.places.iter().flat_map(|place| place.languages().ways()) {
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
        let entry = |place: &Place| {
            let ways = place.languages().ways();
            let said = |code: Option<String>| code.unwrap_or_else(|| "und".into());
            ModelEntry {
                name: place.model.name.clone(),
                is_loaded: place.lock().loaded.is_some(),
                directions: ways.into_iter().map(|(from, to)| [said(from), said(to)]).collect(),
            }
        };
        self.places.iter().map(entry).collect()
    }

    /// The next number.
    fn count(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn languages(&self) -> Arc<Languages> {
        self.lock().languages.clone()
    }

    /// The model if it is loaded, asked for at `now`.
    fn take(&self, now: u64) -> Option<Arc<Loaded>> {
        let mut state = self.lock();
        state.used = now;
        state.loaded.clone()
    }
}

/// Bytes that work on texts takes besides the models.
const WORK: u64 = 64 << 20;

/// Bytes that a model is going to take: those of its weights, a quarter more for their order in memory and the tokeniser's
/// tables.
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

/// Whether a model has a way from a language into another; what is not said is any.
fn covers(languages: &Languages, from: Option<&str>, to: Option<&str>) -> bool {
    let is_any_or = |own: &Option<String>, wanted: Option<&str>| {
        own.as_deref().is_none_or(|own| wanted.is_none_or(|wanted| own == wanted))
    };
    languages.ways().iter().any(|(own_from, own_to)| is_any_or(own_from, from) && is_any_or(own_to, to))
}
