//! BLEU (Papineni et al. 2002, *BLEU: a method for automatic evaluation of machine translation*), as in sacreBLEU.
//!
//! ```text
//! BLEU = BP · exp( 1/N · Σ_n log p_n )      BP = min(1, exp(1 − r / h))
//! ```
//!
//! p_n is the clipped n-gram precision (each n-gram of the hypothesis counts at most as often as in the reference that
//! has it most often), h the length of the hypotheses, r that of the references closest in length. A p_n of zero is
//! smoothed as in Chen & Cherry 2014, *A systematic comparison of smoothing techniques for sentence-level BLEU*.

use std::fmt;

use serde_json::{Map, Value, json};

use super::samples::to_single;
use super::tokenize::words;
use super::{Metric, SampleScore, Tokenization, case_setting, cased, doubles, ngrams, yes_no};

/// Replaces the logarithm of zero: its exponential is zero for every order in use.
const LOG_OF_ZERO: f64 = -9_999_999_999.0;

/// Smoothing of an order without a match.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Smoothing {
    /// The k-th order without a match gets 2⁻ᵏ matches (NIST). The default.
    #[default]
    Exponential,
    /// An order without a match gets this many matches; [`Smoothing::FLOOR`] is usual.
    Floor(f64),
    /// This is added to matches and totals of every order above one; [`Smoothing::ADD_K`] is usual.
    AddK(f64),
    /// The score is zero.
    None,
}

impl Smoothing {
    /// The value of Chen & Cherry for [`Smoothing::Floor`].
    pub const FLOOR: f64 = 0.1;
    /// The value of Chen & Cherry for [`Smoothing::AddK`].
    pub const ADD_K: f64 = 1.0;

    fn signature(self) -> String {
        match self {
            Self::Exponential => "exp".into(),
            Self::Floor(value) => format!("floor[{value:.2}]"),
            Self::AddK(value) => format!("add-k[{value:.2}]"),
            Self::None => "none".into(),
        }
    }
}

/// Options of [`Bleu`].
#[derive(Debug, Clone, PartialEq)]
pub struct BleuOptions {
    /// Tokenisation of lines into words; default: 13a.
    pub tokenization: Tokenization,
    /// Smoothing of orders without a match; default: exponential.
    pub smoothing: Smoothing,
    /// Ignores case; default: false.
    pub lowercase: bool,
    /// Longest n-grams; default: 4.
    pub max_order: usize,
    /// Omits the orders for which the hypothesis is too short, as sentence scores should; default: false.
    pub effective_order: bool,
}

impl Default for BleuOptions {
    fn default() -> Self {
        Self {
            tokenization: Tokenization::default(),
            smoothing: Smoothing::default(),
            lowercase: false,
            max_order: 4,
            effective_order: false,
        }
    }
}

/// BLEU. Statistics: hypothesis length, reference length, matches per order, n-grams per order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bleu {
    options: BleuOptions,
}

/// A BLEU score and its components. `Display` is sacreBLEU's line; default precision: two decimals.
#[derive(Debug, Clone, PartialEq)]
pub struct BleuScore {
    /// The score in percent.
    pub score: f64,
    /// Matched n-grams per order, before smoothing.
    pub counts: Vec<u64>,
    /// N-grams of the hypothesis per order, before smoothing.
    pub totals: Vec<u64>,
    /// Precision per order in percent, smoothed.
    pub precisions: Vec<f64>,
    /// Brevity penalty, 0 to 1.
    pub brevity_penalty: f64,
    /// Words of the hypotheses.
    pub hypothesis_len: u64,
    /// Words of the references closest in length.
    pub reference_len: u64,
}

impl BleuScore {
    /// Hypothesis length over reference length; 0 if the reference is empty.
    pub fn ratio(&self) -> f64 {
        if self.reference_len == 0 { 0.0 } else { self.hypothesis_len as f64 / self.reference_len as f64 }
    }

    /// The line of sacreBLEU after the score.
    pub fn verbose(&self) -> String {
        let precisions: Vec<String> = self.precisions.iter().map(|p| format!("{p:.1}")).collect();
        format!(
            "{} (BP = {:.3} ratio = {:.3} hyp_len = {} ref_len = {})",
            precisions.join("/"),
            self.brevity_penalty,
            self.ratio(),
            self.hypothesis_len,
            self.reference_len
        )
    }
}

impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BLEU = {:.*} {}", f.precision().unwrap_or(2), self.score, self.verbose())
    }
}

impl Bleu {
    /// BLEU with these options.
    pub fn new(options: BleuOptions) -> Self {
        Self { options }
    }

    /// The score with its components, from the statistics of a sentence or a sum of them.
    pub fn parts(&self, statistics: &[f64]) -> BleuScore {
        self.parts_in(statistics, |number| number)
    }

    /// The score with its components; `round` is applied to every result of a precision.
    fn parts_in(&self, statistics: &[f64], round: fn(f64) -> f64) -> BleuScore {
        let (lengths, counts) = statistics.split_at(2);
        let (matches, totals) = counts.split_at(self.options.max_order);
        let brevity_penalty = brevity_penalty(lengths[0], lengths[1]);
        let mut parts = BleuScore {
            score: 0.0,
            counts: matches.iter().map(|&count| count as u64).collect(),
            totals: totals.iter().map(|&count| count as u64).collect(),
            precisions: vec![0.0; self.options.max_order],
            brevity_penalty,
            hypothesis_len: lengths[0] as u64,
            reference_len: lengths[1] as u64,
        };
        if matches.iter().any(|&count| count > 0.0) {
            let order = self.fill_precisions(matches, totals, &mut parts.precisions, round);
            let logs: f64 =
                parts.precisions[..order].iter().map(|&p| if p == 0.0 { LOG_OF_ZERO } else { p.ln() }).sum();
            parts.score = brevity_penalty * (logs / order as f64).exp();
        }
        parts
    }

