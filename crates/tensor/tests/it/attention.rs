//! Attention: the equation, its gradients, and independence of threads, batch and padding.

use std::sync::Arc;

use polyhead_tensor::ops::attention::{
    AttentionOptions, Direction, Pattern, Relative, attention, attention_weights,
};
use polyhead_tensor::{Error, Indices, Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::finite_difference::{
    all_zero, assert_threads_change_nothing, assert_values, assert_values_and_gradients, bits, run, tensor,
    tensors,
};

#[derive(Debug, Clone, Copy)]
struct Sizes {
    batch: usize,
    q_len: usize,
    k_len: usize,
    n_heads: usize,
    d_head: usize,
}

const SMALL: Sizes = Sizes { batch: 2, q_len: 4, k_len: 5, n_heads: 3, d_head: 7 };

impl Sizes {
    fn inputs(self) -> Vec<Tensor> {
        let d_model = self.n_heads * self.d_head;
        let keys = [self.batch, self.k_len, d_model];
        tensors(&[&[self.batch, self.q_len, d_model], &keys, &keys])
    }

    /// softmax(scale · Q·Kᵀ over the visible keys)·V, weights multiplied by `mask` (batch × head × query × key).
    fn equation(self, inputs: &[Vec<f64>], options: &AttentionOptions, mask: Option<&[f64]>) -> Vec<f64> {
        let Self { batch, q_len, k_len, n_heads, d_head } = self;
        let d_model = n_heads * d_head;
        let scale = options.scale.map_or(1.0 / (d_head as f64).sqrt(), f64::from);
        let mut out = vec![0.0; batch * q_len * d_model];
        for (b, h, q) in indices([batch, n_heads, q_len]) {
            let at = |len: usize, position: usize| (b * len + position) * d_model + h * d_head;
            let sees = |k: usize| {
                options.key_lengths.as_ref().is_none_or(|lengths| k < lengths.host()[b] as usize)
                    && (options.direction == Direction::Both || k + q_len <= q + k_len)
            };
            let keys: Vec<usize> = (0..k_len).filter(|&k| sees(k)).collect();
            let score = |k: usize| -> f64 {
                let dot = |d: usize| inputs[0][at(q_len, q) + d] * inputs[1][at(k_len, k) + d];
                let bias = options.bias.as_ref().map_or(0.0, |bias| bias.data()[(h * q_len + q) * k_len + k]);
                scale * (0..d_head).map(dot).sum::<f64>() + f64::from(bias)
            };
            let largest = keys.iter().map(|&k| score(k)).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = keys.iter().map(|&k| (score(k) - largest).exp()).sum();
            for k in keys {
                let kept = mask.map_or(1.0, |mask| mask[((b * n_heads + h) * q_len + q) * k_len + k]);
                let weight = kept * (score(k) - largest).exp() / total;
                for d in 0..d_head {
                    out[at(q_len, q) + d] += weight * inputs[2][at(k_len, k) + d];
                }
            }
        }
        out
    }
}

fn indices([a, b, c]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}

fn options(n_heads: usize, direction: Direction, key_lengths: Option<Vec<u32>>) -> AttentionOptions {
    let key_lengths = key_lengths.map(Indices::from);
    AttentionOptions { n_heads, direction, key_lengths, ..Default::default() }
}

fn fused(options: &AttentionOptions) -> impl Fn(&Tape, &[Var]) -> Result<Var> + Sync {
    move |tape, inputs| attention(tape, &inputs[0], &inputs[1], &inputs[2], options)
}

const DIRECTIONS: [Direction; 2] = [Direction::Both, Direction::Causal];

#[test]
fn values_and_gradients_equal_the_equation() {
    // As many queries as keys, fewer (the last of a longer sequence), and more (the first attend to nothing).
    for (q_len, k_len) in [(4, 5), (5, 5), (5, 3)] {
        let sizes = Sizes { q_len, k_len, ..SMALL };
        for direction in DIRECTIONS {
            for key_lengths in [None, Some(vec![3, 1]), Some(vec![0, 5]), Some(vec![2, 99])] {
                for scale in [None, Some(1.7)] {
                    let options = AttentionOptions { scale, ..options(3, direction, key_lengths.clone()) };
                    assert_values_and_gradients(
                        &format!("{sizes:?} {options:?}"),
                        &sizes.inputs(),
                        fused(&options),
                        |inputs| sizes.equation(inputs, &options, None),
                    );
                }
            }
        }
    }
}

#[test]
fn a_bias_is_added_to_the_scores() {
    for direction in DIRECTIONS {
        let bias = Some(tensor(&[SMALL.n_heads, SMALL.q_len, SMALL.k_len], 9));
        let options = AttentionOptions { bias, ..options(3, direction, Some(vec![5, 3])) };
        assert_values_and_gradients(&format!("{direction:?}"), &SMALL.inputs(), fused(&options), |inputs| {
            SMALL.equation(inputs, &options, None)
        });
    }
    let wrong = AttentionOptions { bias: Some(tensor(&[3, 4, 4], 9)), ..options(3, Direction::Both, None) };
    let [query, key, value] = [0, 1, 2].map(|side: usize| Var::constant(SMALL.inputs()[side].clone()));
    let error = attention(&Tape::inference(), &query, &key, &value, &wrong).unwrap_err();
    assert_eq!(error.to_string(), "attention: bias has shape [3, 4, 4], expected [3, 4, 5]");
}

/// `attention_weights` are the weights that mix: mixing the values with them gives the fused result.
#[test]
fn attention_weights_are_those_of_the_fused_operation() {
    let Sizes { batch, q_len, k_len, n_heads, d_head } = SMALL;
    let d_model = n_heads * d_head;
    for direction in DIRECTIONS {
        let bias = Some(tensor(&[n_heads, q_len, k_len], 9));
        let options = AttentionOptions { bias, ..options(3, direction, Some(vec![4, 0])) };
        let inputs = SMALL.inputs();
        let [query, key] = [0, 1].map(|side: usize| Var::constant(inputs[side].clone()));
        let weights = attention_weights(&query, &key, &options).unwrap();
        assert_eq!(weights.shape(), [batch, n_heads, q_len, k_len]);
        let mut mixed = vec![0.0; batch * q_len * d_model];
        for (b, h, q) in indices([batch, n_heads, q_len]) {
            let row = &weights.data()[((b * n_heads + h) * q_len + q) * k_len..][..k_len];
            let total: f32 = row.iter().sum();
            assert!(if b == 1 { total == 0.0 } else { (total - 1.0).abs() < 1e-6 }, "{row:?}");
            for (k, &weight) in row.iter().enumerate() {
                for d in 0..d_head {
                    let value = inputs[2].data()[(b * k_len + k) * d_model + h * d_head + d];
                    mixed[(b * q_len + q) * d_model + h * d_head + d] += f64::from(weight) * f64::from(value);
                }
            }
        }
        assert_values("mixed", &inputs, fused(&options), |_| mixed.clone());
    }
}

#[test]
fn one_value_as_query_key_and_value_gets_all_three_gradients() {
    let options = options(3, Direction::Causal, None);
    let sizes = Sizes { q_len: 5, ..SMALL };
    assert_values_and_gradients(
        "self-attention",
        &sizes.inputs()[..1],
        |tape, inputs| attention(tape, &inputs[0], &inputs[0], &inputs[0], &options),
        |inputs| sizes.equation(&[0; 3].map(|side: usize| inputs[side].clone()), &options, None),
    );
}

#[test]
fn longer_than_a_block_of_queries() {
    let sizes = Sizes { batch: 1, q_len: 130, k_len: 130, n_heads: 1, d_head: 3 };
    let options = options(1, Direction::Causal, Some(vec![120]));
    assert_values_and_gradients("130 queries", &sizes.inputs(), fused(&options), |inputs| {
        sizes.equation(inputs, &options, None)
    });
}

/// More keys than one part: the same as the equation, and as a pattern in which every key is visible, which has no parts.
#[test]
fn many_keys_are_attended_to_in_parts() {
    let sizes = Sizes { batch: 2, q_len: 60, k_len: 2100, n_heads: 2, d_head: 4 };
    for direction in DIRECTIONS {
        let few = Sizes { q_len: 3, ..sizes };
        let lengths = Some(vec![2100, 1500]);
        let plain = options(2, direction, lengths.clone());
        assert_values("many keys", &few.inputs(), fused(&plain), |inputs| few.equation(inputs, &plain, None));

        let mut inputs = sizes.inputs();
        inputs[0].data_mut().iter_mut().for_each(|query| *query *= 5.0);
        inputs.extend(tensors(&[&[7, 4], &[7, 4]]));
        let visible: Vec<Vec<std::ops::Range<u32>>> = (0..60)
            .map(|query| if direction == Direction::Both { 2100 } else { 2041 + query })
            .map(|end| std::iter::once(0..end).collect())
            .collect();
        let pattern = Some(Arc::new(Pattern::new(&visible, 2100, 1)));
        let bias = Some(tensor(&[2, 60, 2100], 9));
        let parts = AttentionOptions { dropout: 0.2, bias, ..options(2, direction, lengths) };
        let whole = AttentionOptions { pattern, direction: Direction::Both, ..parts.clone() };
        let [(parts, parts_gradients), (whole, whole_gradients)] = [parts, whole].map(|options| {
            run(&inputs, move |tape, inputs| {
                let [query, key, value, keys, values] = inputs else { panic!("five inputs") };
                let relative = Relative { max_distance: 3, keys: keys.clone(), values: Some(values.clone()) };
                let options = AttentionOptions { relative: Some(relative), ..options.clone() };
                attention(tape, query, key, value, &options)
            })
        });
        assert_near(&parts, &whole, 1e-5);
        for (parts, whole) in parts_gradients.iter().zip(&whole_gradients) {
            // rowsum(P ∘ dP) comes from the result in parts, which rounds in another way, and is subtracted.
            assert_near(parts.as_ref().unwrap(), whole.as_ref().unwrap(), 1e-4);
        }
    }
}

fn assert_near(a: &Tensor, b: &Tensor, tolerance: f32) {
    let largest = b.data().iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let difference = a.data().iter().zip(b.data()).fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(largest > 0.0 && difference <= tolerance * largest, "{difference} of {largest}");
}

/// Many heads of long sequences on few threads: a waiting thread must not begin another head inside the first.
#[test]
fn many_long_heads_share_threads() {
    let sizes = Sizes { batch: 3, q_len: 60, k_len: 700, n_heads: 4, d_head: 64 };
    let options = options(4, Direction::Both, None);
    let results = [2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            (0..5).map(|_| bits(run(&sizes.inputs(), fused(&options)).0.data())).collect::<Vec<_>>()
        })
    });
    assert!(results.iter().flatten().all(|bits| *bits == results[0][0]));
}

