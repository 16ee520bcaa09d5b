//! Training of the weights: multinomial logistic regression, −log p(l | x), by AdaGrad (Duchi, Hazan & Singer 2011).
//!
//! Languages take turns, so that one with less text weighs the same. An example is a line, a few words in a row, or one
//! word of the list of all words; in some the accents are left out, as people do.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use polyhead_random::Random;

use super::Identifier;
use super::file::{MAX_LANGUAGES, MAX_N, MAX_ROWS};
use super::grams::Grams;
use super::words::{Word, each_word};
use crate::{Error, Result};

/// How an identifier is trained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainOptions {
    /// Rows of the table of weights, each with a byte for each language: they are nearly the whole size of the file.
    pub n_rows: usize,
    /// Longest n-gram.
    pub max_n: usize,
    /// Examples drawn of each language.
    pub n_examples: usize,
    /// What the draws begin with.
    pub seed: u64,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self { n_rows: 1 << 15, max_n: 5, n_examples: 1_000_000, seed: 1 }
    }
}

/// First step of a weight; it falls to 0 in a line, and faster where gradients were large.
const LEARNING_RATE: f32 = 1.0;
/// Share of the examples that are whole lines.
const LINES: f64 = 0.3;
/// Share of the examples that are some words in a row; the rest are single words, rare ones as often as frequent ones.
const SPANS: f64 = 0.3;
/// Most words of such a span.
const SPAN: usize = 3;
/// Share of the examples without accents.
const WITHOUT_ACCENTS: f64 = 0.3;
/// Share of a language's letters below which a letter is taken for foreign.
const RARE_LETTER: f64 = 2e-5;
/// Most weights: training needs eight bytes for each.
const MAX_WEIGHTS: usize = 1 << 28;
/// Longest code of a language, in bytes.
const MAX_CODE: usize = 64;

/// Collects texts and learns to tell their languages apart.
///
/// ```
/// use polyhead_text::language::{TrainOptions, Trainer};
/// let mut trainer = Trainer::default();
/// trainer.add("it", "il gatto mangia il topo")?;
/// trainer.add("es", "el gato come el ratón")?;
/// let options = TrainOptions { n_examples: 1000, ..TrainOptions::default() };
/// let identifier = trainer.train(&options, &mut |_| {})?;
/// assert_eq!(identifier.identify("RATON").expect("it has letters").code, "es");
/// # Ok::<(), polyhead_text::Error>(())
/// ```
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
    pub fn add(&mut self, code: &str, line: &str) -> Result<()> {
        let at = self.languages.iter().position(|language| language.code == code);
        let at = if let Some(at) = at { at } else { self.add_language(code)? };
        self.languages[at].add(line);
        Ok(())
    }

    /// Learns the weights; `advance` is called now and then with the share of the work that is done. The same texts and
    /// options give the same identifier.
    pub fn train(self, options: &TrainOptions, advance: &mut dyn FnMut(f64)) -> Result<Identifier> {
        self.check(options)?;
        let grams = Grams { letters: letters(&self.languages), max_n: options.max_n, n_rows: options.n_rows };
        let of_language = |(at, language)| {
            Examples::new(language, &grams, Random::new(options.seed).stream_pair(0, at as u64))
        };
        let examples: Vec<Examples> = self.languages.iter().enumerate().map(of_language).collect();
        let mut learner = Learner::new(self.languages.len(), options.n_rows);
        let mut rows = Vec::new();
        for index in 0..options.n_examples {
            let done = index as f64 / options.n_examples as f64;
            if index % 4096 == 0 {
                advance(done);
            }
            learner.rate = LEARNING_RATE * (1.0 - done) as f32;
            for (language, examples) in examples.iter().enumerate() {
                rows.clear();
                examples.draw(index, &mut rows);
                learner.learn(&rows, language);
            }
        }
        let (scale, weights) = learner.quantized();
        let codes = self.languages.into_iter().map(|language| language.code).collect();
        Ok(Identifier { codes, grams, scale, weights: Cow::Owned(weights) })
    }

    fn add_language(&mut self, code: &str) -> Result<usize> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if code.is_empty() || code.len() > MAX_CODE || !code.chars().all(is_plain) {
            return Err(Error::Option {
                name: "language",
                found: format!("{code:?}"),
                expected: "a code of letters, digits, - and _".into(),
                hint: "for instance en, deu or pt-BR".into(),
            });
        }
        self.languages.push(Language { code: code.to_owned(), ..Language::default() });
        Ok(self.languages.len() - 1)
    }

    fn check(&self, options: &TrainOptions) -> Result<()> {
        let within = |name, found: usize, least: usize, most: usize, hint: &str| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let expected =
                if most == usize::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
            Err(Error::Option { name, found: found.to_string(), expected, hint: hint.into() })
        };
        let default = TrainOptions::default();
        within(
            "languages",
            self.languages.len(),
            2,
            MAX_LANGUAGES,
            "give text of each language to be told apart",
        )?;
        within("rows", options.n_rows, 1, MAX_ROWS, &format!("{} do for a few languages", default.n_rows))?;
        let n_weights = options.n_rows.saturating_mul(self.languages.len());
        within("rows times languages", n_weights, 1, MAX_WEIGHTS, "ask for fewer rows")?;
        within("longest n-gram", options.max_n, 1, MAX_N, &format!("{} is a good length", default.max_n))?;
        within(
            "examples",
            options.n_examples,
            1,
            usize::MAX,
            &format!("{} is a good number", default.n_examples),
        )?;
        match self.languages.iter().find(|language| language.lines.is_empty()) {
            Some(language) => Err(Error::Empty { what: format!("the text of {}", language.code) }),
            None => Ok(()),
        }
    }
}

