//! fastText's `.bin`, version 12: arguments, dictionary, input matrix (words, then buckets of n-grams), output matrix.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use polyhead_text::output::Output;

use super::super::word_vectors::Subwords;
use super::super::{SubwordOptions, TrainOptions, Vocabulary, WordVectors};
use crate::{Error, Result};

const MAGIC: i32 = 793_712_314;
const VERSION: i32 = 12;
/// Numbers of fastText for its losses and models.
const NEGATIVE_SAMPLING: i32 = 2;
const SKIP_GRAM: i32 = 2;
const SUPERVISED: i32 = 3;

/// True if the file begins as fastText's do.
pub(super) fn is_fasttext(path: &Path) -> Result<bool> {
    if path == Path::new("-") {
        return Ok(false);
    }
    let mut file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
    let mut start = [0; 4];
    Ok(file.read_exact(&mut start).is_ok() && i32::from_le_bytes(start) == MAGIC)
}

/// A reader that says which file is damaged.
struct Reader<'a> {
    file: BufReader<File>,
    path: &'a Path,
    size: u64,
}

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|_| self.cut_short())?;
        Ok(bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.bytes()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.bytes()?))
    }

    fn cut_short(&self) -> Error {
        Error::file(
            self.path,
            "ends too early for a fastText model",
            "the file may be cut short: copy it again",
        )
    }

    fn refuse(&self, message: &str, hint: &str) -> Error {
        Error::file(self.path, message, hint)
    }

    /// A word, up to its NUL.
    fn word(&mut self) -> Result<String> {
        let mut word = Vec::new();
        self.file.read_until(0, &mut word).map_err(|_| self.cut_short())?;
        if word.pop() != Some(0) {
            return Err(self.cut_short());
        }
        Ok(String::from_utf8_lossy(&word).into_owned())
    }

    /// A matrix of f32 with `width` columns; the rows are checked by the caller.
    fn matrix(&mut self, width: usize) -> Result<Vec<f32>> {
        if self.bytes::<1>()?[0] != 0 {
            return Err(self.refuse(
                "a quantised fastText model (.ftz), whose matrices are compressed",
                "use the .bin that it was quantised from",
            ));
        }
        let (rows, columns) = (self.i64()?, self.i64()?);
        let n = rows.checked_mul(columns).filter(|&n| n >= 0 && (n as u64) <= self.size / 4);
        let Some(n) = n.filter(|_| columns == width as i64) else {
            return Err(self.refuse(
                &format!("a matrix of {rows} × {columns} numbers, expected {width} columns within the file"),
                "the file may be damaged: copy it again",
            ));
        };
        let mut numbers = vec![0.0_f32; n as usize];
        let mut bytes = vec![0; 4 << 16];
        for part in numbers.chunks_mut(1 << 16) {
            let bytes = &mut bytes[..part.len() * 4];
            self.file.read_exact(bytes).map_err(|_| self.cut_short())?;
            for (number, bytes) in part.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *number = f32::from_le_bytes(*bytes);
            }
        }
        Ok(numbers)
    }
}

