//! Parameters as the tensors of a file.

use polyhead_tensor::{Parameters, Prepared};

use super::CheckpointLayout;
use super::links::{ElementOrder, KERNEL, Link, Links};
use super::read::SCALE;
use crate::checkpoint::safetensors::{Array, ArrayData};
use crate::{Error, ModelConfig, Result};

/// All parameters as tensors under the names of a layout; nothing is copied.
///
/// # Panics
/// If a parameter has no value.
pub(crate) fn tensors<'a>(
    layout: CheckpointLayout,
    config: &ModelConfig,
    parameters: &'a Parameters,
) -> Result<Vec<Array<'a>>> {
    let links = Links::new(layout, config, parameters)?;
    if let Some((_, name, _)) = parameters.declared().find(|(id, ..)| parameters.prepared(*id).is_some()) {
        return if layout == CheckpointLayout::Polyhead {
            prepared_tensors(parameters)
        } else {
            Err(not_exportable(name))
        };
    }
    let written = links.groups.iter().map(|aliases| &aliases[0]);
    let mut written: Vec<&Link> = written.filter(|link| !link.is_optional).collect();
    written.sort_by_key(|link| (&link.theirs, link.their_rows.start));
    let rows = |link: &&Link| {
        let elements = link.our_rows.start * link.width..link.our_rows.end * link.width;
        &parameters.value(link.parameter).data()[elements]
    };
    let arrays = written.chunk_by(|a, b| a.theirs == b.theirs).map(|links| Array {
        name: links[0].theirs.clone(),
        shape: links[0].their_shape.clone(),
        data: match links {
            [link] if link.order == ElementOrder::Transposed => {
                ArrayData::Transposed { matrices: vec![rows(link)], columns: link.width }
            }
            [link] if link.order == ElementOrder::Convolution => ArrayData::Transposed {
                matrices: rows(link).chunks_exact(link.width).collect(),
                columns: link.width / KERNEL,
            },
            _ => ArrayData::Floats(links.iter().map(rows).collect()),
        },
    });
    Ok(arrays.collect())
}

/// The same for an int8 model: each weight with its scales, under Polyhead's own names.
fn prepared_tensors(parameters: &Parameters) -> Result<Vec<Array<'_>>> {
    let mut arrays = Vec::new();
    for (id, name, shape) in parameters.declared() {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        let data = match parameters.prepared(id) {
            None => ArrayData::Floats(vec![parameters.value(id).data()]),
            Some(Prepared::Packed(_)) => return Err(not_exportable(&name)),
            Some(Prepared::Int8(weights)) => {
                let (scale, rows) = (format!("{name}{SCALE}"), vec![shape[0]]);
                arrays.push(Array {
                    name: scale,
                    shape: rows,
                    data: ArrayData::Floats(vec![weights.scales()]),
                });
                ArrayData::Int8(weights.to_rows())
            }
        };
        arrays.push(Array { name, shape, data });
    }
    Ok(arrays)
}

fn not_exportable(name: &str) -> Error {
    let message = format!("{name} is packed for inference and cannot be saved, expected f32 or int8 weights");
    Error::Config { message }
}
