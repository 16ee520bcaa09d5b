//! ARPA files: `\data\` with the number of n-grams of each order, then for each order a line per n-gram with log₁₀ of its
//! probability, its words and log₁₀ of its back-off weight, which may be missing.

use std::path::Path;

use polyhead_text::lines::Lines;
use polyhead_text::output::Output;
use rayon::prelude::*;

use super::count::TextUnit;
use super::model::{Entry, NgramModel};
use super::vocabulary::Words;
use super::{END, MAX_ORDER, SPECIAL, UNKNOWN};
use crate::{Error, Result};

/// Log₁₀ probability of unknown words where a file has no `<unk>`.
const NO_UNKNOWN: f32 = -100.0;
/// Log₁₀ probability of `<s>`, which is never predicted.
const NEVER: f32 = -99.0;

/// True for names that end with `.arpa`.
pub(super) fn is_arpa(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("arpa"))
}

/// Writes a model.
pub(super) fn write(model: &NgramModel, path: &Path) -> Result<()> {
    let mut out = Output::create(path)?;
    out.write_line("\\data\\")?;
    for (order, count) in (1..).zip(model.counts()) {
        out.write_line(&format!("ngram {order}={count}"))?;
    }
    for order in 1..=model.order() {
        out.write_line(&format!("\n\\{order}-grams:"))?;
        let mut failed = Ok(());
        let mut path_to = Vec::with_capacity(order);
        for first in 0..model.vocab_size() as u32 {
            visit(model, (0, first as usize), &mut path_to, order, &mut |words, (prob, backoff)| {
                let words: Vec<&str> = words.iter().rev().map(|id| model.word(*id)).collect();
                let line = if order == model.order() {
                    format!("{prob}\t{}", words.join(" "))
                } else {
                    format!("{prob}\t{}\t{backoff}", words.join(" "))
                };
                if failed.is_ok() {
                    failed = out.write_line(&line);
                }
            });
        }
        failed?;
    }
    out.write_line("\n\\end\\")?;
    Ok(out.finish()?)
}

/// Called with the words of an n-gram, last first, its probability and back-off.
type Visitor<'a> = &'a mut dyn FnMut(&[u32], (f32, f32));

/// Calls `each` with the words, last first, probability and back-off of every n-gram of `order` below a node.
fn visit(
    model: &NgramModel,
    (depth, index): (usize, usize),
    path: &mut Vec<u32>,
    order: usize,
    each: Visitor<'_>,
) {
    let inner = &model.inner;
    let Some(level) = inner.levels.get(depth) else {
        let Some(leaves) = &inner.leaves else { return };
        if let (Some(word), Some(prob)) = (leaves.words.get(index), leaves.probs.get(index)) {
            path.push(*word);
            each(path, (*prob, 0.0));
            path.pop();
        }
        return;
    };
    let (Some(node), Some(next)) = (level.nodes.get(index), level.nodes.get(index + 1)) else { return };
    path.push(level.words.get(index).copied().unwrap_or_default());
    if depth + 1 == order {
        each(path, (node.prob, node.backoff));
    } else {
        for child in node.begin..next.begin {
            visit(model, (depth + 1, child as usize), path, order, each);
        }
    }
    path.pop();
}

/// The n-grams of one order, reversed.
#[derive(Default)]
struct Section {
    /// All words, `order` for each n-gram, the last word first.
    words: Vec<u32>,
    /// Log₁₀ of probability (`None`: not in the file) and back-off.
    values: Vec<(Option<f32>, f32)>,
}

/// Reads a file, plain or gzip.
pub(super) fn read(path: &Path) -> Result<NgramModel> {
    let mut reader = Reader { lines: Lines::open(path)?, path };
    let counts = reader.counts()?;
    let mut words = Words::new();
    let mut sections: Vec<Section> = Vec::new();
    for (order, &count) in (1..).zip(&counts) {
        sections.push(reader.section(order, (count, counts.len()), &mut words)?);
    }
    let unigrams = std::mem::take(&mut sections[0]);
    let first = first_level(path, &words, &unigrams)?;
    let mut sorted = vec![Section::default()];
    for (section, order) in sections.into_iter().skip(1).zip(2..) {
        sorted.push(section.sorted(order, path)?);
    }
    for order in (3..=counts.len()).rev() {
        let (below, own) = sorted.split_at_mut(order - 1);
        below[order - 2].complete(order - 1, &own[0]);
    }
    let is_letter = |id: u32| words.word(id).chars().count() == 1;
    // Only a model of characters has a word for the space.
    let are_letters =
        words.find("▁".as_bytes()).is_some() && (SPECIAL.len() as u32..words.len() as u32).all(is_letter);
    let unit = if are_letters { TextUnit::Character } else { TextUnit::Word };
    let (levels, blanks) = levels(first, &sorted);
    let mut model = NgramModel::new(words, levels, unit);
    for (depth, nodes) in blanks.into_iter().enumerate() {
        fill(&mut model, depth, nodes);
    }
    Ok(model)
}

