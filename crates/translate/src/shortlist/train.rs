//! Training of a lexical shortlist: p(target token | source token) of parallel text, by IBM Model 1, for each target
//! language.

use std::collections::BTreeMap;
use std::path::Path;

use polyhead_engine::tokenizers::Tokenizers;
use polyhead_models::checkpoint::read_config;
use polyhead_models::checkpoint::shortlist::ShortlistFile;
use polyhead_models::shortlist::lexical::SourceTokens;
use polyhead_models::{LexicalShortlist, LexicalTable};
use polyhead_text::lexicon::{Lexicon, LexiconOptions};
use rayon::prelude::*;

use super::{ANY, fingerprint, source_tokens};
use crate::languages::{Languages, short};
use crate::{Error, Result};

/// One pair in this many is held out, to measure coverage.
const HELD_OUT: usize = 100;
/// Longest side of a training pair in characters.
const MAX_CHARACTERS: usize = 140;

/// Options of training.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortlistOptions {
    /// Candidates of a source token, besides the frequent tokens, at most 255; default: 200.
    pub per_token: usize,
    /// Frequent tokens of each target language, listed for every sentence; default: 4000.
    pub frequent: usize,
    /// Candidates below this probability are left out; default: 0.00003.
    pub min_probability: f32,
    /// Target languages to make tables for; default: none named, all. Sentences into the others use all tokens.
    pub into: Vec<String>,
    /// Iterations and cut-off of IBM Model 1.
    pub lexicon: LexiconOptions,
}

impl Default for ShortlistOptions {
    fn default() -> Self {
        Self {
            per_token: 200,
            frequent: 4000,
            min_probability: 0.000_03,
            into: Vec::new(),
            lexicon: LexiconOptions::default(),
        }
    }
}

/// Parallel text of two languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguagePair {
    /// The language of each side.
    pub languages: [String; 2],
    /// The texts of each side.
    pub pairs: Vec<[String; 2]>,
}

/// True if a pair is worth learning from: long ones cost much (the product of their lengths) and say little about single
/// tokens.
pub fn is_worth_learning(pair: [&str; 2]) -> bool {
    pair.iter().all(|text| !text.trim().is_empty() && text.chars().nth(MAX_CHARACTERS).is_none())
}

/// A step of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortlistProgress {
    /// This many pairs have been tokenised.
    Tokenized(usize),
    /// An iteration has been computed: its number and that of all.
    Iteration(usize, usize),
}

/// A trained shortlist.
#[derive(Debug, Clone)]
pub struct TrainedShortlist {
    /// The content of the file.
    pub file: ShortlistFile,
    /// Its tables.
    pub tables: Vec<TableSummary>,
}

/// A table in numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSummary {
    /// The language tag, or `any`.
    pub tag: String,
    /// The directions it was trained on, as pairs of two-letter codes.
    pub directions: Vec<(String, String)>,
    /// Number of training pairs.
    pub pairs: usize,
    /// Number of candidates of all source tokens.
    pub entries: usize,
    /// Mean number of tokens on the list of a held-out sentence.
    pub mean_size: f64,
    /// Share of the reference tokens of held-out sentences that are on their list.
    pub coverage: f64,
}

/// Pairs of source and target ids.
type IdPairs = Vec<(Vec<u32>, Vec<u32>)>;

