//! The tensors of a file by GGUF's names, and which of them make up a parameter.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use polyhead_tensor::Dtype;

use super::bytes::Mapped;
use crate::checkpoint::safetensors::f16_to_f32;
use crate::{Error, Result};

/// Values of a block of Q8_0, which share a scale.
const Q8_BLOCK: usize = 32;
/// Bytes of such a block: the scale in f16 and the values.
const Q8_BYTES: usize = 2 + Q8_BLOCK;

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    F32,
    F16,
    Bf16,
    Q8,
}

/// Names of the types that are not read.
const OTHERS: &[(u32, &str)] = &[
    (2, "Q4_0"),
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

impl Kind {
    /// The kind of a type of GGUF, or the name of one that is not read.
    pub(super) fn of_gguf(code: u32) -> std::result::Result<Self, String> {
        match code {
            0 => Ok(Self::F32),
            1 => Ok(Self::F16),
            8 => Ok(Self::Q8),
            30 => Ok(Self::Bf16),
            _ => Err(OTHERS
                .iter()
                .find(|(known, _)| *known == code)
                .map_or_else(|| format!("type {code}"), |(_, name)| (*name).to_owned())),
        }
    }

    /// Bytes of a tensor; `None` if that is impossible.
    pub(super) fn bytes(self, shape: &[usize]) -> Option<usize> {
        let count = shape.iter().try_fold(1_usize, |all, size| all.checked_mul(*size))?;
        match self {
            Self::F32 => count.checked_mul(4),
            Self::F16 | Self::Bf16 => count.checked_mul(2),
            Self::Q8 if shape.last().is_some_and(|width| width.is_multiple_of(Q8_BLOCK)) => {
                (count / Q8_BLOCK).checked_mul(Q8_BYTES)
            }
            Self::Q8 => None,
        }
    }

    fn read(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F32 => bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
            Self::F16 => bytes.as_chunks().0.iter().map(|two| f16_to_f32(*two)).collect(),
            Self::Bf16 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|two| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16))
                .collect(),
            Self::Q8 => bytes
                .chunks_exact(Q8_BYTES)
                .flat_map(|block| {
                    let scale = f16_to_f32([block[0], block[1]]);
                    block[2..].iter().map(move |byte| scale * f32::from(byte.cast_signed()))
                })
                .collect(),
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::Bf16,
            Self::Q8 => Dtype::Int8,
        }
    }
}

/// A tensor: its kind, its shape (slowest axis first) and its bytes in the file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Range<usize>,
}

/// All tensors of a file.
pub(super) struct Tensors {
    file: Mapped,
    entries: HashMap<String, Entry>,
    /// Heads of queries and of keys whose rotary pairs are neighbours in the file; `None` if they are halves.
    neighbours: Option<[usize; 2]>,
}

impl Tensors {
    pub(super) fn new(file: Mapped, entries: HashMap<String, Entry>, neighbours: Option<[usize; 2]>) -> Self {
        Self { file, entries, neighbours }
    }

    pub(super) fn file(&self) -> &Mapped {
        &self.file
    }

    /// The values of a tensor.
    pub(super) fn read(&self, name: &str) -> Option<Vec<f32>> {
        let Entry { kind, bytes, .. } = self.entries.get(name)?;
        Some(kind.read(&self.file.bytes()[bytes.clone()]))
    }

