//! `polyhead translate` and `evaluate` with a small model made with Hugging Face's code.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{Run, polyhead};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/golden/opus")
}

fn translate(arguments: &[&str], input: &str) -> Run {
    polyhead(&golden(), &[&["translate", "--model", ".", "--to", "tur"], arguments].concat(), input)
}

/// Standard output and standard error for any bytes on standard input.
fn translate_bytes(input: &[u8]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    fs::write(&path, input).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["translate", "--to", "tur", "--model"])
        .arg(golden())
        .stdin(fs::File::open(path).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success());
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn raw_lines_are_those_of_generate() {
    let expected: Value = serde_json::from_slice(&fs::read(golden().join("expected.json")).unwrap()).unwrap();
    let cases = expected["generate"].as_array().unwrap();
    let lines = |key: &dyn Fn(&Value) -> &Value| -> String {
        cases.iter().map(|case| format!("{}\n", key(case).as_str().unwrap())).collect()
    };
    let sources = lines(&|case| &case["text"]);
    for (beams, way) in [(&["--beam", "1"][..], "greedy"), (&[], "beam")] {
        let arguments = [&["translate", "--model", ".", "--raw"], beams].concat();
        assert_eq!(
            polyhead(&golden(), &arguments, &sources).ok(),
            lines(&|case| &case[way]["text"]),
            "{way}"
        );
    }
}

/// True if a GPU can be used; prints the reason otherwise.
fn has_gpu() -> bool {
    let run = translate(&["--device", "cuda", "hello"], "");
    if run.code != 0 {
        eprintln!("skipped: {}", run.err);
    }
    run.code == 0
}

#[test]
fn a_gpu_translates_as_generate_does() {
    if !has_gpu() {
        return;
    }
    let expected: Value = serde_json::from_slice(&fs::read(golden().join("expected.json")).unwrap()).unwrap();
    let cases = expected["generate"].as_array().unwrap();
    let sources: String = cases.iter().map(|case| format!("{}\n", case["text"].as_str().unwrap())).collect();
    for (beams, way) in [(&["--beam", "1"][..], "greedy"), (&[], "beam")] {
        let base = ["translate", "--model", ".", "--raw", "--device", "cuda", "--dtype"];
        for dtype in ["f32", "tf32", "bf16"] {
            let out = polyhead(&golden(), &[&base[..], &[dtype], beams].concat(), &sources).ok();
            let right = |(line, case): &(&str, &Value)| *line == case[way]["text"].as_str().unwrap();
            let same = out.lines().zip(cases).filter(right).count();
            println!("{dtype} {way}: {same} of {} lines are those of generate", cases.len());
            // Lower precision may flip a choice between near-equal hypotheses.
            assert!(same == cases.len() || (dtype != "f32" && 10 * same >= 8 * cases.len()), "{dtype} {way}");
        }
    }
    let aligned = ["--raw", "--alignment", "--device", "cuda", "The teacher reads a book today."];
    let there = translate(&aligned, "").ok();
    let here = translate(&[&["--raw", "--alignment"], &aligned[4..]].concat(), "").ok();
    assert_eq!(there, here);
}

#[test]
fn a_dtype_that_the_device_lacks_is_refused() {
    for (arguments, message) in [
        (&["--dtype", "bf16"][..], "--dtype bf16 on cpu"),
        (&["--dtype", "int8", "--device", "cuda"], "--dtype int8 on cuda"),
    ] {
        let error = translate(&[arguments, &["hello"]].concat(), "").failed(2);
        assert!(error.contains(message) && error.contains("hint: "), "{error}");
    }
    let error = translate(&["--device", "abacus", "hello"], "");
    assert!(error.code != 0 && error.err.contains("abacus"), "{}", error.err);
}

