//! The options that say which model translates and how, shared by every command that translates.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_tensor::{Device, Math, Precision};
use polyhead_text::lines::Lines;
use polyhead_translate::{Engine, LengthFormula, LoadOptions, Mode, Sampling, TranslateOptions};
use serde::Serialize;

use crate::default_model;
use crate::report::{Failure, Misuse, note};

/// A model and how it decodes. What is left out is as the model's folder says.
#[derive(Debug, Args)]
pub(crate) struct DecodeOptions {
    /// Folder of the model: ours, of OPUS-MT and Marian, or of fairseq [default: the one that comes with the program]
    #[arg(short, long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The language of the texts: en, eng or English [default: guessed, if the model knows several]
    #[arg(long, value_name = "LANGUAGE")]
    from: Option<String>,
    /// The language to translate into: tr, tur, Turkish or >>tur<< [default: English, of English texts Turkish]
    #[arg(long, value_name = "LANGUAGE")]
    to: Option<String>,
    /// Hypotheses followed; 1 is greedy [default: the model's]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    beam: Option<usize>,
    /// Most tokens of a sentence's translation, its end included [default: the model's]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    max_length: Option<usize>,
    /// The exponent of the length penalty; more favours longer translations [default: the model's]
    #[arg(long, value_name = "A", help_heading = "Decoding")]
    length_penalty: Option<f64>,
    /// The formula of the length penalty: n^A, or ((5 + n) / 6)^A
    #[arg(long, value_enum, default_value_t = Formula::Power, help_heading = "Decoding")]
    length_formula: Formula,
    /// What the translation of each text begins with
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Decoding"
    )]
    prefix: String,
    /// Let no sequence of N tokens occur twice [default: the model's]
    #[arg(long, value_name = "N", help_heading = "Decoding")]
    no_repeat_ngram: Option<usize>,
    /// Make tokens that came before less likely; 1 does nothing [default: the model's]
    #[arg(long, value_name = "X", help_heading = "Decoding")]
    repetition_penalty: Option<f32>,
    /// The model's own decoding of each text as one sentence: no splitting, no guard against loops, nothing kept, no guessing
    #[arg(long, help_heading = "Decoding")]
    raw: bool,
    /// Draw tokens by their probability instead of searching for the best
    #[arg(long, conflicts_with = "beam", help_heading = "Sampling")]
    sample: bool,
    /// Divides logits: below 1 bolder in what is likely, above 1 wilder
    #[arg(long, value_name = "T", default_value_t = 1.0, help_heading = "Sampling")]
    temperature: f32,
    /// Draw from the N most probable tokens; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Sampling")]
    top_k: usize,
    /// Draw from the most probable tokens that reach P together
    #[arg(long, value_name = "P", default_value_t = 1.0, help_heading = "Sampling")]
    top_p: f32,
    /// Leave out tokens below this share of the most probable one
    #[arg(long, value_name = "P", default_value_t = 0.0, help_heading = "Sampling")]
    min_p: f32,
    /// Another seed, other samples
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Sampling")]
    seed: u64,
    /// Numbers to compute with. f32 is never rounded to tf32 unasked, so that a score does not hang on the device; tf32 and
    /// bf16 (cards) and int8 (the processor) are faster and a little less exact
    #[arg(long, value_enum, default_value_t = Dtype::F32, help_heading = "Speed")]
    dtype: Dtype,
    /// Write only pieces that occur in this file of target text; faster where all words are known
    #[arg(long, value_name = "FILE", help_heading = "Speed")]
    shortlist: Option<PathBuf>,
    /// Where to compute: cpu, cuda or cuda:N, or auto for a card where one can be used. The processor gives the same bits on
    /// every machine; a card is faster with many sentences
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Speed")]
    device: String,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Speed")]
    pub(crate) threads: Option<usize>,
    /// Most source tokens decoded together, padding included; on the processor never more than 24 hypotheses [default: 1024, on a
    /// card 16384]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Speed")]
    batch_tokens: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Formula {
    Power,
    Wu,
}

/// Numbers to compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dtype {
    F32,
    Tf32,
    Bf16,
    Int8,
}

