//! Score functions: agreement with equations in f64 and their finite differences, and with PyTorch; laws; bad shapes.

use polyhead_attention::attend::attend;
use polyhead_attention::score::{Cosine, Dot, Score, ScoreKind, ScoreOptions};
use polyhead_attention::{Builder, Capture, Error, Pass};
use polyhead_tensor::{Parameters, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::golden::{TOLERANCE, cases, fill, integers, tensor, wide};
use crate::gradient::{assert_close, assert_equation, random_tensor, run};

/// Batch, q_len, k_len.
type Sizes = [usize; 3];

fn built(options: ScoreOptions) -> (Parameters, Score) {
    let mut parameters = Parameters::default();
    let score = Score::new(&mut Builder::new(&mut parameters), options).unwrap();
    parameters.initialise(5);
    (parameters, score)
}

/// The widths that a function is tested with: different ones where it allows that.
fn options(kind: ScoreKind) -> ScoreOptions {
    let one_width = matches!(kind, ScoreKind::Dot | ScoreKind::ScaledDot | ScoreKind::Cosine);
    let d_key = if one_width { 3 } else { 5 };
    ScoreOptions { kind, d_query: 3, d_key, d_hidden: 4, max_len: 9, sharpness: 2.5 }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The score of one pair, with the key at `position`.
fn pair(options: &ScoreOptions, q: &[f64], k: &[f64], position: usize, parameters: &[Vec<f64>]) -> f64 {
    let row =
        |matrix: &Vec<f64>, index: usize, width: usize| matrix[index * width..(index + 1) * width].to_vec();
    match options.kind {
        ScoreKind::Dot => product(q, k),
        ScoreKind::ScaledDot => product(q, k) / (q.len() as f64).sqrt(),
        ScoreKind::General => {
            let rows = q.iter().enumerate();
            rows.map(|(index, q)| q * product(&row(&parameters[0], index, k.len()), k)).sum()
        }
        ScoreKind::Additive => {
            let [w, u, v] = [&parameters[0], &parameters[1], &parameters[2]];
            let hidden = |index| product(&row(w, index, q.len()), q) + product(&row(u, index, k.len()), k);
            v.iter().enumerate().map(|(index, v)| v * f64::tanh(hidden(index))).sum()
        }
        ScoreKind::Location => product(&row(&parameters[0], position, q.len()), q),
        ScoreKind::Cosine => {
            let norms = product(q, q).sqrt() * product(k, k).sqrt();
            f64::from(options.sharpness) * product(q, k) / norms
        }
    }
}

/// All scores for [query, key, parameters…].
fn equation(options: &ScoreOptions, [batch, q_len, k_len]: Sizes, all: &[Vec<f64>]) -> Vec<f64> {
    let query = |b: usize, q: usize| &all[0][(b * q_len + q) * options.d_query..][..options.d_query];
    let key = |b: usize, k: usize| &all[1][(b * k_len + k) * options.d_key..][..options.d_key];
    let mut scores = Vec::with_capacity(batch * q_len * k_len);
    for b in 0..batch {
        for q in 0..q_len {
            scores.extend((0..k_len).map(|k| pair(options, query(b, q), key(b, k), k, &all[2..])));
        }
    }
    scores
}

fn assert_gradients(kind: ScoreKind, sizes: Sizes, stream: u64) {
    let options = options(kind);
    let [batch, q_len, k_len] = sizes;
    let (parameters, score) = built(options);
    let inputs = [
        random_tensor(&[batch, q_len, options.d_query], stream),
        random_tensor(&[batch, k_len, options.d_key], stream + 1),
    ];
    let what = format!("{} {sizes:?}", kind.name());
    let layer = |pass: &Pass<'_>, vars: &[Var]| score.scores(pass, &vars[0], &vars[1]).unwrap();
    assert_equation(&what, &parameters, &inputs, layer, |all| equation(&options, sizes, all));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn gradients_match_finite_differences(
        batch in 1_usize..4, q_len in 1_usize..5, k_len in 1_usize..7, stream in 0_u64..1000,
    ) {
        for kind in ScoreKind::ALL {
            assert_gradients(kind, [batch, q_len, k_len], stream);
        }
    }
}

#[test]
fn scores_match_pytorch() {
    let cases = cases("score");
    for case in &cases {
        let kind = ScoreKind::from_name(case["name"].as_str().unwrap()).unwrap();
        let inputs = ["query", "key", "value"].map(|name| tensor(&case["inputs"][name]));
        let (d_query, d_key) = (inputs[0].shape()[2], inputs[1].shape()[2]);
        let max_len = case["options"]["max_len"].as_u64().unwrap_or(1) as usize;
        let sharpness = case["options"]["sharpness"].as_f64().unwrap_or(1.0) as f32;
        let mut parameters = Parameters::default();
        let options = ScoreOptions { kind, d_query, d_key, d_hidden: 8, max_len, sharpness };
        let score = Score::new(&mut Builder::new(&mut parameters), options).unwrap();
        fill(&mut parameters, &case["inputs"], str::to_owned);
        let (q_len, k_len) = (inputs[0].shape()[1], inputs[1].shape()[1]);
        let allowed: Option<Vec<bool>> = integers(&case["options"]["key_lengths"]).map(|lengths| {
            let row = |length: usize| (0..q_len * k_len).map(move |index| index % k_len < length);
            lengths.into_iter().flat_map(row).collect()
        });
        let found = run(&parameters, &inputs, &[tensor(&case["upstream"])], |pass, vars| {
            let scores = score.scores(pass, &vars[0], &vars[1]).unwrap();
            let (context, weights) = attend(pass.tape, &scores, &vars[2], allowed.as_deref()).unwrap();
            vec![context, weights, scores]
        });
        for (output, name) in found.outputs.iter().zip(["output", "weights", "scores"]) {
            assert_eq!(output.shape(), tensor(&case[name]).shape(), "{} {name}", kind.name());
            assert_close(&format!("{} {name}", kind.name()), output.data(), &wide(&case[name]), TOLERANCE);
        }
        let names = parameters.declared().map(|(_, name, _)| name);
        let gradients = found.inputs.iter().chain(&found.parameters);
        for (gradient, name) in gradients.zip(["query", "key", "value"].into_iter().chain(names)) {
            let expected = wide(&case["gradients"][name]);
            assert_close(&format!("{} d{name}", kind.name()), gradient.data(), &expected, TOLERANCE);
        }
    }
    let tested = ScoreKind::ALL.map(|kind| cases.iter().filter(|case| case["name"] == kind.name()).count());
    assert!(tested.iter().all(|&count| count >= 2), "{tested:?}");
}

/// The scores without gradients.
fn plain(score: &Score, parameters: &Parameters, query: &Tensor, key: &Tensor) -> Result<Tensor, Error> {
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass::new(&tape, parameters, &capture);
    let [query, key] = [query, key].map(|tensor| Var::constant(tensor.clone()));
    score.scores(&pass, &query, &key).map(|scores| scores.value().clone())
}

#[test]
fn a_batch_equals_its_sequences() {
    for kind in ScoreKind::ALL {
        let options = options(kind);
        let (parameters, score) = built(options);
        let (query, key) =
            (random_tensor(&[3, 2, options.d_query], 1), random_tensor(&[3, 4, options.d_key], 2));
        let whole = plain(&score, &parameters, &query, &key).unwrap();
        for row in 0..3 {
            let alone = |x: &Tensor| {
                let [_, length, d] = x.shape().try_into().unwrap();
                Tensor::new(&[1, length, d], x.data()[row * length * d..(row + 1) * length * d].to_vec())
            };
            let scores = plain(&score, &parameters, &alone(&query), &alone(&key)).unwrap();
            assert_eq!(scores.data(), &whole.data()[row * 8..(row + 1) * 8], "{}", kind.name());
        }
    }
}

#[test]
fn names_round_trip() {
    for kind in ScoreKind::ALL {
        assert_eq!(ScoreKind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(ScoreKind::from_name("concat"), None);
}

#[test]
fn cosines_ignore_norms_and_accept_zero_vectors() {
    let parameters = Parameters::default();
    let score = Score::Cosine(Cosine::default());
    let query = Tensor::new(&[1, 2, 2], vec![3.0, 4.0, 0.0, 0.0]);
    let key = Tensor::new(&[1, 3, 2], vec![30.0, 40.0, -0.03, -0.04, 0.0, 0.0]);
    let scores = plain(&score, &parameters, &query, &key).unwrap();
    assert_close("cosines", scores.data(), &[1.0, -1.0, 0.0, 0.0, 0.0, 0.0], 1e-5);
    let found = run(&parameters, &[query, key], &[random_tensor(&[6], 1)], |pass, vars| {
        vec![score.scores(pass, &vars[0], &vars[1]).unwrap()]
    });
    assert!(found.inputs.iter().all(|gradient| gradient.data().iter().all(|number| number.is_finite())));
}

#[test]
fn mismatched_shapes_are_named() {
    let shapes: [(&[usize], &[usize], &str); 4] = [
        (&[2, 3], &[2, 4, 5], "query"),
        (&[2, 4, 3], &[2, 5], "key"),
        (&[2, 4, 3], &[3, 4, 5], "key"),
        (&[2, 4, 3], &[], "key"),
    ];
    for kind in ScoreKind::ALL {
        let (parameters, score) = built(options(kind));
        for (query, key, expected) in shapes {
            let error = plain(&score, &parameters, &Tensor::zeros(query), &Tensor::zeros(key)).unwrap_err();
            let Error::Shape { operation, name, .. } = &error else { panic!("{error}") };
            assert_eq!([*operation, *name], [kind.name(), expected], "{query:?} {key:?}: {error}");
        }
    }
    let error = plain(
        &Score::Dot(Dot),
        &Parameters::default(),
        &random_tensor(&[1, 2, 3], 1),
        &random_tensor(&[1, 2, 4], 2),
    );
    let message = error.unwrap_err().to_string();
    assert_eq!(message, "dot: key has shape [1, 2, 4], expected [1, 2, 3] for a query of [1, 2, 3]");
    let unequal = ScoreOptions { kind: ScoreKind::Cosine, d_query: 3, d_key: 4, ..ScoreOptions::default() };
    assert!(matches!(
        Score::new(&mut Builder::new(&mut Parameters::default()), unequal),
        Err(Error::Value { name: "d_key", .. })
    ));
}
