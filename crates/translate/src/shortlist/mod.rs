//! Vocabulary shortlists of a translator: the tokens of given texts, or a lexical shortlist, which lists the probable
//! tokens of each sentence ([`train_shortlist`] makes one).

mod train;

use std::path::{Path, PathBuf};

use polyhead_engine::tokenizers::Tokenizers;
use polyhead_models::checkpoint::shortlist::{SHORTLIST, ShortlistFile};
use polyhead_models::shortlist::lexical::SourceTokens;
use polyhead_models::{Decoding, LexicalShortlist, Shortlist, Shortlisted};

pub use self::train::{
    LanguagePair, ShortlistOptions, ShortlistProgress, TableSummary, TrainedShortlist, is_worth_learning,
    train_shortlist,
};
use crate::search::{DecoderInput, Hypotheses, Search};
use crate::{Engine, Error, Result};

/// The name of the table of a model without language tags.
const ANY: &str = "any";

/// The tokens that a translator may write; only the listed ones are computed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ShortlistChoice {
    /// Those of the lexical shortlist in the model folder, `shortlist.safetensors`; all where there is none. The default.
    #[default]
    Folder,
    /// All.
    All,
    /// Those of a lexical shortlist in this file.
    Lexical(PathBuf),
    /// Those that occur in these texts in the target language.
    Texts(Vec<String>),
}

/// The shortlist of a loaded model.
#[derive(Debug)]
pub(crate) enum ActiveShortlist {
    /// None: all tokens.
    Off,
    /// The same list for every sentence.
    Fixed(Shortlist),
    /// A list for each sentence.
    Lexical(LexicalShortlist),
}

impl Engine {
    /// The shortlist that is chosen for the model of a folder. A GPU uses no lexical one: its output layer is cheap.
    pub(crate) fn shortlist_of(&self, choice: &ShortlistChoice, folder: &Path) -> Result<ActiveShortlist> {
        let own = folder.join(SHORTLIST);
        let path = match choice {
            ShortlistChoice::Folder if own.exists() => &own,
            ShortlistChoice::Lexical(path) => path,
            ShortlistChoice::Folder | ShortlistChoice::All => return Ok(ActiveShortlist::Off),
            ShortlistChoice::Texts(texts) => return Ok(ActiveShortlist::Fixed(self.listed_texts(texts)?)),
        };
        let vocab_sizes = self.model.vocab_sizes();
        let file = ShortlistFile::load(path, &fingerprint(&self.tokenizers, vocab_sizes), vocab_sizes)?;
        if !self.device().policy().packs_weights {
            return Ok(ActiveShortlist::Off);
        }
        let targets = self.languages().targets();
        let table = |(tag, table)| {
            let id = targets.iter().find(|language| language.tag == tag).map(|language| language.id);
            if id.is_none() && tag != ANY {
                let message = format!("a table for {tag}, expected tags of the model");
                return Err(Error::file(path, message, "make it with polyhead shortlist train"));
            }
            Ok((id, table))
        };
        let tables = file.tables.into_iter().map(table).collect::<Result<Vec<_>>>()?;
        let always: Vec<u32> = file.always.into_iter().map(u32::from).chain(self.end_ids()).collect();
        let source_tokens = source_tokens(&self.tokenizers);
        Ok(ActiveShortlist::Lexical(LexicalShortlist::new(vocab_sizes[1], source_tokens, &always, &tables)))
    }

    /// The tokens that end a translation, which every list has.
    fn end_ids(&self) -> impl Iterator<Item = u32> {
        let vocab_size = self.model.vocab_sizes()[1];
        self.generation().end_ids().filter(move |&id| (id as usize) < vocab_size)
    }

    /// The shortlist of the tokens of `texts`.
    fn listed_texts(&self, texts: &[String]) -> Result<Shortlist> {
        let mut ids: Vec<u32> = self.end_ids().collect();
        for text in texts {
            ids.extend(self.tokenizers.encode_target(text)?.ids);
        }
        Ok(Shortlist::new(&self.model, &self.parameters, &ids)?)
    }
}

impl ActiveShortlist {
    /// The hypotheses of each input, best first. Samples are drawn from all tokens where the list is a lexical one.
    pub(crate) fn run(
        &self,
        search: &Search,
        decoding: Decoding<'_>,
        inputs: &[&DecoderInput],
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Hypotheses> {
        let run = |shortlist: Option<&Shortlist>, inputs: &[&DecoderInput]| match shortlist {
            Some(shortlist) => search.run_while(&Shortlisted { decoding, shortlist }, inputs, is_wanted),
            None => search.run_while(&decoding, inputs, is_wanted),
        };
        match self {
            Self::Fixed(shortlist) => run(Some(shortlist), inputs),
            Self::Lexical(lexical) if !search.is_sampling() => run_listed(lexical, decoding, inputs, run),
            Self::Off | Self::Lexical(_) => run(None, inputs),
        }
    }
}

/// The hypotheses of each input, with its own list where it has one.
fn run_listed(
    lexical: &LexicalShortlist,
    decoding: Decoding<'_>,
    inputs: &[&DecoderInput],
    run: impl Fn(Option<&Shortlist>, &[&DecoderInput]) -> Result<Hypotheses>,
) -> Result<Hypotheses> {
    let lists: Vec<Option<Vec<u32>>> =
        inputs.iter().map(|input| lexical.ids(&input.source, &input.forced.ids())).collect();
    let (listed, unlisted): (Vec<usize>, Vec<usize>) =
        (0..inputs.len()).partition(|&index| lists[index].is_some());
    let chosen =
        |indices: &[usize]| -> Vec<&DecoderInput> { indices.iter().map(|&index| inputs[index]).collect() };
    let mut found = Vec::new();
    if !listed.is_empty() {
        let lists: Vec<Vec<u32>> = lists.into_iter().flatten().collect();
        let shortlist = Shortlist::of_sentences(decoding.model, decoding.parameters, &lists)?;
        found = run(Some(&shortlist), &chosen(&listed))?;
    }
    if !unlisted.is_empty() {
        found.extend(run(None, &chosen(&unlisted))?);
    }
    let mut all = vec![Vec::new(); inputs.len()];
    for (index, hypotheses) in listed.into_iter().chain(unlisted).zip(found) {
        all[index] = hypotheses;
    }
    Ok(all)
}

fn source_tokens(tokenizers: &Tokenizers) -> SourceTokens {
    if tokenizers.are_shared() { SourceTokens::Listed } else { SourceTokens::Foreign }
}

/// A fingerprint of the vocabularies (FNV-1a of all pieces by id): a shortlist is of use to no other tokeniser.
fn fingerprint(tokenizers: &Tokenizers, vocab_sizes: [usize; 2]) -> String {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for (tokenizer, size) in [tokenizers.source(), tokenizers.target()].into_iter().zip(vocab_sizes) {
        for id in 0..size as u32 {
            for byte in tokenizer.piece(id).unwrap_or_default().bytes().chain([b'\n']) {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    format!("{sum:016x}")
}
