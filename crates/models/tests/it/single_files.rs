//! Models in one file (`tests/golden/language_models/files.py`): GGUF, and llama2.c's format against NumPy.

use std::fs;
use std::path::{Path, PathBuf};

use polyhead_attention::{Capture, Pass};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load, read_config, save, single};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::{DecodeOptions, Lengths};
use polyhead_models::{LanguageModel, LanguageModelDecoding};
use polyhead_tensor::{Dtype, Parameters, Tape};
use polyhead_text::tokenizer::HuggingFace;
use proptest::prelude::*;
use serde_json::Value;

const FILES: [&str; 4] = ["llama.gguf", "gpt2.gguf", "shared.bin", "own.bin"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/language_models/files").join(name)
}

fn expected() -> Value {
    let file = fs::File::open(golden("expected.json.gz")).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn loaded(path: &Path) -> (LanguageModel, Parameters) {
    let checkpoint = load(path, None).unwrap();
    (checkpoint.model.into_language_model().unwrap(), checkpoint.parameters)
}

fn assert_logits(
    name: &str,
    (model, parameters): &(LanguageModel, Parameters),
    text: &[u32],
    expected: &Value,
) {
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass::new(&tape, parameters, &capture);
    let rows = model.ids([Some(text)].into_iter(), text.len());
    let found = model.forward(&pass, &rows).unwrap();
    let expected = expected.as_array().unwrap();
    assert_eq!(expected.len(), text.len());
    for (found, expected) in found.value().data().chunks_exact(model.vocab_size()).zip(expected) {
        for (found, expected) in found.iter().zip(numbers(expected)) {
            let error = (f64::from(*found) - expected).abs();
            assert!(error < 1e-4, "{name}: off by {error}");
        }
    }
}

fn assert_generates(name: &str, own: &(LanguageModel, Parameters), case: &Value) {
    let text = ids(&case["text"]);
    assert_logits(name, own, &text, &case["logits"]);
    let (model, parameters) = own;
    let capture = Capture::off();
    let decoding = LanguageModelDecoding::new(model, parameters, &capture);
    let after = ids(&case["ids"]);
    let lengths = Lengths { max: after.len(), ..Lengths::default() };
    // No token ends the text: the format has none.
    let options = DecodeOptions { end_id: u32::MAX, lengths, ..DecodeOptions::default() };
    let found = greedy(&decoding, &[&text], &options).unwrap().remove(0);
    assert_eq!(found.ids, after, "{name}");
}

#[test]
fn gguf_files_give_the_logits_of_transformers_with_the_same_values() {
    let expected = expected();
    for name in ["llama.gguf", "gpt2.gguf"] {
        let own = loaded(&golden(name));
        assert_logits(name, &own, &ids(&expected["text"]), &expected[name]["logits"]);
        // Values of Q8_0 are exact.
        let table = own.1.find("embedding.weight").unwrap();
        let found: Vec<f64> = own.1.value(table).data()[..64].iter().map(|value| f64::from(*value)).collect();
        assert_eq!(found, numbers(&expected[name]["embedding"]), "{name}");
        let tokenizer = single::tokenizer(golden(name)).unwrap().unwrap();
        assert_eq!((tokenizer.tokens.len(), tokenizer.tokens[95].as_str()), (96, "t95"));
    }
    let config = format!("{:?}", read_config(golden("llama.gguf")).unwrap());
    assert!(config.contains("Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192 }"), "{config}");
    assert!(config.contains("Llama)"), "{config}");
}

#[test]
fn llama2c_files_give_logits_and_ids_of_numpy() {
    let expected = expected();
    for name in ["shared.bin", "own.bin"] {
        assert_generates(name, &loaded(&golden(name)), &expected[name]);
    }
}

/// `POLYHEAD_STORIES` names a real file, and `POLYHEAD_STORIES_JSON` what `files.py --stories` wrote for it.
#[test]
fn a_trained_llama2c_file_gives_logits_and_ids_of_numpy() {
    let variables = ["POLYHEAD_STORIES", "POLYHEAD_STORIES_JSON"].map(std::env::var_os);
    let [Some(file), Some(json)] = variables else { return };
    let own = loaded(Path::new(&file));
    let cases: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    for case in cases.as_array().unwrap() {
        assert_generates("stories", &own, case);
        println!("{} logits rows and {} ids equal", ids(&case["text"]).len(), ids(&case["ids"]).len());
    }
}

#[test]
fn a_file_becomes_a_folder_of_hugging_face() {
    let expected = expected();
    for (name, layout) in [("llama.gguf", CheckpointLayout::Llama), ("gpt2.gguf", CheckpointLayout::Gpt2)] {
        let checkpoint = load(golden(name), None).unwrap();
        let config = checkpoint.model.config();
        assert_eq!(CheckpointLayout::fitting(&config), layout);
        let folder = tempfile::tempdir().unwrap();
        let options = SaveOptions { layout, ..SaveOptions::default() };
        save(folder.path(), &config, &checkpoint.parameters, &options).unwrap();
        assert_logits(name, &loaded(folder.path()), &ids(&expected["text"]), &expected[name]["logits"]);
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A GGUF file with an architecture and a tensor of the given type.
fn gguf(architecture: &str, kind: u32) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend([text("general.architecture"), 8_u32.to_le_bytes().to_vec(), text(architecture)].concat());
    bytes.extend(
        [text("token_embd.weight"), 1_u32.to_le_bytes().to_vec(), 32_u64.to_le_bytes().to_vec()].concat(),
    );
    bytes.extend([&kind.to_le_bytes()[..], &[0; 8 + 300]].concat());
    bytes
}

fn problem(bytes: &[u8], ending: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("model.{ending}"));
    fs::write(&path, bytes).unwrap();
    load(&path, None).unwrap_err().to_string()
}

#[test]
fn what_is_not_supported_is_named() {
    for (bytes, expected) in [
        (gguf("llama", 12), "tensor token_embd.weight is quantised as Q4_K, expected F32, F16, BF16 or Q8_0"),
        (gguf("llama", 77), "quantised as type 77"),
        (gguf("mamba", 0), "architecture \"mamba\", expected one of llama, qwen2, gpt2"),
        (gguf("llama", 0), "no llama.embedding_length in the metadata"),
        (b"GGUF\x01\0\0\0".to_vec(), "version 1 of GGUF, expected 2 or 3"),
        (
            b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
            "18446744073709551615 entries at byte 16",
        ),
        (Vec::new(), "4 bytes expected at byte 0 of 0"),
        (vec![7; 40], "neither GGUF nor a model of llama2.c"),
    ] {
        let found = problem(&bytes, "gguf");
        assert!(found.contains(expected), "{found} does not say: {expected}");
    }
    let mut shorter = fs::read(golden("own.bin")).unwrap();
    shorter.truncate(shorter.len() - 4);
    assert!(problem(&shorter, "bin").contains("which is not the size of a model of llama2.c"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_damaged_file_never_panics(
        file in 0..4_usize,
        length in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = fs::read(golden(FILES[file])).unwrap();
        // Half of the files are cut off; most changes are to the head, where lengths are.
        if length.index(2) == 0 {
            bytes.truncate(length.index(bytes.len()));
        }
        let head = bytes.len().min(3000);
        for (at, byte) in changes.iter().filter(|_| head > 0) {
            bytes[at.index(head)] = *byte;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        fs::write(&path, bytes).unwrap();
        let _ = load(&path, Some(Dtype::Int8));
    }
}

#[test]
fn embedded_tokenisers_give_the_ids_of_their_programs() {
    let file = fs::File::open(golden("tokenizers.json.gz")).unwrap();
    let all: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
    for case in all.as_array().unwrap() {
        let strings =
            |key: &str| case[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        let start = case["start"].as_u64().map(|id| id as u32);
        let embedded = single::GgufTokenizer {
            model: case["model"].as_str().unwrap().to_owned(),
            splitting: case["splitting"].as_str().unwrap().to_owned(),
            tokens: strings("tokens").collect(),
            scores: numbers(&case["scores"]).into_iter().map(|score| score as f32).collect(),
            kinds: ids(&case["kinds"]),
            merges: strings("merges").collect(),
            start,
            adds_start: case["adds_start"] == Value::Bool(true),
        };
        let json = embedded.to_json().unwrap();
        let tokenizer = HuggingFace::from_bytes(json.as_bytes(), "tokenizer.json").unwrap();
        for pair in case["cases"].as_array().unwrap() {
            let text = pair[0].as_str().unwrap();
            assert_eq!(tokenizer.encode(text).unwrap().ids, ids(&pair[1]), "{} {text:?}", embedded.model);
            let whole = tokenizer.encode_with_special(text).unwrap().ids;
            assert_eq!(whole, start.into_iter().chain(ids(&pair[1])).collect::<Vec<_>>(), "{text:?}");
            assert_eq!(tokenizer.decode(&ids(&pair[1])).unwrap(), text, "{}", embedded.model);
        }
    }
    let unknown = single::GgufTokenizer { model: "bert".into(), ..single::GgufTokenizer::default() };
    assert_eq!(unknown.to_json(), Err("bert".to_owned()));
}
