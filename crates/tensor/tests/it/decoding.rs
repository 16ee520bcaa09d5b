//! Parts of a decoding step: rows, the input of the first layer, logits.

use polyhead_tensor::ops::attention::StepRows;
use polyhead_tensor::ops::decoding::{StepPositions, step_input, step_logits};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::{Error, Tape, Tensor, Var};

use crate::gradient::numbers;

/// Rows whose newest tokens are `tokens`, after `len` others.
fn rows(tokens: &[u32], len: usize) -> StepRows {
    let mut rows = StepRows::new(tokens.len(), tokens.len());
    for _ in 0..len {
        assert!(rows.begin(tokens).is_none());
        rows.advance();
    }
    assert!(rows.begin(tokens).is_none());
    rows
}

#[test]
fn the_input_of_a_step_equals_that_of_all_tokens_at_once() {
    let [table, places] = [numbers(&[9, 6], 1, [-1.0, 1.0]), numbers(&[4, 6], 2, [-1.0, 1.0])];
    let options = EmbeddingOptions { scale: 2.5, positions: Some(places.clone()) };
    let tokens = [3, 8, 0, 5];
    let whole =
        embedding(&Tape::inference(), &tokens.into(), 4, &Var::constant(table.clone()), &options).unwrap();
    for (place, &token) in tokens.iter().enumerate() {
        let rows = rows(&[token, token], place);
        let part = |start: usize, length: usize| {
            Tensor::new(&[length, 6], places.data()[start * 6..(start + length) * 6].to_vec())
        };
        for places in [StepPositions::Learned(&places), StepPositions::Computed(&part)] {
            let x = step_input(&table, &rows, 2.5, places).unwrap();
            assert_eq!(x.shape(), [2, 6]);
            assert!(x.data().chunks(6).all(|row| *row == whole.value().data()[place * 6..][..6]));
        }
    }
    let missing = step_input(&table, &rows(&[9], 0), 1.0, StepPositions::None).unwrap_err();
    assert!(matches!(missing, Error::Id { id: 9, vocab_size: 9, .. }), "{missing}");
    assert!(step_input(&table, &rows(&[1], 4), 1.0, StepPositions::Learned(&places)).is_err());
}

#[test]
fn logits_of_a_step_are_a_linear_layer() {
    let [x, weight, bias] =
        [numbers(&[3, 5], 1, [-1.0, 1.0]), numbers(&[7, 5], 2, [-1.0, 1.0]), numbers(&[7], 3, [-1.0, 1.0])];
    let [a, b, c] = [&x, &weight, &bias].map(|tensor| Var::constant(tensor.clone()));
    let expected = linear(&Tape::inference(), &a, &b, Some(&c), LinearOptions::default()).unwrap();
    assert_eq!(step_logits(&x, &weight, Some(&bias)).unwrap().data(), expected.value().data());
    assert!(step_logits(&x, &weight, Some(&x)).is_err());
    assert!(step_logits(&x, &numbers(&[7, 4], 2, [-1.0, 1.0]), None).is_err());
}

#[test]
fn the_first_rows_are_the_first_values() {
    let x = numbers(&[4, 3], 1, [-1.0, 1.0]);
    let first = x.first_rows(2);
    assert_eq!((first.shape(), first.data()), (&[2, 3][..], &x.data()[..6]));
    assert_eq!(x.first_rows(4).data(), x.data());
}
