//! All operations give the same bits with any vector instructions: the test runs itself again with others.

use std::process::Command;

use polyhead_tensor::isa::Isa;
use polyhead_tensor::ops::additive::additive_scores;
use polyhead_tensor::ops::copying::{CopyMixture, copy_cross_entropy};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::gated::gated;
use polyhead_tensor::ops::linear::Activation;
use polyhead_tensor::ops::masked_softmax::{Locality, masked_softmax};
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::norm::NormOptions;
use polyhead_tensor::ops::r_drop::{RDropOptions, r_drop};
use polyhead_tensor::ops::recurrent::{CellKind, RecurrentInput, RecurrentOptions, recurrent};
use polyhead_tensor::ops::reduce::{Over, max, mean, sum};
use polyhead_tensor::ops::rms_norm::rms_norm;
use polyhead_tensor::ops::rotary::{Pairing, RotaryOptions, RotaryTable, rotary};
use polyhead_tensor::ops::scale_rows::scale_rows;
use polyhead_tensor::ops::shape::reshape;
use polyhead_tensor::ops::shared_weight::SharedWeight;
use polyhead_tensor::ops::weighted_cross_entropy::{ClassWeights, weighted_cross_entropy};
use polyhead_tensor::ops::{elementwise, softmax};
use polyhead_tensor::{Tape, Tensor, Var};

use crate::gradient::{numbers, run};

const LINE: &str = "fingerprint ";

/// A hash (FNV-1a) of the bits of an operation's value and gradients.
fn fingerprint(inputs: &[Tensor], operation: impl Fn(&Tape, &[Var]) -> Var) -> u64 {
    let (output, gradients) = run(inputs, None, operation);
    let tensors = std::iter::once(&output).chain(&gradients);
    let bits = tensors.flat_map(|tensor| tensor.data().iter().map(|number| number.to_bits()));
    bits.fold(0xcbf2_9ce4_8422_2325, |hash, bits| (hash ^ u64::from(bits)).wrapping_mul(0x100_0000_01b3))
}

