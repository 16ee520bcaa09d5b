//! Names of layouts: every layout round-trips every model it can represent, and mismatches are named.

use std::path::Path;

use polyhead_models::checkpoint::safetensors::{Array, ArrayData, Weights, WriteOptions, write};
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, load_parameters, marian_compatible, save};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{
    AttentionPattern, CrossProjection, NormOrder, PositionConfig, RotaryPairing, Tie,
};
use polyhead_tensor::Tensor;

use super::{assert_same, declared, random, read_config, small};

/// Saves a model of `small(tie)` in a layout, lets `change` alter its tensors, and returns the error of loading it.
fn problem(tie: Tie, layout: CheckpointLayout, change: impl FnOnce(&mut Vec<(String, Tensor)>)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = small(tie);
    save(folder.path(), &config, &random(&config), &SaveOptions { layout, ..SaveOptions::default() })
        .unwrap();
    let mut tensors = tensors(folder.path());
    change(&mut tensors);
    let arrays = tensors.iter().map(|(name, tensor)| Array {
        name: name.clone(),
        shape: tensor.shape().to_vec(),
        data: ArrayData::Floats(vec![tensor.data()]),
    });
    write(folder.path(), arrays.collect(), WriteOptions::default()).unwrap().finish().unwrap();
    let error = load_parameters(folder.path(), &config, layout, &mut declared(&config)).unwrap_err();
    assert!(!error.hint().is_empty());
    error.to_string()
}

fn tensors(folder: &Path) -> Vec<(String, Tensor)> {
    let weights = Weights::open(folder).unwrap();
    weights.names().map(|name| (name.to_owned(), weights.tensor(name).unwrap())).collect()
}

fn find<'a>(tensors: &'a mut [(String, Tensor)], name: &str) -> &'a mut Tensor {
    tensors.iter_mut().find(|(other, _)| other == name).map(|(_, tensor)| tensor).unwrap()
}

#[test]
fn every_layout_preserves_names_and_bits_for_every_tie() {
    for layout in [
        CheckpointLayout::Polyhead,
        CheckpointLayout::Marian,
        CheckpointLayout::Torch,
        CheckpointLayout::Fairseq,
    ] {
        for tie in [Tie::None, Tie::TargetOutput, Tie::SourceTarget, Tie::All] {
            if layout == CheckpointLayout::Marian && tie == Tie::SourceTarget {
                continue;
            }
            let output_bias = layout != CheckpointLayout::Fairseq;
            let final_norm = layout != CheckpointLayout::Marian;
            let config = TransformerConfig { output_bias, final_norm, ..small(tie) };
            let (parameters, folder) = (random(&config), tempfile::tempdir().unwrap());
            let saved =
                save(folder.path(), &config, &parameters, &SaveOptions { layout, ..SaveOptions::default() });
            saved.unwrap();
            assert_eq!(read_config(folder.path()).unwrap(), (config.clone(), layout));
            let weights = Weights::open(folder.path()).unwrap();
            assert_eq!(CheckpointLayout::recognise(weights.names()), layout);
            let mut again = declared(&config);
            load_parameters(folder.path(), &config, layout, &mut again).unwrap();
            assert_same(&parameters, &again);
        }
    }
}

#[test]
fn our_own_layout_represents_every_config() {
    let shared = TransformerConfig { cross_projection: CrossProjection::Shared, ..small(Tie::None) };
    let mut grouped =
        TransformerConfig { position: PositionConfig::Relative { max_distance: 3 }, ..small(Tie::All) };
    (grouped.decoder.n_key_heads, grouped.decoder.d_value) = (Some(1), Some(5));
    let learned =
        TransformerConfig { position: PositionConfig::Learned {}, final_norm: true, ..small(Tie::All) };
    for config in [shared, grouped, learned] {
        let (parameters, folder) = (random(&config), tempfile::tempdir().unwrap());
        save(folder.path(), &config, &parameters, &SaveOptions::default()).unwrap();
        let (config_again, layout) = read_config(folder.path()).unwrap();
        assert_eq!((&config_again, layout), (&config, CheckpointLayout::Polyhead));
        let mut again = declared(&config);
        load_parameters(folder.path(), &config, layout, &mut again).unwrap();
        assert_same(&parameters, &again);
        let error = save(
            folder.path().join("torch"),
            &config,
            &parameters,
            &SaveOptions { layout: CheckpointLayout::Torch, ..SaveOptions::default() },
        );
        let error = error.unwrap_err().to_string();
        assert!(error.contains("the torch layout has no name for "), "{error}");
    }
}

