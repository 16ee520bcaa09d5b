//! Parameters as the arrays of a file.

use polyhead_tensor::Parameters;

use super::Layout;
use super::links::{Link, Links};
use crate::Result;
use crate::checkpoint::safetensors::Array;
use crate::transformer::TransformerConfig;

/// The arrays that hold all parameters under the names of a layout; nothing is copied.
///
/// # Panics
/// If a parameter was never given a value.
pub(crate) fn arrays<'a>(
    layout: Layout,
    config: &TransformerConfig,
    parameters: &'a Parameters,
) -> Result<Vec<Array<'a>>> {
    let links = Links::new(layout, config, parameters)?;
    let mut written: Vec<&Link> = links.groups.iter().map(|aliases| &aliases[0]).collect();
    written.sort_by_key(|link| (&link.theirs, link.their_rows.start));
    let piece = |link: &&Link| {
        let numbers = link.our_rows.start * link.width..link.our_rows.end * link.width;
        &parameters.value(link.parameter).data()[numbers]
    };
    let arrays = written.chunk_by(|a, b| a.theirs == b.theirs).map(|links| Array {
        name: links[0].theirs.clone(),
        shape: links[0].their_shape.clone(),
        pieces: links.iter().map(piece).collect(),
    });
    Ok(arrays.collect())
}
