//! Every operation on a GPU against the CPU: values and gradients, in f32, tf32 and bf16.
//!
//! Both devices get the same inputs, rounded to bf16, so that only the arithmetic differs. The error is ‖GPU − CPU‖ /
//! ‖CPU‖ over all values of an output or a gradient. If no GPU can be used, the tests print why and pass.

use std::sync::Arc;

use polyhead_tensor::ops::additive::additive_scores;
use polyhead_tensor::ops::attention::{
    AttentionKernels, AttentionOptions, Columns, Direction, Pattern, attention,
};
use polyhead_tensor::ops::copying::{CopyMixture, copy_cross_entropy, coverage_loss};
use polyhead_tensor::ops::cross_entropy::{CrossEntropyOptions, cross_entropy};
use polyhead_tensor::ops::dropout::{add_dropped, dropout};
use polyhead_tensor::ops::elementwise as each;
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::gated::gated;
use polyhead_tensor::ops::linear::{Activation, LinearOptions, linear};
use polyhead_tensor::ops::masked_softmax::{Locality, masked_softmax};
use polyhead_tensor::ops::matmul::{Layout, MatmulOptions, matmul};
use polyhead_tensor::ops::norm::{NormOptions, layer_norm};
use polyhead_tensor::ops::output::{OutputLayer, output_cross_entropy, output_r_drop};
use polyhead_tensor::ops::r_drop::{RDropOptions, r_drop};
use polyhead_tensor::ops::recurrent::{CellKind, Reading, RecurrentInput, RecurrentOptions, recurrent};
use polyhead_tensor::ops::reduce::{Over, max, mean, sum};
use polyhead_tensor::ops::rms_norm::rms_norm;
use polyhead_tensor::ops::rotary::{RotaryOptions, RotaryTable, rotary};
use polyhead_tensor::ops::scale_rows::scale_rows;
use polyhead_tensor::ops::shape::{concat, index_select, slice, split, transpose};
use polyhead_tensor::ops::shared_weight::SharedWeight;
use polyhead_tensor::ops::softmax::{log_softmax, softmax};
use polyhead_tensor::ops::weighted_cross_entropy::{ClassWeights, weighted_cross_entropy};
use polyhead_tensor::{Device, Indices, Math, Parameters, Result, StepKey, Tape, Tensor, Var};

use crate::gradient::numbers;

/// The GPU in the given mode; prints why if there is none.
pub(crate) fn gpu(math: Math) -> Option<Device> {
    match Device::open("cuda", math) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// Largest relative error that counts as equal.
fn tolerance(math: Math) -> f64 {
    match math {
        Math::F32 => 1e-5,
        Math::Tf32 => 2e-3,
        Math::Bf16 => 1.5e-2,
    }
}

/// An input of an operation: an activation, or a parameter.
enum Input {
    Activation(Tensor),
    Parameter(Tensor),
}

fn rounded(tensor: &Tensor) -> Tensor {
    let data = tensor.data().iter().map(|x| f32::from_bits((x.to_bits() + 0x8000) & 0xffff_0000)).collect();
    Tensor::new(tensor.shape(), data)
}

fn activation(shape: &[usize], stream: u64) -> Input {
    Input::Activation(rounded(&numbers(shape, stream, [-1.0, 1.0])))
}

fn parameter(shape: &[usize], stream: u64) -> Input {
    Input::Parameter(rounded(&numbers(shape, stream, [-0.5, 0.5])))
}

type Operation<'a> = &'a dyn Fn(&Tape, &[Var], &Device) -> Result<Var>;

/// The output of an operation and the gradients of Σ weights·output, all in CPU memory.
fn run(device: &Device, inputs: &[Input], operation: Operation<'_>) -> Result<(Tensor, Vec<Tensor>)> {
    let mut parameters = Parameters::default();
    for (index, input) in inputs.iter().enumerate() {
        if let Input::Parameter(value) = input {
            parameters.add(index.to_string(), value.clone());
        }
    }
    let parameters = parameters.to_device(device)?;
    let mut key = StepKey::new(device);
    key.set(3, 5);
    let tape = Tape::training_with(&key);
    let mut vars = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        vars.push(match input {
            Input::Activation(value) => tape.input(value.to_device(device)?),
            Input::Parameter(_) => {
                tape.parameter(&parameters, parameters.find(&index.to_string()).expect("just added"))
            }
        });
    }
    let output = operation(&tape, &vars, device)?;
    let loss = if output.value().len() == 1 {
        output.clone()
    } else {
        let weights = rounded(&numbers(output.shape(), 99, [-1.0, 1.0])).to_device(device)?;
        sum(&tape, &each::mul(&tape, &output, &Var::constant(weights))?, Over::All)?
    };
    let gradients = tape.backward(&loss);
    let of = |var: &Var| gradients.of(var).map_or_else(|| Ok(Tensor::zeros(var.shape())), Tensor::to_host);
    let found = vars.iter().map(of).collect::<Result<_>>()?;
    Ok((output.value().to_host()?, found))
}

