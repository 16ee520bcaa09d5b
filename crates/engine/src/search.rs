//! Search among texts by their vectors: an index file, and exact search for the nearest ones.
//!
//! ```text
//! {"format": "polyhead search index", "version": 1, "model": …, "width": …, "texts": …, "bytes": …}   one line of JSON
//! the texts, each with a line break, `bytes` bytes
//! 1 + `texts` vectors of `width` f32 of length 1, little-endian; the first is that of a text known to all models
//! ```

use std::path::Path;

use polyhead_text::output::Output;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::encoder::modules::normalise;
use crate::{Error, Result};

/// The text whose vector tells whether an index was made with a model.
pub const PROBE: &str = "The quick brown fox jumps over the lazy dog.";
/// The cosine below which two vectors of the probe are of different models; quantisation changes them less.
const SAME_MODEL: f32 = 0.95;
/// The value of `format`.
const FORMAT: &str = "polyhead search index";
/// Bytes of the largest index.
const MAX_BYTES: u64 = 64 << 30;

/// Texts with their vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchIndex {
    /// The model folder that made the vectors, as it was named.
    pub model: String,
    width: usize,
    texts: Vec<String>,
    /// The vector of the probe, then those of the texts.
    vectors: Vec<f32>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
    model: String,
    width: usize,
    texts: usize,
    bytes: usize,
}

/// A text that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchHit<'a> {
    /// The number of the text, from 0.
    pub index: usize,
    /// The cosine of the angle between its vector and that of the query.
    pub cosine: f32,
    /// The text.
    pub text: &'a str,
}

impl SearchIndex {
    /// An index without texts; `probe` is the vector of [`PROBE`].
    pub fn new(model: impl Into<String>, mut probe: Vec<f32>) -> Self {
        normalise(&mut probe);
        Self { model: model.into(), width: probe.len(), texts: Vec::new(), vectors: probe }
    }

    /// Adds a text; line breaks in it become spaces.
    ///
    /// # Panics
    /// If the vector has another width than that of the probe.
    pub fn add(&mut self, text: &str, mut vector: Vec<f32>) {
        assert!(vector.len() == self.width, "{} numbers for vectors of {}", vector.len(), self.width);
        normalise(&mut vector);
        self.vectors.extend(vector);
        self.texts.push(text.replace(['\n', '\r'], " "));
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// True if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Width of the vectors.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Checks that a model whose vector of [`PROBE`] is `probe` made the index.
    ///
    /// # Errors
    /// If it did not.
    pub fn check(&self, path: &Path, probe: &[f32]) -> Result<()> {
        let mut probe = probe.to_vec();
        normalise(&mut probe);
        if probe.len() == self.width && dot(&probe, &self.vectors[..self.width]) >= SAME_MODEL {
            return Ok(());
        }
        let message = format!("vectors of {}, expected those of the model given", self.model);
        Err(Error::file(path, message, "search with the model that made the index, or make the index again"))
    }

    /// The `top` texts whose vectors have the largest cosine with `query`; of equal ones the first.
    pub fn search(&self, query: &[f32], top: usize) -> Vec<SearchHit<'_>> {
        let mut query = query.to_vec();
        normalise(&mut query);
        let vectors = self.vectors[self.width..].par_chunks_exact(self.width.max(1));
        let mut hits: Vec<(usize, f32)> = vectors.map(|vector| dot(&query, vector)).enumerate().collect();
        let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if top < hits.len() && top > 0 {
            hits.select_nth_unstable_by(top - 1, order);
        }
        hits.truncate(top);
        hits.sort_by(order);
        hits.into_iter()
            .map(|(index, cosine)| SearchHit { index, cosine, text: &self.texts[index] })
            .collect()
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let header = Header {
            format: FORMAT.into(),
            version: 1,
            model: self.model.clone(),
            width: self.width,
            texts: self.texts.len(),
            bytes: self.texts.iter().map(|text| text.len() + 1).sum(),
        };
        let mut out = Output::create(path)?;
        out.write_line(&serde_json::to_string(&header).expect("a header is always representable"))?;
        self.texts.iter().try_for_each(|text| out.write_line(text))?;
        for vectors in self.vectors.chunks(1 << 14) {
            let bytes: Vec<u8> = vectors.iter().flat_map(|number| number.to_le_bytes()).collect();
            out.write(&bytes)?;
        }
        Ok(out.finish()?)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no index.
    pub fn load(path: &Path) -> Result<Self> {
        let bytes = polyhead_text::whole::read(path, MAX_BYTES)
            .map_err(|error| polyhead_text::Error::io(path, "open", error))?;
        let wrong = |found: String| {
            let message = format!("{found}, expected a search index");
            Error::file(path, message, "polyhead search index makes one")
        };
        let end = bytes.iter().take(1 << 16).position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| wrong("a file without a header".into()))?;
        let header: Header =
            serde_json::from_slice(&bytes[..end]).map_err(|error| wrong(error.to_string()))?;
        let Header { format, version, model, width, texts: count, bytes: size } = header;
        if format != FORMAT || version != 1 {
            return Err(wrong(format!("format {format:?}, version {version}")));
        }
        let rest = &bytes[end + 1..];
        let expected =
            count.checked_add(1).and_then(|rows| rows.checked_mul(width)?.checked_mul(4)?.checked_add(size));
        if expected != Some(rest.len()) || width == 0 {
            return Err(wrong(format!("{} bytes after the header of {count} texts", rest.len())));
        }
        let (texts, vectors) = rest.split_at(size);
        let texts = std::str::from_utf8(texts).map_err(|error| wrong(error.to_string()))?;
        let texts: Vec<String> = texts.split_terminator('\n').map(str::to_owned).collect();
        if texts.len() != count {
            return Err(wrong(format!("{} texts instead of {count}", texts.len())));
        }
        let numbers =
            vectors.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        let vectors: Vec<f32> = numbers.collect();
        if vectors.iter().any(|number| !number.is_finite()) {
            return Err(wrong("NaN or infinite values".into()));
        }
        Ok(Self { model, width, texts, vectors })
    }
}