/// Trains the tables of a model folder; its weights are not read. A direction that the model was not trained on is left out.
///
/// # Errors
/// If the model knows none of the directions of a text, or its vocabulary is too large.
pub fn train_shortlist(
    folder: &Path,
    texts: &[LanguagePair],
    options: &ShortlistOptions,
    progress: &(dyn Fn(ShortlistProgress) + Sync),
) -> Result<TrainedShortlist> {
    let model = ModelVocabulary::load(folder)?;
    let mut corpora: BTreeMap<String, TableCorpus> = BTreeMap::new();
    let mut tokenized = 0;
    for text in texts {
        let directions = model.directions(&text.languages)?;
        for (reversed, from, to) in directions {
            if !options.into.is_empty() && !options.into.iter().any(|into| short(into) == short(&to)) {
                continue;
            }
            let tag = model.languages.target(&to)?.map_or_else(|| ANY.to_owned(), |found| found.tag.clone());
            let corpus = corpora.entry(tag).or_default();
            corpus.directions.push((short(&from), short(&to)));
            corpus.pairs.extend(model.encode(&text.pairs, reversed)?);
            tokenized += text.pairs.len();
            progress(ShortlistProgress::Tokenized(tokenized));
        }
    }
    if corpora.is_empty() {
        let into = options.into.join(",");
        return Err(Error::request(
            format!("no direction of the model is both in the text and into {into}"),
            "name a language of the text, in a direction that polyhead info shows",
        ));
    }
    let always = model.always();
    let total = corpora.len() * options.lexicon.iterations.max(1);
    let done = std::sync::atomic::AtomicUsize::new(0);
    let report = || {
        let before = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        progress(ShortlistProgress::Iteration(before + 1, total));
    };
    let (mut tables, mut summaries) = (BTreeMap::new(), Vec::new());
    for (tag, mut corpus) in corpora {
        corpus.directions.sort();
        corpus.directions.dedup();
        let held_out = corpus.hold_out();
        let table = model.table(&corpus.pairs, &always, options, &report);
        let (mean_size, coverage) = model.measure(&table, &always, &held_out);
        summaries.push(TableSummary {
            tag: tag.clone(),
            directions: corpus.directions,
            pairs: corpus.pairs.len(),
            entries: table.candidates.len(),
            mean_size,
            coverage,
        });
        tables.insert(tag, table);
    }
    let tokenizer = fingerprint(&model.tokenizers, model.vocab_sizes);
    Ok(TrainedShortlist { file: ShortlistFile { tokenizer, always, tables }, tables: summaries })
}

/// The text of one target language.
#[derive(Debug, Default)]
struct TableCorpus {
    directions: Vec<(String, String)>,
    pairs: IdPairs,
}

impl TableCorpus {
    /// Removes and returns every n-th pair.
    fn hold_out(&mut self) -> IdPairs {
        let (mut held_out, mut rest) = (Vec::new(), Vec::new());
        for (index, pair) in std::mem::take(&mut self.pairs).into_iter().enumerate() {
            if index % HELD_OUT == HELD_OUT - 1 { held_out.push(pair) } else { rest.push(pair) }
        }
        self.pairs = rest;
        held_out
    }
}

/// Tokenisers and languages of a model folder.
struct ModelVocabulary {
    tokenizers: Tokenizers,
    languages: Languages,
    vocab_sizes: [usize; 2],
}

impl ModelVocabulary {
    fn load(folder: &Path) -> Result<Self> {
        polyhead_engine::load::check_folder(folder)?;
        let vocab_sizes = read_config(folder)?.0.vocab_sizes();
        if vocab_sizes[1] > usize::from(u16::MAX) + 1 {
            let message = format!("a vocabulary of {} tokens, expected at most 65536", vocab_sizes[1]);
            return Err(Error::file(folder, message, "a lexical shortlist stores ids in two bytes"));
        }
        let tokenizers = Tokenizers::load(folder, vocab_sizes)?;
        let languages = Languages::load(folder, tokenizers.source(), vocab_sizes[0])?;
        Ok(Self { tokenizers, languages, vocab_sizes })
    }

    /// The directions between two languages that the model was trained on: true if reversed, source, target.
    fn directions(&self, [one, two]: &[String; 2]) -> Result<Vec<(bool, String, String)>> {
        for language in [one, two] {
            if self.languages.directions().is_empty() {
                break;
            }
            self.languages.check_source(language)?;
        }
        let all = [(false, one.clone(), two.clone()), (true, two.clone(), one.clone())];
        if self.languages.directions().is_empty() {
            self.languages.check_source(one)?;
            self.languages.target(two)?;
            return Ok(all.into_iter().take(1).collect());
        }
        let is_trained =
            |(_, from, to): &(bool, String, String)| self.languages.is_trained(&short(from), &short(to));
        let found: Vec<_> = all.into_iter().filter(is_trained).collect();
        if found.is_empty() {
            let message = format!("text in {one} and {two}, expected a direction of the model");
            return Err(Error::request(message, "polyhead info shows the directions of a model"));
        }
        Ok(found)
    }

