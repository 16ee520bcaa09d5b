//! The tokenisers of a run: read from a file, trained on its text, or found in the run folder.

use std::path::Path;

use polyhead_text::corpus::{Corpus, Pairs};
use polyhead_text::tokenizer::{Dropout, Tokenizer, train};

use crate::config::{Sides, TokenizerConfig};
use crate::{Error, Result};

/// The file of a tokeniser for both languages.
const BOTH: &str = "tokenizer.json";
/// The files of one for each.
const EACH: [&str; 2] = ["source.json", "target.json"];

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

    /// Trained on all training text and written into `folder`.
    pub fn train(config: &TokenizerConfig, corpora: &[Corpus], folder: &Path) -> Result<Self> {
        let learn = |sides: &[Side], name: &str| {
            let options = if sides == [Side::Target] { config.target_options() } else { config.options() };
            let tokenizer = train(Texts::new(corpora, sides), &options, &mut |_| {})?;
            tokenizer.save(folder.join(name))?;
            Ok::<_, Error>(Tokenizer::HuggingFace(Box::new(tokenizer)))
        };
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

    /// Ids of a pair, without end tokens.
    pub(crate) fn encode(&self, source: &str, target: &str) -> Result<[Vec<u32>; 2]> {
        Ok([self.source.encode(source)?.ids, self.target().encode_target(target)?.ids])
    }

    /// The same with merges left out.
    pub(crate) fn encode_with_dropout(
        &self,
        source: &str,
        target: &str,
        dropouts: [Dropout; 2],
    ) -> Result<[Vec<u32>; 2]> {
        Ok([
            self.source.encode_with_dropout(source, &dropouts[0])?.ids,
            self.target().encode_with_dropout(target, &dropouts[1])?.ids,
        ])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

/// The texts of corpora, one after the other.
struct Texts<'a> {
    corpora: std::slice::Iter<'a, Corpus>,
    sides: &'a [Side],
    open: Option<Pairs>,
    waiting: Vec<String>,
}

impl<'a> Texts<'a> {
    fn new(corpora: &'a [Corpus], sides: &'a [Side]) -> Self {
        Self { corpora: corpora.iter(), sides, open: None, waiting: Vec::new() }
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
                    self.waiting = self
                        .sides
                        .iter()
                        .map(|side| if *side == Side::Source { pair.source } else { pair.target }.to_owned())
                        .collect();
                }
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(None)) | None => match self.corpora.next()?.pairs() {
                    Ok(pairs) => self.open = Some(pairs),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
}
