//! Root-mean-square normalisation: values, gradients, bits, bad shapes.

use polyhead_tensor::ops::dropout::dropout;
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::ops::norm::NormOptions;
use polyhead_tensor::ops::rms_norm::rms_norm;
use polyhead_tensor::{Tape, Tensor, Var};

use crate::gradient::{check, golden, numbers, run, same_bits};

fn reference(h: &[f64], gamma: &[f64]) -> Vec<f64> {
    let row = |row: &[f64]| -> Vec<f64> {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        row.iter().zip(gamma).map(|(x, gamma)| gamma * x / (mean + f64::from(1e-5_f32)).sqrt()).collect()
    };
    h.chunks(gamma.len()).flat_map(row).collect()
}

#[test]
fn equal_to_the_reference() {
    for width in [2, 5, 16, 37] {
        let inputs = [
            numbers(&[2, 3, width], 1, [-2.0, 2.0]),
            numbers(&[width], 2, [0.5, 2.0]),
            numbers(&[2, 3, width], 3, [-2.0, 2.0]),
        ];
        let options = NormOptions::default();
        check(
            "rms_norm",
            &inputs[..2],
            |tape, vars| rms_norm(tape, &vars[0], None, &vars[1], options).unwrap(),
            |inputs| reference(&inputs[0], &inputs[1]),
        );
        check(
            "rms_norm with a residual",
            &inputs,
            |tape, vars| rms_norm(tape, &vars[0], Some(&vars[2]), &vars[1], options).unwrap(),
            |inputs| {
                let h: Vec<f64> =
                    inputs[0].iter().zip(&inputs[2]).map(|(x, residual)| x + residual).collect();
                reference(&h, &inputs[1])
            },
        );
    }
}

#[test]
fn equal_to_pytorch() {
    golden(&["rms_norm"], |_, tape, vars| {
        rms_norm(tape, &vars[0], Some(&vars[1]), &vars[2], NormOptions::default()).unwrap()
    });
}

#[test]
fn dropout_comes_before_the_residual() {
    let inputs =
        [numbers(&[9, 40], 1, [0.5, 2.0]), numbers(&[9, 40], 2, [0.5, 2.0]), numbers(&[40], 3, [0.5, 2.0])];
    let options = NormOptions { dropout: 0.3, ..NormOptions::default() };
    let fused =
        run(&inputs, None, |tape, vars| rms_norm(tape, &vars[0], Some(&vars[1]), &vars[2], options).unwrap());
    let apart = run(&inputs, None, |tape, vars| {
        let dropped = dropout(tape, &vars[0], 0.3).unwrap();
        let h = add(tape, &vars[1], &dropped).unwrap();
        rms_norm(tape, &h, None, &vars[2], NormOptions::default()).unwrap()
    });
    assert_eq!(fused.0.data(), apart.0.data());
    for (fused, apart) in fused.1.iter().zip(&apart.1) {
        assert_eq!(fused.data(), apart.data());
    }
    let dropped = fused.1[0].data().iter().filter(|&&number| number == 0.0).count();
    assert!((60..160).contains(&dropped), "{dropped} of 360 gradients are 0 at 30 %");
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let inputs = [
        numbers(&[300, 333], 1, [-2.0, 2.0]),
        numbers(&[300, 333], 2, [-2.0, 2.0]),
        numbers(&[333], 3, [0.5, 2.0]),
    ];
    let options = NormOptions { dropout: 0.1, ..NormOptions::default() };
    same_bits("rms_norm", &inputs, |tape, vars| {
        rms_norm(tape, &vars[0], Some(&vars[1]), &vars[2], options).unwrap()
    });
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let (x, gamma) = (numbers(&[7, 45], 1, [-5.0, 5.0]), Var::constant(numbers(&[45], 2, [0.5, 2.0])));
    let tape = Tape::inference();
    let norm = |x: Tensor| rms_norm(&tape, &Var::constant(x), None, &gamma, NormOptions::default()).unwrap();
    let whole = norm(x.clone());
    for row in 0..7 {
        let alone = norm(Tensor::new(&[45], x.data()[row * 45..(row + 1) * 45].to_vec()));
        assert_eq!(alone.value().data(), &whole.value().data()[row * 45..(row + 1) * 45]);
    }
}

#[test]
fn bad_shapes_are_named_and_empty_ones_are_no_work() {
    let tape = Tape::inference();
    let of = |shape: &[usize]| Var::constant(Tensor::zeros(shape));
    let options = NormOptions::default();
    assert_eq!(
        rms_norm(&tape, &of(&[2, 3]), None, &of(&[4]), options).unwrap_err().to_string(),
        "rms_norm: gamma has shape [4], expected [3] for an input of [2, 3]"
    );
    assert_eq!(
        rms_norm(&tape, &of(&[2, 3]), Some(&of(&[3])), &of(&[3]), options).unwrap_err().to_string(),
        "rms_norm: residual has shape [3], expected [2, 3]"
    );
    let all = NormOptions { dropout: 1.0, ..options };
    assert!(rms_norm(&tape, &of(&[2, 3]), None, &of(&[3]), all).is_err());
    assert_eq!(rms_norm(&tape, &of(&[2, 3]), None, &of(&[3]), options).unwrap().value().data(), [0.0; 6]);
    for [rows, width] in [[0, 3], [3, 0]] {
        let inputs = [Tensor::zeros(&[rows, width]), Tensor::zeros(&[width])];
        let (y, gradients) =
            run(&inputs, None, |tape, vars| rms_norm(tape, &vars[0], None, &vars[1], options).unwrap());
        assert!(y.is_empty() && gradients[1].data().iter().all(|&number| number == 0.0));
    }
}