    /// The dtypes of the file; Q8_0 counts as int8.
    pub(super) fn dtypes(&self) -> Vec<Dtype> {
        let mut all: Vec<Dtype> = self.entries.values().map(|entry| entry.kind.dtype()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Checks that every tensor belongs to a parameter.
    pub(super) fn check_used<'a>(&self, parameters: impl Iterator<Item = &'a str>) -> Result<()> {
        let mut used: HashSet<String> = parameters.flat_map(|name| Blocks::of(name, self).names).collect();
        // Its values are in the config.
        used.insert(super::gguf_config::ROPE_FREQUENCIES.to_owned());
        let mut unknown: Vec<&String> = self.entries.keys().filter(|name| !used.contains(*name)).collect();
        unknown.sort();
        match unknown.first() {
            None => Ok(()),
            Some(name) => {
                let message = format!("tensor {name:.100} is not part of the model ({} such)", unknown.len());
                Err(Error::file(self.file.path(), message, "this architecture is not supported"))
            }
        }
    }
}

/// The tensors whose rows, one after the other, are those of a parameter.
pub(super) struct Blocks {
    names: Vec<String>,
    /// Heads of each block whose rows are reordered; 0 for none.
    heads: Vec<usize>,
}

impl Blocks {
    /// The blocks of our parameter `name`.
    pub(super) fn of(name: &str, tensors: &Tensors) -> Self {
        let whole = |theirs: &str| Self { names: vec![theirs.to_owned()], heads: vec![0] };
        let ending = |kind: &str| if matches!(kind, "gamma" | "weight") { "weight" } else { "bias" };
        match name.split('.').collect::<Vec<_>>().as_slice() {
            ["embedding", "weight"] => whole("token_embd.weight"),
            ["output", "weight"] => whole("output.weight"),
            ["decoder", "positions", "weight"] => whole("position_embd.weight"),
            ["decoder", "norm", kind] => whole(&format!("output_norm.{}", ending(kind))),
            ["decoder", "layers", layer, rest @ ..] => {
                let Some((kind, place)) = rest.split_last() else { return whole(name) };
                let at = |part: &str| format!("blk.{layer}.{part}.{}", ending(kind));
                match place {
                    ["self_attention_norm"] => whole(&at("attn_norm")),
                    ["feed_forward_norm"] => whole(&at("ffn_norm")),
                    ["self_attention", "output"] => whole(&at("attn_output")),
                    ["feed_forward", "outer"] => whole(&at("ffn_down")),
                    ["feed_forward", "inner"] => {
                        let gate = at("ffn_gate");
                        let mut names = vec![at("ffn_up")];
                        if tensors.entries.contains_key(&gate) {
                            names.insert(0, gate);
                        }
                        Self { heads: vec![0; names.len()], names }
                    }
                    ["self_attention", "query_key_value"] => Self::attention(&at, tensors),
                    _ => whole(name),
                }
            }
            _ => whole(name),
        }
    }

    fn attention(at: &dyn Fn(&str) -> String, tensors: &Tensors) -> Self {
        let stacked = at("attn_qkv");
        if tensors.entries.contains_key(&stacked) {
            return Self { names: vec![stacked], heads: vec![0] };
        }
        let [query, key] = tensors.neighbours.unwrap_or_default();
        Self { names: ["attn_q", "attn_k", "attn_v"].map(at).into(), heads: vec![query, key, 0] }
    }

    /// Checks that the blocks together have `shape`.
    pub(super) fn check(&self, name: &str, shape: &[usize], tensors: &Tensors) -> Result<()> {
        let wrong = |message: String| {
            Err(Error::file(tensors.file.path(), message, "the metadata must describe this model"))
        };
        let mut rows = 0;
        for (theirs, heads) in self.names.iter().zip(&self.heads) {
            let Some(entry) = tensors.entries.get(theirs) else {
                return wrong(format!("tensor {theirs} is missing, for {name} of shape {shape:?}"));
            };
            // A vector may have leading axes of size one.
            let found: &[usize] = &entry.shape;
            let own = found.first().copied().unwrap_or(1);
            if found.len() != shape.len()
                || found[1..] != shape[1..]
                || (*heads > 0 && own % (2 * heads) != 0)
            {
                return wrong(format!("tensor {theirs} is {found:?}, expected rows of {name}, {shape:?}"));
            }
            rows += own;
        }
        if rows != shape.first().copied().unwrap_or(1) {
            return wrong(format!("{} have {rows} rows, expected {shape:?}", self.names.join(", ")));
        }
        Ok(())
    }

    /// The values of all blocks.
    pub(super) fn read(&self, tensors: &Tensors) -> Vec<f32> {
        let mut all = Vec::new();
        for (name, heads) in self.names.iter().zip(&self.heads) {
            let entry = &tensors.entries[name];
            let values = entry.kind.read(&tensors.file.bytes()[entry.bytes.clone()]);
            let rows = entry.shape.first().copied().unwrap_or(1);
            match rows.checked_div(*heads) {
                None => all.extend(values),
                Some(d_head) => all.extend(halves(&values, rows, d_head)),
            }
        }
        all
    }
}

/// Rows of heads whose pairs are neighbours, in the order of halves: row h·half + i of a head was 2i + h.
fn halves(values: &[f32], rows: usize, d_head: usize) -> Vec<f32> {
    let width = values.len() / rows.max(1);
    let half = d_head / 2;
    let from = |row: usize| {
        let (head, at) = (row / d_head, row % d_head);
        head * d_head + 2 * (at % half) + at / half
    };
    (0..rows).flat_map(|row| values[from(row) * width..][..width].iter().copied()).collect()
}
