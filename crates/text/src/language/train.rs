//! Training of the weights: multinomial logistic regression, −log p(l | x), by AdaGrad (Duchi, Hazan & Singer 2011).
//!
//! Languages alternate, so that one with less text has the same weight. An example is a line, a few consecutive words,
//! or one word of the vocabulary; some examples are stripped of accents, as people often type.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use polyhead_random::Random;

use super::Identifier;
use super::file::{MAX_LANGUAGES, MAX_N, MAX_ROWS};
use super::ngrams::NgramHasher;
use super::words::{Word, each_word};
use crate::{Error, Result};

/// Options of training an identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentifierOptions {
    /// Rows of the weight table, one byte per language each: nearly the whole size of the file; default: 32,768.
    pub n_rows: usize,
    /// Longest n-gram; default: 5.
    pub max_n: usize,
    /// Examples per language; default: 1,000,000.
    pub n_examples: usize,
    /// Random seed; default: 1.
    pub seed: u64,
}

impl Default for IdentifierOptions {
    fn default() -> Self {
        Self { n_rows: 1 << 15, max_n: 5, n_examples: 1_000_000, seed: 1 }
    }
}

/// Initial learning rate; it decays linearly to 0, and AdaGrad divides it by the root of the summed squared gradients.
const LEARNING_RATE: f32 = 1.0;
/// Share of the examples that are whole lines.
const LINES: f64 = 0.3;
/// Share of the examples that are consecutive words; the rest are single words, drawn uniformly from the vocabulary.
const SPANS: f64 = 0.3;
/// Maximum number of words of a span.
const SPAN: usize = 3;
/// Share of the examples without accents.
const WITHOUT_ACCENTS: f64 = 0.3;
/// Share of a language's letters below which a letter counts as foreign.
const RARE_LETTER: f64 = 2e-5;
/// Maximum number of weights: training needs eight bytes per weight.
const MAX_WEIGHTS: usize = 1 << 28;
/// Longest language code, in bytes.
const MAX_CODE: usize = 64;

/// Trainer of an identifier: collects lines by language, then trains on them.
///
/// ```
/// use polyhead_text::language::{IdentifierOptions, Trainer};
/// let mut trainer = Trainer::default();
/// trainer.add("it", "il gatto mangia il topo")?;
/// trainer.add("es", "el gato come el ratón")?;
/// let options = IdentifierOptions { n_examples: 1000, ..IdentifierOptions::default() };
/// let identifier = trainer.train(&options, &mut |_| {})?;
/// assert_eq!(identifier.identify("RATON").expect("it has letters").code, "es");
/// # Ok::<(), polyhead_text::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Trainer {
    /// In the order of their first lines.
    languages: Vec<LanguageText>,
}

/// Training text of one language.
#[derive(Debug, Default)]
struct LanguageText {
    code: String,
    /// Distinct words.
    words: Vec<Word>,
    /// Index of each word in `words`.
    indices: HashMap<Word, u32>,
    /// The lines that hold words, as indices into `words`.
    lines: Vec<Box<[u32]>>,
}

impl Trainer {
    /// Adds a line of the language `code`.
    pub fn add(&mut self, code: &str, line: &str) -> Result<()> {
        let at = self.languages.iter().position(|language| language.code == code);
        let at = if let Some(at) = at { at } else { self.add_language(code)? };
        self.languages[at].add(line);
        Ok(())
    }

