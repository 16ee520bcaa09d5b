//! The model registry: translators, language models and encoders are loaded on demand, and unloaded when another needs the memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use polyhead_engine::encoder::EncoderSummary;
use polyhead_models::checkpoint::read_config;
use polyhead_tensor::{Dtype, Parameters};
use polyhead_text::language::Identifier;
use polyhead_translate::languages::{Languages, name, short};
use polyhead_translate::{Engine, LoadOptions};
use serde::Serialize;

use super::encoder::{EncoderEntry, EncoderUse, LoadedEncoder};
use super::generation::{GenerationPool, LoadedGenerator};
use super::model_forecast::{encoder_forecast, forecast, generator_forecast, is_encoder, language_model};
use super::model_slot::{ModelSlot, Served, least_used, unload_used};
use crate::front::ErrorResponse;
use crate::front::fields::quoted;
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

/// Working memory in bytes, beside the models.
const WORK: u64 = 64 << 20;

/// All models, in the order of the options.
#[derive(Debug)]
pub(crate) struct ModelRegistry {
    /// The translators.
    slots: Vec<ModelSlot<LoadedModel>>,
    /// The language models.
    generators: Vec<ModelSlot<LoadedGenerator>>,
    encoders: Vec<ModelSlot<LoadedEncoder>>,
    pool: Arc<GenerationPool>,
    options: LoadOptions,
    /// Memory limit of the process in bytes.
    max_memory: Option<u64>,
    /// Held while a model is loaded: one at a time.
    loading: Mutex<()>,
    serial: AtomicU64,
}

impl Served for LoadedModel {
    type About = Arc<Languages>;

    fn about(folder: &Path) -> Result<Self::About> {
        Ok(Arc::new(Languages::of(folder)?))
    }

    fn load(model: &ModelFolder, registry: &ModelRegistry) -> Result<Self> {
        let engine = Engine::load(&model.folder, &registry.options)?;
        check_one_source(&engine, &model.name)?;
        Ok(Self { engine, name: model.name.clone(), serial: registry.count() })
    }

    fn unload(self) {}
}

/// Refuses a model of several sources: a request has one text.
fn check_one_source(engine: &Engine, name: &str) -> Result<()> {
    let n_sources = engine.model().n_sources();
    if n_sources == 1 {
        return Ok(());
    }
    let message = format!("{name}: a model of {n_sources} sources, expected one: a request has one text");
    Err(polyhead_translate::Error::request(
        message,
        "polyhead translate reads lines with tabs between their texts",
    )
    .into())
}

impl Served for LoadedGenerator {
    /// The length of its context in tokens, if it has a limit.
    type About = Option<usize>;

    fn about(folder: &Path) -> Result<Self::About> {
        let (config, _) = read_config(folder).map_err(polyhead_translate::Error::from)?;
        let model = polyhead_models::LanguageModel::new(config, &mut Parameters::default());
        Ok(model.map_err(polyhead_translate::Error::from)?.max_len())
    }

    fn load(model: &ModelFolder, registry: &ModelRegistry) -> Result<Self> {
        let LoadOptions { device, dtype, .. } = registry.options.clone();
        let options = polyhead_engine::LoadOptions { device, dtype };
        Self::load((&model.name, &model.folder), &options, &registry.pool)
    }

    fn unload(self) {
        self.close();
    }
}

impl Served for LoadedEncoder {
    type About = Arc<EncoderSummary>;

    fn about(folder: &Path) -> Result<Self::About> {
        Ok(Arc::new(EncoderSummary::of_folder(folder)?))
    }

    fn load(model: &ModelFolder, registry: &ModelRegistry) -> Result<Self> {
        let LoadOptions { device, dtype, .. } = registry.options.clone();
        let options = polyhead_engine::LoadOptions { device, dtype };
        Self::load((&model.name, &model.folder), &options, registry.count())
    }

    fn unload(self) {}
}

/// What is known of a model that was read again, and the model if it was loaded.
type Reloaded<T> = (<T as Served>::About, Option<Arc<T>>);

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

/// A language model in the answer to `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageModelEntry {
    /// Its name.
    pub name: String,
    /// True if it is in memory.
    pub is_loaded: bool,
    /// Length of its context in tokens, if it has a limit.
    pub context: Option<usize>,
}

