//! Laws of attention: padding changes no other row, the future changes no past, cached steps equal the full pass, capturing
//! changes nothing, masked keys have no effect.

use polyhead_attention::multi_head::{
    CrossAttention, HeadShape, KeyValueProjection, Memory, PositionEncoding, SelfAttention,
    SelfAttentionOptions,
};
use polyhead_attention::position::Rotary;
use polyhead_attention::{AttentionKind, Builder, Capture, Filter, KvCache, Mask, Pass, Site};
use polyhead_random::Random;
use polyhead_tensor::ops::attention::{AttentionOptions, StepOptions, StepRows, attention};
use polyhead_tensor::ops::rotary::RotaryOptions;
use polyhead_tensor::{Parameters, Tape, Tensor, Var};
use proptest::prelude::*;

const SHAPE: HeadShape = HeadShape { d_model: 10, n_heads: 4, n_key_heads: 2, d_key: 6, d_value: 3 };
const OWN: AttentionKind = AttentionKind::self_attention(0, "decoder", "target").causal();
const CROSS: AttentionKind = AttentionKind::cross_attention(1, "cross", "decoder", ["target", "source"]);
const SITE: Site = Site { kind: OWN, layer: 0 };

fn tensor(shape: &[usize], stream: u64) -> Tensor {
    let random = Random::new(5).stream(stream);
    let len: usize = shape.iter().product();
    Tensor::new(shape, (0..len as u64).map(|index| random.uniform(index) as f32 * 4.0 - 2.0).collect())
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.data().iter().map(|number| number.to_bits()).collect()
}

/// Positions `from..to` of sequence `row`.
fn part(x: &Tensor, row: usize, from: usize, to: usize) -> Tensor {
    let &[_, length, width] = x.shape() else { panic!("three axes") };
    let data = x.data()[(row * length + from) * width..(row * length + to) * width].to_vec();
    Tensor::new(&[1, to - from, width], data)
}

fn position_encodings() -> Vec<PositionEncoding> {
    let rotary = Rotary::new(SHAPE.d_key, 64, RotaryOptions::default()).unwrap();
    vec![
        PositionEncoding::Embedded,
        PositionEncoding::Rotary(rotary),
        PositionEncoding::Relative { max_distance: 2 },
    ]
}

fn masks() -> Vec<Mask> {
    let global = Mask::window(1).or(Mask::global(vec![0, 2]));
    vec![
        Mask::full(),
        Mask::window(2),
        Mask::dilated(2, 2),
        global,
        Mask::dilated(1, 3).or(Mask::global(vec![1])),
    ]
}

/// A layer for each positional encoding, with its parameters.
fn layers() -> impl Iterator<Item = (SelfAttention, Parameters)> {
    position_encodings().into_iter().map(|positions| {
        let mut parameters = Parameters::default();
        let options = SelfAttentionOptions { positions, ..SelfAttentionOptions::default() };
        let layer = SelfAttention::new(&mut Builder::new(&mut parameters).at("layer"), SHAPE, options);
        parameters.initialise(3);
        (layer, parameters)
    })
}

