//! A loaded model folder: model, tokenisers, generation settings and languages.

mod inspection;

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use polyhead_engine::load::check_folder;
use polyhead_engine::tokenizers::Tokenizers;
use polyhead_models::checkpoint::read_config;
use polyhead_models::decode::surface_forms::SurfaceForms;
use polyhead_models::{SequenceToSequence, View};
use polyhead_tensor::{Device, Dtype, Parameters};
use polyhead_text::tokenizer::{Encoding, UnknownWords};

use crate::languages::Languages;
use crate::preserve::alphabet::Alphabet;
use crate::search::generation::Generation;
use crate::shortlist::{ActiveShortlist, ShortlistChoice};
use crate::{Error, Mode, Result, TranslateOptions};

/// Options of loading a folder.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The device to compute on; default: the CPU.
    pub device: Device,
    /// Dtype of the weights; default: as in the files. Int8 is smaller and faster, and a little less exact.
    pub dtype: Dtype,
    /// The tokens that can be written; fewer are faster. Default: those of the folder's lexical shortlist, if it has one.
    pub shortlist: ShortlistChoice,
}

/// A translator. It may be used by several threads at once.
#[derive(Debug)]
pub struct Engine {
    pub(crate) model: SequenceToSequence,
    pub(crate) parameters: Parameters,
    pub(crate) tokenizers: Tokenizers,
    pub(crate) shortlist: ActiveShortlist,
    generation: Generation,
    languages: Languages,
    pub(crate) alphabet: Alphabet,
    /// Built at the first request of several translations.
    spellings: OnceLock<Option<Arc<SurfaceForms>>>,
}

impl Engine {
    /// Loads a model folder of Polyhead, of Hugging Face's Marian or OPUS-MT, or of fairseq.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, or if they do not fit together.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let (config, _) = read_config(folder)?;
        let vocab_sizes @ [source_vocab_size, _] = config.vocab_sizes();
        if vocab_sizes == [0; 2] {
            // A model that reads no text has no tokeniser to look for.
            let error = config.instead_of(View::SequenceToSequence);
            return Err(Error::file(folder, error.to_string(), error.hint()));
        }
        let mut tokenizers = Tokenizers::load(folder, vocab_sizes)?;
        if config.copies() {
            tokenizers = tokenizers.for_copying(folder, vocab_sizes[1])?;
        }
        tokenizers = tokenizers.for_sources(config.n_sources());
        let languages = Languages::load(folder, tokenizers.source(), source_vocab_size)?;
        let alphabet = Alphabet::of(&tokenizers, source_vocab_size)?;
        let LoadOptions { device, dtype, .. } = options.clone();
        let found = polyhead_engine::load(folder, &polyhead_engine::LoadOptions { device, dtype })?;
        let model = found.model.into_sequence_to_sequence().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let generation = Generation::load(folder, &model)?;
        let parameters = found.parameters;
        let shortlist = ActiveShortlist::Off;
        let spellings = OnceLock::new();
        let mut engine =
            Self { model, parameters, tokenizers, shortlist, generation, languages, alphabet, spellings };
        engine.shortlist = engine.shortlist_of(&options.shortlist, folder)?;
        Ok(engine)
    }

    /// The text that each target token writes; none where tokens do not mark the beginning of words.
    pub(crate) fn spellings(&self) -> Option<Arc<SurfaceForms>> {
        let made = self.spellings.get_or_init(|| {
            let piece =
                |id| if self.generation.is_written(id) { self.target_piece(id) } else { String::new() };
            let pieces: Vec<String> = (0..self.model.vocab_sizes()[1] as u32).map(piece).collect();
            let begin_words = pieces.iter().any(|piece| piece.starts_with(['▁', 'Ġ']));
            begin_words.then(|| Arc::new(SurfaceForms::new(&pieces)))
        });
        made.clone()
    }

    /// The options as this model can follow them: a text for several sources is translated as it is, since its parts belong
    /// together.
    pub(crate) fn effective<'o>(&self, options: &'o TranslateOptions) -> Cow<'o, TranslateOptions> {
        if self.model.n_sources() == 1 || options.mode == Mode::Raw {
            return Cow::Borrowed(options);
        }
        Cow::Owned(TranslateOptions { mode: Mode::Raw, ..options.clone() })
    }

    /// The device that the model computes on.
    pub fn device(&self) -> Device {
        self.parameters.device()
    }

    /// Runs `work` while no other engine uses the same GPU; at once on the CPU.
    ///
    /// Waiting for the GPU happens on a thread of its own: a thread of a pool would take up other work meanwhile, which
    /// could need the GPU too and wait for itself.
    pub(crate) fn in_turn<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let device = self.device();
        if !device.policy().takes_turns {
            return work();
        }
        let done = std::thread::scope(|scope| scope.spawn(|| device.in_turn(work)).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// The number of texts at once that fills batches with sentences of similar length.
    pub fn texts_at_once(&self) -> usize {
        self.device().policy().texts
    }

    /// The generation settings of the folder.
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The languages of the model.
    pub fn languages(&self) -> &Languages {
        &self.languages
    }

    /// The ids that the model reads for a text, the end token last.
    pub fn source_ids(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizers.encode_source(text, self.model.special_ids().end_id)?.ids)
    }

    /// The text of target ids, without special tokens.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        let ids: Vec<u32> = ids.iter().copied().filter(|&id| self.generation.is_written(id)).collect();
        Ok(self.tokenizers.target().decode(&ids)?)
    }

    /// The text of target ids, of which those outside the vocabulary are words of the source.
    pub fn decode_of(&self, ids: &[u32], words: &UnknownWords) -> Result<String> {
        let ids: Vec<u32> = ids.iter().copied().filter(|&id| self.generation.is_written(id)).collect();
        Ok(self.tokenizers.target().decode_extended(&ids, words)?)
    }

    /// The words of an encoded source that the vocabulary lacks, if the model copies them.
    pub fn unknown_words(&self, source: &Encoding) -> Result<UnknownWords> {
        self.tokenizers.unknown_words(source)
    }
}
