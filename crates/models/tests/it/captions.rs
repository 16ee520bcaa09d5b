//! A captioner against PyTorch's own Transformer layers: `tests/golden/caption/make.py` has the same weights, from a formula.

use polyhead_attention::{Capture, Filter, Pass};
use polyhead_models::vision::ImageSpec;
use polyhead_models::{Captioner, DataSpec, Ids, Model, ModelConfig, View};
use polyhead_tensor::{ParameterId, Parameters, Tape};
use serde_json::Value;

/// Height and width of the images, of two channels.
const IMAGE: [usize; 2] = [7, 9];
const TARGETS: [&[u32]; 2] = [&[0, 5, 6], &[0, 7, 8, 9, 10]];

/// The example of the family, with the values of the formula: parameters are numbered by their names.
fn model() -> (Captioner, Parameters) {
    let example =
        ModelConfig::examples().into_iter().find(|example| example.view() == View::Caption).unwrap();
    let images = ImageSpec { size: IMAGE, channels: 2 };
    let data = DataSpec { vocab_sizes: [13; 2], pad_id: 0, end_id: 1, images, ..DataSpec::default() };
    let mut parameters = Parameters::default();
    let model = Model::new(&example.with_data(&data).unwrap(), &mut parameters).unwrap();
    parameters.initialise(1);
    let mut named: Vec<(String, ParameterId)> =
        parameters.declared().map(|(id, name, _)| (name.to_owned(), id)).collect();
    named.sort();
    for (number, (name, id)) in named.iter().enumerate() {
        let one = if name.ends_with("gamma") { 1.0 } else { 0.0 };
        let values = parameters.value_mut(*id).data_mut().iter_mut().enumerate();
        for (at, value) in values {
            *value = (one + 0.4 * (0.7 * (number + 1) as f64 + 0.61 * at as f64).sin()) as f32;
        }
    }
    (model.into_caption().unwrap(), parameters)
}

fn image(row: usize) -> Vec<f32> {
    let count = 2 * IMAGE[0] * IMAGE[1];
    (0..count).map(|at| (0.3 * (row + 1) as f64 + 0.17 * at as f64).sin() as f32).collect()
}

#[test]
fn logits_and_attention_are_those_of_pytorch() {
    let golden = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/caption/caption.json"));
    let golden: Value = serde_json::from_slice(&golden.unwrap()).unwrap();
    let (model, parameters) = model();
    let (tape, capture) = (Tape::inference(), Capture::on(Filter::default()));
    let images = [image(0), image(1)];
    let batch = model.images(images.iter().map(|image| Some(image.as_slice())), IMAGE);
    let pass = Pass::new(&tape, &parameters, &capture);
    let logits = model.forward(&pass, &batch, &Ids::padded(&TARGETS, 0)).unwrap();
    let weights = capture.take().weights;
    let cross = weights.iter().rfind(|found| found.site.kind.name == "cross").unwrap();
    assert_eq!(cross.site.layer, 2);
    let close = |found: &[f32], expected: &Value, what: &str| {
        let expected: Vec<f64> =
            expected.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
        assert_eq!(found.len(), expected.len(), "{what}");
        let far = found.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        assert!(far < 2e-5, "{what}: {far}");
    };
    for (row, target) in TARGETS.iter().enumerate() {
        let own = &logits.value().data()[row * 5 * 13..][..target.len() * 13];
        close(own, &golden["logits"][row], "logits");
        // heads × tokens × patches, without padding tokens.
        let heads = cross.weights.data()[row * 2 * 5 * 6..][..2 * 5 * 6].chunks_exact(5 * 6);
        let own: Vec<f32> = heads.flat_map(|head| &head[..target.len() * 6]).copied().collect();
        close(&own, &golden["last_cross_attention"][row], "attention");
    }
}

#[test]
fn wrong_configs_name_what_is_wrong() {
    let example =
        ModelConfig::examples().into_iter().find(|example| example.view() == View::Caption).unwrap();
    let images = ImageSpec { size: [2, 9], channels: 2 };
    let data = DataSpec { vocab_sizes: [13; 2], end_id: 20, images, ..DataSpec::default() };
    let error = example.with_data(&data).unwrap_err().to_string();
    assert!(error.contains("patch_size is 3, but images are 9×2 pixels"), "{error}");
    assert!(error.contains("end_id"), "{error}");
    let mut keys = example.to_recipe();
    keys.insert("position".into(), serde_json::json!({ "kind": "none" }));
    let error = ModelConfig::from_recipe(&keys).unwrap_err().to_string();
    assert!(error.contains("position: other than learned or sinusoidal"), "{error}");
}
