//! The tokenisers of a run: read from a file, trained on its text, or found in the run folder.

use std::path::Path;

use polyhead_random::Random;
use polyhead_text::corpus::Pairs;
use polyhead_text::tokenizer::{Dropout, SpecialTokens, Tokenizer, TrainOptions, train};

use crate::config::{AugmentConfig, RunConfig, Sides};
use crate::parallel::Parallel;
use crate::task::Task;
use crate::translation::augment::augment;
use crate::{Error, Result};

/// The file of a tokeniser for both languages.
const BOTH: &str = "tokenizer.json";
/// The files of one for each.
const EACH: [&str; 2] = ["source.json", "target.json"];

/// The stream of numbers that change text before a tokeniser learns on it.
const TEXT_STREAM: u64 = 0x544F_4B45;

/// Text to ids on both sides.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    source: Tokenizer,
    /// Its own where the languages differ.
    target: Option<Tokenizer>,
    pad_id: u32,
    end_id: u32,
}

impl Vocabulary {
    /// The names that its files may have.
    pub(crate) const FILES: [&str; 3] = [BOTH, EACH[0], EACH[1]];

    /// The one in a run folder or model folder, if there is one.
    pub fn find(folder: &Path) -> Result<Option<Self>> {
        let [source, target] = EACH.map(|name| folder.join(name));
        if folder.join(BOTH).exists() {
            return Self::of_file(&folder.join(BOTH)).map(Some);
        }
        if source.exists() && target.exists() {
            return Self::new(Tokenizer::load(&source)?, Some(Tokenizer::load(&target)?), &source).map(Some);
        }
        Ok(None)
    }

    /// One file for both languages.
    pub fn of_file(path: &Path) -> Result<Self> {
        Self::new(Tokenizer::load(path)?, None, path)
    }

    /// Trained on all training text, as an epoch shows it, and written into `folder`.
    pub fn train(run: &RunConfig, corpora: &[Parallel], folder: &Path) -> Result<Self> {
        let config = &run.tokenizer;
        let special = SpecialTokens { tags: Parallel::tags(corpora), ..SpecialTokens::default() };
        let learn = |sides: &[Side], name: &str| {
            let own = if sides == [Side::Target] { config.target_options() } else { config.options() };
            let options = TrainOptions { special: special.clone(), ..own };
            let random = Random::new(run.seed ^ TEXT_STREAM);
            let texts = Texts { augment: run.augment, random, ..Texts::new(corpora, sides) };
            let tokenizer = train(texts, &options, &mut |_| {})?;
            tokenizer.save(folder.join(name))?;
            Ok::<_, Error>(Tokenizer::HuggingFace(Box::new(tokenizer)))
        };
        if !Task::of(&run.model).has_pairs() {
            // The other side has labels.
            let own = learn(&[Side::Source], BOTH)?;
            return Self::new(own, None, &folder.join(BOTH));
        }
        match config.sides {
            Sides::Shared => {
                let both = learn(&[Side::Source, Side::Target], BOTH)?;
                Self::new(both, None, &folder.join(BOTH))
            }
            Sides::Separate => {
                let [source, target] = [learn(&[Side::Source], EACH[0])?, learn(&[Side::Target], EACH[1])?];
                Self::new(source, Some(target), &folder.join(EACH[0]))
            }
        }
    }

    fn new(source: Tokenizer, target: Option<Tokenizer>, path: &Path) -> Result<Self> {
        let id = |piece: &str| {
            let other = target.as_ref().map(|target| target.id(piece));
            match source.id(piece) {
                Some(id) if other.is_none_or(|other| other == Some(id)) => Ok(id),
                _ => Err(Error::run(
                    path,
                    format!(
                        "no {piece} with one id on both sides, expected <pad> and </s> in every tokeniser"
                    ),
                    "polyhead tokenizer train makes such files",
                )),
            }
        };
        let (pad_id, end_id) = (id("<pad>")?, id("</s>")?);
        Ok(Self { source, target, pad_id, end_id })
    }

    /// Copies its files into a model folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let all = match &self.target {
            None => vec![(&self.source, BOTH)],
            Some(target) => vec![(&self.source, EACH[0]), (target, EACH[1])],
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

    /// Entries of source and target.
    pub fn sizes(&self) -> [usize; 2] {
        [self.source.vocab_size(), self.target().vocab_size()]
    }

    /// Whether both languages share it.
    pub fn is_shared(&self) -> bool {
        self.target.is_none()
    }

    /// The ids of padding and of the end of a sentence.
    pub fn special_ids(&self) -> [u32; 2] {
        [self.pad_id, self.end_id]
    }

    /// The source's.
    pub fn source(&self) -> &Tokenizer {
        &self.source
    }

    /// The target's.
    pub fn target(&self) -> &Tokenizer {
        self.target.as_ref().unwrap_or(&self.source)
    }

    /// The id of a tag.
    ///
    /// # Errors
    /// If the tokeniser does not know it.
    pub fn tag_id(&self, tag: &str) -> Result<u32> {
        self.source.id(tag).ok_or_else(|| {
            Error::config(
                "tokenizer",
                format!("no {tag}, expected the tag of every language that is written"),
                "leave tokenizer.file out, or give the tag to `polyhead tokenizer train --tag`",
            )
        })
    }

    /// Ids of a source and a target, without end tokens, the tag first.
    pub(crate) fn encode(&self, [source, target]: [&str; 2], tag: Option<u32>) -> Result<[Vec<u32>; 2]> {
        let source = self.source.encode(source)?.ids;
        Ok([tagged(tag, source), self.target().encode_target(target)?.ids])
    }

    /// The same with merges left out.
    pub(crate) fn encode_with_dropout(
        &self,
        [source, target]: [&str; 2],
        tag: Option<u32>,
        dropouts: [Dropout; 2],
    ) -> Result<[Vec<u32>; 2]> {
        let source = self.source.encode_with_dropout(source, &dropouts[0])?.ids;
        Ok([tagged(tag, source), self.target().encode_with_dropout(target, &dropouts[1])?.ids])
    }
}

fn tagged(tag: Option<u32>, mut ids: Vec<u32>) -> Vec<u32> {
    ids.splice(0..0, tag);
    ids
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

/// The texts of corpora, one after the other, each as often as an epoch holds it.
struct Texts<'a> {
    /// Those that are still to be read.
    corpora: Vec<&'a Parallel>,
    sides: &'a [Side],
    augment: AugmentConfig,
    random: Random,
    open: Option<Pairs>,
    waiting: Vec<String>,
    pairs: u64,
}

impl<'a> Texts<'a> {
    fn new(corpora: &'a [Parallel], sides: &'a [Side]) -> Self {
        let repeated =
            corpora.iter().rev().flat_map(|parallel| std::iter::repeat_n(parallel, parallel.repeat));
        let (augment, random) = (AugmentConfig::default(), Random::new(0));
        let corpora = repeated.collect();
        Self { corpora, sides, augment, random, open: None, waiting: Vec::new(), pairs: 0 }
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
                    let text = |side: &Side| if *side == Side::Source { &source } else { &target };
                    self.waiting = self.sides.iter().map(text).cloned().collect();
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
