//! Laws for every model family, each tested on the family's example: a killed and resumed run equals an uninterrupted one, on
//! any number of threads, and the folder holds the trained model.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_engine::generate::GenerateOptions;
use polyhead_engine::puzzle::Puzzle;
use polyhead_engine::scene::{Scene, Set};
use polyhead_engine::speech::{Sound, TranscribeOptions, wav};
use polyhead_engine::{Classifier, Generator, LoadOptions, SpeechEngine};
use polyhead_models::{ModelConfig, View};
use polyhead_train::config::{CorpusConfig, ImagesConfig, RunConfig, SoundConfig, TokenizerConfig};
use polyhead_train::event::{Ending, Event};
use polyhead_train::{RunOptions, Start, Task, train};
use serde_json::Value;

use crate::toy;

/// A WAV file for each line of the sources, a tone for each digit, and the list of these with their lines.
fn write_sounds(folder: &Path, name: &str) {
    const RATE: u32 = 8_000;
    let source = std::fs::read_to_string(folder.join(format!("{name}.source"))).unwrap();
    let mut list = String::new();
    for (number, line) in source.lines().enumerate() {
        let digits = line.chars().filter_map(|digit| digit.to_digit(10));
        let tone = |digit: u32| {
            // A triangle of 300 Hz and more, for 30 ms.
            (0..240_u32).map(move |at| {
                let phase = f64::from(at * (300 + 250 * digit) % RATE) / f64::from(RATE);
                (2.0 * (phase - 0.5).abs() - 0.5) as f32
            })
        };
        let samples: Vec<f32> = digits.flat_map(tone).collect();
        let path = format!("{name}-{number}.wav");
        std::fs::write(folder.join(&path), wav::encode(&samples, RATE)).unwrap();
        list += &format!("{path}\t{line}\n");
    }
    std::fs::write(folder.join(format!("{name}.tsv")), list).unwrap();
}

/// Pictures of scenes with two sentences each, and the facts of these.
fn write_scenes(folder: &Path, (name, set): (&str, Set), count: u64) {
    let (mut list, mut facts) = (String::new(), String::new());
    for index in 0..count {
        let scene = Scene::make(1, set, index);
        let path = format!("{name}-{index}.png");
        std::fs::write(folder.join(&path), scene.render(16).to_png()).unwrap();
        for sentence in scene.sentences(2) {
            list += &format!("{path}\t{sentence}\n");
        }
        let mut record = serde_json::to_value(scene.facts()).unwrap();
        record["image"] = path.into();
        facts += &format!("{record}\n");
    }
    std::fs::write(folder.join(format!("{name}.tsv")), list).unwrap();
    std::fs::write(folder.join(format!("{name}.jsonl")), facts).unwrap();
}

