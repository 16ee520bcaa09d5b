//! Folders written by transformers and PyTorch: every tensor is loaded into the right parameter, and saved back.

use std::fs;

use polyhead_models::checkpoint::safetensors::{TensorFile, Weights};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load_parameters, save};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{NormOrder, PositionConfig, SinusoidalLayout, StackConfig, Tie};
use polyhead_tensor::Dtype;
use polyhead_tensor::Parameters;
use polyhead_tensor::ops::linear::Activation;

use super::{assert_same, declared, golden_folder, read_config, value};

const FOLDERS: [&str; 12] = [
    "marian/relu",
    "marian/gelu",
    "marian/gelu_new",
    "marian/quick_gelu",
    "marian/silu",
    "marian/swish",
    "marian/tanh",
    "marian/sigmoid",
    "marian/opus",
    "opus",
    "torch/post",
    "torch/pre",
];

fn load(folder: &str) -> (TransformerConfig, CheckpointLayout, Parameters) {
    let (config, layout) = read_config(golden_folder(folder)).unwrap();
    let mut parameters = declared(&config);
    load_parameters(golden_folder(folder), &config, layout, &mut parameters).unwrap();
    (config, layout, parameters)
}

#[test]
fn a_marian_config_is_read() {
    let (config, layout) = read_config(golden_folder("marian/relu")).unwrap();
    let expected = TransformerConfig {
        source_vocab_size: 97,
        target_vocab_size: 97,
        d_model: 24,
        encoder: StackConfig::new(2, 3, 40),
        decoder: StackConfig::new(3, 4, 36),
        activation: Activation::Relu,
        tie: Tie::All,
        scale_embedding: true,
        output_bias: true,
        max_len: 64,
        pad_id: 96,
        end_id: 0,
        start_id: 96,
        dropout: polyhead_models::transformer::config::Dropout {
            embedding: 0.0,
            residual: 0.0,
            attention: 0.0,
            activation: 0.0,
        },
        ..TransformerConfig::default()
    };
    assert_eq!((config, layout), (expected, CheckpointLayout::Marian));
}

#[test]
fn a_torch_config_is_read() {
    let (config, layout) = read_config(golden_folder("torch/post")).unwrap();
    assert_eq!(layout, CheckpointLayout::Torch);
    assert_eq!((config.norm_order, config.final_norm, config.tie), (NormOrder::Post, true, Tie::None));
    let interleaved = PositionConfig::Sinusoidal { layout: SinusoidalLayout::Interleaved };
    assert_eq!((config.position, config.dropout.residual), (interleaved, 0.0));
}

#[test]
fn load_save_load_preserves_names_and_bits_of_every_folder() {
    for folder in FOLDERS {
        let (config, layout, parameters) = load(folder);
        let copy = tempfile::tempdir().unwrap();
        for max_shard_bytes in [u64::MAX, 30_000] {
            let options = SaveOptions { layout, max_shard_bytes, ..SaveOptions::default() };
            let saved = save(copy.path(), &config, &parameters, &options).unwrap();
            assert_eq!(saved.files.len() > 3, max_shard_bytes < 100_000, "{folder}: {:?}", saved.files);
            let (config_again, layout_again) = read_config(copy.path()).unwrap();
            assert_eq!((&config_again, layout_again), (&config, layout), "{folder}");
            let mut again = declared(&config);
            let loaded = load_parameters(copy.path(), &config, layout, &mut again).unwrap();
            assert_same(&parameters, &again);
            assert_eq!(loaded.dtypes, [Dtype::F32]);
            let text_bytes: u64 = ["config.json", "generation_config.json", "model.safetensors.index.json"]
                .iter()
                .filter_map(|name| fs::metadata(copy.path().join(name)).ok())
                .map(|metadata| metadata.len())
                .sum();
            assert_eq!(loaded.bytes + text_bytes, saved.bytes, "{folder}");
        }
    }
}

#[test]
fn a_saved_folder_holds_the_tensors_that_were_loaded() {
    for folder in ["marian/relu", "marian/silu", "torch/post"] {
        let (config, layout, parameters) = load(folder);
        let copy = tempfile::tempdir().unwrap();
        save(copy.path(), &config, &parameters, &SaveOptions { layout, ..SaveOptions::default() }).unwrap();
        let [theirs, ours] =
            [golden_folder(folder), copy.path().to_owned()].map(|folder| Weights::open(folder).unwrap());
        assert!(theirs.names().eq(ours.names()), "{folder}");
        for name in theirs.names() {
            let [a, b] = [&theirs, &ours].map(|weights| weights.tensor(name).unwrap());
            assert_eq!((a.shape(), a.data()), (b.shape(), b.data()), "{folder} {name}");
        }
    }
}

