//! `polyhead quantize`: a model with int8 weights, a quarter of the size of f32 and several times faster.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, read_config};
use polyhead_tensor::{Dtype, ParameterId, Parameters};
use polyhead_text::lines::Lines;
use polyhead_translate::languages::Languages;
use polyhead_translate::{Engine, LoadOptions, Mode, TranslateOptions};

use crate::conversion::Folders;
use crate::decode_options::positive;
use crate::input::shown;
use crate::model_folder::load_model;
use crate::option_help::TO;
use crate::report::{Failure, bytes, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead quantize models/en-de --out models/en-de-int8 --sample valid.en
  polyhead quantize runs/four/model --out four-int8 --sample valid.en --to tr
  polyhead quantize models/en-de --out en-de-int8 --sample valid.tsv --column 2
  polyhead parity -m en-de-int8 --reference reference.safetensors --absolute 1

Every weight matrix becomes int8 with one scale per output; vectors (biases, norms) are not quantised. Activations are quantised row by row at run time, so a sentence gives the same translation in any batch. The output is the quantisation error of each matrix, largest first: the root mean square of the error divided by that of the matrix.";

/// Number of matrices in the list.
const LISTED: usize = 5;

/// Options of `polyhead quantize`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Quantize {
    #[command(flatten)]
    folders: Folders,
    /// Source text to translate with both models, to compare outputs and scores
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// Column of a tab-separated sample, counted from 1, or the first of several sources [default: 1 for a .tsv file, else whole
    /// lines]
    #[arg(long, value_name = "N", requires = "sample", value_parser = positive)]
    column: Option<usize>,
    #[arg(long = "to", value_name = "LANGUAGE", requires = "sample", help = TO)]
    language: Option<String>,
}

impl Quantize {
    pub(crate) fn run(self) -> Result<()> {
        let folders = self.folders.resolved()?;
        folders.check()?;
        if let Some(language) = &self.language {
            Languages::of(&folders.from)?.target(language)?;
        }
        let n_sources = read_config(&folders.from)?.0.n_sources();
        let sample =
            self.sample.as_ref().map(|path| read_sample(path, self.column, n_sources)).transpose()?;
        let mut model = load_model(&folders.from)?;
        if model.parameters.are_prepared() {
            bail!(Failure {
                message: format!("{}: is int8 already, expected f32, f16 or bf16", folders.from.display()),
                hint: "quantise the model that it was made from".into(),
            });
        }
        let before = model.parameters.bytes();
        let exact = model.parameters.clone();
        model.parameters.prepare(Dtype::Int8);
        let mut errors: Vec<(f64, &str)> = exact
            .declared()
            .filter_map(|(id, name, _)| Some((error(&exact, &model.parameters, id)?, name)))
            .collect();
        errors.sort_by(|a, b| b.0.total_cmp(&a.0));
        let options = SaveOptions { layout: CheckpointLayout::Polyhead, ..SaveOptions::default() };
        folders.write(&model.model.config(), &model.parameters, &options)?;
        let mean = errors.iter().map(|(error, _)| error).sum::<f64>() / errors.len().max(1) as f64;
        let mut text = format!(
            "quantised {} to int8: {} → {} of weights, mean error {:.2} %\n",
            if errors.len() == 1 { "1 matrix".to_owned() } else { format!("{} matrices", errors.len()) },
            bytes(before as u64),
            bytes(model.parameters.bytes() as u64),
            100.0 * mean
        );
        for (error, name) in errors.iter().take(LISTED) {
            text += &format!("  {name:<60} {:>6.2} %\n", 100.0 * error);
        }
        drop((model, exact));
        if let Some(sample) = &sample {
            text += &compare(&folders, sample, self.language)?;
        }
        print_text(&text)
    }
}

/// The lines of a sample, or one of their columns; for a model of several sources as many from this one on.
fn read_sample(path: &Path, column: Option<usize>, n_sources: usize) -> Result<Vec<String>> {
    let name = path.to_string_lossy();
    let is_table = name.ends_with(".tsv") || name.ends_with(".tsv.gz");
    let lines = Lines::read_all(path)?;
    let Some(column) = column.or(is_table.then_some(1)) else { return Ok(lines) };
    let cell = |(index, line): (usize, &String)| -> Result<String> {
        let cells: Vec<&str> = line.split('\t').skip(column - 1).take(n_sources).collect();
        let cell = (cells.len() == n_sources).then(|| cells.join("\t"));
        cell.ok_or_else(|| {
            let place = format!("{}:{}", shown(path).display(), index + 1);
            let found = line.split('\t').count();
            Failure {
                message: format!("{place}: {found} columns, expected at least {}", column + n_sources - 1),
                hint: "columns are separated by tabs and counted from 1".into(),
            }
            .into()
        })
    };
    lines.iter().enumerate().map(cell).collect()
}

/// Translates every line greedily with both models.
fn compare(folders: &Folders, lines: &[String], to: Option<String>) -> Result<String> {
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.trim().is_empty()).collect();
    let options = TranslateOptions { mode: Mode::Raw, to, beam_size: Some(1), ..TranslateOptions::default() };
    let [exact, int8] = [&folders.from, &folders.to].map(|folder| {
        Ok::<_, anyhow::Error>(Engine::load(folder, &LoadOptions::default())?.translate(&lines, &options)?)
    });
    let pairs: Vec<_> = exact?.into_iter().zip(int8?).collect();
    let same = pairs.iter().filter(|(exact, int8)| exact.text() == int8.text());
    let changes: Vec<f64> =
        same.map(|(a, b)| (b.best().log_probability - a.best().log_probability).abs()).collect();
    let mean = changes.iter().sum::<f64>() / changes.len().max(1) as f64;
    let largest = changes.iter().copied().fold(0.0, f64::max);
    let differing = pairs.len() - changes.len();
    Ok(format!(
        "{differing} of {} sample outputs differ; log-probabilities of the others change by {mean:.4} on average, {largest:.4} at most\n",
        pairs.len()
    ))
}

/// The quantisation error of a matrix, √(Σ (w − q)² / Σ w²); none if it was not quantised.
fn error(exact: &Parameters, int8: &Parameters, id: ParameterId) -> Option<f64> {
    let prepared = int8.prepared(id)?;
    let [_, width] = prepared.shape();
    let mut row = vec![0.0; width];
    let (mut difference, mut size) = (0.0, 0.0);
    for (out, weights) in exact.value(id).data().chunks_exact(width.max(1)).enumerate() {
        prepared.row(out, &mut row);
        for (&weight, &quantised) in weights.iter().zip(&row) {
            difference += f64::from(weight - quantised).powi(2);
            size += f64::from(weight).powi(2);
        }
    }
    Some(if size == 0.0 { 0.0 } else { (difference / size).sqrt() })
}
