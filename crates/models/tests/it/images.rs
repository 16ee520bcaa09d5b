//! Image classifiers of Hugging Face's transformers (`tests/golden/images/make.py`): logits, embeddings and attention weights,
//! also at sizes that need interpolated positions; folders written and read; configs that are refused.

use std::fs;
use std::path::{Path, PathBuf};

use polyhead_attention::{Capture, Pass};
use polyhead_models::checkpoint::safetensors::{Array, ArrayData, WriteOptions, write};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load, read_config, save};
use polyhead_models::vision::{ImagePooling, ImageStem, ImageTokens, VisionConfig};
use polyhead_models::{ImageEncoder, ModelConfig};
use polyhead_tensor::{Dtype, Parameters, Tape, Tensor};
use serde_json::{Value, json};

use crate::encoders::{numbers, weight};

const TOLERANCE: f64 = 1e-4;

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/images/images.json.gz");
    serde_json::from_reader(flate2::read::GzDecoder::new(fs::File::open(path).unwrap())).unwrap()
}

fn sizes(list: &Value) -> Vec<usize> {
    numbers(list).into_iter().map(|size| size as usize).collect()
}

/// The folder of a case.
fn folder(case: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<f32>)> = case["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| {
            let (name, shape) = (tensor[0].as_str().unwrap(), sizes(&tensor[1]));
            (name.to_owned(), shape.clone(), weight(name, &shape))
        })
        .collect();
    let arrays = tensors.iter().map(|(name, shape, values)| Array {
        name: name.clone(),
        shape: shape.clone(),
        data: ArrayData::Floats(vec![values]),
    });
    write(folder.path(), arrays.collect(), WriteOptions::default()).unwrap().finish().unwrap();
    fs::write(folder.path().join("config.json"), case["config"].to_string()).unwrap();
    folder
}

fn loaded(folder: &Path, dtype: Option<Dtype>) -> (ImageEncoder, Parameters) {
    let checkpoint = load(folder, dtype).unwrap();
    (checkpoint.model.into_image().unwrap(), checkpoint.parameters)
}

fn largest_error(found: &[f32], expected: &Value) -> f64 {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len());
    found
        .iter()
        .zip(expected)
        .map(|(found, expected)| (f64::from(*found) - expected).abs())
        .fold(0.0, f64::max)
}

/// Checks the outputs of a folder against those of transformers, image by image.
fn check(name: &str, case: &Value, (model, parameters): (&ImageEncoder, &Parameters), tolerance: f64) {
    for (index, run) in case["runs"].as_array().unwrap().iter().enumerate() {
        let size = sizes(&run["size"]);
        let shape = [model.config().channels, size[0], size[1]];
        let images: Vec<Vec<f32>> = [0, 1]
            .map(|row| {
                weight(&format!("{name} {index} {row}"), &shape).iter().map(|value| value * 4.0).collect()
            })
            .to_vec();
        let (tape, capture) = (Tape::inference(), Capture::everything());
        let pass = Pass::new(&tape, parameters, &capture);
        let batch = model.images(images.iter().map(|image| Some(image.as_slice())), [size[0], size[1]]);
        let logits = model.classify(&pass, &batch).unwrap();
        let error = largest_error(logits.value().data(), &run["logits"]);
        assert!(error < tolerance, "{name} at {size:?}: logits off by {error}");
        if tolerance > TOLERANCE {
            continue;
        }
        let trace = capture.take();
        let (_, embedding) = trace.activations.iter().find(|(own, _)| own == "encoder.embedding").unwrap();
        let own = embedding.len() / 2;
        let error = largest_error(&embedding.data()[..own], &run["embedding"]);
        assert!(error < TOLERANCE, "{name} at {size:?}: embedding off by {error}");
        assert_eq!(trace.weights.len(), run["attention"].as_array().unwrap().len());
        for (layer, weights) in trace.weights.iter().enumerate() {
            let own = weights.weights.len() / 2;
            let error = largest_error(&weights.weights.data()[..own], &run["attention"][layer]);
            assert!(error < TOLERANCE, "{name} at {size:?}: attention of layer {layer} off by {error}");
        }
    }
}

