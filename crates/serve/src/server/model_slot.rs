//! A slot of the model registry: a folder, what is known of it, and its model while it is loaded.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::model_registry::{ModelFolder, ModelRegistry};
use crate::Result;

/// A kind of models.
pub(super) trait Served: Sized {
    /// What is known of a model that is not loaded.
    type About: Clone + std::fmt::Debug;

    fn about(folder: &Path) -> Result<Self::About>;
    fn load(model: &ModelFolder, registry: &ModelRegistry) -> Result<Self>;
    /// Frees its memory.
    fn unload(self);
}

/// A model folder, and its model while it is loaded.
#[derive(Debug)]
pub(super) struct ModelSlot<T: Served> {
    pub(super) model: ModelFolder,
    state: Mutex<SlotState<T>>,
}

/// What changes in a slot.
#[derive(Debug)]
pub(super) struct SlotState<T: Served> {
    pub(super) about: T::About,
    pub(super) loaded: Option<Arc<T>>,
    /// Estimated bytes while it is loaded.
    pub(super) bytes: u64,
    /// Time of the last use, by the registry's counter.
    pub(super) used: u64,
}

impl<T: Served> ModelSlot<T> {
    pub(super) fn new(model: &ModelFolder, bytes: u64) -> Result<Self> {
        let state = SlotState { about: T::about(&model.folder)?, loaded: None, bytes, used: 0 };
        Ok(Self { model: model.clone(), state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SlotState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name, whether it is loaded, and what is known of it.
    pub(super) fn entry(&self) -> (String, bool, T::About) {
        let state = self.lock();
        (self.model.name.clone(), state.loaded.is_some(), state.about.clone())
    }

    /// The model if it is loaded; marks it as used at `now`.
    pub(super) fn take(&self, now: u64) -> Option<Arc<T>> {
        let mut state = self.lock();
        state.used = now;
        state.loaded.clone()
    }
}

/// A slot of a model of any kind.
pub(super) trait AnySlot {
    /// Name of the model.
    fn name(&self) -> &str;
    /// Its folder, and its estimated bytes while it is loaded.
    fn forecast(&self) -> (&Path, u64);
    /// Estimated bytes if it is loaded, else 0.
    fn loaded_bytes(&self) -> u64;
    /// Time of its last use if it is loaded and no request holds it; else it would stay in memory anyway.
    fn idle(&self) -> Option<u64>;
    /// Unloads it; requests that hold it finish.
    fn unload(&self);
}

impl<T: Served> AnySlot for ModelSlot<T> {
    fn name(&self) -> &str {
        &self.model.name
    }

    fn forecast(&self) -> (&Path, u64) {
        (&self.model.folder, self.lock().bytes)
    }

    fn loaded_bytes(&self) -> u64 {
        let state = self.lock();
        if state.loaded.is_some() { state.bytes } else { 0 }
    }

    fn idle(&self) -> Option<u64> {
        let state = self.lock();
        let is_idle = state.loaded.as_ref().is_some_and(|loaded| Arc::strong_count(loaded) == 1);
        is_idle.then_some(state.used)
    }

    fn unload(&self) {
        let loaded = self.lock().loaded.take();
        if let Some(model) = loaded.and_then(Arc::into_inner) {
            model.unload();
        }
    }
}
