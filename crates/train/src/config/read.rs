//! Parses a TOML file and `--set` into a checked [`RunConfig`], and writes it back.

use std::path::{Path, PathBuf};

use polyhead_models::View;
use polyhead_tensor::Device;
use polyhead_text::spelling::nearest;
use toml::{Table, Value};

use super::{
    AugmentConfig, ClassWeighting, ContrastiveConfig, EmbeddingsConfig, ImagesConfig, MaskingConfig,
    RunConfig, SoundConfig, TokenizerConfig, VocabularySharing, model,
};
use crate::task::Task;
use crate::{Error, Result};

/// `a.b=c` of a command line; a value that is not TOML is a string.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    path: Vec<String>,
    value: Value,
}

impl std::str::FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, as in train.max_steps=1000")?;
        let path: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return Err(format!("invalid key {key:?}, expected names joined by dots"));
        }
        let value = value.trim();
        let parsed =
            toml::from_str::<Table>(&format!("v = {value}")).ok().and_then(|mut table| table.remove("v"));
        Ok(Self { path, value: parsed.unwrap_or_else(|| Value::String(value.to_owned())) })
    }
}

/// Reads a recipe and applies overrides.
pub fn load(path: &Path, overrides: &[Override]) -> Result<RunConfig> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, "open", error))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parse(&text, &path.display().to_string(), folder, overrides)
}

/// Parses a recipe; `name` is the file in messages, and paths are relative to `folder`.
pub fn parse(text: &str, name: &str, folder: &Path, overrides: &[Override]) -> Result<RunConfig> {
    let mut table: Table = toml::from_str(text).map_err(|error| explain(name, text, &error))?;
    // The file is parsed by itself first, so that messages can name the line.
    toml::from_str::<RunConfig>(text).map_err(|error| explain(name, text, &error))?;
    paths_from(&mut table, folder);
    for Override { path, value } in overrides {
        insert(&mut table, path, value.clone())?;
        // One at a time, so that a message can name the override that is wrong.
        let place = format!("--set {}", path.join("."));
        let checked: std::result::Result<RunConfig, toml::de::Error> = table.clone().try_into();
        checked.map_err(|error| unknown_or(error.message(), &place, "--set"))?;
    }
    let section = table.get("model").and_then(Value::as_table).cloned().unwrap_or_default();
    let has = |section: &str, key: &str| table.get(section).and_then(|section| section.get(key)).is_some();
    let (has_metric, has_smoothing) = (has("validation", "metric"), has("train", "label_smoothing"));
    let has_task = table.contains_key("task");
    let mut config: RunConfig =
        table.try_into().map_err(|error: toml::de::Error| unknown_or(error.message(), name, "the file"))?;
    if let Some(folder) = &config.init {
        let task = has_task.then_some(config.task);
        (config.model, config.task) = model::of_folder(folder, &section, task)?;
    } else {
        config.model = model::complete(&section, config.task)?;
    }
    if !has_task && config.init.is_none() {
        config.task = Task::of(&config.model);
    }
    if !has_metric {
        config.validation.metric = config.task.metric();
    }
    if !has_smoothing {
        config.train.label_smoothing = config.task.label_smoothing();
    }
    check(&config)?;
    Ok(config)
}

/// The recipe as text, every default filled in.
pub fn dump(config: &RunConfig) -> String {
    toml::to_string(config).expect("a config has no key that TOML could not write")
}

