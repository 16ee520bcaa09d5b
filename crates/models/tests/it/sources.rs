//! Translators of several sources: against PyTorch (`golden/sources/make.py`), and what only they do.

use polyhead_attention::{Capture, Filter, Intervention, Pass, Site};
use polyhead_models::decode::NextToken as _;
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{Combination, StackConfig};
use polyhead_models::{Decoding, Ids, SequenceToSequence};
use polyhead_tensor::{Parameters, Tape, Tensor};
use serde::Deserialize;

const END: u32 = 1;
const PAD: u32 = 0;

fn config(combination: Combination, sources: usize) -> TransformerConfig {
    TransformerConfig {
        d_model: 12,
        encoder: StackConfig::new(1, 3, 10),
        decoder: StackConfig::new(2, 2, 9),
        source_vocab_size: 13,
        target_vocab_size: 13,
        end_id: END,
        pad_id: PAD,
        max_len: 32,
        sources,
        combination,
        ..TransformerConfig::default()
    }
}

/// A model whose parameters follow from a formula, in the order of their names; `make.py` has the same.
fn model(config: &TransformerConfig) -> (SequenceToSequence, Parameters) {
    let mut parameters = Parameters::default();
    let model = SequenceToSequence::new(config, &mut parameters).unwrap();
    parameters.initialise(1);
    let mut names: Vec<_> = parameters.declared().map(|(id, name, _)| (name.to_owned(), id)).collect();
    names.sort();
    for (number, (name, id)) in names.into_iter().enumerate() {
        let base = if name.ends_with("gamma") { 1.0 } else { 0.0 };
        for (index, value) in parameters.value_mut(id).data_mut().iter_mut().enumerate() {
            let angle = 0.37 * (index + 1) as f64 + 1.3 * (number + 1) as f64;
            *value = (base + 0.4 * (angle * angle).sin()) as f32;
        }
    }
    (model, parameters)
}

fn forward(
    model: &SequenceToSequence,
    parameters: &Parameters,
    sources: &[&[u32]],
    target: &[&[u32]],
) -> Tensor {
    forward_with(model, parameters, (sources, target), &Capture::off(), None)
}

fn forward_with(
    model: &SequenceToSequence,
    parameters: &Parameters,
    (sources, target): (&[&[u32]], &[&[u32]]),
    capture: &Capture,
    intervention: Option<&Intervention>,
) -> Tensor {
    let tape = Tape::inference();
    let pass = Pass { intervention, ..Pass::new(&tape, parameters, capture) };
    model.forward(&pass, &model.source_ids(sources), &Ids::padded(target, PAD)).unwrap().value().clone()
}

#[derive(Deserialize)]
struct Case {
    combination: Combination,
    /// Logits of every target position of each row.
    logits: Vec<Vec<Vec<f32>>>,
    /// Attention of the last layer to each source, and to the contexts: by row, head, query and key.
    weights: Vec<Vec<Vec<Vec<Vec<f32>>>>>,
}

#[derive(Deserialize)]
struct Golden {
    sources: Vec<Vec<u32>>,
    targets: Vec<Vec<u32>>,
    cases: Vec<Case>,
}

