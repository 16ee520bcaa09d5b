//! The metrics of `polyhead score` and their options.

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_text::metrics::{
    Accuracy, Bleu, BleuOptions, Chrf, ChrfOptions, EditUnit, Metric, Rouge, RougeVariant, SequenceErrorRate,
    Smoothing, Ter, TerOptions, TokenErrorRate,
};

use crate::bleu_tokenization::BleuTokenization;
use crate::report::Misuse;

/// A metric as named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MetricName {
    /// n-gram precision with a brevity penalty
    Bleu,
    /// F-score of character n-grams
    Chrf,
    /// F-score of character and word n-grams
    #[value(name = "chrf++")]
    ChrfPlusPlus,
    /// Edits and shifts over reference words; lower is better
    Ter,
    /// ROUGE-1, ROUGE-2 and ROUGE-L
    Rouge,
    /// Share of lines that equal a reference
    Accuracy,
    /// Word error rate: word edits over reference words
    Wer,
    /// Phoneme error rate: phoneme edits over reference phonemes
    Per,
    /// Character error rate
    Cer,
    /// Sequence error rate: share of lines that equal no reference
    Ser,
}

/// Smoothing of BLEU, with sacreBLEU's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SmoothName {
    /// Halve the count of each further order without a match
    Exp,
    /// Replace counts of 0 by --smooth-value
    Floor,
    /// Add --smooth-value to counts of orders above 1
    AddK,
    /// No smoothing
    None,
}

/// Options of the metrics.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of the command line")]
pub(super) struct MetricOptions {
    #[command(flatten, next_help_heading = "Metric options")]
    tokenize: BleuTokenization,

    /// Smoothing of BLEU for n-gram orders without a match
    #[arg(long, value_enum, default_value_t = SmoothName::Exp, help_heading = "Metric options")]
    smooth: SmoothName,

    /// Value of --smooth floor [default: 0.1] or add-k [default: 1]
    #[arg(long, value_name = "X", help_heading = "Metric options")]
    smooth_value: Option<f64>,

    /// Ignore case; TER always does
    #[arg(long, help_heading = "Metric options")]
    lowercase: bool,

    /// Use the effective order in BLEU: skip orders longer than the hypothesis
    #[arg(long, help_heading = "Metric options")]
    effective_order: bool,

    /// Maximum n-gram order of BLEU
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..),
          help_heading = "Metric options")]
    max_order: u8,

    /// Character n-gram order of chrF
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..),
          help_heading = "Metric options")]
    chrf_char_order: u8,

    /// Word n-gram order of chrF [default: 0; for chrf++, 2]
    #[arg(long, value_name = "N", help_heading = "Metric options")]
    chrf_word_order: Option<u8>,

    /// Beta of chrF: the weight of recall relative to precision
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Metric options")]
    chrf_beta: u8,

    /// Include white space in the character n-grams of chrF
    #[arg(long, help_heading = "Metric options")]
    chrf_whitespace: bool,

    /// Use epsilon smoothing in chrF: average over all orders
    #[arg(long, help_heading = "Metric options")]
    chrf_epsilon: bool,

    /// Separate punctuation from words in TER
    #[arg(long, help_heading = "Metric options")]
    ter_normalized: bool,

    /// Ignore punctuation in TER
    #[arg(long, help_heading = "Metric options")]
    ter_no_punctuation: bool,

    /// Apply the two options above to Chinese and Japanese characters
    #[arg(long, help_heading = "Metric options")]
    ter_asian_support: bool,

    /// Respect case in TER
    #[arg(long, help_heading = "Metric options")]
    ter_case_sensitive: bool,
}

/// The named metrics, each once, in the order given.
pub(super) fn build(
    names: &[MetricName],
    options: &MetricOptions,
    per_sentence: bool,
) -> Result<Vec<Box<dyn Metric>>> {
    let mut metrics = Vec::new();
    for (index, &name) in names.iter().enumerate() {
        if !names[..index].contains(&name) {
            metrics.extend(options.metrics(name, per_sentence)?);
        }
    }
    Ok(metrics)
}

impl MetricOptions {
    fn metrics(&self, name: MetricName, per_sentence: bool) -> Result<Vec<Box<dyn Metric>>> {
        let lowercase = self.lowercase;
        let rate = |unit| -> Vec<Box<dyn Metric>> { vec![Box::new(TokenErrorRate { unit, lowercase })] };
        Ok(match name {
            MetricName::Bleu => vec![Box::new(self.bleu(per_sentence)?)],
            MetricName::Chrf => vec![Box::new(self.chrf(0))],
            MetricName::ChrfPlusPlus => vec![Box::new(self.chrf(2))],
            MetricName::Ter => vec![Box::new(Ter::new(TerOptions {
                normalized: self.ter_normalized,
                no_punctuation: self.ter_no_punctuation,
                asian_support: self.ter_asian_support,
                case_sensitive: self.ter_case_sensitive,
            }))],
            MetricName::Rouge => {
                [RougeVariant::Ngram(1), RougeVariant::Ngram(2), RougeVariant::LongestSubsequence]
                    .map(|variant| Box::new(Rouge::new(variant)) as Box<dyn Metric>)
                    .into()
            }
            MetricName::Accuracy => vec![Box::new(Accuracy { lowercase })],
            MetricName::Ser => vec![Box::new(SequenceErrorRate { lowercase })],
            MetricName::Wer => rate(EditUnit::Words),
            MetricName::Per => rate(EditUnit::Phonemes),
            MetricName::Cer => rate(EditUnit::Characters),
        })
    }

    fn bleu(&self, per_sentence: bool) -> Result<Bleu> {
        Ok(Bleu::new(BleuOptions {
            tokenization: self.tokenize.tokenization()?,
            smoothing: self.smoothing()?,
            lowercase: self.lowercase,
            max_order: self.max_order.into(),
            effective_order: self.effective_order || per_sentence,
        }))
    }

    fn smoothing(&self) -> Result<Smoothing> {
        let misuse = |message: String, hint: &str| Err(Misuse { message, hint: hint.into() }.into());
        match (self.smooth, self.smooth_value) {
            (_, Some(value)) if !value.is_finite() || value < 0.0 => misuse(
                format!("--smooth-value {value}, expected a number of 0 or more"),
                "the default is 0.1 for floor, 1 for add-k",
            ),
            (SmoothName::Floor, value) => Ok(Smoothing::Floor(value.unwrap_or(Smoothing::FLOOR))),
            (SmoothName::AddK, value) => Ok(Smoothing::AddK(value.unwrap_or(Smoothing::ADD_K))),
            (_, Some(value)) => misuse(
                format!("--smooth-value {value} has no effect here, expected --smooth floor or add-k"),
                "add --smooth floor or --smooth add-k",
            ),
            (SmoothName::Exp, None) => Ok(Smoothing::Exponential),
            (SmoothName::None, None) => Ok(Smoothing::None),
        }
    }

    fn chrf(&self, word_order: usize) -> Chrf {
        Chrf::new(ChrfOptions {
            char_order: self.chrf_char_order.into(),
            word_order: self.chrf_word_order.map_or(word_order, Into::into),
            beta: self.chrf_beta.into(),
            lowercase: self.lowercase,
            whitespace: self.chrf_whitespace,
            epsilon_smoothing: self.chrf_epsilon,
        })
    }
}
