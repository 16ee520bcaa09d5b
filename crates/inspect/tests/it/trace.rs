//! Traces agree with decoding and translation.

use polyhead_attention::{Capture, Filter, Intervention, Site};
use polyhead_inspect::trace::{NodeFate, Trace, TraceOptions};
use polyhead_models::Decoding;
use polyhead_models::decode::NextToken as _;
use polyhead_translate::{Evidence, Mode, TranslateOptions};

use crate::engine;

const SENTENCES: &[&str] = &[
    "The teacher reads a book today.",
    "Nobody slept well!",
    "My brother drinks cold water in Istanbul every morning?",
    "xqzwv 漢字 e\u{301}",
];

#[test]
fn weights_are_those_of_decoding_step_by_step() {
    let engine = engine();
    for text in SENTENCES {
        for beam_size in [Some(1), Some(4)] {
            let trace =
                Trace::new(&engine, text, &TraceOptions { beam_size, ..TraceOptions::default() }).unwrap();
            let capture = Capture::on(Filter::default());
            let decoding = Decoding::new(engine.model(), engine.parameters(), &capture);
            let mut state = decoding.start(&[&trace.side("source").unwrap().ids()], 1).unwrap();
            let encoder = capture.take().weights;
            let own = |site| trace.attention(site).unwrap();
            for found in &encoder {
                let heads: Vec<f32> =
                    own(found.site).weights.iter().flat_map(|head| head.numbers().to_vec()).collect();
                assert!(heads == found.weights.data(), "{text} {}", found.site);
            }
            let read = [trace.side("target").unwrap().start.as_ref().unwrap().id]
                .into_iter()
                .chain(trace.side("target").unwrap().ids());
            for (place, token) in read.take(trace.side("target").unwrap().tokens.len()).enumerate() {
                decoding.step(&mut state, &[token]).unwrap();
                for found in capture.take().weights {
                    let n_keys = found.weights.shape()[3];
                    for (head, step) in
                        own(found.site).weights.iter().zip(found.weights.data().chunks(n_keys))
                    {
                        let (past, future) = head.row(place).split_at(n_keys);
                        assert!(past == step, "{text} {} step {place}", found.site);
                        assert!(future.iter().all(|weight| *weight == 0.0), "{text} {} {place}", found.site);
                    }
                }
            }
        }
    }
}

#[test]
fn probabilities_and_alignments_are_those_of_the_translation() {
    let engine = engine();
    for text in &SENTENCES[..3] {
        for beam_size in [Some(1), Some(4)] {
            let trace =
                Trace::new(&engine, text, &TraceOptions { beam_size, ..TraceOptions::default() }).unwrap();
            let evidence = Evidence::Alignment;
            let options =
                TranslateOptions { mode: Mode::Raw, beam_size, evidence, ..TranslateOptions::default() };
            let found = engine.translate(&[text], &options).unwrap().remove(0);
            assert_eq!(trace.side("target").unwrap().text, found.text());
            assert_eq!(trace.alignment(), found.alignment, "{text}");
            for (token, step) in
                trace.side("target").unwrap().tokens.iter().zip(&trace.translation().unwrap().steps)
            {
                let best = &step.alternatives[0];
                assert!(best.log_probability >= step.log_probability);
                let own = step.alternatives.iter().find(|alternative| alternative.id == token.id);
                assert!(own.is_none_or(|own| own.log_probability == step.log_probability));
                assert_eq!(step.alternatives.len(), 5);
            }
            // The same translation, given, has the same pass.
            let target = Some(trace.side("target").unwrap().text.clone());
            let given =
                Trace::new(&engine, text, &TraceOptions { target, ..TraceOptions::default() }).unwrap();
            if given.side("target").unwrap().ids() == trace.side("target").unwrap().ids() {
                assert_eq!(given.translation().unwrap().steps, trace.translation().unwrap().steps);
                assert_eq!(given.attentions, trace.attentions);
            }
        }
    }
}

#[test]
fn the_tree_has_the_winner_and_pruned_candidates() {
    let engine = engine();
    let trace =
        Trace::new(&engine, SENTENCES[0], &TraceOptions { beam_size: Some(3), ..TraceOptions::default() });
    let trace = trace.unwrap();
    let tree = trace.translation().unwrap().tree.clone().unwrap();
    let best: Vec<u32> = tree.nodes.iter().filter(|node| node.is_best).map(|node| node.id).collect();
    assert_eq!(best, trace.side("target").unwrap().ids());
    let last = tree.nodes.iter().rfind(|node| node.is_best).unwrap();
    assert!(
        (last.sum
            - trace
                .translation()
                .unwrap()
                .steps
                .iter()
                .map(|step| f64::from(step.log_probability))
                .sum::<f64>())
        .abs()
            < 1e-9
    );
    for node in &tree.nodes {
        let before = node.parent.map_or(0.0, |parent| tree.nodes[parent].sum);
        assert!((before + f64::from(node.log_probability) - node.sum).abs() < 1e-9);
        assert!(node.parent.is_none_or(|parent| tree.nodes[parent].fate == NodeFate::Kept));
    }
    assert!(tree.nodes.iter().any(|node| node.fate == NodeFate::Pruned));
    assert!(tree.nodes.iter().all(|node| node.step > 0 || node.parent.is_none()));
}

#[test]
fn a_filter_selects_heads_and_changes_nothing() {
    let engine = engine();
    let whole = Trace::new(&engine, SENTENCES[0], &TraceOptions::default()).unwrap();
    let cross = engine.model().sites().named("cross").unwrap().kind;
    let filter = Filter { kind: Some(cross), heads: Some(vec![1, 3]), ..Filter::default() };
    let some =
        Trace::new(&engine, SENTENCES[0], &TraceOptions { filter, ..TraceOptions::default() }).unwrap();
    assert_eq!(some.attentions.len(), 2);
    for own in &some.attentions {
        assert_eq!((own.site.kind, &own.heads[..]), (cross, &[1, 3][..]));
        assert_eq!(own.head(3), whole.attention(own.site).unwrap().head(3));
    }
    assert!(some.rollout().is_none() && whole.rollout().is_some());
}

#[test]
fn offsets_slice_both_texts() {
    let engine = engine();
    for text in SENTENCES {
        let trace = Trace::new(&engine, text, &TraceOptions::default()).unwrap();
        for side in [&trace.side("source").unwrap(), &trace.side("target").unwrap()] {
            for token in &side.tokens {
                assert!(side.text.get(token.span.clone()).is_some(), "{text} {token:?}");
            }
            for (token, label) in side.tokens.iter().zip(side.labels()) {
                assert!(!label.is_empty(), "{text} {token:?}");
            }
            let covered: String = side.tokens.iter().map(|token| &side.text[token.span.clone()]).collect();
            let bare = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
            assert_eq!(bare(&covered), bare(&side.text));
        }
    }
}

#[test]
fn an_intervention_changes_the_trace() {
    let engine = engine();
    let kind = engine.model().sites().named("cross").unwrap().kind;
    let site = Site { kind, layer: 1 };
    let off = (0..4).fold(Intervention::default(), |changed, head| changed.head(site, head, 0.0));
    let plain = Trace::new(&engine, SENTENCES[0], &TraceOptions::default()).unwrap();
    let options = TraceOptions { intervention: off.clone(), ..TraceOptions::default() };
    let changed = Trace::new(&engine, SENTENCES[0], &options).unwrap();
    assert_ne!(plain.translation().unwrap().steps, changed.translation().unwrap().steps);
    assert_eq!(changed.intervention, off);
}
