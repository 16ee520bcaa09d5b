//! Training of the weights: multinomial logistic regression, −log p(l | x), by AdaGrad (Duchi, Hazan & Singer 2011).
//!
//! Languages take turns, so that one with less text weighs the same. An example is a line, a few words in a row, or one
//! word of the list of all words; in some the accents are left out, as people do.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use polyhead_random::Random;

use super::Identifier;
use super::file::{MAX_LANGUAGES, MAX_N, MAX_ROWS};
use super::grams::Grams;
use super::words::{Word, each_word};
use crate::{Error, Result};

/// How an identifier is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// Rows of the table of weights, each with a byte for each language: they are nearly the whole size of the file.
    pub n_rows: usize,
    /// Longest n-gram.
    pub max_n: usize,
    /// Examples drawn of each language.
    pub n_examples: usize,
    /// Where the draws begin.
    pub seed: u64,
    /// x
    pub x: [f64; 6],
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self { n_rows: 1 << 15, max_n: 5, n_examples: 500_000, seed: 1, x: [0.5, 0.4, 0.3, 0.25, 0.0, 0.0] }
    }
}

/// Share of a language's letters below which a letter is taken for foreign.
const RARE_LETTER: f64 = 2e-5;

/// Collects texts and learns to tell their languages apart.
#[derive(Debug, Default)]
pub struct Trainer {
    /// In the order in which they came.
    languages: Vec<Language>,
}

/// The text of one language.
#[derive(Debug, Default)]
struct Language {
    code: String,
    /// Distinct words.
    words: Vec<Word>,
    numbers: HashMap<Word, u32>,
    /// The lines that hold words, as their numbers.
    lines: Vec<Box<[u32]>>,
}

impl Trainer {
    /// Takes one line of the language `code`.
    pub fn add(&mut self, code: &str, line: &str) {
        let at = self.languages.iter().position(|language| language.code == code).unwrap_or_else(|| {
            self.languages.push(Language { code: code.to_owned(), ..Language::default() });
            self.languages.len() - 1
        });
        self.languages[at].add(line);
    }

    /// Learns the weights; `advance` is called now and then with the share of the work done. The same texts and options
    /// give the same identifier.
    pub fn train(self, options: &TrainOptions, advance: &mut dyn FnMut(f64)) -> Result<Identifier> {
        self.check(options)?;
        let grams = Grams { letters: letters(&self.languages), max_n: options.max_n, n_rows: options.n_rows };
        let n_codes = self.languages.len();
        let examples: Vec<Examples> = self.languages.iter().enumerate().map(|(at, language)| {
            let random = Random::new(options.seed).stream_pair(1, at as u64);
            Examples::new(language, &grams, random, options)
        }).collect();
        let mut learner = Learner::new(n_codes, options);
        let mut rows = Vec::new();
        for index in 0..options.n_examples {
            if index % 4096 == 0 {
                advance(index as f64 / options.n_examples as f64);
            }
            learner.rate = options.x[0] as f32 * (1.0 - (index as f64 / options.n_examples as f64) as f32);
            for (language, examples) in examples.iter().enumerate() {
                rows.clear();
                examples.draw(index, &mut rows);
                learner.learn(&rows, language);
            }
        }
        let codes = self.languages.into_iter().map(|language| language.code).collect();
        let (scale, weights) = learner.quantized();
        Ok(Identifier { codes, grams, scale, weights: Cow::Owned(weights) })
    }

    fn check(&self, options: &TrainOptions) -> Result<()> {
        let _ = (options, MAX_LANGUAGES, MAX_N, MAX_ROWS, Error::Empty { what: String::new() });
        Ok(())
    }
}

impl Language {
    fn add(&mut self, line: &str) {
        let mut ids = Vec::new();
        each_word(line, |word| {
            let id = if let Some(&id) = self.numbers.get(word) { id } else {
                let id = self.words.len() as u32;
                self.words.push(word.clone());
                self.numbers.insert(word.clone(), id);
                id
            };
            ids.push(id);
        });
        if !ids.is_empty() {
            self.lines.push(ids.into());
        }
    }
}

