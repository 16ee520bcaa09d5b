//! `polyhead info`, `parity`, `import`, `export` and `quantize` on models made with Hugging Face's and PyTorch's code.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::{Run, names, polyhead};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden")
}

/// Runs in the folder of golden models.
fn run(arguments: &[&str]) -> Run {
    polyhead(&golden(), arguments, "")
}

fn info(folder: &str) -> Value {
    serde_json::from_str(&run(&["info", folder, "--format", "json"]).ok()).unwrap()
}

/// A copy of a golden model that a test may damage.
fn copy(folder: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in names(&golden().join(folder)) {
        let path = golden().join(folder).join(&name);
        fs::write(copy.path().join(name), fs::read(path).unwrap()).unwrap();
    }
    copy
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Changes a key of a JSON file.
fn set(path: &Path, key: &str, value: Value) {
    let mut object: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    object[key] = value;
    fs::write(path, object.to_string()).unwrap();
}

/// The header of a safetensors file and where its numbers begin.
fn header(bytes: &[u8]) -> (Value, usize) {
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[8..start]).unwrap(), start)
}

/// Adds one to the first number of an array.
fn damage(path: &Path, name: &str) {
    let mut bytes = fs::read(path).unwrap();
    let (header, start) = header(&bytes);
    let at = start + header[name]["data_offsets"][0].as_u64().unwrap() as usize;
    let number = f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) + 1.0;
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

/// Asserts one `error:` line with these parts, and a `hint:` line at the end.
#[track_caller]
fn assert_error(run: Run, code: i32, parts: &[&str]) {
    let err = run.failed(code);
    let error = err.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{err}"));
    assert!(err.trim_end().lines().last().unwrap().starts_with("hint: "), "{err}");
    for part in parts {
        assert!(error.contains(part), "{err} does not say {part}");
    }
}

#[test]
fn info_describes_a_model() {
    let opus = info("opus");
    assert_eq!((&opus["layout"], &opus["weights"]["dtypes"]), (&json!("marian"), &json!(["F32"])));
    // 211 × 16; 2 × (4 × (16 × 16 + 16) + 2 × 16 × 24 + 24 + 16 + 4 × 16); the same with 4 × (16 × 16 + 16) + 32 more.
    let counts = json!({
        "total": 13_667, "embeddings": 3376, "encoder": 3920, "decoder": 6160, "output": 211
    });
    assert_eq!(opus["parameters"], counts);
    assert_eq!(opus["memory_bytes"]["f32"], 4 * 13_667);
    // 2 layers × 16 numbers × (key and value) × 4 bytes.
    assert_eq!(opus["cache_bytes"], json!({ "per_target_token": 256, "per_source_token": 256 }));
    assert_eq!(opus["tokenizers"][0]["vocab_size"], 211);
    assert_eq!(opus["generation"]["num_beams"], 4);
    assert_eq!(opus["marian"], json!({ "compatible": true, "loads_folder": true, "reasons": [] }));
    let torch = info("torch/pre");
    assert_eq!((&torch["layout"], &torch["architecture"]["norm_order"]), (&json!("torch"), &json!("pre")));
    assert_eq!(torch["marian"]["compatible"], false);
    assert!(torch["marian"]["reasons"][0].as_str().unwrap().contains("pre-norm"), "{torch}");
    assert_eq!(info("marian/silu")["weights"]["files"].as_array().unwrap().len(), 3);
    assert_eq!(info("marian/tanh")["weights"]["dtypes"], json!(["F16"]));
    let out = run(&["info", "opus"]).ok();
    for part in
        ["13,667 (embeddings 3,376,", "63,756 bytes, F32", "211 entries for 211 rows", "loads this folder"]
    {
        assert!(out.contains(part), "{out}");
    }
}

#[test]
fn info_describes_the_bundled_model_by_default() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let [default, named] = [&["info"][..], &["info", "models/default"]].map(|arguments| {
        let out = polyhead(&root, arguments, "").ok();
        out.lines().filter(|line| !line.starts_with("folder ")).collect::<Vec<_>>().join("\n")
    });
    assert_eq!(default, named);
}

