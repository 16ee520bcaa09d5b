//! Decoder-only models of Hugging Face's transformers (`tests/golden/language_models/make.py`): logits, greedy and beam
//! output, folders written and read; rows of different lengths in one state.

use std::fs;
use std::path::{Path, PathBuf};

use polyhead_attention::{Capture, Pass};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load, read_config, save};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken};
use polyhead_models::{LanguageModel, LanguageModelDecoding};
use polyhead_tensor::{Device, Dtype, Math, Parameters, Tape, Var};
use serde_json::{Value, json};

const NAMES: [&str; 4] = ["gpt2", "llama", "qwen2", "mistral"];
const TOLERANCE: f64 = 1e-4;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/language_models").join(name)
}

fn loaded(folder: &Path) -> (LanguageModel, Parameters) {
    let checkpoint = load(folder, None).unwrap();
    (checkpoint.model.into_language_model().unwrap(), checkpoint.parameters)
}

fn expected(name: &str) -> Value {
    let file = fs::File::open(golden(name).join("expected.json.gz")).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Logits after each token of a text.
fn logits(model: &LanguageModel, parameters: &Parameters, text: &[u32]) -> Vec<Vec<f32>> {
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass::new(&tape, parameters, &capture);
    let rows = model.ids([Some(text)].into_iter(), text.len());
    let found = model.forward(&pass, &rows).unwrap();
    found.value().data().chunks_exact(model.vocab_size()).map(<[f32]>::to_vec).collect()
}

fn assert_logits(name: &str, found: &[Vec<f32>], expected: &Value) {
    let expected = expected["logits"].as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (found, expected) in found.iter().zip(expected.as_array().unwrap()) {
            let error = (f64::from(*found) - expected.as_f64().unwrap()).abs();
            assert!(error < TOLERANCE, "{name}, position {position}: off by {error}");
        }
    }
}

#[test]
fn logits_equal_those_of_transformers() {
    for name in NAMES {
        let (model, parameters) = loaded(&golden(name));
        let expected = expected(name);
        assert_logits(name, &logits(&model, &parameters, &ids(&expected["text"])), &expected);
    }
}

/// The lens after the last layer is the model, and the parts of the residual stream add up to every logit.
#[test]
fn the_residual_stream_adds_up_to_the_logits() {
    for name in NAMES {
        let (model, parameters) = loaded(&golden(name));
        assert!(model.has_residual_stream() && model.has_logit_sum());
        let text = ids(&expected(name)["text"]);
        let (tape, capture) = (Tape::inference(), Capture::everything());
        let pass = Pass::new(&tape, &parameters, &capture);
        let rows = model.ids([Some(&text[..])].into_iter(), text.len());
        let hidden = model.hidden(&pass, &rows).unwrap();
        let plain = logits(&model, &parameters, &text);
        let stream = model.residual_stream(&capture.take()).unwrap();
        let (_, last) = stream.states().last().unwrap();
        let read = stream.read(&pass, &Var::constant(last.clone())).unwrap();
        assert_eq!(read.value().data(), plain.concat(), "{name}");
        assert_eq!(model.logits(&pass, &hidden).unwrap().value().data(), plain.concat(), "{name}");
        for (position, logits) in plain.iter().enumerate() {
            for token in (0..logits.len()).step_by(7) {
                let found = stream.attribution(&pass, position, token as u32).unwrap();
                let error = (found.logits.iter().sum::<f64>() - f64::from(logits[token])).abs();
                assert!(error < TOLERANCE, "{name}, position {position}, token {token}: off by {error}");
                assert_eq!(found.norms.len(), stream.parts().count());
            }
        }
    }
}

fn options(model: &LanguageModel, max: usize) -> DecodeOptions {
    let lengths = Lengths { max, ..Lengths::default() };
    DecodeOptions { end_id: model.special_ids().end_id, lengths, ..DecodeOptions::default() }
}