fn error(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |x: f64| x * x;
    let pairs = found.data().iter().zip(expected.data());
    let off: f64 = pairs.map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    let size: f64 = expected.data().iter().map(|&b| square(f64::from(b))).sum();
    if size == 0.0 { off.sqrt() } else { (off / size).sqrt() }
}

/// All comparisons of one mode; each is printed, and failures are collected until the end.
struct Table {
    device: Device,
    math: Math,
    failed: Vec<String>,
}

impl Table {
    fn check(&mut self, name: &str, inputs: &[Input], operation: Operation<'_>) {
        let (expected, expected_gradients) =
            run(&Device::Cpu, inputs, operation).unwrap_or_else(|error| panic!("{name}: {error}"));
        let outcome = run(&self.device, inputs, operation);
        let (found, gradients) = match outcome {
            Ok(found) => found,
            Err(error) => {
                println!("{:<5} {name:<44} {error}", self.math.name());
                return self.failed.push(name.into());
            }
        };
        let mut errors = vec![error(&found, &expected)];
        errors.extend(gradients.iter().zip(&expected_gradients).map(|(a, b)| error(a, b)));
        let worst = errors.iter().copied().fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
        let fits = worst <= tolerance(self.math);
        let list: Vec<String> = errors.iter().map(|error| format!("{error:.1e}")).collect();
        let verdict = if fits { "" } else { "  OFF" };
        println!("{:<5} {name:<44} {}{verdict}", self.math.name(), list.join(" "));
        if !fits {
            self.failed.push(name.into());
        }
    }
}

fn ids(numbers: &[u32], device: &Device) -> Result<Indices> {
    Indices::from(numbers).to_device(device)
}

fn all_operations(table: &mut Table) {
    linears(table);
    attentions(table);
    norms(table);
    single_numbers(table);
    tables(table);
    losses(table);
    shapes(table);
    recurrents(table);
    source_attentions(table);
}

fn linears(table: &mut Table) {
    for (name, function) in [
        ("none", Activation::None),
        ("relu", Activation::Relu),
        ("gelu", Activation::Gelu),
        ("gelu_tanh", Activation::GeluTanh),
        ("quick_gelu", Activation::QuickGelu),
        ("silu", Activation::Silu),
        ("tanh", Activation::Tanh),
        ("sigmoid", Activation::Sigmoid),
    ] {
        let inputs = [activation(&[3, 5, 24], 1), parameter(&[40, 24], 2), parameter(&[40], 3)];
        table.check(&format!("linear {name}, bias, dropout"), &inputs, &|tape, vars, _| {
            let options = LinearOptions { activation: function, dropout: 0.3 };
            linear(tape, &vars[0], &vars[1], Some(&vars[2]), options)
        });
    }
    for [rows, d_in, d_out] in [[7, 12, 20], [1, 8, 8], [130, 64, 200], [33, 7, 9]] {
        let inputs = [activation(&[rows, d_in], 4), parameter(&[d_out, d_in], 5)];
        table.check(&format!("linear {rows}×{d_in}→{d_out}, no bias"), &inputs, &|tape, vars, _| {
            linear(tape, &vars[0], &vars[1], None, LinearOptions::default())
        });
    }
    let inputs = [activation(&[4, 16], 6), parameter(&[16, 16], 7), parameter(&[16], 8)];
    table.check("linear twice with the same weight", &inputs, &|tape, vars, _| {
        let once = linear(tape, &vars[0], &vars[1], Some(&vars[2]), LinearOptions::default())?;
        linear(tape, &once, &vars[1], Some(&vars[2]), LinearOptions::default())
    });
}