impl Language {
    fn add(&mut self, line: &str) {
        let mut ids = Vec::new();
        each_word(line, |word| {
            let id = self.numbers.get(word).copied().unwrap_or_else(|| {
                let id = self.words.len() as u32;
                self.words.push(word.clone());
                self.numbers.insert(word.clone(), id);
                id
            });
            ids.push(id);
        });
        if !ids.is_empty() {
            self.lines.push(ids.into());
        }
    }
}

/// The letters besides a to z that are no rarity in one of the languages, in order.
fn letters(languages: &[Language]) -> Vec<char> {
    let mut known = BTreeSet::new();
    for language in languages {
        let mut counts: BTreeMap<char, u64> = BTreeMap::new();
        for &id in language.lines.iter().flatten() {
            let Word { plain, marked } = &language.words[id as usize];
            for &c in plain.iter().chain(marked) {
                *counts.entry(c).or_default() += 1;
            }
        }
        let total: u64 = counts.values().sum();
        let is_known =
            |&(c, n): &(char, u64)| !c.is_ascii_lowercase() && n as f64 >= RARE_LETTER * total as f64;
        known.extend(counts.into_iter().filter(is_known).map(|(c, _)| c));
    }
    known.into_iter().collect()
}

/// Examples of one language.
struct Examples<'a> {
    lines: &'a [Box<[u32]>],
    /// The lines in the order in which they are drawn, again and again.
    order: Vec<u32>,
    /// Rows of each word, and how many of them are of its plain spelling: these come first.
    rows: Vec<(Vec<u32>, usize)>,
    random: Random,
}

impl<'a> Examples<'a> {
    fn new(language: &'a Language, grams: &Grams, random: Random) -> Self {
        let rows_of = |word: &Word| {
            let mut rows = Vec::new();
            grams.each_row_of(word, &mut |row| rows.push(row as u32));
            rows
        };
        let rows = language.words.iter().map(|word| {
            let plain = Word { plain: word.plain.clone(), marked: word.plain.clone() };
            (rows_of(word), rows_of(&plain).len())
        });
        let order = random.permutation(language.lines.len());
        Self { lines: &language.lines, order, rows: rows.collect(), random }
    }

    /// Appends the rows of the example `index`.
    fn draw(&self, index: usize, rows: &mut Vec<u32>) {
        let draw = self.random.stream_pair(1, index as u64);
        let line = &self.lines[self.order[index % self.order.len()] as usize];
        let kind = draw.uniform(0);
        let any_word;
        let words = if kind < LINES {
            &line[..]
        } else if kind < LINES + SPANS {
            let start = draw.below(line.len(), 1);
            &line[start..(start + 1 + draw.below(SPAN, 2)).min(line.len())]
        } else {
            any_word = [draw.below(self.rows.len(), 1) as u32];
            &any_word
        };
        let without_accents = draw.uniform(3) < WITHOUT_ACCENTS;
        for &word in words {
            let (all, n_plain) = &self.rows[word as usize];
            rows.extend(if without_accents { &all[..*n_plain] } else { &all[..] });
        }
    }
}

/// The weights while they are learned.
struct Learner {
    n_codes: usize,
    rate: f32,
    weights: Vec<f32>,
    /// Sums of squared gradients.
    squares: Vec<f32>,
    /// Scores of the languages, then the gradients of these.
    scores: Vec<f32>,
}

impl Learner {
    fn new(n_codes: usize, n_rows: usize) -> Self {
        let len = n_codes * n_rows;
        Self {
            n_codes,
            rate: 0.0,
            weights: vec![0.0; len],
            squares: vec![1e-4; len],
            scores: vec![0.0; n_codes],
        }
    }

