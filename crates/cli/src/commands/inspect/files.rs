//! The files that `polyhead inspect` writes.

use std::path::Path;

use anyhow::Result;
use polyhead_inspect::export;
use polyhead_inspect::heat_map::svg::{FigureOptions, figure};
use polyhead_inspect::selection::Selection;
use polyhead_inspect::trace::{Outcome, Trace};
use polyhead_text::output::Output;

use super::misuse;
use crate::picture;
use crate::report::grouped;

/// The most weights in a JSON file: 340 MB of text.
const MOST_IN_JSON: usize = 64_000_000;

/// The form of a file, as its name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Picture(picture::Form),
    Json,
    Html,
    Npz,
    Safetensors,
}

impl Form {
    pub(super) fn of(path: &Path) -> Result<Self> {
        if let Some(form) = picture::Form::of(path) {
            return Ok(Self::Picture(form));
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        Ok(match extension.as_str() {
            "json" => Self::Json,
            "html" | "htm" => Self::Html,
            "npz" => Self::Npz,
            "safetensors" => Self::Safetensors,
            _ => {
                let known = ".svg, .png, .html, .json, .npz or .safetensors";
                let message = format!("--out: {}, expected a name that ends in {known}", path.display());
                return Err(misuse(
                    &message,
                    ".svg is a picture, .html a page with everything, .json the same for programs",
                ));
            }
        })
    }

    pub(super) fn write(self, path: &Path, trace: &Trace, selection: &Selection, model: &str) -> Result<()> {
        let filter = selection.filter();
        let bytes = match self {
            Self::Picture(form) => return form.save(path, &drawn(trace, selection)?),
            Self::Json | Self::Html => {
                let numbers = |head: &&polyhead_inspect::matrix::Matrix| head.numbers().len();
                let count: usize =
                    trace.selected(&filter).iter().flat_map(|part| &part.weights).map(numbers).sum();
                if count > MOST_IN_JSON {
                    let [count, most] = [count, MOST_IN_JSON].map(|number| grouped(number as u64));
                    let message =
                        format!("{count} attention weights for a file of text, expected at most {most}");
                    return Err(misuse(
                        &message,
                        "choose fewer with --kind, --layers and --heads, or write .npz",
                    ));
                }
                let text = match self {
                    Self::Html => polyhead_serve::page(trace, &filter, model),
                    _ => export::json(trace, &filter),
                };
                text.into_bytes()
            }
            Self::Npz => export::npz(trace, &filter),
            Self::Safetensors => export::safetensors(trace, &filter),
        };
        Ok(Output::save(path, &bytes)?)
    }
}

fn drawn(trace: &Trace, selection: &Selection) -> Result<String> {
    let (maps, n_columns) = selection.maps(trace)?;
    let mut lines: Vec<String> = trace.sides.iter().map(|side| side.text.clone()).collect();
    lines.iter_mut().skip(1).for_each(|line| line.insert_str(0, "→ "));
    if let Outcome::Classes(classes) = &trace.outcome {
        lines.extend(classes.first().map(|class| format!("→ {} ({:.3})", class.label, class.probability)));
    }
    let title = selection.pictured(&trace.sites)?.kind.title();
    let options = FigureOptions { title, lines, n_columns };
    Ok(figure(&maps, &options))
}
