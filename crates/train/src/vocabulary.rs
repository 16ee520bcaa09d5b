//! The tokenisers of a run: read from a file, trained on its text, or loaded from the run folder.

use std::path::{Path, PathBuf};

use polyhead_engine::generate::{TextReader, TextUnits};
use polyhead_models::checkpoint::read_config;
use polyhead_models::{ModelConfig, TextFormat};
use polyhead_random::Random;
use polyhead_text::corpus::Pairs;
use polyhead_text::output::Output;
use polyhead_text::tokenizer::{BpeDropout, SpecialTokens, Tokenizer, TrainOptions, train};

use crate::config::{AugmentConfig, RunConfig, VocabularySharing};
use crate::run_corpus::RunCorpus;
use crate::starting_model::model_folder;
use crate::task::Task;
use crate::translation::augment::augment;
use crate::{Error, Result};

/// File of a shared tokeniser.
const SHARED: &str = "tokenizer.json";
/// Files of separate tokenisers.
const SEPARATE: [&str; 2] = ["source.json", "target.json"];

/// Files of a model folder that belong to its tokeniser and to generation.
const OF_MODEL: [&str; 12] = [
    SHARED,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    GENERATION,
];

/// Settings of generation.
pub(crate) const GENERATION: &str = "generation_config.json";

/// Names of padding and of the end token: ours, and BERT's.
const SPECIAL: [[&str; 2]; 2] = [["<pad>", "</s>"], ["[PAD]", "[SEP]"]];
/// The token that begins a text for an encoder.
const CLASS: &str = "[CLS]";
/// Spellings of the token in place of a hidden word.
const MASKS: [&str; 2] = ["[MASK]", "<mask>"];

/// Random stream of the augmentation before a tokeniser is trained.
const TEXT_STREAM: u64 = 0x544F_4B45;

/// The tokenisers of source and target.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    source: Tokenizer,
    /// The target tokeniser; `None` if it is shared.
    target: Option<Tokenizer>,
    pad_id: u32,
    end_id: u32,
    /// True if words that the vocabulary lacks have ids of their own sentence.
    copies: bool,
    /// Number of texts that a source consists of, with tabs between.
    n_sources: usize,
    /// What the folder of a model adds that a run starts from.
    borrowed: Option<Borrowed>,
}

/// The tokeniser of the model that a run starts from.
#[derive(Debug, Clone)]
struct Borrowed {
    /// Its files.
    files: Vec<PathBuf>,
    /// The token before a text of a language model.
    start_id: Option<u32>,
    units: TextUnits,
    /// True if texts are read with the special tokens of the file's template.
    has_frame: bool,
}

impl Vocabulary {
    /// Possible file names.
    pub(crate) const FILES: [&str; 3] = [SHARED, SEPARATE[0], SEPARATE[1]];

    /// Loads the tokenisers of a run folder or model folder, if there are any.
    pub fn find(folder: &Path) -> Result<Option<Self>> {
        let [source, target] = SEPARATE.map(|name| folder.join(name));
        if folder.join(SHARED).exists() {
            return Self::of_file(&folder.join(SHARED)).map(Some);
        }
        if source.exists() && target.exists() {
            return Self::new(Tokenizer::load(&source)?, Some(Tokenizer::load(&target)?), &source).map(Some);
        }
        Ok(None)
    }

    /// Loads one tokeniser for both languages.
    pub fn of_file(path: &Path) -> Result<Self> {
        Self::new(Tokenizer::load(path)?, None, path)
    }

    /// Loads the tokeniser of the language model or encoder that a run starts from.
    ///
    /// # Errors
    /// If there is none, or it does not match the model.
    pub(crate) fn of_model(init: &Path, config: &ModelConfig) -> Result<Self> {
        let folder = &model_folder(init)?;
        let files = OF_MODEL.map(|name| folder.join(name)).into_iter().filter(|path| path.exists());
        let files = files.collect();
        let new = |source, [pad_id, end_id]: [u32; 2], borrowed| Self {
            source,
            target: None,
            pad_id,
            end_id,
            copies: false,
            n_sources: 1,
            borrowed: Some(borrowed),
        };
        if let Some(special) = config.special_ids() {
            let (_, layout) = read_config(folder)?;
            let TextReader { tokenizer, start_id, units } = TextReader::load(folder, config, layout)?;
            let borrowed = Borrowed { files, start_id: Some(start_id), units, has_frame: false };
            return Ok(new(tokenizer, [special.pad_id, special.end_id], borrowed));
        }
        let tokenizer = Tokenizer::load_encoder(folder)?;
        let [rows, _] = config.vocab_sizes();
        if tokenizer.vocab_size() > rows {
            let entries = tokenizer.vocab_size();
            let message = format!("the tokeniser has {entries} entries, the embedding {rows} rows");
            return Err(Error::run(folder, message, "does the tokeniser belong to another model?"));
        }
        let TextFormat { pad_id, special_tokens: has_frame } = config.text_format();
        let borrowed = Borrowed { files, start_id: None, units: TextUnits::Lines, has_frame };
        Ok(new(tokenizer, [pad_id; 2], borrowed))
    }

