//! The options of commands that translate: model, languages, search, sampling and compute.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_text::lines::Lines;
use polyhead_translate::{
    Engine, LengthFormula, LoadOptions, Mode, Sampling, ShortlistChoice, TranslateOptions,
};

use crate::compute_dtype::{ComputeDtype, device_name};
use crate::default_model;
use crate::input::shown;
use crate::locale;
use crate::model_folder::report_loaded;
use crate::option_help::{
    BATCH_TOKENS, DETECTED, DEVICE, DTYPE, ENGLISH_OR_LOCALE, FROM, MODEL, SEED, THREADS, TO, with_default,
};
use crate::report::{Failure, Misuse, note};

/// A model and its decoding options; `None` is the default of the model folder.
#[derive(Debug, Args)]
pub(crate) struct DecodeOptions {
    #[arg(short, long, value_name = "DIR", help = MODEL)]
    model: Option<PathBuf>,
    #[arg(long, value_name = "LANGUAGE", help = with_default(FROM, DETECTED))]
    from: Option<String>,
    #[arg(long, value_name = "LANGUAGE", help = with_default(TO, ENGLISH_OR_LOCALE))]
    to: Option<String>,
    /// Beam size; 1 is greedy search [default: the model's]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    beam: Option<usize>,
    /// Maximum number of target tokens per sentence, end token included [default: the model's]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    max_length: Option<usize>,
    /// Exponent of the length penalty; higher favours longer translations [default: the model's]
    #[arg(long, value_name = "A", help_heading = "Decoding")]
    length_penalty: Option<f64>,
    /// Formula of the length penalty
    #[arg(long, value_enum, default_value_t = Formula::Power, help_heading = "Decoding")]
    length_formula: Formula,
    /// Text that each translation must begin with
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Decoding"
    )]
    prefix: String,
    /// Forbid repeated n-grams of N tokens; 0 allows all [default: the model's]
    #[arg(long, value_name = "N", help_heading = "Decoding")]
    no_repeat_ngram: Option<usize>,
    /// Repetition penalty: divides the logits of earlier tokens; 1 is off [default: the model's]
    #[arg(long, value_name = "X", help_heading = "Decoding")]
    repetition_penalty: Option<f32>,
    /// Pass each text to the model as one sentence: no splitting, no loop detection, no preserved text, no language detection
    #[arg(long, help_heading = "Decoding")]
    raw: bool,
    /// Sample tokens instead of searching for the best
    #[arg(long, conflicts_with = "beam", help_heading = "Sampling")]
    sample: bool,
    /// Temperature: divides the logits; below 1 is more conservative, above 1 more varied
    #[arg(long, value_name = "T", default_value_t = 1.0, help_heading = "Sampling")]
    temperature: f32,
    /// Sample from the N most probable tokens; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Sampling")]
    top_k: usize,
    /// Sample from the most probable tokens whose probabilities sum to P (nucleus sampling)
    #[arg(long, value_name = "P", default_value_t = 1.0, help_heading = "Sampling")]
    top_p: f32,
    /// Exclude tokens below P times the probability of the most probable one
    #[arg(long, value_name = "P", default_value_t = 0.0, help_heading = "Sampling")]
    min_p: f32,
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Sampling", help = SEED)]
    seed: u64,
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Compute", help = DEVICE,
          value_parser = device_name)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    pub(crate) threads: Option<usize>,
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Compute",
          help = with_default(BATCH_TOKENS, "1024, on a GPU 16384"))]
    batch_tokens: Option<usize>,
    /// Tokens that can be output: those of this target-language text, or of a lexical shortlist (.safetensors); none allows all [default: the model's shortlist]
    #[arg(long, value_name = "FILE", help_heading = "Compute")]
    shortlist: Option<PathBuf>,
}

/// Formula of the length penalty: the divisor of a log-probability over n tokens, with exponent A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Formula {
    /// n^A
    Power,
    /// ((5 + n) / 6)^A, of Wu et al. 2016
    Wu,
}

impl DecodeOptions {
    /// Loads the model, on the threads of the pool it is called in.
    pub(crate) fn engine(&self) -> Result<Engine> {
        let start = Instant::now();
        let folder = default_model::or(self.model.as_deref())?;
        let (device, dtype) = self.dtype.open(&self.device)?;
        let shortlist = self.shortlist.as_deref().map_or(Ok(ShortlistChoice::Folder), shortlist_choice)?;
        let engine = Engine::load(&folder, &LoadOptions { device, dtype, shortlist })?;
        report_loaded(&folder, &engine.device(), self.dtype.name(), start);
        let languages = engine.languages();
        let known: Vec<&str> = languages.targets().iter().map(|language| language.code.as_str()).collect();
        // A model folder that names its directions has a default target, which is shown with the translation.
        if self.to.is_none() && known.len() > 1 && languages.directions().is_empty() {
            note(&format!("note: the model translates into {}; choose one with --to", known.join(", ")));
        }
        Ok(engine)
    }

    /// True for `--shortlist -`.
    pub(crate) fn reads_standard_input(&self) -> bool {
        self.shortlist.as_deref() == Some(Path::new("-"))
    }

    /// The options as the translator takes them.
    pub(crate) fn options(&self) -> Result<TranslateOptions> {
        self.check_sampling()?;
        let &Self { temperature, top_k, top_p, min_p, seed, .. } = self;
        Ok(TranslateOptions {
            mode: if self.raw { Mode::Raw } else { Mode::Guarded },
            from: self.from.clone(),
            to: self.to.clone(),
            english_to: locale::language(),
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

    /// Misuse if an option of sampling is given without `--sample`.
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
                message: format!("{name} has no effect here, expected --sample"),
                hint: "add --sample to sample tokens".into(),
            }
            .into()),
            _ => Ok(()),
        }
    }
}

/// The shortlist that `--shortlist` names: none, a lexical one, or the tokens of a text.
fn shortlist_choice(path: &Path) -> Result<ShortlistChoice> {
    if path == Path::new("none") {
        return Ok(ShortlistChoice::All);
    }
    if path.extension().is_some_and(|extension| extension == "safetensors") {
        return Ok(ShortlistChoice::Lexical(path.to_owned()));
    }
    let texts = Lines::read_all(path)?;
    if texts.iter().all(|line| line.trim().is_empty()) {
        return Err(Failure {
            message: format!("{}: no text, expected text in the target language", shown(path).display()),
            hint: "only tokens of that text can be output; --shortlist none allows all".into(),
        }
        .into());
    }
    Ok(ShortlistChoice::Texts(texts))
}

/// Parses a whole number of 1 or more.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a whole number of 1 or more".into()),
    }
}
