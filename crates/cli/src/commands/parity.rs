//! `polyhead parity`: a model compared with the activations of another implementation, layer by layer.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use polyhead_models::checkpoint::safetensors::TensorFile;
use polyhead_models::parity::{Comparison, Report, Tolerance, compare};
use serde::Serialize;

use crate::model_folder::{load_model, resolve};
use crate::output_format::DocumentFormat;
use crate::report::{Failure, Misuse, note, print_json, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead parity -m opus-mt-en-de --reference reference.safetensors
  polyhead parity -m opus-mt-en-de --reference reference.safetensors \\
      --absolute 1e-3 --format json

A reference file of a Marian model is recorded with Hugging Face's code:
  python crates/models/tests/golden/record.py opus-mt-en-de out.safetensors

It has source_ids and target_ids (sentences × length; the target as decoder input), source_lengths and target_lengths, and any of these arrays:
  encoder.embedding                          embedded input, with positions
  encoder.layers.{i}.self_attention          before the residual connection
  encoder.layers.{i}.self_attention.weights  sentences × heads × queries × keys
  encoder.layers.{i}.feed_forward            before the residual connection
  encoder.layers.{i}, encoder                output of the layer, of the stack
  decoder.…                                  the same, and cross_attention
  logits                                     with the bias

An array agrees if its largest difference is within --absolute, or within --relative times its largest value. Padding is ignored. Exit code 1 if an array diverges.";

/// Options of `polyhead parity`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Parity {
    /// Model folder, run folder or installed model
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Reference file: inputs and activations of the other implementation
    #[arg(long, value_name = "SAFETENSORS")]
    reference: PathBuf,
    /// Absolute tolerance
    #[arg(long, value_name = "X", default_value_t = Tolerance::default().absolute)]
    absolute: f64,
    /// Relative tolerance: fraction of the array's largest value
    #[arg(long, value_name = "X", default_value_t = Tolerance::default().relative)]
    relative: f64,
    #[command(flatten)]
    format: DocumentFormat,
}

impl Parity {
    pub(crate) fn run(self) -> Result<()> {
        let tolerance = self.tolerance()?;
        let reference = self.open_reference()?;
        let found = load_model(&resolve(&self.model)?)?;
        let model = found.model.into_sequence_to_sequence()?;
        let report = compare(&model, &found.parameters, &reference, tolerance)?;
        if !report.unknown.is_empty() {
            note(&format!("note: not compared, since this model has none: {}", report.unknown.join(", ")));
        }
        if report.comparisons.is_empty() {
            bail!(Failure {
                message: format!("{}: no array that this model computes", self.reference.display()),
                hint: "polyhead parity --help lists the names".into(),
            });
        }
        if self.format.is_json() {
            print_json(&json(&report, tolerance))?;
        } else {
            print_text(&table(&report))?;
        }
        match report.first_divergence() {
            None => Ok(()),
            Some(first) => bail!(Failure {
                message: format!("the model diverges from {} at {}", self.reference.display(), first.name),
                hint: "everything before it agrees: check its weights and its config".into(),
            }),
        }
    }

    fn tolerance(&self) -> Result<Tolerance> {
        for (name, value) in [("--absolute", self.absolute), ("--relative", self.relative)] {
            if !(value >= 0.0 && value.is_finite()) {
                bail!(Misuse {
                    message: format!("{name}: {value}, expected a number of 0 or more"),
                    hint: "for example 1e-4; an array agrees if it is within either tolerance".into(),
                });
            }
        }
        Ok(Tolerance { absolute: self.absolute, relative: self.relative })
    }

    fn open_reference(&self) -> Result<TensorFile> {
        // Opening a folder succeeds; reading it fails without a clear message.
        if self.reference.is_dir() {
            bail!(Failure {
                message: format!("{}: a folder, expected a safetensors file", self.reference.display()),
                hint: "name the reference file; polyhead parity --help shows how to record one".into(),
            });
        }
        Ok(TensorFile::open(&self.reference)?)
    }
}

fn table(report: &Report) -> String {
    let shapes: Vec<String> = report.comparisons.iter().map(shape).collect();
    let names = report.comparisons.iter().map(|comparison| comparison.name.as_str());
    let name_width = names.chain(["name"]).map(str::len).max().unwrap_or(0);
    let shape_width = shapes.iter().map(|shape| shape.chars().count()).max().unwrap_or(0).max("shape".len());
    let mut out = format!("{:name_width$}  {:shape_width$}  absolute  relative\n", "name", "shape");
    for (comparison, shape) in report.comparisons.iter().zip(&shapes) {
        let Comparison { name, absolute, relative, diverges, .. } = comparison;
        let verdict = if *diverges { "DIVERGES" } else { "ok" };
        out += &format!(
            "{name:name_width$}  {shape:shape_width$}  {absolute:8.1e}  {relative:8.1e}  {verdict}\n"
        );
    }
    match report.first_divergence() {
        None => out += &format!("all {} arrays agree\n", report.comparisons.len()),
        Some(Comparison { name, absolute, relative, .. }) => {
            out += &format!("first divergence: {name} (absolute {absolute:.1e}, relative {relative:.1e})\n");
        }
    }
    out
}

fn shape(comparison: &Comparison) -> String {
    let sizes: Vec<String> = comparison.shape.iter().map(ToString::to_string).collect();
    sizes.join(" × ")
}

/// The report as JSON; infinite differences are null.
fn json(report: &Report, tolerance: Tolerance) -> impl Serialize {
    let array = |comparison: &Comparison| {
        let Comparison { name, shape, absolute, relative, diverges } = comparison;
        serde_json::json!({
            "name": name, "shape": shape, "absolute": absolute, "relative": relative, "diverges": diverges,
        })
    };
    serde_json::json!({
        "agrees": report.first_divergence().is_none(),
        "first_divergence": report.first_divergence().map(|first| &first.name),
        "tolerance": { "absolute": tolerance.absolute, "relative": tolerance.relative },
        "arrays": report.comparisons.iter().map(array).collect::<Vec<_>>(),
        "unknown": report.unknown,
    })
}
