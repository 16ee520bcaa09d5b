//! Captioning: scenes are learned and described, and data that cannot be read is named.

use std::path::Path;

use polyhead_engine::image::{CaptionOptions, ImageLimits, ImageOptions, Picture, decode};
use polyhead_engine::{CaptionEngine, LoadOptions, SpeechEngine};
use polyhead_models::{ModelConfig, View};
use polyhead_train::config::{CorpusConfig, Metric, RunConfig};
use polyhead_train::{RunOptions, Task};

use crate::families::config;
use crate::toy;

fn example() -> ModelConfig {
    ModelConfig::examples().into_iter().find(|example| example.view() == View::Caption).unwrap()
}

/// A picture of one colour.
fn plain(folder: &Path, name: &str, colour: [u8; 3], side: usize) -> Picture {
    let picture = Picture::new([side; 2], 3, colour.repeat(side * side));
    std::fs::write(folder.join(name), picture.to_png()).unwrap();
    picture
}

#[test]
fn captioners_learn_from_several_captions_and_load_from_their_folders() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), &example());
    let colours = [("red", [200, 30, 30]), ("green", [30, 200, 30]), ("blue", [30, 30, 200])];
    let pictures = colours.map(|(name, colour)| plain(folder.path(), &format!("{name}.png"), colour, 12));
    let lines: String = colours
        .iter()
        .map(|(name, _)| format!("{name}.png\tall of it is {name}\n{name}.png\tall is {name}\n"))
        .collect();
    std::fs::write(folder.path().join("train.tsv"), lines.repeat(10)).unwrap();
    std::fs::write(folder.path().join("valid.tsv"), lines).unwrap();
    (config.train.max_steps, config.validation.every_steps, config.train.ema) = (200, 200, 0.0);
    (config.validation.metric, config.data.valid[0].facts) = (Metric::Bleu, None);
    (config.validation.beam_size, config.checkpoint.beam_size) = (2, 2);
    let (outcome, told) = toy::run(&config, RunOptions::default(), 2);
    outcome.unwrap();
    let read = told.iter().find(|line| line.starts_with("Read")).unwrap();
    // 60 captions of 16 patches each, and three images for validation.
    assert!(read.contains("tokens: [960, ") && read.contains("valid: Some((3, 0))"), "{read}");
    let folder = config.out.join("model");
    let load = LoadOptions::default();
    let engine = CaptionEngine::load(&folder, &load, ImageOptions::default()).unwrap();
    let found = engine.caption(&pictures, &CaptionOptions::default()).unwrap();
    for (caption, (name, _)) in found.iter().zip(colours) {
        let expected = [format!("all of it is {name}"), format!("all is {name}")];
        assert!(expected.contains(&caption.text), "{caption:?}, expected {name}");
        assert!(caption.log_probability < 0.0 && caption.log_probability > -1.0, "{caption:?}");
    }
    // A picture alone has the same caption as among others; a larger one is resized.
    assert_eq!(engine.caption(&pictures[1..2], &CaptionOptions::default()).unwrap()[0], found[1]);
    let large = plain(folder.as_path(), "large.png", colours[2].1, 40);
    assert_eq!(engine.caption(&[large], &CaptionOptions::default()).unwrap()[0].text, found[2].text);
    let short = CaptionOptions { max_tokens: Some(1), beam_size: Some(1) };
    assert_eq!(engine.caption(&pictures, &short).unwrap()[0].text, "all");
    let attention = engine.attend(&pictures[0], &CaptionOptions::default()).unwrap();
    assert_eq!(attention.caption, found[0]);
    for layer in &attention.attention {
        let &[_, tokens, patches] = layer.weights.shape() else { panic!("three axes") };
        assert_eq!((tokens, patches), (found[0].ids.len() + 1, 16));
        let sums = layer.weights.data().chunks_exact(patches).map(|row| row.iter().sum::<f32>());
        assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-5));
    }
    let error = SpeechEngine::load(&folder, &load).unwrap_err();
    assert!(error.to_string().contains("an image captioner, expected a speech recogniser"), "{error}");
    assert_eq!(error.hint(), "use it with polyhead caption");
    let error = engine.caption(&pictures, &CaptionOptions { beam_size: Some(0), max_tokens: None });
    assert!(error.unwrap_err().to_string().contains("a beam size of 0"));
}

#[test]
fn images_captions_and_settings_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example());
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    let error = refused(&|config| config.train.r_drop = 1.0);
    assert!(error.starts_with("train.r_drop: a setting of other tasks"), "{error}");
    let error = refused(&|config| config.images.mixup = 0.5);
    assert!(error.starts_with("images.mixup: a setting of other tasks"), "{error}");
    let error = refused(&|config| config.tokenizer.dropout = 0.1);
    assert!(error.starts_with("tokenizer.dropout: a setting for sentence pairs"), "{error}");
    let error = refused(&|config| config.validation.metric = Metric::Wer);
    assert!(error.contains("validation.metric: \"wer\", expected bleu, chrf, facts or loss"), "{error}");
    let error = refused(&|config| config.data.valid[0].facts = None);
    assert!(error.contains("but nothing is known of") && error.contains("valid-0.png"), "{error}");
    let error = refused(&|config| config.task = Task::Transcription);
    assert!(error.contains("facts of images, expected none for task = \"transcribe\""), "{error}");
    let huge = plain(folder.path(), "huge.png", [9; 3], 400);
    assert_eq!(huge.size(), [400, 400]);
    for (line, expected) in [
        ("none.png\ta ring", "none.png: cannot read"),
        ("train.source\ta ring", "train.source: an unknown format, expected PNG or JPEG"),
        ("huge.png\ta ring", "400×400 pixels are 0.2 megapixels, expected at most 0.1"),
        (
            "small.png\t\nsmall.png\ta ring and a star and a ring and a star",
            "no usable caption (1 without text, 1 too long)",
        ),
    ] {
        plain(folder.path(), "small.png", [9; 3], 16);
        std::fs::write(folder.path().join("bad.tsv"), format!("{line}\n")).unwrap();
        let error = refused(&|config| {
            config.data.train =
                vec![CorpusConfig { tsv: Some(folder.path().join("bad.tsv")), ..CorpusConfig::default() }];
            config.images.max_megapixels = 0.1;
            config.data.max_length = 8;
        });
        assert!(error.contains(expected) && error.contains("bad.tsv"), "{line}: {error}");
    }
    assert!(decode::read(&folder.path().join("huge.png"), ImageLimits::default()).is_ok());
}
