//! Masked language models, text vectors, and encoders that a run starts from: they learn, resume exactly, and their folders work.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use polyhead_attention::{Capture, Pass};
use polyhead_engine::encoder::embed::cosine;
use polyhead_engine::encoder::fill::Filler;
use polyhead_engine::{Classifier, LoadOptions, LongTexts, TextEncoder};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load, save, with_head};
use polyhead_models::encoder::EncoderHead;
use polyhead_models::transformer::bert::{BertConfig, BertHead};
use polyhead_models::transformer::config::StackConfig;
use polyhead_models::{DataSpec, Encoder, ModelConfig};
use polyhead_tensor::{Parameters, Tape};
use polyhead_train::config::{Override, RunConfig, parse};
use polyhead_train::event::{Ending, Event};
use polyhead_train::{Result, RunOptions, Start, train};

use crate::toy;

const RECIPE: &str = r#"
out = "run"
seed = 3
[tokenizer]
kind = "word"
vocab_size = 0
min_frequency = 1
[model]
model_type = "bert"
d_model = 24
n_layers = 1
n_heads = 2
d_ff = 40
max_len = 32
[schedule]
curve = "constant"
peak = 0.01
warmup_steps = 10
[train]
device = "cpu"
max_tokens = 200
max_steps = 12
log_every = 5
accumulate = 2
ema = 0.9
[validation]
every_steps = 6
[checkpoint]
every_steps = 4
final = "average_last"
average = 2
"#;

const TASKS: [&str; 2] = ["masked-language-model", "contrastive"];

/// A run of a task: counting up to nine, or numbers and their names.
fn config(folder: &Path, task: &str, overrides: &[&str]) -> Result<RunConfig> {
    let line = |start: usize| (start..start + 5).map(|digit| digit.to_string()).collect::<Vec<_>>().join(" ");
    let text: String = (0..40).map(|index| line(1 + index % 5) + "\n").collect();
    std::fs::write(folder.join("text.txt"), text).unwrap();
    let names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    let pair = |number: usize| {
        let (tens, ones) = (number / 10, number % 10);
        format!("{tens} {ones}\t{} and {}\n", names[tens], names[ones])
    };
    let (mut pairs, mut held_out) = (String::new(), String::new());
    for number in 0..100 {
        let text = if number % 7 == 3 { &mut held_out } else { &mut pairs };
        *text += &pair(number);
    }
    std::fs::write(folder.join("pairs.tsv"), pairs).unwrap();
    std::fs::write(folder.join("held_out.tsv"), held_out).unwrap();
    let data = if task == "contrastive" {
        "train = { tsv = \"pairs.tsv\" }\nvalid = { tsv = \"held_out.tsv\" }"
    } else {
        "train = { text = \"text.txt\" }\nvalid = { text = \"text.txt\" }\nmax_length = 16\nrows = \"lines\""
    };
    let recipe = format!("task = \"{task}\"\n{RECIPE}\n[data]\n{data}\n");
    let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
    parse(&recipe, "recipe.toml", folder, &overrides)
}

/// A small encoder with random weights and a vocabulary, in the layout of another program.
fn starting_folder(layout: CheckpointLayout, head: EncoderHead) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (encoder, none) = (StackConfig::new(2, 3, 10), BertHead::None);
    let mut config = BertConfig { d_model: 12, encoder, head: none, max_len: 40, ..BertConfig::default() };
    match layout {
        CheckpointLayout::Roberta => (config.position_offset, config.token_types) = (1, 1),
        CheckpointLayout::Distilbert => config.token_types = 0,
        CheckpointLayout::Mpnet => {
            (config.position_offset, config.token_types, config.position_buckets) = (1, 0, 32);
        }
        CheckpointLayout::Modernbert => {
            let encoder = StackConfig::new(3, 2, 10);
            config = BertConfig { d_model: 12, encoder, head: none, ..BertConfig::modern() };
            config.dropout.residual = 0.0;
        }
        _ => {}
    }
    let config = with_head(&config.into(), layout, head).unwrap();
    let labels = if head == EncoderHead::Classes { vec!["no".into(), "yes".into()] } else { Vec::new() };
    let facts = DataSpec { vocab_sizes: [20; 2], labels, special_tokens: true, ..DataSpec::default() };
    let config = config.with_data(&facts).unwrap();
    let mut parameters = Parameters::default();
    Encoder::new(&config, &mut parameters).unwrap();
    parameters.initialise(7);
    save(folder.path(), &config, &parameters, &SaveOptions { layout, ..SaveOptions::default() }).unwrap();
    let mut vocabulary: Vec<String> =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(str::to_owned).to_vec();
    vocabulary.extend((0..10).map(|digit| digit.to_string()));
    std::fs::write(folder.path().join("vocab.txt"), vocabulary.join("\n") + "\n").unwrap();
    folder
}

