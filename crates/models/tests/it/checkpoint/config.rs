//! Configs: unknown and unsupported keys are named.

use std::fs;
use std::path::Path;

use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, save};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{
    Dropout, NormOrder, PositionConfig, SinusoidalLayout, StackConfig, Tie,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{random, read_config, small};

/// The folder of a small model in this layout.
fn folder(layout: CheckpointLayout) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config =
        TransformerConfig { output_bias: layout != CheckpointLayout::Fairseq, ..small(Tie::TargetOutput) };
    save(folder.path(), &config, &random(&config), &SaveOptions { layout, ..SaveOptions::default() })
        .unwrap();
    folder
}

/// Sets keys of a JSON file.
fn set(path: &Path, changes: Value) {
    let mut config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let Value::Object(changes) = changes else { panic!("an object") };
    config.as_object_mut().unwrap().extend(changes);
    fs::write(path, config.to_string()).unwrap();
}

/// The error message after these changes to the config.
fn problem(layout: CheckpointLayout, changes: Value) -> String {
    let folder = folder(layout);
    set(&folder.path().join("config.json"), changes);
    let error = read_config(folder.path()).unwrap_err();
    assert!(!error.hint().is_empty());
    let text = error.to_string();
    assert!(text.contains("config.json: "), "{text}");
    text
}