#[test]
fn logits_and_attention_are_those_of_transformers() {
    for (name, case) in golden().as_object().unwrap() {
        let folder = folder(case);
        let (model, parameters) = loaded(folder.path(), None);
        check(name, case, (&model, &parameters), TOLERANCE);
        assert_eq!(model.labels(), ["cat", "dog", "fish", "bird"]);
        // Weights of products as int8: near, and not the same.
        let (model, parameters) = loaded(folder.path(), Some(Dtype::Int8));
        assert!(parameters.are_prepared());
        check(name, case, (&model, &parameters), 0.2);
    }
}

/// With `POLYHEAD_SAVE=DIR` the folders stay there, for `check_saved.py`.
#[test]
fn folders_are_written_as_they_were_read() {
    let kept = std::env::var_os("POLYHEAD_SAVE").map(PathBuf::from);
    for (name, case) in golden().as_object().unwrap() {
        let folder = folder(case);
        let (config, layout) = read_config(folder.path()).unwrap();
        assert_ne!(layout, CheckpointLayout::Polyhead);
        assert_eq!(CheckpointLayout::fitting(&config), layout, "{name}");
        let (_, parameters) = loaded(folder.path(), None);
        let own = tempfile::tempdir().unwrap();
        let out = kept.as_ref().map_or_else(|| own.path().to_owned(), |kept| kept.join(name));
        save(&out, config.clone(), &parameters, &SaveOptions { layout, ..SaveOptions::default() }).unwrap();
        assert_eq!(read_config(&out).unwrap(), (config, layout), "{name}");
        let (model, parameters) = loaded(&out, None);
        check(name, case, (&model, &parameters), TOLERANCE);
        let text = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
        assert!(text(folder.path()) == text(&out), "{name}: the weights are written as they were");
    }
}

#[test]
fn configs_that_cannot_be_represented_are_refused() {
    let golden = golden();
    for (name, key, value, expected) in [
        (
            "vit",
            "architectures",
            json!(["ViTModel"]),
            "architectures names ViTModel, expected ViTForImageClassification",
        ),
        ("vit", "architectures", json!(["DeiTForImageClassification"]), "expected ViTForImageClassification"),
        (
            "deit",
            "architectures",
            json!([]),
            "architectures names nothing, expected DeiTForImageClassification or",
        ),
        ("vit", "patch_size", json!([4, 3]), "patch_size is [4, 3], expected squares"),
        ("vit", "patch_size", json!(13), "patch_size is 13, but images are 12×12 pixels"),
        (
            "vit",
            "image_size",
            json!("large"),
            "image_size is \"large\", expected a size, or height and width",
        ),
        (
            "vit",
            "num_chanels",
            json!(3),
            "unknown key \"num_chanels\"; the nearest known one is \"num_channels\"",
        ),
        (
            "vit",
            "num_channels",
            json!(1),
            "tensor vit.embeddings.patch_embeddings.projection.weight is [12, 3, 4, 4]",
        ),
        (
            "deit",
            "image_size",
            json!(16),
            "tensor deit.embeddings.position_embeddings is [1, 11, 12], expected [1, 18, 12]",
        ),
    ] {
        let mut case = golden[name].clone();
        case["config"][key] = value;
        let error = load(folder(&case).path(), None).unwrap_err().to_string();
        assert!(error.contains(expected), "{key}: {error}");
    }
}

