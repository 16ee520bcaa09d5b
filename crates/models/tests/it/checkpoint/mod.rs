//! Model folders: golden files, laws of reading and writing, and damaged files.

mod config;
mod golden;
mod names;
mod safetensors;

use std::path::{Path, PathBuf};

use polyhead_models::Result;
use polyhead_models::SequenceToSequence;
use polyhead_models::checkpoint::CheckpointLayout;
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{StackConfig, Tie};
use polyhead_tensor::{Parameters, Tensor};

/// A golden folder.
fn golden_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The config of a folder that holds an encoder-decoder Transformer.
fn read_config(folder: impl AsRef<Path>) -> Result<(TransformerConfig, CheckpointLayout)> {
    let (config, layout) = polyhead_models::checkpoint::read_config(folder)?;
    Ok((config.try_into()?, layout))
}

/// The parameters that a model of this config declares.
fn declared(config: &TransformerConfig) -> Parameters {
    let mut parameters = Parameters::default();
    SequenceToSequence::new(config, &mut parameters).unwrap();
    parameters
}

/// The same parameters with random values.
fn random(config: &TransformerConfig) -> Parameters {
    let mut parameters = declared(config);
    parameters.initialise(7);
    parameters
}

/// A small config whose sizes all differ where possible.
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

/// Asserts that names and bits are the same.
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
