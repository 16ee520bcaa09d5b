//! The metadata of a GGUF file as a config, for the architectures `llama` (also Mistral), `qwen2` and `gpt2`.

use std::collections::HashMap;

use polyhead_tensor::ops::linear::Activation;

use super::SingleFile;
use super::bytes::Mapped;
use super::gguf::{Header, Meta, header};
use super::tensors::{Entry, Tensors};
use crate::transformer::TransformerLanguageModelConfig;
use crate::transformer::config::{
    AttentionPattern, Dropout, PositionConfig, RotaryPairing, RotaryScale, StackConfig,
};
use crate::transformer::language_model::{Biases, Normalisation};
use crate::{Error, Result};

/// Divisors of the angles of each pair, of Llama 3.
pub(super) const ROPE_FREQUENCIES: &str = "rope_freqs.weight";
const ARCHITECTURES: [&str; 3] = ["llama", "qwen2", "gpt2"];

/// The tokeniser inside a GGUF file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GgufTokenizer {
    /// Its kind: `llama` (sentencepiece) or `gpt2` (byte-level BPE).
    pub model: String,
    /// The name of its rule for splitting words, such as `llama-bpe`; empty if there is none.
    pub splitting: String,
    /// The tokens by id.
    pub tokens: Vec<String>,
    /// Scores of the tokens, of sentencepiece.
    pub scores: Vec<f32>,
    /// Kinds of the tokens: 1 normal, 2 unknown, 3 control, 4 user-defined, 6 byte.
    pub kinds: Vec<u32>,
    /// Merges, of BPE: two tokens with a space between.
    pub merges: Vec<String>,
    /// The start token.
    pub start: Option<u32>,
    /// True if the tokeniser puts the start token in front of a text.
    pub adds_start: bool,
}

/// Typed access to the metadata.
struct Metadata<'a> {
    file: &'a Mapped,
    map: &'a HashMap<String, Meta>,
    architecture: &'a str,
}