struct Reader<'a> {
    lines: Lines,
    path: &'a Path,
}

impl Reader<'_> {
    fn error(&self, message: impl Into<String>, hint: &str) -> Error {
        Error::line(self.path, self.lines.line(), message, hint)
    }

    /// The next line that is not blank.
    fn next(&mut self) -> Result<Option<String>> {
        while let Some(line) = self.lines.next_text()? {
            if !line.trim().is_empty() {
                return Ok(Some(line.trim_end().to_owned()));
            }
        }
        Ok(None)
    }

    /// The number of n-grams of each order; reads up to the header of the unigrams.
    fn counts(&mut self) -> Result<Vec<usize>> {
        let hint = "an ARPA file begins with \\data\\ and lines such as: ngram 1=5000";
        loop {
            match self.next()? {
                None => return Err(self.error("no \\data\\, expected an ARPA file or a binary model", hint)),
                Some(line) if line.trim() == "\\data\\" => break,
                Some(_) => {}
            }
        }
        let mut counts = Vec::new();
        while let Some(line) = self.next()? {
            if line.trim() == "\\1-grams:" && !counts.is_empty() {
                return Ok(counts);
            }
            let count = line.strip_prefix("ngram ").and_then(|rest| rest.split_once('='));
            let count = count.and_then(|(order, count)| {
                Some((order.trim().parse::<usize>().ok()?, count.trim().parse::<usize>().ok()?))
            });
            match count {
                Some((order, count)) if order == counts.len() + 1 && order <= MAX_ORDER => counts.push(count),
                Some((order, _)) if order > MAX_ORDER => {
                    return Err(
                        self.error(format!("order {order}, expected at most {MAX_ORDER}"), "prune the model")
                    );
                }
                _ => {
                    return Err(
                        self.error(format!("{line:?}, expected \"ngram {}=COUNT\"", counts.len() + 1), hint)
                    );
                }
            }
        }
        Err(self.error("the end of the file, expected \\1-grams:", hint))
    }

    /// The n-grams of one order, and the header of the next section.
    fn section(
        &mut self,
        order: usize,
        (count, orders): (usize, usize),
        words: &mut Words,
    ) -> Result<Section> {
        let mut section = Section::default();
        let end = if order == orders { "\\end\\".to_owned() } else { format!("\\{}-grams:", order + 1) };
        loop {
            let Some(line) = self.next()? else {
                return Err(
                    self.error(format!("the end of the file, expected {end}"), "the file is incomplete")
                );
            };
            if line.trim() == end {
                break;
            }
            self.entry(&line, order, words, &mut section)?;
        }
        let found = section.values.len();
        if found != count {
            return Err(self.error(
                format!("{found} {order}-grams before this line, expected the {count} of \\data\\"),
                "correct the counts, or restore the missing lines",
            ));
        }
        Ok(section)
    }

    fn entry(&self, line: &str, order: usize, words: &mut Words, section: &mut Section) -> Result<()> {
        let mut fields = line.split([' ', '\t']).filter(|field| !field.is_empty());
        let number = |field: Option<&str>| field.and_then(|field| field.parse::<f32>().ok());
        let hint = "a line has log10 of a probability, the words, and log10 of a back-off weight or nothing";
        let prob = number(fields.next()).filter(|prob| *prob <= 1e-5 && !prob.is_nan()).ok_or_else(|| {
            self.error(format!("{line:?}, expected log10 of a probability, a number not above 0"), hint)
        })?;
        let first = section.words.len();
        for _ in 0..order {
            let word = fields.next().ok_or_else(|| {
                self.error(format!("{line:?}, expected {order} words after the probability"), hint)
            })?;
            let id = if order == 1 { Some(words.add(word.as_bytes())) } else { words.find(word.as_bytes()) };
            let id = id.ok_or_else(|| {
                self.error(
                    format!("the word {word:?}, which is not among the 1-grams"),
                    "add it to the 1-grams",
                )
            })?;
            section.words.push(id);
        }
        section.words[first..].reverse();
        let backoff = match fields.next() {
            None => 0.0,
            rest => number(rest).filter(|backoff| !backoff.is_nan()).ok_or_else(|| {
                self.error(
                    format!("{:?}, expected a back-off weight or nothing", rest.unwrap_or_default()),
                    hint,
                )
            })?,
        };
        if fields.next().is_some() {
            return Err(self.error(format!("more fields than {order} words and a back-off weight"), hint));
        }
        section.values.push((Some(prob.min(0.0)), backoff));
        Ok(())
    }
}