/// batch, heads, key heads, q_len, k_len, d_key, d_value.
const ATTENTIONS: &[([usize; 7], &str)] = &[
    ([2, 3, 3, 4, 5, 8, 8], "tiny"),
    ([2, 4, 2, 7, 9, 16, 16], "grouped"),
    ([2, 2, 2, 6, 6, 24, 40], "d_key 24, d_value 40"),
    ([4, 4, 4, 24, 24, 64, 64], "T-small"),
    ([3, 8, 8, 32, 32, 64, 64], "T-base"),
    ([3, 4, 4, 17, 40, 32, 32], "d_head 32"),
    ([2, 2, 2, 64, 64, 64, 64], "64"),
    ([2, 2, 1, 33, 70, 64, 64], "33×70"),
    ([1, 2, 2, 200, 300, 64, 64], "200×300"),
    ([1, 1, 1, 130, 130, 128, 128], "d_head 128"),
    ([1, 1, 1, 40, 50, 256, 256], "d_head 256"),
];

fn attentions(table: &mut Table) {
    for &([batch, n_heads, n_key_heads, q_len, k_len, d_key, d_value], name) in ATTENTIONS {
        for (direction, how) in [(Direction::Both, "both"), (Direction::Causal, "causal")] {
            for dropout in [0.0, 0.25] {
                let inputs = [
                    activation(&[batch, q_len, n_heads * d_key], 11),
                    activation(&[batch, k_len, n_key_heads * d_key], 12),
                    activation(&[batch, k_len, n_key_heads * d_value], 13),
                ];
                let lengths: Vec<u32> =
                    (0..batch).map(|row| (k_len - row * k_len / batch.max(2)) as u32).collect();
                let title = format!("attention {name} {how} {dropout}");
                table.check(&title, &inputs, &|tape, vars, device| {
                    let options = AttentionOptions {
                        n_heads,
                        n_key_heads: Some(n_key_heads),
                        direction,
                        key_lengths: Some(ids(&lengths, device)?),
                        dropout,
                        ..AttentionOptions::default()
                    };
                    attention(tape, &vars[0], &vars[1], &vars[2], &options)
                });
            }
        }
    }
    let inputs = [activation(&[3, 6, 3 * 32], 14)];
    table.check("attention of columns, one row empty", &inputs, &|tape, vars, device| {
        let lengths = Some(ids(&[6, 0, 2], device)?);
        let options = AttentionOptions { n_heads: 2, key_lengths: lengths, ..AttentionOptions::default() };
        let [query, key, value] =
            [0, 1, 2].map(|part| Columns { var: &vars[0], start: part * 32, width: 32 });
        attention(tape, query, key, value, &options)
    });
    table.check("attention of some columns", &[activation(&[2, 5, 80], 15)], &|tape, vars, _| {
        let options = AttentionOptions { n_heads: 2, ..AttentionOptions::default() };
        let [query, key, value] = [0, 24, 56].map(|start| Columns {
            var: &vars[0],
            start,
            width: if start == 56 { 24 } else { 16 },
        });
        attention(tape, query, key, value, &options)
    });
}

fn norms(table: &mut Table) {
    for width in [8, 20, 256, 512, 1000, 1024, 3000] {
        for dropout in [0.0, 0.2] {
            let options = NormOptions { dropout, ..NormOptions::default() };
            let inputs = || {
                [
                    activation(&[3, 11, width], 21),
                    activation(&[3, 11, width], 22),
                    parameter(&[width], 23),
                    parameter(&[width], 24),
                ]
            };
            table.check(&format!("layer_norm {width}, residual, {dropout}"), &inputs(), &|tape, vars, _| {
                layer_norm(tape, &vars[0], Some(&vars[1]), [&vars[2], &vars[3]], options)
            });
            table.check(&format!("layer_norm {width}, alone, {dropout}"), &inputs(), &|tape, vars, _| {
                layer_norm(tape, &vars[0], None, [&vars[2], &vars[3]], options)
            });
            table.check(&format!("rms_norm {width}, residual, {dropout}"), &inputs(), &|tape, vars, _| {
                rms_norm(tape, &vars[0], Some(&vars[1]), &vars[2], options)
            });
        }
    }
    let inputs = [activation(&[5, 64], 25), parameter(&[64], 26), parameter(&[64], 27)];
    table.check("layer_norm of a residual that is x", &inputs, &|tape, vars, _| {
        layer_norm(tape, &vars[0], Some(&vars[0]), [&vars[1], &vars[2]], NormOptions::default())
    });
}

type Function = fn(&Tape, &Var) -> Var;

