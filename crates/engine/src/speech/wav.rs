//! WAV files: a RIFF header, a format and samples, which become numbers from −1 to 1 of one channel.
//!
//! Sounds of the formats PCM (8, 16, 24 and 32 bits) and floating point (32 and 64 bits) are read. What is done to a sound, such as
//! mixing its channels, is said in a note.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Error, Result};

const MOST_CHANNELS: usize = 64;
/// Bytes in which the samples begin.
const MOST_BEFORE_SAMPLES: u64 = 16 << 20;
/// Lowest and highest number of samples per second.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;

/// A sound of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    /// The samples, from −1 to 1.
    pub samples: Vec<f32>,
    /// Samples per second.
    pub rate: u32,
    /// What was done to the sound, or is missing.
    pub notes: Vec<String>,
}

impl Sound {
    /// The duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(self.rate)
    }
}

/// The format of the samples.
#[derive(Debug, Clone, Copy)]
struct Format {
    is_float: bool,
    bits: u16,
    channels: usize,
    rate: u32,
}

impl Format {
    fn bytes_of_frame(self) -> usize {
        self.channels * usize::from(self.bits / 8)
    }
}

/// Reads a WAV file of at most `most_seconds` seconds; of a longer one the header.
///
/// # Errors
/// If it cannot be read, is no WAV file of a known format, is empty or too long.
pub fn read(path: &Path, most_seconds: f64) -> Result<Sound> {
    let file = File::open(path).map_err(|error| polyhead_text::Error::io(path, "open", error))?;
    read_from(file, &path.display().to_string(), most_seconds)
}

/// As [`read`], from any reader, which may have no end; `name` is its name in messages.
///
/// # Errors
/// As [`read`].
pub fn read_from(mut from: impl Read, name: &str, most_seconds: f64) -> Result<Sound> {
    let mut bytes = Vec::new();
    let mut read = |bytes: &mut Vec<u8>, count: u64| {
        let found = from.by_ref().take(count).read_to_end(bytes);
        found.map_err(|error| polyhead_text::Error::io(Path::new(name), "read", error))
    };
    read(&mut bytes, MOST_BEFORE_SAMPLES)?;
    // What is wrong with a header, decoding says below.
    if let Ok(header) = Header::find(&bytes, name) {
        // One second more than is allowed, so that a sound of unknown size is refused.
        let allowed = (most_seconds.max(0.0) + 1.0) * f64::from(header.format.rate);
        let allowed = (allowed as usize).saturating_mul(header.format.bytes_of_frame());
        if header.size.is_none_or(|size| size <= allowed) {
            let end = header.start.saturating_add(header.size.unwrap_or(allowed));
            let more = end.saturating_sub(bytes.len()) as u64;
            read(&mut bytes, more)?;
        }
    }
    decode(&bytes, name, most_seconds)
}

/// The sound in the bytes of a WAV file; `name` is its name in messages.
///
/// # Errors
/// If it is no WAV file of a known format, is empty or too long.
pub fn decode(bytes: &[u8], name: &str, most_seconds: f64) -> Result<Sound> {
    let Header { format, start, size } = Header::find(bytes, name)?;
    let after = &bytes[start..];
    let samples = &after[..size.unwrap_or(after.len()).min(after.len())];
    let missing = size.map_or(0, |size| size - samples.len());
    samples_of(samples, format, (name, missing, most_seconds))
}

/// The size of a sound, as its header and the bytes after it say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoundSize {
    /// Samples of each channel that are there.
    pub samples: usize,
    /// Samples per second.
    pub rate: u32,
    /// Seconds that the header announces, at least those that are there.
    pub seconds: f64,
}

