//! `polyhead quantize`: a model whose matrices are bytes, a quarter of the size and two to four times faster.

use anyhow::{Result, bail};
use clap::Args;
use polyhead_models::checkpoint::{Layout, SaveOptions};
use polyhead_tensor::{ParameterId, Parameters, Precision};

use crate::conversion::Folders;
use crate::model_folder::Model;
use crate::report::{Failure, bytes, print_text};

const EXAMPLES: &str = "Examples:
  polyhead quantize models/en-de models/en-de-int8
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
}

impl Quantize {
    pub(crate) fn run(self) -> Result<()> {
        self.folders.check()?;
        let mut model = Model::load(&self.folders.from)?;
        let ids: Vec<ParameterId> = model.parameters.declared().map(|(id, ..)| id).collect();
        if ids.iter().any(|&id| model.parameters.prepared(id).is_some()) {
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
        self.folders.write(&model, &options)?;
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
        print_text(&text)
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
