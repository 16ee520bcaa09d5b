//! chrF (Popović 2015, *chrF: character n-gram F-score for automatic MT evaluation*) and chrF++ (Popović 2017), as in
//! sacreBLEU.
//!
//! ```text
//! chrF_β = 100 · (1 + β²) · P · R / (β² · P + R)
//! ```
//!
//! P and R are precision and recall of n-grams averaged over the orders: characters up to order 6 and, in chrF++, words
//! up to order 2. With several references the one with the highest sentence score counts.

use serde_json::{Map, Value, json};

use super::samples::to_single;
use super::tokenize::{is_space, words};
use super::{Metric, SampleScore, case_setting, cased, doubles, ngrams, yes_no};

/// Replaces a precision or recall without a denominator, and the F-score of two zeros.
const EPSILON: f64 = 1e-16;

/// Options of [`Chrf`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChrfOptions {
    /// Longest character n-grams; default: 6.
    pub char_order: usize,
    /// Longest word n-grams; default: 0 (chrF++: 2).
    pub word_order: usize,
    /// Weight of recall relative to precision; default: 2.
    pub beta: u32,
    /// Ignores case; default: false.
    pub lowercase: bool,
    /// Character n-grams include white space; default: false.
    pub whitespace: bool,
    /// Averages the F-scores of all orders, as the author's script does, instead of the precision and recall of the
    /// orders that both sides have; default: false.
    pub epsilon_smoothing: bool,
}

impl Default for ChrfOptions {
    fn default() -> Self {
        Self {
            char_order: 6,
            word_order: 0,
            beta: 2,
            lowercase: false,
            whitespace: false,
            epsilon_smoothing: false,
        }
    }
}

impl ChrfOptions {
    /// chrF++: word n-grams up to order 2 as well.
    pub fn plus_plus() -> Self {
        Self { word_order: 2, ..Self::default() }
    }
}

/// chrF. Statistics per order: n-grams of the hypothesis, n-grams of the reference, matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chrf {
    options: ChrfOptions,
}

impl Chrf {
    /// chrF with these options.
    pub fn new(options: ChrfOptions) -> Self {
        Self { options }
    }

    /// Precision and recall averaged over the orders that both sides have; `round` is applied to every result.
    fn precision_and_recall(statistics: &[f64], round: fn(f64) -> f64) -> (f64, f64) {
        let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0.0);
        for counts in statistics.chunks_exact(3) {
            if counts[0] > 0.0 && counts[1] > 0.0 {
                precision = round(precision + round(counts[2] / counts[0]));
                recall = round(recall + round(counts[2] / counts[1]));
                orders += 1.0;
            }
        }
        if orders == 0.0 { (0.0, 0.0) } else { (round(precision / orders), round(recall / orders)) }
    }

    /// The score; `round` is applied to every result.
    fn f_score(&self, statistics: &[f64], round: fn(f64) -> f64) -> f64 {
        let factor = f64::from(self.options.beta).powi(2);
        let mean = |precision: f64, recall: f64| {
            let denominator = round(round(factor * precision) + recall);
            let numerator = round(round((1.0 + factor) * precision) * recall);
            if denominator > 0.0 { round(numerator / denominator) } else { EPSILON }
        };
        if self.options.epsilon_smoothing {
            let share = |part: f64, whole: f64| if whole > 0.0 { round(part / whole) } else { EPSILON };
            let scores = statistics
                .chunks_exact(3)
                .map(|counts| mean(share(counts[2], counts[0]), share(counts[2], counts[1])));
            let sum = scores.fold(0.0, |sum, score| round(sum + score));
            return round(round(100.0 * sum) / (statistics.len() / 3).max(1) as f64);
        }
        let (precision, recall) = Self::precision_and_recall(statistics, round);
        if precision + recall == 0.0 { 0.0 } else { round(100.0 * mean(precision, recall)) }
    }

    fn symbols(&self, line: &str) -> Vec<u32> {
        line.chars().filter(|&c| self.options.whitespace || !is_space(c)).map(u32::from).collect()
    }
}

