//! llama2.c's `.bin` (version 0): seven whole numbers, then all values in f32, tensor by tensor and in each layer by layer.

use std::collections::HashMap;

use super::SingleFile;
use super::bytes::{Mapped, Reader};
use super::tensors::{Entry, Kind, Tensors};
use crate::transformer::TransformerLanguageModelConfig;
use crate::transformer::config::StackConfig;
use crate::{Error, Result};

/// Bytes of the head.
const HEAD: usize = 28;
/// Largest size that is believed.
const MAX_SIZE: usize = 1 << 24;

pub(super) fn open(file: Mapped) -> Result<SingleFile> {
    let mut reader = Reader::new(&file);
    let mut numbers = [0_i32; 7];
    for number in &mut numbers {
        *number = reader.u32()?.cast_signed();
    }
    // A negative size of the vocabulary means that the output layer has a table of its own.
    let tie_output = numbers[5] > 0;
    let [d_model, d_ff, n_layers, n_heads, n_key_heads, vocab_size, max_len] =
        numbers.map(|number| number.unsigned_abs() as usize);
    let sizes = [d_model, d_ff, n_layers, n_heads, n_key_heads, vocab_size, max_len];
    let is_sound = sizes.iter().all(|size| (1..=MAX_SIZE).contains(size))
        && d_model.is_multiple_of(2 * n_heads)
        && n_heads.is_multiple_of(n_key_heads)
        && numbers[..5].iter().all(|number| *number > 0);
    if !is_sound {
        let message = format!("neither GGUF nor a model of llama2.c: it begins with {numbers:?}");
        return Err(Error::file(file.path(), message, "name a .gguf file, a .bin of llama2.c, or a folder"));
    }
    let d_keys = d_model / n_heads * n_key_heads;
    let mut places = Places { entries: HashMap::new(), at: HEAD, end: file.bytes().len() };
    let mut fits = places.add("token_embd.weight".into(), vec![vocab_size, d_model]);
    for (part, shape) in layer_shapes(d_model, d_keys, d_ff) {
        for layer in 0..n_layers {
            fits = fits && places.add(format!("blk.{layer}.{part}.weight"), shape.clone());
        }
    }
    fits = fits && places.add("output_norm.weight".into(), vec![d_model]);
    // Tables of rotations, which are computed here: max_len × d_head / 2 cosines, then as many sines.
    fits = fits && places.skip(max_len * (d_model / n_heads));
    if !tie_output {
        fits = fits && places.add("output.weight".into(), vec![vocab_size, d_model]);
    }
    if !fits || places.at != places.end {
        let message =
            format!("{} bytes, which is not the size of a model of llama2.c with {numbers:?}", places.end);
        return Err(file.wrong(message));
    }
    let entries = places.entries;
    let config = TransformerLanguageModelConfig {
        vocab_size,
        d_model,
        decoder: StackConfig {
            n_key_heads: Some(n_key_heads).filter(|heads| *heads != n_heads),
            ..StackConfig::new(n_layers, n_heads, d_ff)
        },
        tie_output,
        max_len,
        // The ids of sentencepiece.
        pad_id: 2.min(vocab_size as u32 - 1),
        end_id: 2.min(vocab_size as u32 - 1),
        start_id: 1.min(vocab_size as u32 - 1),
        ..TransformerLanguageModelConfig::llama()
    };
    let tensors = Tensors::new(file, entries, Some([n_heads, n_key_heads]));
    Ok(SingleFile { config, tensors, tokenizer: None })
}

/// The tensors of a layer in the order of the file, and their shapes.
fn layer_shapes(d_model: usize, d_keys: usize, d_ff: usize) -> [(&'static str, Vec<usize>); 9] {
    [
        ("attn_norm", vec![d_model]),
        ("attn_q", vec![d_model, d_model]),
        ("attn_k", vec![d_keys, d_model]),
        ("attn_v", vec![d_keys, d_model]),
        ("attn_output", vec![d_model, d_model]),
        ("ffn_norm", vec![d_model]),
        ("ffn_gate", vec![d_ff, d_model]),
        ("ffn_down", vec![d_model, d_ff]),
        ("ffn_up", vec![d_ff, d_model]),
    ]
}

/// The places of tensors that follow each other.
struct Places {
    entries: HashMap<String, Entry>,
    at: usize,
    end: usize,
}

impl Places {
    /// False if the file ends before the tensor does.
    fn add(&mut self, name: String, shape: Vec<usize>) -> bool {
        let first = self.at;
        let Some(count) = shape.iter().try_fold(1_usize, |all, size| all.checked_mul(*size)) else {
            return false;
        };
        if !self.skip(count) {
            return false;
        }
        self.entries.insert(name, Entry { kind: Kind::F32, shape, bytes: first..self.at });
        true
    }

    fn skip(&mut self, count: usize) -> bool {
        let end =
            count.checked_mul(4).and_then(|bytes| self.at.checked_add(bytes)).filter(|end| *end <= self.end);
        self.at = end.unwrap_or(self.at);
        end.is_some()
    }
}