#[test]
fn every_golden_folder_is_described_and_agrees() {
    for name in ["gelu", "gelu_new", "opus", "quick_gelu", "relu", "sigmoid", "silu", "swish", "tanh"] {
        let folder = format!("marian/{name}");
        assert_eq!(info(&folder)["marian"]["loads_folder"], true, "{folder}");
        let reference = format!("{folder}/reference.safetensors");
        let out = run(&["parity", "--model", &folder, "--reference", &reference]).ok();
        assert!(out.ends_with("all 31 arrays agree\n"), "{out}");
    }
    for folder in ["torch/pre", "torch/post"] {
        let reference = format!("{folder}/reference.safetensors");
        let json = run(&["parity", "--model", folder, "--reference", &reference, "--format", "json"]).ok();
        let report: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&report["agrees"], &report["first_divergence"]), (&json!(true), &Value::Null));
        assert_eq!(report["arrays"].as_array().unwrap().len(), 25, "{folder}");
    }
}

#[test]
fn presets_have_the_counts_of_the_paper() {
    for (preset, count, printed) in
        [("base", "63,082,496", "65 million"), ("big", "214,245,376", "213 million")]
    {
        let out = run(&["info", "--preset", preset, "--vocab-size", "37000"]).ok();
        assert!(out.contains(&format!("parameters     {count} (")) && out.contains(printed), "{out}");
    }
    assert!(!run(&["info", "--preset", "tiny", "--vocab-size", "8000"]).ok().contains("paper"));
    assert_error(run(&["info", "--preset", "tiny", "--vocab-size", "0"]), 1, &["source_vocab_size is 0"]);
}

#[test]
fn a_config_without_weights_is_described() {
    for folder in ["opus", "torch/post"] {
        let copy = copy(folder);
        fs::remove_file(copy.path().join("model.safetensors")).unwrap();
        let alone = info(text(copy.path()));
        assert_eq!(alone["parameters"], info(folder)["parameters"]);
        assert_eq!((&alone["weights"], &alone["marian"]["loads_folder"]), (&Value::Null, &json!(false)));
        assert!(alone["notes"][0].as_str().unwrap().contains("no weights"), "{alone}");
    }
}

#[test]
fn a_damaged_layer_is_named() {
    let copy = copy("marian/relu");
    damage(&copy.path().join("model.safetensors"), "model.encoder.layers.1.fc2.bias");
    let arguments =
        ["parity", "--model", text(copy.path()), "--reference", "marian/relu/reference.safetensors"];
    let run = polyhead(&golden(), &arguments, "");
    let last = run.out.lines().last().unwrap().to_owned();
    assert!(
        last.starts_with("first divergence: encoder.layers.1.feed_forward (absolute 1.0e0, relative"),
        "{last}"
    );
    let verdicts: Vec<bool> = run.out.lines().skip(1).map(|line| line.ends_with("DIVERGES")).collect();
    assert_eq!(verdicts.iter().position(|diverges| *diverges), Some(7), "{}", run.out);
    assert_error(
        run,
        1,
        &["diverges from marian/relu/reference.safetensors at encoder.layers.1.feed_forward"],
    );
    polyhead(&golden(), &[&arguments[..], &["--absolute", "100"]].concat(), "").ok();
}