    /// Trains on all training text, with its repetitions and augmentation, and saves to `folder`.
    pub fn train(run: &RunConfig, corpora: &[RunCorpus], folder: &Path) -> Result<Self> {
        let config = &run.tokenizer;
        let special = match run.task {
            Task::MaskedLanguageModel | Task::Contrastive => SpecialTokens::bert(),
            _ => SpecialTokens { tags: RunCorpus::tags(corpora), ..SpecialTokens::default() },
        };
        let learn = |sides: &[CorpusSide], name: &str| {
            let own = if sides == [CorpusSide::Target] { config.target_options() } else { config.options() };
            let options = TrainOptions { special: special.clone(), ..own };
            let random = Random::new(run.seed ^ TEXT_STREAM);
            let has_several = run.model.n_sources() > 1;
            let texts = Texts { augment: run.augment, random, has_several, ..Texts::new(corpora, sides) };
            let tokenizer = train(texts, &options, &mut |_| {})?;
            tokenizer.save(folder.join(name))?;
            Ok::<_, Error>(Tokenizer::HuggingFace(Box::new(tokenizer)))
        };
        if run.task == Task::Contrastive {
            let both = learn(&[CorpusSide::Source, CorpusSide::Target], SHARED)?;
            return Self::new(both, None, &folder.join(SHARED));
        }
        if run.task == Task::Transcription {
            // The source side has paths of sounds.
            let own = learn(&[CorpusSide::Target], SHARED)?;
            return Self::new(own, None, &folder.join(SHARED));
        }
        if !run.task.has_pairs() {
            // The target side has labels, or there is none.
            let own = learn(&[CorpusSide::Source], SHARED)?;
            return Self::new(own, None, &folder.join(SHARED));
        }
        match config.sides {
            VocabularySharing::Shared => {
                let both = learn(&[CorpusSide::Source, CorpusSide::Target], SHARED)?;
                Self::new(both, None, &folder.join(SHARED))
            }
            VocabularySharing::Separate => {
                let [source, target] =
                    [learn(&[CorpusSide::Source], SEPARATE[0])?, learn(&[CorpusSide::Target], SEPARATE[1])?];
                Self::new(source, Some(target), &folder.join(SEPARATE[0]))
            }
        }
    }

    fn new(source: Tokenizer, target: Option<Tokenizer>, path: &Path) -> Result<Self> {
        let id = |piece: &str| {
            let other = target.as_ref().map(|target| target.id(piece));
            source.id(piece).filter(|id| other.is_none_or(|other| other == Some(*id)))
        };
        let both = |[pad, end]: &[&str; 2]| Some((id(pad)?, id(end)?));
        let (pad_id, end_id) = SPECIAL.iter().find_map(both).ok_or_else(|| {
            let piece = if id("<pad>").is_none() { "<pad>" } else { "</s>" };
            Error::run(
                path,
                format!(
                    "no {piece} with the same id on both sides, expected <pad> and </s> in every tokeniser"
                ),
                "polyhead tokenizer train writes such files",
            )
        })?;
        Ok(Self { source, target, pad_id, end_id, copies: false, n_sources: 1, borrowed: None })
    }

