//! Golden tests: attention computed by PyTorch with dense masks: values, weights and gradients (`tests/golden/make.py`).

use polyhead_attention::mask::Window;
use polyhead_attention::position::Rotary;
use polyhead_attention::{Mask, Result};
use polyhead_tensor::ops::attention::{AttentionOptions, Relative, attention, attention_weights};
use polyhead_tensor::ops::linear::{LinearOptions, linear};
use polyhead_tensor::ops::rotary::{Pairing, RotaryOptions};
use polyhead_tensor::{Tape, Tensor, Var};
use serde_json::Value;

use crate::golden::{TOLERANCE, cases, integers, tensor, wide};

fn integer(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

pub(crate) fn assert_close(name: &str, found: &Tensor, expected: &Value) {
    assert_eq!(found.shape(), integers(&expected["shape"]).unwrap(), "{name}");
    let expected = wide(expected);
    let scale = expected.iter().fold(0.01, |largest: f64, number| largest.max(number.abs()));
    let errors =
        found.data().iter().zip(&expected).map(|(&found, expected)| (f64::from(found) - expected).abs());
    let (index, worst) =
        errors.enumerate().fold((0, 0.0), |worst, next| if next.1 > worst.1 { next } else { worst });
    let (found, expected) = (found.data().get(index), expected.get(index));
    assert!(worst <= TOLERANCE * scale, "{name}[{index}]: found {found:?}, expected {expected:?}");
}

/// Runs a case: `operation` takes its inputs by name and returns its output; gradients are those of Σ upstream · output.
pub(crate) fn check(case: &Value, operation: impl Fn(&Tape, &dyn Fn(&str) -> Var) -> Result<Var>) {
    let tape = Tape::training(0, 0);
    let inputs = case["inputs"].as_object().unwrap();
    let inputs: Vec<(&String, Var)> =
        inputs.iter().map(|(name, array)| (name, tape.input(tensor(array)))).collect();
    let find = |wanted: &str| inputs.iter().find(|(name, _)| *name == wanted).unwrap().1.clone();
    let y = operation(&tape, &find).unwrap();
    let named = |what: &str| format!("{}: {what}", case["name"]);
    assert_close(&named("output"), y.value(), &case["output"]);
    let len = y.value().len();
    let upstream = Var::constant(tensor(&case["upstream"]).reshaped(&[1, len]));
    let loss = linear(&tape, &y.reshaped(&[1, len]), &upstream, None, LinearOptions::default()).unwrap();
    let gradients = tape.backward(&loss);
    for (name, var) in &inputs {
        assert_close(&named(name), gradients.of(var).unwrap(), &case["gradients"][name.as_str()]);
    }
}

/// The mask that a case's options describe.
fn mask(options: &Value) -> Mask {
    let mut mask = match &options["window"] {
        Value::Null => Mask::full(),
        window => {
            let sides = Window { before: integer(&window["back"]), after: integer(&window["ahead"]) };
            Mask::dilated(sides, integer(&window["dilation"]))
        }
    };
    if let Some(global) = integers(&options["global"]) {
        mask = mask.or(Mask::global(global));
    }
    if options["causal"] == true {
        mask = mask.and(Mask::causal());
    }
    match integers(&options["key_lengths"]) {
        Some(lengths) => {
            let lengths: Vec<u32> = lengths.into_iter().map(|length| length as u32).collect();
            mask.and(Mask::padding(lengths))
        }
        None => mask,
    }
}

fn options(case: &Value, query: &Var, key: &Var) -> AttentionOptions {
    let options = &case["options"];
    let mask = mask(options).resolve(query.shape()[1], key.shape()[1]);
    let n_heads = integer(&options["n_heads"]);
    let n_key_heads = options["n_kv_heads"].as_u64().map(|heads| heads as usize);
    mask.apply(AttentionOptions { n_heads, n_key_heads, ..AttentionOptions::default() })
}

#[test]
fn masks_and_grouped_heads() {
    for case in cases("attention") {
        check(&case, |tape, find| {
            let [query, key, value] = ["query", "key", "value"].map(find);
            let options = options(&case, &query, &key);
            assert_close(
                &format!("{}: weights", case["name"]),
                &attention_weights(&query, &key, &options)?,
                &case["weights"],
            );
            attention(tape, &query, &key, &value, &options)
        });
    }
}

#[test]
fn relative_positions() {
    for case in cases("relative") {
        check(&case, |tape, find| {
            let [query, key, value] = ["query", "key", "value"].map(find);
            let relative = Some(Relative {
                max_distance: integer(&case["options"]["distance"]),
                keys: find("key_table"),
                values: Some(find("value_table")),
            });
            let options = AttentionOptions { relative, ..options(&case, &query, &key) };
            assert_close(
                &format!("{}: weights", case["name"]),
                &attention_weights(&query, &key, &options)?,
                &case["weights"],
            );
            attention(tape, &query, &key, &value, &options)
        });
    }
}

#[test]
fn rotary_positions() {
    for case in cases("rotary") {
        let options_of_case = &case["options"];
        let pairing = match options_of_case["pairing"].as_str().unwrap() {
            "neighbours" => Pairing::Interleaved,
            "halves" => Pairing::Halves,
            other => panic!("{other}"),
        };
        let base = options_of_case["base"].as_f64().unwrap() as f32;
        let rotary = Rotary::new(
            integer(&options_of_case["d_k"]),
            32,
            RotaryOptions { base, pairing, ..RotaryOptions::default() },
        )
        .unwrap();
        check(&case, |tape, find| {
            let [query, key, value] = ["query", "key", "value"].map(find);
            let rotate = |x: &Var, offset: &str| rotary.rotate(tape, x, integer(&options_of_case[offset]));
            let [query, key] = [rotate(&query, "query_offset")?, rotate(&key, "key_offset")?];
            assert_close("rotated query", query.value(), &case["query_turned"]);
            assert_close("rotated key", key.value(), &case["key_turned"]);
            attention(tape, &query, &key, &value, &options(&case, &query, &key))
        });
    }
}