#[test]
fn a_model_computes_the_same_in_every_layout() {
    for (folder, layouts) in
        [("marian/relu", &["marian", "polyhead"][..]), ("torch/pre", &["torch", "polyhead"])]
    {
        let out = tempfile::tempdir().unwrap();
        let reference = format!("{folder}/reference.safetensors");
        let mut from = folder.to_owned();
        for layout in layouts {
            let to = text(&out.path().join(layout)).to_owned();
            let arguments = ["export", &from, "--out", &to, "--layout", layout, "--max-shard-size", "30kB"];
            let err = polyhead(&golden(), &arguments, "").err;
            assert!(err.contains(&format!("({layout} layout, f32, ")), "{err}");
            let described = info(&to);
            assert_eq!(described["layout"], *layout, "{err}");
            assert!(described["weights"]["files"].as_array().unwrap().len() > 1, "{described}");
            run(&["parity", "--model", &to, "--reference", &reference, "--absolute", "1e-5"]).ok();
            from = to;
        }
        let back = text(&out.path().join("back")).to_owned();
        let err = run(&["import", &from, "--out", &back]).err;
        assert_eq!(err.contains("since this is no Marian model: pre-norm"), folder == "torch/pre", "{err}");
        run(&["parity", "--model", &back, "--reference", &reference]).ok();
        if folder == "marian/relu" {
            // Through two layouts and back to Hugging Face's bytes.
            let [theirs, ours] = [golden().join(folder), back.into()].map(|folder: PathBuf| {
                let bytes = fs::read(folder.join("model.safetensors")).unwrap();
                let start = header(&bytes).1;
                bytes[start..].to_vec()
            });
            assert_eq!(theirs, ours);
        }
    }
}

#[test]
fn fairseq_has_no_bias_on_its_logits() {
    let (copy, out) = (copy("marian/relu"), tempfile::tempdir().unwrap());
    let [fairseq, back] = ["fairseq", "back"].map(|name| out.path().join(name));
    let export = ["export", text(copy.path()), "--out", text(&fairseq), "--layout", "fairseq"];
    assert_error(run(&export), 1, &["the fairseq layout has no name for output.bias"]);
    assert!(!fairseq.exists());
    // The same model without its bias, which is the first array of the file.
    let path = copy.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let (mut header, start) = header(&bytes);
    let bias = header.as_object_mut().unwrap().remove("final_logits_bias").unwrap();
    let [begin, end] = [0, 1].map(|side| bias["data_offsets"][side].as_u64().unwrap());
    assert_eq!(begin, 0);
    for (_, array) in header.as_object_mut().unwrap().iter_mut().filter(|(name, _)| *name != "__metadata__") {
        for side in [0, 1] {
            array["data_offsets"][side] = json!(array["data_offsets"][side].as_u64().unwrap() - end);
        }
    }
    let (header, numbers) = (header.to_string(), &bytes[start + end as usize..]);
    fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), numbers].concat())
        .unwrap();
    run(&export).ok();
    assert_eq!(info(text(&fairseq))["layout"], "fairseq");
    run(&["import", text(&fairseq), "--out", text(&back)]).ok();
    assert_eq!(info(text(&back))["layout"], "marian");
    assert!(fs::read(back.join("model.safetensors")).unwrap().ends_with(numbers));
}

#[test]
fn models_in_one_file_become_folders() {
    let out = tempfile::tempdir().unwrap();
    for (file, layout) in [("llama.gguf", "llama"), ("gpt2.gguf", "gpt2"), ("own.bin", "llama")] {
        let to = out.path().join(file);
        let err = run(&["import", &format!("language_models/files/{file}"), "--out", text(&to)]).err;
        assert!(err.contains(&format!("({layout} layout, f32")), "{err}");
        assert!(err.contains("copy tokenizer.json or tokenizer.model into the folder"), "{err}");
        assert_eq!(names(&to), ["config.json", "model.safetensors"]);
        assert_eq!(info(text(&to))["layout"], layout);
        let int8 = out.path().join(format!("{file}-int8"));
        assert!(run(&["quantize", text(&to), "--out", text(&int8)]).ok().starts_with("quantised "));
        assert_eq!(info(text(&int8))["layout"], "polyhead");
    }
    assert_error(
        run(&["import", "language_models/make.py", "--out", text(&out.path().join("none"))]),
        1,
        &["make.py: a file, expected a model folder"],
    );
}