fn single_numbers(table: &mut Table) {
    let pair = |shape: &[usize]| [activation(shape, 31), activation(shape, 32)];
    table.check("add", &pair(&[5, 40]), &|tape, vars, _| each::add(tape, &vars[0], &vars[1]));
    table.check("add, odd length", &pair(&[5, 7]), &|tape, vars, _| each::add(tape, &vars[0], &vars[1]));
    table.check("add of x and x", &pair(&[5, 8]), &|tape, vars, _| each::add(tape, &vars[0], &vars[0]));
    table.check("sub", &pair(&[5, 40]), &|tape, vars, _| each::sub(tape, &vars[0], &vars[1]));
    table.check("mul", &pair(&[5, 40]), &|tape, vars, _| each::mul(tape, &vars[0], &vars[1]));
    let divided = [activation(&[5, 40], 33), Input::Activation(rounded(&numbers(&[5, 40], 34, [1.0, 2.0])))];
    table.check("div", &divided, &|tape, vars, _| each::div(tape, &vars[0], &vars[1]));
    let wide = [activation(&[4, 3, 10], 35), activation(&[10], 36)];
    table.check("add, repeated rows", &wide, &|tape, vars, _| each::add(tape, &vars[0], &vars[1]));
    let single = [activation(&[4, 3, 10], 35), activation(&[1, 10], 36)];
    table.check("add, a single row", &single, &|tape, vars, _| each::add(tape, &vars[0], &vars[1]));
    table.check("scale", &pair(&[5, 40]), &|tape, vars, _| Ok(each::scale(tape, &vars[0], 0.3)));
    let functions: [(&str, Function); 10] = [
        ("neg", each::neg),
        ("square", each::square),
        ("exp", each::exp),
        ("tanh", each::tanh),
        ("sigmoid", each::sigmoid),
        ("relu", each::relu),
        ("gelu", each::gelu),
        ("gelu_tanh", each::gelu_tanh),
        ("quick_gelu", each::quick_gelu),
        ("silu", each::silu),
    ];
    for (name, function) in functions {
        table.check(name, &[activation(&[5, 40], 37)], &|tape, vars, _| Ok(function(tape, &vars[0])));
    }
    for (name, function) in [("sqrt", each::sqrt as Function), ("ln", each::ln)] {
        let positive = [Input::Activation(rounded(&numbers(&[5, 40], 38, [0.5, 2.0])))];
        table.check(name, &positive, &|tape, vars, _| Ok(function(tape, &vars[0])));
    }
    for shape in [&[6, 128][..], &[3, 50], &[1000]] {
        table.check(&format!("dropout {shape:?}"), &[activation(shape, 39)], &|tape, vars, _| {
            dropout(tape, &vars[0], 0.4)
        });
        table.check(&format!("add_dropped {shape:?}"), &pair(shape), &|tape, vars, _| {
            add_dropped(tape, &vars[0], &vars[1], 0.4)
        });
    }
}

fn tables(table: &mut Table) {
    let many: Vec<u32> = (0..3000_u32).map(|n| if n % 3 == 0 { 1 } else { n * n % 97 }).collect();
    for (name, list, length, d_model) in
        [("few", &[3, 0, 3, 5, 3, 1][..], 3, 20), ("many", &many[..], 30, 64), ("odd", &[1, 2, 3], 1, 7)]
    {
        table.check(
            &format!("embedding, {name}"),
            &[parameter(&[100, d_model], 41)],
            &|tape, vars, device| {
                let positions = Some(rounded(&numbers(&[40, d_model], 42, [-1.0, 1.0])));
                let options = EmbeddingOptions { scale: 4.0, positions };
                embedding(tape, &ids(list, device)?, length, &vars[0], &options)
            },
        );
    }
    table.check("embedding, used twice", &[parameter(&[50, 16], 43)], &|tape, vars, device| {
        let options = EmbeddingOptions::default();
        let once = embedding(tape, &ids(&[4, 4, 9], device)?, 3, &vars[0], &options)?;
        let twice = embedding(tape, &ids(&[9, 0, 4], device)?, 3, &vars[0], &options)?;
        each::add(tape, &once, &twice)
    });
}

