//! The files that `polyhead inspect` writes.

use std::path::Path;

use anyhow::Result;
use polyhead_inspect::export;
use polyhead_inspect::heat_map::svg::{FigureOptions, figure};
use polyhead_inspect::overlay::Overlay;
use polyhead_inspect::selection::Selection;
use polyhead_inspect::trace::{Trace, TraceSide};
use polyhead_text::output::Output;

use super::misuse;
use crate::picture::PictureFormat;
use crate::report::grouped;

/// Maximum number of weights in a JSON file: 340 MB of text.
const MAX_WEIGHTS_IN_JSON: usize = 64_000_000;

/// The format of a file, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceFormat {
    Picture(PictureFormat),
    Json,
    Html,
    Npz,
    Safetensors,
}

impl TraceFormat {
    /// The format of an extension; misuse for other extensions.
    pub(super) fn of(path: &Path) -> Result<Self> {
        if let Some(format) = PictureFormat::of(path) {
            return Ok(Self::Picture(format));
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
                    ".svg is a picture, .html a page with all views, .json has the data",
                ));
            }
        })
    }

    /// True for a file with arrays of attention weights.
    pub(super) fn is_of_weights(self) -> bool {
        matches!(self, Self::Npz | Self::Safetensors)
    }

    /// True for a file that shows attention alone.
    pub(super) fn needs_attention(self) -> bool {
        matches!(self, Self::Picture(_) | Self::Npz | Self::Safetensors)
    }

    /// Writes the trace to `path`.
    pub(super) fn write(self, path: &Path, trace: &Trace, selection: &Selection, model: &str) -> Result<()> {
        let filter = selection.filter();
        let bytes = match self {
            Self::Picture(format) if trace.image().is_some() || trace.caption().is_some() => {
                return format.save_overlay(path, &Overlay::new(trace, selection)?);
            }
            Self::Picture(format) => return format.save(path, &drawn(trace, selection)?),
            Self::Json | Self::Html => {
                let size = |head: &&polyhead_inspect::matrix::Matrix| head.numbers().len();
                let count: usize =
                    trace.selected(&filter).iter().flat_map(|part| &part.weights).map(size).sum();
                if count > MAX_WEIGHTS_IN_JSON {
                    let [count, most] = [count, MAX_WEIGHTS_IN_JSON].map(|number| grouped(number as u64));
                    let message =
                        format!("{count} attention weights for a text file, expected at most {most}");
                    return Err(misuse(
                        &message,
                        "select fewer with --kind, --layers and --heads, or write .npz",
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

/// The selected heat-maps as SVG.
fn drawn(trace: &Trace, selection: &Selection) -> Result<String> {
    let (maps, n_columns) = selection.maps(trace)?;
    // Sources of their own lines, then what the model made of them.
    let texts = trace.sides.iter().filter(|side| side.name != "sources").enumerate();
    let line = |(index, side): (usize, &TraceSide)| match index {
        0 => side.text.clone(),
        _ if side.name.starts_with("source") => side.text.clone(),
        _ => format!("→ {}", side.text),
    };
    let mut lines: Vec<String> = texts.map(line).collect();
    if let Some(class) = trace.encoder().and_then(|found| found.classes()?.first()) {
        lines.push(format!("→ {} ({:.3})", class.label, class.probability));
    }
    let has_several = selection.kind.is_none() && trace.side("source_2").is_some();
    let title = match selection.pictured(&trace.sites)?.kind {
        kind if has_several && !kind.is_self() => {
            format!("cross-attention: {} ↓ attends to each source →", kind.queries)
        }
        kind => kind.title(),
    };
    let options = FigureOptions { title, lines, n_columns };
    Ok(figure(&maps, &options))
}
