//! Interventions: a model with heads or layers switched off equals a model without them, bit for bit.

use polyhead_attention::{Capture, Filter, Intervention, Pass, Site};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{NormOrder, StackConfig};
use polyhead_models::{Decoding, SequenceToSequence};
use polyhead_models::{Ids, Result};
use polyhead_tensor::{Parameters, Tape, Tensor};

use crate::outside::{golden, load};

const SOURCE: &[u32] = &[3, 14, 15, 9, 2, 6, 0];
const TARGET: &[u32] = &[12, 5, 8, 9, 7, 9, 3];

fn forward(
    model: &SequenceToSequence,
    parameters: &Parameters,
    intervention: Option<&Intervention>,
) -> Tensor {
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass { intervention, ..Pass::new(&tape, parameters, &capture) };
    let ids = |ids| Ids::padded(&[ids], model.special_ids().pad_id);
    model.forward(&pass, &ids(SOURCE), &ids(TARGET)).unwrap().value().clone()
}

/// The same token by token.
fn steps(
    model: &SequenceToSequence,
    parameters: &Parameters,
    intervention: Option<&Intervention>,
) -> Vec<f32> {
    let capture = Capture::off();
    let decoding = Decoding { intervention, ..Decoding::new(model, parameters, &capture) };
    let mut state = decoding.start(&[SOURCE], 1).unwrap();
    let step = |token: &u32| decoding.step(&mut state, &[*token]).unwrap().data().to_vec();
    TARGET.iter().flat_map(step).collect()
}

/// Multiplies the columns of the output projection that belong to a head by a factor.
fn scaled(parameters: &Parameters, site: Site, range: std::ops::Range<usize>, factor: f32) -> Parameters {
    let mut changed = parameters.clone();
    let id = changed.find(&format!("{site}.output.weight")).unwrap();
    let width = changed.value(id).shape()[1];
    for row in changed.value_mut(id).data_mut().chunks_exact_mut(width) {
        row[range.clone()].iter_mut().for_each(|number| *number *= factor);
    }
    changed
}

#[test]
fn a_head_switched_off_is_a_head_whose_output_weights_are_zero() {
    for name in ["marian/relu", "marian/opus", "torch/pre", "torch/post"] {
        let (model, parameters) = load(&golden(name));
        let sites = model.sites();
        let plain = forward(&model, &parameters, None);
        for site in sites.all() {
            let shape = sites.of(site.kind).unwrap().heads;
            for head in 0..shape.n_heads {
                let columns = head * shape.d_value..(head + 1) * shape.d_value;
                // Halving is exact, so a head with factor 0.5 equals halved weights bit for bit.
                for factor in [0.0, 0.5] {
                    let intervention = Intervention::default().head(site, head, factor);
                    let found = forward(&model, &parameters, Some(&intervention));
                    let changed = scaled(&parameters, site, columns.clone(), factor);
                    let expected = forward(&model, &changed, None);
                    assert!(found.data() == expected.data(), "{name} {site} head {head} × {factor}");
                    assert!(found.data() != plain.data(), "{name} {site} head {head} × {factor}");
                    let stepped = steps(&model, &parameters, Some(&intervention));
                    assert!(found.data() == stepped, "{name} {site} head {head} × {factor}, step by step");
                }
            }
            let identity = Intervention::default().head(site, 0, 1.0);
            assert!(forward(&model, &parameters, Some(&identity)).data() == plain.data(), "{name} {site}");
        }
    }
}

fn two_layers(norm_order: NormOrder) -> TransformerConfig {
    let stack = StackConfig::new(2, 2, 10);
    TransformerConfig {
        d_model: 8,
        encoder: stack,
        decoder: stack,
        norm_order,
        ..TransformerConfig::tiny(17)
    }
}