fn losses(table: &mut Table) {
    let smooth = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(0) };
    for vocab_size in [11, 100, 1000, 8000, 40_000] {
        let targets: Vec<u32> = (0..12).map(|row| if row % 4 == 3 { 0 } else { row * 7 % 11 }).collect();
        let logits = || Input::Activation(rounded(&numbers(&[12, vocab_size], 51, [-4.0, 4.0])));
        table.check(&format!("cross_entropy {vocab_size}"), &[logits()], &|tape, vars, device| {
            cross_entropy(tape, &vars[0], &ids(&targets, device)?, smooth)
        });
        table.check(&format!("r_drop {vocab_size}"), &[logits()], &|tape, vars, device| {
            let options = RDropOptions { weight: 1.5, cross_entropy: smooth };
            Ok(r_drop(tape, &vars[0], &ids(&targets[..6], device)?, options)?.loss)
        });
        let layer =
            || [activation(&[12, 16], 52), parameter(&[vocab_size, 16], 53), parameter(&[vocab_size], 54)];
        table.check(&format!("output_cross_entropy {vocab_size}"), &layer(), &|tape, vars, device| {
            let layer = OutputLayer { x: &vars[0], weight: &vars[1], bias: Some(&vars[2]) };
            let loss = output_cross_entropy(tape, layer, &ids(&targets, device)?, smooth)?;
            Ok(each::scale(tape, &loss, 0.7))
        });
        table.check(&format!("output_r_drop {vocab_size}"), &layer(), &|tape, vars, device| {
            let layer = OutputLayer { x: &vars[0], weight: &vars[1], bias: Some(&vars[2]) };
            let options = RDropOptions { weight: 1.5, cross_entropy: smooth };
            Ok(output_r_drop(tape, layer, &ids(&targets[..6], device)?, options)?.loss)
        });
    }
    for n_classes in [11, 40, 1000] {
        let targets: Vec<u32> = (0..300).map(|row| if row % 4 == 3 { 0 } else { row * 7 % 11 }).collect();
        let weights: Vec<f32> = (0..n_classes).map(|class| 0.25 + class as f32 / 8.0).collect();
        let logits = Input::Activation(rounded(&numbers(&[300, n_classes], 51, [-4.0, 4.0])));
        table.check(&format!("weighted_cross_entropy {n_classes}"), &[logits], &|tape, vars, device| {
            let weights = ClassWeights::from_bits(ClassWeights::new(&weights).bits().to_device(device)?);
            let loss = weighted_cross_entropy(tape, &vars[0], &ids(&targets, device)?, &weights, smooth)?;
            Ok(each::scale(tape, &loss, 0.7))
        });
    }
    for vocab_size in [11, 1000] {
        // Two sentences of five source positions and six target positions.
        let size = vocab_size as u32;
        let sources = [3, size, 3, size + 1, 0, 5, size, 2, 0, 0];
        let expected = [3, size + 1, 4, size, 0, 3, 5, 6, size, 0, 0, 2];
        let weights = || Input::Activation(rounded(&numbers(&[2, 6, 5], 57, [0.05, 0.3])));
        let inputs = || [activation(&[2, 6, vocab_size], 58), weights(), activation(&[2, 6, 1], 59)];
        table.check(&format!("copy_cross_entropy {vocab_size}"), &inputs(), &|tape, vars, device| {
            let sources = ids(&sources, device)?;
            let mixture =
                CopyMixture { logits: &vars[0], weights: &vars[1], gate: &vars[2], sources: &sources };
            copy_cross_entropy(tape, mixture, &ids(&expected, device)?, smooth)
        });
        table.check(&format!("coverage_loss {vocab_size}"), &[weights()], &|tape, vars, device| {
            coverage_loss(tape, &vars[0], &ids(&expected, device)?, Some(0))
        });
    }
    for width in [5, 64, 300] {
        table.check(&format!("softmax {width}"), &[activation(&[6, width], 55)], &|tape, vars, _| {
            Ok(softmax(tape, &vars[0]))
        });
        table.check(&format!("log_softmax {width}"), &[activation(&[6, width], 56)], &|tape, vars, _| {
            Ok(log_softmax(tape, &vars[0]))
        });
    }
}