/// The nodes of the first level: the node of every word at its id.
fn first_level(path: &Path, words: &Words, section: &Section) -> Result<Vec<Entry>> {
    let mut nodes: Vec<Option<Entry>> = vec![None; words.len()];
    for (&word, &(prob, backoff)) in section.words.iter().zip(&section.values) {
        let node = Entry { word, prob: prob.unwrap_or(NEVER), backoff, begin: 0 };
        if nodes[word as usize].replace(node).is_some() {
            let message = format!("the 1-gram {:?} twice, expected it once", words.word(word));
            return Err(Error::file(path, message, "remove one of them"));
        }
    }
    if nodes[END as usize].is_none() {
        return Err(Error::file(
            path,
            "no 1-gram </s>, expected the end of sentences",
            "train it on lines of text",
        ));
    }
    let missing = |word: usize| {
        let prob = if word == UNKNOWN as usize { NO_UNKNOWN } else { NEVER };
        Entry { word: word as u32, prob, ..Entry::default() }
    };
    Ok(nodes.into_iter().enumerate().map(|(word, node)| node.unwrap_or_else(|| missing(word))).collect())
}

impl Section {
    /// The same n-grams, sorted.
    fn sorted(self, order: usize, path: &Path) -> Result<Self> {
        let key = |index: &u32| &self.words[*index as usize * order..][..order];
        let mut indices: Vec<u32> = (0..self.values.len() as u32).collect();
        indices.par_sort_unstable_by(|a, b| key(a).cmp(key(b)));
        if indices.windows(2).any(|pair| key(&pair[0]) == key(&pair[1])) {
            return Err(Error::file(
                path,
                format!("a {order}-gram twice, expected each once"),
                "remove one of them",
            ));
        }
        Ok(Self {
            words: indices.iter().flat_map(|index| key(index).iter().copied()).collect(),
            values: indices.iter().map(|index| self.values[*index as usize]).collect(),
        })
    }

    /// Adds the parents of the n-grams of the next order that are missing here: they have no probability yet.
    fn complete(&mut self, order: usize, next: &Self) {
        let parents = next.words.chunks_exact(order + 1).map(|words| &words[..order]);
        let mut own = self.words.chunks_exact(order).zip(&self.values).peekable();
        let mut all = Self::default();
        let mut last: Option<&[u32]> = None;
        for parent in parents {
            if last == Some(parent) {
                continue;
            }
            last = Some(parent);
            while let Some((words, value)) = own.next_if(|(words, _)| *words < parent) {
                all.words.extend_from_slice(words);
                all.values.push(*value);
            }
            if own.peek().is_none_or(|(words, _)| *words != parent) {
                all.words.extend_from_slice(parent);
                all.values.push((None, 0.0));
            }
        }
        for (words, value) in own {
            all.words.extend_from_slice(words);
            all.values.push(*value);
        }
        *self = all;
    }
}

/// A node without a probability: its index and its words, last first.
type Blank = (usize, Vec<u32>);

/// The levels of the trie, and the nodes of each that have no probability yet.
fn levels(first: Vec<Entry>, sections: &[Section]) -> (Vec<Vec<Entry>>, Vec<Vec<Blank>>) {
    let (mut levels, mut blanks) = (vec![first], vec![Vec::new()]);
    for (order, section) in (2..).zip(&sections[1..]) {
        let (mut nodes, mut open) = (Vec::with_capacity(section.values.len() + 1), Vec::new());
        // Both this level and the one above are sorted, so the parents follow each other.
        let mut parent = 0;
        let above = &sections[order - 2];
        let parents = levels.last_mut().expect("the first level");
        let n_parents = parents.len();
        for (words, &(prob, backoff)) in section.words.chunks_exact(order).zip(&section.values) {
            let is_parent = |parent: usize| {
                if order == 2 {
                    parent == words[0] as usize
                } else {
                    above.words[parent * (order - 1)..][..order - 1] == words[..order - 1]
                }
            };
            while !is_parent(parent) {
                parent += 1;
                parents[parent].begin = nodes.len() as u32;
            }
            if prob.is_none() {
                open.push((nodes.len(), words.to_vec()));
            }
            nodes.push(Entry { word: words[order - 1], prob: prob.unwrap_or(0.0), backoff, begin: 0 });
        }
        parents[parent + 1..].iter_mut().for_each(|node| node.begin = nodes.len() as u32);
        debug_assert_eq!(n_parents, parents.len());
        parents.push(Entry { begin: nodes.len() as u32, ..Entry::default() });
        levels.push(nodes);
        blanks.push(open);
    }
    levels.last_mut().expect("the first level").push(Entry::default());
    (levels, blanks)
}

/// Gives nodes without a probability the one that backing off gives.
fn fill(model: &mut NgramModel, depth: usize, blanks: Vec<Blank>) {
    use super::table::Table;
    for (index, words) in blanks {
        // The context without this node: p(w | c) = backoff(c) + p(w | c′).
        let prob = model.backed_off(&words);
        let inner =
            std::sync::Arc::get_mut(&mut model.inner).expect("a model that is being read has one owner");
        if let Some(Table::Owned(nodes)) = inner.levels.get_mut(depth).map(|level| &mut level.nodes) {
            nodes[index].prob = prob;
        }
    }
}