#[test]
fn heads_of_different_sizes_are_split_correctly() {
    let mut config = TransformerConfig { output_bias: false, ..small(Tie::None) };
    (config.decoder.n_key_heads, config.decoder.d_value) = (Some(1), Some(5));
    let (parameters, folder) = (random(&config), tempfile::tempdir().unwrap());
    let layout = CheckpointLayout::Fairseq;
    save(folder.path(), &config, &parameters, &SaveOptions { layout, ..SaveOptions::default() }).unwrap();
    let weights = Weights::open(folder.path()).unwrap();
    let shape =
        |part: &str| weights.shape(&format!("decoder.layers.1.self_attn.{part}_proj.weight")).unwrap();
    assert_eq!([shape("q"), shape("k"), shape("v")], [[12, 12], [4, 12], [5, 12]]);
    let mut again = declared(&config);
    load_parameters(folder.path(), &config, layout, &mut again).unwrap();
    assert_same(&parameters, &again);
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let config = small(Tie::All);
    let bytes = || {
        let folder = tempfile::tempdir().unwrap();
        let saved = save(folder.path(), &config, &random(&config), &SaveOptions::default()).unwrap();
        saved.files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn a_missing_tensor_is_named_with_its_shape() {
    let name = "model.encoder.layers.0.self_attn.k_proj.weight";
    let found =
        problem(Tie::All, CheckpointLayout::Marian, |tensors| tensors.retain(|(other, _)| other != name));
    assert!(
        found.ends_with(&format!("model.safetensors: tensor {name} is missing, expected [12, 12]")),
        "{found}"
    );
    let found = problem(Tie::TargetOutput, CheckpointLayout::Marian, |tensors| {
        tensors.retain(|(other, _)| other != "model.decoder.embed_tokens.weight");
    });
    let both = "tensor model.decoder.embed_tokens.weight or lm_head.weight is missing, expected [9, 12]";
    assert!(found.ends_with(both), "{found}");
}

#[test]
fn a_wrong_shape_is_named_with_the_expected_one() {
    let found = problem(Tie::All, CheckpointLayout::Marian, |tensors| {
        let bias = find(tensors, "final_logits_bias");
        *bias = bias.reshaped(&[9]);
    });
    assert!(found.ends_with("tensor final_logits_bias is [9], expected [1, 9]"), "{found}");
    let found = problem(Tie::None, CheckpointLayout::Torch, |tensors| {
        *find(tensors, "transformer.decoder.layers.0.multihead_attn.in_proj_weight") =
            Tensor::zeros(&[35, 12]);
    });
    assert!(found.ends_with("in_proj_weight is [35, 12], expected [36, 12]"), "{found}");
}

#[test]
fn a_tensor_of_no_parameter_is_named() {
    let extra = |name: &str| {
        let name = name.to_owned();
        problem(Tie::All, CheckpointLayout::Marian, move |tensors| tensors.push((name, Tensor::zeros(&[1]))))
    };
    let found = extra("model.encoder.layers.1.fc1.bias");
    assert!(found.ends_with("tensor model.encoder.layers.1.fc1.bias is not part of the model"), "{found}");
    let found = extra("surprise");
    assert!(found.ends_with("tensor surprise is not part of the model"), "{found}");
}

#[test]
fn many_problems_are_counted_and_ten_are_listed() {
    let found = problem(Tie::All, CheckpointLayout::Marian, |tensors| {
        tensors.retain(|(name, _)| !name.contains("decoder.layers.1"));
        tensors.push(("surprise".into(), Tensor::zeros(&[1])));
    });
    assert!(found.contains("27 tensors do not fit the config:\n  tensor model.decoder.layers.1."), "{found}");
    assert!(found.ends_with("\n  and 17 more") && found.lines().count() == 12, "{found}");
}

#[test]
fn copies_of_a_tied_table_must_be_equal() {
    let copied = |change: f32| {
        move |tensors: &mut Vec<(String, Tensor)>| {
            let mut copy = find(tensors, "model.shared.weight").clone();
            copy.data_mut()[5] += change;
            tensors.push(("lm_head.weight".into(), copy));
            tensors.push(("model.encoder.embed_positions.weight".into(), Tensor::zeros(&[3])));
        }
    };
    let found = problem(Tie::All, CheckpointLayout::Marian, copied(0.5));
    assert!(found.contains("tensors model.shared.weight and lm_head.weight differ ("), "{found}");
    assert!(found.ends_with(" at index 5), expected two copies of embedding.weight"), "{found}");
}

#[test]
fn tensors_of_fairseq_without_parameters_are_ignored() {
    let config = TransformerConfig { output_bias: false, ..small(Tie::TargetOutput) };
    let (parameters, folder) = (random(&config), tempfile::tempdir().unwrap());
    let layout = CheckpointLayout::Fairseq;
    save(folder.path(), &config, &parameters, &SaveOptions { layout, ..SaveOptions::default() }).unwrap();
    let mut tensors = tensors(folder.path());
    let copy = find(&mut tensors, "decoder.embed_tokens.weight").clone();
    tensors.push(("decoder.output_projection.weight".into(), copy));
    for name in ["encoder.version", "decoder.version", "decoder.embed_positions._float_tensor"] {
        tensors.push((name.into(), Tensor::zeros(&[1])));
    }
    let arrays = tensors.iter().map(|(name, tensor)| Array {
        name: name.clone(),
        shape: tensor.shape().to_vec(),
        data: ArrayData::Floats(vec![tensor.data()]),
    });
    write(folder.path(), arrays.collect(), WriteOptions::default()).unwrap().finish().unwrap();
    let mut again = declared(&config);
    load_parameters(folder.path(), &config, layout, &mut again).unwrap();
    assert_same(&parameters, &again);
}

#[test]
fn incompatibility_with_marian_is_reported_with_all_reasons() {
    assert_eq!(marian_compatible(TransformerConfig::base(37_000)), Ok(()));
    let mut config = TransformerConfig {
        norm_order: NormOrder::Pre,
        final_norm: true,
        norm_epsilon: 1e-6,
        position: PositionConfig::Rotary { base: 1e4, pairing: RotaryPairing::Halves, scaling: None },
        cross_projection: CrossProjection::Shared,
        encoder_sight: AttentionPattern::Window { distance: 3 },
        ..small(Tie::SourceTarget)
    };
    config.encoder.n_key_heads = Some(1);
    let reasons = marian_compatible(&config).unwrap_err();
    assert_eq!(reasons.len(), 8, "{reasons:?}");
    assert_eq!(reasons[0], "pre-norm: Marian has post-norm only");
    let folder = tempfile::tempdir().unwrap();
    let options = SaveOptions { layout: CheckpointLayout::Marian, ..SaveOptions::default() };
    let error =
        save(folder.path().join("new"), &config, &declared(&config), &options).unwrap_err().to_string();
    assert!(reasons.iter().all(|reason| error.contains(reason)), "{error}");
    assert!(!folder.path().join("new").exists());
}