fn shapes(table: &mut Table) {
    let one = || [activation(&[4, 6, 8], 61)];
    table.check("sum over an axis", &one(), &|tape, vars, _| sum(tape, &vars[0], Over::Axis(1)));
    table.check("mean over an axis", &one(), &|tape, vars, _| mean(tape, &vars[0], Over::Axis(1)));
    table.check("max over an axis", &one(), &|tape, vars, _| max(tape, &vars[0], Over::Axis(1)));
    let turns = RotaryTable::new(8, 20, RotaryOptions::default()).unwrap();
    table.check("rotary", &[activation(&[2, 3, 6, 8], 66)], &|tape, vars, _| {
        rotary(tape, &vars[0], &turns, 3)
    });
    for width in [16, 14, 2 * 260] {
        table.check(&format!("gated {width}"), &[activation(&[2, 3, width], 67)], &|tape, vars, _| {
            gated(tape, &vars[0], Activation::Silu)
        });
    }
    table.check("scale_rows", &one(), &|tape, vars, device| {
        let rows = Tensor::new(&[4], vec![0.0, 1.25, 0.0, 2.0]).to_device(device)?;
        scale_rows(tape, &vars[0], &rows)
    });
    table.check("transpose", &one(), &|tape, vars, _| transpose(tape, &vars[0], [0, 1]));
    table.check("slice", &one(), &|tape, vars, _| slice(tape, &vars[0], 2, 1..5));
    table.check("split", &one(), &|tape, vars, _| Ok(split(tape, &vars[0], 2, &[3, 5])?.remove(1)));
    table.check("index_select", &one(), &|tape, vars, _| index_select(tape, &vars[0], &[3, 1, 1]));
    let two = [activation(&[4, 6, 8], 62), activation(&[4, 2, 8], 63)];
    table.check("concat", &two, &|tape, vars, _| concat(tape, &[&vars[0], &vars[1]], 1));
    let sides = [activation(&[3, 5, 7], 64), activation(&[3, 7, 6], 65)];
    table
        .check("matmul", &sides, &|tape, vars, _| matmul(tape, &vars[0], &vars[1], MatmulOptions::default()));
    for (name, left, right, layouts) in [
        ("matmul, right transposed", [3, 5, 7], vec![3, 6, 7], [Layout::Plain, Layout::Transposed]),
        ("matmul, both transposed", [3, 7, 5], vec![3, 6, 7], [Layout::Transposed; 2]),
        ("matmul, one right side", [3, 5, 7], vec![7, 6], [Layout::Plain; 2]),
        ("matmul, aligned", [4, 24, 64], vec![4, 24, 64], [Layout::Plain, Layout::Transposed]),
    ] {
        let options = MatmulOptions { left: layouts[0], right: layouts[1] };
        let sides = [activation(&left, 67), activation(&right, 68)];
        table.check(name, &sides, &|tape, vars, _| matmul(tape, &vars[0], &vars[1], options));
    }
}

fn recurrents(table: &mut Table) {
    for cell in CellKind::ALL {
        for (sizes, reading) in [
            ([3, 4, 5], Reading::Forwards),
            ([8, 6, 32], Reading::Forwards),
            ([8, 6, 32], Reading::Backwards),
        ] {
            let [batch, length, d] = sizes;
            let gates = cell.n_gates() * d;
            let inputs = [
                activation(&[batch, length, gates], 71),
                parameter(&[gates, d], 72),
                parameter(&[gates], 73),
                activation(&[batch, cell.n_states() * d], 74),
            ];
            let name = format!("{cell:?} {reading:?} {sizes:?}");
            table.check(&name, &inputs, &|tape, vars, device| {
                let lengths = ids(&[4, 2, 4, 0, 1, 3, 4, 4][..batch], device)?;
                let weight = SharedWeight::new(tape, &vars[1], Some(&vars[2]))?;
                let (projected, state) = (&vars[0], Some(&vars[3]));
                let input = RecurrentInput { projected, weight: &weight, state, lengths: Some(&lengths) };
                let found = recurrent(tape, input, RecurrentOptions { cell, reading })?;
                concat(tape, &[&found.outputs.reshaped(&[batch, length * d]), &found.last], 1)
            });
        }
    }
    let inputs = [activation(&[6, 16], 75), parameter(&[16, 16], 76), parameter(&[16], 77)];
    table.check("shared weight", &inputs, &|tape, vars, _| {
        let layer = SharedWeight::new(tape, &vars[1], Some(&vars[2]))?;
        let hidden = each::tanh(tape, &layer.linear(tape, &vars[0])?);
        layer.linear(tape, &hidden)
    });
}

fn source_attentions(table: &mut Table) {
    for (name, [batch, q_len, k_len, d]) in [("odd", [2, 3, 5, 7]), ("aligned", [4, 8, 40, 64])] {
        let sides =
            [activation(&[batch, q_len, d], 81), activation(&[batch, k_len, d], 82), parameter(&[d], 83)];
        table.check(&format!("additive scores, {name}"), &sides, &|tape, vars, _| {
            additive_scores(tape, &vars[0], &vars[1], &vars[2])
        });
        let lengths: Vec<u32> =
            [k_len, 2, 0, k_len - 1][..batch].iter().map(|&length| length as u32).collect();
        let scores = [activation(&[batch, q_len, k_len], 84)];
        for (kind, locality) in
            [("global", Locality::Global), ("local-m", Locality::Monotonic { distance: 2, start: 1 })]
        {
            table.check(&format!("masked softmax, {name}, {kind}"), &scores, &|tape, vars, device| {
                masked_softmax(tape, &vars[0], &ids(&lengths, device)?, locality)
            });
        }
        // A predicted position next to the edge of a window would round to either side of it.
        let inputs = [
            activation(&[batch, q_len, k_len], 84),
            Input::Activation(Tensor::new(&[batch, q_len], vec![0.40625; batch * q_len])),
        ];
        table.check(&format!("masked softmax, {name}, local-p"), &inputs, &|tape, vars, device| {
            let locality = Locality::Predictive { distance: 3, centre: &vars[1] };
            masked_softmax(tape, &vars[0], &ids(&lengths, device)?, locality)
        });
    }
}

