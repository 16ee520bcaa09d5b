//! TER, translation edit rate (Snover, Dorr, Schwartz, Micciulla & Makhoul 2006, *A study of translation edit rate with
//! targeted human annotation*), as in sacreBLEU.
//!
//! ```text
//! TER = 100 · (insertions + deletions + substitutions + shifts) / words of the reference
//! ```
//!
//! With several references: the fewest edits over the average length. The search for shifts is in `ter_shifts`.

use serde_json::{Map, Value, json};

use super::tokenize::{tercom, words};
use super::{Metric, SampleScore, case_setting, doubles, ngrams, ter_shifts, yes_no};

/// Options of [`Ter`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "four independent switches of the original program")]
pub struct TerOptions {
    /// Splits off punctuation and replaces XML entities first; default: false.
    pub normalized: bool,
    /// Removes punctuation; default: false.
    pub no_punctuation: bool,
    /// The two options above also apply to Chinese and Japanese characters; default: false.
    pub asian_support: bool,
    /// Distinguishes upper and lower case; default: false.
    pub case_sensitive: bool,
}

/// TER. Statistics: edits, average reference length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ter {
    options: TerOptions,
}

impl Ter {
    /// TER with these options.
    pub fn new(options: TerOptions) -> Self {
        Self { options }
    }
}

impl Metric for Ter {
    fn name(&self) -> String {
        "TER".into()
    }

    fn statistics(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let mut lines = vec![tercom::normalize(hypothesis, &self.options)];
        for reference in references {
            // sacreBLEU normalises references twice. It matters for text such as "&amp;lt;".
            let once = tercom::normalize(reference, &self.options);
            lines.push(tercom::normalize(&once, &self.options));
        }
        let sequences = ngrams::word_ids(&lines.iter().map(|line| words(line).collect()).collect::<Vec<_>>());
        let (hypothesis, references) = sequences.split_first().expect("the hypothesis was put in first");
        let edits = references.iter().map(|reference| ter_shifts::edits(hypothesis, reference)).min();
        let words: usize = references.iter().map(Vec::len).sum();
        vec![edits.expect("at least one reference") as f64, words as f64 / references.len() as f64]
    }

    fn score(&self, statistics: &[f64]) -> f64 {
        let (edits, words) = (statistics[0], statistics[1]);
        if words > 0.0 {
            100.0 * (edits / words)
        } else if edits > 0.0 {
            100.0
        } else {
            0.0
        }
    }

    fn sample_score(&self, total: &[f32]) -> SampleScore {
        let (edits, words) = (total[0], total[1]);
        if words > 0.0 {
            SampleScore::Single(100.0 * (edits / words))
        } else {
            SampleScore::Double(self.score(&doubles(total)))
        }
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            case_setting(!self.options.case_sensitive),
            ("tok", "tercom".into()),
            ("norm", yes_no(self.options.normalized)),
            ("punct", yes_no(!self.options.no_punctuation)),
            ("asian", yes_no(self.options.asian_support)),
        ]
    }

    fn details(&self, statistics: &[f64]) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert("edits".into(), json!(statistics[0] as u64));
        details.insert("reference_len".into(), json!(statistics[1]));
        details
    }
}
