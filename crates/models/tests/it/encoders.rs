//! BERT-like encoders of Hugging Face's transformers (`tests/golden/encoders/make.py`): states, attention weights and heads;
//! folders written and read; configs that are refused.

use std::fs;
use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::checkpoint::safetensors::{Array, ArrayData, WriteOptions, write};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load, read_config, save};
use polyhead_models::{Encoder, Ids};
use polyhead_tensor::{Parameters, Tape, Tensor};
use serde_json::{Value, json};

const TOLERANCE: f64 = 1e-4;

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/encoders/encoders.json.gz");
    serde_json::from_reader(flate2::read::GzDecoder::new(fs::File::open(path).unwrap())).unwrap()
}

/// The families with their cases: the encoder alone, then with each head.
fn cases(golden: &Value) -> Vec<(&str, &Value)> {
    let families = golden["models"].as_object().unwrap().iter();
    families
        .flat_map(|(name, cases)| cases.as_array().unwrap().iter().map(|case| (name.as_str(), case)))
        .collect()
}

/// The values that `make.py` gives a tensor.
pub(crate) fn weight(name: &str, shape: &[usize]) -> Vec<f32> {
    let start = u64::from(crc32(name.as_bytes()));
    let is_norm = shape.len() == 1 && name.ends_with(".weight");
    let count: usize = shape.iter().product();
    let value = |index: u64| {
        let bits = ((start + index * 2_654_435_761) % (1 << 32)) >> 8;
        (bits as f64 / f64::from(1 << 24) - 0.5) * 0.8 + if is_norm { 1.0 } else { 0.0 }
    };
    (0..count as u64).map(|index| value(index) as f32).collect()
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    };
    !bytes.iter().fold(!0, step)
}