/// A run that starts from a folder and tells texts with a 7 from others.
fn classes(folder: &Path, init: &Path, overrides: &[&str]) -> Result<RunConfig> {
    for name in ["train", "valid"] {
        toy::write_pairs(folder, name, 120, if name == "train" { 1 } else { 2 });
        let texts = std::fs::read_to_string(folder.join(format!("{name}.source"))).unwrap();
        let label = |text: &str| if text.contains('7') { "yes" } else { "no" };
        let rows: String = texts.lines().map(|text| format!("{text}\t{}\n", label(text))).collect();
        std::fs::write(folder.join(format!("{name}.tsv")), rows).unwrap();
    }
    let rest = RECIPE.split("[schedule]").nth(1).unwrap();
    let recipe = format!(
        "task = \"classify\"\nout = \"classes\"\ninit = {:?}\n[data]\ntrain = {{ tsv = \"train.tsv\" }}\nvalid = {{ tsv = \
         \"valid.tsv\" }}\n[schedule]{rest}",
        init.display().to_string()
    );
    let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
    parse(&recipe, "recipe.toml", folder, &overrides)
}

/// The score of the last validation, and what the run said about its start.
fn run(config: &RunConfig) -> (f64, String) {
    let (mut accuracy, mut started) = (0.0, String::new());
    train(config, RunOptions::default(), &mut |event| match event {
        Event::Validated { line, .. } => accuracy = line.scores["accuracy"],
        Event::Initialised { fresh, dropped, .. } => started = format!("{fresh:?} {dropped:?}"),
        _ => {}
    })
    .unwrap();
    (accuracy, started)
}

