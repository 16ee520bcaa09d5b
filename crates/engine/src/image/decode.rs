//! PNG and JPEG files as pictures. The size in the header is checked before anything is decoded, so that a small file cannot fill
//! the memory. Transparency is dropped, 16 bits become 8, and the orientation that a camera stored is applied.

use std::path::{Path, PathBuf};

use png::{ColorType, Transformations};
use polyhead_text::whole;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::Picture;
use crate::{Error, Result};

/// Largest image file in bytes.
const MOST_BYTES: u64 = 512 << 20;
/// Most pixels of a side, as in JPEG.
const MOST_SIDE: usize = 65_535;
/// Most passes over a progressive JPEG.
const MOST_SCANS: usize = 64;
/// The start of a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The start of a JPEG file.
const JPEG: &[u8] = b"\xff\xd8\xff";
/// Extensions of the formats that are read, in lower case.
pub const EXTENSIONS: [&str; 3] = ["png", "jpg", "jpeg"];

/// Limits that are checked before an image is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImageLimits {
    /// Most pixels in millions; default: 64.
    pub max_megapixels: f64,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self { max_megapixels: 64.0 }
    }
}

/// Reads an image file.
///
/// # Errors
/// If it cannot be read, is neither PNG nor JPEG, is damaged, or exceeds the limits.
pub fn read(path: &Path, limits: ImageLimits) -> Result<Picture> {
    let bytes =
        whole::read(path, MOST_BYTES).map_err(|error| polyhead_text::Error::io(path, "read", error))?;
    decode(&bytes, path, limits)
}

/// Decodes an image; `name` is its name in messages.
///
/// # Errors
/// If it is neither PNG nor JPEG, is damaged, or exceeds the limits.
pub fn decode(bytes: &[u8], name: &Path, limits: ImageLimits) -> Result<Picture> {
    if bytes.starts_with(PNG) {
        decode_png(bytes, name, limits)
    } else if bytes.starts_with(JPEG) {
        decode_jpeg(bytes, name, limits)
    } else {
        Err(unknown(bytes, name))
    }
}

fn unknown(bytes: &[u8], name: &Path) -> Error {
    let found = if bytes.is_empty() { "an empty file" } else { "an unknown format" };
    Error::file(name, format!("{found}, expected PNG or JPEG"), "convert the image to PNG or JPEG")
}

/// Height and width of an image, as its header says, before anything is decoded; `name` is its name in messages.
///
/// # Errors
/// If it is neither PNG nor JPEG, its header is damaged, or it exceeds the limits.
pub fn measure(bytes: &[u8], name: &Path, limits: ImageLimits) -> Result<[usize; 2]> {
    let size = if bytes.starts_with(PNG) {
        let mut decoder = png_decoder(bytes);
        let header = decoder.read_header_info().map_err(|error| damaged(name, error))?;
        [header.height as usize, header.width as usize]
    } else if bytes.starts_with(JPEG) {
        jpeg_header(&mut jpeg_decoder(bytes), name)?
    } else {
        return Err(unknown(bytes, name));
    };
    check(name, size, limits)?;
    Ok(size)
}

/// The image files of a folder in the order of their names; other files are refused.
///
/// # Errors
/// If the folder cannot be read, or has a file of another kind.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in entries(folder)? {
        if entry.is_dir() {
            return Err(Error::file(&entry, "a folder, expected images", "a class is one folder of images"));
        }
        let extension = entry.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if !EXTENSIONS.contains(&extension.as_str()) {
            let message = format!("extension {extension:?}, expected one of {}", EXTENSIONS.join(", "));
            return Err(Error::file(&entry, message, "convert it, or move it out of the folder"));
        }
        found.push(entry);
    }
    Ok(found)
}

/// The entries of a folder in the order of their names, without hidden ones.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let error = |error| polyhead_text::Error::io(folder, "read", error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn check(name: &Path, [height, width]: [usize; 2], limits: ImageLimits) -> Result<()> {
    let megapixels = height as f64 * width as f64 / 1e6;
    if height == 0 || width == 0 {
        let message = format!("{width}×{height} pixels, expected at least one");
        return Err(Error::file(name, message, "save the image again"));
    }
    if height.max(width) > MOST_SIDE {
        let message = format!("{width}×{height} pixels, expected sides of at most {MOST_SIDE}");
        return Err(Error::file(name, message, "make the image smaller"));
    }
    if megapixels > limits.max_megapixels {
        let message = format!(
            "{width}×{height} pixels are {megapixels:.1} megapixels, expected at most {}",
            limits.max_megapixels
        );
        return Err(Error::file(name, message, "make the image smaller, or raise --max-megapixels"));
    }
    Ok(())
}

fn damaged(name: &Path, error: impl std::fmt::Display) -> Error {
    let found = error.to_string();
    let message = format!("a damaged image: {}", found.lines().next().unwrap_or_default());
    Error::file(name, message, "save the image again")
}

fn png_decoder(bytes: &[u8]) -> png::Decoder<std::io::Cursor<&[u8]>> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder
}

