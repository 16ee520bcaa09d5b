//! Rows multiplied by a number each: values, gradients, threads, bad shapes.

use polyhead_tensor::ops::scale_rows::scale_rows;
use polyhead_tensor::{Tape, Tensor, Var};

use crate::gradient::{check, numbers, same_bits};

fn factors(rows: usize) -> Tensor {
    Tensor::new(&[rows, 1], (0..rows).map(|row| if row % 3 == 0 { 0.0 } else { row as f32 / 4.0 }).collect())
}

#[test]
fn equal_to_the_reference() {
    for (shape, rows) in [(vec![4, 3, 5], 4), (vec![1, 7], 1), (vec![9], 9)] {
        check(
            "scale_rows",
            &[numbers(&shape, 1, [-2.0, 2.0])],
            |tape, vars| scale_rows(tape, &vars[0], &factors(rows)).unwrap(),
            |inputs| {
                let width = inputs[0].len() / rows;
                let all = inputs[0].iter().enumerate();
                all.map(|(at, number)| number * f64::from(factors(rows).data()[at / width])).collect()
            },
        );
    }
}

#[test]
fn threads_change_no_bit() {
    same_bits("scale_rows", &[numbers(&[300, 2 * 131], 3, [-2.0, 2.0])], |tape, vars| {
        scale_rows(tape, &vars[0], &factors(300)).unwrap()
    });
}

#[test]
fn each_row_has_a_number() {
    for shape in [&[2, 3][..], &[0, 3], &[]] {
        let x = Var::constant(Tensor::zeros(shape));
        let error = scale_rows(&Tape::inference(), &x, &factors(4)).unwrap_err().to_string();
        assert!(error.contains("one a row of x"), "{error}");
    }
}