/// The size of the sound in the bytes of a WAV file, before anything is decoded; `name` is its name in messages.
///
/// # Errors
/// If it is no WAV file of a known format.
pub fn measure(bytes: &[u8], name: &str) -> Result<SoundSize> {
    let Header { format, start, size } = Header::find(bytes, name)?;
    let found = bytes.len() - start;
    let frames = |bytes: usize| bytes / format.bytes_of_frame();
    let samples = frames(size.map_or(found, |size| size.min(found)));
    let seconds = frames(size.unwrap_or(found)) as f64 / f64::from(format.rate);
    Ok(SoundSize { samples, rate: format.rate, seconds })
}

/// What stands before the samples.
struct Header {
    format: Format,
    /// Place of the first sample.
    start: usize,
    /// Bytes of all samples; `None` if the file ends with them.
    size: Option<usize>,
}

impl Header {
    /// The header at the beginning of `bytes`, up to the samples.
    fn find(bytes: &[u8], name: &str) -> Result<Self> {
        check_riff(bytes, name)?;
        let (mut format, mut at) = (None, 12_usize);
        while let Some((header, after)) = bytes.get(at..).and_then(<[u8]>::split_first_chunk::<8>) {
            let (kind, size) = header.split_at(4);
            let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
            match kind {
                b"fmt " => format = Some(read_format(&after[..size.min(after.len())], name)?),
                b"data" => {
                    let Some(format) = format else {
                        let message = "samples before their format, expected a chunk \"fmt \" first";
                        return Err(Error::at(name, message, HINT));
                    };
                    // Programs that write to a pipe do not know the size, and write 0 or the largest number.
                    let is_open = size == 0 || size >= 0xffff_ff00;
                    return Ok(Self { format, start: at + 8, size: (!is_open).then_some(size) });
                }
                _ => {}
            }
            // Chunks have even sizes.
            at = at.saturating_add(8).saturating_add(size).saturating_add(size % 2);
        }
        let message = if format.is_some() {
            "no samples: there is no chunk \"data\""
        } else {
            "no format and no samples"
        };
        Err(Error::at(name, message, HINT))
    }
}

/// The tag of a format whose own tag follows later.
const EXTENSIBLE: u16 = 0xfffe;
/// The hint of errors about files of other formats.
const HINT: &str = "convert it: ffmpeg -i FILE -ar 16000 -ac 1 FILE.wav";

fn check_riff(bytes: &[u8], name: &str) -> Result<()> {
    if bytes.get(..4) == Some(b"RIFF") && bytes.get(8..12) == Some(b"WAVE") {
        return Ok(());
    }
    let found = match bytes {
        [] => "an empty file",
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => "an MP3 file",
        [b'f', b'L', b'a', b'C', ..] => "a FLAC file",
        [b'O', b'g', b'g', b'S', ..] => "an Ogg file",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "an MP4 file",
        [b'R', b'F', b'6', b'4', ..] => "an RF64 file",
        _ => "another kind of file",
    };
    let message = format!("{found}, expected WAV: PCM of 8, 16, 24 or 32 bits, or floating point");
    Err(Error::at(name, message, HINT))
}

fn read_format(chunk: &[u8], name: &str) -> Result<Format> {
    let u16_at = |at: usize| chunk.get(at..at + 2).map(|two| u16::from_le_bytes([two[0], two[1]]));
    let rate = chunk.get(4..8).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    let (Some(mut tag), Some(channels), Some(rate), Some(bits)) = (u16_at(0), u16_at(2), rate, u16_at(14))
    else {
        let message = format!("a format of {} bytes, expected at least 16", chunk.len());
        return Err(Error::at(name, message, HINT));
    };
    if tag == EXTENSIBLE {
        tag = u16_at(24).unwrap_or(EXTENSIBLE);
    }
    let is_float = match (tag, bits) {
        (1, 8 | 16 | 24 | 32) => false,
        (3, 32 | 64) => true,
        _ => {
            let message = format!(
                "format {tag} with {bits} bits, expected PCM of 8, 16, 24 or 32 bits, or floating point"
            );
            return Err(Error::at(name, message, HINT));
        }
    };
    let channels = usize::from(channels);
    if channels == 0 || channels > MOST_CHANNELS {
        return Err(Error::at(name, format!("{channels} channels, expected 1 to {MOST_CHANNELS}"), HINT));
    }
    if !RATES.contains(&rate) {
        let message = format!("{rate} samples per second, expected {} to {}", RATES.start(), RATES.end());
        return Err(Error::at(name, message, HINT));
    }
    Ok(Format { is_float, bits, channels, rate })
}