#[test]
fn large_scores_do_not_overflow() {
    let sizes = SMALL;
    let options = AttentionOptions { scale: Some(1e4), ..options(3, Direction::Both, None) };
    assert_values("large scores", &sizes.inputs(), fused(&options), |inputs| {
        sizes.equation(inputs, &options, None)
    });
    let (_, gradients) = run(&sizes.inputs(), fused(&options));
    assert!(gradients.iter().flatten().all(|gradient| gradient.data().iter().all(|g| g.is_finite())));
}

#[test]
fn dropout_is_the_same_in_the_backward_pass() {
    // With the unit vectors as values of each head, the result is the weights themselves.
    let sizes = Sizes { d_head: 5, ..SMALL };
    let mut inputs = sizes.inputs();
    let values = std::mem::replace(&mut inputs[2], Tensor::zeros(&[2, 5, 15]));
    for (b, k, h) in indices([2, 5, 3]) {
        inputs[2].data_mut()[(b * 5 + k) * 15 + h * 5 + k] = 1.0;
    }
    for direction in DIRECTIONS {
        let whole = options(3, direction, None);
        let dropping = AttentionOptions { dropout: 0.25, ..whole.clone() };
        let [weights, dropped] = [&whole, &dropping].map(|options| run(&inputs, fused(options)).0);
        let mut mask = vec![0.0; 2 * 3 * 4 * 5];
        for (b, h, q) in indices([2, 3, 4]) {
            for k in 0..5 {
                let at = (b * 4 + q) * 15 + h * 5 + k;
                let [weight, dropped] = [&weights, &dropped].map(|tensor| f64::from(tensor.data()[at]));
                let factor = if weight == 0.0 { 0.0 } else { dropped / weight };
                assert!(factor == 0.0 || (factor - 4.0 / 3.0).abs() < 1e-6, "{factor}");
                mask[((b * 3 + h) * 4 + q) * 5 + k] = factor;
            }
        }
        let kept = mask.iter().filter(|&&factor| factor != 0.0).count();
        assert!((60..110).contains(&kept), "{kept} weights of 120 kept");
        let inputs = [inputs[0].clone(), inputs[1].clone(), values.clone()];
        assert_values_and_gradients("attention with dropout", &inputs, fused(&dropping), |inputs| {
            sizes.equation(inputs, &dropping, Some(&mask))
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn values_are_correct_for_any_shape(
        batch in 1_usize..4, q_len in 1_usize..70, k_len in 1_usize..70, n_heads in 1_usize..4, d_head in 1_usize..40,
        causal in 0_usize..2, length in 0_usize..70,
    ) {
        let sizes = Sizes { batch, q_len, k_len, n_heads, d_head };
        let options = options(n_heads, DIRECTIONS[causal], Some((0..batch).map(|row| (length + row) as u32).collect()));
        assert_values(&format!("{sizes:?}"), &sizes.inputs(), fused(&options), |inputs| {
            sizes.equation(inputs, &options, None)
        });
    }

    #[test]
    fn gradients_are_correct_for_any_shape(
        batch in 1_usize..3, q_len in 1_usize..6, k_len in 1_usize..6, n_heads in 1_usize..4, d_head in 1_usize..8,
        causal in 0_usize..2, length in 0_usize..6,
    ) {
        let sizes = Sizes { batch, q_len, k_len, n_heads, d_head };
        let options = options(n_heads, DIRECTIONS[causal], Some((0..batch).map(|row| (length + row) as u32).collect()));
        assert_values_and_gradients(&format!("{sizes:?}"), &sizes.inputs(), fused(&options), |inputs| {
            sizes.equation(inputs, &options, None)
        });
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let sizes = Sizes { batch: 5, q_len: 65, k_len: 71, n_heads: 3, d_head: 33 };
    for direction in DIRECTIONS {
        let options =
            AttentionOptions { dropout: 0.1, ..options(3, direction, Some(vec![71, 3, 0, 64, 70])) };
        assert_threads_change_nothing(&sizes.inputs(), fused(&options));
    }
}

/// Rows `from` of an array of batch × length × width, cut or padded with 7 to `length`.
fn cut(all: &Tensor, from: std::ops::Range<usize>, length: usize) -> Tensor {
    let &[_, old, width] = all.shape() else { panic!("three axes") };
    let mut data = Vec::new();
    for row in from.clone() {
        let kept = length.min(old) * width;
        data.extend_from_slice(&all.data()[row * old * width..row * old * width + kept]);
        data.resize(data.len() + length * width - kept, 7.0);
    }
    Tensor::new(&[from.len(), length, width], data)
}

fn forward(inputs: [Tensor; 3], options: &AttentionOptions) -> Tensor {
    let vars = inputs.map(Var::constant);
    fused(options)(&Tape::inference(), &vars).unwrap().value().clone()
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch_for_any_padding() {
    let sizes = Sizes { batch: 17, q_len: 60, k_len: 60, n_heads: 2, d_head: 20 };
    let inputs = sizes.inputs();
    let lengths: Vec<u32> = (0..17).map(|row| 1 + row * 7 % 60).collect();
    for direction in DIRECTIONS {
        let batch = forward(
            [inputs[0].clone(), inputs[1].clone(), inputs[2].clone()],
            &options(2, direction, Some(lengths.clone())),
        );
        // Without padding, and with more of it; queries are padded as the keys are.
        for (row, &length) in lengths.iter().enumerate() {
            let length = length as usize;
            for padded in [length, 60, 75, 300] {
                let alone = forward(
                    [0, 1, 2].map(|side: usize| cut(&inputs[side], row..row + 1, padded)),
                    &options(2, direction, Some(vec![length as u32])),
                );
                let expected = &batch.data()[row * 60 * 40..(row * 60 + length) * 40];
                assert_eq!(
                    bits(&alone.data()[..length * 40]),
                    bits(expected),
                    "row {row} of {length} in {padded}"
                );
            }
        }
    }
}

#[test]
fn padding_gets_no_gradient_and_its_values_do_not_matter() {
    let sizes = SMALL;
    let options = options(3, Direction::Both, Some(vec![3, 5]));
    let inputs = sizes.inputs();
    let mut other = inputs.clone();
    for side in [1, 2] {
        other[side].data_mut()[3 * 21..5 * 21].fill(f32::NAN);
    }
    let [first, second] = [&inputs, &other].map(|inputs| run(inputs, fused(&options)));
    assert_eq!(bits(first.0.data()), bits(second.0.data()));
    for (a, b) in first.1.iter().flatten().zip(second.1.iter().flatten()) {
        assert_eq!(bits(a.data()), bits(b.data()));
    }
    for gradient in first.1[1..].iter().flatten() {
        assert!(gradient.data()[3 * 21..5 * 21].iter().all(|&g| g == 0.0));
    }
}

#[test]
fn a_later_key_does_not_affect_an_earlier_query() {
    let sizes = Sizes { q_len: 5, ..SMALL };
    let options = options(3, Direction::Causal, None);
    let inputs = sizes.inputs();
    let mut other = inputs.clone();
    for input in &mut other {
        input.data_mut()[4 * 21..5 * 21].fill(3.0); // the last position of the first row
    }
    let [first, second] = [inputs, other].map(|inputs| run(&inputs, fused(&options)).0);
    assert_eq!(bits(&first.data()[..4 * 21]), bits(&second.data()[..4 * 21]));
    assert_ne!(bits(&first.data()[4 * 21..5 * 21]), bits(&second.data()[4 * 21..5 * 21]));
}

#[test]
fn nothing_to_attend_to_gives_zeros_and_zero_gradients() {
    for direction in DIRECTIONS {
        let nothing = options(3, direction, Some(vec![0, 0]));
        let (y, gradients) = run(&SMALL.inputs(), fused(&nothing));
        assert!(y.data().iter().all(|&y| y == 0.0) && all_zero(&gradients));
        for sizes in [
            Sizes { k_len: 0, ..SMALL },
            Sizes { q_len: 0, ..SMALL },
            Sizes { batch: 0, ..SMALL },
            Sizes { d_head: 0, ..SMALL },
        ] {
            let (y, gradients) = run(&sizes.inputs(), fused(&options(3, direction, None)));
            assert_eq!(y.shape(), sizes.inputs()[0].shape());
            assert!(y.data().iter().all(|&y| y == 0.0) && all_zero(&gradients), "{sizes:?}");
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors_that_name_the_input() {
    let named = |shapes: [&[usize]; 3], options: &AttentionOptions, expected: &str| {
        let vars: Vec<Var> = tensors(&shapes).into_iter().map(Var::constant).collect();
        match fused(options)(&Tape::inference(), &vars).unwrap_err() {
            Error::Shape { operation, name, .. } => assert_eq!([operation, name], ["attention", expected]),
            other => panic!("{other}"),
        }
    };
    let plain = options(3, Direction::Both, None);
    named([&[4, 6], &[2, 5, 6], &[2, 5, 6]], &plain, "query");
    named([&[2, 4, 7], &[2, 5, 7], &[2, 5, 7]], &plain, "query");
    named([&[2, 4, 6], &[2, 5, 6], &[2, 5, 6]], &options(0, Direction::Both, None), "query");
    named([&[2, 4, 6], &[3, 5, 6], &[3, 5, 6]], &plain, "key");
    named([&[2, 4, 6], &[6], &[2, 5, 6]], &plain, "key");
    named([&[2, 4, 6], &[2, 5, 6], &[2, 4, 6]], &plain, "value");
    named([&[2, 4, 6], &[2, 5, 6], &[2, 5, 6]], &options(3, Direction::Both, Some(vec![5])), "key_lengths");
}

#[test]
fn nan_is_not_hidden() {
    let mut inputs = SMALL.inputs();
    inputs[0] = Tensor::new(&[2, 4, 21], vec![f32::NAN; 168]);
    let (y, _) = run(&inputs, fused(&options(3, Direction::Both, None)));
    assert!(y.data().iter().all(|y| y.is_nan()));
}
