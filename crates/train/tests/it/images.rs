//! Image classifiers: they learn from idx files, folders and CIFAR's files; fine-tuning; data that cannot be used.

use std::fs;
use std::path::Path;

use polyhead_engine::image::{ImageClassifier, ImageOptions, Picture};
use polyhead_engine::{Classifier, LoadOptions};
use polyhead_models::{ModelConfig, View};
use polyhead_random::Random;
use polyhead_train::config::{CorpusConfig, ImagesConfig, RunConfig};
use polyhead_train::{RunOptions, Task};

use crate::families::config;
use crate::toy;

/// Height and width of the images.
const SIZE: [usize; 2] = [8, 9];

/// A noisy image with a bright square in the corner that its label, 0 to 3, names.
fn image(seed: u64, index: u64) -> (Vec<u8>, u8) {
    let random = Random::new(seed).stream(index);
    let label = random.below(4, 1000);
    let (top, left) = (label / 2 * 5, label % 2 * 6);
    let mut pixels: Vec<u8> = (0..72).map(|at| random.below(100, at) as u8).collect();
    for y in top..top + 3 {
        pixels[y * SIZE[1] + left..y * SIZE[1] + left + 3].fill(250);
    }
    (pixels, label as u8)
}

/// Writes `NAME.images` and `NAME.labels`, idx files.
pub(crate) fn write_idx(folder: &Path, name: &str, count: u64, seed: u64) {
    let (pixels, labels): (Vec<Vec<u8>>, Vec<u8>) = (0..count).map(|index| image(seed, index)).unzip();
    let file = |ending: &str, magic: u32, sizes: &[u32], bytes: &[u8]| {
        let header: Vec<u8> = [magic].iter().chain(sizes).flat_map(|number| number.to_be_bytes()).collect();
        fs::write(folder.join(format!("{name}.{ending}")), [&header, bytes].concat()).unwrap();
    };
    file("images", 0x803, &[count as u32, SIZE[0] as u32, SIZE[1] as u32], &pixels.concat());
    file("labels", 0x801, &[count as u32], &labels);
}

/// The files that `write_idx` writes.
pub(crate) fn idx_files(folder: &Path, name: &str) -> CorpusConfig {
    let path = |ending: &str| Some(folder.join(format!("{name}.{ending}")));
    CorpusConfig { images: path("images"), labels: path("labels"), ..CorpusConfig::default() }
}

/// Writes a folder with a folder for each class.
fn write_folders(folder: &Path, name: &str, count: u64, seed: u64) -> CorpusConfig {
    let path = folder.join(name);
    for index in 0..count {
        let (pixels, label) = image(seed, index);
        let class = path.join(["nw", "ne", "sw", "se"][usize::from(label)]);
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join(format!("{index}.png")), Picture::new(SIZE, 1, pixels).to_png()).unwrap();
    }
    CorpusConfig { images: Some(path), ..CorpusConfig::default() }
}

fn examples() -> impl Iterator<Item = ModelConfig> {
    ModelConfig::examples().into_iter().filter(|example| example.view() == View::Image)
}

/// A run without augmentation that learns.
fn learning(folder: &Path, example: &ModelConfig) -> RunConfig {
    let mut config = config(folder, example);
    config.images = ImagesConfig::default();
    (config.train.max_steps, config.train.ema) = (150, 0.0);
    config.validation.every_steps = 150;
    config
}

fn picture(seed: u64, index: u64) -> (Picture, usize) {
    let (pixels, label) = image(seed, index);
    (Picture::new(SIZE, 1, pixels), usize::from(label))
}

/// The number of right answers of 40.
fn right(classifier: &ImageClassifier) -> usize {
    let (pictures, labels): (Vec<_>, Vec<_>) = (0..40).map(|index| picture(3, index)).unzip();
    let found = classifier.classify(&pictures).unwrap();
    let labels = labels.into_iter().map(|label| &classifier.model().labels()[label]);
    found.iter().zip(labels).filter(|(classes, label)| classes[0].label == **label).count()
}

fn load(run: &Path) -> ImageClassifier {
    ImageClassifier::load(run.join("model"), &LoadOptions::default(), ImageOptions::default()).unwrap()
}

#[test]
fn image_classifiers_learn_and_load_from_their_folders() {
    for example in examples() {
        let folder = tempfile::tempdir().unwrap();
        let config = learning(folder.path(), &example);
        toy::run(&config, RunOptions::default(), 2).0.unwrap();
        let classifier = load(&config.out);
        assert_eq!(classifier.model().labels(), ["0", "1", "2", "3"]);
        let right = right(&classifier);
        assert!(right >= 36, "{example:?}: {right} of 40");
        let error = Classifier::load(config.out.join("model"), &LoadOptions::default()).unwrap_err();
        assert!(
            error.to_string().contains("an image classifier, expected a text encoder or classifier"),
            "{error}"
        );
    }
}

