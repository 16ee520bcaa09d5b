//! The binary files of CIFAR-10 and CIFAR-100 (Krizhevsky 2009): records of one label (CIFAR-100: a coarse and a fine one) and
//! 32 × 32 pixels, the red ones first, then green, then blue. Names of the classes are in a text file beside them.

use std::path::Path;

use polyhead_text::whole;

use super::ImageSet;
use crate::{Error, Result};

/// Height and width of an image.
const SIDE: usize = 32;
/// Bytes of an image.
const PIXELS: usize = 3 * SIDE * SIDE;
/// Most bytes of a file.
const MOST_BYTES: u64 = 4 << 30;
/// Number of labels before an image, number of classes, and the file with their names.
const KINDS: [(usize, u8, &str); 2] = [(1, 10, "batches.meta.txt"), (2, 100, "fine_label_names.txt")];

/// Reads one file.
///
/// # Errors
/// If it cannot be read, or does not consist of whole records.
pub fn read(path: &Path) -> Result<ImageSet> {
    let bytes =
        whole::read(path, MOST_BYTES).map_err(|error| polyhead_text::Error::io(path, "read", error))?;
    let fits = |(n_labels, n_classes, _): &(usize, u8, &str)| {
        let record = n_labels + PIXELS;
        let mut labels = bytes.chunks_exact(record).map(|record| record[n_labels - 1]);
        bytes.len().is_multiple_of(record) && labels.all(|label| label < *n_classes)
    };
    let kind = KINDS.into_iter().find(fits).filter(|_| !bytes.is_empty());
    let Some((n_labels, n_classes, names)) = kind else {
        let message = format!(
            "{} bytes, expected records of {} bytes with labels below 10, or of {} with labels below 100",
            bytes.len(),
            1 + PIXELS,
            2 + PIXELS
        );
        return Err(Error::file(path, message, "a binary file of CIFAR-10 or CIFAR-100 is needed"));
    };
    let (mut pixels, mut labels) = (Vec::with_capacity(bytes.len()), Vec::new());
    for record in bytes.chunks_exact(n_labels + PIXELS) {
        labels.push(u32::from(record[n_labels - 1]));
        let planes = &record[n_labels..];
        pixels
            .extend((0..SIDE * SIDE).flat_map(|at| [0, 1, 2].map(|plane| planes[plane * SIDE * SIDE + at])));
    }
    let names = class_names(&path.with_file_name(names), usize::from(n_classes));
    Ok(ImageSet { size: [SIDE; 2], channels: 3, pixels, labels, names })
}

/// The names in a text file, if it has as many; otherwise numbers.
fn class_names(path: &Path, count: usize) -> Vec<String> {
    let text = whole::read(path, whole::MAX_SETTINGS).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let names = text.map(|text| {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect::<Vec<String>>()
    });
    names
        .filter(|names| names.len() == count)
        .unwrap_or_else(|| (0..count).map(|name| name.to_string()).collect())
}