/// The product of two vectors, in sixteen sums.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (a, b) = (a.chunks(16), b.chunks(16));
    for (a, b) in a.zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> SearchIndex {
        let mut index = SearchIndex::new("a model", vec![3.0, 4.0, 0.0]);
        index.add("north", vec![0.0, 2.0, 0.0]);
        index.add("east\nor so", vec![9.0, 0.0, 0.0]);
        index.add("north again", vec![0.0, 1.0, 0.0]);
        index
    }

    #[test]
    fn the_nearest_are_found_in_order() {
        let found = |top: usize| -> Vec<(usize, f32)> {
            index().search(&[0.0, 5.0, 5.0], top).iter().map(|hit| (hit.index, hit.cosine)).collect()
        };
        let half = 0.5_f32.sqrt();
        assert_eq!(found(9).iter().map(|hit| hit.0).collect::<Vec<_>>(), [0, 2, 1]);
        assert!((found(1)[0].1 - half).abs() < 1e-6 && found(0).is_empty());
        assert_eq!(index().search(&[1.0, 0.0, 0.0], 1)[0].text, "east or so");
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts.index");
        index().save(&path).unwrap();
        assert_eq!(SearchIndex::load(&path).unwrap(), index());
        index().check(&path, &[0.6, 0.81, 0.0]).unwrap();
        let error = index().check(&path, &[0.0, 0.0, 1.0]).unwrap_err();
        assert!(
            error.to_string().contains("vectors of a model, expected those of the model given"),
            "{error}"
        );
        let bytes = std::fs::read(&path).unwrap();
        for (end, expected) in
            [(10, "a file without a header"), (bytes.len() - 1, "bytes after the header of 3 texts")]
        {
            std::fs::write(&path, &bytes[..end]).unwrap();
            let error = SearchIndex::load(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        std::fs::write(&path, b"{\"a\":1}\n").unwrap();
        assert!(SearchIndex::load(&path).unwrap_err().to_string().contains("expected a search index"));
    }
}
