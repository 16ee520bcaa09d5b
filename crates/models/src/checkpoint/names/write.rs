//! Parameters as the arrays of a file.

use polyhead_tensor::{Parameters, Prepared};

use super::Layout;
use super::links::{Link, Links};
use super::read::SCALE;
use crate::checkpoint::safetensors::{Array, Numbers};
use crate::{Error, ModelConfig, Result};

/// The arrays that hold all parameters under the names of a layout; nothing is copied.
///
/// # Panics
/// If a parameter was never given a value.
pub(crate) fn arrays<'a>(
    layout: Layout,
    config: &ModelConfig,
    parameters: &'a Parameters,
) -> Result<Vec<Array<'a>>> {
    let links = Links::new(layout, config, parameters)?;
    if let Some((_, name, _)) = parameters.declared().find(|(id, ..)| parameters.prepared(*id).is_some()) {
        return if layout == Layout::Polyhead { prepared_arrays(parameters) } else { Err(no_numbers(name)) };
    }
    let mut written: Vec<&Link> = links.groups.iter().map(|aliases| &aliases[0]).collect();
    written.sort_by_key(|link| (&link.theirs, link.their_rows.start));
    let piece = |link: &&Link| {
        let numbers = link.our_rows.start * link.width..link.our_rows.end * link.width;
        &parameters.value(link.parameter).data()[numbers]
    };
    let arrays = written.chunk_by(|a, b| a.theirs == b.theirs).map(|links| Array {
        name: links[0].theirs.clone(),
        shape: links[0].their_shape.clone(),
        numbers: Numbers::Floats(links.iter().map(piece).collect()),
    });
    Ok(arrays.collect())
}

/// The same for a model whose weights are bytes: each with its scales, under our own names.
fn prepared_arrays(parameters: &Parameters) -> Result<Vec<Array<'_>>> {
    let mut arrays = Vec::new();
    for (id, name, shape) in parameters.declared() {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        let numbers = match parameters.prepared(id) {
            None => Numbers::Floats(vec![parameters.value(id).data()]),
            Some(Prepared::Packed(_)) => return Err(no_numbers(&name)),
            Some(Prepared::Int8(weights)) => {
                let (scale, rows) = (format!("{name}{SCALE}"), vec![shape[0]]);
                arrays.push(Array {
                    name: scale,
                    shape: rows,
                    numbers: Numbers::Floats(vec![weights.scales()]),
                });
                Numbers::Int8(weights.to_rows())
            }
        };
        arrays.push(Array { name, shape, numbers });
    }
    Ok(arrays)
}

fn no_numbers(name: &str) -> Error {
    let message = format!("{name} is held in a form for inference only, expected its numbers");
    Error::Config { message }
}