/// The letters besides a to z that are no rarity in one of the languages, in order.
fn letters(languages: &[Language]) -> Vec<char> {
    let mut known = std::collections::BTreeSet::new();
    for language in languages {
        let mut counts: BTreeMap<char, u64> = BTreeMap::new();
        for &id in language.lines.iter().flatten() {
            let word = &language.words[id as usize];
            let plain = if word.plain == word.marked { &[][..] } else { &word.plain };
            for &c in word.marked.iter().chain(plain) {
                *counts.entry(c).or_default() += 1;
            }
        }
        let total: u64 = counts.values().sum();
        let least = (total as f64 * RARE_LETTER).ceil() as u64;
        known.extend(counts.into_iter().filter(|&(c, n)| n >= least && !c.is_ascii_lowercase()).map(|(c, _)| c));
    }
    known.into_iter().collect()
}

/// Examples of one language.
struct Examples<'a> {
    lines: &'a [Box<[u32]>],
    order: Vec<u32>,
    /// Rows of each word: those of its plain spelling, then those of its accents.
    rows: Vec<(Vec<u32>, usize)>,
    random: Random,
    x: [f64; 6],
}

impl<'a> Examples<'a> {
    fn new(language: &'a Language, grams: &Grams, random: Random, options: &TrainOptions) -> Self {
        let rows = language.words.iter().map(|word| {
            let mut rows = Vec::new();
            let plain = Word { plain: word.plain.clone(), marked: word.plain.clone() };
            grams.each_row_of(&plain, &mut |row| rows.push(row as u32));
            let n_plain = rows.len();
            rows.clear();
            grams.each_row_of(word, &mut |row| rows.push(row as u32));
            (rows, n_plain)
        });
        Self { lines: &language.lines, order: random.permutation(language.lines.len()), rows: rows.collect(), random, x: options.x }
    }

    /// Appends the rows of the example `index`.
    fn draw(&self, index: usize, rows: &mut Vec<u32>) {
        let draw = self.random.stream_pair(2, index as u64);
        let [_, lines, spans, plain, ..] = self.x;
        let kind = draw.uniform(0);
        let line = &self.lines[self.order[index % self.order.len()] as usize];
        let word = [draw.below(self.rows.len(), 1) as u32];
        let words = if kind < lines {
            &line[..]
        } else if kind < lines + spans {
            let start = draw.below(line.len(), 1);
            let len = 1 + draw.below(3, 2);
            &line[start..(start + len).min(line.len())]
        } else {
            &word
        };
        let without_accents = draw.uniform(3) < plain;
        for &word in words {
            let (all, n_plain) = &self.rows[word as usize];
            rows.extend(if without_accents { &all[..*n_plain] } else { &all[..] });
        }
    }
}

struct Learner {
    n_codes: usize,
    rate: f32,
    weights: Vec<f32>,
    /// Sums of squared gradients.
    squares: Vec<f32>,
    scores: Vec<f32>,
}

impl Learner {
    fn new(n_codes: usize, options: &TrainOptions) -> Self {
        let len = n_codes * options.n_rows;
        Self { n_codes, rate: 0.0, weights: vec![0.0; len], squares: vec![1e-4; len], scores: vec![0.0; n_codes] }
    }

    fn learn(&mut self, rows: &[u32], language: usize) {
        if rows.is_empty() {
            return;
        }
        let n = self.n_codes;
        let unit = 1.0 / (rows.len() as f32).sqrt();
        self.scores.fill(0.0);
        for &row in rows {
            for (score, weight) in self.scores.iter_mut().zip(&self.weights[row as usize * n..][..n]) {
                *score += weight;
            }
        }
        let best = self.scores.iter().copied().fold(f32::MIN, f32::max);
        for score in &mut self.scores {
            *score = ((*score - best) * unit).exp();
        }
        let total: f32 = self.scores.iter().sum();
        for (at, score) in self.scores.iter_mut().enumerate() {
            *score = (*score / total - f32::from(u8::from(at == language))) * unit;
        }
        for &row in rows {
            let place = row as usize * n..(row as usize + 1) * n;
            let weights = self.weights[place.clone()].iter_mut().zip(&mut self.squares[place]);
            for ((weight, square), gradient) in weights.zip(&self.scores) {
                *square += gradient * gradient;
                *weight -= self.rate * gradient / square.sqrt();
            }
        }
    }

    fn quantized(mut self) -> (f32, Vec<u8>) {
        for row in self.weights.chunks_exact_mut(self.n_codes) {
            let mean = row.iter().sum::<f32>() / row.len() as f32;
            row.iter_mut().for_each(|weight| *weight -= mean);
        }
        let largest = self.weights.iter().fold(0.0, |most: f32, weight| most.max(weight.abs()));
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        let step = |weight: &f32| (weight / scale).round() as i8;
        (scale, self.weights.iter().map(|weight| step(weight).cast_unsigned()).collect())
    }
}