#[test]
fn tokenisers_and_generation_settings_are_copied() {
    let out = tempfile::tempdir().unwrap();
    let to = out.path().join("new/model");
    run(&["import", "opus", "--out", text(&to), "--dtype", "bf16"]).ok();
    for name in ["generation_config.json", "source.spm", "target.spm", "tokenizer_config.json", "vocab.json"]
    {
        assert_eq!(
            fs::read(to.join(name)).unwrap(),
            fs::read(golden().join("opus").join(name)).unwrap(),
            "{name}"
        );
    }
    let described = info(text(&to));
    assert_eq!((&described["weights"]["dtypes"], &described["layout"]), (&json!(["BF16"]), &json!("marian")));
    assert_error(
        run(&["import", "opus", "--out", text(&to)]),
        1,
        &["already holds config.json, generation_config.json"],
    );
    // The tokeniser of the older model is removed.
    run(&["import", "torch/pre", "--out", text(&to), "--overwrite"]).ok();
    assert_eq!(names(&to), ["config.json", "model.safetensors"]);
    // Weights keep their dtype unless --dtype is given.
    run(&["import", "marian/tanh", "--out", text(&to), "--overwrite"]).ok();
    assert_eq!(info(text(&to))["weights"]["dtypes"], json!(["F16"]));
}

#[test]
fn generation_settings_in_an_older_config_are_preserved() {
    let copy = copy("opus");
    fs::remove_file(copy.path().join("generation_config.json")).unwrap();
    set(&copy.path().join("config.json"), "num_beams", json!(6));
    let out = tempfile::tempdir().unwrap();
    run(&["import", text(copy.path()), "--out", text(out.path())]).ok();
    assert_eq!(info(text(out.path()))["generation"]["num_beams"], 6);
}

#[test]
fn files_are_replaced_with_overwrite_only() {
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("README.md"), "mine").unwrap();
    assert_error(run(&["import", "opus", "--out", text(out.path())]), 1, &["already holds README.md"]);
    assert_eq!(names(out.path()), ["README.md"]);
    run(&["import", "opus", "--out", text(out.path()), "--overwrite"]).ok();
    assert_eq!(fs::read_to_string(out.path().join("README.md")).unwrap(), "mine");
    let copy = copy("opus");
    let again = copy.path().join(".");
    let same = ["import", text(copy.path()), "--out", text(&again), "--overwrite"];
    assert_error(run(&same), 2, &["both FROM and --out"]);
    let file = ["import", "opus", "--out", "opus/vocab.json"];
    assert_error(run(&file), 1, &["a file, expected a folder to write to"]);
}

#[test]
fn a_failed_export_leaves_nothing() {
    let out = tempfile::tempdir().unwrap();
    let copy = copy("opus");
    // 1e30 is no f16.
    let path = copy.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let (header, start) = header(&bytes);
    let at = start + header["model.shared.weight"]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[at..at + 4].copy_from_slice(&1e30_f32.to_le_bytes());
    fs::write(path, bytes).unwrap();
    let to = out.path().join("to");
    let arguments = ["import", text(copy.path()), "--out", text(&to), "--dtype", "f16"];
    assert_error(run(&arguments), 1, &["holds 1e30, which overflows f16"]);
    assert_error(
        run(&["export", "torch/pre", "--out", text(&to), "--layout", "marian"]),
        1,
        &["not a Marian model: pre-norm"],
    );
    assert!(names(out.path()).is_empty(), "{:?}", names(out.path()));
}