    /// The ids of the pairs that are worth learning from, source first.
    fn encode(&self, pairs: &[[String; 2]], reversed: bool) -> Result<IdPairs> {
        let encode = |[one, two]: &[String; 2]| {
            let (source, target) = if reversed { (two, one) } else { (one, two) };
            Ok((self.tokenizers.source().encode(source)?.ids, self.tokenizers.encode_target(target)?.ids))
        };
        let pairs = pairs.par_iter().filter(|[one, two]| is_worth_learning([one, two]));
        pairs.map(encode).collect()
    }

    /// Tokens that may occur in any translation: special tokens, bytes, placeholders, single characters, and tokens
    /// without letters.
    fn always(&self) -> Vec<u16> {
        let target = self.tokenizers.target();
        let is_listed = |id: &u16| {
            let Some(piece) = target.piece((*id).into()) else { return false };
            let text = piece.trim_start_matches(['▁', 'Ġ']);
            let is_marked = piece.len() > 2 && piece.starts_with('<') && piece.ends_with('>');
            is_marked || text.chars().nth(1).is_none() || !text.chars().any(char::is_alphabetic)
        };
        let is_tag = |id: &u16| self.languages.targets().iter().any(|language| language.id == u32::from(*id));
        // The vocabulary has at most 65,536 tokens.
        (0..self.vocab_sizes[1]).map(|id| id as u16).filter(is_listed).filter(|id| !is_tag(id)).collect()
    }

    fn table(
        &self,
        pairs: &IdPairs,
        always: &[u16],
        options: &ShortlistOptions,
        report: &(dyn Fn() + Sync),
    ) -> LexicalTable {
        let [n_sources, n_targets] = self.vocab_sizes;
        let mut occurrences = vec![0_u64; n_targets];
        pairs.iter().flat_map(|(_, target)| target).for_each(|&id| occurrences[id as usize] += 1);
        let mut is_listed = vec![false; n_targets];
        for &id in always {
            is_listed[usize::from(id)] = true;
        }
        let mut frequent: Vec<usize> =
            (0..n_targets).filter(|&id| occurrences[id] > 0 && !is_listed[id]).collect();
        frequent.sort_by_key(|&id| std::cmp::Reverse(occurrences[id]));
        frequent.truncate(options.frequent);
        frequent.sort_unstable();
        for &id in &frequent {
            is_listed[id] = true;
        }
        let lexicon = Lexicon::train(pairs, self.vocab_sizes, &options.lexicon, report);
        let copies = source_tokens(&self.tokenizers) == SourceTokens::Listed;
        let (mut counts, mut candidates) = (Vec::new(), Vec::new());
        for source in 0..n_sources as u32 {
            let is_candidate = |&&(id, probability): &&(u32, f32)| {
                probability >= options.min_probability && !is_listed[id as usize] && !(copies && id == source)
            };
            let mut best: Vec<(u32, f32)> =
                lexicon.row(source).iter().filter(is_candidate).copied().collect();
            // Equals stay in the order of their ids.
            best.sort_by(|a, b| b.1.total_cmp(&a.1));
            best.truncate(options.per_token.min(usize::from(u8::MAX)));
            best.sort_by_key(|&(id, _)| id);
            counts.push(best.len() as u8);
            candidates.extend(best.into_iter().map(|(id, _)| id as u16));
        }
        LexicalTable { frequent: frequent.into_iter().map(|id| id as u16).collect(), counts, candidates }
    }

    /// Mean size of the lists of held-out pairs, and the share of reference tokens that are on them.
    fn measure(&self, table: &LexicalTable, always: &[u16], held_out: &IdPairs) -> (f64, f64) {
        let always: Vec<u32> = always.iter().map(|&id| id.into()).collect();
        let source_tokens = source_tokens(&self.tokenizers);
        let lexical =
            LexicalShortlist::new(self.vocab_sizes[1], source_tokens, &always, &[(None, table.clone())]);
        let (mut sizes, mut known, mut tokens) = (0, 0, 0);
        for (source, target) in held_out {
            let list = lexical.ids(source, &[]);
            tokens += target.len();
            sizes += list.as_ref().map_or(self.vocab_sizes[1], Vec::len);
            known += match list {
                Some(list) => target.iter().filter(|id| list.binary_search(id).is_ok()).count(),
                None => target.len(),
            };
        }
        (sizes as f64 / held_out.len().max(1) as f64, known as f64 / tokens.max(1) as f64)
    }
}
