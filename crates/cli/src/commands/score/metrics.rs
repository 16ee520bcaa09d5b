//! Which metrics `polyhead score` knows and the options each of them has.

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_text::metrics::{
    Accuracy, Bleu, BleuOptions, Chrf, ChrfOptions, Metric, Rouge, RougeVariant, SequenceErrorRate,
    Smoothing, Ter, TerOptions, TokenErrorRate, Tokenization, Unit,
};

use crate::report::Misuse;

/// A metric as named on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MetricName {
    /// n-gram precision with brevity penalty
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
    /// Share of lines equal to a reference
    Accuracy,
    /// Word error rate: word edits over reference words
    Wer,
    /// Phoneme error rate: phoneme edits over reference phonemes
    Per,
    /// Character error rate
    Cer,
    /// Sequence error rate: share of wrong lines, the "WER" of pronunciation work
    Ser,
}

/// How BLEU splits lines into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenizeName {
    #[value(name = "13a")]
    V13a,
    Intl,
    Char,
    None,
}

impl TokenizeName {
    pub(crate) fn tokenization(self) -> Tokenization {
        match self {
            Self::V13a => Tokenization::V13a,
            Self::Intl => Tokenization::International,
            Self::Char => Tokenization::Characters,
            Self::None => Tokenization::None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SmoothName {
    Exp,
    Floor,
    AddK,
    None,
}

/// Options of the metrics.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of the command line")]
pub(super) struct MetricOptions {
    /// How BLEU splits lines into words
    #[arg(long, value_enum, default_value_t = TokenizeName::V13a, help_heading = "Metric options")]
    tokenize: TokenizeName,

    /// What BLEU does about orders without a match
    #[arg(long, value_enum, default_value_t = SmoothName::Exp, help_heading = "Metric options")]
    smooth: SmoothName,

    /// The value of --smooth floor (default 0.1) or add-k (default 1)
    #[arg(long, value_name = "X", help_heading = "Metric options")]
    smooth_value: Option<f64>,

    /// Take upper and lower case for the same; TER does so anyway
    #[arg(long, help_heading = "Metric options")]
    lowercase: bool,

    /// Let BLEU leave out the orders for which a hypothesis is too short
    #[arg(long, help_heading = "Metric options")]
    effective_order: bool,

    /// The longest n-grams of BLEU
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..),
          help_heading = "Metric options")]
    max_order: u8,

    /// The longest character n-grams of chrF
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..),
          help_heading = "Metric options")]
    chrf_char_order: u8,

    /// The longest word n-grams of chrF [default: 0, and 2 for chrf++]
    #[arg(long, value_name = "N", help_heading = "Metric options")]
    chrf_word_order: Option<u8>,

    /// How many times as much recall counts as precision in chrF
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Metric options")]
    chrf_beta: u8,

    /// Let the character n-grams of chrF reach across white space
    #[arg(long, help_heading = "Metric options")]
    chrf_whitespace: bool,

    /// Average the F-scores of all orders in chrF
    #[arg(long, help_heading = "Metric options")]
    chrf_epsilon: bool,

    /// Split off punctuation before TER
    #[arg(long, help_heading = "Metric options")]
    ter_normalized: bool,

    /// Leave out punctuation in TER
    #[arg(long, help_heading = "Metric options")]
    ter_no_punctuation: bool,

    /// Let the two options above treat Chinese and Japanese characters
    #[arg(long, help_heading = "Metric options")]
    ter_asian_support: bool,

    /// Tell upper and lower case apart in TER
    #[arg(long, help_heading = "Metric options")]
    ter_case_sensitive: bool,
}

/// The metrics asked for, each once and in the order given.
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
            MetricName::Wer => rate(Unit::Words),
            MetricName::Per => rate(Unit::Phonemes),
            MetricName::Cer => rate(Unit::Characters),
        })
    }

    fn bleu(&self, per_sentence: bool) -> Result<Bleu> {
        Ok(Bleu::new(BleuOptions {
            tokenization: self.tokenize.tokenization(),
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
                format!("--smooth-value is {value}, expected a number from 0 on"),
                "0.1 for floor, 1 for add-k",
            ),
            (SmoothName::Floor, value) => Ok(Smoothing::Floor(value.unwrap_or(Smoothing::FLOOR))),
            (SmoothName::AddK, value) => Ok(Smoothing::AddK(value.unwrap_or(Smoothing::ADD_K))),
            (_, Some(value)) => misuse(
                format!("--smooth-value {value} has nothing to act on, expected --smooth floor or add-k"),
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