#[test]
fn every_operation_on_a_gpu_equals_that_of_the_cpu() {
    let mut failed = Vec::new();
    for math in [Math::F32, Math::Tf32, Math::Bf16] {
        let Some(device) = gpu(math) else { return };
        println!("{} on {device:?}: largest allowed {:.1e}", math.name(), tolerance(math));
        let mut table = Table { device, math, failed: Vec::new() };
        all_operations(&mut table);
        failed.extend(table.failed.into_iter().map(|name| format!("{}: {name}", math.name())));
    }
    assert!(failed.is_empty(), "{} are off:\n{}", failed.len(), failed.join("\n"));
}

/// Keys before and after a position, of a window; `None` for full and causal attention.
type Window = Option<[usize; 2]>;

/// An attention of the tiled kernels: sizes as in [`ATTENTIONS`], direction, window, whether rows are padded, dropout.
type LongAttention = ([usize; 7], Direction, Window, bool, f32);

/// Lengths are at, below and above the tiles of every kernel; heads have every number of columns.
const LONG_ATTENTIONS: &[LongAttention] = &[
    ([2, 2, 2, 1, 1, 64, 64], Direction::Both, None, false, 0.0),
    ([2, 2, 2, 17, 17, 64, 64], Direction::Causal, None, true, 0.25),
    ([2, 2, 2, 64, 64, 64, 64], Direction::Causal, None, false, 0.0),
    ([2, 2, 2, 65, 65, 64, 64], Direction::Causal, None, false, 0.25),
    ([3, 2, 1, 100, 100, 64, 64], Direction::Both, None, true, 0.25),
    ([2, 2, 2, 128, 128, 64, 64], Direction::Causal, None, false, 0.0),
    ([2, 4, 2, 192, 256, 64, 64], Direction::Both, None, false, 0.0),
    ([2, 4, 2, 513, 513, 64, 64], Direction::Causal, None, true, 0.25),
    ([1, 2, 2, 1000, 1000, 64, 64], Direction::Causal, None, false, 0.0),
    ([1, 2, 2, 1000, 1000, 64, 64], Direction::Both, None, false, 0.25),
    ([2, 2, 2, 100, 513, 64, 64], Direction::Causal, None, true, 0.0),
    ([2, 2, 2, 513, 100, 64, 64], Direction::Causal, None, false, 0.0),
    ([2, 2, 2, 513, 513, 64, 64], Direction::Both, Some([100, 0]), true, 0.25),
    ([1, 2, 2, 300, 400, 64, 64], Direction::Both, Some([30, 70]), false, 0.0),
    ([2, 2, 2, 513, 513, 32, 32], Direction::Causal, None, true, 0.25),
    ([2, 2, 1, 200, 100, 32, 24], Direction::Both, None, true, 0.0),
    ([2, 2, 2, 513, 513, 128, 128], Direction::Causal, None, true, 0.25),
    ([2, 4, 1, 200, 333, 128, 96], Direction::Both, None, true, 0.0),
    ([1, 2, 2, 300, 300, 128, 128], Direction::Both, Some([64, 0]), false, 0.0),
    ([2, 3, 3, 130, 130, 40, 48], Direction::Causal, None, true, 0.25),
    ([1, 2, 2, 130, 130, 20, 20], Direction::Causal, None, false, 0.0),
];

fn window_pattern(q_len: usize, k_len: usize, [before, after]: [usize; 2]) -> Pattern {
    let keys = |query: usize| {
        let position = query + k_len - q_len;
        let range = position.saturating_sub(before)..(position + after + 1).min(k_len);
        std::iter::once(range.start as u32..range.end as u32).collect()
    };
    Pattern::new(&(0..q_len).map(keys).collect::<Vec<_>>(), k_len, 1)
}

