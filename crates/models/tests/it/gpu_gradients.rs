//! The loss and all gradients of a small Transformer on a GPU against the CPU.
//!
//! Without a usable GPU the tests print why they are skipped, and pass.

use polyhead_attention::{Capture, Pass};
use polyhead_models::Ids;
use polyhead_models::SequenceToSequence;
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{Combination, Dropout, NormOrder, PositionConfig, StackConfig};
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::ops::r_drop::RDropOptions;
use polyhead_tensor::{Device, Math, Parameters, StepKey, Tape, Tensor};

fn gpu(math: Math) -> Option<Device> {
    match Device::open("cuda", math) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// A small model; `name` selects the variant.
fn config(name: &str) -> TransformerConfig {
    let stack = StackConfig::new(2, 4, 96);
    let dropout = Dropout { embedding: 0.1, residual: 0.2, attention: 0.1, activation: 0.3 };
    let config = TransformerConfig {
        d_model: 64,
        encoder: stack,
        decoder: stack,
        dropout,
        ..TransformerConfig::tiny(50)
    };
    match name {
        "pre" => TransformerConfig { norm_order: NormOrder::Pre, final_norm: true, ..config },
        "gelu, learned" => {
            TransformerConfig { activation: Activation::Gelu, position: PositionConfig::Learned {}, ..config }
        }
        // Sources end wherever a sentence has this id.
        "flat" => TransformerConfig { sources: 2, end_id: 9, ..config },
        "hierarchical" => {
            TransformerConfig { sources: 2, end_id: 9, combination: Combination::Hierarchical, ..config }
        }
        _ => config,
    }
}

/// The loss and the gradient of every parameter, by name.
fn gradients(name: &str, device: &Device, r_drop: bool) -> (f32, Vec<(String, Tensor)>) {
    let mut parameters = Parameters::default();
    let model = SequenceToSequence::new(config(name), &mut parameters).unwrap();
    parameters.initialise(7);
    let parameters = parameters.to_device(device).unwrap();
    let mut key = StepKey::new(device);
    key.set(1, 2);
    let (tape, capture) = (Tape::training_with(&key), Capture::off());
    let pass = Pass::new(&tape, &parameters, &capture);
    let rows: [&[u32]; 4] = [&[4, 9, 17, 2], &[30, 2], &[4, 9, 17, 2], &[30, 2]];
    let target_rows: [&[u32]; 4] = [&[1, 20, 21, 22, 23], &[1, 45, 8], &[1, 20, 21, 22, 23], &[1, 45, 8]];
    let expected_rows: [&[u32]; 4] = [&[20, 21, 22, 23, 2], &[45, 8, 2], &[20, 21, 22, 23, 2], &[45, 8, 2]];
    let pad_id = model.special_ids().pad_id;
    let source = model.source_ids(&rows).to_device(device).unwrap();
    let [target, expected] =
        [target_rows, expected_rows].map(|rows| Ids::padded(&rows, pad_id).to_device(device).unwrap());
    let options = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(pad_id) };
    let loss = if r_drop {
        let options = RDropOptions { weight: 1.0, cross_entropy: options };
        let once = expected.ids().first(expected.ids().len() / 2);
        model.r_drop_loss(&pass, &source, &target, &once, options).unwrap().loss
    } else {
        model.loss(&pass, &source, &target, expected.ids(), options).unwrap()
    };
    let value = loss.value().to_host().unwrap().data()[0];
    let found = tape.backward(&loss);
    let names: Vec<_> = parameters.iter().map(|(id, name, _)| (id, name.to_owned())).collect();
    let all = found.parameters().map(|(id, gradient)| {
        let name = names.iter().find(|(known, _)| *known == id).unwrap().1.clone();
        (name, gradient.to_host().unwrap())
    });
    (value, all.collect())
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn a_transformer_has_the_same_gradients_on_a_gpu() {
    // Sixteen times the rounding error of one value.
    let bits = [(Math::F32, 24), (Math::Tf32, 11), (Math::Bf16, 8)];
    for (math, allowed) in bits.map(|(math, bits)| (math, 16.0 / f64::from(1 << bits))) {
        let Some(device) = gpu(math) else { return };
        for (name, r_drop) in [
            ("post", false),
            ("pre", false),
            ("pre", true),
            ("gelu, learned", false),
            ("flat", false),
            ("hierarchical", true),
        ] {
            let (expected_loss, expected) = gradients(name, &Device::Cpu, r_drop);
            let (loss, found) = gradients(name, &device, r_drop);
            assert_eq!(found.len(), expected.len());
            let (mut off, mut size, mut worst) = (0.0, 0.0, (0.0, String::new()));
            for (name, gradient) in &found {
                let (_, right) = expected.iter().find(|(known, _)| known == name).unwrap();
                let pairs = gradient.data().iter().zip(right.data());
                let own_off = norm(pairs.map(|(&a, &b)| f64::from(a) - f64::from(b)));
                let own_size = norm(right.data().iter().map(|&b| f64::from(b)));
                (off, size) = (off + own_off * own_off, size + own_size * own_size);
                let error = own_off / own_size.max(1e-6);
                if error > worst.0 {
                    worst = (error, name.clone());
                }
            }
            let error = (off / size).sqrt();
            println!(
                "{:<5} {name}{}: loss {loss} against {expected_loss}, gradients off by {error:.1e}, worst {} {:.1e}",
                math.name(),
                if r_drop { ", R-Drop" } else { "" },
                worst.1,
                worst.0
            );
            assert!(error <= allowed, "{math:?} {name}: {error}");
            assert!(
                (loss - expected_loss).abs() <= allowed as f32 * expected_loss,
                "{math:?} {name}: {loss}"
            );
        }
    }
}