impl Dtype {
    /// What a card is opened with.
    fn math(self) -> Option<Math> {
        match self {
            Self::F32 => Some(Math::F32),
            Self::Tf32 => Some(Math::Tf32),
            Self::Bf16 => Some(Math::Bf16),
            Self::Int8 => None,
        }
    }

    /// Opens the device called `name`, which must be able to compute so, and says what weights are kept as.
    pub(crate) fn open(self, name: &str) -> Result<(Device, Precision)> {
        let misuse = |message: String, hint: &str| Misuse { message, hint: hint.into() };
        let Some(math) = self.math() else {
            // Bytes are for the processor, which `auto` takes then.
            return match name {
                "cpu" | "auto" => Ok((Device::Cpu, Precision::Int8)),
                _ => Err(misuse(
                    format!("--dtype int8 on {name}, expected f32, tf32 or bf16 there"),
                    "only the processor computes with bytes",
                )
                .into()),
            };
        };
        let device = Device::open(name, math)?;
        if device.math() != math {
            let message =
                format!("--dtype {} on {}, which computes in f32 or int8", math.name(), device.name());
            return Err(misuse(message, "leave it out, or name a card with --device").into());
        }
        Ok((device, Precision::F32))
    }
}

impl DecodeOptions {
    /// Loads the model.
    pub(crate) fn engine(&self) -> Result<Engine> {
        let folder = default_model::or(self.model.as_deref())?;
        let (device, precision) = self.dtype.open(&self.device)?;
        let shortlist = self.shortlist.as_deref().map_or_else(|| Ok(Vec::new()), Lines::read_all)?;
        if let Some(path) =
            self.shortlist.as_deref().filter(|_| shortlist.iter().all(|line| line.trim().is_empty()))
        {
            return Err(Failure {
                message: format!("{}: no text, expected text in the target language", path.display()),
                hint: "only pieces of that text can be written; leave --shortlist out to allow all".into(),
            }
            .into());
        }
        let engine = Engine::load(&folder, &LoadOptions { device, precision, shortlist })?;
        let languages = engine.languages();
        let known: Vec<&str> = languages.targets().iter().map(|language| language.code.as_str()).collect();
        // A model that says what it was trained on chooses by itself, and that is shown with the translation.
        if self.to.is_none() && known.len() > 1 && languages.directions().is_empty() {
            note(&format!("note: the model translates into {}; --to chooses one", known.join(", ")));
        }
        Ok(engine)
    }

    /// What is asked for.
    pub(crate) fn options(&self) -> Result<TranslateOptions> {
        self.check_sampling()?;
        let &Self { temperature, top_k, top_p, min_p, seed, .. } = self;
        Ok(TranslateOptions {
            mode: if self.raw { Mode::Raw } else { Mode::Guarded },
            from: self.from.clone(),
            to: self.to.clone(),
            beam_size: self.beam,
            max_length: self.max_length,
            length_penalty: self.length_penalty,
            length_formula: match self.length_formula {
                Formula::Power => LengthFormula::Power,
                Formula::Wu => LengthFormula::Wu,
            },
            sampling: self.sample.then_some(Sampling { temperature, top_k, top_p, min_p, seed }),
            prefix: self.prefix.clone(),
            no_repeat_ngram: self.no_repeat_ngram,
            repetition_penalty: self.repetition_penalty,
            batch_tokens: self.batch_tokens,
            ..TranslateOptions::default()
        })
    }

    /// Options of sampling need sampling.
    fn check_sampling(&self) -> Result<()> {
        let Sampling { temperature, top_k, top_p, min_p, seed } = Sampling::default();
        let given = [
            ("--temperature", self.temperature != temperature),
            ("--top-k", self.top_k != top_k),
            ("--top-p", self.top_p != top_p),
            ("--min-p", self.min_p != min_p),
            ("--seed", self.seed != seed),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) if !self.sample => Err(Misuse {
                message: format!("{name} has nothing to act on, expected --sample"),
                hint: "add --sample to draw tokens".into(),
            }
            .into()),
            _ => Ok(()),
        }
    }
}

/// A whole number of 1 or more.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a whole number of 1 or more".into()),
    }
}
