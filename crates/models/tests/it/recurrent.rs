//! The recurrent family against PyTorch modules written by hand (`tests/golden/recurrent`), beams, and unusual sentences.

use polyhead_attention::{Capture, Pass};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::{DecodeOptions, Lengths};
use polyhead_models::{DataSpec, Decoding, Ids, Model, ModelConfig, SequenceToSequence};
use polyhead_tensor::ops::elementwise::mul;
use polyhead_tensor::ops::reduce::{Over, sum};
use polyhead_tensor::{Dtype, Parameters, Tape, Tensor, Var};
use serde_json::{Value, json};

fn golden(bytes: &[u8]) -> Value {
    serde_json::from_reader(std::io::BufReader::new(flate2::read::GzDecoder::new(bytes))).unwrap()
}

fn f32s(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn rows(value: &Value) -> Vec<Vec<u32>> {
    let row = |row: &Value| row.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    value.as_array().unwrap().iter().map(row).collect()
}

fn slices(rows: &[Vec<u32>]) -> Vec<&[u32]> {
    rows.iter().map(Vec::as_slice).collect()
}

/// Asserts that values are equal to 1e-5, relative to the mean magnitude or 0.01 if that is larger.
fn close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}: count");
    let mean = expected.iter().map(|number| number.abs()).sum::<f32>() / expected.len() as f32;
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / expected.abs().max(mean).max(1e-2);
        assert!(error < 1e-5, "{what}: {found} at {index}, expected {expected}");
    }
}

fn model(keys: &Value, vocab_sizes: [usize; 2]) -> (SequenceToSequence, Parameters) {
    let mut section = keys.as_object().unwrap().clone();
    for (key, value) in [("model_type", json!("recurrent")), ("dropout", json!(0))] {
        section.insert(key.into(), value);
    }
    let data = DataSpec { vocab_sizes, pad_id: 0, end_id: 1, ..DataSpec::default() };
    let config = ModelConfig::from_recipe(&section).unwrap().with_data(&data).unwrap();
    let mut parameters = Parameters::default();
    let model = SequenceToSequence::new(config, &mut parameters).unwrap();
    parameters.initialise(5);
    (model, parameters)
}

#[test]
fn logits_and_gradients_equal_pytorch() {
    let file = golden(include_bytes!("../golden/recurrent/recurrent.json.gz"));
    let (sources, targets) = (rows(&file["sources"]), rows(&file["targets"]));
    let source = Ids::padded(&slices(&sources), 0);
    let target = Ids::padded(&slices(&targets), 0);
    for case in file["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut keys = case["config"].clone();
        let more = json!({ "d_embedding": 4, "d_model": 4, "tie": "none", "max_len": 6 });
        keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (model, mut parameters) = model(&keys, [5; 2]);
        set(name, &mut parameters, case);
        let (tape, capture) = (Tape::training(1, 1), Capture::off());
        let logits = model.forward(&Pass::new(&tape, &parameters, &capture), &source, &target).unwrap();
        close(name, logits.value().data(), &f32s(&case["logits"]));
        compare_gradients(name, (tape, &parameters), &logits, case);
    }
}

/// Gives every parameter the value of the case.
fn set(name: &str, parameters: &mut Parameters, case: &Value) {
    let declared: Vec<_> = parameters.declared().map(|(id, path, _)| (id, path.to_owned())).collect();
    let theirs = case["parameters"].as_object().unwrap();
    assert_eq!(theirs.len(), declared.len(), "{name}: {:?}", theirs.keys());
    for (id, path) in declared {
        let data = f32s(&theirs[&path]["data"]);
        assert_eq!(data.len(), parameters.value(id).len(), "{name} {path}");
        let shape = parameters.value(id).shape().to_vec();
        parameters.set(id, Tensor::new(&shape, data));
    }
}

/// Compares the gradients of Σ upstream·logits with those of the case.
fn compare_gradients(name: &str, (tape, parameters): (Tape, &Parameters), logits: &Var, case: &Value) {
    let upstream = Var::constant(Tensor::new(logits.shape(), f32s(&case["upstream"])));
    let loss = sum(&tape, &mul(&tape, logits, &upstream).unwrap(), Over::All).unwrap();
    let gradients = tape.backward(&loss);
    for (id, gradient) in gradients.parameters() {
        let (_, path, _) = parameters.declared().find(|(own, ..)| *own == id).unwrap();
        let expected = f32s(&case["parameters"][path]["gradient"]);
        close(&format!("{name}, gradient of {path}"), gradient.data(), &expected);
    }
    assert_eq!(gradients.parameters().count(), parameters.declared().count(), "{name}");
}