#[test]
fn a_tokeniser_must_fit_the_embeddings() {
    let copy = copy("opus");
    let vocabulary = copy.path().join("vocab.json");
    set(&vocabulary, "▁more", json!(211));
    let run = polyhead(copy.path(), &["info", "."], "");
    assert!(run.out.contains("212 entries for 211 rows"), "{}", run.out);
    assert_error(
        run,
        1,
        &[".: the tokeniser has 212 entries with ids up to 211, but the embedding has 211 rows"],
    );
    // One entry fewer than rows, but an id that lies outside.
    let mut object: Value = serde_json::from_slice(&fs::read(&vocabulary).unwrap()).unwrap();
    let map = object.as_object_mut().unwrap();
    map.retain(|_, id| *id != json!(100) && *id != json!(101));
    fs::write(&vocabulary, object.to_string()).unwrap();
    assert_error(polyhead(copy.path(), &["info", "."], ""), 1, &["210 entries with ids up to 211"]);
    object.as_object_mut().unwrap().retain(|_, id| id.as_u64().unwrap() < 200);
    fs::write(&vocabulary, object.to_string()).unwrap();
    let out = polyhead(copy.path(), &["info", "."], "").ok();
    assert!(out.contains("11 of 211 rows of the embedding have no id in the tokeniser"), "{out}");
}

#[test]
fn dictionaries_of_fairseq_find_their_side() {
    let copy = copy("torch/post");
    let dictionary = |count: usize| (0..count).map(|i| format!("w{i} 1\n")).collect::<String>();
    fs::write(copy.path().join("dict.aa.txt"), dictionary(25)).unwrap();
    fs::write(copy.path().join("dict.bb.txt"), dictionary(27)).unwrap();
    let described = info(text(copy.path()));
    for (place, side, name) in [(0, "source", "dict.bb.txt"), (1, "target", "dict.aa.txt")] {
        let tokenizer = &described["tokenizers"][place];
        assert_eq!((&tokenizer["side"], &tokenizer["n_ids"]), (&json!(side), &tokenizer["embedding_rows"]));
        assert!(tokenizer["kind"].as_str().unwrap().ends_with(name), "{tokenizer}");
    }
    // args.json takes precedence over the sizes.
    fs::write(copy.path().join("args.json"), r#"{"source_lang": "aa"}"#).unwrap();
    assert_error(run(&["info", text(copy.path())]), 1, &["the target tokeniser has 31 entries"]);
}

#[test]
fn bad_folders_are_one_line_and_a_hint() {
    let empty = tempfile::tempdir().unwrap();
    let out = empty.path().join("out");
    let [truncated, t5, wrong, broken] = [(); 4].map(|()| copy("opus"));
    let weights = truncated.path().join("model.safetensors");
    fs::write(&weights, &fs::read(&weights).unwrap()[..30_000]).unwrap();
    set(&t5.path().join("config.json"), "model_type", json!("t5"));
    set(&wrong.path().join("config.json"), "encoder_layers", json!(3));
    fs::write(broken.path().join("config.json"), "{").unwrap();
    let cases = [
        (Path::new("missing"), "missing: no such folder, expected a model folder"),
        (Path::new("record.py"), "record.py: a file, expected a model folder"),
        (empty.path(), "neither config.json nor args.json is there"),
        (truncated.path(), "model.safetensors: tensor "),
        (t5.path(), "config.json: model_type \"t5\", expected \"marian\""),
        (wrong.path(), "model.safetensors: 16 tensors do not fit the config:"),
        (broken.path(), "config.json: not a JSON object"),
    ];
    for (folder, message) in cases {
        let folder = text(folder);
        assert_error(run(&["info", folder]), 1, &[message]);
        let reference = "marian/relu/reference.safetensors";
        assert_error(run(&["parity", "--model", folder, "--reference", reference]), 1, &[message]);
        assert_error(run(&["import", folder, "--out", text(&out)]), 1, &[message]);
        assert_error(run(&["export", folder, "--out", text(&out), "--layout", "polyhead"]), 1, &[message]);
        assert!(!out.exists(), "{folder}");
    }
}

/// A file with an array for each name, all numbers zero.
fn arrays(arrays: &[(&str, &str, &[usize])]) -> Vec<u8> {
    let (mut header, mut end) = (json!({}), 0);
    for (name, dtype, shape) in arrays {
        let begin = end;
        end += shape.iter().product::<usize>() * if *dtype == "I64" { 8 } else { 4 };
        header[name] = json!({ "dtype": dtype, "shape": shape, "data_offsets": [begin, end] });
    }
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; end]].concat()
}