/// A run of a family in `folder`: reversing digits, detecting a 7 among digits, predicting digits, the
/// hulls of points, the place of a square in an image, writing down tones, or describing scenes.
pub(crate) fn config(folder: &Path, example: &ModelConfig) -> RunConfig {
    let mut config = toy::config(folder, &["train.max_steps=12", "validation.every_steps=6"]);
    if example.view() == View::Encoder {
        for name in ["train", "valid"] {
            let source = std::fs::read_to_string(folder.join(format!("{name}.source"))).unwrap();
            let labels = source.lines().map(|line| if line.contains('7') { "yes\n" } else { "no\n" });
            std::fs::write(folder.join(format!("{name}.target")), labels.collect::<String>()).unwrap();
        }
        config.validation.metric = polyhead_train::config::Metric::Accuracy;
    }
    if example.view() == View::LanguageModel {
        for (name, corpus) in [("train", &mut config.data.train), ("valid", &mut config.data.valid)] {
            let text = Some(folder.join(format!("{name}.source")));
            *corpus = vec![CorpusConfig { text, ..CorpusConfig::default() }];
        }
        config.validation.metric = polyhead_train::config::Metric::Loss;
    }
    if example.view() == View::Pointer {
        for (name, count, seed) in [("train", 100, 1), ("valid", 20, 2)] {
            let row = |index| Value::Object(Puzzle::Hull.make(seed, index, 5).unwrap().to_json()).to_string();
            let rows: Vec<String> = (0..count).map(row).collect();
            std::fs::write(folder.join(format!("{name}.jsonl")), rows.join("\n")).unwrap();
        }
        let corpus = |name: &str| CorpusConfig { jsonl: Some(folder.join(name)), ..CorpusConfig::default() };
        (config.data.train, config.data.valid) = (vec![corpus("train.jsonl")], vec![corpus("valid.jsonl")]);
        config.tokenizer = TokenizerConfig::default();
        (config.train.label_smoothing, config.train.r_drop) = (0.0, 0.0);
        config.validation.metric = polyhead_train::config::Metric::Accuracy;
    }
    if example.view() == View::Image {
        crate::images::write_idx(folder, "train", 100, 1);
        crate::images::write_idx(folder, "valid", 20, 2);
        let data = &mut config.data;
        (data.train, data.valid) = (
            vec![crate::images::idx_files(folder, "train")],
            vec![crate::images::idx_files(folder, "valid")],
        );
        config.tokenizer = TokenizerConfig::default();
        config.images = ImagesConfig {
            shift: 1,
            crop: 0.7,
            flip: true,
            operations: 1,
            erase: 0.2,
            mixup: 0.3,
            ..ImagesConfig::default()
        };
        (config.train.r_drop, config.train.max_rows) = (0.0, 32);
        config.validation.metric = polyhead_train::config::Metric::Accuracy;
    }
    if example.view() == View::Speech {
        for name in ["train", "valid"] {
            write_sounds(folder, name);
        }
        let corpus = |name: &str| CorpusConfig { tsv: Some(folder.join(name)), ..CorpusConfig::default() };
        (config.data.train, config.data.valid) = (vec![corpus("train.tsv")], vec![corpus("valid.tsv")]);
        config.train.r_drop = 0.0;
        config.sound = SoundConfig { speed: 0.1, noise: 0.5, time_masks: 1, band_masks: 1 };
        config.validation.metric = polyhead_train::config::Metric::Wer;
    }
    if example.view() == View::Caption {
        write_scenes(folder, ("train", Set::Train), 60);
        write_scenes(folder, ("valid", Set::Valid), 10);
        let corpus = |name: &str, facts: Option<&str>| {
            let facts = facts.map(|name| folder.join(name));
            vec![CorpusConfig { tsv: Some(folder.join(name)), facts, ..CorpusConfig::default() }]
        };
        (config.data.train, config.data.valid) =
            (corpus("train.tsv", None), corpus("valid.tsv", Some("valid.jsonl")));
        (config.train.r_drop, config.train.max_rows) = (0.0, 16);
        config.images = ImagesConfig { shift: 1, ..ImagesConfig::default() };
        config.validation.metric = polyhead_train::config::Metric::Facts;
    }
    if example.copies() {
        // Four digits and four special tokens: six digits can only be copied.
        config.tokenizer.vocab_size = 8;
        config.train.r_drop = 0.0;
    }
    if example.n_sources() > 1 {
        for corpus in config.data.train.iter_mut().chain(&mut config.data.valid) {
            let source = corpus.source.take().expect("line files");
            corpus.sources = vec![source; example.n_sources()];
        }
        config.augment.drop_source = 0.2;
    }
    config.model = example.clone();
    config.task = Task::of(example);
    config
}

#[test]
fn a_killed_and_resumed_run_equals_an_uninterrupted_one() {
    for example in ModelConfig::examples() {
        let name = example.model_type();
        let folder = tempfile::tempdir().unwrap();
        let whole = config(folder.path(), &example);
        let (outcome, _) = toy::run(&whole, RunOptions::default(), 1);
        assert_eq!(outcome.unwrap().ending, Ending::Steps, "{name}");
        let mut parts = whole.clone();
        parts.out = folder.path().join("parts");
        let mut sessions = 0;
        loop {
            let stop = AtomicBool::new(false);
            let mut steps = 0;
            let options = RunOptions { start: Start::Resume, stop: Some(&stop), ..RunOptions::default() };
            let outcome = train(&parts, options, &mut |event| {
                if let Event::Stepped(_) = event {
                    steps += 1;
                    stop.store(steps == 5, Ordering::Relaxed);
                }
            });
            sessions += 1;
            if outcome.unwrap().ending != Ending::Stopped {
                break;
            }
        }
        assert_eq!(sessions, 3, "{name}");
        assert!(toy::weights(&parts.out) == toy::weights(&whole.out), "{name}");
        let mut other = whole.clone();
        other.out = folder.path().join("other");
        toy::run(&other, RunOptions::default(), 2).0.unwrap();
        assert!(toy::weights(&other.out) == toy::weights(&whole.out), "{name}: threads");
    }
}