/// The kernels for Hopper, the tiled ones for other GPUs, and those without tiles compute what the CPU does, and the same
/// bits in every run.
#[test]
fn long_attention_on_a_gpu_equals_that_of_the_cpu() {
    let Some(device) = gpu(Math::Bf16) else { return };
    let mut table = Table { device: device.clone(), math: Math::Bf16, failed: Vec::new() };
    for (case, &(sizes, direction, window, is_padded, dropout)) in LONG_ATTENTIONS.iter().enumerate() {
        let [batch, n_heads, n_key_heads, q_len, k_len, d_key, d_value] = sizes;
        let stream = 200 + 3 * case as u64;
        let inputs = [
            activation(&[batch, q_len, n_heads * d_key], stream),
            activation(&[batch, k_len, n_key_heads * d_key], stream + 1),
            activation(&[batch, k_len, n_key_heads * d_value], stream + 2),
        ];
        let pattern = window.map(|window| Arc::new(window_pattern(q_len, k_len, window)));
        let lengths: Vec<u32> = (0..batch).map(|row| (k_len - row * k_len / 2) as u32).collect();
        let operation = |tape: &Tape, vars: &[Var], device: &Device| {
            let options = AttentionOptions {
                n_heads,
                n_key_heads: Some(n_key_heads),
                // Scores of some size, so that weights differ.
                scale: Some(1.0),
                direction,
                pattern: pattern.clone(),
                key_lengths: is_padded.then(|| ids(&lengths, device)).transpose()?,
                dropout,
                ..AttentionOptions::default()
            };
            attention(tape, &vars[0], &vars[1], &vars[2], &options)
        };
        for kernels in [AttentionKernels::Fastest, AttentionKernels::Portable, AttentionKernels::Untiled] {
            device.set_attention_kernels(kernels);
            let name = format!("{kernels:?} {sizes:?} {direction:?} {window:?} {is_padded} {dropout}");
            table.check(&name, &inputs, &operation);
            let [one, other] = [(); 2].map(|()| run(&device, &inputs, &operation));
            let (Ok(one), Ok(other)) = (one, other) else { continue };
            let tensors = |(value, gradients): &(Tensor, Vec<Tensor>)| -> Vec<f32> {
                std::iter::once(value).chain(gradients).flat_map(|tensor| tensor.data().to_vec()).collect()
            };
            assert!(tensors(&one) == tensors(&other), "{name}: two runs differ");
        }
    }
    device.set_attention_kernels(AttentionKernels::Fastest);
    assert!(table.failed.is_empty(), "{} are off:\n{}", table.failed.len(), table.failed.join("\n"));
}

/// Forward and backward pass of a layer, recorded and replayed on other inputs, have the bits of the same work run
/// directly.
#[test]
fn a_replayed_graph_has_the_bits_of_the_recorded_work() {
    for math in [Math::F32, Math::Bf16] {
        let Some(device) = gpu(math) else { return };
        let mut parameters = Parameters::default();
        let weight = parameters.add("weight", numbers(&[64, 64], 71, [-0.3, 0.3]));
        let parameters = parameters.to_device(&device).unwrap();
        let table = parameters.find("weight").unwrap();
        let list = Indices::from([0, 1, 2, 3]).to_device(&device).unwrap();
        let mut key = StepKey::new(&device);
        let step = |key: &StepKey| -> Result<Tensor> {
            let tape = Tape::training_with(key);
            let var = tape.parameter(&parameters, weight);
            let x = embedding(
                &tape,
                &list,
                2,
                &tape.parameter(&parameters, table),
                &EmbeddingOptions::default(),
            )?;
            let options = LinearOptions { activation: Activation::Relu, dropout: 0.5 };
            let y = linear(&tape, &x, &var, None, options)?;
            let layer = OutputLayer { x: &y, weight: &var, bias: None };
            let loss = output_cross_entropy(&tape, layer, &list, CrossEntropyOptions::default())?;
            let gradients = tape.backward(&loss);
            Ok(gradients.of(&var).expect("the loss depends on it").clone())
        };
        let mut direct = Vec::new();
        for number in 0..3 {
            list.write(&[number, 7, 2 * number, 5]);
            key.set(1, u64::from(number));
            direct.push(device.scratch(|| step(&key).unwrap().to_host().unwrap()));
        }
        let (gradient, graph) = device.record(|| step(&key)).unwrap();
        for (number, expected) in direct.iter().enumerate() {
            let number = number as u32;
            list.write(&[number, 7, 2 * number, 5]);
            key.set(1, u64::from(number));
            graph.replay();
            assert_eq!(gradient.to_host().unwrap().data(), expected.data(), "{math:?}, step {number}");
        }
    }
}
