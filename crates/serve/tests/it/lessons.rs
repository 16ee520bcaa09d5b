//! The numbers of the lessons: computed here by the library, and compared with a file that the tests in a browser compare
//! the pages with. `POLYHEAD_WRITE_LESSONS=1 cargo test -p polyhead-serve lessons` writes the file again.

use std::path::Path;

use polyhead_attention::Mask;
use polyhead_attention::position::{SinusoidLayout, Sinusoidal};
use polyhead_inspect::trace::{CaptureVectors, Trace, TraceOptions};
use polyhead_models::decode::beam::{BeamOptions, beam_traced};
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::trace::CandidateOutcome;
use polyhead_models::decode::{DecodeOptions, NextToken};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::{Result, SequenceToSequence};
use polyhead_tensor::ops::attention::{AttentionOptions, attention, attention_weights};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Parameters, Tape, Tensor, Var};
use polyhead_words::vectors::{Cooccurrences, Corpus, CorpusOptions, window};
use serde_json::{Value, json};

use crate::engine;

/// Rows of numbers as a variable of one sentence.
fn var(rows: &[Vec<f32>]) -> Var {
    Var::constant(Tensor::new(&[1, rows.len(), rows[0].len()], rows.concat()))
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.data().iter().map(|number| round(f64::from(*number))).collect()
}

/// Six digits are more than a page shows.
fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn weights(scores: &[f32]) -> Vec<f64> {
    let scores = Var::constant(Tensor::new(&[1, scores.len()], scores.to_vec()));
    numbers(softmax(&Tape::inference(), &scores).value())
}

/// The letters A A B A as one-hot rows, times a factor.
fn letters(factor: f32) -> Vec<Vec<f32>> {
    "AABA".chars().map(|letter| if letter == 'A' { vec![factor, 0.0] } else { vec![0.0, factor] }).collect()
}

fn self_attention(factor: f32) -> Value {
    let [query, key] = [var(&letters(1.0)), var(&letters(factor))];
    let value: Vec<Vec<f32>> =
        letters(1.0).iter().map(|row| if row[0] == 1.0 { vec![0.0, 1.0] } else { vec![2.0, 0.0] }).collect();
    let options = AttentionOptions { n_heads: 1, ..AttentionOptions::default() };
    let output = attention(&Tape::inference(), &query, &key, &var(&value), &options).unwrap();
    json!({
        "factor": factor,
        "weights": numbers(&attention_weights(&query, &key, &options).unwrap()),
        "output": numbers(output.value()),
    })
}

/// Attention of the query [0, x] to A A B A; base b of the softmax is a factor of ln b.
fn lookup(x: f32, base: f32) -> Value {
    let (query, key) = (var(&[vec![0.0, x]]), var(&letters(1.0)));
    let options = AttentionOptions { n_heads: 1, scale: Some(base.ln()), ..AttentionOptions::default() };
    let output = attention(&Tape::inference(), &query, &key, &key, &options).unwrap();
    json!({
        "x": x,
        "base": if base == 3.0 { "3" } else { "e" },
        "weights": numbers(&attention_weights(&query, &key, &options).unwrap()),
        "output": numbers(output.value()),
    })
}

fn masks() -> Value {
    let count =
        |mask: &Mask, n: usize| mask.materialise(1, n, n).iter().filter(|is_allowed| **is_allowed).count();
    let mut found = Vec::new();
    for n in [4_usize, 12, 24] {
        for w in [0_usize, 2, 5] {
            let padded = n - w.min(n - 1);
            let kinds = [
                ("full", Mask::full()),
                ("causal", Mask::causal()),
                ("padding", Mask::padding(vec![padded as u32])),
                ("window", Mask::window(w)),
                ("dilated", Mask::dilated(w, 2)),
                ("global", Mask::window(w).or(Mask::global(vec![0]))),
            ];
            for (kind, mask) in kinds {
                found.push(json!({ "kind": kind, "n": n, "w": w, "pairs": count(&mask, n) }));
            }
        }
    }
    json!(found)
}

fn positions() -> Value {
    let layouts = [
        ("interleaved", SinusoidLayout::Interleaved),
        ("concatenated", SinusoidLayout::Concatenated),
        ("tensor2tensor", SinusoidLayout::Fairseq),
    ];
    let row = |layout| {
        let table = Sinusoidal { layout, first: 0 }.table(60, 64);
        numbers(&table)[7 * 64..7 * 64 + 6].to_vec()
    };
    json!(layouts.map(|(name, layout)| json!({ "layout": name, "position": 7, "first": row(layout) })))
}