impl Metric for Chrf {
    fn name(&self) -> String {
        format!("chrF{}{}", self.options.beta, "+".repeat(self.options.word_order))
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let lines: Vec<_> = std::iter::once(&hypothesis).chain(references).collect();
        let lines: Vec<_> = lines.iter().map(|line| cased(line, self.options.lowercase)).collect();
        let characters: Vec<_> = lines.iter().map(|line| self.symbols(line)).collect();
        let mut orders = ngrams::orders(&characters, self.options.char_order);
        if self.options.word_order > 0 {
            let words =
                ngrams::word_ids(&lines.iter().map(|line| split_punctuation(line)).collect::<Vec<_>>());
            orders.extend(ngrams::orders(&words, self.options.word_order));
        }
        let mut best = Vec::new();
        let mut best_score = -1.0;
        for reference in 1..lines.len() {
            let statistics: Vec<f64> = orders.iter().flat_map(|order| compare(order, reference)).collect();
            let score = self.score(&statistics);
            if score > best_score {
                best_score = score;
                best = statistics;
            }
        }
        best
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        self.f_score(statistics, |number| number)
    }

    fn sample_score(&self, total: &[f32]) -> SampleScore {
        let score = self.f_score(&doubles(total), to_single);
        // sacreBLEU's 0 is a number of Python, and so is a score of which no order has an n-gram.
        let is_empty = total.chunks_exact(3).all(|counts| counts[0] == 0.0 && counts[1] == 0.0);
        if score == 0.0 || is_empty { SampleScore::Double(score) } else { SampleScore::Single(score as f32) }
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            case_setting(self.options.lowercase),
            ("eff", yes_no(!self.options.epsilon_smoothing)),
            ("nc", self.options.char_order.to_string()),
            ("nw", self.options.word_order.to_string()),
            ("space", yes_no(self.options.whitespace)),
        ]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let (precision, recall) = Self::precision_and_recall(statistics, |number| number);
        let mut details = Map::new();
        details.insert("precision".into(), json!(100.0 * precision));
        details.insert("recall".into(), json!(100.0 * recall));
        details
    }
}

/// N-grams of the hypothesis, n-grams of `reference`, and matches. An order missing in the reference is not penalised.
fn compare(order: &ngrams::NgramOrder, reference: usize) -> [f64; 3] {
    let total = |index: usize| order.ids[index].len() as f64;
    let matched = ngrams::matches(&order.counts(0), &order.counts(reference));
    [if total(reference) > 0.0 { total(0) } else { 0.0 }, total(reference), f64::from(matched)]
}

/// The words of `line`, each with one ASCII punctuation character split off: the last, or else the first.
fn split_punctuation(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in words(line) {
        let is_single = word.chars().nth(1).is_none();
        if !is_single && word.ends_with(|c: char| c.is_ascii_punctuation()) {
            tokens.extend(<[&str; 2]>::from(word.split_at(word.len() - 1)));
        } else if !is_single && word.starts_with(|c: char| c.is_ascii_punctuation()) {
            tokens.extend(<[&str; 2]>::from(word.split_at(1)));
        } else {
            tokens.push(word);
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_punctuation_mark_is_split_off() {
        assert_eq!(
            split_punctuation("(hi) \"so . what?! é,"),
            ["(hi", ")", "\"", "so", ".", "what?", "!", "é", ","]
        );
    }

    /// By hand: "ab" against "abc": unigrams 2 of 2 and 2 of 3, bigrams 1 of 1 and 1 of 2, trigrams absent on one side.
    #[test]
    fn score_by_hand() {
        let chrf = Chrf::default();
        let (precision, recall) = (1.0, 7.0 / 12.0);
        let expected = 100.0 * 5.0 * precision * recall / (4.0 * precision + recall);
        assert!((chrf.score(&chrf.statistics("ab", &["abc"])) - expected).abs() < 1e-12);
    }
}
