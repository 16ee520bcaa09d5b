//! A model folder, loaded: model, tokenisers, settings and languages.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use polyhead_engine::load::check_folder;
use polyhead_engine::tokenizers::Tokenizers;
use polyhead_models::checkpoint::read_config;
use polyhead_models::decode::spelling::Spellings;
use polyhead_models::{SequenceToSequence, Shortlist};
use polyhead_tensor::{Device, Parameters, Precision};

use crate::alphabet::Alphabet;
use crate::generation::Generation;
use crate::languages::Languages;
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
    pub(crate) model: SequenceToSequence,
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
        check_folder(folder)?;
        let (config, _) = read_config(folder)?;
        let vocab_sizes @ [source_vocab_size, _] = config.vocab_sizes();
        let tokenizers = Tokenizers::load(folder, vocab_sizes)?;
        let languages = Languages::load(folder, tokenizers.source(), source_vocab_size)?;
        let alphabet = Alphabet::of(&tokenizers, source_vocab_size)?;
        let LoadOptions { device, precision, .. } = options.clone();
        let found = polyhead_engine::load(folder, &polyhead_engine::LoadOptions { device, precision })?;
        let model = found.model.into_sequence_to_sequence().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let generation = Generation::load(folder, &model)?;
        let parameters = found.parameters;
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
            let pieces: Vec<String> = (0..self.model.vocab_sizes()[1] as u32).map(piece).collect();
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
        if !device.policy().takes_turns {
            return work();
        }
        let done = std::thread::scope(|scope| scope.spawn(|| device.in_turn(work)).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Texts that fill batches of sentences of like length, where many are translated.
    pub fn texts_at_once(&self) -> usize {
        self.device().policy().texts
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
        Ok(self.tokenizers.encode_source(text, self.model.special_ids().end_id)?.ids)
    }

    /// The text of ids that the model wrote.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let Generation { start_id, end_id, pad_id, .. } = self.generation;
        let ids: Vec<u32> =
            ids.iter().copied().filter(|id| ![start_id, end_id, pad_id].contains(id)).collect();
        Ok(self.tokenizers.target().decode(&ids)?)
    }
}
