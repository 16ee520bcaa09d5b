//! Models that copy: PyTorch modules written by hand (`tests/golden/copying`), words that the vocabulary lacks, batches, beams, the reorder of coverage, shares, and what is refused.

use polyhead_attention::{Capture, Pass};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::score::score;
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths};
use polyhead_models::{DataSpec, Decoding, Ids, ModelConfig, SequenceToSequence, Shortlist};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::r_drop::RDropOptions;
use polyhead_tensor::{Dtype, Parameters, Tape, Tensor};
use serde_json::{Value, json};

/// Ids from 9 on are words of their own sentence.
const VOCAB: usize = 9;
const SOURCES: [&[u32]; 3] = [&[3, 9, 4, 10, 9, 1], &[5, 1], &[9, 6, 1]];
const TARGETS: [&[u32]; 3] = [&[0, 9, 4, 10], &[0, 5], &[0, 6, 9]];

fn models() -> Vec<(String, SequenceToSequence, Parameters)> {
    let sizes = json!({ "d_embedding": 6, "d_model": 8, "n_layers": 1, "tie": "none", "dropout": 0 });
    let recurrent = |keys: Value| {
        let mut all = json!({ "model_type": "recurrent", "copy": "pointer_generator", "score": "additive" });
        all.as_object_mut().unwrap().extend(sizes.as_object().unwrap().clone());
        all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        all
    };
    let transformer = json!({ "copy": "pointer_generator", "coverage": 1, "preset": "tiny", "d_model": 8,
        "n_layers": 1, "n_heads": 2, "d_ff": 12, "tie": "none",
        "dropout": { "embedding": 0, "residual": 0 } });
    let all = [
        recurrent(json!({ "coverage": 1, "input_feeding": true })),
        recurrent(json!({ "coverage": 1 })),
        recurrent(json!({ "coverage": 0.5, "attention": "bahdanau", "cell": "gru" })),
        recurrent(json!({})),
        transformer,
    ];
    let build = |section: Value| {
        let data =
            DataSpec { vocab_sizes: [VOCAB; 2], pad_id: 0, end_id: 1, unknown_id: 2, ..DataSpec::default() };
        let config =
            ModelConfig::from_recipe(section.as_object().unwrap()).unwrap().with_data(&data).unwrap();
        let mut parameters = Parameters::default();
        let model = SequenceToSequence::new(config, &mut parameters).unwrap();
        parameters.initialise(4);
        (section.to_string(), model, parameters)
    };
    all.into_iter().map(build).collect()
}

fn decode() -> DecodeOptions {
    DecodeOptions {
        start_id: 0,
        end_id: 1,
        lengths: Lengths { max: 8, ..Lengths::default() },
        ..DecodeOptions::default()
    }
}

fn expected() -> Ids {
    let rows: Vec<Vec<u32>> = TARGETS.iter().map(|row| [&row[1..], &[1]].concat()).collect();
    Ids::padded(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), 0)
}

#[test]
fn the_loss_is_the_mean_of_the_probabilities_that_decoding_finds() {
    for (name, model, parameters) in models() {
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let options = CrossEntropyOptions { label_smoothing: 0.0, ignored_id: Some(0) };
        let [source, target] = [SOURCES, TARGETS].map(|rows| model.ids(&rows));
        let loss = model.loss(&pass, &source, &target, expected().ids(), options).unwrap();
        let both = model.training_loss(&pass, &source, &target, expected().ids(), options).unwrap();
        assert_eq!(both.cross_entropy.data(), loss.value().data(), "{name}");
        let difference = both.loss.value().data()[0] - loss.value().data()[0];
        assert_eq!(difference > 0.0, name.contains("coverage"), "{name}: {difference}");
        let decoding = Decoding::new(&model, &parameters, &capture);
        let written: Vec<Vec<u32>> = TARGETS.iter().map(|row| [&row[1..], &[1]].concat()).collect();
        let slices: Vec<&[u32]> = written.iter().map(Vec::as_slice).collect();
        let scores = score(&decoding, &SOURCES, &slices, 0).unwrap();
        let sum: f32 = scores.iter().flatten().sum();
        let count = written.iter().map(Vec::len).sum::<usize>();
        assert!((sum / count as f32 + loss.value().data()[0]).abs() < 1e-5, "{name}");
    }
}

#[test]
fn a_sentence_decodes_alike_alone_and_in_a_batch() {
    for (name, model, parameters) in models() {
        for dtype in [Dtype::F32, Dtype::Int8] {
            let mut parameters = parameters.clone();
            parameters.prepare(dtype);
            let capture = Capture::off();
            let decoding = Decoding::new(&model, &parameters, &capture);
            let options =
                BeamOptions { beam_size: 3, top_beams: 2, decode: decode(), ..BeamOptions::default() };
            let together = beam(&decoding, &SOURCES, &options).unwrap();
            for (index, source) in SOURCES.iter().enumerate() {
                let alone = beam(&decoding, &[source], &options).unwrap();
                assert_eq!(alone[0], together[index], "{name} {dtype:?} {index}");
            }
            let best = greedy(&decoding, &SOURCES, &decode()).unwrap();
            // A word of another sentence is never written.
            for (source, Hypothesis { ids, .. }) in SOURCES.iter().zip(&best) {
                assert!(
                    ids.iter().all(|id| (*id as usize) < VOCAB || source.contains(id)),
                    "{name}: {ids:?}"
                );
            }
        }
    }
}