/// A model without layer 0 of a stack, otherwise with the same parameters.
fn without_first(
    config: &TransformerConfig,
    parameters: &Parameters,
    name: &str,
) -> (SequenceToSequence, Parameters) {
    let mut config = config.clone();
    let shorter = if name == "encoder" { &mut config.encoder } else { &mut config.decoder };
    shorter.n_layers -= 1;
    let mut own = Parameters::default();
    let model = SequenceToSequence::new(&config, &mut own).unwrap();
    let declared: Vec<_> = own.declared().map(|(id, name, _)| (id, name.to_owned())).collect();
    for (id, own_name) in declared {
        let there = own_name.replace(&format!("{name}.layers.0."), &format!("{name}.layers.1."));
        own.set(id, parameters.value(parameters.find(&there).unwrap()).clone());
    }
    (model, own)
}

#[test]
fn a_skipped_layer_is_a_missing_layer() {
    for norm_order in [NormOrder::Post, NormOrder::Pre] {
        let config = two_layers(norm_order);
        let mut parameters = Parameters::default();
        let model = SequenceToSequence::new(&config, &mut parameters).unwrap();
        parameters.initialise(5);
        for stack in ["encoder", "decoder"] {
            let intervention = Intervention::default().without_layer(stack, 0);
            let (shorter, own) = without_first(&config, &parameters, stack);
            let found = forward(&model, &parameters, Some(&intervention));
            assert!(found.data() == forward(&shorter, &own, None).data(), "{norm_order:?} {stack}");
            assert!(
                found.data() == steps(&model, &parameters, Some(&intervention)),
                "{norm_order:?} {stack}"
            );
            let search = |model: &Decoding<'_>| -> Result<Vec<Vec<u32>>> {
                let lengths = Lengths { max: 40, ..Lengths::default() };
                let decode = DecodeOptions { start_id: 12, end_id: 0, lengths, ..DecodeOptions::default() };
                let options = BeamOptions { decode, top_beams: 4, ..BeamOptions::default() };
                Ok(beam(model, &[SOURCE], &options)?.remove(0).into_iter().map(|found| found.ids).collect())
            };
            let capture = Capture::off();
            let changed = Decoding {
                intervention: Some(&intervention),
                ..Decoding::new(&model, &parameters, &capture)
            };
            let expected = search(&Decoding::new(&shorter, &own, &capture)).unwrap();
            assert_eq!(search(&changed).unwrap(), expected, "{norm_order:?} {stack}");
        }
    }
}

#[test]
fn captured_vectors_give_the_captured_weights() {
    for name in ["marian/relu", "torch/pre"] {
        let (model, parameters) = load(&golden(name));
        let (tape, capture) = (Tape::inference(), Capture::on(Filter::default()).with_vectors());
        let ids = |ids| Ids::padded(&[ids], model.special_ids().pad_id);
        model.forward(&Pass::new(&tape, &parameters, &capture), &ids(SOURCE), &ids(TARGET)).unwrap();
        let trace = capture.take();
        assert_eq!(trace.vectors.len(), trace.weights.len());
        for (vectors, captured) in trace.vectors.iter().zip(&trace.weights) {
            assert_eq!((vectors.site, &vectors.heads), (captured.site, &captured.heads));
            let &[_, n_heads, q_len, k_len] = captured.weights.shape() else { panic!("four axes") };
            let d_key = vectors.query.shape()[3];
            let dot = |query: usize, key: usize| -> f64 {
                let [query, key] =
                    [&vectors.query.data()[query * d_key..], &vectors.key.data()[key * d_key..]];
                query.iter().zip(key).take(d_key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum()
            };
            for row in 0..n_heads * q_len {
                let (head, query) = (row / q_len, row % q_len);
                let is_visible = |key: usize| !captured.site.kind.is_causal || key <= query;
                let raised = |key: usize| {
                    if is_visible(key) {
                        (dot(row, head * k_len + key) / (d_key as f64).sqrt()).exp()
                    } else {
                        0.0
                    }
                };
                let sum: f64 = (0..k_len).map(raised).sum();
                for key in 0..k_len {
                    let weight = f64::from(captured.weights.data()[row * k_len + key]);
                    assert!(
                        (raised(key) / sum - weight).abs() < 1e-6,
                        "{name} {} {row} {key}",
                        captured.site
                    );
                }
            }
        }
    }
}