impl ModelRegistry {
    /// Reads what all models are for and loads the first model.
    ///
    /// # Errors
    /// If a folder holds no model, two models share a name, or one exceeds the memory limit.
    pub(crate) fn open(
        models: &[ModelFolder],
        options: LoadOptions,
        max_memory: Option<u64>,
        pool: Arc<GenerationPool>,
    ) -> Result<Self> {
        let (mut slots, mut generators, mut encoders) = (Vec::new(), Vec::new(), Vec::new());
        for (index, model) in models.iter().enumerate() {
            if models[..index].iter().any(|other| other.name == model.name) {
                let message = format!("two models called {:?}, expected different names", model.name);
                return Err(Error::request(message, "name one NAME=DIR"));
            }
            if let Some(config) = language_model(&model.folder) {
                let bytes = generator_forecast(&model.folder, config, options.dtype);
                generators.push(ModelSlot::new(model, bytes)?);
            } else if is_encoder(&model.folder) {
                let summary = EncoderSummary::of_folder(&model.folder)?;
                encoders
                    .push(ModelSlot::new(model, encoder_forecast(&summary, options.dtype, pool.threads))?);
            } else {
                slots.push(ModelSlot::new(model, forecast(&model.folder))?);
            }
        }
        let (loading, serial) = (Mutex::new(()), AtomicU64::new(0));
        let registry = Self { slots, generators, encoders, pool, options, max_memory, loading, serial };
        for (folder, bytes) in registry
            .slots
            .iter()
            .map(ModelSlot::forecast)
            .chain(registry.generators.iter().map(ModelSlot::forecast))
            .chain(registry.encoders.iter().map(ModelSlot::forecast))
        {
            registry.check_memory(folder, bytes)?;
        }
        if let Some(first) = models.first() {
            load_first(&registry.slots, first, &registry)?;
            load_first(&registry.generators, first, &registry)?;
            load_first(&registry.encoders, first, &registry)?;
        }
        Ok(registry)
    }

    /// Compute dtype of the models.
    pub(crate) fn dtype(&self) -> Dtype {
        self.options.dtype
    }

