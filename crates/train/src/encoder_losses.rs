//! Test: losses and gradients of encoders against PyTorch (`tests/golden/encoder_losses.py`).
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::checkpoint::safetensors::{Array, ArrayData, WriteOptions, write};
use polyhead_models::checkpoint::{load_parameters, read_config};
use polyhead_models::{Ids, Model};
use polyhead_tensor::{Indices, Parameters, Tape};
use serde::Deserialize;
use serde_json::Value;

use crate::config::ContrastiveConfig;
use crate::contrastive::{Contrastive, PairBatch};
use crate::masked_language_model::{MaskedBatch, MaskedLanguageModelling};
use crate::objective::{LossOptions, Objective};

const TOLERANCE: f32 = 2e-5;

#[derive(Deserialize)]
struct Golden {
    rows: Vec<Vec<u32>>,
    /// Row, position and word.
    hidden: Vec<[u32; 3]>,
    pairs: Vec<[Vec<u32>; 2]>,
    temperature: f32,
    masked: Masked,
    contrastive: ContrastiveGolden,
}

#[derive(Deserialize)]
struct Masked {
    config: Value,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Deserialize)]
struct ContrastiveGolden {
    config: Value,
    one_way: Expected,
    symmetric: Expected,
}

#[derive(Deserialize)]
struct Expected {
    loss: f32,
    gradients: BTreeMap<String, Vec<f32>>,
    shapes: BTreeMap<String, Vec<usize>>,
}

fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/encoder_losses.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The values that the script gives a tensor.
fn weight(name: &str, shape: &[usize]) -> Vec<f32> {
    let step = |crc: u32, byte: &u8| {
        let shifted = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| shifted(crc))
    };
    let start = u64::from(!name.as_bytes().iter().fold(!0, step));
    let is_norm = shape.len() == 1 && name.ends_with(".weight");
    let value = |index: u64| {
        let bits = ((start + index * 2_654_435_761) % (1 << 32)) >> 8;
        (bits as f64 / f64::from(1 << 24) - 0.5) * 0.8 + if is_norm { 1.0 } else { 0.0 }
    };
    (0..shape.iter().product::<usize>() as u64).map(|index| value(index) as f32).collect()
}

/// The parameters of a model from tensors with the names of transformers.
fn parameters(
    config: &Value,
    shapes: &BTreeMap<String, Vec<usize>>,
    values: &[Vec<f32>],
) -> (Model, Parameters) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let array = |((name, shape), values): ((&String, &Vec<usize>), &'static [f32])| Array {
        name: name.clone(),
        shape: shape.clone(),
        data: ArrayData::Floats(vec![values]),
    };
    let values = values.iter().map(|values| -> &'static [f32] { values.clone().leak() });
    let arrays = shapes.iter().zip(values).map(array).collect();
    write(folder.path(), arrays, WriteOptions::default()).unwrap().finish().unwrap();
    let (config, layout) = read_config(folder.path()).unwrap();
    let mut parameters = Parameters::default();
    let model = Model::new(&config, &mut parameters).unwrap();
    load_parameters(folder.path(), config, layout, &mut parameters).unwrap();
    (model, parameters)
}

fn check<O: Objective>(config: &Value, expected: &Expected, batch: &O::Batch) {
    let weights: Vec<Vec<f32>> = expected.shapes.iter().map(|(name, shape)| weight(name, shape)).collect();
    let (model, own) = parameters(config, &expected.shapes, &weights);
    let gradients: Vec<Vec<f32>> =
        expected.shapes.keys().map(|name| expected.gradients[name].clone()).collect();
    let (_, expected_gradients) = parameters(config, &expected.shapes, &gradients);
    let objective = O::new(model).unwrap();
    let (tape, capture) = (Tape::training(1, 0), Capture::off());
    let pass = Pass::new(&tape, &own, &capture);
    let (loss, _) = objective.loss(&pass, batch, LossOptions::default()).unwrap();
    let found = loss.value().data()[0];
    assert!((found - expected.loss).abs() < TOLERANCE, "{found} and {}", expected.loss);
    let gradients = tape.backward(&loss);
    for (id, name, value) in expected_gradients.iter() {
        let found = gradients.parameters().find(|(own, _)| *own == id);
        let Some((_, found)) = found else {
            assert!(value.data().iter().all(|number| number.abs() < TOLERANCE), "{name} has no gradient");
            continue;
        };
        for (found, expected) in found.data().iter().zip(value.data()) {
            assert!((found - expected).abs() < TOLERANCE, "{name}: {found} and {expected}");
        }
    }
}

#[test]
fn masked_words_have_the_loss_and_gradients_of_pytorch() {
    let golden = golden();
    let rows: Vec<&[u32]> = golden.rows.iter().map(Vec::as_slice).collect();
    let ids = Ids::padded(&rows, 0);
    // Two of the positions are not counted.
    let mut positions: Vec<u32> =
        golden.hidden.iter().map(|[row, position, _]| row * ids.length() as u32 + position).collect();
    let mut words: Vec<u32> = golden.hidden.iter().map(|[_, _, word]| *word).collect();
    positions.insert(1, 0);
    words.insert(1, u32::MAX);
    positions.push(ids.length() as u32);
    words.push(u32::MAX);
    let batch =
        MaskedBatch { ids, positions: positions.into(), words: words.into(), count: golden.hidden.len() };
    check::<MaskedLanguageModelling>(&golden.masked.config, &golden.masked.expected, &batch);
}

#[test]
fn pairs_have_the_loss_and_gradients_of_pytorch() {
    let golden = golden();
    let side = |side: usize| {
        let rows: Vec<&[u32]> = golden.pairs.iter().map(|pair| pair[side].as_slice()).collect();
        Ids::padded(&rows, 0)
    };
    let ContrastiveGolden { config, one_way, symmetric } = &golden.contrastive;
    for (symmetric, expected) in [(false, one_way), (true, symmetric)] {
        let partners: Indices = (0..golden.pairs.len() as u32).collect();
        let settings = ContrastiveConfig { temperature: golden.temperature, symmetric };
        let batch = PairBatch { sources: side(0), targets: side(1), partners, config: settings };
        check::<Contrastive>(config, expected, &batch);
    }
}