#[test]
fn unknown_words_are_written_only_by_copying() {
    for (name, model, parameters) in models() {
        let shares = model.copy_shares(&parameters, [SOURCES[0], &[9, 4, 7, 1]], 0).unwrap().unwrap();
        assert_eq!(shares.len(), 4, "{name}");
        assert!((shares[0].share - 1.0).abs() < 1e-5, "{name}: {shares:?}");
        assert!(matches!(shares[0].position, Some(1 | 4)), "{name}");
        assert!(shares[1].share > 0.0 && shares[1].share < 1.0 && shares[1].position == Some(2), "{name}");
        assert_eq!((shares[2].share, shares[2].position), (0.0, None), "{name}");
        assert!(shares.iter().all(|share| share.generate > 0.0 && share.generate < 1.0), "{name}");
        let error = model.copy_shares(&parameters, [SOURCES[1], &[20]], 0).unwrap_err();
        assert!(error.to_string().contains("neither in the vocabulary nor in the source"), "{error}");
    }
}

#[test]
fn shortlists_and_r_drop_are_refused_with_the_reason() {
    for (name, model, parameters) in models() {
        let error = Shortlist::new(&model, &parameters, &[3]).unwrap_err().to_string();
        assert!(error.contains("it writes words that no list has"), "{name}: {error}");
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let ids = Ids::padded(&[&[3], &[3]], 0);
        let options = RDropOptions { weight: 1.0, ..RDropOptions::default() };
        let error = model.r_drop_loss(&pass, &ids, &ids, &[3].into(), options).unwrap_err().to_string();
        assert!(error.contains("R-Drop with a model that copies"), "{name}: {error}");
    }
}

fn golden() -> Value {
    let bytes = include_bytes!("../golden/copying/copying.json.gz").as_slice();
    serde_json::from_reader(std::io::BufReader::new(flate2::read::GzDecoder::new(bytes))).unwrap()
}

fn f32s(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}: count");
    let mean = expected.iter().map(|number| number.abs()).sum::<f32>() / expected.len() as f32;
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / expected.abs().max(mean).max(1e-2);
        assert!(error < 1e-5, "{what}: {found} at {index}, expected {expected}");
    }
}

#[test]
fn losses_and_gradients_equal_pytorch() {
    let file = golden();
    let ids = |key: &str| {
        let row =
            |row: &Value| row.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let rows: Vec<Vec<u32>> = file[key].as_array().unwrap().iter().map(row).collect();
        Ids::padded(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), 0)
    };
    for case in file["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut section = case["config"].as_object().unwrap().clone();
        let recurrent = section.contains_key("model_type");
        let dropout = if recurrent { json!(0) } else { json!({ "embedding": 0, "residual": 0 }) };
        let more = [("d_model", json!(4)), ("tie", json!("none")), ("dropout", dropout)];
        section.extend(more.map(|(key, value)| (key.to_owned(), value)));
        section.insert("output_bias".into(), json!(true));
        section.insert("copy".into(), json!("pointer_generator"));
        let data =
            DataSpec { vocab_sizes: [6; 2], pad_id: 0, end_id: 1, unknown_id: 2, ..DataSpec::default() };
        let config = ModelConfig::from_recipe(&section).unwrap().with_data(&data).unwrap();
        let mut parameters = Parameters::default();
        let model = SequenceToSequence::new(config, &mut parameters).unwrap();
        let declared: Vec<_> = parameters.declared().map(|(id, path, _)| (id, path.to_owned())).collect();
        let theirs = case["parameters"].as_object().unwrap();
        assert_eq!(theirs.len(), declared.len(), "{name}: {declared:?}");
        parameters.initialise(1);
        for (id, path) in &declared {
            let shape = parameters.value(*id).shape().to_vec();
            parameters.set(*id, Tensor::new(&shape, f32s(&theirs[path]["data"])));
        }
        let (tape, capture) = (Tape::training(1, 1), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let options = CrossEntropyOptions { label_smoothing: 0.0, ignored_id: Some(0) };
        let (source, target, expected) = (ids("sources"), ids("targets"), ids("expected"));
        let found = model.training_loss(&pass, &source, &target, expected.ids(), options).unwrap();
        let number = |key: &str| case[key].as_f64().unwrap() as f32;
        close(name, found.cross_entropy.data(), &[number("cross_entropy")]);
        let weight = case["config"].get("coverage").map_or(0.0, |weight| weight.as_f64().unwrap() as f32);
        let whole = number("cross_entropy") + weight * number("coverage");
        close(&format!("{name}: loss"), found.loss.value().data(), &[whole]);
        let gradients = tape.backward(&found.loss);
        for (id, gradient) in gradients.parameters() {
            let (_, path) = declared.iter().find(|(own, _)| *own == id).unwrap();
            close(&format!("{name}, {path}"), gradient.data(), &f32s(&theirs[path]["gradient"]));
        }
        assert_eq!(gradients.parameters().count(), declared.len(), "{name}");
    }
}
