//! `polyhead transcribe`: a model that was trained a few steps, every format, and wrong command lines and files.

use std::path::Path;

use serde_json::Value;

use crate::program::{folder, polyhead};

/// A WAV file of one channel, PCM of 16 bits: tones of a tenth of a second.
fn wav(rate: u32, tones: &[u32]) -> Vec<u8> {
    let tone = |hertz: u32| {
        (0..rate / 10).flat_map(move |at| {
            let phase = f64::from(at * hertz % rate) / f64::from(rate);
            ((40_000.0 * ((2.0 * phase - 1.0).abs() - 0.5)) as i16).to_le_bytes()
        })
    };
    let samples: Vec<u8> = tones.iter().copied().flat_map(tone).collect();
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    bytes.extend([rate, 2 * rate].map(u32::to_le_bytes).concat());
    bytes.extend(b"\x02\0\x10\0data");
    bytes.extend((samples.len() as u32).to_le_bytes());
    bytes.extend(samples);
    bytes
}

const RECIPE: &str = r#"
out = "run"
task = "transcribe"
data = { train = { tsv = "train.tsv" }, valid = { tsv = "train.tsv" } }
tokenizer = { kind = "word", vocab_size = 0, min_frequency = 1 }
train = { max_steps = 60, max_tokens = 400, log_every = 30 }
validation = { every_steps = 60 }
checkpoint = { beam_size = 2 }
schedule = { curve = "constant", peak = 0.004, warmup_steps = 5 }

[model]
d_model = 24
n_layers = 1
n_heads = 2
d_ff = 32
sample_rate = 8000
n_mels = 12
max_frames = 60
dropout = { embedding = 0.0, residual = 0.0 }
"#;