/// Prints the hash of every operation; the parent process compares.
#[test]
fn bits_of_this_process() {
    let wide = [numbers(&[9, 131], 1, [0.1, 4.0]), numbers(&[131], 2, [0.5, 2.0])];
    let show = |name: &str, hash: u64| println!("{LINE}{name} {hash:016x}");
    let unary = [
        ("square", elementwise::square as fn(&Tape, &Var) -> Var),
        ("sqrt", elementwise::sqrt),
        ("exp", elementwise::exp),
        ("ln", elementwise::ln),
        ("tanh", elementwise::tanh),
        ("sigmoid", elementwise::sigmoid),
        ("gelu", elementwise::gelu),
        ("gelu_tanh", elementwise::gelu_tanh),
        ("quick_gelu", elementwise::quick_gelu),
        ("silu", elementwise::silu),
        ("softmax", softmax::softmax),
        ("log_softmax", softmax::log_softmax),
    ];
    for (name, operation) in unary {
        show(name, fingerprint(&wide[..1], |tape, vars| operation(tape, &vars[0])));
    }
    show("div", fingerprint(&wide, |tape, vars| elementwise::div(tape, &vars[0], &vars[1]).unwrap()));
    for (name, operation) in [("sum", sum as fn(&Tape, &Var, Over) -> _), ("mean", mean), ("max", max)] {
        for over in [Over::Axis(0), Over::Axis(1), Over::All] {
            show(name, fingerprint(&wide[..1], |tape, vars| operation(tape, &vars[0], over).unwrap()));
        }
    }
    let lengths = [3, 2].into();
    for cell in CellKind::ALL {
        let gates = cell.n_gates() * 19;
        let shapes: [&[usize]; 2] = [&[2, 3, gates], &[gates, 19]];
        let inputs = shapes.map(|shape| numbers(shape, 5, [-1.0, 1.0]));
        let layer = |tape: &Tape, vars: &[Var]| {
            let weight = SharedWeight::new(tape, &vars[1], None).unwrap();
            let input =
                RecurrentInput { projected: &vars[0], weight: &weight, state: None, lengths: Some(&lengths) };
            recurrent(tape, input, RecurrentOptions { cell, ..Default::default() }).unwrap().outputs
        };
        show("recurrent", fingerprint(&inputs, layer));
    }
    let sides = [
        numbers(&[2, 3, 19], 6, [-1.0, 1.0]),
        numbers(&[2, 5, 19], 7, [-1.0, 1.0]),
        numbers(&[19], 8, [-1.0, 1.0]),
    ];
    let weights = |tape: &Tape, vars: &[Var]| {
        let scores = additive_scores(tape, &vars[0], &vars[1], &vars[2]).unwrap();
        masked_softmax(tape, &scores, &lengths, Locality::Global).unwrap()
    };
    show("additive, masked_softmax", fingerprint(&sides, weights));
    let options = CrossEntropyOptions { label_smoothing: 0.1, ..CrossEntropyOptions::default() };
    let right = [1, 130, 7, 0, 55, 9, 128, 2, 77].into();
    let loss = |tape: &Tape, vars: &[Var]| cross_entropy(tape, &vars[0], &right, options).unwrap();
    show("cross_entropy", fingerprint(&wide[..1], loss));
    let class_weights = ClassWeights::new(wide[1].data());
    let loss = |tape: &Tape, vars: &[Var]| {
        weighted_cross_entropy(tape, &vars[0], &right, &class_weights, options).unwrap()
    };
    show("weighted_cross_entropy", fingerprint(&wide[..1], loss));
    let loss = |tape: &Tape, vars: &[Var]| {
        let options = RDropOptions { cross_entropy: options, ..RDropOptions::default() };
        r_drop(tape, &vars[0], &right, options).unwrap().loss
    };
    show("r_drop", fingerprint(&[numbers(&[18, 131], 3, [-4.0, 4.0])], loss));
    let sides = [
        numbers(&[9, 131], 3, [-4.0, 4.0]),
        numbers(&[9, 4], 4, [0.1, 0.2]),
        numbers(&[9, 1], 5, [-1.0, 1.0]),
    ];
    let sources = [3, 131, 5, 7, 132, 131, 9, 55, 2, 1, 130, 4].into();
    let copied = [131, 130, 7, 132, 55, 9, 2, 2, 77].into();
    let loss = |tape: &Tape, vars: &[Var]| {
        let mixture = CopyMixture { logits: &vars[0], weights: &vars[1], gate: &vars[2], sources: &sources };
        copy_cross_entropy(tape, mixture, &copied, options).unwrap()
    };
    show("copy_cross_entropy", fingerprint(&sides, loss));
    let norm = NormOptions { dropout: 0.1, ..NormOptions::default() };
    show(
        "rms_norm",
        fingerprint(&wide, |tape, vars| rms_norm(tape, &vars[0], None, &vars[1], norm).unwrap()),
    );
    let sides = [numbers(&[3, 17, 40], 1, [-1.0, 1.0]), numbers(&[3, 40, 33], 2, [-1.0, 1.0])];
    let options = MatmulOptions::default();
    show("matmul", fingerprint(&sides, |tape, vars| matmul(tape, &vars[0], &vars[1], options).unwrap()));
    let gates = [numbers(&[9, 262], 1, [-2.0, 2.0])];
    show("gated", fingerprint(&gates, |tape, vars| gated(tape, &vars[0], Activation::Silu).unwrap()));
    let rows = Tensor::new(&[9], (0..9).map(|row| row as f32 / 3.0).collect());
    show("scale_rows", fingerprint(&gates, |tape, vars| scale_rows(tape, &vars[0], &rows).unwrap()));
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        let table = RotaryTable::new(20, 50, RotaryOptions { pairing, ..RotaryOptions::default() }).unwrap();
        let hash = fingerprint(&sides[..1], |tape, vars| {
            rotary(tape, &reshape(&vars[0], &[3, 17, 2, 20]).unwrap(), &table, 30).unwrap()
        });
        show("rotary", hash);
    }
}

#[test]
fn bits_do_not_depend_on_the_instruction_set() {
    let lines = |isa: Isa| -> Vec<String> {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "instructions::bits_of_this_process", "--nocapture", "--test-threads=1"])
            .env("POLYHEAD_ISA", isa.name())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", isa.name());
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter_map(|line| Some(line.split_once(LINE)?.1.to_owned())).collect()
    };
    let portable = lines(Isa::Portable);
    assert_eq!(portable.len(), 37, "one line for each operation");
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_usable()) {
        assert_eq!(portable, lines(isa), "{}", isa.name());
    }
}