impl Metadata<'_> {
    fn wrong(&self, message: String) -> Error {
        Error::file(self.file.path(), message, "the metadata of this file does not describe a known model")
    }

    /// The value of a key of the architecture.
    fn own(&self, key: &str) -> (String, Option<&Meta>) {
        let key = format!("{}.{key}", self.architecture);
        let found = self.map.get(&key);
        (key, found)
    }

    fn size(&self, key: &str) -> Result<Option<usize>> {
        match self.own(key) {
            (_, None) => Ok(None),
            (_, Some(Meta::Whole(size))) if usize::try_from(*size).is_ok() => Ok(usize::try_from(*size).ok()),
            // Some files have a list with a value for each layer.
            (key, Some(Meta::List(list))) => match list.first() {
                Some(Meta::Whole(size)) if list.iter().all(|other| other == &list[0]) => {
                    Ok(usize::try_from(*size).ok())
                }
                _ => Err(self.wrong(format!("{key} differs between layers, expected one size"))),
            },
            (key, Some(other)) => Err(self.wrong(format!("{key} is {other:?}, expected a size"))),
        }
    }

    fn required(&self, key: &str) -> Result<usize> {
        let missing = || self.wrong(format!("no {}.{key} in the metadata", self.architecture));
        self.size(key)?.ok_or_else(missing)
    }

    fn number(&self, key: &str) -> Result<Option<f32>> {
        match self.own(key) {
            (_, None) => Ok(None),
            (_, Some(Meta::Number(number))) => Ok(Some(*number as f32)),
            (_, Some(Meta::Whole(number))) => Ok(Some(*number as f32)),
            (key, Some(other)) => Err(self.wrong(format!("{key} is {other:?}, expected a number"))),
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.map.get(key) {
            Some(Meta::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn id(&self, key: &str, vocab_size: usize) -> Option<u32> {
        match self.map.get(key) {
            Some(Meta::Whole(id)) => u32::try_from(*id).ok().filter(|id| (*id as usize) < vocab_size),
            _ => None,
        }
    }
}

pub(super) fn open(file: Mapped) -> Result<SingleFile> {
    let Header { metadata, tensors } = header(&file)?;
    let architecture = match metadata.get("general.architecture") {
        Some(Meta::Text(name)) if ARCHITECTURES.contains(&name.as_str()) => name.clone(),
        found => {
            let found = match found {
                Some(Meta::Text(name)) => format!("architecture {name:?}"),
                _ => "no architecture".to_owned(),
            };
            let message = format!("{found}, expected one of {}", ARCHITECTURES.join(", "));
            return Err(Error::file(file.path(), message, "other architectures are not supported"));
        }
    };
    let keys = Metadata { file: &file, map: &metadata, architecture: &architecture };
    let config = config(&keys, &tensors)?;
    let tokenizer = tokenizer(&keys);
    let neighbours = (architecture == "llama").then(|| {
        let heads = config.decoder.heads(config.d_model);
        [heads.n_heads, heads.n_key_heads]
    });
    let mut found = SingleFile { config, tensors: Tensors::new(file, tensors, neighbours), tokenizer };
    found.config = with_frequencies(found.config, &found.tensors)?;
    Ok(found)
}

fn config(keys: &Metadata<'_>, tensors: &HashMap<String, Entry>) -> Result<TransformerLanguageModelConfig> {
    let vocab_size = tensors.get("token_embd.weight").and_then(|entry| entry.shape.first()).copied();
    let vocab_size = vocab_size.ok_or_else(|| keys.wrong("no tensor token_embd.weight".into()))?;
    if keys.size("expert_count")?.is_some_and(|count| count > 0) {
        return Err(keys.wrong("a mixture of experts, expected one feed-forward layer".into()));
    }
    let d_model = keys.required("embedding_length")?;
    let n_heads = keys.required("attention.head_count")?;
    let n_key_heads = keys.size("attention.head_count_kv")?.unwrap_or(n_heads);
    let own = |width: &usize| width.checked_mul(n_heads) != Some(d_model);
    let decoder = StackConfig {
        n_key_heads: Some(n_key_heads).filter(|heads| *heads != n_heads),
        d_key: keys.size("attention.key_length")?.filter(own),
        d_value: keys.size("attention.value_length")?.filter(own),
        ..StackConfig::new(keys.required("block_count")?, n_heads, keys.required("feed_forward_length")?)
    };
    let end_id = keys.id("tokenizer.ggml.eos_token_id", vocab_size);
    let start_id = keys.id("tokenizer.ggml.bos_token_id", vocab_size);
    let end = end_id.or(start_id).unwrap_or(0);
    let none = Dropout { embedding: 0.0, residual: 0.0, attention: 0.0, activation: 0.0 };
    let shared = TransformerLanguageModelConfig {
        vocab_size,
        d_model,
        decoder,
        tie_output: !tensors.contains_key("output.weight"),
        max_len: keys.required("context_length")?,
        pad_id: keys.id("tokenizer.ggml.padding_token_id", vocab_size).unwrap_or(end),
        end_id: end,
        start_id: start_id.unwrap_or(end),
        dropout: none,
        ..TransformerLanguageModelConfig::default()
    };
    if keys.architecture == "gpt2" {
        let norm_epsilon = keys.number("attention.layer_norm_epsilon")?.unwrap_or(1e-5);
        return Ok(TransformerLanguageModelConfig { norm_epsilon, ..shared });
    }
    let heads = decoder.heads(d_model);
    if keys.size("rope.dimension_count")?.is_some_and(|size| size != heads.d_key) {
        return Err(keys.wrong("rotation of a part of the heads is not supported".into()));
    }
    let has_bias = tensors.contains_key("blk.0.attn_q.bias");
    let window = keys.size("attention.sliding_window")?.filter(|size| *size > 1 && *size < shared.max_len);
    Ok(TransformerLanguageModelConfig {
        norm: Normalisation::Rms,
        norm_epsilon: keys.number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-6),
        activation: Activation::Silu,
        gated: true,
        biases: Biases { query_key_value: has_bias, ..Biases::NONE },
        position: PositionConfig::Rotary {
            base: keys.number("rope.freq_base")?.unwrap_or(10_000.0),
            pairing: RotaryPairing::Halves,
            scaling: scaling(keys, shared.max_len)?,
        },
        attention: window
            .map_or(AttentionPattern::Full, |size| AttentionPattern::Window { distance: size - 1 }),
        ..shared
    })
}

fn scaling(keys: &Metadata<'_>, max_len: usize) -> Result<Option<RotaryScale>> {
    let factor = keys.number("rope.scaling.factor")?.or(keys.number("rope.scale_linear")?);
    let kind = keys.text(&format!("{}.rope.scaling.type", keys.architecture));
    match (kind, factor) {
        (Some("none"), _) | (None, None) => Ok(None),
        (Some("linear") | None, Some(factor)) => Ok(Some(RotaryScale::Linear { factor })),
        (Some("yarn"), Some(factor)) => Ok(Some(RotaryScale::Yarn {
            factor,
            fast: keys.number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            slow: keys.number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            original: keys.size("rope.scaling.original_context_length")?.unwrap_or(max_len),
            attention: if factor <= 1.0 { 1.0 } else { 0.1 * factor.ln() + 1.0 },
        })),
        (kind, factor) => Err(keys.wrong(format!("scaling of positions {kind:?} by {factor:?}"))),
    }
}

/// Llama 3's scaling, which a file stores as the divisor of each pair.
fn with_frequencies(
    config: TransformerLanguageModelConfig,
    tensors: &Tensors,
) -> Result<TransformerLanguageModelConfig> {
    let (Some(divisors), PositionConfig::Rotary { base, pairing, scaling: None }) =
        (tensors.read(ROPE_FREQUENCIES), config.position)
    else {
        return Ok(config);
    };
    let d_head = config.decoder.heads(config.d_model).d_key as f32;
    let factor = divisors.iter().copied().fold(1.0, f32::max);
    if factor == 1.0 {
        return Ok(config);
    }
    let (low, high, original) = (1.0, 4.0, 8192);
    let expected = (0..divisors.len()).map(|pair| {
        let turns = original as f32 * base.powf(-2.0 * pair as f32 / d_head) / std::f32::consts::TAU;
        let slow = 1.0 - ((turns - low) / (high - low)).clamp(0.0, 1.0);
        1.0 / (slow / factor + 1.0 - slow)
    });
    let is_llama3 = divisors.len() == d_head as usize / 2
        && divisors.iter().zip(expected).all(|(found, expected)| (found / expected - 1.0).abs() < 1e-3);
    if !is_llama3 {
        let message = format!("{ROPE_FREQUENCIES} does not follow the rule of Llama 3");
        return Err(Error::file(
            tensors.file().path(),
            message,
            "this scaling of positions is not supported",
        ));
    }
    let scaling = Some(RotaryScale::Llama3 { factor, low, high, original });
    Ok(TransformerLanguageModelConfig {
        position: PositionConfig::Rotary { base, pairing, scaling },
        ..config
    })
}

fn tokenizer(keys: &Metadata<'_>) -> Option<GgufTokenizer> {
    let list = |key: &str| match keys.map.get(key) {
        Some(Meta::List(list)) => list.as_slice(),
        _ => &[],
    };
    let texts = |key: &str| -> Vec<String> {
        let text = |value: &Meta| if let Meta::Text(text) = value { Some(text.clone()) } else { None };
        list(key).iter().filter_map(text).collect()
    };
    let number = |value: &Meta| if let Meta::Number(number) = value { Some(*number as f32) } else { None };
    let whole =
        |value: &Meta| if let Meta::Whole(number) = value { u32::try_from(*number).ok() } else { None };
    let tokens = texts("tokenizer.ggml.tokens");
    let model = keys.text("tokenizer.ggml.model").unwrap_or_default();
    let adds_start = match keys.map.get("tokenizer.ggml.add_bos_token") {
        Some(Meta::Flag(adds)) => *adds,
        // llama.cpp's rule.
        _ => model == "llama" || keys.text("tokenizer.ggml.pre").is_some_and(|rule| rule == "llama-bpe"),
    };
    (!tokens.is_empty()).then(|| GgufTokenizer {
        model: model.to_owned(),
        start: keys.id("tokenizer.ggml.bos_token_id", tokens.len()),
        adds_start,
        splitting: keys.text("tokenizer.ggml.pre").unwrap_or_default().to_owned(),
        tokens,
        scores: list("tokenizer.ggml.scores").iter().filter_map(number).collect(),
        kinds: list("tokenizer.ggml.token_type").iter().filter_map(whole).collect(),
        merges: texts("tokenizer.ggml.merges"),
    })
}