#[test]
fn queries_keys_and_values_are_stacked_by_rows() {
    let (_, _, parameters) = load("marian/relu");
    let file = TensorFile::open(golden_folder("marian/relu/model.safetensors")).unwrap();
    let theirs = |name: &str| file.tensor(&format!("model.decoder.layers.1.{name}")).unwrap().data().to_vec();
    let ours = |name: &str| value(&parameters, &format!("decoder.layers.1.{name}")).data().to_vec();
    let [query, key, v] = ["q", "k", "v"].map(|part| theirs(&format!("self_attn.{part}_proj.weight")));
    assert_eq!(ours("self_attention.query_key_value.weight"), [query, key, v].concat());
    let [key, v] = ["k", "v"].map(|part| theirs(&format!("encoder_attn.{part}_proj.bias")));
    assert_eq!(ours("cross_attention.key_value.bias"), [key, v].concat());
    assert_eq!(ours("feed_forward_norm.gamma"), theirs("final_layer_norm.weight"));
    assert_eq!(value(&parameters, "output.bias").data(), file.tensor("final_logits_bias").unwrap().data());
}

#[test]
fn one_tensor_of_torch_is_two_parameters_of_ours() {
    let (_, _, parameters) = load("torch/post");
    let file = TensorFile::open(golden_folder("torch/post/model.safetensors")).unwrap();
    let theirs = file.tensor("transformer.decoder.layers.0.multihead_attn.in_proj_weight").unwrap();
    let (query, key_value) = theirs.data().split_at(16 * 16);
    assert_eq!(value(&parameters, "decoder.layers.0.cross_attention.query.weight").data(), query);
    assert_eq!(value(&parameters, "decoder.layers.0.cross_attention.key_value.weight").data(), key_value);
}

#[test]
fn files_of_transformers_are_reproduced_byte_for_byte() {
    for (folder, dtype) in
        [("marian/relu", Dtype::F32), ("marian/swish", Dtype::Bf16), ("marian/tanh", Dtype::F16)]
    {
        let (config, layout) = read_config(golden_folder(folder)).unwrap();
        let mut parameters = declared(&config);
        let loaded = load_parameters(golden_folder(folder), &config, layout, &mut parameters).unwrap();
        assert_eq!(loaded.dtypes, [dtype]);
        let copy = tempfile::tempdir().unwrap();
        save(copy.path(), &config, &parameters, &SaveOptions { dtype, layout, ..SaveOptions::default() })
            .unwrap();
        let [theirs, ours] = [golden_folder(folder), copy.path().to_owned()]
            .map(|folder| fs::read(folder.join("model.safetensors")).unwrap());
        assert!(theirs == ours, "{folder}");
    }
}

#[test]
fn untied_tables_of_transformers_stay_separate() {
    let (config, _, parameters) = load("marian/gelu_new");
    assert_eq!(config.tie, Tie::None);
    let file = TensorFile::open(golden_folder("marian/gelu_new/model.safetensors")).unwrap();
    for (ours, theirs) in [
        ("source_embedding.weight", "model.encoder.embed_tokens.weight"),
        ("target_embedding.weight", "model.decoder.embed_tokens.weight"),
        ("output.weight", "lm_head.weight"),
    ] {
        assert_eq!(value(&parameters, ours).data(), file.tensor(theirs).unwrap().data());
    }
}

#[test]
fn layouts_are_recognised_from_names() {
    for (folder, layout) in
        [("marian/opus", CheckpointLayout::Marian), ("torch/pre", CheckpointLayout::Torch)]
    {
        let weights = Weights::open(golden_folder(folder)).unwrap();
        assert_eq!(CheckpointLayout::recognise(weights.names()), layout);
    }
    let ours = declared(&TransformerConfig::tiny(10));
    assert_eq!(
        CheckpointLayout::recognise(ours.declared().map(|(_, name, _)| name)),
        CheckpointLayout::Polyhead
    );
}

#[test]
fn ids_of_reference_files_are_read() {
    let file = TensorFile::open(golden_folder("torch/post/reference.safetensors")).unwrap();
    assert_eq!(file.shape("source_ids"), Some(&[3, 6][..]));
    assert_eq!(file.ids("source_lengths").unwrap().len(), 3);
    assert!(file.ids("source_ids").unwrap().iter().all(|&id| id < 31));
    let error = file.tensor("source_ids").unwrap_err().to_string();
    assert!(error.ends_with("tensor source_ids has dtype i64, expected f32, f16 or bf16"), "{error}");
}
