//! idx files, the format of MNIST and Fashion-MNIST: big-endian magic number (type 8, number of axes), sizes of the axes, bytes.
//! Plain or gzip.

use std::io::Read as _;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use polyhead_text::whole;

use super::ImageSet;
use crate::{Error, Result};

/// The magic number of bytes in three axes: images, rows, columns.
const IMAGES: u32 = 0x0803;
/// The magic number of bytes in one axis: labels.
const LABELS: u32 = 0x0801;
/// Most bytes of a file after decompression.
const MOST_BYTES: u64 = 4 << 30;
/// Largest side of an image in pixels.
const MOST_SIDE: u32 = 4096;

/// Reads a file of images and the file of their labels.
///
/// # Errors
/// If a file cannot be read, has another magic number or length, or there are as many labels as images.
pub fn read(images: &Path, labels: &Path) -> Result<ImageSet> {
    let (sizes, pixels) = parsed::<3>(images, IMAGES)?;
    let [count, height, width] = sizes;
    if ![height, width].into_iter().all(|side| (1..=MOST_SIDE).contains(&side)) || count == 0 {
        let message =
            format!("{count} images of {width}×{height} pixels, expected some of 1 to {MOST_SIDE} pixels");
        return Err(Error::file(images, message, "fetch the file again"));
    }
    let ([n_labels], bytes) = parsed::<1>(labels, LABELS)?;
    if n_labels != count {
        let message = format!("{n_labels} labels for {count} images in {}", images.display());
        return Err(Error::file(labels, message, "name the labels of these images"));
    }
    let labels: Vec<u32> = bytes.into_iter().map(u32::from).collect();
    let n_names = labels.iter().max().map_or(0, |largest| largest + 1);
    Ok(ImageSet {
        size: [height as usize, width as usize],
        channels: 1,
        pixels,
        labels,
        names: (0..n_names).map(|name| name.to_string()).collect(),
    })
}

/// The sizes of the axes and the bytes of a file.
fn parsed<const AXES: usize>(path: &Path, magic: u32) -> Result<([u32; AXES], Vec<u8>)> {
    let mut bytes = bytes(path)?;
    let number = |at: usize| {
        bytes.get(4 * at..4 * at + 4).map(|four| four.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    };
    let kind = |magic| if magic == IMAGES { "images" } else { "labels" };
    let Some(found) = number(0) else {
        return Err(Error::file(path, "shorter than a magic number", "fetch the file again"));
    };
    if found != magic {
        let hint = match found {
            IMAGES | LABELS => format!("this file has {}: exchange the two", kind(found)),
            _ => "an idx file of MNIST, plain or gzip, is needed".to_owned(),
        };
        let message = format!("magic number {found:#010x}, expected {magic:#010x} ({})", kind(magic));
        return Err(Error::file(path, message, hint));
    }
    let header = 4 * (1 + AXES);
    let mut sizes = [0; AXES];
    for (axis, size) in sizes.iter_mut().enumerate() {
        let Some(found) = number(1 + axis) else {
            return Err(Error::file(path, "the header ends early", "fetch the file again"));
        };
        *size = found;
    }
    let expected = sizes.iter().map(|size| u64::from(*size)).try_fold(1_u64, u64::checked_mul);
    if expected != Some((bytes.len() - header) as u64) {
        let expected = expected.map_or_else(|| "fewer".to_owned(), |expected| expected.to_string());
        let message = format!("{} bytes after the header, expected {expected}", bytes.len() - header);
        return Err(Error::file(path, message, "the file is cut off or damaged: fetch it again"));
    }
    Ok((sizes, bytes.split_off(header)))
}

/// The bytes of a file, which may be gzip.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    let error = |error| Error::from(polyhead_text::Error::io(path, "read", error));
    let bytes = whole::read(path, MOST_BYTES).map_err(error)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return whole::read_from(MultiGzDecoder::new(bytes.as_slice()).by_ref(), MOST_BYTES).map_err(error);
    }
    Ok(bytes)
}