#[test]
fn problems_of_a_marian_config_are_named() {
    let cases = [
        (json!({ "d_modle": 3 }), r#"unknown key "d_modle"; the nearest known one is "d_model""#),
        (json!({ "normalize_before": true }), "normalize_before is true, expected false"),
        (json!({ "normalize_embedding": true }), "normalize_embedding is true, expected false"),
        (json!({ "add_final_layer_norm": true }), "add_final_layer_norm is true, expected false"),
        (
            json!({ "static_position_embeddings": false }),
            "static_position_embeddings is false, expected true",
        ),
        (
            json!({ "activation_function": "glu" }),
            r#"activation_function is "glu", expected one of linear, relu"#,
        ),
        (json!({ "d_model": "big" }), r#"d_model is "big", expected a whole number"#),
        (json!({ "d_model": -4 }), "d_model is -4, expected a whole number"),
        (json!({ "eos_token_id": [0, 1] }), "eos_token_id is [0,1], expected an id"),
        (
            json!({ "dropout": null, "pad_token_id": 99 }),
            "pad_id is 99, expected an id below the vocabulary size 9",
        ),
        (json!({ "encoder_attention_heads": 5 }), "encoder.n_heads is 5, which does not divide d_model 12"),
        (json!({ "share_encoder_decoder_embeddings": true }), "share an embedding but have 11 and 9 ids"),
        (
            json!({ "model_type": "electra" }),
            r#"model_type "electra", expected "marian", "pegasus", "gpt2", "llama", "mistral", "qwen2", "bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "modernbert", "vit", "deit", "whisper" or one of "polyhead_transformer", "polyhead_recurrent", "#,
        ),
    ];
    for (changes, expected) in cases {
        let found = problem(CheckpointLayout::Marian, changes);
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

#[test]
fn a_key_of_a_million_characters_is_truncated_in_the_message() {
    let found = problem(CheckpointLayout::Marian, json!({ "d_model".repeat(150_000): 1 }));
    assert!(found.contains("unknown key \"d_modeld_model") && found.len() < 500, "{} bytes", found.len());
}

#[test]
fn keys_that_do_not_describe_the_model_are_accepted() {
    let folder = folder(CheckpointLayout::Marian);
    let (before, _) = read_config(folder.path()).unwrap();
    let changes = json!({
        "_name_or_path": "x", "num_beams": 6, "bad_words_ids": [[8]], "torch_dtype": "float16", "max_length": 512,
        "transformers_version": "4.22", "normalize_before": false, "static_position_embeddings": true,
        "id2label": {"0": "a"}, "gradient_checkpointing": false, "add_final_layer_norm": false, "extra_pos_embeddings": 9, "eos_token_id": [0],
    });
    set(&folder.path().join("config.json"), changes);
    assert_eq!(read_config(folder.path()).unwrap(), (before, CheckpointLayout::Marian));
}

#[test]
fn problems_of_our_own_config_are_named() {
    let cases = [
        (json!({ "d_mode": 3 }), r#"unknown key "d_mode"; the nearest known one is "d_model""#),
        (json!({ "d_model": 12.5 }), "d_model: invalid type: floating point"),
        (
            json!({ "encoder": { "n_layer": 2 } }),
            "encoder: unknown field `n_layer`, expected one of `n_layers`",
        ),
        (json!({ "position": { "kind": "spiral" } }), "position: unknown variant `spiral`"),
        (json!({ "layout": "tensorflow" }), "layout: unknown variant `tensorflow`"),
        (json!({ "activation": "glu" }), r#"activation: activation "glu", expected one of linear"#),
        (json!({ "d_model": 0 }), "d_model is 0, expected 1 to"),
        (json!({ "dropout": 1.5 }), "dropout.residual is 1.5, expected at least 0 and below 1"),
        (json!({ "model_type": null }), "no model_type, expected"),
    ];
    for (changes, expected) in cases {
        let found = problem(CheckpointLayout::Polyhead, changes);
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

#[test]
fn dropout_may_be_one_number_and_the_layout_may_be_missing() {
    let folder = folder(CheckpointLayout::Torch);
    let path = folder.path().join("config.json");
    set(&path, json!({ "dropout": 0.25, "architectures": ["x"] }));
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("layout");
    fs::write(&path, config.to_string()).unwrap();
    let (config, layout) = read_config(folder.path()).unwrap();
    assert_eq!(config.dropout, Dropout { embedding: 0.25, residual: 0.25, ..Dropout::default() });
    assert_eq!(layout, CheckpointLayout::Torch);
}

#[test]
fn a_missing_or_truncated_config_is_reported() {
    let folder = folder(CheckpointLayout::Polyhead);
    let path = folder.path().join("config.json");
    fs::write(&path, "{").unwrap();
    assert!(
        read_config(folder.path()).unwrap_err().to_string().contains("config.json: not a JSON object: EOF")
    );
    fs::remove_file(path).unwrap();
    let error = read_config(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("neither config.json nor args.json is there"), "{error}");
}

/// The relevant keys of a fairseq run, for `small(TargetOutput)`.
fn arguments() -> Value {
    json!({
        "arch": "transformer", "activation_fn": "relu", "encoder_embed_dim": 12, "decoder_embed_dim": 12,
        "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 3,
        "encoder_ffn_embed_dim": 10, "decoder_ffn_embed_dim": 14, "encoder_normalize_before": true,
        "decoder_normalize_before": true, "share_decoder_input_output_embed": true, "share_all_embeddings": false,
        "dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.0, "relu_dropout": 0.1,
        "max_source_positions": 64, "max_target_positions": 32, "adaptive_softmax_cutoff": null, "seed": 1,
        "layernorm_embedding": false, "decoder_output_dim": 12, "no_scale_embedding": false,
    })
}

fn fairseq_folder() -> tempfile::TempDir {
    let folder = folder(CheckpointLayout::Fairseq);
    fs::remove_file(folder.path().join("config.json")).unwrap();
    fs::write(folder.path().join("args.json"), arguments().to_string()).unwrap();
    folder
}

#[test]
fn arguments_of_fairseq_are_read() {
    let expected = TransformerConfig {
        source_vocab_size: 11,
        target_vocab_size: 9,
        d_model: 12,
        encoder: StackConfig::new(1, 2, 10),
        decoder: StackConfig::new(2, 3, 14),
        norm_order: NormOrder::Pre,
        final_norm: true,
        position: PositionConfig::Sinusoidal { layout: SinusoidalLayout::Fairseq },
        tie: Tie::TargetOutput,
        max_len: 64,
        pad_id: 1,
        end_id: 2,
        start_id: 2,
        dropout: Dropout { embedding: 0.3, residual: 0.3, attention: 0.2, activation: 0.1 },
        ..TransformerConfig::default()
    };
    assert_eq!(read_config(fairseq_folder().path()).unwrap(), (expected, CheckpointLayout::Fairseq));
}

#[test]
fn unsupported_features_of_fairseq_are_rejected() {
    let cases = [
        (json!({ "decoder_embed_dim": 16 }), "decoder_embed_dim is 16, expected 12"),
        (json!({ "decoder_normalize_before": false }), "decoder_normalize_before is false, expected true"),
        (json!({ "encoder_learned_pos": true }), "encoder_learned_pos is true, expected false"),
        (json!({ "layernorm_embedding": true }), "layernorm_embedding is true, expected false"),
        (json!({ "adaptive_softmax_cutoff": "1,2" }), r#"adaptive_softmax_cutoff is "1,2", expected null"#),
        (json!({ "activation_fn": "glu" }), r#"activation_fn is "glu", expected one of linear"#),
    ];
    for (changes, expected) in cases {
        let folder = fairseq_folder();
        set(&folder.path().join("args.json"), changes);
        let found = read_config(folder.path()).unwrap_err().to_string();
        assert!(found.contains("args.json: ") && found.contains(expected), "{found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_damaged_config_never_panics(changes in vec((any::<prop::sample::Index>(), 0..0x80_u8), 1..4)) {
        let (marian, own, fairseq) = (folder(CheckpointLayout::Marian), folder(CheckpointLayout::Polyhead), fairseq_folder());
        for (folder, name) in [(marian, "config.json"), (own, "config.json"), (fairseq, "args.json")] {
            let path = folder.path().join(name);
            let mut bytes = fs::read(&path).unwrap();
            for (index, byte) in &changes {
                let index = index.index(bytes.len());
                bytes[index] = *byte;
            }
            fs::write(&path, bytes).unwrap();
            if let Ok((config, _)) = read_config(folder.path()) {
                config.validate().unwrap();
            }
        }
    }
}
