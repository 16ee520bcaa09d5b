//! Golden tests: `generate()` of Hugging Face's transformers, greedy and with beams
//! (`tests/golden/marian/make.py`, `tests/golden/marian/rules.py`, `tests/golden/opus/make.py`,
//! `tests/golden/pegasus/make.py`).

use std::path::Path;

use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::rules::{AtLimit, EndDecay, Rules, SequenceBias};
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths, NextToken};
use serde_json::Value;

use super::{LoadedModel, bits, slices};
use crate::outside::{golden, marian_folders};

const TOLERANCE: f64 = 1e-4;

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn read_packed(path: &Path) -> Value {
    serde_json::from_reader(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())).unwrap()
}

fn array(list: &Value) -> &[Value] {
    list.as_array().unwrap()
}

fn ids(list: &Value) -> Vec<u32> {
    array(list).iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn rules(settings: &Value) -> Rules {
    let suppressed =
        settings["bad_words_ids"].as_array().map_or(Vec::new(), |all| all.iter().map(ids).collect());
    let at_limit = if settings["forced_eos_token_id"].is_null() { AtLimit::Cut } else { AtLimit::ForceEnd };
    Rules { suppressed, at_limit, ..Rules::default() }
}

/// `expected` has ids, the start token first, and a number under `key`.
fn assert_equal(found: &Hypothesis, number: f64, expected: &Value, key: &str) {
    assert_eq!(found.ids, ids(&expected["ids"])[1..]);
    let error = number - expected[key].as_f64().unwrap();
    assert!(error.abs() < TOLERANCE, "{:?}: {key} off by {error}", found.ids);
}

#[test]
fn greedy_translations_of_marian_models_match_hugging_face() {
    for folder in marian_folders() {
        let loaded = LoadedModel::new(&format!("marian/{}", folder.file_name().unwrap().to_string_lossy()));
        let all = read_packed(&folder.join("generate.json.gz"));
        let sources: Vec<Vec<u32>> = array(&all["sources"]).iter().map(ids).collect();
        let max_length = all["max_new_tokens"].as_u64().unwrap() as usize;
        let options = DecodeOptions { rules: rules(&all), ..loaded.options(max_length) };
        let together = greedy(&loaded.decoding(), &slices(&sources), &options).unwrap();
        let results = array(&all["greedy"]["results"]);
        assert_eq!(all["greedy"]["batched"], "same");
        for ((source, found), expected) in sources.iter().zip(&together).zip(results) {
            assert_equal(found, found.log_probability, expected, "log_probability");
            let alone = greedy(&loaded.decoding(), &[source], &options).unwrap();
            assert_eq!(bits(&alone[0]), bits(found), "alone as in a batch");
        }
    }
}

fn beam_options(decode: &DecodeOptions, case: &Value) -> BeamOptions {
    let number = |key: &str| case[key].as_u64().unwrap() as usize;
    BeamOptions {
        decode: decode.clone(),
        beam_size: number("num_beams"),
        top_beams: number("num_return_sequences"),
        length_penalty: LengthPenalty::Power(case["length_penalty"].as_f64().unwrap()),
        coverage_penalty: 0.0,
        surface_forms: None,
        early_stopping: match &case["early_stopping"] {
            Value::Bool(true) => EarlyStopping::First,
            Value::Bool(false) => EarlyStopping::Heuristic,
            Value::String(text) if text == "never" => EarlyStopping::Never,
            other => panic!("{other}"),
        },
    }
}

#[test]
fn beams_of_marian_models_match_hugging_face() {
    let mut compared = 0;
    for folder in marian_folders() {
        let loaded = LoadedModel::new(&format!("marian/{}", folder.file_name().unwrap().to_string_lossy()));
        let all = read_packed(&folder.join("generate.json.gz"));
        let sources: Vec<Vec<u32>> = array(&all["sources"]).iter().map(ids).collect();
        let max_length = all["max_new_tokens"].as_u64().unwrap() as usize;
        let decode = DecodeOptions { rules: rules(&all), ..loaded.options(max_length) };
        for case in array(&all["beam"]) {
            let options = beam_options(&decode, case);
            let together = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
            assert_eq!(case["batched"], "same", "{}", folder.display());
            for ((source, found), expected) in sources.iter().zip(&together).zip(array(&case["results"])) {
                assert_eq!(found.len(), array(expected).len());
                for (found, expected) in found.iter().zip(array(expected)) {
                    assert_equal(found, found.score, expected, "score");
                    compared += 1;
                }
                let alone = beam(&loaded.decoding(), &[source], &options).unwrap().remove(0);
                let [alone, found] = [&alone, found].map(|all| all.iter().map(bits).collect::<Vec<_>>());
                assert_eq!(alone, found, "alone as in a batch");
            }
        }
    }
    assert_eq!(compared, 9 * 8 * 6 * (1 + 4 + 1));
}

/// The options of a case of rules.json.gz, on top of the model's own settings.
fn with_rules(loaded: &LoadedModel, all: &Value, options: &Value) -> DecodeOptions {
    let mut settings = all.clone();
    for (key, value) in options.as_object().unwrap() {
        settings[key] = value.clone();
    }
    let number = |key: &str, otherwise: f64| options[key].as_f64().unwrap_or(otherwise);
    let rules = Rules {
        no_repeat_ngram: number("no_repeat_ngram_size", 0.0) as usize,
        repetition_penalty: number("repetition_penalty", 1.0) as f32,
        ..rules(&settings)
    };
    let plain = loaded.options(all["max_new_tokens"].as_u64().unwrap() as usize);
    let lengths = Lengths { min: number("min_new_tokens", 0.0) as usize, ..plain.lengths };
    DecodeOptions { rules, lengths, ..plain }
}

#[test]
fn rules_and_early_stopping_match_hugging_face() {
    let mut compared = 0;
    for name in ["relu", "gelu", "opus"] {
        let folder = golden("marian").join(name);
        let loaded = LoadedModel::new(&format!("marian/{name}"));
        let all = read_packed(&folder.join("generate.json.gz"));
        let sources: Vec<Vec<u32>> = array(&all["sources"]).iter().map(ids).collect();
        for case in array(&read_packed(&folder.join("rules.json.gz"))) {
            let decode = with_rules(&loaded, &all, &case["options"]);
            let options = beam_options(&decode, &case["options"]);
            let found: Vec<Vec<Hypothesis>> = if options.beam_size == 1 {
                let found = greedy(&loaded.decoding(), &slices(&sources), &decode).unwrap();
                found.into_iter().map(|found| vec![found]).collect()
            } else {
                beam(&loaded.decoding(), &slices(&sources), &options).unwrap()
            };
            for (found, expected) in found.iter().zip(array(&case["results"])) {
                assert_eq!(found.len(), array(expected).len());
                for (found, expected) in found.iter().zip(array(expected)) {
                    let [found_ids, expected_ids] = [&found.ids[..], &ids(&expected["ids"])[1..]];
                    assert_eq!(found_ids, expected_ids, "{name} {}", case["options"]);
                    let error = found.score - expected["score"].as_f64().unwrap_or(found.score);
                    let bound = TOLERANCE * found.score.abs().max(1.0);
                    assert!(error.abs() < bound, "{name} {}: off by {error}", case["options"]);
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 3 * 8 * (2 * 12 + 3 * 9));
}

#[test]
fn translations_of_a_trained_model_match_hugging_face() {
    let folder = golden("opus");
    let loaded = LoadedModel::new("opus");
    let settings = read(&folder.join("generation_config.json"));
    let all = read(&folder.join("expected.json"));
    // max_length counts the start token.
    let max_length = settings["max_length"].as_u64().unwrap() as usize - 1;
    let decode = DecodeOptions { rules: rules(&settings), ..loaded.options(max_length) };
    let options = BeamOptions { decode: decode.clone(), ..BeamOptions::default() };
    let mut compared = 0;
    for case in array(&all["generate"]) {
        let Some(text) = array(&all["texts"]).iter().find(|text| text["text"] == case["text"]) else {
            continue;
        };
        let source = ids(&text["source_ids"]);
        let found = &greedy(&loaded.decoding(), &[&source], &decode).unwrap()[0];
        assert_equal(found, found.log_probability / found.ids.len() as f64, &case["greedy"], "score");
        let found = &beam(&loaded.decoding(), &[&source], &options).unwrap()[0][0];
        assert_equal(found, found.score, &case["beam"], "score");
        compared += 1;
    }
    assert_eq!(compared, 5, "sources whose ids are in the file");
}

/// The options of `generate()`, read as its keys mean.
fn with_settings(loaded: &LoadedModel, options: &Value, prefix: Vec<u32>) -> DecodeOptions {
    let list = |key: &str| if options[key].is_null() { Vec::new() } else { ids(&options[key]) };
    let all = |key: &str| match &options[key] {
        Value::Array(_) => ids(&options[key]),
        value => value.as_u64().map(|id| id as u32).into_iter().collect(),
    };
    let size = |key: &str| options[key].as_u64().map(|size| size as usize);
    let plain = loaded.options(16);
    let decay = options["exponential_decay_length_penalty"].as_array();
    let biases = options["sequence_bias"].as_array().map(Vec::as_slice).unwrap_or_default();
    let forced = all("forced_eos_token_id");
    let rules = Rules {
        suppressed: options["bad_words_ids"]
            .as_array()
            .map_or(Vec::new(), |all| all.iter().map(ids).collect()),
        forbidden: list("suppress_tokens"),
        forbidden_first: list("begin_suppress_tokens"),
        biases: biases
            .iter()
            .map(|pair| SequenceBias { ids: ids(&pair[0]), bias: pair[1].as_f64().unwrap() as f32 })
            .collect(),
        no_repeat_ngram: size("no_repeat_ngram_size").unwrap_or(0),
        repetition_penalty: options["repetition_penalty"].as_f64().unwrap_or(1.0) as f32,
        includes_source: false,
        prefixes: vec![prefix],
        forced_first: options["forced_bos_token_id"].as_u64().map(|id| id as u32),
        other_end_ids: all("eos_token_id").into_iter().filter(|&id| id != plain.end_id).collect(),
        end_decay: decay.map(|pair| EndDecay {
            start: pair[0].as_u64().unwrap() as usize,
            factor: pair[1].as_f64().unwrap(),
        }),
        at_limit: if forced.is_empty() { AtLimit::Cut } else { AtLimit::Force(forced) },
        timestamps: None,
        renormalise: options["renormalize_logits"].as_bool().unwrap_or(false),
    };
    // max_length of the folder counts the start token.
    let lengths = Lengths {
        max: size("max_new_tokens").map_or(16, |_| 31),
        max_new: size("max_new_tokens"),
        min_new: size("min_new_tokens").unwrap_or(0),
        ..plain.lengths
    };
    DecodeOptions { rules, lengths, ..plain }
}

#[test]
fn generation_settings_and_prefixes_match_hugging_face() {
    let (loaded, mut compared) = (LoadedModel::new("pegasus"), 0);
    let all = read(&golden("pegasus").join("expected.json"));
    for case in array(&all["cases"]) {
        let rows = array(&all["sources"]).iter().zip(array(&case["prefixes"])).zip(array(&case["results"]));
        for ((source, prefix), expected) in rows.filter(|(_, expected)| !expected.is_null()) {
            let options = &case["options"];
            let decode = with_settings(&loaded, options, ids(prefix));
            let options = beam_options(&decode, options);
            let found = if options.beam_size == 1 {
                greedy(&loaded.decoding(), &[&ids(source)], &decode).unwrap()
            } else {
                beam(&loaded.decoding(), &[&ids(source)], &options).unwrap().remove(0)
            };
            for (found, expected) in found.iter().zip(array(expected)) {
                assert_eq!(found.ids, ids(&expected[0]), "{} {prefix}", case["options"]);
                let error = found.score - expected[1].as_f64().unwrap_or(found.score);
                assert!(error.abs() < 1e-5, "{} {prefix}: off by {error}", case["options"]);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 320);
}

#[test]
fn a_pegasus_model_with_odd_width_and_forbidden_padding_matches_hugging_face() {
    let loaded = LoadedModel::new("pegasus");
    let all = read(&golden("pegasus").join("expected.json"));
    let rows = array(&all["sources"]).iter().zip(array(&all["targets"])).zip(array(&all["logits"]));
    for ((source, target), expected) in rows {
        let decoding = loaded.decoding();
        let mut state = decoding.start(&[&ids(source)], 1).unwrap();
        let logits =
            ids(target).into_iter().map(|id| decoding.step(&mut state, &[id]).unwrap()).last().unwrap();
        assert_eq!(logits.data()[0], f32::NEG_INFINITY, "padding is forbidden");
        for (found, expected) in logits.data()[1..].iter().zip(array(expected)) {
            assert!((f64::from(*found) - expected.as_f64().unwrap()).abs() < 1e-4, "{found} {expected}");
        }
    }
}