#[test]
fn augmented_images_teach_as_well_and_folders_name_their_classes() {
    let folder = tempfile::tempdir().unwrap();
    let example = examples().next().unwrap();
    let mut config = learning(folder.path(), &example);
    config.data.train = vec![write_folders(folder.path(), "pictures", 100, 1)];
    config.data.valid = vec![write_folders(folder.path(), "others", 20, 2)];
    config.images =
        ImagesConfig { size: 9, channels: 1, shift: 1, operations: 1, mixup: 0.2, ..ImagesConfig::default() };
    config.train.max_steps = 300;
    toy::run(&config, RunOptions::default(), 2).0.unwrap();
    let classifier = load(&config.out);
    // The folders in the order of their names, not of the numbers above.
    assert_eq!(classifier.model().labels(), ["ne", "nw", "se", "sw"]);
    let found: usize = (0..40)
        .filter(|&index| {
            let (picture, label) = picture(3, index);
            classifier.classify(&[picture]).unwrap()[0][0].label == ["nw", "ne", "sw", "se"][label]
        })
        .count();
    assert!(found >= 30, "{found} of 40");
}

#[test]
fn a_run_starts_from_a_model_with_other_classes_and_another_size() {
    let folder = tempfile::tempdir().unwrap();
    let example = examples().next().unwrap();
    let first = learning(folder.path(), &example);
    toy::run(&first, RunOptions::default(), 2).0.unwrap();
    let mut second = first.clone();
    second.out = folder.path().join("second");
    second.init = Some(first.out.join("model"));
    second.data.train = vec![write_folders(folder.path(), "pictures", 60, 1)];
    second.data.valid = vec![];
    second.images.size = 12;
    second.model = load(&first.out).model().config().into();
    second.train.max_steps = 60;
    let (outcome, told) = toy::run(&second, RunOptions::default(), 2);
    outcome.unwrap();
    assert!(told.iter().any(|line| line.contains("fresh: [\"classes\"]")), "{told:?}");
    let found = load(&second.out);
    assert_eq!(found.model().labels(), ["ne", "nw", "se", "sw"]);
    // The table of positions is that of the first model; images are larger.
    assert_eq!(found.model().config().image_size, SIZE);
    assert_eq!(found.preprocessor().size(), Some([12, 12]));
}

#[test]
fn images_that_cannot_be_used_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let example = examples().next().unwrap();
    let refused = |change: &dyn Fn(&mut RunConfig)| {
        let mut config = config(folder.path(), &example);
        change(&mut config);
        toy::run(&config, RunOptions::default(), 1).0.unwrap_err().to_string()
    };
    let path = |name: &str| Some(folder.path().join(name));
    let error = refused(&|config| config.data.train[0].labels = None);
    assert!(error.contains("train.images is a file, and labels are missing"), "{error}");
    let error = refused(&|config| config.data.train[0].cifar = path("x.bin"));
    assert!(error.starts_with("data.train: incomplete or ambiguous images"), "{error}");
    let error = refused(&|config| config.data.train[0].text = path("x.txt"));
    assert!(error.contains("a corpus of text, expected images"), "{error}");
    let error = refused(&|config| config.data.train[0].images = path("nowhere"));
    assert!(error.contains("nowhere"), "{error}");
    let error = refused(&|config| config.images.names = vec!["a".into(), "b".into()]);
    assert!(error.contains("expected labels from 0 to 1"), "{error}");
    let error = refused(&|config| config.images.names = ["a", "b", "a", "c"].map(str::to_owned).to_vec());
    assert!(error.starts_with("images.names: a name twice"), "{error}");
    let error = refused(&|config| config.train.r_drop = 1.0);
    assert!(error.starts_with("train.r_drop: a setting for text"), "{error}");
    let error = refused(&|config| config.tokenizer.vocab_size = 9);
    assert!(error.starts_with("tokenizer: a setting for text"), "{error}");
    let error = refused(&|config| config.validation.metric = polyhead_train::config::Metric::Bleu);
    assert!(error.contains("validation.metric: \"bleu\", expected accuracy, f1 or loss"), "{error}");
    let other = write_folders(folder.path(), "larger", 8, 1);
    let error = refused(&|config| config.data.valid = vec![other.clone()]);
    assert!(error.starts_with("data.valid: ") || error.contains("class \"ne\", expected one of"), "{error}");
    // A label that training lacks.
    let labels = fs::read(folder.path().join("valid.labels")).unwrap();
    fs::write(folder.path().join("wrong.labels"), [&labels[..labels.len() - 1], &[9]].concat()).unwrap();
    let error = refused(&|config| config.data.valid[0].labels = path("wrong.labels"));
    assert!(error.starts_with("data.valid: label 9, expected labels from 0 to 3"), "{error}");
    // A note names a class with one image.
    let mut config = config(folder.path(), &example);
    config.data.train = vec![write_folders(folder.path(), "few", 30, 5)];
    config.data.valid = vec![];
    config.images = ImagesConfig { size: 8, ..ImagesConfig::default() };
    config.train.max_steps = 1;
    fs::create_dir(folder.path().join("few/odd")).unwrap();
    let odd = Picture::new(SIZE, 1, image(1, 1).0).to_png();
    fs::write(folder.path().join("few/odd/1.png"), odd).unwrap();
    let (outcome, told) = toy::run(&config, RunOptions::default(), 1);
    outcome.unwrap();
    assert!(told.iter().any(|line| line == "RareClasses([\"odd\"])"), "{told:?}");
    assert_eq!(config.task, Task::ImageClassification);
}