#[test]
fn a_killed_and_resumed_run_equals_an_uninterrupted_one() {
    for task in TASKS {
        let folder = tempfile::tempdir().unwrap();
        let whole = config(folder.path(), task, &[]).unwrap();
        assert_eq!(toy::run(&whole, RunOptions::default(), 1).0.unwrap().ending, Ending::Steps, "{task}");
        let parts = RunConfig { out: folder.path().join("parts"), ..whole.clone() };
        let mut sessions = 0;
        loop {
            let (stop, mut steps) = (AtomicBool::new(false), 0);
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
        assert_eq!(sessions, 3, "{task}");
        assert!(toy::weights(&parts.out) == toy::weights(&whole.out), "{task}");
        let other = RunConfig { out: folder.path().join("other"), ..whole.clone() };
        toy::run(&other, RunOptions::default(), 2).0.unwrap();
        assert!(toy::weights(&other.out) == toy::weights(&whole.out), "{task}: threads");
        // The resolved recipe of the run folder is the recipe.
        let stored = polyhead_train::config::load(&whole.out.join("config.toml"), &[]).unwrap();
        assert_eq!(stored.model, whole.model, "{task}");
    }
}

#[test]
fn a_masked_language_model_fills_masks_and_starts_other_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["train.max_steps=150", "validation.every_steps=150", "train.accumulate=1"];
    let config = config(folder.path(), TASKS[0], &settings).unwrap();
    let (accuracy, _) = run(&config);
    assert!(accuracy > 80.0, "{accuracy}");
    let model = config.out.join("model");
    let filler = Filler::load(&model, &LoadOptions::default()).unwrap();
    let filled = filler.fill(&["2 3 [MASK] 5 6", "[MASK] 2 3 4 5"], 1, LongTexts::Refuse).unwrap();
    let words: Vec<String> =
        filled.into_iter().map(|filled| filled.unwrap().masks[0][0].word.clone()).collect();
    assert_eq!(words, ["4", "1"]);
    let encoder = TextEncoder::load(&model, &LoadOptions::default()).unwrap();
    let read = encoder.read("1 2", LongTexts::Refuse).unwrap();
    assert_eq!(read.encoding.pieces, ["[CLS]", "1", "2", "[SEP]"]);
    assert!(encoder.pools_by_default());

    let settings = ["train.max_steps=60", "validation.every_steps=60", "model.pooling=mean"];
    let classes = classes(folder.path(), &model, &settings).unwrap();
    let (accuracy, started) = run(&classes);
    assert_eq!(started, r#"["classes", "classifier"] ["output", "transform"]"#);
    assert!(accuracy > 90.0, "{accuracy}");
    let classifier = Classifier::load(classes.out.join("model"), &LoadOptions::default()).unwrap();
    assert_eq!(classifier.model().labels(), ["no", "yes"]);
    assert_eq!(classifier.encode("1 7").unwrap().pieces, ["[CLS]", "1", "7", "[SEP]"]);
    assert_eq!(classifier.classify(&["3 7 2 4"]).unwrap()[0][0].label, "yes");
}

#[test]
fn text_vectors_of_pairs_are_near_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["train.max_steps=120", "validation.every_steps=120", "train.accumulate=1"];
    let config = config(folder.path(), TASKS[1], &settings).unwrap();
    let (accuracy, _) = run(&config);
    assert!(accuracy > 80.0, "{accuracy}");
    let encoder = TextEncoder::load(config.out.join("model"), &LoadOptions::default()).unwrap();
    assert!(encoder.modules().is_some());
    let texts = ["4 2", "four and two", "nine and one"];
    let vectors: Vec<Vec<f32>> = encoder
        .embed(&texts, LongTexts::Refuse)
        .unwrap()
        .into_iter()
        .map(|found| found.unwrap().vector)
        .collect();
    assert!((cosine(&vectors[0], &vectors[0]) - 1.0).abs() < 1e-6);
    let length: f32 = vectors[0].iter().map(|number| number * number).sum();
    assert!((length - 1.0).abs() < 1e-5, "{length}");
    assert!(cosine(&vectors[0], &vectors[1]) > cosine(&vectors[0], &vectors[2]) + 0.3);
}