fn check(config: &RunConfig) -> Result<()> {
    let wrong = |key: &str, found: String, expected: &str| {
        Err(Error::config(
            key,
            format!("{found}, expected {expected}"),
            "polyhead train --dump-config shows every key",
        ))
    };
    let (train, tokenizer) = (&config.train, &config.tokenizer);
    if config.data.train.is_empty() {
        return Err(Error::config(
            "data.train",
            "no corpus, expected one to train on",
            "for instance: train = { source = \"train.en\", target = \"train.de\" } under [data]; \
             polyhead init writes a whole recipe",
        ));
    }
    let shares = [
        ("tokenizer.dropout", tokenizer.dropout),
        ("augment.keep", config.augment.keep),
        ("augment.bare", config.augment.bare),
        ("augment.drop_source", config.augment.drop_source),
        ("train.ema", f64::from(train.ema)),
    ];
    for (key, number) in shares {
        if !(0.0..1.0).contains(&number) {
            return wrong(key, number.to_string(), "0 to below 1");
        }
    }
    check_task(config)?;
    check_init(config)?;
    check_objective(config)?;
    check_classes(config)?;
    check_numbers(config)?;
    check_corpora(config)?;
    if !(0.0..1.0).contains(&train.label_smoothing) {
        return wrong("train.label_smoothing", train.label_smoothing.to_string(), "0 to below 1");
    }
    if let Some((key, found, expected)) = incomplete(config) {
        return wrong(key, found.into(), expected);
    }
    if train.r_drop < 0.0 || !train.r_drop.is_finite() {
        return wrong("train.r_drop", train.r_drop.to_string(), "0 or more");
    }
    if let Err(error) = Device::check_name(&train.device) {
        return Err(Error::config("train.device", error.to_string(), error.hint()));
    }
    let positive = [
        ("train.max_tokens", train.max_tokens),
        ("train.accumulate", train.accumulate),
        ("train.log_every", train.log_every as usize),
        ("validation.beam_size", config.validation.beam_size),
        ("checkpoint.beam_size", config.checkpoint.beam_size),
        ("checkpoint.average", config.checkpoint.average),
        ("data.max_length", config.data.max_length),
    ];
    if let Some((key, _)) = positive.into_iter().find(|(_, number)| *number == 0) {
        return wrong(key, "0".into(), "1 or more");
    }
    check_limit(config)
}

/// Refuses a model that cannot do the task.
fn check_task(config: &RunConfig) -> Result<()> {
    let own = Task::of(&config.model);
    if config.task.view() == config.model.view() {
        return Ok(());
    }
    Err(Error::config(
        "task",
        format!("{:?}, but model.model_type is {}", config.task.name(), config.model.view().name()),
        format!("set task = {:?}, or leave model_type out", own.name()),
    ))
}

/// Refuses weights of labels that have no meaning.
fn check_classes(config: &RunConfig) -> Result<()> {
    const KEY: &str = "classes.weights";
    let Some(weights) = &config.classes.weights else { return Ok(()) };
    if !config.task.has_labels() {
        let message = format!("weights of labels for task = {:?}, which has none", config.task.name());
        return Err(Error::config(KEY, message, "leave them out"));
    }
    if config.train.r_drop > 0.0 {
        let message =
            format!("weights of labels with train.r_drop = {}, expected one of the two", config.train.r_drop);
        return Err(Error::config(KEY, message, "R-Drop weighs all labels alike: set train.r_drop = 0"));
    }
    let ClassWeighting::Table(table) = weights else { return Ok(()) };
    match table.iter().find(|(_, weight)| !(**weight > 0.0 && weight.is_finite())) {
        None => Ok(()),
        Some((label, weight)) => {
            let message = format!("{label:?} has weight {weight}, expected a number above 0");
            Err(Error::config(KEY, message, "a label that is left out has weight 1"))
        }
    }
}

