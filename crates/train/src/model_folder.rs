//! Writes a model folder: weights, tokenisers, generation settings, and a model card.

use std::path::Path;

use polyhead_models::ModelConfig;
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, save};
use polyhead_tensor::Dtype;
use polyhead_tensor::Parameters;
use polyhead_text::output::Output;
use serde_json::{Map, Value, json};

use crate::Result;
use crate::config::RunConfig;
use crate::contrastive::modules;
use crate::task::Task;
use crate::vocabulary::{GENERATION, Vocabulary};

/// Contents of a model folder besides the weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelFolder<'a> {
    pub(crate) run: &'a RunConfig,
    pub(crate) config: &'a ModelConfig,
    /// `None` for a task without text.
    pub(crate) vocabulary: Option<&'a Vocabulary>,
    /// Names and texts of files that follow from the data.
    pub(crate) files: &'a [(&'static str, String)],
}

impl ModelFolder<'_> {
    /// Writes a model; `readme` is the text of its README after the title.
    pub(crate) fn write(
        &self,
        folder: &Path,
        parameters: &Parameters,
        dtype: Dtype,
        readme: &str,
    ) -> Result<()> {
        // Models that Hugging Face's Marian classes can describe use their layout; the others use our own parameter names.
        let options =
            SaveOptions { dtype, layout: CheckpointLayout::fitting(self.config), ..SaveOptions::default() };
        save(folder, self.config, parameters, &options)?;
        if let Some(vocabulary) = self.vocabulary {
            vocabulary.save(folder)?;
        }
        if self.run.task == Task::Contrastive {
            let longest = self.run.data.max_length.min(self.config.max_len());
            modules::save(folder, self.config.d_model(), longest)?;
        }
        for (name, text) in self.files {
            Output::save(folder.join(name), text.as_bytes())?;
        }
        let settings = [
            self.generation().map(|value| (GENERATION, value)),
            self.vocabulary.map(|_| ("tokenizer_config.json", self.tokenizer())),
        ];
        // The model that a run starts from has settings of its own.
        let has_own = |name: &str| {
            let files = self.vocabulary.map_or(&[][..], Vocabulary::borrowed_files);
            !files.is_empty() && (name != GENERATION || files.iter().any(|path| path.ends_with(name)))
        };
        for (name, value) in settings.into_iter().flatten().filter(|(name, _)| !has_own(name)) {
            let text = serde_json::to_string_pretty(&value).expect("a value is always JSON") + "\n";
            Output::save(folder.join(name), text.as_bytes())?;
        }
        let title = match (&self.run.data.source_language, &self.run.data.target_language) {
            (Some(source), Some(target)) => format!("# Translates {source} into {target}"),
            _ => self.run.task.title().into(),
        };
        Ok(Output::save(folder.join("README.md"), format!("{title}\n\n{readme}").as_bytes())?)
    }

    /// Generation settings, of a model that generates.
    fn generation(&self) -> Option<Value> {
        let ids = self.config.special_ids()?;
        if self.run.task == Task::LanguageModel {
            return Some(json!({
                "bos_token_id": ids.start_id,
                "eos_token_id": ids.end_id,
                "pad_token_id": ids.pad_id,
            }));
        }
        Some(json!({
            "bad_words_ids": self.never_generated(ids.pad_id),
            "decoder_start_token_id": ids.start_id,
            "eos_token_id": ids.end_id,
            "length_penalty": self.run.checkpoint.length_penalty,
            "max_length": self.config.max_len().min(512),
            "num_beams": self.run.checkpoint.beam_size,
            "pad_token_id": ids.pad_id,
        }))
    }

    /// Ids that are never generated: padding, and language tags that are in the target vocabulary.
    fn never_generated(&self, pad_id: u32) -> Vec<[u32; 1]> {
        let mut ids = vec![[pad_id]];
        for [_, to] in self.run.data.train.iter().filter_map(|corpus| corpus.languages.as_ref()) {
            let id = self.vocabulary.and_then(|vocabulary| vocabulary.target().id(&format!(">>{to}<<")));
            ids.extend(id.map(|id| [id]).filter(|id| !ids.contains(id)));
        }
        ids.sort_unstable();
        ids
    }

    /// Directions of a multilingual model, as in `eng-tur`, in the order of its corpora.
    fn directions(&self) -> Vec<String> {
        let mut directions = Vec::new();
        for [from, to] in self.run.data.train.iter().filter_map(|corpus| corpus.languages.as_ref()) {
            let direction = format!("{from}-{to}");
            if !directions.contains(&direction) {
                directions.push(direction);
            }
        }
        directions
    }

    fn tokenizer(&self) -> Value {
        let mut map = Map::new();
        for (key, token) in self.vocabulary.map_or(&[][..], Vocabulary::names) {
            map.insert((*key).into(), (*token).into());
        }
        map.insert("tokenizer_class".into(), "PreTrainedTokenizerFast".into());
        let languages = [
            ("source_lang", &self.run.data.source_language),
            ("target_lang", &self.run.data.target_language),
        ];
        for (key, language) in languages {
            if let Some(language) = language {
                map.insert(key.into(), language.clone().into());
            }
        }
        let directions = self.directions();
        if !directions.is_empty() {
            map.insert("directions".into(), directions.into());
        }
        Value::Object(map)
    }
}