    /// True if there are translators.
    pub(crate) fn translates(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Fails if this model alone would exceed the memory limit.
    fn check_memory(&self, folder: &Path, bytes: u64) -> Result<()> {
        let (Some(limit), Some(now)) = (self.max_memory, resident_bytes()) else { return Ok(()) };
        let need = now + bytes + WORK;
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
        if self.slots.is_empty() {
            let hint = "/v1/models lists the models of this server; /docs has their calls";
            return Err(Error::request("this server has no translation model", hint));
        }
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
        self.loaded_in(&self.slots[index])
    }

    /// A language model by its name, default: the first; loaded if necessary.
    ///
    /// # Errors
    /// 404 if there is none of this name, or if it cannot be loaded.
    pub(crate) fn generator(&self, name: Option<&str>) -> Result<Arc<LoadedGenerator>> {
        let named = |slot: &&ModelSlot<LoadedGenerator>| name.is_none_or(|name| slot.model.name == name);
        if let Some(slot) = self.generators.iter().find(named) {
            return self.loaded_in(slot);
        }
        let known: Vec<&str> = self.generators.iter().map(|slot| slot.model.name.as_str()).collect();
        let name = name.unwrap_or_default();
        let is_translator = self.slots.iter().any(|slot| slot.model.name == name);
        let found = if known.is_empty() {
            "this server has no language model".into()
        } else if is_translator {
            format!("model {name:?} translates, expected a language model: {}", known.join(", "))
        } else {
            format!("no model {}, expected one of {}", quoted(name), known.join(", "))
        };
        let hint =
            if is_translator { "translations are at /v1/translate" } else { "/v1/models lists all models" };
        Err(Error::Refused(ErrorResponse::new(StatusCode::NOT_FOUND, found, hint)))
    }

    /// An encoder by its name, default: the first for this use; loaded if necessary.
    ///
    /// # Errors
    /// 404 if there is none of this name, 424 if it cannot be used so, or if it cannot be loaded.
    pub(crate) fn encoder(&self, name: Option<&str>, needed: EncoderUse) -> Result<Arc<LoadedEncoder>> {
        let about = |slot: &&ModelSlot<LoadedEncoder>| slot.lock().about.clone();
        let found = if let Some(name) = name {
            self.encoders.iter().find(|slot| slot.model.name == name)
        } else {
            let meant = self.encoders.iter().find(|slot| needed.is_meant(&about(slot)));
            meant.or_else(|| self.encoders.iter().find(|slot| needed.fits(&about(slot))))
        };
        if let Some(slot) = found.filter(|slot| needed.fits(&about(slot))) {
            return self.loaded_in(slot);
        }
        let refused = |status, message: String| {
            Err(Error::Refused(ErrorResponse::new(status, message, "/v1/models lists all models")))
        };
        let described = needed.described();
        match (found, name) {
            (Some(_), Some(name)) => {
                refused(StatusCode::FAILED_DEPENDENCY, format!("model {name:?} is not {described}"))
            }
            (None, Some(name)) if !self.encoders.is_empty() => {
                let known: Vec<&str> = self.encoders.iter().map(|slot| slot.model.name.as_str()).collect();
                let known = known.join(", ");
                let message = format!("no encoder {}, expected one of {known}", quoted(name));
                refused(StatusCode::NOT_FOUND, message)
            }
            _ => refused(
                StatusCode::FAILED_DEPENDENCY,
                format!("this server has no model that is {described}"),
            ),
        }
    }

    fn loaded_in<T: Served>(&self, slot: &ModelSlot<T>) -> Result<Arc<T>> {
        if let Some(found) = slot.take(self.count()) {
            return Ok(found);
        }
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = slot.take(self.count()) {
            return Ok(found);
        }
        self.make_room(slot.lock().bytes)?;
        let loaded = Arc::new(T::load(&slot.model, self)?);
        let mut state = slot.lock();
        state.loaded = Some(loaded.clone());
        state.used = self.count();
        Ok(loaded)
    }

    /// Unloads the least recently used models until another fits.
    fn make_room(&self, bytes: u64) -> Result<()> {
        let Some(limit) = self.max_memory else { return Ok(()) };
        while resident_bytes().is_some_and(|now| now + bytes + WORK > limit) {
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
        let least = [least_used(&self.slots), least_used(&self.generators), least_used(&self.encoders)];
        let Some(used) = least.into_iter().flatten().min() else { return false };
        unload_used(&self.slots, used);
        unload_used(&self.generators, used);
        unload_used(&self.encoders, used);
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
        let translators = self.read_again(&self.slots)?;
        let generators = self.read_again(&self.generators)?;
        let encoders = self.read_again(&self.encoders)?;
        let count = replace(&self.slots, translators) + replace(&self.generators, generators);
        Ok(count + replace(&self.encoders, encoders))
    }

    /// Reads folders again, and loads the models that are loaded.
    fn read_again<T: Served>(&self, slots: &[ModelSlot<T>]) -> Result<Vec<Reloaded<T>>> {
        let read = |slot: &ModelSlot<T>| {
            let about = T::about(&slot.model.folder)?;
            // Old and new model are in memory at the same time for a while.
            let is_loaded = slot.lock().loaded.is_some();
            let loaded = if is_loaded {
                self.make_room(slot.lock().bytes)?;
                Some(Arc::new(T::load(&slot.model, self)?))
            } else {
                None
            };
            Ok((about, loaded))
        };
        slots.iter().map(read).collect()
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
        let entry = |slot: &ModelSlot<LoadedModel>| {
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

    /// All language models.
    pub(crate) fn language_models(&self) -> Vec<LanguageModelEntry> {
        let entry = |slot: &ModelSlot<LoadedGenerator>| {
            let state = slot.lock();
            let is_loaded = state.loaded.is_some();
            LanguageModelEntry { name: slot.model.name.clone(), is_loaded, context: state.about }
        };
        self.generators.iter().map(entry).collect()
    }

    /// All encoders.
    pub(crate) fn encoders(&self) -> Vec<EncoderEntry> {
        let entry = |slot: &ModelSlot<LoadedEncoder>| {
            let state = slot.lock();
            let is_loaded = state.loaded.is_some();
            EncoderEntry { name: slot.model.name.clone(), is_loaded, summary: state.about.clone() }
        };
        self.encoders.iter().map(entry).collect()
    }

    /// Unloads all language models, once their texts are finished or abandoned.
    pub(crate) fn close(&self) {
        self.generators.iter().for_each(ModelSlot::unload);
    }

    /// Estimated bytes of all loaded models.
    pub(crate) fn bytes(&self) -> u64 {
        let translators: u64 = self.slots.iter().map(ModelSlot::loaded_bytes).sum();
        let encoders: u64 = self.encoders.iter().map(ModelSlot::loaded_bytes).sum();
        translators + encoders + self.generators.iter().map(ModelSlot::loaded_bytes).sum::<u64>()
    }

    /// The next value of the counter.
    fn count(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}

/// Loads the first model of the options, if it is one of these.
fn load_first<T: Served>(
    slots: &[ModelSlot<T>],
    first: &ModelFolder,
    registry: &ModelRegistry,
) -> Result<()> {
    match slots.first().filter(|slot| slot.model == *first) {
        Some(slot) => registry.loaded_in(slot).map(drop),
        None => Ok(()),
    }
}

/// Replaces models by those that were read again; the number of loaded ones.
fn replace<T: Served>(slots: &[ModelSlot<T>], next: Vec<Reloaded<T>>) -> usize {
    let count = next.iter().filter(|(_, loaded)| loaded.is_some()).count();
    for (slot, (about, loaded)) in slots.iter().zip(next) {
        let mut state = slot.lock();
        (state.about, state.loaded) = (about, loaded);
    }
    count
}

impl ModelSlot<LoadedModel> {
    fn languages(&self) -> Arc<Languages> {
        self.lock().about.clone()
    }
}

/// True if a model translates from a language into another; `None` matches any.
fn covers(languages: &Languages, from: Option<&str>, to: Option<&str>) -> bool {
    let is_any_or = |own: &Option<String>, asked: Option<&str>| {
        own.as_deref().is_none_or(|own| asked.is_none_or(|asked| own == asked))
    };
    languages.routes().iter().any(|(own_from, own_to)| is_any_or(own_from, from) && is_any_or(own_to, to))
}