fn samples_of(
    bytes: &[u8],
    format: Format,
    (name, missing, most_seconds): (&str, usize, f64),
) -> Result<Sound> {
    let Format { channels, rate, .. } = format;
    let frames = bytes.len() / format.bytes_of_frame();
    let seconds = |frames: usize| frames as f64 / f64::from(rate);
    let announced = seconds((bytes.len() + missing) / format.bytes_of_frame());
    if announced > most_seconds {
        let message = format!("{announced:.0} s of sound, expected at most {most_seconds:.0} s");
        return Err(Error::at(name, message, "raise the limit with --max-seconds, or cut the file"));
    }
    if frames == 0 {
        return Err(Error::at(name, "an empty sound, expected at least one sample", "record it again"));
    }
    let mut notes = Vec::new();
    if missing > 0 {
        let (found, all) = (seconds(frames), announced);
        notes.push(format!("{name}: {found:.2} s of {all:.2} s: the rest of the file is missing"));
    }
    if channels > 1 {
        notes.push(format!("{name}: {channels} channels, mixed to one"));
    }
    let width = usize::from(format.bits / 8);
    let mix = |frame: &[u8]| -> f32 {
        let sum: f64 = frame.chunks_exact(width).map(|sample| number(sample, format.is_float)).sum();
        (sum / channels as f64) as f32
    };
    let samples: Vec<f32> = bytes.chunks_exact(format.bytes_of_frame()).map(mix).collect();
    if let Some(at) = samples.iter().position(|sample| !sample.is_finite()) {
        let message = format!("sample {at} is NaN or infinite, expected numbers from -1 to 1");
        return Err(Error::at(name, message, "write the file again"));
    }
    Ok(Sound { samples, rate, notes })
}

/// A sample as a number from −1 to 1.
fn number(sample: &[u8], is_float: bool) -> f64 {
    match (sample, is_float) {
        (&[a], _) => (f64::from(a) - 128.0) / 128.0,
        (&[a, b], _) => f64::from(i16::from_le_bytes([a, b])) / 32_768.0,
        (&[a, b, c], _) => f64::from(i32::from_le_bytes([0, a, b, c]) >> 8) / 8_388_608.0,
        (&[a, b, c, d], true) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (&[a, b, c, d], false) => f64::from(i32::from_le_bytes([a, b, c, d])) / 2_147_483_648.0,
        (&[a, b, c, d, e, f, g, h], _) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => unreachable!("the format was checked"),
    }
}

/// The bytes of a WAV file of one channel, PCM of 16 bits.
pub fn encode(samples: &[f32], rate: u32) -> Vec<u8> {
    let size = 2 * samples.len() as u32;
    let mut bytes = Vec::with_capacity(44 + 2 * samples.len());
    bytes.extend(b"RIFF");
    bytes.extend((36 + size).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16_u32.to_le_bytes());
    bytes.extend([1_u16, 1].map(u16::to_le_bytes).concat());
    bytes.extend([rate, 2 * rate].map(u32::to_le_bytes).concat());
    bytes.extend([2_u16, 16].map(u16::to_le_bytes).concat());
    bytes.extend(b"data");
    bytes.extend(size.to_le_bytes());
    bytes.extend(samples.iter().flat_map(|sample| {
        ((sample.clamp(-1.0, 1.0) * 32_768.0).round().min(32_767.0) as i16).to_le_bytes()
    }));
    bytes
}