#[test]
fn a_line_gives_a_line() {
    let one = |text: &str| translate(&[text], "").ok().trim_end_matches('\n').to_owned();
    let [a, b] = ["The teacher reads a book today.", "Nobody slept well!"].map(one);
    let input = "The teacher reads a book today. Nobody slept well!\n\n   \n---\nNobody slept well!";
    let expected = format!("{a} {b}\n\n   \n---\n{b}\n");
    assert_eq!(translate(&[], input).ok(), expected);
    for extra in [&["--threads", "1"][..], &["--threads", "2", "--batch-tokens", "8"]] {
        assert_eq!(translate(extra, input).ok(), expected, "{extra:?}");
    }
    assert_eq!(translate(&[], "").ok(), "");
    assert_eq!(
        translate(&["Nobody slept well!\n\n\tNobody slept well!"], "").ok(),
        format!("{b}\n\n\t{b}\n")
    );
}

#[test]
fn invalid_utf8_is_replaced_with_a_note() {
    let (out, err) =
        translate_bytes(b"Nobody slept well!\nNobody \xff\xfe slept\n\0\x07\x1b[31m\nNobody slept well!\n");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert_eq!(lines[0], lines[3]);
    assert!(err.contains("note: standard input:2: invalid UTF-8 at byte 8, replaced by U+FFFD"), "{err}");
    assert!(!err.contains("panicked"), "{err}");
    let (out, _) = translate_bytes(b"\xef\xbb\xbfNobody slept well!\r\n");
    assert_eq!(out, format!("{}\r\n", lines[0]));
}

#[test]
fn a_very_long_line_is_one_line() {
    let input = vec!["garden"; 10_000].join(" ");
    let run = translate(&["--beam", "1", "--max-length", "3"], &input);
    assert!(run.err.contains("too long for the model: translated in "), "{}", run.err);
    assert_eq!(run.ok().lines().count(), 1);
    let error = translate(&["--raw"], &input).failed(1);
    assert!(error.contains("tokens, expected at most 64\nhint: leave out --raw"), "{error}");
}

#[test]
fn scores_alignments_and_n_best_lists_are_columns() {
    let text = "Nobody slept well!";
    let plain = translate(&[text], "").ok();
    let scored = translate(&["--scores", "--alignment", text], "").ok();
    let columns: Vec<&str> = scored.trim_end().split(" ||| ").collect();
    assert_eq!(columns[0], plain.trim_end());
    assert!(columns[1].parse::<f64>().unwrap() < 0.0);
    let words = plain.split_whitespace().count();
    assert_eq!(columns[2].split(' ').count(), words);
    assert!(columns[2].split(' ').all(|pair| pair.split_once('-').is_some()), "{scored}");

    let best = translate(&["--n-best", "3"], &format!("{text}\n{text}\n")).ok();
    let numbers: Vec<&str> = best.lines().map(|line| line.split(" ||| ").next().unwrap()).collect();
    assert_eq!(numbers, ["0", "0", "0", "1", "1", "1"]);
    assert_eq!(best.lines().next().unwrap().split(" ||| ").nth(1), Some(plain.trim_end()));

    let input = format!("{text} {text}\n\n");
    let lines = json_lines(&translate(&["--n-best", "2", "--alignment", "--format", "jsonl"], &input).ok());
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["text"], json!(format!("{0} {0}", plain.trim_end())));
    assert_eq!(lines[0]["n_best"].as_array().unwrap().len(), 2);
    assert_eq!(lines[0]["alignment"].as_array().unwrap().len(), 2 * words);
    assert_eq!(
        lines[0]["notes"][0],
        json!({
            "kind": "split", "sentences": 2, "message": "split into 2 sentences"
        })
    );
    assert_eq!((&lines[1]["id"], &lines[1]["text"], &lines[1]["tokens"]), (&json!(1), &json!(""), &json!(0)));
}