    /// Trains the weights. Calls `advance` with the finished share, 0 to 1, every 4096 examples. The same lines and
    /// options give the same identifier.
    pub fn train(self, options: &IdentifierOptions, advance: &mut dyn FnMut(f64)) -> Result<Identifier> {
        self.check(options)?;
        let hasher =
            NgramHasher { letters: letters(&self.languages), max_n: options.max_n, n_rows: options.n_rows };
        let of_language = |(at, language)| {
            Examples::new(language, &hasher, Random::new(options.seed).stream_pair(0, at as u64))
        };
        let examples: Vec<Examples> = self.languages.iter().enumerate().map(of_language).collect();
        let mut regression = LogisticRegression::new(self.languages.len(), options.n_rows);
        let mut rows = Vec::new();
        for index in 0..options.n_examples {
            let done = index as f64 / options.n_examples as f64;
            if index % 4096 == 0 {
                advance(done);
            }
            regression.rate = LEARNING_RATE * (1.0 - done) as f32;
            for (language, examples) in examples.iter().enumerate() {
                rows.clear();
                examples.draw(index, &mut rows);
                regression.learn(&rows, language);
            }
        }
        let (scale, weights) = regression.quantized();
        let codes = self.languages.into_iter().map(|language| language.code).collect();
        Ok(Identifier { codes, hasher, scale, weights: Cow::Owned(weights) })
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
        self.languages.push(LanguageText { code: code.to_owned(), ..LanguageText::default() });
        Ok(self.languages.len() - 1)
    }

    fn check(&self, options: &IdentifierOptions) -> Result<()> {
        let within = |name, found: usize, least: usize, most: usize, hint: &str| {
            if (least..=most).contains(&found) {
                return Ok(());
            }
            let expected =
                if most == usize::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
            Err(Error::Option { name, found: found.to_string(), expected, hint: hint.into() })
        };
        let default = IdentifierOptions::default();
        within("languages", self.languages.len(), 2, MAX_LANGUAGES, "give text of each language")?;
        within(
            "rows",
            options.n_rows,
            1,
            MAX_ROWS,
            &format!("{} rows suit a few languages", default.n_rows),
        )?;
        let n_weights = options.n_rows.saturating_mul(self.languages.len());
        within("rows times languages", n_weights, 1, MAX_WEIGHTS, "use fewer rows")?;
        within("longest n-gram", options.max_n, 1, MAX_N, &format!("the default is {}", default.max_n))?;
        within(
            "examples",
            options.n_examples,
            1,
            usize::MAX,
            &format!("the default is {}", default.n_examples),
        )?;
        match self.languages.iter().find(|language| language.lines.is_empty()) {
            Some(language) => Err(Error::Empty { what: format!("the text of {}", language.code) }),
            None => Ok(()),
        }
    }
}

impl LanguageText {
    fn add(&mut self, line: &str) {
        let mut ids = Vec::new();
        each_word(line, |word| {
            let id = self.indices.get(word).copied().unwrap_or_else(|| {
                let id = self.words.len() as u32;
                self.words.push(word.clone());
                self.indices.insert(word.clone(), id);
                id
            });
            ids.push(id);
        });
        if !ids.is_empty() {
            self.lines.push(ids.into());
        }
    }
}

/// The letters besides a to z that are not rare in every language, ascending.
fn letters(languages: &[LanguageText]) -> Vec<char> {
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

/// Training examples of one language.
struct Examples<'a> {
    lines: &'a [Box<[u32]>],
    /// Random order of the lines, cycled through.
    order: Vec<u32>,
    /// Rows of each word's n-grams, and the number of those of its plain spelling, which come first.
    rows: Vec<(Vec<u32>, usize)>,
    random: Random,
}

impl<'a> Examples<'a> {
    fn new(language: &'a LanguageText, hasher: &NgramHasher, random: Random) -> Self {
        let rows_of = |word: &Word| {
            let mut rows = Vec::new();
            hasher.each_row_of(word, &mut |row| rows.push(row as u32));
            rows
        };
        let rows = language.words.iter().map(|word| {
            let plain = Word { plain: word.plain.clone(), marked: word.plain.clone() };
            (rows_of(word), rows_of(&plain).len())
        });
        let order = random.permutation(language.lines.len());
        Self { lines: &language.lines, order, rows: rows.collect(), random }
    }