#[test]
fn logits_and_weights_are_those_of_pytorch() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/sources/sources.json")).unwrap();
    let [sources, targets] =
        [&golden.sources, &golden.targets].map(|rows| rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for case in golden.cases {
        let config = config(case.combination, 2);
        let (model, parameters) = model(&config);
        let capture =
            Capture::on(Filter { layers: Some(vec![1]), stack: Some("decoder"), ..Filter::default() });
        let found = forward_with(&model, &parameters, (&sources, &targets), &capture, None);
        let width = *found.shape().last().unwrap();
        let longest = found.shape()[1];
        for (row, logits) in case.logits.iter().enumerate() {
            for (position, expected) in logits.iter().enumerate() {
                let own = &found.data()[(row * longest + position) * width..][..width];
                for (a, b) in own.iter().zip(expected) {
                    assert!((a - b).abs() < 2e-5, "{:?} {row} {position}: {a} {b}", case.combination);
                }
            }
        }
        let captured = capture.take().weights;
        let cross = captured.iter().filter(|found| found.site.kind.keys != "target");
        let cross: Vec<_> = cross.collect();
        assert_eq!(cross.len(), case.weights.len(), "{:?}", case.combination);
        for (own, expected) in cross.into_iter().zip(&case.weights) {
            let &[_, heads, queries, keys] = own.weights.shape() else { panic!("four axes") };
            for (row, by_head) in expected.iter().enumerate() {
                for (head, by_query) in by_head.iter().enumerate() {
                    for (query, by_key) in by_query.iter().enumerate() {
                        let at = ((row * heads + head) * queries + query) * keys;
                        for (a, b) in own.weights.data()[at..].iter().zip(by_key) {
                            assert!((a - b).abs() < 2e-6, "{:?} {}: {a} {b}", case.combination, own.site);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_sources_are_read_in_their_order() {
    for combination in
        [Combination::Flat, Combination::Hierarchical, Combination::Parallel, Combination::Serial]
    {
        let (model, parameters) = model(&config(combination, 2));
        let logits = |source: &[u32]| forward(&model, &parameters, &[source], &[&[0, 5, 6]]).data().to_vec();
        let first = logits(&[3, 4, 1, 5, 1]);
        assert_ne!(first, logits(&[5, 1, 3, 4, 1]), "{combination:?}: exchanged");
        assert_ne!(first, logits(&[3, 4, 1, 6, 1]), "{combination:?}: another second source");
        assert_ne!(first, logits(&[3, 4, 1, 1]), "{combination:?}: an empty second source");
        assert!(logits(&[3, 4, 1]).iter().all(|number| number.is_finite()), "{combination:?}: one source");
    }
}

#[test]
fn heads_to_each_source_can_be_switched_off_by_themselves() {
    // The context without a head to the second source is that of the other heads: for flat attention, the weights stay.
    let (model, parameters) = model(&config(Combination::Flat, 2));
    let kind = model.sites().named("cross_2").unwrap().kind;
    let off = Intervention::default().head(Site { kind, layer: 0 }, 0, 0.0);
    let (source, target): (&[&[u32]], &[&[u32]]) = (&[&[3, 4, 1, 5, 6, 1]], &[&[0, 5, 6]]);
    let plain = forward(&model, &parameters, source, target);
    let whole = forward_with(&model, &parameters, (source, target), &Capture::off(), Some(&off));
    assert_ne!(plain.data(), whole.data());
    // The same in decoding steps, bit for bit.
    let capture = Capture::off();
    let decoding = Decoding { intervention: Some(&off), ..Decoding::new(&model, &parameters, &capture) };
    let mut state = decoding.start(source, 1).unwrap();
    for (position, token) in target[0].iter().enumerate() {
        let step = decoding.step(&mut state, &[*token]).unwrap();
        assert_eq!(step.data(), &whole.data()[position * 13..][..13]);
    }
    // A second source without keys gives nothing, as if all of its heads were off.
    let all_off =
        Intervention::default().head(Site { kind, layer: 0 }, 0, 0.0).head(Site { kind, layer: 0 }, 1, 0.0);
    let one = |intervention| {
        forward_with(&model, &parameters, (&[&[3, 4, 1]], target), &Capture::off(), intervention)
            .data()
            .to_vec()
    };
    assert_eq!(one(None), one(Some(&all_off)));
}

#[test]
fn steps_capture_the_weights_of_whole_sequences_when_rows_are_reordered() {
    let sources: [&[u32]; 2] = [&[3, 4, 1, 5, 1], &[7, 1, 8, 9, 10, 1]];
    for combination in [Combination::Flat, Combination::Hierarchical] {
        let (model, parameters) = model(&config(combination, 2));
        let capture = Capture::on(Filter { stack: Some("decoder"), ..Filter::default() });
        let decoding = Decoding::new(&model, &parameters, &capture);
        let mut state = decoding.start(&sources, 3).unwrap();
        decoding.step(&mut state, &[0, 0]).unwrap();
        // The second sentence twice, then the first.
        decoding.reorder(&mut state, &[1, 0, 1]);
        capture.take();
        decoding.step(&mut state, &[5, 6, 7]).unwrap();
        let steps = capture.take().weights;
        for (row, (sentence, token)) in [(1, 5), (0, 6), (1, 7)].into_iter().enumerate() {
            forward_with(&model, &parameters, (&[sources[sentence]], &[&[0, token]]), &capture, None);
            for whole in capture.take().weights.iter().filter(|found| !found.site.kind.is_self()) {
                let step = steps.iter().find(|step| step.site == whole.site).unwrap();
                let [&[_, heads, _, step_keys], &[_, _, queries, keys]] =
                    [step, whole].map(|found| found.weights.shape())
                else {
                    panic!("four axes")
                };
                for head in 0..heads {
                    let expected = &whole.weights.data()[(head * queries + 1) * keys..][..keys];
                    let found = &step.weights.data()[(row * heads + head) * step_keys..][..keys];
                    assert_eq!(found, expected, "{combination:?} {} row {row}", whole.site);
                }
            }
        }
    }
}