    /// One step towards `language` for a text of these rows.
    fn learn(&mut self, rows: &[u32], language: usize) {
        if rows.is_empty() {
            // A word of foreign letters.
            return;
        }
        let n_codes = self.n_codes;
        let place = |row: u32| row as usize * n_codes..(row as usize + 1) * n_codes;
        let unit = 1.0 / (rows.len() as f32).sqrt();
        self.scores.fill(0.0);
        for &row in rows {
            for (score, weight) in self.scores.iter_mut().zip(&self.weights[place(row)]) {
                *score += weight * unit;
            }
        }
        let best = self.scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for score in &mut self.scores {
            *score = (*score - best).exp();
        }
        let total: f32 = self.scores.iter().sum();
        for (at, score) in self.scores.iter_mut().enumerate() {
            let truth = if at == language { 1.0 } else { 0.0 };
            *score = (*score / total - truth) * unit;
        }
        for &row in rows {
            let weights = self.weights[place(row)].iter_mut().zip(&mut self.squares[place(row)]);
            for ((weight, square), gradient) in weights.zip(&self.scores) {
                *square += gradient * gradient;
                *weight -= self.rate * gradient / square.sqrt();
            }
        }
    }

    /// The weights as signed bytes, and what one step of them is worth.
    fn quantized(mut self) -> (f32, Vec<u8>) {
        // What all languages have in common changes no probability, and would only make the steps coarser.
        for row in self.weights.chunks_exact_mut(self.n_codes) {
            let mean = row.iter().sum::<f32>() / row.len() as f32;
            for weight in row {
                *weight -= mean;
            }
        }
        let largest = self.weights.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
        let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
        let bytes = self.weights.iter().map(|weight| ((weight / scale).round() as i8).cast_unsigned());
        (scale, bytes.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: TrainOptions = TrainOptions { n_rows: 4096, max_n: 4, n_examples: 2000, seed: 3 };

    fn trained(lines: &[(&str, &str)], options: &TrainOptions) -> Result<Identifier> {
        let mut trainer = Trainer::default();
        for (code, line) in lines {
            trainer.add(code, line)?;
        }
        trainer.train(options, &mut |_| {})
    }

    const LINES: [(&str, &str); 6] = [
        ("es", "el perro y el gato duermen en la casa"),
        ("es", "¿dónde está el niño?"),
        ("ru", "кошка спит в доме"),
        ("ru", "где мой друг?"),
        ("it", "il cane e il gatto dormono nella casa"),
        ("it", "dov'è il bambino?"),
    ];

    #[test]
    fn any_languages_can_be_learned() {
        let identifier = trained(&LINES, &OPTIONS).unwrap();
        assert_eq!(identifier.codes().collect::<Vec<_>>(), ["es", "ru", "it"]);
        for (text, code) in [("donde esta el gato", "es"), ("ДОМ", "ru"), ("Il gatto", "it"), ("niño", "es")]
        {
            let guess = identifier.identify(text).unwrap();
            assert_eq!(guess.code, code, "{text}: {guess:?}");
        }
        assert_eq!(identifier.identify("漢字"), None);
    }

    #[test]
    fn the_same_texts_give_the_same_identifier() {
        let first = trained(&LINES, &OPTIONS).unwrap();
        assert_eq!(first, trained(&LINES, &OPTIONS).unwrap());
        assert_ne!(first, trained(&LINES, &TrainOptions { seed: 4, ..OPTIONS }).unwrap());
    }

    #[test]
    fn a_language_with_less_text_weighs_the_same() {
        let many: Vec<(&str, &str)> =
            (0..50).flat_map(|_| LINES[..2].to_vec()).chain(LINES[4..].to_vec()).collect();
        let identifier = trained(&many, &OPTIONS).unwrap();
        let guess = identifier.identify("xyz").unwrap();
        assert!(guess.probability < 0.9, "{guess:?}");
        assert_eq!(identifier.identify("dormono nella").unwrap().code, "it");
    }

    #[test]
    fn what_cannot_be_learned_is_said() {
        let message = |lines: &[(&str, &str)], options| trained(lines, options).unwrap_err().to_string();
        assert_eq!(message(&LINES[..2], &OPTIONS), "languages: 1, expected 2 to 1000");
        let empty = [("en", "the"), ("de", "12")];
        assert_eq!(
            message(&empty, &OPTIONS),
            "the text of de: no text found, expected at least one line that is not empty"
        );
        assert_eq!(
            message(&LINES, &TrainOptions { max_n: 9, ..OPTIONS }),
            "longest n-gram: 9, expected 1 to 8"
        );
        assert_eq!(
            message(&LINES, &TrainOptions { n_examples: 0, ..OPTIONS }),
            "examples: 0, expected 1 or more"
        );
        assert!(message(&[("e n", "the")], &OPTIONS).starts_with("language: \"e n\", expected a code"));
    }

    #[test]
    fn weights_fit_into_bytes_whatever_they_are() {
        let mut learner = Learner::new(2, 2);
        assert_eq!(Learner::new(2, 2).quantized(), (1.0, vec![0; 4]));
        learner.weights = vec![3.0, 1.0, -127.0, 127.0];
        assert_eq!(learner.quantized(), (1.0, vec![1, 255, 129, 127]));
    }
}