    /// Sets the smoothed precisions and returns the number of orders in the mean.
    fn fill_precisions(
        &self,
        matches: &[f64],
        totals: &[f64],
        precisions: &mut [f64],
        round: fn(f64) -> f64,
    ) -> usize {
        let mut order = self.options.max_order;
        let mut halvings = 1.0;
        for n in 0..self.options.max_order {
            let added = match self.options.smoothing {
                Smoothing::AddK(k) if n > 0 => k,
                _ => 0.0,
            };
            let (matched, total) = (round(matches[n] + added), round(totals[n] + added));
            if total == 0.0 {
                break;
            }
            if self.options.effective_order {
                order = n + 1;
            }
            precisions[n] = match self.options.smoothing {
                _ if matched > 0.0 => round(round(100.0 * matched) / total),
                Smoothing::Exponential => {
                    halvings *= 2.0;
                    round(100.0 / round(halvings * total))
                }
                Smoothing::Floor(value) => round(round(100.0 * value) / total),
                Smoothing::AddK(_) | Smoothing::None => 0.0,
            };
        }
        order
    }
}

impl Metric for Bleu {
    fn name(&self) -> String {
        "BLEU".into()
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let lines: Vec<_> = std::iter::once(&hypothesis).chain(references).collect();
        let lines: Vec<_> = lines.iter().map(|line| cased(line, self.options.lowercase)).collect();
        let lines: Vec<_> = lines.iter().map(|line| self.options.tokenization.tokenize(line)).collect();
        let sequences = ngrams::word_ids(&lines.iter().map(|line| words(line).collect()).collect::<Vec<_>>());
        let mut matches = Vec::with_capacity(self.options.max_order);
        let mut totals = Vec::with_capacity(self.options.max_order);
        for order in ngrams::orders(&sequences, self.options.max_order) {
            let mut allowed = order.counts(1);
            for index in 2..sequences.len() {
                for (most, count) in allowed.iter_mut().zip(order.counts(index)) {
                    *most = count.max(*most);
                }
            }
            matches.push(f64::from(ngrams::matches(&order.counts(0), &allowed)));
            totals.push(order.ids[0].len() as f64);
        }
        let hypothesis_len = sequences[0].len();
        let reference_len = sequences[1..]
            .iter()
            .map(Vec::len)
            .min_by_key(|&len| (len.abs_diff(hypothesis_len), len))
            .expect("at least one reference");
        [vec![hypothesis_len as f64, reference_len as f64], matches, totals].concat()
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        self.parts(statistics).score
    }

    fn sample_score(&self, total: &[f32]) -> SampleScore {
        SampleScore::Double(self.parts_in(&doubles(total), to_single).score)
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            case_setting(self.options.lowercase),
            ("eff", yes_no(self.options.effective_order)),
            ("tok", self.options.tokenization.name().into()),
            ("smooth", self.options.smoothing.signature()),
        ]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let parts = self.parts(statistics);
        let mut details = Map::new();
        details.insert("counts".into(), json!(parts.counts));
        details.insert("totals".into(), json!(parts.totals));
        details.insert("precisions".into(), json!(parts.precisions));
        details.insert("brevity_penalty".into(), json!(parts.brevity_penalty));
        details.insert("ratio".into(), json!(parts.ratio()));
        details.insert("hypothesis_len".into(), json!(parts.hypothesis_len));
        details.insert("reference_len".into(), json!(parts.reference_len));
        details
    }

    fn verbose(&self, statistics: &[f64]) -> String {
        self.parts(statistics).verbose()
    }
}

fn brevity_penalty(hypothesis_len: f64, reference_len: f64) -> f64 {
    if hypothesis_len >= reference_len {
        1.0
    } else if hypothesis_len > 0.0 {
        (1.0 - reference_len / hypothesis_len).exp()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 2 of 4 words match and 1 of 3 word pairs, no longer n-gram; h = 4 < r = 5.
    #[test]
    fn smoothing_by_hand() {
        let with = |smoothing| {
            let bleu = Bleu::new(BleuOptions {
                smoothing,
                tokenization: Tokenization::None,
                ..BleuOptions::default()
            });
            bleu.parts(&bleu.statistics("a b x y", &["a b c d e"]))
        };
        let penalty = (-0.25_f64).exp();
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        let exp = with(Smoothing::Exponential);
        assert_eq!((exp.counts, exp.totals), (vec![2, 1, 0, 0], vec![4, 3, 2, 1]));
        close(exp.score, penalty * 100.0 * (0.5 / 3.0 * 0.25 * 0.25_f64).powf(0.25));
        close(with(Smoothing::Floor(0.1)).score, penalty * 100.0 * (0.5 / 3.0 * 0.05 * 0.1_f64).powf(0.25));
        close(with(Smoothing::AddK(1.0)).score, penalty * 100.0 * (0.5 * 0.5 / 3.0 * 0.5_f64).powf(0.25));
        close(with(Smoothing::None).score, 0.0);
    }
}