fn decode_png(bytes: &[u8], name: &Path, limits: ImageLimits) -> Result<Picture> {
    let mut decoder = png_decoder(bytes);
    let header = decoder.read_header_info().map_err(|error| damaged(name, error))?;
    let size = [header.height as usize, header.width as usize];
    check(name, size, limits)?;
    let mut reader = decoder.read_info().map_err(|error| damaged(name, error))?;
    let (colour, _) = reader.output_color_type();
    let length = reader.output_buffer_size().ok_or_else(|| damaged(name, "its size overflows"))?;
    let mut data = vec![0; length];
    reader.next_frame(&mut data).map_err(|error| damaged(name, error))?;
    let (channels, own) = match colour {
        ColorType::Grayscale => (1, 1),
        ColorType::GrayscaleAlpha => (1, 2),
        ColorType::Rgb => (3, 3),
        ColorType::Rgba | ColorType::Indexed => (3, 4),
    };
    if own > channels {
        data = data.chunks_exact(own).flat_map(|pixel| &pixel[..channels]).copied().collect();
    }
    if data.len() != size[0] * size[1] * channels {
        return Err(damaged(name, "not as many pixels as its size says"));
    }
    Ok(Picture::new(size, channels, data))
}

fn jpeg_options() -> DecoderOptions {
    DecoderOptions::default()
        .set_max_width(MOST_SIDE)
        .set_max_height(MOST_SIDE)
        .jpeg_set_max_scans(MOST_SCANS)
}

fn jpeg_decoder(bytes: &[u8]) -> JpegDecoder<ZCursor<&[u8]>> {
    JpegDecoder::new_with_options(ZCursor::new(bytes), jpeg_options())
}

/// Height and width.
fn jpeg_header(decoder: &mut JpegDecoder<ZCursor<&[u8]>>, name: &Path) -> Result<[usize; 2]> {
    decoder.decode_headers().map_err(|error| damaged(name, error))?;
    Ok(decoder.info().map_or([0; 2], |info| [usize::from(info.height), usize::from(info.width)]))
}

fn decode_jpeg(bytes: &[u8], name: &Path, limits: ImageLimits) -> Result<Picture> {
    let mut decoder = jpeg_decoder(bytes);
    let size = jpeg_header(&mut decoder, name)?;
    check(name, size, limits)?;
    let (channels, colours) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma | ColorSpace::LumaA) => (1, ColorSpace::Luma),
        _ => (3, ColorSpace::RGB),
    };
    decoder.set_options(jpeg_options().jpeg_set_out_colorspace(colours));
    let data = decoder.decode().map_err(|error| damaged(name, error))?;
    if data.len() != size[0] * size[1] * channels {
        return Err(damaged(name, "not as many pixels as its size says"));
    }
    let turned = decoder.exif().and_then(|exif| orientation(exif)).unwrap_or(1);
    Ok(Picture::new(size, channels, data).oriented(turned))
}

/// The orientation in the first directory of EXIF data (TIFF 6.0: tag 0x0112, one 16-bit number).
fn orientation(exif: &[u8]) -> Option<u16> {
    let is_little = match exif.get(..4)? {
        [b'I', b'I', 42, 0] => true,
        [b'M', b'M', 0, 42] => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = [*exif.get(at)?, *exif.get(at + 1)?];
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let [high, low] = if is_little { [6, 4] } else { [4, 6] };
    let directory = (usize::from(short(high)?) << 16) + usize::from(short(low)?);
    (0..usize::from(short(directory)?)).find_map(|index| {
        let entry = directory + 2 + 12 * index;
        (short(entry)? == 0x0112).then(|| short(entry + 8)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orientation_is_found_in_either_byte_order() {
        let little = [b'I', b'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0];
        let big = [b'M', b'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0];
        assert_eq!((orientation(&little), orientation(&big)), (Some(6), Some(8)));
        assert_eq!(orientation(&little[..12]), None);
        assert_eq!(orientation(b"II"), None);
    }

    #[test]
    fn a_picture_survives_a_png_and_limits_are_checked_first() {
        let picture = Picture::new([2, 3], 3, (0..18).collect());
        let bytes = picture.to_png();
        let read =
            |megapixels| decode(&bytes, Path::new("a.png"), ImageLimits { max_megapixels: megapixels });
        assert_eq!(read(64.0).unwrap(), picture);
        let error = read(5e-6).unwrap_err().to_string();
        assert!(error.starts_with("a.png: 3×2 pixels are 0.0 megapixels, expected at most"), "{error}");
        // A header that promises more than there is.
        let mut bomb = bytes.clone();
        bomb[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        let error = decode(&bomb, Path::new("b.png"), ImageLimits::default()).unwrap_err().to_string();
        assert!(error.starts_with("b.png: "), "{error}");
        for bytes in [&bytes[..40], b"", b"GIF89a", JPEG, b"\xff\xd8\xff\xe0\x00\x10JFIF"] {
            assert!(decode(bytes, Path::new("c"), ImageLimits::default()).is_err());
        }
    }
}