#[test]
fn bad_references_are_one_line_and_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reference.safetensors");
    let ids = |rows, length| [("source_ids", "I64", [rows, length]), ("target_ids", "I64", [rows, length])];
    let with = |shape: [usize; 2], more: &[(&str, &str, &[usize])]| {
        let ids = ids(shape[0], shape[1]);
        let mut all: Vec<(&str, &str, &[usize])> =
            ids.iter().map(|(name, dtype, shape)| (*name, *dtype, &shape[..])).collect();
        all.extend(more);
        arrays(&all)
    };
    let cases: [(Vec<u8>, &str); 9] = [
        (Vec::new(), "0 bytes, expected at least 8"),
        (b"no safetensors file".to_vec(), "expected at most"),
        (fs::read(golden().join("opus/model.safetensors")).unwrap(), "no tensor source_ids"),
        (
            with([0, 0], &[("encoder", "F32", &[0, 0, 24])]),
            "source_ids has shape [0, 0], expected at least one id",
        ),
        (with([2, 0], &[]), "source_ids has shape [2, 0], expected at least one id"),
        (with([2, 3], &[]), "no array that this model computes"),
        (with([2, 3], &[("encoder.banana", "F32", &[2])]), "no array that this model computes"),
        (
            with([2, 3], &[("encoder", "F32", &[2, 3, 25])]),
            "encoder has shape [2, 3, 25], expected [2, 3, 24]",
        ),
        (with([2, 3], &[("source_lengths", "I64", &[2])]), "lengths [0, 0] for 2 rows of 3"),
    ];
    for (bytes, message) in cases {
        fs::write(&path, bytes).unwrap();
        assert_error(run(&["parity", "--model", "marian/relu", "--reference", text(&path)]), 1, &[message]);
    }
    for (reference, message) in
        [("missing", "missing: cannot open"), ("opus", "opus: a folder, expected a safe")]
    {
        assert_error(run(&["parity", "--model", "marian/relu", "--reference", reference]), 1, &[message]);
    }
    // Another model's reference.
    let other = ["parity", "--model", "torch/pre", "--reference", "marian/relu/reference.safetensors"];
    assert_error(run(&other), 1, &[]);
}

#[test]
fn arrays_that_the_model_lacks_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reference.safetensors");
    let ids: &[usize] = &[1, 2];
    let all: [(&str, &str, &[usize]); 4] = [
        ("source_ids", "I64", ids),
        ("target_ids", "I64", ids),
        ("encoder", "F32", &[1, 2, 24]),
        ("encoder.banana", "F32", &[1]),
    ];
    fs::write(&path, arrays(&all)).unwrap();
    let run = run(&["parity", "--model", "marian/relu", "--reference", text(&path)]);
    let note = "note: not compared, since this model has none: encoder.banana\n";
    assert!(run.err.starts_with(note), "{}", run.err);
    assert_error(run, 1, &["at encoder"]);
}