    /// Appends the rows of example `index`.
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

/// The weights and the state of AdaGrad.
struct LogisticRegression {
    n_codes: usize,
    rate: f32,
    weights: Vec<f32>,
    /// Sums of squared gradients.
    squares: Vec<f32>,
    /// Scores of the languages, then their gradients.
    scores: Vec<f32>,
}

impl LogisticRegression {
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

    /// One AdaGrad step for an example of `language` with these rows.
    fn learn(&mut self, rows: &[u32], language: usize) {
        if rows.is_empty() {
            // All letters of the word are foreign.
            return;
        }
        let n_codes = self.n_codes;
        let span = |row: u32| row as usize * n_codes..(row as usize + 1) * n_codes;
        let unit = 1.0 / (rows.len() as f32).sqrt();
        self.scores.fill(0.0);
        for &row in rows {
            for (score, weight) in self.scores.iter_mut().zip(&self.weights[span(row)]) {
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
            let weights = self.weights[span(row)].iter_mut().zip(&mut self.squares[span(row)]);
            for ((weight, square), gradient) in weights.zip(&self.scores) {
                *square += gradient * gradient;
                *weight -= self.rate * gradient / square.sqrt();
            }
        }
    }

    /// Quantises the weights to int8; returns the scale and the values.
    fn quantized(mut self) -> (f32, Vec<u8>) {
        // The mean of a row changes no probability, and would only make the quantisation coarser.
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

    const OPTIONS: IdentifierOptions =
        IdentifierOptions { n_rows: 4096, max_n: 4, n_examples: 2000, seed: 3 };

    fn trained(lines: &[(&str, &str)], options: &IdentifierOptions) -> Result<Identifier> {
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
            let detection = identifier.identify(text).unwrap();
            assert_eq!(detection.code, code, "{text}: {detection:?}");
        }
        assert_eq!(identifier.identify("漢字"), None);
    }

    #[test]
    fn the_same_texts_give_the_same_identifier() {
        let first = trained(&LINES, &OPTIONS).unwrap();
        assert_eq!(first, trained(&LINES, &OPTIONS).unwrap());
        assert_ne!(first, trained(&LINES, &IdentifierOptions { seed: 4, ..OPTIONS }).unwrap());
    }

    #[test]
    fn a_language_with_less_text_weighs_the_same() {
        let many: Vec<(&str, &str)> =
            (0..50).flat_map(|_| LINES[..2].to_vec()).chain(LINES[4..].to_vec()).collect();
        let identifier = trained(&many, &OPTIONS).unwrap();
        let detection = identifier.identify("xyz").unwrap();
        assert!(detection.probability < 0.9, "{detection:?}");
        assert_eq!(identifier.identify("dormono nella").unwrap().code, "it");
    }

    #[test]
    fn invalid_training_input_is_named() {
        let message = |lines: &[(&str, &str)], options| trained(lines, options).unwrap_err().to_string();
        assert_eq!(message(&LINES[..2], &OPTIONS), "languages: 1, expected 2 to 1000");
        let empty = [("en", "the"), ("de", "12")];
        assert_eq!(
            message(&empty, &OPTIONS),
            "the text of de: no text found, expected at least one line that is not empty"
        );
        assert_eq!(
            message(&LINES, &IdentifierOptions { max_n: 9, ..OPTIONS }),
            "longest n-gram: 9, expected 1 to 8"
        );
        assert_eq!(
            message(&LINES, &IdentifierOptions { n_examples: 0, ..OPTIONS }),
            "examples: 0, expected 1 or more"
        );
        assert!(message(&[("e n", "the")], &OPTIONS).starts_with("language: \"e n\", expected a code"));
    }

    #[test]
    fn any_weights_are_quantised() {
        let mut regression = LogisticRegression::new(2, 2);
        assert_eq!(LogisticRegression::new(2, 2).quantized(), (1.0, vec![0; 4]));
        regression.weights = vec![3.0, 1.0, -127.0, 127.0];
        assert_eq!(regression.quantized(), (1.0, vec![1, 255, 129, 127]));
    }
}
