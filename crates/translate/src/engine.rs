//! A model folder, loaded: model, tokenisers, settings and languages.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use polyhead_models::checkpoint::{load_parameters, load_prepared, read_config};
use polyhead_models::decode::spelling::Spellings;
use polyhead_models::transformer::{Shortlist, Translator};
use polyhead_tensor::{Device, Parameters, Precision};

use crate::alphabet::Alphabet;
use crate::generation::Generation;
use crate::languages::Languages;
use crate::tokenizers::Tokenizers;
use crate::{Error, Result};

/// How a folder is loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Where the model computes; on the processor.
    pub device: Device,
    /// What weights are kept as; as they are in the files. Bytes are smaller and faster, and a little less exact.
    pub precision: Precision,
    /// Texts in the target language: only pieces that occur in them can be written, which makes decoding faster; none, so
    /// all can.
    pub shortlist: Vec<String>,
}

/// A translator: text in, text out. It may be used by several threads at once.
#[derive(Debug)]
pub struct Engine {
    pub(crate) model: Translator,
    pub(crate) parameters: Parameters,
    pub(crate) tokenizers: Tokenizers,
    pub(crate) shortlist: Option<Shortlist>,
    generation: Generation,
    languages: Languages,
    pub(crate) alphabet: Alphabet,
    /// Made when several translations are first asked for.
    spellings: OnceLock<Option<Arc<Spellings>>>,
}

impl Engine {
    /// Reads a folder of ours, of Hugging Face's Marian or OPUS-MT, or of fairseq.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, or if they do not fit together.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let folder = folder.as_ref();
        if !folder.is_dir() {
            let found = if folder.exists() { "a file" } else { "no such folder" };
            let message = format!("{found}, expected the folder of a model");
            return Err(Error::file(folder, message, "check the spelling and the current folder"));
        }
        let (config, layout) = read_config(folder)?;
        let tokenizers = Tokenizers::load(folder, &config)?;
        let generation = Generation::load(folder, &config)?;
        let languages = Languages::load(folder, tokenizers.source(), config.source_vocab_size)?;
        let alphabet = Alphabet::of(&tokenizers, config.source_vocab_size)?;
        let mut parameters = Parameters::default();
        let model = Translator::new(&config, &mut parameters)?;
        if options.device.is_cpu() {
            load_prepared(folder, &config, layout, &mut parameters, options.precision)?;
        } else {
            load_parameters(folder, &config, layout, &mut parameters)?;
            if options.precision == Precision::Int8 {
                let message = format!("int8 on {}, expected f32, tf32 or bf16 there", options.device.name());
                return Err(Error::request(message, "only the processor computes with bytes"));
            }
            // A folder of bytes is read as what they stand for.
            parameters.unprepare();
            // Frozen ones need no memory for gradients.
            parameters.freeze_all();
            let moved = options.device.in_turn(|| parameters.to_device(&options.device));
            parameters = moved.map_err(polyhead_models::Error::from)?;
        }
        let shortlist = None;
        let spellings = OnceLock::new();
        let mut engine =
            Self { model, parameters, tokenizers, shortlist, generation, languages, alphabet, spellings };
        if !options.shortlist.is_empty() {
            engine.shortlist = Some(engine.shortlist(&options.shortlist)?);
        }
        Ok(engine)
    }

    /// The pieces of `texts`.
    fn shortlist(&self, texts: &[String]) -> Result<Shortlist> {
        let mut ids = Vec::new();
        for text in texts {
            ids.extend(self.tokenizers.encode_target(text)?.ids);
        }
        Ok(Shortlist::new(&self.model, &self.parameters, &ids)?)
    }

    /// What each token of the target language writes; none where pieces do not say where words begin.
    pub(crate) fn spellings(&self) -> Option<Arc<Spellings>> {
        let made = self.spellings.get_or_init(|| {
            let Generation { start_id, end_id, pad_id, .. } = self.generation;
            let is_written = |id| ![start_id, end_id, pad_id].contains(&id);
            let piece = |id| if is_written(id) { self.target_piece(id) } else { String::new() };
            let pieces: Vec<String> = (0..self.model.config().target_vocab_size as u32).map(piece).collect();
            let begin_words = pieces.iter().any(|piece| piece.starts_with(['▁', 'Ġ']));
            begin_words.then(|| Arc::new(Spellings::new(&pieces)))
        });
        made.clone()
    }

    /// Where the model computes.
    pub fn device(&self) -> Device {
        self.parameters.device()
    }

    /// Does `work` while no other engine has the same card, or at once where the device is the processor.
    ///
    /// Whoever waits for the card does so on a thread of its own: a thread of a pool would take up other work meanwhile, which
    /// could want the card too and wait for itself.
    pub(crate) fn in_turn<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let device = self.device();
        if device.is_cpu() {
            return work();
        }
        let done = std::thread::scope(|scope| scope.spawn(|| device.in_turn(work)).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Texts that fill batches of sentences of like length, where many are translated: 1024, on a card 8192.
    pub fn texts_at_once(&self) -> usize {
        if self.device().is_cpu() { 1024 } else { 8192 }
    }

    /// How the folder wants its model to be decoded.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The languages that can be chosen.
    pub fn languages(&self) -> &Languages {
        &self.languages
    }

    /// The ids that the model reads for a text, the end token last.
    pub fn source_ids(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizers.encode_source(text, self.model.config().end_id)?.ids)
    }

    /// The text of ids that the model wrote.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let Generation { start_id, end_id, pad_id, .. } = self.generation;
        let ids: Vec<u32> =
            ids.iter().copied().filter(|id| ![start_id, end_id, pad_id].contains(id)).collect();
        Ok(self.tokenizers.target().decode(&ids)?)
    }
}
