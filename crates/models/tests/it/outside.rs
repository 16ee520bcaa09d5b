//! Golden tests: models of Hugging Face and PyTorch, their activations, their translations, their gradients
//! (`tests/golden/*/make.py`).

use std::path::{Path, PathBuf};

use polyhead_attention::{Capture, Pass};
use polyhead_models::Ids;
use polyhead_models::SequenceToSequence;
use polyhead_models::checkpoint::safetensors::TensorFile;
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load_parameters, read_config, save};
use polyhead_models::parity::{Tolerance, compare};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::{Parameters, Tape};

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The model of a folder with its parameters.
pub(crate) fn load(folder: &Path) -> (SequenceToSequence, Parameters) {
    let (config, layout) = read_config(folder).unwrap();
    let mut parameters = Parameters::default();
    let model = SequenceToSequence::new(&config, &mut parameters).unwrap();
    load_parameters(folder, &config, layout, &mut parameters).unwrap();
    (model, parameters)
}

/// The folders of random Marian models.
pub(crate) fn marian_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(golden("marian")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    assert!(folders.len() >= 8, "{folders:?}");
    folders
}

fn assert_parity(folder: &Path, model: &SequenceToSequence, parameters: &Parameters) {
    let reference = TensorFile::open(folder.join("reference.safetensors")).unwrap();
    let report = compare(model, parameters, &reference, Tolerance { absolute: 1e-4, relative: 0.0 }).unwrap();
    assert_eq!(report.first_divergence(), None, "{}", folder.display());
    assert!(report.unknown.is_empty(), "{:?}", report.unknown);
    let sites = model.sites();
    let layers = |stack: &str| sites.named(stack).unwrap().n_layers;
    let expected = 5 + 4 * layers("encoder") + 6 * layers("decoder");
    assert_eq!(report.comparisons.len(), expected, "{}", folder.display());
}

#[test]
fn every_layer_of_marian_models_matches_hugging_face() {
    for folder in marian_folders() {
        let (model, parameters) = load(&folder);
        assert_parity(&folder, &model, &parameters);
    }
}

#[test]
fn every_layer_of_both_norm_orders_matches_pytorch() {
    for name in ["torch/pre", "torch/post"] {
        let folder = golden(name);
        let (model, parameters) = load(&folder);
        assert_parity(&folder, &model, &parameters);
    }
}

#[test]
fn a_model_saved_in_any_layout_computes_the_same() {
    let folders = marian_folders().into_iter().map(|folder| (folder, CheckpointLayout::Marian));
    for (folder, layout) in folders.chain([(golden("torch/pre"), CheckpointLayout::Torch)]) {
        for layout in [layout, CheckpointLayout::Polyhead] {
            let (model, parameters) = load(&folder);
            let saved = tempfile::tempdir().unwrap();
            let options = SaveOptions { layout, ..SaveOptions::default() };
            save(saved.path(), model.config(), &parameters, &options).unwrap();
            let (model, parameters) = load(saved.path());
            assert_parity(&folder, &model, &parameters);
        }
    }
}

#[test]
fn a_changed_layer_is_the_first_to_diverge() {
    let folder = golden("marian/relu");
    let (model, mut parameters) = load(&folder);
    let id = parameters.find("decoder.layers.1.feed_forward.outer.bias").unwrap();
    parameters.value_mut(id).data_mut()[3] += 0.01;
    let reference = TensorFile::open(folder.join("reference.safetensors")).unwrap();
    let report = compare(&model, &parameters, &reference, Tolerance::default()).unwrap();
    assert_eq!(report.first_divergence().unwrap().name, "decoder.layers.1.feed_forward");
}

#[test]
fn gradients_of_a_transformer_match_pytorch() {
    for name in ["torch/pre", "torch/post"] {
        let folder = golden(name);
        let (model, parameters) = load(&folder);
        let inputs = TensorFile::open(folder.join("reference.safetensors")).unwrap();
        let expected = TensorFile::open(folder.join("gradients.safetensors")).unwrap();
        let read = |name: &str| {
            let length = inputs.shape(&format!("{name}_ids")).unwrap()[1];
            let ids = inputs.ids(&format!("{name}_ids")).unwrap();
            let lengths = inputs.ids(&format!("{name}_lengths")).unwrap();
            let rows: Vec<&[u32]> =
                ids.chunks(length).zip(&lengths).map(|(row, own)| &row[..*own as usize]).collect();
            Ids::padded(&rows, model.special_ids().pad_id)
        };
        let (tape, capture) = (Tape::training(1, 1), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let options =
            CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(model.special_ids().pad_id) };
        let targets = expected.ids("expected_ids").unwrap().into();
        let loss = model.loss(&pass, &read("source"), &read("target"), &targets, options).unwrap();
        let error = (loss.value().data()[0] - expected.tensor("loss").unwrap().data()[0]).abs();
        assert!(error < 1e-5, "{name}: loss off by {error}");
        let gradients = tape.backward(&loss);
        // The gradients under PyTorch's names.
        let mut named = parameters.clone();
        for (id, gradient) in gradients.parameters() {
            named.set(id, gradient.clone());
        }
        let saved = tempfile::tempdir().unwrap();
        let options = SaveOptions { layout: CheckpointLayout::Torch, ..SaveOptions::default() };
        save(saved.path(), model.config(), &named, &options).unwrap();
        let found = TensorFile::open(saved.path().join("model.safetensors")).unwrap();
        let mut compared = 0;
        for name in expected.names().filter(|name| !["loss", "expected_ids"].contains(name)) {
            let (found, expected) = (found.tensor(name).unwrap(), expected.tensor(name).unwrap());
            assert_eq!(found.shape(), expected.shape(), "{name}");
            for (found, expected) in found.data().iter().zip(expected.data()) {
                assert!(
                    (found - expected).abs() < 2e-5 + 1e-4 * expected.abs(),
                    "{name}: {found} {expected}"
                );
            }
            compared += found.len();
        }
        assert_eq!(compared, parameters.count());
    }
}
