//! `polyhead quantize`: a model whose matrices are bytes, a quarter of the size and several times faster.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use polyhead_models::checkpoint::{Layout, SaveOptions};
use polyhead_tensor::{ParameterId, Parameters, Precision};
use polyhead_text::lines::Lines;
use polyhead_translate::languages::Languages;
use polyhead_translate::{Engine, LoadOptions, Mode, TranslateOptions};

use crate::conversion::Folders;
use crate::model_folder::load_model;
use crate::report::{Failure, bytes, print_text};

const EXAMPLES: &str = "Examples:
  polyhead quantize models/en-de models/en-de-int8 --sample valid.en
  polyhead quantize runs/four-languages/model four-int8 --sample valid.en --to tr
  polyhead parity --model models/en-de-int8 --reference reference.safetensors --absolute 1

Every matrix becomes bytes with a scale for each output; vectors (biases, norms) stay as they are. Inputs are quantised row
by row while the model runs, so a sentence gives the same translation in any batch. Printed is what rounding costs: the
error of each matrix as a part of its own size (root mean square), the worst ones first.";

/// Matrices that are listed.
const LISTED: usize = 5;

/// Options of `polyhead quantize`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Quantize {
    #[command(flatten)]
    folders: Folders,
    /// Source text to translate with both models: how many outputs differ, and how far scores drift
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// Language to translate the sample into, for a model that knows several
    #[arg(long = "to", value_name = "LANGUAGE", requires = "sample")]
    language: Option<String>,
}

impl Quantize {
    pub(crate) fn run(self) -> Result<()> {
        self.folders.check()?;
        if let Some(language) = &self.language {
            Languages::of(&self.folders.from)?.target(language)?;
        }
        let sample = self.sample.as_ref().map(Lines::read_all).transpose()?;
        let mut model = load_model(&self.folders.from)?;
        if model.parameters.are_prepared() {
            bail!(Failure {
                message: format!(
                    "{}: is int8 already, expected numbers to quantise",
                    self.folders.from.display()
                ),
                hint: "quantise the model it was made of".into(),
            });
        }
        let before = model.parameters.bytes();
        let exact = model.parameters.clone();
        model.parameters.prepare(Precision::Int8);
        let mut errors: Vec<(f64, &str)> = exact
            .declared()
            .filter_map(|(id, name, _)| Some((error(&exact, &model.parameters, id)?, name)))
            .collect();
        errors.sort_by(|a, b| b.0.total_cmp(&a.0));
        let options = SaveOptions { layout: Layout::Polyhead, ..SaveOptions::default() };
        self.folders.write(&model.model.config(), &model.parameters, &options)?;
        let mean = errors.iter().map(|(error, _)| error).sum::<f64>() / errors.len().max(1) as f64;
        let mut text = format!(
            "{} matrices became bytes: {} → {} of weights, error {:.2} % on average\n",
            errors.len(),
            bytes(before as u64),
            bytes(model.parameters.bytes() as u64),
            100.0 * mean
        );
        for (error, name) in errors.iter().take(LISTED) {
            text += &format!("  {name:<60} {:>6.2} %\n", 100.0 * error);
        }
        drop((model, exact));
        if let Some(sample) = &sample {
            text += &self.compare(sample)?;
        }
        print_text(&text)
    }

    /// Translates every line greedily with both models.
    fn compare(&self, lines: &[String]) -> Result<String> {
        let lines: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| !line.trim().is_empty()).collect();
        let options = TranslateOptions {
            mode: Mode::Raw,
            to: self.language.clone(),
            beam_size: Some(1),
            ..TranslateOptions::default()
        };
        let [exact, bytes] = [&self.folders.from, &self.folders.to].map(|folder| {
            Ok::<_, anyhow::Error>(
                Engine::load(folder, &LoadOptions::default())?.translate(&lines, &options)?,
            )
        });
        let pairs: Vec<_> = exact?.into_iter().zip(bytes?).collect();
        let same = pairs.iter().filter(|(exact, bytes)| exact.text() == bytes.text());
        let drifts: Vec<f64> =
            same.map(|(a, b)| (b.best().log_probability - a.best().log_probability).abs()).collect();
        let mean = drifts.iter().sum::<f64>() / drifts.len().max(1) as f64;
        let largest = drifts.iter().copied().fold(0.0, f64::max);
        let differing = pairs.len() - drifts.len();
        Ok(format!(
            "{differing} of {} sample outputs differ; log-probabilities of the others drift by {mean:.4} on average, {largest:.4} at most\n",
            pairs.len()
        ))
    }
}

/// How far the bytes of a matrix are from its numbers: √(Σ (w − q)² / Σ w²); none if it was not quantised.
fn error(exact: &Parameters, bytes: &Parameters, id: ParameterId) -> Option<f64> {
    let prepared = bytes.prepared(id)?;
    let [_, width] = prepared.shape();
    let mut row = vec![0.0; width];
    let (mut difference, mut size) = (0.0, 0.0);
    for (out, numbers) in exact.value(id).data().chunks_exact(width.max(1)).enumerate() {
        prepared.row(out, &mut row);
        for (&number, &near) in numbers.iter().zip(&row) {
            difference += f64::from(number - near).powi(2);
            size += f64::from(number).powi(2);
        }
    }
    Some(if size == 0.0 { 0.0 } else { (difference / size).sqrt() })
}