#[test]
fn flags_override_the_folder() {
    let text = "The teacher reads a book today.";
    let tokens = |arguments: &[&str]| {
        let out = translate(&[arguments, &["--format", "jsonl", text]].concat(), "").ok();
        json_lines(&out)[0]["tokens"].as_u64().unwrap()
    };
    assert_eq!(tokens(&["--max-length", "3"]), 3);
    assert!(translate(&["--prefix", "Komşumuz", text], "").ok().starts_with("Komşumuz"));
    let sample = |seed: &str| translate(&["--sample", "--temperature", "2", "--seed", seed, text], "").ok();
    assert_eq!(sample("1"), sample("1"));
    assert_ne!(sample("1"), sample("2"));
    for arguments in [
        &["--dtype", "int8"][..],
        &["--length-penalty", "0.6", "--length-formula", "wu"],
        &["--no-repeat-ngram", "2", "--repetition-penalty", "1.3"],
        &["--sample", "--top-k", "3", "--top-p", "0.9", "--min-p", "0.1"],
        &["--device", "cpu", "--from", "en"],
    ] {
        assert!(!translate(&[arguments, &[text]].concat(), "").ok().trim().is_empty(), "{arguments:?}");
    }
}

#[test]
fn misuse_is_explained() {
    let folder = golden();
    let error = polyhead(&folder, &["translate", "--model", "nowhere", "hello"], "").failed(1);
    assert!(error.contains("nowhere: no such folder, expected a model folder\nhint: "), "{error}");
    assert!(error.contains("polyhead models list shows installed models"), "{error}");
    for (arguments, message) in [
        (&["--beam", "0"][..], "expected a whole number of 1 or more"),
        (&["--beam", "2", "--n-best", "3"], "3 best of 2 beams"),
        (&["--temperature", "0.5"], "--temperature has no effect here, expected --sample"),
        (&["--sample", "--top-p", "2"], "top_p is 2, expected a probability"),
        (&["--from", "de"], "language \"de\": the model translates from eng"),
        (&["--max-length", "1000"], "a maximum length of 1000, expected at most 64"),
        (&["--repetition-penalty", "0"], "a repetition penalty of 0, expected a positive number"),
        (&["--threads", "0"], "--threads: 0, expected 1 to"),
        (&["--length-penalty", "nan"], "a length penalty of NaN"),
    ] {
        let error = translate(&[arguments, &["hello"]].concat(), "").failed(2);
        assert!(error.contains(message) && error.contains("\nhint: "), "{arguments:?}: {error}");
    }
    let error = polyhead(&folder, &["translate", "--model", ".", "--to", "de", "hello"], "").failed(2);
    assert!(error.contains("language \"de\": the model knows fra, tur"), "{error}");
}

#[test]
fn a_slow_writer_is_answered_at_once_and_a_closed_reader_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_polyhead"))
        .args(["translate", "--to", "tur", "--model"])
        .arg(golden())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for text in ["a\n", "Nobody slept well!\n", "\n"] {
        input.write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim().is_empty(), text == "\n", "{text:?} gave {line:?}");
    }
    drop(output);
    // The program meets the closed pipe at one of the next lines.
    while input.write_all(b"Nobody slept well!\n").is_ok() {}
    let status = child.wait().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(status.success() && !err.contains("error") && !err.contains("panicked"), "{status} {err}");
}

