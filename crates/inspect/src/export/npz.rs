//! NumPy's `.npz`: an uncompressed ZIP archive of `.npy` files (NumPy Enhancement Proposal 1).
//!
//! ```python
//! arrays = numpy.load("trace.npz")
//! arrays["cross"]            # layers × heads × target × source, float32
//! arrays["source_tokens"]    # texts
//! arrays["hidden_states"]    # of an encoder: embedding and layers × tokens × d_model
//! arrays["cross_layers"]     # indices of the layers; cross_heads: of the heads
//! ```

use polyhead_attention::Filter;

use super::arrays;
use crate::trace::Trace;

/// The bytes of a `.npz` file with the weights that pass `filter`.
pub fn npz(trace: &Trace, filter: &Filter) -> Vec<u8> {
    let mut archive = ZipArchive::default();
    for weights in arrays::weights(trace, filter) {
        archive.add(weights.name, &npy("<f4", &weights.shape, &weights.bytes()));
        for (what, numbers) in [("layers", &weights.layers), ("heads", &weights.heads)] {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| (*number as u64).to_le_bytes()).collect();
            archive.add(&format!("{}_{what}", weights.name), &npy("<i8", &[numbers.len()], &bytes));
        }
    }
    for (name, texts) in arrays::tokens(trace) {
        archive.add(&name, &texts_npy(&texts));
    }
    if let Some(states) = trace.encoder().and_then(|found| found.states.as_ref()) {
        let (shape, numbers) = arrays::hidden_states(states);
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        archive.add("hidden_states", &npy("<f4", &shape, &bytes));
    }
    if let Some(translation) = trace.translation() {
        let steps = &translation.steps;
        let probabilities: Vec<u8> =
            steps.iter().flat_map(|step| step.log_probability.to_le_bytes()).collect();
        archive.add("log_probabilities", &npy("<f4", &[steps.len()], &probabilities));
    }
    archive.finish()
}

/// An array in `.npy` format: magic, version, header padded to 64 bytes, data.
fn npy(dtype: &str, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let mut header =
        format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({}), }}", sizes.trim_end());
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a header is short").to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), bytes].concat()
}

/// Texts as UTF-32 of the longest, zero-padded.
fn texts_npy(texts: &[String]) -> Vec<u8> {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let point = |text: &str, index: usize| text.chars().nth(index).map_or(0, |found| found as u32);
    let bytes: Vec<u8> = texts
        .iter()
        .flat_map(|text| (0..width).flat_map(move |index| point(text, index).to_le_bytes()))
        .collect();
    npy(&format!("<U{width}"), &[texts.len()], &bytes)
}

/// A ZIP archive of stored files.
#[derive(Debug, Default)]
struct ZipArchive {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl ZipArchive {
    fn add(&mut self, name: &str, content: &[u8]) {
        let name = format!("{name}.npy");
        let size = (content.len() as u32).to_le_bytes();
        let name_length = (name.len() as u16).to_le_bytes();
        // Version 2.0, no flags, stored; the earliest date.
        let common = [
            &[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0][..],
            &crc32fast::hash(content).to_le_bytes(),
            &size,
            &size,
            &name_length,
            &[0, 0],
        ]
        .concat();
        let start = (self.bytes.len() as u32).to_le_bytes();
        self.bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), content].concat());
        let entry = [b"PK\x01\x02", &[20, 0][..], &common, &[0; 10], &start, name.as_bytes()];
        self.directory.extend(entry.concat());
        self.count += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let count = self.count.to_le_bytes();
        let [size, start] =
            [self.directory.len(), self.bytes.len()].map(|number| (number as u32).to_le_bytes());
        self.bytes.extend(&self.directory);
        self.bytes.extend([b"PK\x05\x06", &[0; 4][..], &count, &count, &size, &start, &[0, 0]].concat());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0xcbf43926 is the check value of CRC-32 in the CRC catalogue.
    #[test]
    fn entries_have_the_checksum_of_the_standard() {
        let mut archive = ZipArchive::default();
        archive.add("x", b"123456789");
        assert_eq!(archive.bytes[14..18], 0xcbf4_3926_u32.to_le_bytes());
    }

    #[test]
    fn headers_are_padded_to_64_bytes() {
        let file = npy("<f4", &[2, 3], &[0; 24]);
        assert!(file.starts_with(b"\x93NUMPY\x01\x00"));
        let header = usize::from(u16::from_le_bytes([file[8], file[9]]));
        assert_eq!(((10 + header) % 64, file.len()), (0, 10 + header + 24));
        assert!(
            String::from_utf8_lossy(&file[10..])
                .starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3,), }")
        );
    }
}