fn with_pass<T>(parameters: &Parameters, capture: &Capture, work: impl FnOnce(&Pass<'_>) -> T) -> T {
    let tape = Tape::inference();
    work(&Pass::new(&tape, parameters, capture))
}

/// The output of a layer for a whole batch.
fn forward(layer: &SelfAttention, parameters: &Parameters, x: &Tensor, mask: &Mask) -> Tensor {
    let length = x.shape()[1];
    with_pass(parameters, &Capture::off(), |pass| {
        let mask = mask.resolve(length, length);
        layer.forward(pass, &Var::constant(x.clone()), &mask, SITE).unwrap().value().clone()
    })
}

#[test]
fn padding_and_neighbours_never_change_a_row() {
    let lengths = [7, 3];
    let x = tensor(&[2, 7, SHAPE.d_model], 1);
    for (layer, parameters) in layers() {
        for mask in masks() {
            let together = forward(&layer, &parameters, &x, &mask.clone().and(Mask::padding(lengths)));
            for (row, length) in lengths.map(|length| length as usize).into_iter().enumerate() {
                let alone = forward(&layer, &parameters, &part(&x, row, 0, length), &mask);
                assert_eq!(bits(&alone), bits(&part(&together, row, 0, length)), "{mask:?}");
            }
        }
    }
}

#[test]
fn the_future_never_changes_the_past() {
    let x = tensor(&[1, 9, SHAPE.d_model], 1);
    for (layer, parameters) in layers() {
        for mask in masks() {
            let mask = mask.and(Mask::causal());
            let whole = forward(&layer, &parameters, &x, &mask);
            for length in 1..9 {
                let before = forward(&layer, &parameters, &part(&x, 0, 0, length), &mask);
                assert_eq!(bits(&before), bits(&part(&whole, 0, 0, length)), "{mask:?}, {length}");
            }
        }
    }
}

#[test]
fn cached_steps_equal_the_full_pass_bit_for_bit() {
    let [rows, length] = [3, 40];
    let x = tensor(&[rows, length, SHAPE.d_model], 1);
    for (layer, parameters) in layers() {
        for mask in masks() {
            let mask = mask.and(Mask::causal());
            let whole = forward(&layer, &parameters, &x, &mask);
            let mut cache = KvCache::new(SHAPE.cache(), 1, StepRows::new(rows, rows));
            for position in 0..length {
                let token: Vec<f32> =
                    (0..rows).flat_map(|row| part(&x, row, position, position + 1).data().to_vec()).collect();
                let token = Var::constant(Tensor::new(&[rows, SHAPE.d_model], token));
                cache.begin(&[0; 3], &mask);
                let y = with_pass(&parameters, &Capture::off(), |pass| {
                    layer.step(pass, &token, &mut cache.layer_mut(0), SITE).unwrap()
                });
                cache.advance();
                for row in 0..rows {
                    let expected = part(&whole, row, position, position + 1);
                    let found = part(&y.value().reshaped(&[rows, 1, SHAPE.d_model]), row, 0, 1);
                    assert_eq!(bits(&found), bits(&expected), "{mask:?}, row {row}, position {position}");
                }
            }
        }
    }
}

#[test]
fn steps_of_cross_attention_equal_the_full_pass_bit_for_bit() {
    let mut parameters = Parameters::default();
    let mut builder = Builder::new(&mut parameters);
    let layer = CrossAttention::new(&mut builder.at("cross"), SHAPE, 0.0);
    let projection = KeyValueProjection::new(&mut builder.at("key_value"), SHAPE);
    parameters.initialise(4);
    let (x, memory) = (tensor(&[2, 3, SHAPE.d_model], 1), Var::constant(tensor(&[2, 35, SHAPE.d_model], 2)));
    let lengths = [35, 17];
    let site = Site { kind: CROSS, layer: 0 };
    with_pass(&parameters, &Capture::off(), |pass| {
        let key_value = projection.forward(pass, &memory).unwrap();
        let mask = Mask::padding(lengths).resolve(3, 35);
        let whole = layer.forward(pass, &Var::constant(x.clone()), &key_value, &mask, site).unwrap();
        let key_values = projection.cached(pass, &memory).unwrap();
        // Two rows attend to the second sentence, one to the first.
        let slots = [1, 0, 1];
        let mut rows = StepRows::of_sources(&lengths, 3);
        assert_eq!(rows.reorder(&slots).len(), 1);
        for position in 0..3 {
            let token: Vec<f32> = slots
                .iter()
                .flat_map(|&slot| part(&x, slot, position, position + 1).data().to_vec())
                .collect();
            let memory = Memory { key_values: &key_values, rows: &rows, source: 0 };
            let y = layer
                .step(pass, &Var::constant(Tensor::new(&[3, SHAPE.d_model], token)), &memory, site)
                .unwrap();
            let y = y.value().reshaped(&[3, 1, SHAPE.d_model]);
            for (row, &slot) in slots.iter().enumerate() {
                let expected = part(whole.value(), slot, position, position + 1);
                assert_eq!(bits(&part(&y, row, 0, 1)), bits(&expected), "{position} {row}");
            }
        }
    });
}

#[test]
fn capturing_changes_nothing_and_records_the_selected_heads() {
    let x = Var::constant(tensor(&[2, 5, SHAPE.d_model], 1));
    let mask = Mask::causal().resolve(5, 5);
    for (layer, parameters) in layers() {
        let run = |capture: &Capture| {
            with_pass(&parameters, capture, |pass| {
                layer.forward(pass, &x, &mask, SITE).unwrap().value().clone()
            })
        };
        let plain = run(&Capture::off());
        let capture = Capture::on(Filter { heads: Some(vec![1, 3]), ..Filter::default() });
        assert_eq!(bits(&run(&capture)), bits(&plain));
        let trace = capture.take();
        let [weights] = trace.weights.as_slice() else { panic!("one attention") };
        assert_eq!(
            (weights.site, weights.heads.as_slice(), weights.weights.shape()),
            (SITE, &[1, 3][..], &[2, 2, 5, 5][..])
        );
        let sums = weights.weights.data().chunks_exact(5).map(|row| row.iter().sum::<f32>());
        assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-6));
        assert!(capture.take().weights.is_empty());
        let other = Capture::on(Filter { kind: Some(CROSS), ..Filter::default() });
        run(&other);
        assert!(other.take().weights.is_empty());
    }
}