#[test]
fn classifiers_learn_and_load_from_their_folders() {
    for example in ModelConfig::examples().into_iter().filter(|example| example.view() == View::Encoder) {
        let name = example.model_type();
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), &example);
        (config.train.max_steps, config.train.r_drop, config.train.ema) = (150, 0.0, 0.0);
        config.validation.every_steps = 150;
        let (outcome, told) = toy::run(&config, RunOptions::default(), 2);
        outcome.unwrap();
        let accuracy = told.iter().rev().find_map(|line| line.split("accuracy ").nth(1)).map(str::to_owned);
        let classifier = Classifier::load(config.out.join("model"), &LoadOptions::default()).unwrap();
        assert_eq!(classifier.model().labels(), ["no", "yes"], "{name}");
        let texts = std::fs::read_to_string(folder.path().join("train.source")).unwrap();
        let labels = std::fs::read_to_string(folder.path().join("train.target")).unwrap();
        let texts: Vec<&str> = texts.lines().collect();
        let found = classifier.classify(&texts).unwrap();
        let right = found.iter().zip(labels.lines()).filter(|(classes, label)| classes[0].label == *label);
        let right = right.count();
        // A window of three digits misses a 7 before them; always predicting the more frequent label gets 60 of 100.
        assert!(right * 100 > texts.len() * 75, "{name}: {right} of {} right ({accuracy:?})", texts.len());
        // A text alone has the same classes as in a batch.
        let alone = classifier.classify(&[texts[3]]).unwrap();
        assert_eq!(alone[0], found[3], "{name}");
        assert!(classifier.classify(&[""]).is_err(), "{name}");
    }
}

#[test]
fn language_models_learn_and_continue_prompts() {
    for example in ModelConfig::examples() {
        if example.view() != View::LanguageModel {
            continue;
        }
        let name = example.model_type();
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), &example);
        // Counting up to nine: the next digit follows from the last.
        let counting = "1 2 3 4 5 6 7 8 9\n".repeat(40);
        std::fs::write(folder.path().join("train.source"), &counting).unwrap();
        std::fs::write(folder.path().join("valid.source"), "1 2 3 4 5 6 7 8 9\n").unwrap();
        (config.train.max_steps, config.train.r_drop, config.train.ema) = (240, 0.0, 0.0);
        (config.train.label_smoothing, config.validation.every_steps) = (0.0, 240);
        config.data.rows = polyhead_train::config::TextRows::Lines;
        let (outcome, told) = toy::run(&config, RunOptions::default(), 2);
        outcome.unwrap();
        let read = told.iter().find(|line| line.starts_with("Read")).unwrap();
        assert!(read.contains("tokens: [400, 400]"), "{name}: {read}");
        let generator = Generator::load(config.out.join("model"), &LoadOptions::default()).unwrap();
        let options = GenerateOptions { temperature: 0.0, ..GenerateOptions::default() };
        let found = generator.generate(&["1 2 3", "1 2 3 4 5", ""], &options).unwrap().concat();
        let texts: Vec<&str> = found.iter().map(|generated| generated.text.as_str()).collect();
        assert_eq!(texts, [" 4 5 6 7 8 9", " 6 7 8 9", "1 2 3 4 5 6 7 8 9"], "{name}");
        assert!(found.iter().all(|generated| generated.log_probability > -8.0), "{name}: {found:?}");
        // A prompt alone gives the same as among others, also when drawn at random, by beam search and for several lines.
        let drawn =
            GenerateOptions { temperature: 2.0, seed: 5, lines: Some(3), ..GenerateOptions::default() };
        let beam = GenerateOptions { beam_size: 3, ..drawn.clone() };
        for options in [&options, &drawn, &beam] {
            let together = generator.generate(&["1 2 3", "5", ""], options).unwrap().concat();
            assert_eq!(generator.generate(&["5"], options).unwrap()[0][0], together[1], "{name}");
            assert!(together.iter().all(|found| found.ids.len() <= 64), "{name}");
        }
        let two = GenerateOptions { lines: Some(2), ..options.clone() };
        let found = &generator.generate(&["1 2 3 4 5 6 7"], &two).unwrap()[0][0];
        let ends = found.ids.iter().filter(|id| **id == generator.model().special_ids().end_id).count();
        assert!(
            found.text.starts_with(" 8 9\n") && (ends == 2 || found.ids.len() == 64),
            "{name}: {found:?}"
        );
        assert!(Classifier::load(config.out.join("model"), &LoadOptions::default()).is_err(), "{name}");
    }
}

