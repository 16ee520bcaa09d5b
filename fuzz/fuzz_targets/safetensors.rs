//! Any bytes as a file of arrays: an error or a file, whose arrays can all be asked for, and compared with a model's.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyhead_models::SequenceToSequence;
use polyhead_models::checkpoint::CheckpointLayout;
use polyhead_models::checkpoint::safetensors::{TensorFile, Weights};
use polyhead_models::parity::{self, Tolerance};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::StackConfig;
use polyhead_tensor::{Parameters, pool};

/// A model of nine ids that a file may be a reference of.
static MODEL: LazyLock<(SequenceToSequence, Parameters)> = LazyLock::new(|| {
    let stack = StackConfig::new(1, 2, 4);
    let config =
        TransformerConfig { d_model: 4, encoder: stack, decoder: stack, ..TransformerConfig::tiny(9) };
    let mut parameters = Parameters::default();
    let model = SequenceToSequence::new(&config, &mut parameters).expect("a sound config");
    parameters.initialise(0);
    (model, parameters)
});

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&with_length(bytes));
    pool::clear();
});

/// The same file with the right length of its header, which mutations rarely keep.
fn with_length(bytes: &[u8]) -> Vec<u8> {
    let rest = bytes.get(8..).unwrap_or_default();
    let length = rest.iter().rposition(|&byte| byte == b'}').map_or(0, |last| last as u64 + 1);
    [&length.to_le_bytes()[..], rest].concat()
}

fn read(bytes: &[u8]) {
    let Ok(file) = TensorFile::from_bytes("fuzz.safetensors", bytes.to_vec()) else { return };
    let mut total = 0;
    for name in file.names() {
        let shape = file.shape(name).expect("a name of this file");
        let dtype = file.dtype(name).expect("a name of this file");
        if let Ok(tensor) = file.tensor(name) {
            assert_eq!(tensor.shape(), shape);
            total += tensor.len() * dtype.size_in_bytes();
        }
        if let Ok(ids) = file.ids(name) {
            total += ids.len() * dtype.size_in_bytes();
        }
    }
    assert!(total <= bytes.len(), "{total} bytes of numbers in {}", bytes.len());
    let (model, parameters) = &*MODEL;
    let _ = parity::compare(model, parameters, &file, Tolerance::default());
    CheckpointLayout::recognise(file.names());
    let weights = Weights::whole(file);
    for name in weights.names() {
        assert!(weights.shape(name).is_some() && weights.dtype(name).is_some());
        let _ = weights.tensor(name);
    }
}