/// A folder with sounds of two tones, and a model that tells them apart.
fn trained() -> tempfile::TempDir {
    let files = folder(&[("recipe.toml", RECIPE)]);
    for (name, tones) in
        [("low.wav", &[300, 300][..]), ("high.wav", &[2_000, 2_000]), ("long.wav", &[300; 14])]
    {
        std::fs::write(files.path().join(name), wav(8_000, tones)).unwrap();
    }
    std::fs::write(files.path().join("train.tsv"), "low.wav\tlow tone\nhigh.wav\thigh tone\n".repeat(20))
        .unwrap();
    let run = polyhead(files.path(), &["train", "recipe.toml", "--device", "cpu"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("40 training sounds, 800 frames and 120 tokens of texts"), "{}", run.err);
    assert!(run.out.contains("WER") || run.err.contains("WER"), "{} {}", run.out, run.err);
    files
}

fn transcribed(files: &Path, arguments: &[&str]) -> String {
    polyhead(files, &[&["transcribe", "-m", "run/model"], arguments].concat(), "").ok()
}

#[test]
fn sounds_become_text_in_every_format() {
    let files = trained();
    let files = files.path();
    assert_eq!(transcribed(files, &["low.wav"]), "low tone\n");
    assert_eq!(transcribed(files, &["low.wav", "high.wav"]), "low.wav\tlow tone\nhigh.wav\thigh tone\n");
    assert_eq!(transcribed(files, &["--beam", "1", "--dtype", "int8", "high.wav"]), "high tone\n");
    let found: Value =
        serde_json::from_str(&transcribed(files, &["--format", "json", "--words", "low.wav"])).unwrap();
    assert_eq!((&found["text"], &found["file"]), (&"low tone".into(), &"low.wav".into()));
    let words = found["segments"][0]["words"].as_array().unwrap();
    assert_eq!((words.len(), &words[0]["word"]), (2, &"low".into()));
    assert!(found["segments"][0]["end"].as_f64().unwrap() == 0.2, "{found}");
    let lines = transcribed(files, &["--words", "low.wav"]);
    assert!(
        lines.lines().all(|line| line.split('\t').count() == 3) && lines.ends_with("\ttone\n"),
        "{lines}"
    );
    assert_eq!(
        transcribed(files, &["--format", "srt", "low.wav"]),
        "1\n00:00:00,000 --> 00:00:00,200\nlow tone\n\n"
    );
    assert!(transcribed(files, &["--format", "vtt", "low.wav"]).starts_with("WEBVTT\n\n00:00:00.000 --> "));
    let scores = transcribed(files, &["--score", "train.tsv"]);
    assert!(
        scores.contains("sounds                40") && scores.contains("word error rate       0.00 %"),
        "{scores}"
    );
    // A sound of more than a window is read in parts, each with its times.
    let long: Value = serde_json::from_str(&transcribed(files, &["--format", "json", "long.wav"])).unwrap();
    let segments = long["segments"].as_array().unwrap();
    assert!(segments.len() >= 3 && long["duration"] == 1.4, "{long}");
    // Another rate gives a note, the same text, and the pictures of its attention.
    std::fs::write(files.join("fast.wav"), wav(44_100, &[300, 300])).unwrap();
    let run = polyhead(files, &["transcribe", "-m", "run/model", "fast.wav"], "");
    assert!(run.err.contains("note: 44100 samples per second, resampled to 8000"), "{}", run.err);
    assert_eq!(run.ok(), "low tone\n");
    let inspected = polyhead(
        files,
        &["inspect", "-m", "run/model", "--out", "heard.svg", "--out", "heard.json", "low.wav"],
        "",
    );
    assert_eq!(inspected.code, 0, "{}", inspected.err);
    let picture = std::fs::read_to_string(files.join("heard.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("0.10"), "{picture}");
    let trace: Value =
        serde_json::from_str(&std::fs::read_to_string(files.join("heard.json")).unwrap()).unwrap();
    assert_eq!((&trace["text"], &trace["seconds"]), (&"low tone".into(), &0.2.into()));
    let shown = polyhead(files, &["inspect", "-m", "run/model", "low.wav"], "").ok();
    assert!(shown.contains("low tone") && shown.contains("0.02 s each"), "{shown}");
}

#[test]
fn what_cannot_be_transcribed_is_refused_with_a_hint() {
    let files = trained();
    let files = files.path();
    let failed = |code: i32, arguments: &[&str]| {
        polyhead(files, &[&["transcribe", "-m", "run/model"], arguments].concat(), "").failed(code)
    };
    std::fs::write(files.join("empty.wav"), wav(8_000, &[])).unwrap();
    let cut = wav(8_000, &[300, 300]);
    std::fs::write(files.join("cut.wav"), &cut[..cut.len() - 1_600]).unwrap();
    for (arguments, message, hint) in [
        (&["none.wav"][..], "none.wav: cannot open", "hint: "),
        (
            &["recipe.toml"],
            "recipe.toml: another kind of file, expected WAV",
            "hint: convert it: ffmpeg -i FILE",
        ),
        (&["empty.wav"], "empty.wav: an empty sound", "hint: record it again"),
        (
            &["--max-seconds", "1", "long.wav"],
            "long.wav: 1 s of sound, expected at most 1 s",
            "hint: raise the limit with --max-seconds",
        ),
        (&["--score", "recipe.toml"], "recipe.toml:1: no tab", "hint: paths are relative"),
    ] {
        let error = failed(1, arguments);
        assert!(error.contains(message) && error.contains(hint), "{arguments:?}: {error}");
    }
    for (arguments, message) in [
        (&["--language", "de", "low.wav"][..], "language \"de\", but this model has one language"),
        (&["--translate", "low.wav"], "this model writes the language that is spoken"),
        (&["--format", "srt", "low.wav", "high.wav"], "subtitles of 2 files, expected one"),
        (&["--max-seconds", "0", "low.wav"], "--max-seconds 0, expected a number above 0"),
        (&["--temperature", "-1", "low.wav"], "a temperature of -1"),
        (&[], "required"),
    ] {
        let error = failed(2, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let run = polyhead(files, &["transcribe", "-m", "run/model", "cut.wav"], "");
    assert!(
        run.err.contains("note: cut.wav: 0.10 s of 0.20 s: the rest of the file is missing"),
        "{}",
        run.err
    );
    // A command for text refuses the model, and this command a model of text.
    for command in ["translate", "classify", "generate"] {
        let error = polyhead(files, &[command, "-m", "run/model", "text"], "");
        assert_ne!(error.code, 0, "{command}");
        assert!(
            error.err.contains("a speech recogniser") && error.err.contains("polyhead transcribe"),
            "{command}: {}",
            error.err
        );
    }
    let gpt2 = format!("{}/../models/tests/golden/language_models/gpt2", env!("CARGO_MANIFEST_DIR"));
    let error = polyhead(files, &["transcribe", "-m", &gpt2, "low.wav"], "");
    assert_ne!(error.code, 0);
    assert!(error.err.contains("a language model, expected a speech recogniser"), "{}", error.err);
    assert!(error.err.contains("polyhead generate"), "{}", error.err);
}
