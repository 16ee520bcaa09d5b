//! Model folders: outside answers, laws of reading and writing, and every way a file can be wrong.

mod config;
mod golden;
mod names;
mod safetensors;

use std::path::{Path, PathBuf};

use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{CrossProjection, PositionConfig, StackConfig, Tie};
use polyhead_tensor::{Init, Parameters, Tensor};

/// A folder of outside answers.
fn golden_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The parameters that a model of this config declares.
fn declared(config: &TransformerConfig) -> Parameters {
    let mut parameters = Parameters::default();
    let (d, target) = (config.d_model, config.target_vocab_size);
    let mut add = |name: String, shape: &[usize]| {
        parameters.declare(name, shape, Init::Normal(0.3));
    };
    if matches!(config.tie, Tie::All | Tie::SourceTarget) {
        add("embedding.weight".into(), &[target, d]);
    } else {
        add("source_embedding.weight".into(), &[config.source_vocab_size, d]);
        add("target_embedding.weight".into(), &[target, d]);
    }
    if matches!(config.tie, Tie::None | Tie::SourceTarget) {
        add("output.weight".into(), &[target, d]);
    }
    if config.output_bias {
        add("output.bias".into(), &[target]);
    }
    if config.cross_projection == CrossProjection::Shared {
        let [_, key, value] = rows(&config.decoder, d);
        linear("decoder.cross_key_value", key + value, d, &mut add);
    }
    for (side, stack) in [("encoder", &config.encoder), ("decoder", &config.decoder)] {
        if config.position == (PositionConfig::Learned {}) {
            add(format!("{side}.positions.weight"), &[config.max_len, d]);
        }
        for layer in 0..stack.n_layers {
            declare_layer(&format!("{side}.layers.{layer}"), stack, config, &mut add);
        }
        if config.final_norm {
            norm(&format!("{side}.norm"), d, &mut add);
        }
    }
    parameters
}

fn declare_layer(
    at: &str,
    stack: &StackConfig,
    config: &TransformerConfig,
    add: &mut impl FnMut(String, &[usize]),
) {
    let d = config.d_model;
    let [query, key, value] = rows(stack, d);
    let mixed = value * stack.n_heads / stack.n_key_heads.unwrap_or(stack.n_heads);
    linear(&format!("{at}.self_attention.query_key_value"), query + key + value, d, add);
    linear(&format!("{at}.self_attention.output"), d, mixed, add);
    norm(&format!("{at}.self_attention_norm"), d, add);
    if at.starts_with("decoder") {
        linear(&format!("{at}.cross_attention.query"), query, d, add);
        if config.cross_projection == CrossProjection::PerLayer {
            linear(&format!("{at}.cross_attention.key_value"), key + value, d, add);
        }
        linear(&format!("{at}.cross_attention.output"), d, mixed, add);
        norm(&format!("{at}.cross_attention_norm"), d, add);
    }
    linear(&format!("{at}.feed_forward.inner"), stack.d_ff, d, add);
    linear(&format!("{at}.feed_forward.outer"), d, stack.d_ff, add);
    norm(&format!("{at}.feed_forward_norm"), d, add);
    if let PositionConfig::Relative { max_distance } = config.position {
        for part in ["keys", "values"] {
            add(format!("{at}.self_attention.relative.{part}"), &[2 * max_distance + 1, d / stack.n_heads]);
        }
    }
}

/// Rows of queries, keys and values.
fn rows(stack: &StackConfig, d_model: usize) -> [usize; 3] {
    let d_head = d_model / stack.n_heads;
    let key_heads = stack.n_key_heads.unwrap_or(stack.n_heads);
    let (d_key, d_value) = (stack.d_key.unwrap_or(d_head), stack.d_value.unwrap_or(d_head));
    [stack.n_heads * d_key, key_heads * d_key, key_heads * d_value]
}

fn linear(at: &str, d_out: usize, d_in: usize, add: &mut impl FnMut(String, &[usize])) {
    add(format!("{at}.weight"), &[d_out, d_in]);
    add(format!("{at}.bias"), &[d_out]);
}

fn norm(at: &str, d: usize, add: &mut impl FnMut(String, &[usize])) {
    add(format!("{at}.gamma"), &[d]);
    add(format!("{at}.beta"), &[d]);
}

/// The same with random values.
fn random(config: &TransformerConfig) -> Parameters {
    let mut parameters = declared(config);
    parameters.initialise(7);
    parameters
}

/// A small config with sizes that differ wherever they may.
fn small(tie: Tie) -> TransformerConfig {
    let shared = matches!(tie, Tie::All | Tie::SourceTarget);
    TransformerConfig {
        source_vocab_size: if shared { 9 } else { 11 },
        target_vocab_size: 9,
        d_model: 12,
        encoder: StackConfig::new(1, 2, 10),
        decoder: StackConfig::new(2, 3, 14),
        output_bias: true,
        tie,
        pad_id: 8,
        start_id: 8,
        max_len: 16,
        ..TransformerConfig::default()
    }
}

fn value<'a>(parameters: &'a Parameters, name: &str) -> &'a Tensor {
    parameters.value(parameters.find(name).unwrap_or_else(|| panic!("no {name}")))
}

/// Names and bits are the same.
fn assert_same(a: &Parameters, b: &Parameters) {
    let entries = |parameters: &Parameters| -> Vec<(String, Vec<usize>, Vec<u32>)> {
        let bits = |tensor: &Tensor| tensor.data().iter().map(|number| number.to_bits()).collect();
        parameters.iter().map(|(_, name, t)| (name.to_owned(), t.shape().to_vec(), bits(t))).collect()
    };
    for (a, b) in entries(a).into_iter().zip(entries(b)) {
        assert_eq!(a.0, b.0);
        assert!(a == b, "{} differs", a.0);
    }
    assert_eq!(a.declared().count(), b.declared().count());
}
