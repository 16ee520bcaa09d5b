//! A decoding step on a GPU: input, attention to the K/V cache, and logits; see [`crate::ops::attention::self_step`].
//!
//! Nothing here depends on the number of tokens: a recorded step serves for all, until the cache needs more room.

use crate::Result;
use crate::cuda::{Array, CardRows, Dtype, Epilogue, Family, Launch, Product, Side, args};
use crate::ops::attention::{Attended, CacheShape, KeysValues, StepOptions, StepRows, StepSight};
use crate::ops::decoding::StepPlaces;
use crate::tape::Var;
use crate::tensor::Tensor;

/// Threads per block; a warp does one head of a row.
const THREADS: usize = 128;
/// Maximum width of a head: what a warp reads at once.
const WIDEST: usize = 256;
/// Key of the table of computed positions; no address is as small.
const PLACES: usize = 2;

fn rows_of(rows: &StepRows) -> &CardRows {
    rows.card().expect("the rows are on the GPU of their tensors")
}

/// Division of a head among a warp: lanes that read a key together, and 1 if they read sixteen bytes each.
fn lanes(shape: CacheShape) -> Result<[usize; 2]> {
    let widest = shape.d_key.max(shape.d_value);
    if widest > WIDEST {
        let expected = format!("heads of at most {WIDEST} values on a GPU");
        return crate::error::shape("a step of attention", "heads", &[shape.d_key, shape.d_value], expected);
    }
    let is_aligned = shape.d_key.is_multiple_of(8) && shape.d_value.is_multiple_of(8);
    Ok([widest.div_ceil(8).next_power_of_two(), usize::from(is_aligned)])
}

fn launch(name: &str, rows: usize, n_heads: usize) -> Launch<'_> {
    let grid = [(rows * n_heads).div_ceil(THREADS / 32), 1, 1];
    Launch { file: "cached_attention", name, grid, block: THREADS, shared: 0, family: Family::Attention }
}

/// Self-attention in one kernel: rotates, caches, attends.
pub(crate) fn self_step(
    projected: &Tensor,
    cache: &KeysValues,
    rows: &StepRows,
    options: &StepOptions<'_>,
) -> Result<Attended> {
    let (card, shape, kept) = (rows_of(rows), cache.shape(), cache.array());
    let (cuda, n_heads) = (kept.cuda(), options.n_heads);
    let [lanes, is_aligned] = lanes(shape)?;
    let (turns, halves) = turns(rows, options)?;
    let [distance_keys, distance_values] = distances(kept, options);
    let (seen, words) = match options.seen {
        Some(StepSight::Bits(sight)) => (Some(&sight.bits), sight.words),
        _ => (None, 0),
    };
    let out = Array::new(cuda, kept.dtype(), card.rows * n_heads * shape.d_value);
    let n_weights = rows.len() + 1;
    let weights =
        options.keeps_weights.then(|| Array::new(cuda, Dtype::F32, card.rows * n_heads * n_weights));
    let name = format!("cached_self_{}", kept.suffix());
    cuda.launch(
        launch(&name, card.rows, n_heads),
        args![
            projected.array(),
            kept,
            &out,
            &card.place(),
            card.ancestry(),
            card.n_slots,
            turns.as_ref(),
            usize::from(halves),
            distance_keys.as_ref(),
            distance_values.as_ref(),
            options.relative.map_or(0, |relative| relative.max_distance),
            seen,
            words,
            card.rows,
            n_heads,
            shape.n_heads,
            shape.d_key,
            shape.d_value,
            lanes,
            is_aligned,
            scale(shape),
            weights.as_ref(),
            n_weights
        ],
    );
    attended(out, weights, rows, n_heads)
}

/// Factor of the scores.
fn scale(shape: CacheShape) -> f32 {
    1.0 / (shape.d_key as f32).sqrt()
}

/// Rotations of all positions, and true if a pair is half a head apart.
fn turns(rows: &StepRows, options: &StepOptions<'_>) -> Result<(Option<Array>, bool)> {
    let Some(table) = options.rotary else { return Ok((None, false)) };
    let (turns, halves) = table.parts();
    if turns.shape()[0] <= rows.len() {
        let expected = format!("more than {} positions", rows.len());
        return crate::error::shape("rotary", "table", turns.shape(), expected);
    }
    let key = turns.data().as_ptr() as usize;
    Ok((Some(rows_of(rows).table(key, || turns.clone())), halves))
}