#[test]
fn reordering_a_cache_moves_its_rows() {
    let shape = HeadShape::even(4, 2).cache();
    let mut cache = KvCache::new(shape, 2, StepRows::new(4, 4));
    let mut rows: Vec<Vec<f32>> = vec![Vec::new(); 4];
    let orders = [vec![3, 3, 0, 1], vec![0, 0, 0], vec![2, 1], vec![1, 1, 0, 1], vec![0, 1, 2, 3]];
    let options = StepOptions { n_heads: 2, ..StepOptions::default() };
    for (step, order) in orders.iter().cycle().take(40).enumerate() {
        let count = cache.rows().count();
        // Queries, keys and values of width 4 each; the values are checked.
        let values: Vec<f32> = (0..count * 12).map(|index| (step * 100 + index) as f32).collect();
        cache.begin(&vec![0; count], &Mask::causal());
        for layer in 0..2 {
            cache.layer_mut(layer).attend(&Tensor::new(&[count, 12], values.clone()), &options).unwrap();
        }
        cache.advance();
        rows.iter_mut().zip(values.chunks(12)).for_each(|(row, token)| row.extend(&token[8..]));
        let order: Vec<usize> = order.iter().map(|&row| row % count).collect();
        cache.reorder(&order);
        rows = order.iter().map(|&row| rows[row].clone()).collect();
        for layer in 0..2 {
            for (row, expected) in rows.iter().enumerate() {
                let slot = cache.rows().slots()[row];
                assert_eq!(&cache.layer(layer).values(slot, cache.len()), expected, "step {step}");
            }
        }
    }
}

/// A plain reference of the rules of masks, one query and one key at a time.
#[derive(Debug, Clone)]
enum Plain {
    Causal,
    Window(usize, usize),
    Dilated(usize, usize, usize),
    Global(Vec<usize>),
    And(Box<[Plain; 2]>),
    Or(Box<[Plain; 2]>),
}

impl Plain {
    fn allows(&self, query: usize, key: usize) -> bool {
        match self {
            Self::Causal => key <= query,
            Self::Window(before, after) => key + before >= query && key <= query + after,
            Self::Dilated(before, after, dilation) => {
                query.abs_diff(key).is_multiple_of(*dilation)
                    && key + before * dilation >= query
                    && key <= query + after * dilation
            }
            Self::Global(positions) => positions.contains(&query) || positions.contains(&key),
            Self::And(rules) => rules.iter().all(|rule| rule.allows(query, key)),
            Self::Or(rules) => rules.iter().any(|rule| rule.allows(query, key)),
        }
    }

    fn mask(&self) -> Mask {
        use polyhead_attention::mask::Window;
        match self {
            Self::Causal => Mask::causal(),
            &Self::Window(before, after) => Mask::window(Window { before, after }),
            &Self::Dilated(before, after, dilation) => Mask::dilated(Window { before, after }, dilation),
            Self::Global(positions) => Mask::global(positions.clone()),
            Self::And(rules) => rules[0].mask().and(rules[1].mask()),
            Self::Or(rules) => rules[0].mask().or(rules[1].mask()),
        }
    }
}