#[test]
fn language_models_and_classifiers_equal_pytorch() {
    let file = golden(include_bytes!("../golden/recurrent/text.json.gz"));
    let texts = rows(&file["rows"]);
    let longest = texts.iter().map(Vec::len).max().unwrap();
    let labels = ["a", "b", "c"].map(str::to_owned).to_vec();
    let data = DataSpec { vocab_sizes: [6; 2], pad_id: 0, end_id: 1, labels, ..DataSpec::default() };
    for case in file["cases"].as_array().unwrap() {
        let name = case["model"].to_string();
        let section = case["model"].as_object().unwrap();
        let config = ModelConfig::from_recipe(section).unwrap().with_data(&data).unwrap();
        let mut parameters = Parameters::default();
        let model = Model::new(&config, &mut parameters).unwrap();
        parameters.initialise(5);
        set(&name, &mut parameters, case);
        let (tape, capture) = (Tape::training(1, 1), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let logits = match &model {
            Model::Encoder(model) => model.classify(&pass, &model.ids(&slices(&texts))).unwrap(),
            Model::LanguageModel(model) => {
                let ids = model.ids(texts.iter().map(|row| Some(row.as_slice())), longest);
                model.forward(&pass, &ids).unwrap()
            }
            _ => panic!("a language model or a classifier"),
        };
        close(&name, logits.value().data(), &f32s(&case["logits"]));
        compare_gradients(&name, (tape, &parameters), &logits, case);
    }
}

#[test]
fn configs_of_language_models_and_classifiers_that_make_no_sense_are_refused_with_the_reason() {
    let labels = vec!["a".to_owned()];
    let data = DataSpec { vocab_sizes: [6; 2], pad_id: 0, end_id: 1, labels, ..DataSpec::default() };
    let text = "recurrent_language_model";
    let cases = [
        (json!({ "model_type": text, "d_model": 7 }), "expected equal widths or tie_output = false"),
        (json!({ "model_type": text, "cell": "lstmn" }), "only translators have lstmn"),
        (json!({ "model_type": text, "n_layers": 0 }), "n_layers is 0, expected 1 to 64"),
        (json!({ "model_type": "recurrent_encoder", "d_model": 7, "bidirectional": true }), "an even number"),
        (json!({ "model_type": "recurrent_encoder", "dropout": 1.0 }), "dropout is 1, expected at least 0"),
    ];
    for (section, expected) in cases {
        let config = ModelConfig::from_recipe(section.as_object().unwrap());
        let error = config.and_then(|config| config.with_data(&data)).unwrap_err();
        let error = format!("{error} {error:?}");
        assert!(error.contains(expected), "{error} does not say: {expected}");
    }
}

/// Models with attention before and after the cell, with input feeding, without attention, and LSTMN.
fn some() -> Vec<(Value, SequenceToSequence, Parameters)> {
    let all = [
        json!({ "preset": "bahdanau" }),
        json!({ "preset": "luong", "local": "predictive", "window": 2 }),
        json!({ "attention": "none", "cell": "gru" }),
        json!({ "cell": "lstmn", "bidirectional": false, "n_layers": 1 }),
    ];
    let build = |mut keys: Value| {
        for (key, value) in [("d_model", json!(12)), ("d_embedding", json!(12)), ("max_len", json!(64))] {
            keys.as_object_mut().unwrap().insert(key.into(), value);
        }
        let (model, parameters) = model(&keys, [30, 30]);
        (keys, model, parameters)
    };
    all.into_iter().map(build).collect()
}

#[test]
fn a_sentence_has_the_same_translation_in_any_batch_and_beam_one_is_greedy() {
    let sources: Vec<Vec<u32>> = (1..8)
        .map(|length| (0..length).map(|at| (3 + at * 5 + length) % 27 + 3).chain([1]).collect())
        .collect();
    for (keys, model, plain) in some() {
        for dtype in [Dtype::F32, Dtype::Int8] {
            let mut parameters = plain.clone();
            parameters.prepare(dtype);
            let capture = Capture::off();
            let decoding = Decoding::new(&model, &parameters, &capture);
            let ids = model.special_ids();
            let lengths = Lengths { max: 12, ..Lengths::default() };
            let decode =
                DecodeOptions { start_id: ids.start_id, end_id: ids.end_id, lengths, ..Default::default() };
            let wide =
                BeamOptions { decode: decode.clone(), beam_size: 4, top_beams: 2, ..Default::default() };
            let together = beam(&decoding, &slices(&sources), &wide).unwrap();
            for (source, together) in sources.iter().zip(&together) {
                assert_eq!(&beam(&decoding, &[source], &wide).unwrap()[0], together, "{keys} {dtype:?}");
            }
            let narrow = BeamOptions { beam_size: 1, top_beams: 1, ..wide };
            let one = beam(&decoding, &slices(&sources), &narrow).unwrap();
            let best = greedy(&decoding, &slices(&sources), &decode).unwrap();
            for (one, best) in one.iter().zip(&best) {
                assert_eq!(one[0].ids, best.ids, "{keys} {dtype:?}");
            }
        }
    }
}

#[test]
fn sentences_of_length_zero_and_one_and_one_long_one_are_defined() {
    let long: Vec<u32> = (0..60).map(|at| 3 + at % 27).collect();
    for (keys, model, parameters) in some() {
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let sources: [&[u32]; 3] = [&[], &[1], &long];
        let targets: [&[u32]; 3] = [&[0], &[0, 5], &[0, 6, 7]];
        let logits = model.forward(&pass, &Ids::padded(&sources, 0), &Ids::padded(&targets, 0)).unwrap();
        assert!(logits.value().data().iter().all(|logit| logit.is_finite()), "{keys}");
        for (row, (source, target)) in sources.into_iter().zip(targets).enumerate() {
            let alone = model.forward(&pass, &Ids::padded(&[source], 0), &Ids::padded(&[target], 0)).unwrap();
            let width = target.len() * 30;
            let together = &logits.value().data()[row * 3 * 30..][..width];
            assert_eq!(together, &alone.value().data()[..width], "{keys}, row {row}");
        }
    }
}