/// The made-up model of six words.
struct Table;

const AFTER: [[f32; 6]; 6] = [
    [0.0, 0.0, 0.0, 0.0, 0.9, 0.1],
    [0.9, 0.0, 0.0, 0.1, 0.0, 0.0],
    [0.0, 0.9, 0.0, 0.0, 0.0, 0.1],
    [0.3, 0.0, 0.25, 0.0, 0.0, 0.45],
    [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    [0.1, 0.0, 0.4, 0.5, 0.0, 0.0],
];

impl NextToken for Table {
    type State = ();
    fn start(&self, _: &[&[u32]], _: usize) -> Result<()> {
        Ok(())
    }
    fn step(&self, (): &mut (), tokens: &[u32]) -> Result<Tensor> {
        let rows = tokens.iter().flat_map(|&id| AFTER[id as usize].map(f32::ln)).collect();
        Ok(Tensor::new(&[tokens.len(), 6], rows))
    }
    fn reorder(&self, (): &mut (), _: &[usize]) {}
}

fn beam(beam_size: usize, alpha: f64) -> Value {
    let options = BeamOptions {
        decode: DecodeOptions { start_id: 5, end_id: 5, ..DecodeOptions::default() },
        beam_size,
        top_beams: beam_size,
        length_penalty: LengthPenalty::Power(alpha),
        ..BeamOptions::default()
    };
    let (found, trace) = beam_traced(&Table, &[&[0]], &options).unwrap().remove(0);
    let fate = |outcome: &CandidateOutcome| match outcome {
        CandidateOutcome::Live(_) => "kept",
        CandidateOutcome::Finished => "finished",
        CandidateOutcome::Pruned => "pruned",
    };
    let columns: Vec<Value> = trace
        .steps
        .iter()
        .map(|step| {
            // Words without probability are no continuations.
            let step = step.iter().filter(|own| own.sum.is_finite());
            step.map(|own| json!([own.id, round(own.sum), fate(&own.outcome)])).collect()
        })
        .collect();
    let finished: Vec<Value> =
        found.iter().map(|own| json!([own.ids, round(own.log_probability), round(own.score)])).collect();
    json!({ "beam_size": beam_size, "alpha": alpha, "columns": columns, "finished": finished })
}

/// The loss of the lecture's table and of the untrained logits.
fn smoothing(epsilon: f32) -> Value {
    let right = [2_u32, 1, 0, 4, 5];
    let taught = [0.93_f32, 0.8, 0.99, 0.94, 0.98];
    let logits = |f: &dyn Fn(usize, usize) -> f32| {
        let all = (0..5).flat_map(|row| (0..6).map(move |id| (row, id)));
        Var::constant(Tensor::new(&[5, 6], all.map(|(row, id)| f(row, id)).collect()))
    };
    let loss = |logits: &Var| {
        let options = CrossEntropyOptions { label_smoothing: epsilon, ..CrossEntropyOptions::default() };
        let loss = cross_entropy(&Tape::inference(), logits, &right.to_vec().into(), options).unwrap();
        round(f64::from(loss.value().data()[0]))
    };
    let table = logits(&|row, id| {
        let is_right = id == right[row] as usize;
        if is_right { taught[row].ln() } else { ((1.0 - taught[row]) / 5.0).ln() }
    });
    let untrained = logits(&|row, id| ((3 * row + 5 * id) as f32).sin() * 0.6);
    json!({ "epsilon": epsilon, "table": loss(&table), "untrained": loss(&untrained) })
}

/// Contexts of word2vec: [position, window, positions of the context].
fn contexts() -> Value {
    let n_words = 15;
    let found = [(1, 2), (9, 2), (0, 3), (14, 5)].map(|(position, width)| {
        let around = window(0..n_words, position, width).filter(|&at| at != position);
        json!([position, width, around.collect::<Vec<usize>>()])
    });
    json!(found)
}

/// P(k | ice), P(k | steam) and their ratios, counted by GloVe on a text of word pairs.
fn ratios() -> Value {
    let words = ["solid", "gas", "water", "fashion"];
    let counts = [("ice", "cold", [890, 85, 1360, 96]), ("steam", "hot", [100, 1000, 1000, 100])];
    let mut lines = Vec::new();
    for (word, other, counts) in counts {
        for (context, count) in words.iter().zip(counts) {
            lines.extend(std::iter::repeat_n(format!("{word} {context}"), count));
        }
        let rest = 3000 - counts.iter().sum::<usize>();
        lines.extend(std::iter::repeat_n(format!("{other} {word}"), rest));
    }
    let corpus = Corpus::from_lines(lines.iter().map(String::as_str), &CorpusOptions::default()).unwrap();
    let counts = Cooccurrences::count(&corpus, 5, 32 << 20, &|_| ()).unwrap();
    let id = |word: &str| corpus.vocabulary().id(word).unwrap();
    let found = counts.probabilities(&[id("ice"), id("steam")], &words.map(id)).unwrap();
    let ratio = found[0].iter().zip(&found[1]).map(|(ice, steam)| ice / steam);
    let rows = [found[0].clone(), found[1].clone(), ratio.collect()];
    json!(rows.map(|row| row.into_iter().map(round).collect::<Vec<f64>>()))
}

fn computed() -> Value {
    let scaled = |scores: [f32; 2], d: f32| {
        let at_d = scores.map(|score| score * (d / 64.0).sqrt());
        let divided = at_d.map(|score| score / d.sqrt());
        json!({ "given": scores, "d": d, "weights": weights(&divided), "without": weights(&at_d) })
    };
    json!({
        "lookup": [lookup(1.0, 3.0), lookup(10.0, 3.0), lookup(2.5, std::f32::consts::E)],
        "scaled": [scaled([112.0, 96.0], 64.0), scaled([112.0, 96.0], 1.0), scaled([60.0, 58.0], 256.0)],
        "self_attention": [self_attention(2.0), self_attention(10.0), self_attention(0.0)],
        "masks": masks(),
        "positions": positions(),
        "beam": [beam(1, 0.0), beam(2, 0.0), beam(3, 0.0), beam(2, 1.0), beam(3, 0.6)],
        "contexts": contexts(),
        "ratios": ratios(),
        "smoothing": [smoothing(0.0), smoothing(0.1), smoothing(0.4)],
    })
}

#[test]
fn the_numbers_of_the_lessons_are_the_librarys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lessons.json");
    let found = computed();
    if std::env::var_os("POLYHEAD_WRITE_LESSONS").is_some() {
        std::fs::write(&path, found.to_string() + "\n").unwrap();
    }
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    same(&found, &expected, "lessons");
}