/// The sample of a validation continues a line that is longer than the context.
#[test]
fn lines_may_be_longer_than_the_context_of_a_language_model() {
    for example in ModelConfig::examples() {
        if example.view() != View::LanguageModel || example.to_recipe().contains_key("window") {
            continue;
        }
        let name = example.model_type();
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), &example);
        let line = format!("{}\n", "1 2 3 4 5 6 7 8 9 ".repeat(80));
        for name in ["train.source", "valid.source"] {
            std::fs::write(folder.path().join(name), &line).unwrap();
        }
        config.train.max_steps = 6;
        let (outcome, events) = toy::run(&config, RunOptions::default(), 1);
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
        assert!(events.iter().any(|event| event.contains("sample: Some")), "{name}: {events:?}");
    }
}

#[test]
fn a_language_model_reads_plain_text_alone() {
    // A model whose predictions have a limited context.
    let is_limited =
        |own: &ModelConfig| own.view() == View::LanguageModel && own.to_recipe().contains_key("window");
    let example = ModelConfig::examples().into_iter().find(is_limited).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example);
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    let pairs =
        CorpusConfig::line_files(folder.path().join("train.source"), folder.path().join("train.target"));
    let error = refused(&|config| config.data.train = vec![pairs.clone()]);
    assert!(
        error.starts_with("data.train: not plain text, expected a text file or a JSONL file alone"),
        "{error}"
    );
    let error = refused(&|config| config.tokenizer.dropout = 0.1);
    assert!(
        error.contains("a setting for sentence pairs, expected none: this model reads plain text"),
        "{error}"
    );
    let error = refused(&|config| config.validation.metric = polyhead_train::config::Metric::Bleu);
    assert!(error.contains("validation.metric: \"bleu\", expected loss"), "{error}");
    let error = refused(&|config| config.data.max_length = 2);
    assert!(error.starts_with("data.max_length: rows of 2 tokens, expected more than the 2"), "{error}");
    std::fs::write(folder.path().join("blank"), "\n\n").unwrap();
    let blank = CorpusConfig { text: Some(folder.path().join("blank")), ..CorpusConfig::default() };
    let error = refused(&|config| config.data.valid = vec![blank.clone()]);
    assert!(error.contains("blank: no text, expected lines of text"), "{error}");
}

#[test]
fn settings_of_another_task_are_refused() {
    let example =
        ModelConfig::examples().into_iter().find(|example| example.view() == View::Encoder).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example);
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    let error = refused(&|config| config.tokenizer.dropout = 0.1);
    assert!(error.starts_with("tokenizer.dropout: a setting for sentence pairs"), "{error}");
    let error = refused(&|config| config.validation.metric = polyhead_train::config::Metric::Bleu);
    assert!(error.contains("validation.metric: \"bleu\", expected accuracy, f1 or loss"), "{error}");
    let one = folder.path().join("one.target");
    std::fs::write(&one, "yes\n".repeat(150)).unwrap();
    let error = refused(&|config| config.data.train[0].target = Some(one.clone()));
    assert!(error.contains("1 labels, expected two or more"), "{error}");
    std::fs::write(folder.path().join("other.target"), "maybe\n".repeat(20)).unwrap();
    let error = refused(&|config| config.data.valid[0].target = Some(folder.path().join("other.target")));
    assert!(error.contains("line 1: label \"maybe\", expected one of the training text"), "{error}");
}