/// Reads a model; quantised ones are refused.
pub(super) fn read(path: &Path) -> Result<WordVectors> {
    let file = File::open(path).map_err(|error| Error::io(path, "open", error))?;
    let size = file.metadata().map_err(|error| Error::io(path, "read", error))?.len();
    let mut reader = Reader { file: BufReader::with_capacity(1 << 18, file), path, size };
    let (_, version) = (reader.i32()?, reader.i32()?);
    if version != VERSION {
        return Err(reader.refuse(
            &format!("version {version} of fastText's format, expected {VERSION}"),
            "train the model again with fastText 0.2 or newer",
        ));
    }
    // Dimensions, window, epochs, least count, negatives, word n-grams, loss, model, buckets, shortest and longest n-gram,
    // interval of learning rates.
    let mut arguments = [0; 12];
    for argument in &mut arguments {
        *argument = reader.i32()?;
    }
    reader.bytes::<8>()?;
    let [dimensions, .., model, buckets, min_n, max_n, _] = arguments;
    if dimensions <= 0 || buckets < 0 || min_n < 0 || max_n < 0 {
        return Err(reader.refuse("negative sizes", "the file may be damaged: copy it again"));
    }
    let entries = dictionary(&mut reader, model == SUPERVISED)?;
    let dimensions = dimensions as usize;
    let mut words = reader.matrix(dimensions)?;
    let outputs = reader.matrix(dimensions)?;
    let n_words = entries.len();
    if words.len() < n_words * dimensions || words.len() > (n_words + buckets as usize) * dimensions {
        return Err(reader.refuse(
            &format!("{} rows for {n_words} words and {buckets} buckets", words.len() / dimensions),
            "the file may be damaged: copy it again",
        ));
    }
    let vocabulary = Vocabulary::new(entries);
    let bucket_rows = words.split_off(n_words * dimensions);
    if max_n == 0 || bucket_rows.is_empty() {
        return Ok(WordVectors::new(vocabulary, dimensions, words));
    }
    let options = SubwordOptions {
        min_n: (min_n as usize).max(1),
        max_n: max_n as usize,
        buckets: bucket_rows.len() / dimensions,
    };
    Ok(WordVectors::with_subwords(
        vocabulary,
        dimensions,
        Subwords { options, words, buckets: bucket_rows, outputs },
    ))
}

/// Words and their counts; labels of a classifier have no vectors.
fn dictionary(reader: &mut Reader, is_supervised: bool) -> Result<Vec<(String, u64)>> {
    let (size, n_words, _labels) = (reader.i32()?, reader.i32()?, reader.i32()?);
    let (_tokens, pruned) = (reader.i64()?, reader.i64()?);
    if pruned > 0 {
        return Err(reader.refuse("a pruned fastText model", "use the .bin that it was pruned from"));
    }
    let mut entries = Vec::new();
    for _ in 0..size {
        let word = reader.word()?;
        let count = reader.i64()?;
        let [kind] = reader.bytes()?;
        if kind == 0 {
            entries.push((word, count.max(0) as u64));
        }
    }
    if entries.is_empty() || entries.len() != n_words as usize && !is_supervised {
        return Err(reader.refuse(
            &format!("{} words, expected {n_words}", entries.len()),
            "the file may be damaged: copy it again",
        ));
    }
    Ok(entries)
}

/// Writes a model that fastText reads.
pub(super) fn write(vectors: &WordVectors, output: &mut Output, options: &TrainOptions) -> Result<()> {
    let Some(Subwords { options: grams, words, buckets, outputs }) = vectors.subwords() else {
        return Err(Error::request(
            "vectors without character n-grams, expected some for the format fasttext",
            "use the format word2vec, or train with --subwords",
        ));
    };
    let dimensions = vectors.dimensions();
    let n_words = vectors.len();
    let mut head = Vec::new();
    let arguments = [
        dimensions as i32,
        options.window as i32,
        options.epochs as i32,
        1,
        5,
        1,
        NEGATIVE_SAMPLING,
        SKIP_GRAM,
        grams.buckets as i32,
        grams.min_n as i32,
        grams.max_n as i32,
        100,
    ];
    for number in [MAGIC, VERSION].into_iter().chain(arguments) {
        head.extend(number.to_le_bytes());
    }
    head.extend(options.sample.to_le_bytes());
    for number in [n_words as i32, n_words as i32, 0] {
        head.extend(number.to_le_bytes());
    }
    let counts = vectors.vocabulary().counts();
    let n_tokens: u64 = counts.iter().sum();
    head.extend(n_tokens.to_le_bytes());
    head.extend((-1_i64).to_le_bytes());
    for (word, count) in vectors.vocabulary().words().iter().zip(counts) {
        head.extend(word.as_bytes());
        head.push(0);
        head.extend(count.to_le_bytes());
        head.push(0);
    }
    output.write(&head)?;
    for parts in [&[words, buckets][..], &[outputs]] {
        let n: usize = parts.iter().map(|part| part.len()).sum();
        output.write(&[0])?;
        output.write(&((n / dimensions) as i64).to_le_bytes())?;
        output.write(&(dimensions as i64).to_le_bytes())?;
        for chunk in parts.iter().flat_map(|part| part.chunks(1 << 14)) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|number| number.to_le_bytes()).collect();
            output.write(&bytes)?;
        }
    }
    Ok(())
}