#[test]
fn a_choice_that_transformers_lacks_keeps_our_own_layout() {
    let fitting = |keys: Value| {
        let data = polyhead_models::DataSpec { labels: vec!["a".into(), "b".into()], ..Default::default() };
        let mut keys = keys;
        keys["model_type"] = json!("vit");
        let config = ModelConfig::from_recipe(keys.as_object().unwrap()).unwrap();
        CheckpointLayout::fitting(&config.with_data(&data).unwrap())
    };
    assert_eq!(fitting(json!({ "stochastic_depth": 0.1 })), CheckpointLayout::Vit);
    assert_eq!(fitting(json!({ "tokens": "distilled" })), CheckpointLayout::Deit);
    assert_eq!(
        fitting(json!({ "tokens": "distilled", "pooling": "both" })),
        CheckpointLayout::DeitWithTeacher
    );
    assert_eq!(fitting(json!({ "pooling": "mean" })), CheckpointLayout::Polyhead);
    assert_eq!(fitting(json!({ "tokens": "none", "pooling": "mean" })), CheckpointLayout::Polyhead);
    let wrong = |keys: Value| ModelConfig::from_recipe(keys.as_object().unwrap()).unwrap_err().to_string();
    let error = wrong(json!({ "model_type": "vit", "tokens": "none" }));
    assert!(error.contains("pooling is \"first\" without a class token"), "{error}");
    let error = wrong(json!({ "model_type": "vit", "pooling": "both" }));
    assert!(error.contains("pooling is \"both\", which needs tokens = \"distilled\""), "{error}");
    let error = wrong(json!({ "model_type": "vit", "image_size": [3, 3] }));
    assert!(error.contains("set by the training data"), "{error}");
}

/// PyTorch's convolutions, with the same weights (`tests/golden/images/stem.py`).
#[test]
fn a_convolutional_stem_is_that_of_pytorch() {
    let config = VisionConfig {
        stem: ImageStem::Convolutions,
        labels: vec!["a".into(), "b".into()],
        d_model: 6,
        encoder: serde_json::from_value(json!({ "n_layers": 1, "n_heads": 2, "d_ff": 5 })).unwrap(),
        norm_epsilon: 1e-5,
        image_size: [8, 12],
        patch_size: 4,
        tokens: ImageTokens::None,
        pooling: ImagePooling::Mean,
        ..Default::default()
    };
    let mut parameters = Parameters::default();
    let model = ImageEncoder::new(&config, &mut parameters).unwrap();
    let declared: Vec<_> =
        parameters.declared().map(|(id, name, shape)| (id, weight(name, shape), shape.to_vec())).collect();
    for (id, values, shape) in declared {
        parameters.set(id, Tensor::new(&shape, values));
    }
    let pixels = |row: usize| -> Vec<f32> {
        weight(&format!("stem {row}"), &[3, 8, 12]).into_iter().map(|number| number * 4.0).collect()
    };
    let rows = [pixels(0), pixels(1)];
    let batch = model.images(rows.iter().map(|row| Some(row.as_slice())), [8, 12]);
    let (tape, capture) = (Tape::inference(), Capture::everything());
    model.states(&Pass::new(&tape, &parameters, &capture), &batch).unwrap();
    let trace = capture.take();
    let (_, found) = trace.activations.iter().find(|(name, _)| name == "encoder.embedding").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/images/stem.json");
    let expected: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let error = largest_error(found.data(), &expected);
    assert!(error < TOLERANCE, "{error}");
}

#[test]
fn stochastic_depth_skips_rows_in_training_alone() {
    let config = VisionConfig {
        stochastic_depth: 0.5,
        labels: vec!["a".into(), "b".into()],
        d_model: 6,
        encoder: serde_json::from_value(json!({ "n_layers": 1, "n_heads": 2, "d_ff": 5 })).unwrap(),
        image_size: [2, 2],
        patch_size: 2,
        ..Default::default()
    };
    let mut parameters = Parameters::default();
    let model = ImageEncoder::new(&config, &mut parameters).unwrap();
    parameters.initialise(3);
    let image = [0.5; 12];
    let batch = model.images((0..64).map(|_| Some(&image[..])), [2, 2]);
    let rows = |tape: &Tape| {
        let capture = Capture::off();
        let logits = model.classify(&Pass::new(tape, &parameters, &capture), &batch).unwrap();
        let mut rows: Vec<[u32; 2]> =
            logits.value().data().chunks_exact(2).map(|row| [row[0].to_bits(), row[1].to_bits()]).collect();
        rows.sort_unstable();
        rows.dedup();
        rows.len()
    };
    // Both sub-layers of the only layer are kept or skipped: four outcomes.
    assert_eq!(rows(&Tape::inference()), 1);
    assert_eq!(rows(&Tape::training(1, 1)), 4);
}