/// Vectors of distances, of keys and of values, in the type of the cache.
fn distances(kept: &Array, options: &StepOptions<'_>) -> [Option<Array>; 2] {
    let of = |table: &Var| table.value().array().matching(kept.dtype());
    let keys = options.relative.map(|relative| of(&relative.keys));
    [keys, options.relative.and_then(|relative| relative.values.as_ref()).map(of)]
}

fn attended(out: Array, weights: Option<Array>, rows: &StepRows, n_heads: usize) -> Result<Attended> {
    let computed = rows.computed();
    let context = Tensor::on_card(&[computed, out.len() / computed], out);
    Ok(Attended { context, weights: weights.map(|array| weights_of(array, rows, n_heads)).transpose()? })
}

/// The weights of the actual rows, in CPU memory.
fn weights_of(array: Array, rows: &StepRows, n_heads: usize) -> Result<Tensor> {
    let computed = rows.computed();
    let length = array.len() / (computed * n_heads);
    Tensor::on_card(&[computed, n_heads, length], array).first_rows(rows.count()).to_host()
}

/// Attention of each row to its source sentence, in the projection that made its keys and values.
pub(crate) fn cross_step(
    query: &Tensor,
    memory: &KeysValues,
    rows: &StepRows,
    options: &StepOptions<'_>,
) -> Result<Attended> {
    let (card, shape, kept) = (rows_of(rows), memory.shape(), memory.array());
    let (cuda, n_heads, max_len) = (kept.cuda(), options.n_heads, memory.capacity());
    let [lanes, is_aligned] = lanes(shape)?;
    if query.shape() != [card.rows, n_heads * shape.d_key] {
        let expected = format!("[{}, {}]", card.rows, n_heads * shape.d_key);
        return crate::error::shape("a step of attention", "query", query.shape(), expected);
    }
    let out = Array::new(cuda, kept.dtype(), card.rows * n_heads * shape.d_value);
    let weights = options.keeps_weights.then(|| Array::new(cuda, Dtype::F32, card.rows * n_heads * max_len));
    let [slots, lengths] = card.sources();
    let name = format!("cached_cross_{}", kept.suffix());
    cuda.launch(
        launch(&name, card.rows, n_heads),
        args![
            query.array(),
            kept,
            &out,
            &slots,
            &lengths,
            max_len,
            card.rows,
            n_heads,
            shape.n_heads,
            shape.d_key,
            shape.d_value,
            lanes,
            is_aligned,
            scale(shape),
            weights.as_ref()
        ],
    );
    attended(out, weights, rows, n_heads)
}

/// scale · E(token) + P(position).
pub(crate) fn step_input(table: &Tensor, rows: &StepRows, scale: f32, places: StepPlaces<'_>) -> Tensor {
    let (card, [_, width]) = (rows_of(rows), table.rows());
    let positions = match places {
        StepPlaces::None => None,
        // A parameter is read as f32, not as its bf16 copy.
        StepPlaces::Learned(places) => Some(places.array().clone()),
        StepPlaces::Computed(compute) => Some(card.table(PLACES, || compute(0, card.capacity))),
    };
    let table = table.array().matching(card.dtype());
    let y = Array::new(card.cuda(), card.dtype(), card.rows * width);
    let name = format!("step_input_{}", y.suffix());
    let launch = Launch {
        file: "step_input",
        name: &name,
        grid: [card.rows, 1, 1],
        block: width.next_multiple_of(32).min(256),
        shared: 0,
        family: Family::Embedding,
    };
    card.cuda()
        .launch(launch, args![&card.tokens(), &table, positions.as_ref(), &card.place(), &y, width, scale]);
    Tensor::on_card(&[card.rows, width], y)
}

/// x·Wᵀ + b, in f32 and in persistent memory.
pub(crate) fn step_logits(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let ([rows, d_in], [d_out, _], input) = (x.rows(), weight.rows(), x.array());
    let cuda = input.cuda();
    let y = cuda.lasting(|| Array::new(cuda, Dtype::F32, rows * d_out));
    let operand = weight.array().matching(input.dtype());
    let product = Product::new(Side::new(input, rows, d_in), Side::new(&operand, d_out, d_in).t(), &y);
    let bias = bias.map(Tensor::array);
    cuda.multiply(&Product { bias, epilogue: Epilogue::None, ..product });
    Tensor::on_card(&[rows, d_out], y)
}
