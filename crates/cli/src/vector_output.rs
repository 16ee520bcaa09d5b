//! Vectors as text, JSON lines, a NumPy array or a safetensors file.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use polyhead_text::output::Output;
use serde_json::{Value, json};

use crate::choices::Choices;
use crate::report::{Misuse, writing_lines};

/// The format of vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VectorFormat {
    /// Numbers separated by tabs
    Text,
    /// One JSON object per line
    Jsonl,
    /// A NumPy array, texts × numbers, f32
    Npy,
    /// A safetensors file with the array `vectors`
    Safetensors,
}

impl VectorFormat {
    /// Parser of `--format`.
    pub(crate) const PARSER: Choices<Self> =
        Choices::new(&[Self::Text, Self::Jsonl, Self::Npy, Self::Safetensors]).answering(&[(
            "json",
            "jsonl",
            crate::output_format::JSONL_REASON,
        )]);

    fn is_binary(self) -> bool {
        matches!(self, Self::Npy | Self::Safetensors)
    }
}

/// Bytes of the header of an array, whose size is known only at the end.
const HEADER: usize = 256;

/// Writes vectors as they come.
pub(crate) struct VectorOutput {
    format: VectorFormat,
    path: Option<PathBuf>,
    out: Option<Output>,
    rows: usize,
    width: usize,
}

impl VectorOutput {
    /// Output to a file, or to standard output.
    pub(crate) fn new(format: VectorFormat, path: Option<&Path>) -> Result<Self> {
        if format.is_binary() && path.is_none() {
            let name = if format == VectorFormat::Npy { "npy" } else { "safetensors" };
            return Err(Misuse {
                message: format!("--format {name} without --out, expected a file to write"),
                hint: format!("add --out vectors.{name}"),
            }
            .into());
        }
        let out = match path {
            Some(path) if format.is_binary() => {
                let mut out = Output::create_partial(path)?;
                out.write(&[b' '; HEADER])?;
                Some(out)
            }
            Some(path) => Some(Output::create(path)?),
            None => None,
        };
        Ok(Self { format, path: path.map(Path::to_owned), out, rows: 0, width: 0 })
    }

    /// True if lines of JSON are written.
    pub(crate) fn is_jsonl(&self) -> bool {
        self.format == VectorFormat::Jsonl
    }

    /// Writes the vector of a text.
    pub(crate) fn vector(&mut self, text: &str, vector: &[f32]) -> Result<()> {
        (self.rows, self.width) = (self.rows + 1, vector.len());
        match self.format {
            VectorFormat::Text => self.line(&numbers(vector)),
            VectorFormat::Jsonl => self.line(&json!({ "text": text, "vector": vector }).to_string()),
            VectorFormat::Npy | VectorFormat::Safetensors => {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                Ok(self.out.as_mut().expect("checked when it was made").write(&bytes)?)
            }
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        match &mut self.out {
            Some(out) => Ok(out.write_line(line)?),
            None => writing_lines(|| Ok(writeln!(std::io::stdout().lock(), "{line}")?)),
        }
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<()> {
        let Some(mut out) = self.out.take() else { return Ok(()) };
        if self.format.is_binary() {
            out.flush()?;
            let written = out.partial_path().map(Path::to_owned).or(self.path.clone()).expect("a file");
            let failed = |error| polyhead_text::Error::io(&written, "write", error);
            let mut file = OpenOptions::new().write(true).open(&written).map_err(failed)?;
            file.seek(SeekFrom::Start(0)).map_err(failed)?;
            file.write_all(&self.header()).map_err(failed)?;
        }
        Ok(out.finish()?)
    }

    /// The header of an array of all rows.
    fn header(&self) -> Vec<u8> {
        let Self { rows, width, .. } = self;
        let (mut start, text, end) = if self.format == VectorFormat::Npy {
            let length = (HEADER - 10) as u16;
            let start = [&b"\x93NUMPY\x01\x00"[..], &length.to_le_bytes()].concat();
            (
                start,
                format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"),
                b"\n",
            )
        } else {
            let start = ((HEADER - 8) as u64).to_le_bytes().to_vec();
            let array: Value =
                json!({ "dtype": "F32", "shape": [rows, width], "data_offsets": [0, rows * width * 4] });
            (start, json!({ "vectors": array }).to_string(), b" ")
        };
        start.extend(text.as_bytes());
        start.resize(HEADER - 1, b' ');
        start.extend(end);
        start
    }
}

/// Numbers separated by tabs.
pub(crate) fn numbers(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(ToString::to_string).collect();
    numbers.join("\t")
}