#[test]
fn a_test_set_is_translated_and_scored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, reference) =
        ("Nobody slept well!\nThe teacher reads a book today.\n", "Hiç kimse iyi uyudu!\nÖğretmen\n");
    fs::write(path("s"), source).unwrap();
    fs::write(path("r"), reference).unwrap();
    let pairs = source.lines().zip(reference.lines()).map(|(s, r)| format!("{s}\t{r}\n"));
    fs::write(path("p.tsv"), pairs.collect::<String>()).unwrap();
    let evaluate = |arguments: &[&str]| {
        polyhead(&golden(), &[&["evaluate", "--model", ".", "--to", "tur"], arguments].concat(), "")
    };
    let (s, r, out, tsv) = (path("s"), path("r"), path("out"), path("p.tsv"));
    let files = ["--source", &s, "--reference", &r, "--out", &out, "--format", "json"];
    let report: Value = serde_json::from_str(&evaluate(&files).ok()).unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), translate(&[], source).ok());
    let score = ["score", "--reference", "r", "--hypothesis", "out", "--format", "json"];
    let scored = polyhead(folder.path(), &score, "").ok();
    let scored: Value = serde_json::from_str(&scored).unwrap();
    for index in 0..3 {
        for key in ["name", "score", "signature"] {
            assert_eq!(report["metrics"][index][key], scored["metrics"][index][key]);
        }
    }
    assert_eq!(report["lines"], 2);
    assert!(report["tokens_per_s"].as_f64().unwrap() > 0.0 && report["seconds"].as_f64().unwrap() > 0.0);
    let text = evaluate(&["--tsv", &tsv]).ok();
    assert!(
        text.starts_with("BLEU ") && text.contains("2 lines, ") && text.contains("chrF2|nrefs:1|"),
        "{text}"
    );
    let error = evaluate(&[]).failed(2);
    assert!(error.contains("no test set, expected --source and --reference, or --tsv\nhint: "), "{error}");
    fs::write(path("r"), "one\n").unwrap();
    assert!(evaluate(&files).failed(1).contains("expected the same number"));
}

#[test]
fn impossible_options_are_refused() {
    let told = |run: Run, code: i32, part: &str| {
        let err = run.failed(code);
        assert!(err.contains(part) && err.contains("hint: "), "{err}");
    };
    told(translate(&["--beam", "100000", "a"], ""), 2, "100000 beams, expected at most 1000");
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "\n  \n").unwrap();
    let empty = empty.to_str().unwrap();
    told(translate(&["--shortlist", empty, "a"], ""), 1, "no text, expected text in the target language");
    let arguments = ["evaluate", "--model", ".", "--source", empty, "--reference", empty, "--out", empty];
    told(polyhead(&golden(), &arguments, ""), 2, "is the test set, expected another file");
    assert_eq!(fs::read_to_string(empty).unwrap(), "\n  \n");
    let err = translate(&["mu\u{1b}[31m\u{7}"], "").err;
    assert!(!err.contains('\u{1b}') && !err.contains('\u{7}'), "{err}");
}

#[test]
fn a_raw_line_that_is_too_long_is_named_after_those_before_it() {
    let input = format!("Ayşe\nNobody slept well!\n{}\nAyşe\n", "the book ".repeat(500));
    let run = translate(&["--raw", "--beam", "1"], &input);
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);
    let err = run.failed(1);
    assert!(err.contains("error: line 3: \"the book") && err.contains("hint: leave out --raw"), "{err}");
}

#[test]
fn translations_contain_the_words_of_the_command_line_and_of_a_file() {
    let other = translate(&["The teacher reads a book today."], "").ok();
    let word = other.split_whitespace().next().unwrap();
    let found = translate(&["--lexical", word, "Nobody slept well!"], "").ok();
    assert!(found.contains(word), "{found}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.tsv");
    fs::write(&path, format!("\n{word}\tAyşe\n")).unwrap();
    let file = ["--lexical-file", path.to_str().unwrap()];
    let input = "Nobody slept well!\nNobody slept well!\n";
    let lines = translate(&file, input).ok();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], translate(&["Nobody slept well!"], "").ok().trim_end());
    assert!(lines[1].contains(word) && lines[1].contains("Ayşe"), "{lines:?}");
    let error = translate(&file, &format!("{input}Ayşe\n")).failed(1);
    assert!(error.contains("words.tsv: 2 lines, but there is a text 3"), "{error}");
    let error = translate(&["--lexical", word, "Nobody slept well! Ayşe"], "").failed(1);
    assert!(error.contains("has 2 sentences or parts, expected one sentence"), "{error}");
    let error = translate(&["--lexical", word, "--format", "html"], "<p>x</p>").failed(2);
    assert!(error.starts_with("error: --lexical with a document"), "{error}");
}