/// The folder of a case.
fn folder(case: &Value, rename: impl Fn(&str) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<f32>)> = case["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| {
            let name = tensor[0].as_str().unwrap();
            let shape: Vec<usize> =
                tensor[1].as_array().unwrap().iter().map(|size| size.as_u64().unwrap() as usize).collect();
            let values = weight(name, &shape);
            (rename(name), shape, values)
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

fn loaded(folder: &Path) -> (Encoder, Parameters) {
    let checkpoint = load(folder, None).unwrap();
    (checkpoint.model.into_encoder().unwrap(), checkpoint.parameters)
}

pub(crate) fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn ids(list: &Value) -> Vec<u32> {
    numbers(list).into_iter().map(|id| id as u32).collect()
}

/// Both texts in one batch, so that the first is padded.
fn batch(golden: &Value, model: &Encoder) -> Ids {
    let texts: Vec<Vec<u32>> = golden["texts"].as_array().unwrap().iter().map(ids).collect();
    let batch = model.ids(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    if model.token_types() < 2 {
        return batch;
    }
    let types = ids(&golden["types"]);
    batch.with_types(&[&types, &vec![0; texts[1].len()]])
}

fn assert_near(name: &str, found: &[f32], expected: &Value) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(expected) {
        let error = (f64::from(*found) - expected).abs();
        assert!(error < TOLERANCE, "{name}: off by {error}");
    }
}

/// The rows of one text in rows × length × width.
fn own(tensor: &Tensor, row: usize, length: usize) -> &[f32] {
    let &[_, longest, width] = tensor.shape() else { panic!("three axes") };
    &tensor.data()[row * longest * width..][..length * width]
}

/// The weights of one text, heads × queries × keys; of the queries each `every`-th.
fn own_weights(tensor: &Tensor, row: usize, length: usize, every: usize) -> Vec<f32> {
    let &[_, heads, longest, _] = tensor.shape() else { panic!("four axes") };
    let mut found = Vec::new();
    for head in 0..heads {
        for query in (0..length).step_by(every) {
            found.extend(&tensor.data()[((row * heads + head) * longest + query) * longest..][..length]);
        }
    }
    found
}

/// Checks the outputs of a folder against those of transformers.
fn check(golden: &Value, name: &str, case: &Value, folder: &Path) {
    let (model, parameters) = loaded(folder);
    let (tape, capture) = (Tape::inference(), Capture::everything());
    let pass = Pass::new(&tape, &parameters, &capture);
    let batch = batch(golden, &model);
    let [short, long] = [0, 1].map(|row| batch.lengths().host()[row] as usize);
    if let Some(expected) = case.get("classes") {
        let logits = model.classify(&pass, &batch).unwrap();
        assert_near(name, &logits.value().data()[..3], expected);
    } else if let Some(expected) = case.get("token_classes") {
        let logits = model.token_logits(&pass, &batch).unwrap();
        assert_near(name, own(logits.value(), 0, short), expected);
    } else if let Some(expected) = case.get("words") {
        let states = model.states(&pass, &batch).unwrap();
        let logits = model.word_logits(&pass, states).unwrap();
        assert_near(name, own(logits.value(), 0, short), expected);
    } else {
        let states = model.states(&pass, &batch).unwrap();
        assert_near(name, own(states.value(), 0, short), &case["states"]);
        assert_near(name, own(states.value(), 1, long), &case["long_states"]);
        let trace = capture.take();
        let layers = case["layers"].as_array().unwrap();
        for (layer, expected) in layers.iter().enumerate().take(layers.len() - 1) {
            let wanted = format!("encoder.layers.{layer}");
            let (_, found) = trace.activations.iter().find(|(name, _)| *name == wanted).unwrap();
            assert_near(&format!("{name} {wanted}"), own(found, 0, short), expected);
        }
        assert_eq!(trace.weights.len(), layers.len());
        for (layer, found) in trace.weights.iter().enumerate() {
            let what = format!("{name}, attention of layer {layer}");
            assert_near(&what, &own_weights(&found.weights, 0, short, 1), &case["attention"][layer]);
            assert_near(&what, &own_weights(&found.weights, 1, long, 5), &case["long_attention"][layer]);
        }
        if let Some(expected) = case.get("pooled") {
            let pooled = model.pooled(&pass, &batch).unwrap();
            assert_near(name, &pooled.value().data()[..8], expected);
        }
    }
}

#[test]
fn states_attention_and_heads_equal_those_of_transformers() {
    let golden = golden();
    let all = cases(&golden);
    assert_eq!(all.len(), 24);
    for (name, case) in all {
        let what = format!("{name} {}", case["config"]["architectures"]);
        check(&golden, &what, case, folder(case, str::to_owned).path());
    }
}

/// With `POLYHEAD_SAVE=DIR` the folders stay there for `tests/golden/encoders/check_saved.py`.
#[test]
fn folders_are_written_as_they_were_read() {
    let golden = golden();
    for (index, (name, case)) in cases(&golden).into_iter().enumerate() {
        let source = folder(case, str::to_owned);
        let checkpoint = load(source.path(), None).unwrap();
        let (config, layout) = read_config(source.path()).unwrap();
        assert_eq!(CheckpointLayout::fitting(&config), layout, "{name}");
        let temporary = tempfile::tempdir().unwrap();
        let out = match std::env::var_os("POLYHEAD_SAVE") {
            Some(all) => Path::new(&all).join(format!("{name}-{}", index % 4)),
            None => temporary.path().join("saved"),
        };
        save(&out, &config, &checkpoint.parameters, &SaveOptions { layout, ..SaveOptions::default() })
            .unwrap();
        assert_eq!(read_config(&out).unwrap(), (config, layout), "{name}");
        check(&golden, &format!("{name}, saved"), case, &out);
    }
}

#[test]
fn names_without_a_prefix_and_of_tensorflow_are_read() {
    let golden = golden();
    for (name, case) in cases(&golden) {
        let rename = |name: &str| {
            let bare = ["bert.", "roberta.", "distilbert.", "mpnet.", "model."];
            let name = bare.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        };
        check(&golden, &format!("{name}, renamed"), case, folder(case, rename).path());
    }
}

#[test]
fn a_head_that_is_missing_or_unknown_is_found_out() {
    let golden = golden();
    let bert = &golden["models"]["bert"];
    // A masked language model saved without its head is an encoder.
    let mut bare = bert[0].clone();
    bare["config"]["architectures"] = json!(["BertForMaskedLM"]);
    check(&golden, "without a head", &bare, folder(&bare, str::to_owned).path());
    let error = |key: &str, value: Value| {
        let mut case = bert[0].clone();
        case["config"][key] = value;
        read_config(folder(&case, str::to_owned).path()).unwrap_err().to_string()
    };
    let found = error("architectures", json!(["BertForQuestionAnswering"]));
    assert!(
        found.contains("architectures names \"BertForQuestionAnswering\", expected one that ends in Model"),
        "{found}"
    );
    let found = error("position_embedding_type", json!("relative_key"));
    assert!(found.contains("position_embedding_type is \"relative_key\", expected \"absolute\""), "{found}");
    let found = error("hidden_sizes", json!(8));
    assert!(
        found.contains("unknown key \"hidden_sizes\"; the nearest known one is \"hidden_size\""),
        "{found}"
    );
    let found = error("tie_word_embeddings", json!(false));
    assert!(found.contains("tie_word_embeddings is false, expected true"), "{found}");
    let mut roberta = golden["models"]["roberta"][0].clone();
    roberta["config"]["max_position_embeddings"] = json!(2);
    let found = read_config(folder(&roberta, str::to_owned).path()).unwrap_err().to_string();
    assert!(found.contains("max_position_embeddings is 2, expected more than 2"), "{found}");
    let mut modern = golden["models"]["modernbert"][0].clone();
    modern["config"]["layer_types"] =
        json!(["full_attention", "sliding_attention", "full_attention", "full_attention"]);
    let found = read_config(folder(&modern, str::to_owned).path()).unwrap_err().to_string();
    assert!(found.contains("expected 4, full attention in every n-th"), "{found}");
}

#[test]
fn an_encoder_is_not_written_as_a_class_that_computes_something_else() {
    let golden = golden();
    let source = folder(&golden["models"]["mpnet"][0], str::to_owned);
    let checkpoint = load(source.path(), None).unwrap();
    let out = tempfile::tempdir().unwrap();
    let options = SaveOptions { layout: CheckpointLayout::Bert, ..SaveOptions::default() };
    let error = save(out.path(), checkpoint.model.config(), &checkpoint.parameters, &options).unwrap_err();
    let found = error.to_string();
    assert!(found.contains("no Bert model: token_types is 0, expected at least 1"), "{found}");
    let options = SaveOptions { layout: CheckpointLayout::Distilbert, ..SaveOptions::default() };
    let error = save(out.path(), checkpoint.model.config(), &checkpoint.parameters, &options).unwrap_err();
    let found = error.to_string();
    assert!(
        found.contains("position_buckets is 32, expected 0; position_offset is 2, expected 0"),
        "{found}"
    );
}