/// Refuses settings that contradict the model that the run starts from.
fn check_init(config: &RunConfig) -> Result<()> {
    let Some(folder) = &config.init else { return Ok(()) };
    let folder = folder.display();
    if !matches!(config.task.view(), View::LanguageModel | View::Encoder | View::Image) {
        return Err(Error::config(
            "init",
            format!("{folder} for task = {:?}, expected a language model or an encoder", config.task.name()),
            "leave it out: other tasks train from random weights",
        ));
    }
    let given = [
        ("tokenizer", config.tokenizer != TokenizerConfig::default()),
        ("embeddings", config.embeddings != EmbeddingsConfig::default()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((section, _)) => Err(Error::config(
            section,
            format!("settings for a new model, but the run starts from {folder}, which has its own"),
            format!("leave [{section}] out"),
        )),
    }
}

/// Refuses settings of another objective, and numbers out of range.
fn check_objective(config: &RunConfig) -> Result<()> {
    let RunConfig { masking, contrastive, images, sound, task, .. } = config;
    if let Some((key, found, expected)) = images.wrong() {
        return Err(Error::config(
            key,
            format!("{found}, expected {expected}"),
            "leave it out for the default",
        ));
    }
    let of_other = [
        ("images", Task::ImageClassification, *images != ImagesConfig::default()),
        ("masking", Task::MaskedLanguageModel, *masking != MaskingConfig::default()),
        ("contrastive", Task::Contrastive, *contrastive != ContrastiveConfig::default()),
        ("sound", Task::Transcription, *sound != SoundConfig::default()),
    ];
    if let Some((section, own, _)) = of_other.iter().find(|(_, own, is_given)| *is_given && own != task) {
        let message = format!("settings of task = {:?}, but task = {:?}", own.name(), task.name());
        return Err(Error::config(*section, message, format!("leave [{section}] out")));
    }
    if matches!(task, Task::MaskedLanguageModel | Task::Contrastive) && config.train.r_drop > 0.0 {
        let message = format!("{} for task = {:?}, expected 0", config.train.r_drop, task.name());
        return Err(Error::config("train.r_drop", message, "leave it out"));
    }
    let MaskingConfig { probability, mask, random } = *masking;
    let checks = [
        ("masking.probability", probability, probability > 0.0 && probability < 1.0, "more than 0, below 1"),
        ("masking.mask", mask, (0.0..=1.0).contains(&mask), "0 to 1"),
        ("masking.random", random, (0.0..=1.0).contains(&random) && mask + random <= 1.0, "0 to 1 - mask"),
        (
            "contrastive.temperature",
            f64::from(contrastive.temperature),
            contrastive.temperature > 0.0 && contrastive.temperature.is_finite(),
            "a number above 0",
        ),
        ("sound.speed", sound.speed, (0.0..0.5).contains(&sound.speed), "0 or more, below 0.5"),
        ("sound.noise", sound.noise, (0.0..=1.0).contains(&sound.noise), "0 to 1"),
    ];
    match checks.into_iter().find(|(_, _, fits, _)| !fits) {
        None => Ok(()),
        Some((key, number, _, expected)) => {
            let message = format!("{number}, expected {expected}");
            Err(Error::config(key, message, "leave it out for the default"))
        }
    }
}

/// Refuses a run that would never end.
fn check_limit(config: &RunConfig) -> Result<()> {
    let train = &config.train;
    let ends = train.max_steps > 0 || train.max_epochs > 0 || train.max_minutes > 0.0;
    if !ends && (config.validation.patience == 0 || config.data.valid.is_empty()) {
        return Err(Error::config(
            "train",
            "no limit, expected train.max_steps, train.max_epochs, train.max_minutes, or data.valid with \
             validation.patience",
            "for instance: max_epochs = 30 under [train]",
        ));
    }
    Ok(())
}

/// A key that needs another one: the key, its value, and what is missing.
fn incomplete(config: &RunConfig) -> Option<(&'static str, &'static str, &'static str)> {
    let RunConfig { tokenizer, embeddings, .. } = config;
    if tokenizer.target_kind.is_some() && tokenizer.sides == VocabularySharing::Shared {
        return Some((
            "tokenizer.target_kind",
            "set for the target alone",
            "tokenizer.sides = \"separate\" as well",
        ));
    }
    let is_incomplete = embeddings.frozen && embeddings.init.is_none();
    is_incomplete.then_some(("embeddings.frozen", "true", "embeddings.init as well"))
}

/// Refuses inconsistent corpora.
fn check_corpora(config: &RunConfig) -> Result<()> {
    let (n_sources, AugmentConfig { keep, bare, drop_source }) = (config.model.n_sources(), config.augment);
    if n_sources > 1 && keep.max(bare) > 0.0 {
        let message = format!("keep or bare for a model of {n_sources} sources, expected drop_source alone");
        return Err(Error::config(
            "augment",
            message,
            "they compare a source with its translation: leave them out",
        ));
    }
    if n_sources < 2 && drop_source > 0.0 {
        let message = "a probability for a model of one source, expected several";
        return Err(Error::config("augment.drop_source", message, "set model.sources, or leave it out"));
    }
    let all = || config.data.train.iter().chain(&config.data.valid);
    if all().any(|corpus| corpus.repeat == Some(0)) {
        return Err(Error::config("data", "repeat = 0, expected 1 or more", "leave the corpus out instead"));
    }
    let codes = || all().filter_map(|corpus| corpus.languages.as_ref()).flatten();
    let is_code = |code: &String| code.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if let Some(code) = codes().find(|code| code.is_empty() || !is_code(code)) {
        return Err(Error::config(
            "data",
            format!("languages with {code:?}, expected codes of letters"),
            "for instance: languages = [\"eng\", \"tur\"]",
        ));
    }
    if codes().next().is_some() && all().any(|corpus| corpus.languages.is_none()) {
        return Err(Error::config(
            "data",
            "some corpora with languages and some without, expected all or none",
            "a model of several directions needs the languages of every corpus",
        ));
    }
    Ok(())
}

/// Refuses numbers out of range.
fn check_numbers(config: &RunConfig) -> Result<()> {
    let (optimizer, train, validation) = (&config.optimizer, &config.train, &config.validation);
    let shares = [("optimizer.beta1", optimizer.beta1), ("optimizer.beta2", optimizer.beta2)];
    let shares =
        shares.map(|(key, number)| (key, f64::from(number), (0.0..1.0).contains(&number), "0 to below 1"));
    let from_zero = [
        ("optimizer.weight_decay", f64::from(optimizer.weight_decay)),
        ("optimizer.clip_norm", f64::from(optimizer.clip_norm)),
        ("train.max_minutes", train.max_minutes),
        ("validation.every_minutes", validation.every_minutes),
        ("checkpoint.every_minutes", config.checkpoint.every_minutes),
    ];
    let from_zero =
        from_zero.map(|(key, number)| (key, number, number >= 0.0 && number.is_finite(), "0 or more"));
    let epsilon = f64::from(optimizer.epsilon);
    let penalty = config.checkpoint.length_penalty;
    let others = [
        ("optimizer.epsilon", epsilon, epsilon > 0.0 && epsilon.is_finite(), "a small number above 0"),
        ("train.length_bucket", train.length_bucket as f64, train.length_bucket > 0, "1 or more"),
        ("checkpoint.length_penalty", penalty, penalty.is_finite(), "a number"),
    ];
    match shares.into_iter().chain(from_zero).chain(others).find(|(_, _, fits, _)| !fits) {
        None => Ok(()),
        Some((key, number, _, expected)) => {
            let message = format!("{number}, expected {expected}");
            Err(Error::config(key, message, "leave it out for the default"))
        }
    }
}

/// Resolves the paths of a file against its folder.
fn paths_from(table: &mut Table, folder: &Path) {
    let anchor = |value: &mut Value| {
        if let Value::String(text) = value {
            *text = folder.join(PathBuf::from(&*text)).to_string_lossy().into_owned();
        }
    };
    let within = |table: &mut Table, keys: &[&str]| {
        for key in keys {
            if let Some(value) = table.get_mut(*key) {
                anchor(value);
            }
        }
    };
    within(table, &["out", "init"]);
    for (section, key) in [("tokenizer", "file"), ("embeddings", "init")] {
        if let Some(Value::Table(section)) = table.get_mut(section) {
            within(section, &[key]);
        }
    }
    let Some(Value::Table(data)) = table.get_mut("data") else { return };
    let corpora = ["source", "target", "tsv", "csv", "conll", "jsonl", "text", "images", "labels", "cifar"];
    for key in ["train", "valid"] {
        match data.get_mut(key) {
            Some(Value::Table(corpus)) => within(corpus, &corpora),
            Some(Value::Array(several)) => {
                several
                    .iter_mut()
                    .filter_map(Value::as_table_mut)
                    .for_each(|corpus| within(corpus, &corpora));
            }
            _ => {}
        }
    }
}

fn insert(table: &mut Table, path: &[String], value: Value) -> Result<()> {
    let (last, sections) = path.split_last().expect("a key has a name");
    let mut table = table;
    for section in sections {
        let inner = table.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
        table = inner.as_table_mut().ok_or_else(|| {
            let key = path.join(".");
            Error::config(
                format!("--set {key}"),
                format!("{section} is not a section"),
                "check the spelling of the key",
            )
        })?;
    }
    table.insert(last.clone(), value);
    Ok(())
}

/// A parser error with its line.
fn explain(name: &str, text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
    let place = line.map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
    unknown_or(error.message(), &place, "the file")
}

/// Rewrites "unknown field `x`, expected one of `a`, `b`" as a message with the nearest known key.
fn unknown_or(message: &str, place: &str, origin: &str) -> Error {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((key, known)) if message.starts_with("unknown field") => {
            let nearest = nearest(key, known.iter().copied()).unwrap_or_default();
            Error::config(
                place,
                format!("unknown key {key:?}; the nearest known one is {nearest:?}"),
                "polyhead train --dump-config shows every key with its default",
            )
        }
        _ => Error::config(
            place,
            message.trim().replace('\n', "; "),
            format!("correct {origin}; polyhead train --dump-config shows every key"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Metric;

    const SMALLEST: &str =
        "[data]\ntrain = { source = \"a.en\", target = \"a.de\" }\n[train]\nmax_steps = 9\n";

    fn read(text: &str, overrides: &[&str]) -> Result<RunConfig> {
        let overrides: Vec<Override> = overrides.iter().map(|text| text.parse().unwrap()).collect();
        parse(text, "x.toml", Path::new("folder"), &overrides)
    }

    #[test]
    fn a_dumped_config_reads_back_the_same() {
        let config =
            read(SMALLEST, &["model.preset=tiny", "model.n_layers=4", "model.dropout.attention=0.2"])
                .unwrap();
        assert_eq!(config.data.train[0].source, Some("folder/a.en".into()));
        let model = keys(&config);
        assert_eq!(model["d_model"].as_integer(), Some(128));
        assert_eq!(["encoder", "decoder"].map(|stack| model[stack]["n_layers"].as_integer()), [Some(4); 2]);
        let dropout = ["attention", "residual"].map(|key| model["dropout"][key].as_float().unwrap() as f32);
        assert_eq!(dropout, [0.2, 0.1]);
        let again = parse(&dump(&config), "dump", Path::new(""), &[]).unwrap();
        assert_eq!(again, config);
    }

    fn keys(config: &RunConfig) -> Value {
        Value::Table(toml::from_str::<Table>(&dump(config)).unwrap())["model"].clone()
    }

    #[test]
    fn a_classifier_is_validated_by_accuracy_and_has_no_decoder() {
        let config = read(SMALLEST, &["model.model_type=transformer_encoder", "model.pooling=mean"]).unwrap();
        assert_eq!(config.validation.metric, Metric::Accuracy);
        let model = keys(&config);
        assert_eq!((model["pooling"].as_str(), model.get("decoder")), (Some("mean"), None));
        let again = parse(&dump(&config), "dump", Path::new(""), &[]).unwrap();
        assert_eq!(again, config);
        let error = read(SMALLEST, &["model.model_type=transformer_encodr"]).unwrap_err();
        assert_eq!(error.hint(), "did you mean \"transformer_encoder\"?");
        let error = read(SMALLEST, &["model.model_type=window_encoder", "model.n_layers=3"]).unwrap_err();
        assert!(error.to_string().starts_with("model.n_layers: unknown key"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_reported_with_its_line_and_the_nearest() {
        let error = read(&format!("{SMALLEST}max_step = 3\n"), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x.toml:5: unknown key \"max_step\"; the nearest known one is \"max_steps\""
        );
        let error = read(SMALLEST, &["schedule.warmup=3"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--set schedule.warmup: unknown key \"warmup\"; the nearest known one is \"warmup_steps\""
        );
        let error = read(SMALLEST, &["model.d_modle=3"]).unwrap_err();
        assert!(error.to_string().contains("the nearest known one is \"d_model\""), "{error}");
        let error = read(SMALLEST, &["model.pad_id=3"]).unwrap_err();
        assert!(error.to_string().contains("set by the tokeniser"), "{error}");
        let error = read(SMALLEST, &["model.preset=tinny"]).unwrap_err();
        assert_eq!(error.hint(), "did you mean \"tiny\"?");
    }

    #[test]
    fn an_override_replaces_a_whole_table() {
        let config =
            read(SMALLEST, &["model.position={ kind = 'rotary', base = 1e4, pairing = 'halves' }"]).unwrap();
        assert_eq!(keys(&config)["position"]["kind"].as_str(), Some("rotary"));
    }

    #[test]
    fn a_run_needs_data_and_a_limit() {
        let error = read("[train]\nmax_steps = 3\n", &[]).unwrap_err();
        assert!(error.to_string().contains("data.train: no corpus"), "{error}");
        let error = read(SMALLEST, &["train.max_steps=0"]).unwrap_err();
        assert!(error.to_string().contains("train: no limit"), "{error}");
        let error = read(SMALLEST, &["optimizer.beta2=1.5"]).unwrap_err();
        assert!(error.to_string().starts_with("optimizer.beta2: 1.5, expected 0 to below 1"), "{error}");
        let error = read(SMALLEST, &["train.max_steps=8", "schedule.peak=fast"]).unwrap_err();
        assert!(error.to_string().starts_with("--set schedule.peak: "), "{error}");
        let error = read(SMALLEST, &["model.n_heads=3"]).unwrap_err();
        assert!(error.to_string().starts_with("model: "), "{error}");
        let error = read(SMALLEST, &["train.device=gpu"]).unwrap_err();
        assert!(
            error.to_string().starts_with("train.device: unknown device \"gpu\"") && error.is_misuse(),
            "{error}"
        );
    }
}