#[test]
fn data_of_points_is_checked_with_its_line_and_text_settings_are_refused() {
    let example =
        ModelConfig::examples().into_iter().find(|example| example.view() == View::Pointer).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example);
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    for (line, expected) in [
        ("{", "not JSON"),
        ("", "an empty line"),
        ("[1]", "JSON without keys"),
        (r#"{"point": [[1, 2]]}"#, "the keys are point, expected points or numbers"),
        (r#"{"points": [], "order": []}"#, "points is empty"),
        (r#"{"points": [[1, 2], [3]], "order": [0]}"#, "point 1 has 1 coordinates, expected 2"),
        (r#"{"points": [[1, "x"]], "order": [0]}"#, "point 0 has \"x\", expected finite numbers"),
        (r#"{"points": [[1, 1e99]], "order": [0]}"#, "expected finite numbers"),
        (r#"{"points": [[1, 2]], "order": [1]}"#, "order has 1, expected indices from 0 to 0"),
        (r#"{"points": [[1, 2]], "order": [-1]}"#, "order has -1"),
        (r#"{"points": [[1, 2]]}"#, "no order"),
        (r#"{"numbers": [1, 2], "order": [0, 1]}"#, "points of 1 coordinates, expected 2"),
        (r#"{"numbers": [1], "points": [[1]], "order": [0]}"#, "both points and numbers"),
    ] {
        let path = folder.path().join("bad.jsonl");
        std::fs::write(&path, format!("{{\"points\": [[0, 0], [1, 0]], \"order\": [1, 0]}}\n{line}\n"))
            .unwrap();
        let error = refused(&|config| config.data.train[0].jsonl = Some(path.clone()));
        assert!(error.contains("bad.jsonl:2: ") && error.contains(expected), "{line}: {error}");
    }
    let error = refused(&|config| config.train.label_smoothing = 0.1);
    assert!(error.starts_with("train.label_smoothing: a setting for text"), "{error}");
    let error = refused(&|config| config.data.train[0] = CorpusConfig::line_files("a", "b"));
    assert!(error.contains("a corpus of text, expected jsonl"), "{error}");
    let error = refused(&|config| config.data.max_length = 2);
    assert!(error.contains("no usable row (100 too long)"), "{error}");
}

#[test]
fn speech_recognisers_learn_tones_and_load_from_their_folders() {
    let example = ModelConfig::examples().into_iter().find(|example| example.view() == View::Speech).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), &example);
    // One tone for each text: a word of one digit.
    for name in ["train", "valid"] {
        let digits: String =
            (0..if name == "train" { 200 } else { 20 }).map(|at| format!("{}\n", at % 5)).collect();
        std::fs::write(folder.path().join(format!("{name}.source")), &digits).unwrap();
        write_sounds(folder.path(), name);
    }
    (config.train.max_steps, config.validation.every_steps, config.train.ema) = (150, 150, 0.0);
    config.sound = SoundConfig::default();
    let (outcome, told) = toy::run(&config, RunOptions::default(), 2);
    outcome.unwrap();
    let engine = SpeechEngine::load(config.out.join("model"), &LoadOptions::default()).unwrap();
    for digit in 0..5 {
        let sound = wav::read(&folder.path().join(format!("valid-{digit}.wav")), 60.0).unwrap();
        let found = engine.transcribe(&sound, &TranscribeOptions::default()).unwrap();
        assert_eq!(found.text, digit.to_string(), "{told:?}");
        assert_eq!(found.segments.len(), 1);
    }
    // A sound that is longer than the model's window is read in parts.
    let tones: Vec<f32> = (0..40)
        .flat_map(|at| wav::read(&folder.path().join(format!("valid-{}.wav", at % 5)), 60.0).unwrap().samples)
        .collect();
    let long = Sound { samples: tones, rate: 8_000, notes: Vec::new() };
    let found = engine.transcribe(&long, &TranscribeOptions::default()).unwrap();
    assert!(found.segments.len() >= 3, "{found:?}");
    for pair in found.segments.windows(2) {
        assert!((pair[0].end - pair[1].start).abs() < 1e-9, "{found:?}");
    }
    assert!((found.segments.last().unwrap().end - 1.2).abs() < 1e-9, "{found:?}");
}

#[test]
fn lists_of_sounds_are_checked_with_their_lines() {
    let example = ModelConfig::examples().into_iter().find(|example| example.view() == View::Speech).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example);
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    for (line, expected) in [
        ("none.wav\t7", "none.wav: cannot open"),
        ("train.source\t7", "train.source: another kind of file, expected WAV"),
        ("long.wav\t7\nlong.wav\t", "no usable sound (1 without text, 1 too long)"),
        ("long.wav\t7", "no usable sound (0 without text, 1 too long)"),
    ] {
        std::fs::write(folder.path().join("long.wav"), wav::encode(&vec![0.1; 8_000], 8_000)).unwrap();
        std::fs::write(folder.path().join("bad.tsv"), format!("{line}\n")).unwrap();
        let error = refused(&|config| config.data.train[0].tsv = Some(folder.path().join("bad.tsv")));
        assert!(error.contains(expected) && error.contains("bad.tsv"), "{line}: {error}");
    }
    let error = refused(&|config| config.train.r_drop = 1.0);
    assert!(error.starts_with("train.r_drop: 1 for task = \"transcribe\", expected 0"), "{error}");
    let error = refused(&|config| config.validation.metric = polyhead_train::config::Metric::Bleu);
    assert!(error.contains("validation.metric: \"bleu\", expected wer, errors or loss"), "{error}");
}