fn plain_rules() -> impl Strategy<Value = Plain> {
    let leaf = prop_oneof![
        Just(Plain::Causal),
        (0..4_usize, 0..4_usize).prop_map(|(before, after)| Plain::Window(before, after)),
        (0..4_usize, 0..4_usize, 1..5_usize).prop_map(|(a, b, dilation)| Plain::Dilated(a, b, dilation)),
        prop::collection::vec(0..20_usize, 0..4).prop_map(Plain::Global),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let pair = (inner.clone(), inner);
        prop_oneof![
            pair.clone().prop_map(|(a, b)| Plain::And(Box::new([a, b]))),
            pair.prop_map(|(a, b)| Plain::Or(Box::new([a, b]))),
        ]
    })
}

proptest! {
    /// A mask's matrix matches its rule, and the kernel that skips masked keys agrees with a bias of −∞.
    #[test]
    fn any_combination_of_masks_matches_its_matrix(
        rule in plain_rules(), q_len in 1..70_usize, more in 0..9_usize, short in 0..9_usize,
    ) {
        let k_len = q_len + more;
        let mask = rule.mask().and(Mask::padding([k_len.saturating_sub(short) as u32]));
        let matrix = mask.materialise(1, q_len, k_len);
        for (query, row) in matrix.chunks_exact(k_len).enumerate() {
            for (key, &seen) in row.iter().enumerate() {
                prop_assert_eq!(seen, rule.allows(query + more, key) && key + short < k_len, "{} {}", query, key);
            }
        }
        let [query, key, value] = [(q_len, 1), (k_len, 2), (k_len, 3)]
            .map(|(length, stream)| Var::constant(tensor(&[1, length, 6], stream)));
        let options = AttentionOptions { n_heads: 2, ..AttentionOptions::default() };
        let fast = attention(&Tape::inference(), &query, &key, &value, &mask.resolve(q_len, k_len).apply(options.clone()));
        let hidden: Vec<f32> = matrix.iter().map(|seen| if *seen { 0.0 } else { -1e9 }).collect();
        let bias = Some(Tensor::new(&[2, q_len, k_len], [hidden.clone(), hidden].concat()));
        let slow = attention(&Tape::inference(), &query, &key, &value, &AttentionOptions { bias, ..options }).unwrap();
        for (index, (fast, slow)) in fast.unwrap().value().data().iter().zip(slow.value().data()).enumerate() {
            let seen = matrix[index / 6 * k_len..(index / 6 + 1) * k_len].contains(&true);
            let expected = if seen { *slow } else { 0.0 };
            prop_assert!((fast - expected).abs() < 1e-5, "{} {}", fast, expected);
        }
    }
}

/// Dropout is a function of a weight's position, so kernels with and without skipping drop the same weights.
#[test]
fn skipping_drops_the_same_weights() {
    let length = 70;
    let masks = [Mask::window(3), Mask::dilated(2, 3), Mask::window(1).or(Mask::global(vec![0, 40]))];
    for mask in masks {
        let hidden: Vec<f32> =
            mask.materialise(1, length, length).iter().map(|seen| if *seen { 0.0 } else { -1e9 }).collect();
        let bias = Some(Tensor::new(&[2, length, length], [hidden.clone(), hidden].concat()));
        let plain = AttentionOptions { n_heads: 2, dropout: 0.4, ..AttentionOptions::default() };
        let run = |options: &AttentionOptions| {
            let tape = Tape::training(9, 4);
            let [query, key, value] = [1, 2, 3].map(|stream| tape.input(tensor(&[1, length, 6], stream)));
            let context = attention(&tape, &query, &key, &value, options).unwrap();
            let out = context.value().clone();
            let loss =
                polyhead_tensor::ops::reduce::sum(&tape, &context, polyhead_tensor::ops::reduce::Over::All);
            let gradients = tape.backward(&loss.unwrap());
            let mut all = vec![out];
            all.extend([&query, &key, &value].map(|input| gradients.of(input).unwrap().clone()));
            all
        };
        let fast = run(&mask.resolve(length, length).apply(plain.clone()));
        let slow = run(&AttentionOptions { bias, ..plain });
        for (fast, slow) in fast.iter().zip(&slow) {
            for (fast, slow) in fast.data().iter().zip(slow.data()) {
                assert!((fast - slow).abs() < 1e-4, "{mask:?}: {fast} {slow}");
            }
        }
    }
}