/// Asserts that two values differ by rounding at most.
fn same(found: &Value, expected: &Value, place: &str) {
    match (found, expected) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(index, (a, b))| same(a, b, &format!("{place}[{index}]")));
        }
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().for_each(|(key, own)| same(own, &b[key], &format!("{place}.{key}")));
        }
        (Value::Number(a), Value::Number(b)) => {
            let [a, b] = [a, b].map(|number| number.as_f64().unwrap());
            assert!((a - b).abs() < 2e-5, "{place}: {a} is not {b}");
        }
        _ => assert_eq!(found, expected, "{place}"),
    }
}

/// The cost lesson: the matrices of a layer have 12·d² parameters.
#[test]
fn a_layer_has_the_parameters_of_the_lesson() {
    let d = 32;
    let vocab_size = 10;
    let mut config = TransformerConfig {
        source_vocab_size: vocab_size,
        target_vocab_size: vocab_size,
        d_model: d,
        ..TransformerConfig::default()
    };
    config.encoder.n_layers = 3;
    config.encoder.n_heads = 4;
    config.encoder.d_ff = 4 * d;
    let mut parameters = Parameters::default();
    SequenceToSequence::new(config, &mut parameters).unwrap();
    let is_own = |name: &str, shape: &[usize]| name.starts_with("encoder.") && shape.len() == 2;
    let sizes = parameters.declared().filter(|(_, name, shape)| is_own(name, shape));
    let count: usize = sizes.map(|(_, _, shape)| shape.iter().product::<usize>()).sum();
    assert_eq!(count, 3 * 12 * d * d);
}

/// The cache lesson: keys and values are 2·N·n·d numbers in self-attention, 2·N·m·d in cross-attention.
#[test]
fn keys_and_values_have_the_numbers_of_the_lesson() {
    let options = TraceOptions { vectors: CaptureVectors::Yes, ..TraceOptions::default() };
    let trace = Trace::new(&engine(), "The teacher reads a book today.", &options).unwrap();
    let [n, m] = ["target", "source"].map(|side| trace.side(side).unwrap().tokens.len());
    let (n_layers, d) = (trace.sites.named("decoder").unwrap().n_layers, trace.d_model);
    for (kind, length) in [("decoder", n), ("cross", m)] {
        let own = trace.vectors.iter().filter(|own| own.site.kind.name == kind);
        let count: usize = own.map(|own| own.key.data().len() + own.value.data().len()).sum();
        assert_eq!(count, 2 * n_layers * length * d, "{kind}");
    }
}