#[test]
fn a_quantised_model_is_smaller_and_close_and_cannot_be_quantised_again() {
    let out = tempfile::tempdir().unwrap();
    let to = out.path().join("int8");
    let sample = out.path().join("sample.txt");
    fs::write(&sample, "My brother slept well.\n\nOur neighbour\n").unwrap();
    let command = ["quantize", "opus", "--out", text(&to), "--sample", text(&sample)];
    let refused = run(&[&command[..], &["--to", "Klingon"]].concat()).failed(2);
    assert!(refused.contains("Klingon") && !to.exists(), "{refused}");
    let refused = run(&["quantize", "opus", "--out", text(&to), "--sample", "nowhere"]).failed(1);
    assert!(refused.contains("nowhere") && !to.exists(), "{refused}");
    let table = out.path().join("sample.tsv");
    fs::write(&table, "1\tMy brother slept well.\n2\tOur neighbour\n3\tNobody slept.\n").unwrap();
    let columns = ["quantize", "opus", "--out", text(&to), "--sample", text(&table), "--column"];
    let refused = run(&[&columns[..], &["3"]].concat()).failed(1);
    assert!(refused.contains("sample.tsv:1: 2 columns, expected at least 3") && !to.exists(), "{refused}");
    let second = run(&[&columns[..], &["2"]].concat()).ok();
    assert!(second.contains(" of 3 sample outputs differ; "), "{second}");
    fs::remove_dir_all(&to).unwrap();
    let done = run(&command).ok();
    assert!(done.contains(" matrices to int8: ") && done.contains(" of 2 sample outputs differ; "), "{done}");
    let described: Value = serde_json::from_str(&run(&["info", text(&to), "--format", "json"]).ok()).unwrap();
    assert_eq!(described["layout"], "polyhead");
    let [before, after] = [golden().join("opus"), to.clone()]
        .map(|folder| fs::metadata(folder.join("model.safetensors")).unwrap().len());
    assert!(2 * after < before, "{after} {before}");
    let again = out.path().join("again");
    assert_error(run(&["quantize", text(&to), "--out", text(&again)]), 1, &["is int8 already"]);
    assert_error(run(&["quantize", "opus", "--out", text(&to)]), 1, &["already holds"]);
    let marian = out.path().join("marian");
    let export = ["export", text(&to), "--out", text(&marian), "--layout", "marian"];
    let refused = run(&export);
    assert!(refused.err.contains("hint: add --dtype f32"), "{}", refused.err);
    assert_error(refused, 1, &["int8 weights, expected f32, f16 or bf16 for the marian layout"]);
    run(&[&export[..], &["--dtype", "f32"]].concat()).ok();
    assert_eq!(info(text(&marian))["weights"]["dtypes"], json!(["F32"]));
    // An int8 weight is a whole number of its row's scales.
    let floats = out.path().join("floats");
    run(&["export", text(&to), "--out", text(&floats), "--layout", "polyhead", "--dtype", "f32"]).ok();
    let row = |folder: &Path, scale: bool| {
        let bytes = fs::read(folder.join("model.safetensors")).unwrap();
        let (header, start) = header(&bytes);
        let name = if scale { "embedding.weight_scale" } else { "embedding.weight" };
        let at = start + header[name]["data_offsets"][0].as_u64().unwrap() as usize;
        f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
    };
    let quotient = row(&floats, false) / row(&to, true);
    assert!((quotient - quotient.round()).abs() < 1e-4 && quotient != 0.0, "{quotient}");
}

#[test]
fn a_pre_norm_model_goes_to_pegasus_and_back() {
    let out = tempfile::tempdir().unwrap();
    let folder = |name: &str| out.path().join(name);
    let export = |from: &Path, to: &str, layout: &str| {
        run(&["export", text(from), "--out", text(&folder(to)), "--layout", layout])
    };
    export(&golden().join("pegasus"), "own", "polyhead").ok();
    assert_eq!(info(text(&folder("own")))["layout"], "polyhead");
    let refused = export(&folder("own"), "no", "marian").failed(1);
    assert!(refused.contains("pre-norm") && refused.contains("save it in the pegasus layout"), "{refused}");
    export(&folder("own"), "pegasus", "pegasus").ok();
    export(&folder("pegasus"), "back", "polyhead").ok();
    let weights = |name: &str| fs::read(folder(name).join("model.safetensors")).unwrap();
    assert_eq!(weights("own"), weights("back"));
    // The keys that CTranslate2's converter reads.
    let config = fs::read(folder("pegasus").join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let keys =
        ["normalize_before", "add_final_layer_norm", "normalize_embedding", "static_position_embeddings"];
    assert_eq!(keys.map(|key| config[key].as_bool()), [true, true, false, true].map(Some));
    let written = run(&["info", text(&folder("pegasus"))]).ok();
    assert!(
        written.lines().any(|line| line.starts_with("Pegasus") && line.ends_with("loads this folder")),
        "{written}"
    );
}