#[test]
fn judged_pairs_choose_the_best_vectors() {
    let folder = tempfile::tempdir().unwrap();
    // Texts of the same number, of one common digit, of none.
    let judged = "a\tb\tscore\n4 2\tfour and two\t5\n7 1\tseven and one\t4.5\n\n3 3\tthree and nine\t2\n8 5\tone and five\t2\n\
                  6 4\tzero and two\t0\n9 9\ttwo and three\t0.5\n";
    std::fs::write(folder.path().join("judged.tsv"), judged).unwrap();
    let settings = [
        "train.max_steps=120",
        "validation.every_steps=120",
        "train.accumulate=1",
        "validation.metric=spearman",
        &format!("validation.judged={}", folder.path().join("judged.tsv").display()),
    ];
    let mut config = config(folder.path(), TASKS[1], &settings).unwrap();
    let mut validated = None;
    train(&config, RunOptions::default(), &mut |event| {
        if let Event::Validated { line, .. } = event {
            validated = Some(line.clone());
        }
    })
    .unwrap();
    let found = validated.unwrap().scores["spearman"];
    let encoder = TextEncoder::load(config.out.join("model"), &LoadOptions::default()).unwrap();
    let cosine_of = |line: &str| {
        let texts: Vec<&str> = line.split('\t').take(2).collect();
        let vectors = encoder.embed(&texts, LongTexts::Refuse).unwrap();
        let vectors: Vec<_> = vectors.into_iter().map(|found| found.unwrap().vector).collect();
        cosine(&vectors[0], &vectors[1])
    };
    let lines: Vec<&str> = judged.lines().skip(1).filter(|line| !line.is_empty()).collect();
    let cosines: Vec<f64> = lines.iter().map(|line| cosine_of(line)).collect();
    // Ranks of the scores 5, 4.5, 2, 2, 0, 0.5, and of the cosines; no two of these are equal.
    let judged_ranks = [6.0, 5.0, 3.5, 3.5, 1.0, 2.0];
    let rank = |value: f64| cosines.iter().filter(|&&own| own <= value).count() as f64;
    let covariance: f64 =
        judged_ranks.iter().zip(&cosines).map(|(own, &value)| (own - 3.5) * (rank(value) - 3.5)).sum();
    let expected = 100.0 * covariance / (17.0_f64 * 17.5).sqrt();
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    assert!(found > 60.0, "{found}");

    for (line, expected) in [
        ("4 2\tfour and two\tvery\n", "judged.tsv:2: 3 columns, expected two texts and a number"),
        ("4 2\tfour and two\n", "judged.tsv:2: 2 columns, expected two texts and a number"),
        ("", "judged.tsv: 1 judged pairs, expected at least 2"),
    ] {
        std::fs::write(folder.path().join("judged.tsv"), format!("4 2\tfour and two\t5\n{line}")).unwrap();
        config.out = folder.path().join(expected);
        let error = toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_classifier_starts_from_folders_of_each_layout() {
    use CheckpointLayout::{Bert, Distilbert, Modernbert, Mpnet, Roberta};
    for (layout, head, expected) in [
        (Bert, EncoderHead::MaskedLanguageModel, r#"["classes", "classifier"] ["output", "transform"]"#),
        (Roberta, EncoderHead::None, r#"["classes", "classifier"] []"#),
        (Distilbert, EncoderHead::Classes, "[] []"),
        (Mpnet, EncoderHead::None, r#"["classes", "classifier"] []"#),
        (
            Modernbert,
            EncoderHead::MaskedLanguageModel,
            r#"["classes", "classifier"] ["output", "transform"]"#,
        ),
    ] {
        let (folder, init) = (tempfile::tempdir().unwrap(), starting_folder(layout, head));
        // A learning rate that changes nothing.
        let still = ["schedule.peak=1e-12", "train.max_steps=1", "train.ema=0", "checkpoint.final=last"];
        let config = classes(folder.path(), init.path(), &still).unwrap();
        let (_, started) = run(&config);
        assert_eq!(started, expected, "{layout}");
        let model = config.out.join("model");
        let [before, after] = [init.path(), &model].map(|folder| load(folder, None).unwrap());
        assert_eq!(after.info.layout, layout);
        assert_eq!(
            std::fs::read(model.join("vocab.txt")).unwrap(),
            std::fs::read(init.path().join("vocab.txt")).unwrap()
        );
        assert_eq!(before.info.layout, layout);
        let texts = TextEncoder::load(&model, &LoadOptions::default()).unwrap();
        let ids = texts.read("1 2 3 77", LongTexts::Refuse).unwrap().encoding.ids;
        assert_eq!(ids, [2, 6, 7, 8, 1, 3]);
        let states = [before, after].map(|loaded| {
            let (tape, capture) = (Tape::inference(), Capture::off());
            let pass = Pass::new(&tape, &loaded.parameters, &capture);
            let model = loaded.model.into_encoder().unwrap();
            model.states(&pass, &model.ids(&[&ids])).unwrap().value().clone()
        });
        for (before, after) in states[0].data().iter().zip(states[1].data()) {
            assert!((before - after).abs() < 1e-5, "{layout}");
        }
    }
}

/// Without dropout a GPU and the CPU learn the same; twice, a GPU gives the same bits.
#[test]
fn every_task_of_encoders_learns_on_a_gpu() {
    if !crate::gpu::has_gpu() {
        return;
    }
    let none = "model.dropout={ embedding = 0.0, residual = 0.0 }";
    for task in TASKS {
        let folder = tempfile::tempdir().unwrap();
        let mut config =
            config(folder.path(), task, &[none, "train.dtype=f32", "train.max_steps=30"]).unwrap();
        let runs = [("cuda", "a"), ("cuda", "b"), ("cpu", "c")].map(|(device, out)| {
            config.out = folder.path().join(out);
            config.train.device = device.into();
            toy::run(&config, RunOptions::default(), 2).0.unwrap();
            (crate::gpu::losses(&config), toy::weights(&config.out))
        });
        assert!(runs[0] == runs[1], "{task}: twice");
        for (gpu, cpu) in runs[0].0.iter().zip(&runs[2].0) {
            assert!((gpu / cpu - 1.0).abs() < 1e-2, "{task}: {gpu} and {cpu}");
        }
    }
}

#[test]
fn settings_that_do_not_fit_the_task_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |task: &str, overrides: &[&str]| {
        let config = config(folder.path(), task, overrides);
        config.and_then(|config| toy::run(&config, RunOptions::default(), 1).0).unwrap_err().to_string()
    };
    for (task, setting, expected) in [
        (TASKS[0], "train.r_drop=1", "train.r_drop: 1 for task = \"masked-language-model\", expected 0"),
        (TASKS[0], "masking.probability=1", "masking.probability: 1, expected more than 0, below 1"),
        (TASKS[0], "masking.random=0.5", "masking.random: 0.5, expected 0 to 1 - mask"),
        (
            TASKS[0],
            "contrastive.symmetric=false",
            "contrastive: settings of task = \"contrastive\", but task",
        ),
        (TASKS[0], "data.max_length=2", "data.max_length: rows of 2 tokens, expected more than the 2"),
        (TASKS[0], "validation.metric=bleu", "expected accuracy or loss"),
        (TASKS[0], "model.model_type=transformer_encoder", "expected a BERT-like encoder"),
        (TASKS[1], "contrastive.temperature=0", "contrastive.temperature: 0, expected a number above 0"),
        (
            TASKS[0],
            "validation.judged=x.tsv",
            "x.tsv for task = \"masked-language-model\", which makes no vectors",
        ),
        (TASKS[1], "validation.metric=spearman", "\"spearman\" without pairs that have scores"),
        (TASKS[1], "data.max_length=2", "no usable pair (0 with an empty text, 86 too long)"),
        (TASKS[1], "data.train={ text = 'text.txt' }", "a text file, expected pairs"),
    ] {
        let error = refused(task, &[setting]);
        assert!(error.contains(expected), "{setting}: {error}");
    }
    let init = starting_folder(CheckpointLayout::Bert, EncoderHead::None);
    let error = classes(folder.path(), init.path(), &["model.d_model=24"]).unwrap_err().to_string();
    assert!(error.starts_with("model.d_model: 24, but the run starts from "), "{error}");
    let error = classes(folder.path(), init.path(), &["task=translate"]).unwrap_err().to_string();
    assert!(error.starts_with("task: \"translate\", but model.model_type is"), "{error}");
    // A tokeniser without special tokens for masks.
    let words = r#"{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","unk_token":"</s>","vocab":{"<pad>":0,"</s>":1}}}"#;
    std::fs::write(folder.path().join("words.json"), words).unwrap();
    let file = format!("tokenizer.file={}", folder.path().join("words.json").display());
    let error = refused(TASKS[0], &[&file]);
    assert!(error.contains("no [MASK] or <mask>, expected a token for hidden words"), "{error}");
}

#[test]
fn every_head_of_an_example_can_be_chosen() {
    for example in ModelConfig::examples() {
        let is_bert = example.model_type() == "polyhead_bert";
        let found = with_head(&example, CheckpointLayout::Polyhead, EncoderHead::MaskedLanguageModel);
        assert_eq!(found.is_ok(), is_bert, "{}", example.model_type());
    }
}