/// Greedy and beam output of a file of cases; returns how many sequences were compared.
fn compare_cases(folder: &Path, cases: &Value, new_tokens: usize) -> [usize; 2] {
    let (model, parameters) = loaded(folder);
    let capture = Capture::off();
    let decoding = LanguageModelDecoding::new(&model, &parameters, &capture);
    let decode = options(&model, new_tokens);
    let greedy_cases = cases["greedy"].as_array().unwrap();
    let prompts: Vec<Vec<u32>> = greedy_cases.iter().map(|case| ids(&case["prompt"])).collect();
    let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    // Prompts of all lengths in one batch.
    let found = greedy(&decoding, &prompts, &decode).unwrap();
    let mut compared = [0; 2];
    for ((found, case), prompt) in found.iter().zip(greedy_cases).zip(&prompts) {
        assert_eq!(found.ids, ids(&case["ids"]), "{} {prompt:?}", folder.display());
        compared[0] += 1;
    }
    for case in cases["beam"].as_array().unwrap() {
        let results = case["results"].as_array().unwrap();
        let prompts: Vec<Vec<u32>> = results.iter().map(|result| ids(&result["prompt"])).collect();
        let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let options = BeamOptions {
            decode: decode.clone(),
            beam_size: case["num_beams"].as_u64().unwrap() as usize,
            top_beams: case["num_return_sequences"].as_u64().unwrap() as usize,
            length_penalty: LengthPenalty::Power(case["length_penalty"].as_f64().unwrap()),
            early_stopping: if case["early_stopping"] == json!(true) {
                EarlyStopping::First
            } else {
                EarlyStopping::Heuristic
            },
            ..BeamOptions::default()
        };
        for (found, result) in beam(&decoding, &prompts, &options).unwrap().iter().zip(results) {
            for (found, expected) in found.iter().zip(result["found"].as_array().unwrap()) {
                assert_eq!(found.ids, ids(&expected["ids"]), "{} {}", folder.display(), result["prompt"]);
                let error = (found.score - expected["score"].as_f64().unwrap()).abs();
                assert!(error < TOLERANCE, "score off by {error}");
                compared[1] += 1;
            }
        }
    }
    compared
}

#[test]
fn greedy_and_beam_output_equal_those_of_transformers() {
    let mut all = [0; 2];
    for name in NAMES {
        let cases = expected(name);
        let new_tokens = cases["new_tokens"].as_u64().unwrap() as usize;
        let compared = compare_cases(&golden(name), &cases, new_tokens);
        all = [all[0] + compared[0], all[1] + compared[1]];
    }
    assert!(all[0] > 40 && all[1] > 160, "{all:?} sequences compared");
}

/// `POLYHEAD_MANY` names a folder that `make.py --many` wrote; without it there is nothing to compare.
#[test]
fn many_prompts_equal_those_of_transformers() {
    let Some(folder) = std::env::var_os("POLYHEAD_MANY") else { return };
    for name in NAMES {
        let folder = Path::new(&folder).join(name);
        let cases = serde_json::from_slice(&fs::read(folder.join("generate.json")).unwrap()).unwrap();
        let [greedy, beams] = compare_cases(&folder, &cases, 20);
        println!("{name}: {greedy} greedy and {beams} beam sequences equal");
    }
}

#[test]
fn configs_are_read() {
    let layouts = NAMES.map(|name| read_config(golden(name)).unwrap().1);
    let [gpt2, llama] = [CheckpointLayout::Gpt2, CheckpointLayout::Llama];
    assert_eq!(layouts, [gpt2, llama, llama, llama]);
    let text = |name: &str| format!("{:?}", read_config(golden(name)).unwrap().0);
    for (name, expected) in [
        ("gpt2", "start_id: 2"),
        ("gpt2", "position: Learned"),
        ("llama", "Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 32 }"),
        ("llama", "n_key_heads: Some(2)"),
        ("qwen2", "Biases { query_key_value: true, output: false, feed_forward: false }"),
        ("qwen2", "Yarn { factor: 4.0, fast: 32.0, slow: 1.0, original: 16, attention: 1.138"),
        ("mistral", "Window { distance: 6 }"),
        ("mistral", "d_key: Some(6)"),
        ("mistral", "scaling: Some(Linear { factor: 2.0 })"),
    ] {
        assert!(text(name).contains(expected), "{name}: {} does not have {expected}", text(name));
    }
}

