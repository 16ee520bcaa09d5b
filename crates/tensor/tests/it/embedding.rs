//! Embedding: the equation, its gradient, and independence of threads.

use polyhead_random::Random;
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::{Error, Result, Tape, Tensor, Var};
use proptest::prelude::*;

use crate::finite_difference::{
    all_zero, assert_threads_change_nothing, assert_values_and_gradients, run, tensor, wide,
};

/// scale · E[id_t] + position_t.
fn equation(
    table: &[f64],
    ids: &[u32],
    [length, d_model]: [usize; 2],
    options: &EmbeddingOptions,
) -> Vec<f64> {
    let positions = options.positions.as_ref().map(|positions| wide(positions.data()));
    let rows = ids.iter().enumerate().flat_map(|(t, &id)| {
        let positions = positions.as_ref();
        (0..d_model).map(move |d| {
            let shift = positions.map_or(0.0, |positions| positions[t % length * d_model + d]);
            f64::from(options.scale) * table[id as usize * d_model + d] + shift
        })
    });
    rows.collect()
}

fn options(scale: f32, positions: Option<Tensor>) -> EmbeddingOptions {
    #[allow(clippy::needless_update, reason = "the options may grow")]
    EmbeddingOptions { scale, positions, ..Default::default() }
}

fn fused(
    ids: &[u32],
    length: usize,
    options: &EmbeddingOptions,
) -> impl Fn(&Tape, &[Var]) -> Result<Var> + Sync {
    move |tape, inputs| embedding(tape, &ids.into(), length, &inputs[0], options)
}

fn random_ids(count: usize, vocab_size: usize) -> Vec<u32> {
    let random = Random::new(4);
    (0..count as u64).map(|index| (random.u64(index) % vocab_size as u64) as u32).collect()
}

#[test]
fn values_and_gradients_equal_the_equation() {
    let ids = [3, 0, 3, 3, 4, 0]; // 1 and 2 never, 3 three times
    for options in [options(1.0, None), options(2.5, None), options(2.5, Some(tensor(&[9, 7], 8)))] {
        for length in [6, 3, 1] {
            let inputs = [tensor(&[5, 7], 1)];
            let (y, _) = run(&inputs, fused(&ids, length, &options));
            assert_eq!(y.shape(), [6 / length, length, 7]);
            assert_values_and_gradients("embedding", &inputs, fused(&ids, length, &options), |inputs| {
                equation(&inputs[0], &ids, [length, 7], &options)
            });
        }
    }
}

#[test]
fn a_table_used_twice_gets_the_sum_of_both() {
    let (ids, other) = ([3, 0, 3], [1, 3, 2]);
    let options = options(0.5, None);
    assert_values_and_gradients(
        "tied",
        &[tensor(&[5, 7], 1)],
        |tape, inputs| {
            // x of the second lookup as a weight: the product of all pairs of rows.
            let [x, weight] = [ids, other].map(|ids| embedding(tape, &ids.into(), 3, &inputs[0], &options));
            let (x, weight) = (x?, weight?.reshaped(&[3, 7]));
            linear(tape, &x, &weight, None, LinearOptions::default())
        },
        |inputs| {
            let [x, weight] = [ids, other].map(|ids| equation(&inputs[0], &ids, [3, 7], &options));
            let pairs = x.chunks_exact(7).flat_map(|x| weight.chunks_exact(7).map(move |weight| (x, weight)));
            pairs.map(|(x, weight)| x.iter().zip(weight).map(|(x, weight)| x * weight).sum()).collect()
        },
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn values_and_gradients_are_correct_for_any_shape(
        rows in 1_usize..4, length in 1_usize..8, vocab_size in 1_usize..10, d_model in 1_usize..9,
    ) {
        let ids = random_ids(rows * length, vocab_size);
        let options = options(1.5, Some(tensor(&[length, d_model], 8)));
        assert_values_and_gradients("embedding", &[tensor(&[vocab_size, d_model], 1)], fused(&ids, length, &options), |inputs| {
            equation(&inputs[0], &ids, [length, d_model], &options)
        });
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let ids = random_ids(40 * 25, 101);
    let options = options(1.3, Some(tensor(&[25, 67], 8)));
    assert_threads_change_nothing(&[tensor(&[101, 67], 1)], fused(&ids, 25, &options));
}

#[test]
fn an_empty_batch_gives_zero_gradients() {
    let (y, gradients) = run(&[tensor(&[5, 7], 1)], fused(&[], 4, &EmbeddingOptions::default()));
    assert_eq!(y.shape(), [0, 4, 7]);
    assert!(all_zero(&gradients));
    let (y, _) = run(&[tensor(&[5, 0], 1)], fused(&[1, 2], 2, &EmbeddingOptions::default()));
    assert_eq!(y.shape(), [1, 2, 0]);
}

#[test]
fn an_id_outside_the_table_is_an_error_that_says_where() {
    let table = Var::constant(tensor(&[5, 7], 1));
    let error = embedding(&Tape::inference(), &[0, 4, 5, 9].into(), 2, &table, &EmbeddingOptions::default());
    assert_eq!(error.unwrap_err(), Error::Id { operation: "embedding", id: 5, position: 2, vocab_size: 5 });
    let empty = Var::constant(Tensor::zeros(&[0, 7]));
    let error = embedding(&Tape::inference(), &[0].into(), 1, &empty, &EmbeddingOptions::default());
    assert!(matches!(error, Err(Error::Id { .. })));
}

#[test]
fn shapes_that_do_not_fit_are_errors_that_name_the_input() {
    let named = |table: &[usize], length: usize, positions: Option<&[usize]>, expected: &str| {
        let table = Var::constant(tensor(table, 1));
        let options = options(1.0, positions.map(|shape| tensor(shape, 2)));
        match embedding(&Tape::inference(), &[0, 1, 2, 3].into(), length, &table, &options).unwrap_err() {
            Error::Shape { operation, name, .. } => assert_eq!([operation, name], ["embedding", expected]),
            other => panic!("{other}"),
        }
    };
    named(&[35], 4, None, "table");
    named(&[5, 7], 3, None, "ids");
    named(&[5, 7], 0, None, "ids");
    named(&[5, 7], 4, Some(&[3, 7]), "positions");
    named(&[5, 7], 4, Some(&[9, 6]), "positions"); // enough positions, another width
    named(&[5, 7], 4, Some(&[28]), "positions");
}