    /// Saves the tokenisers to a model folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        if let Some(Borrowed { files, .. }) = &self.borrowed {
            for path in files {
                let content = std::fs::read(path).map_err(|error| Error::io(path, "read", error))?;
                Output::save(folder.join(path.file_name().unwrap_or_default()), &content)?;
            }
            return Ok(());
        }
        let all = match &self.target {
            None => vec![(&self.source, SHARED)],
            Some(target) => vec![(&self.source, SEPARATE[0]), (target, SEPARATE[1])],
        };
        for (tokenizer, name) in all {
            let Tokenizer::HuggingFace(tokenizer) = tokenizer else {
                let message = format!("{}, expected a tokenizer.json", tokenizer.describe());
                return Err(Error::run(folder, message, "train one: leave tokenizer.file out"));
            };
            tokenizer.save(folder.join(name))?;
        }
        Ok(())
    }

    /// The tokeniser files of the model that the run starts from; empty if it has a tokeniser of its own.
    pub(crate) fn borrowed_files(&self) -> &[PathBuf] {
        self.borrowed.as_ref().map_or(&[], |borrowed| &borrowed.files)
    }

    /// The token before a text, if it is not the model's start token.
    pub(crate) fn start_id(&self) -> Option<u32> {
        self.borrowed.as_ref().and_then(|borrowed| borrowed.start_id)
    }

    /// True if a BERT-like encoder reads texts with the special tokens of the file's template.
    pub(crate) fn has_frame(&self) -> bool {
        self.borrowed.as_ref().map_or_else(|| self.source.id(CLASS).is_some(), |borrowed| borrowed.has_frame)
    }

    /// Id of the token in place of a hidden word.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn mask_id(&self) -> Result<u32> {
        MASKS.iter().find_map(|mask| self.source.id(mask)).ok_or_else(|| {
            let message = format!("no {}, expected a token for hidden words", MASKS.join(" or "));
            Error::config(
                "tokenizer",
                message,
                "leave tokenizer.file out, or start from an encoder that has one",
            )
        })
    }

    /// Special tokens of the tokeniser as `tokenizer_config.json` names them.
    pub(crate) fn names(&self) -> &'static [(&'static str, &'static str)] {
        if self.source.id(CLASS).is_some() {
            return &[
                ("pad_token", "[PAD]"),
                ("cls_token", CLASS),
                ("sep_token", "[SEP]"),
                ("unk_token", "[UNK]"),
                ("mask_token", "[MASK]"),
            ];
        }
        &[("pad_token", "<pad>"), ("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")]
    }

    /// The units of text that the model reads.
    pub(crate) fn units(&self) -> TextUnits {
        self.borrowed.as_ref().map_or(TextUnits::Lines, |borrowed| borrowed.units)
    }

    /// Vocabulary sizes of source and target.
    pub fn sizes(&self) -> [usize; 2] {
        [self.source.vocab_size(), self.target().vocab_size()]
    }

    /// True if both languages share one tokeniser.
    pub fn is_shared(&self) -> bool {
        self.target.is_none()
    }

    /// The same vocabulary for a model that copies: words that it lacks have ids of their own sentence.
    ///
    /// # Errors
    /// If the sides do not share it, or its tokens cannot be copied.
    pub fn for_copying(&self) -> Result<Self> {
        if !self.is_shared() {
            return Err(Error::config(
                "model.copy",
                "copying with a vocabulary for each side, expected one: a copied word needs the same id on both sides",
                "set tokenizer.sides = \"shared\"",
            ));
        }
        self.source.check_copying()?;
        if self.unknown_id().is_none() {
            return Err(Error::config(
                "model.copy",
                "copying with a tokeniser without <unk>, expected a token for words that it lacks",
                "train one: leave tokenizer.file out",
            ));
        }
        Ok(Self { copies: true, ..self.clone() })
    }

    /// The same vocabulary for a model of several sources: a source has so many texts, with tabs between.
    #[must_use]
    pub fn with_sources(&self, n_sources: usize) -> Self {
        Self { n_sources, ..self.clone() }
    }

    /// Number of texts that a source consists of.
    pub fn n_sources(&self) -> usize {
        self.n_sources
    }

    /// Size of the vocabulary and the id of words that it lacks, if these have ids of their own sentence.
    pub fn known_ids(&self) -> Option<(usize, u32)> {
        self.copies.then(|| (self.source.vocab_size(), self.unknown_id().unwrap_or_default()))
    }

    /// Id of words that the vocabulary lacks.
    pub fn unknown_id(&self) -> Option<u32> {
        self.source.unknown_id()
    }

    /// Ids of padding and of the end token.
    pub fn special_ids(&self) -> [u32; 2] {
        [self.pad_id, self.end_id]
    }

    /// The source tokeniser.
    pub fn source(&self) -> &Tokenizer {
        &self.source
    }

    /// The target tokeniser.
    pub fn target(&self) -> &Tokenizer {
        self.target.as_ref().unwrap_or(&self.source)
    }

    /// The id of a language tag.
    ///
    /// # Errors
    /// If the tokeniser does not know it.
    pub fn tag_id(&self, tag: &str) -> Result<u32> {
        self.source.id(tag).ok_or_else(|| {
            Error::config(
                "tokenizer",
                format!("no {tag}, expected the tag of every target language"),
                "leave tokenizer.file out, or add the tag with `polyhead tokenizer train --tag`",
            )
        })
    }

    /// Ids of a source, after its tag, and of a target, without end tokens.
    pub(crate) fn encode(&self, [source, target]: [&str; 2], tag: Option<u32>) -> Result<[Vec<u32>; 2]> {
        if self.copies {
            let mut read = self.source.encode(source)?;
            let words = self.source.extend_source(source, &mut read)?;
            let mut written = self.source.encode(target)?;
            self.source.extend_target(target, &mut written, &words)?;
            return Ok([tagged(tag, read.ids), written.ids]);
        }
        let source = self.source_ids(source, |_, text| Ok(self.source.encode(text)?.ids))?;
        Ok([tagged(tag, source), self.target().encode_target(target)?.ids])
    }

    /// [`Self::encode`] with BPE-dropout.
    pub(crate) fn encode_with_dropout(
        &self,
        [source, target]: [&str; 2],
        tag: Option<u32>,
        dropouts: [BpeDropout; 2],
    ) -> Result<[Vec<u32>; 2]> {
        let BpeDropout { probability, random } = dropouts[0];
        let source = self.source_ids(source, |index, text| {
            // The first text draws as the only one of other models.
            let random = if index == 0 { random } else { random.stream(index as u64) };
            Ok(self.source.encode_with_dropout(text, &BpeDropout { probability, random })?.ids)
        })?;
        Ok([tagged(tag, source), self.target().encode_with_dropout(target, &dropouts[1])?.ids])
    }
}