/// `POLYHEAD_SAVE` names a folder that keeps what is written, for `check_saved.py`.
#[test]
fn folders_are_written_as_they_were_read() {
    let kept = std::env::var_os("POLYHEAD_SAVE").map(PathBuf::from);
    for name in NAMES {
        let (config, layout) = read_config(golden(name)).unwrap();
        let checkpoint = load(golden(name), None).unwrap();
        for dtype in [Dtype::F32, Dtype::F16] {
            let temporary = tempfile::tempdir().unwrap();
            let folder = kept.as_deref().unwrap_or(temporary.path()).join(format!("{name}-{dtype}"));
            let options = SaveOptions { layout, dtype, max_shard_bytes: 20_000 };
            save(&folder, &config, &checkpoint.parameters, &options).unwrap();
            assert_eq!(read_config(&folder).unwrap(), (config.clone(), layout), "{name}");
            let again = load(&folder, None).unwrap();
            for (id, name, _) in checkpoint.parameters.declared().filter(|_| dtype == Dtype::F32) {
                assert_eq!(
                    again.parameters.value(id).data(),
                    checkpoint.parameters.value(id).data(),
                    "{name}"
                );
            }
        }
    }
}

/// A copy of a golden folder with a changed config.
fn changed(name: &str, changes: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    fs::write(path, config.to_string()).unwrap();
    folder
}