impl Vocabulary {
    /// Ids of a source: of several texts one after the other, with an end token between.
    fn source_ids(&self, source: &str, encode: impl Fn(usize, &str) -> Result<Vec<u32>>) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for (index, text) in source.splitn(self.n_sources, '\t').enumerate() {
            if index > 0 {
                ids.push(self.end_id);
            }
            ids.extend(encode(index, text)?);
        }
        Ok(ids)
    }
}

fn tagged(tag: Option<u32>, mut ids: Vec<u32>) -> Vec<u32> {
    ids.splice(0..0, tag);
    ids
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CorpusSide {
    Source,
    Target,
}

/// The texts of corpora, each with its repetitions.
struct Texts<'a> {
    /// Corpora still to be read, last first.
    corpora: Vec<&'a RunCorpus>,
    sides: &'a [CorpusSide],
    /// True if sources consist of several texts, with tabs between.
    has_several: bool,
    augment: AugmentConfig,
    random: Random,
    open: Option<Pairs>,
    waiting: Vec<String>,
    pairs: u64,
}

impl<'a> Texts<'a> {
    fn new(corpora: &'a [RunCorpus], sides: &'a [CorpusSide]) -> Self {
        let repeated =
            corpora.iter().rev().flat_map(|run_corpus| std::iter::repeat_n(run_corpus, run_corpus.repeat));
        let (augment, random) = (AugmentConfig::default(), Random::new(0));
        let corpora = repeated.collect();
        Self {
            corpora,
            sides,
            has_several: false,
            augment,
            random,
            open: None,
            waiting: Vec::new(),
            pairs: 0,
        }
    }
}

impl Iterator for Texts<'_> {
    type Item = polyhead_text::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(text) = self.waiting.pop() {
                return Some(Ok(text));
            }
            match self.open.as_mut().map(Pairs::next_pair) {
                Some(Ok(Some(pair))) => {
                    let both = [pair.source, pair.target];
                    let changed = augment(both, self.augment, self.random.stream(self.pairs));
                    let [source, target] = changed.unwrap_or_else(|| both.map(str::to_owned));
                    let texts = |side: &CorpusSide| match side {
                        CorpusSide::Source if self.has_several => {
                            source.split('\t').map(str::to_owned).collect()
                        }
                        CorpusSide::Source => vec![source.clone()],
                        CorpusSide::Target => vec![target.clone()],
                    };
                    self.waiting = self.sides.iter().flat_map(texts).collect();
                    self.pairs += 1;
                }
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(None)) | None => match self.corpora.pop()?.corpus.pairs() {
                    Ok(pairs) => self.open = Some(pairs),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
}