#[test]
fn what_cannot_be_computed_is_refused() {
    let window = json!({ "use_sliding_window": true, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"] });
    for (name, changes, expected) in [
        ("gpt2", json!({ "scale_attn_weights": false }), "scale_attn_weights is false, expected true"),
        ("gpt2", json!({ "n_embd": 33 }), "which does not divide d_model 33"),
        ("gpt2", json!({ "n_layer": 3 }), "tensors do not fit the config"),
        ("gpt2", json!({ "n_heads": 3 }), "the nearest known one is \"n_head\""),
        (
            "llama",
            json!({ "rope_parameters": { "rope_type": "longrope" } }),
            "rope_type \"longrope\", expected default, linear",
        ),
        ("llama", json!({ "rope_parameters": { "rope_type": "llama3" } }), "without factor"),
        ("llama", json!({ "mlp_bias": true }), "tensor model.layers.0.mlp.gate_proj.bias is missing"),
        ("llama", json!({ "num_key_value_heads": 3 }), "n_key_heads is 3, expected a divisor of n_heads 4"),
        ("qwen2", window, "1 layers with full attention and 1 with a window"),
        ("mistral", json!({ "hidden_act": "relu6" }), "hidden_act is \"relu6\", expected one of linear"),
        ("mistral", json!({ "model_type": "mixtral" }), "\"gpt2\", \"llama\", \"mistral\", \"qwen2\""),
    ] {
        let folder = changed(name, &changes);
        let found = load(folder.path(), None).unwrap_err().to_string();
        assert!(found.contains(expected), "{found} does not say: {expected}");
    }
}

#[test]
fn one_pass_over_a_prompt_joined_rows_and_int8_change_no_bit() {
    for name in NAMES {
        for dtype in [Dtype::F32, Dtype::Int8] {
            let (model, mut parameters) = loaded(&golden(name));
            parameters.prepare(dtype);
            let capture = Capture::off();
            let decoding = LanguageModelDecoding::new(&model, &parameters, &capture);
            let texts: [&[u32]; 4] =
                [&[5, 9, 7, 44, 3, 8, 21, 60, 15, 33, 71, 12], &[8], &[30, 31, 32, 33, 34], &[90, 3, 4]];
            let more: Vec<u32> = (0..9).map(|index| 10 + 7 * index).collect();
            // Each text alone, token by token.
            let alone: Vec<Vec<Vec<f32>>> = texts
                .iter()
                .map(|text| {
                    let mut state = decoding.start(&[&text[..1]], 1).unwrap();
                    let all: Vec<u32> = text.iter().chain(&more).copied().collect();
                    let steps =
                        all.iter().map(|&token| decoding.step(&mut state, &[token]).unwrap().data().to_vec());
                    steps.skip(text.len() - 1).collect()
                })
                .collect();
            // Two together, two later; then one is dropped, and one doubled.
            let mut state = decoding.start(&texts[..2], 2).unwrap();
            let mut rows: Vec<(usize, usize)> = vec![(0, 0), (1, 0)];
            for round in 0..6 {
                if round == 2 {
                    let other = decoding.start(&texts[2..], 2).unwrap();
                    decoding.join(&mut state, other).unwrap();
                    rows.extend([(2, 0), (3, 0)]);
                }
                if round == 4 {
                    decoding.reorder(&mut state, &[3, 0, 2, 3]);
                    rows = vec![rows[3], rows[0], rows[2], rows[3]];
                }
                let tokens: Vec<u32> = rows
                    .iter()
                    .map(
                        |&(text, step)| if step == 0 { *texts[text].last().unwrap() } else { more[step - 1] },
                    )
                    .collect();
                let found = decoding.step(&mut state, &tokens).unwrap();
                for (found, (text, step)) in found.data().chunks_exact(model.vocab_size()).zip(&mut rows) {
                    assert_eq!(found, alone[*text][*step], "{name} {dtype:?}, text {text}, step {step}");
                    *step += 1;
                }
            }
        }
    }
}

/// Prompts of different lengths in one pass, rows that join, are doubled and dropped, and lines of the cache that are left
/// behind: logits of every step on a GPU against the CPU.
#[test]
fn a_gpu_steps_as_the_cpu() {
    let device = match Device::open("cuda", Math::F32) {
        Ok(device) => device,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    for name in NAMES {
        let (model, parameters) = loaded(&golden(name));
        let moved = parameters.to_device(&device).unwrap();
        let capture = Capture::off();
        let both = [&parameters, &moved].map(|own| LanguageModelDecoding::new(&model, own, &capture));
        let texts: [&[u32]; 4] =
            [&[5, 9, 7, 44, 3, 8, 21, 60, 15, 33, 71, 12], &[8], &[30, 31, 32, 33, 34], &[90, 3, 4]];
        let mut states = both.each_ref().map(|decoding| decoding.start(&texts[..2], 2).unwrap());
        let mut rows = 2;
        for step in 0..70_u32 {
            if step == 20 {
                for (decoding, state) in both.iter().zip(&mut states) {
                    let other = decoding.start(&texts[2..], 2).unwrap();
                    decoding.join(state, other).unwrap();
                }
                rows = 4;
            }
            let parents: &[usize] = match step {
                30 => &[3, 0, 2, 3],
                40 => &[0, 2],
                60 => &[1, 0],
                _ => &[],
            };
            if !parents.is_empty() {
                both.iter().zip(&mut states).for_each(|(decoding, state)| decoding.reorder(state, parents));
                rows = parents.len();
            }
            let tokens: Vec<u32> = (0..rows as u32).map(|row| (7 * step + 31 * row) % 96).collect();
            let [expected, found] = [0, 1]
                .map(|side: usize| both[side].step(&mut states[side], &tokens).unwrap().to_host().unwrap());
            let largest = expected.data().iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
            let pairs = expected.data().iter().zip(found.data());
            let worst = pairs.fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs())) / largest;
            assert!(worst < 1e-4, "{name}, step {step}: off by {worst}");
        }
    }
}
