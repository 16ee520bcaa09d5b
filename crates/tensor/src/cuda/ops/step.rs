//! A decoding step on a GPU: input, attention to the K/V cache, and logits; see [`crate::ops::attention::self_step`].
//!
//! Nothing here depends on the number of tokens: a recorded step serves for all, until the cache needs more room.

use crate::Result;
use crate::cuda::{Array, ElementType, Epilogue, GpuRows, KernelFamily, Launch, Operand, Product, args};
use crate::ops::attention::{
    AttentionOutput, CacheShape, Columns, KeysValues, StepAttentionPattern, StepOptions, StepRows,
};
use crate::ops::decoding::StepPositions;
use crate::tape::Var;
use crate::tensor::Tensor;

/// Threads per block; a warp does one head of a row.
const THREADS: usize = 128;
/// Maximum width of a head: what a warp reads at once.
const WIDEST: usize = 256;
/// Key of the table of computed positions; no address is as small.
const POSITION_TABLE: usize = 2;

fn rows_of(rows: &StepRows) -> &GpuRows {
    rows.gpu().expect("the rows are on the GPU of their tensors")
}

/// Division of a head among a warp: lanes that read a key together, and 1 if they read sixteen bytes each.
fn lanes(shape: CacheShape) -> Result<[usize; 2]> {
    let widest = shape.d_key.max(shape.d_value);
    if widest > WIDEST {
        let expected = format!("heads of at most {WIDEST} values on a GPU");
        return crate::error::shape("a decoding step", "heads", &[shape.d_key, shape.d_value], expected);
    }
    let is_aligned = shape.d_key.is_multiple_of(8) && shape.d_value.is_multiple_of(8);
    Ok([widest.div_ceil(8).next_power_of_two(), usize::from(is_aligned)])
}

fn launch(name: &str, rows: usize, n_heads: usize) -> Launch<'_> {
    let grid = [(rows * n_heads).div_ceil(THREADS / 32), 1, 1];
    Launch {
        file: "cached_attention",
        name,
        grid,
        block: THREADS,
        shared: 0,
        family: KernelFamily::Attention,
    }
}

/// Self-attention in one kernel: rotates, caches, attends.
pub(crate) fn self_step(
    projected: &Tensor,
    cache: &KeysValues,
    rows: &StepRows,
    options: &StepOptions<'_>,
) -> Result<AttentionOutput> {
    let (gpu, shape, cached) = (rows_of(rows), cache.shape(), cache.array());
    let (cuda, n_heads) = (cached.cuda(), options.n_heads);
    let [lanes, is_aligned] = lanes(shape)?;
    let (turns, halves) = turns(rows, options)?;
    let [distance_keys, distance_values] = distances(cached, options);
    let (seen, words) = match options.seen {
        Some(StepAttentionPattern::Bits(pattern)) => (Some(&pattern.bits), pattern.words),
        _ => (None, 0),
    };
    let out = Array::new(cuda, cached.dtype(), gpu.rows * n_heads * shape.d_value);
    let n_weights = rows.len() + 1;
    let weights =
        options.keeps_weights.then(|| Array::new(cuda, ElementType::F32, gpu.rows * n_heads * n_weights));
    let name = format!("cached_self_{}", cached.suffix());
    cuda.launch(
        launch(&name, gpu.rows, n_heads),
        args![
            projected.array(),
            cached,
            &out,
            &gpu.position(),
            &gpu.starts(),
            gpu.ancestry(),
            gpu.n_slots,
            turns.as_ref(),
            usize::from(halves),
            distance_keys.as_ref(),
            distance_values.as_ref(),
            options.relative.map_or(0, |relative| relative.max_distance),
            seen,
            words,
            gpu.rows,
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

/// Writes keys and values of whole sequences (rows × length × columns) to the cache of `rows`.
pub(crate) fn fill(cache: &Array, rows: &StepRows, [key, value]: [Columns<'_>; 2]) {
    let gpu = rows_of(rows);
    if rows.is_empty() {
        return;
    }
    let [keys, values] =
        [key, value].map(|side| (side.var.value().array().to_dtype(cache.dtype()), side.var.shape()[2]));
    let launch = Launch {
        file: "reorder",
        name: &format!("fill_{}", cache.suffix()),
        grid: [rows.count(), rows.len(), 1],
        block: 128,
        shared: 0,
        family: KernelFamily::Elementwise,
    };
    let length = key.var.shape()[1];
    let value_length = value.var.shape()[1];
    assert!(length == value_length, "keys and values of the same tokens");
    gpu.cuda().launch(
        launch,
        args![
            &keys.0,
            keys.1,
            key.start,
            key.width,
            &values.0,
            values.1,
            value.start,
            value.width,
            cache,
            &gpu.starts_of(rows.lengths()),
            gpu.n_slots,
            gpu.line(),
            length
        ],
    );
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
fn distances(cached: &Array, options: &StepOptions<'_>) -> [Option<Array>; 2] {
    let of = |table: &Var| table.value().array().matching(cached.dtype());
    let keys = options.relative.map(|relative| of(&relative.keys));
    [keys, options.relative.and_then(|relative| relative.values.as_ref()).map(of)]
}

fn attended(out: Array, weights: Option<Array>, rows: &StepRows, n_heads: usize) -> Result<AttentionOutput> {
    let computed = rows.computed();
    let context = Tensor::on_gpu(&[computed, out.len() / computed], out);
    Ok(AttentionOutput {
        context,
        weights: weights.map(|array| weights_of(array, rows, n_heads)).transpose()?,
    })
}

/// The weights of the actual rows, in CPU memory.
fn weights_of(array: Array, rows: &StepRows, n_heads: usize) -> Result<Tensor> {
    let computed = rows.computed();
    let length = array.len() / (computed * n_heads);
    Tensor::on_gpu(&[computed, n_heads, length], array).first_rows(rows.count()).to_host()
}

/// Attention of each row to its source sentence, in the projection that made its keys and values.
pub(crate) fn cross_step(
    query: &Tensor,
    memory: &KeysValues,
    rows: &StepRows,
    options: &StepOptions<'_>,
) -> Result<AttentionOutput> {
    let (gpu, shape, cached) = (rows_of(rows), memory.shape(), memory.array());
    let (cuda, n_heads, max_len) = (cached.cuda(), options.n_heads, memory.capacity());
    let [lanes, is_aligned] = lanes(shape)?;
    if query.shape() != [gpu.rows, n_heads * shape.d_key] {
        let expected = format!("[{}, {}]", gpu.rows, n_heads * shape.d_key);
        return crate::error::shape("a decoding step", "query", query.shape(), expected);
    }
    let out = Array::new(cuda, cached.dtype(), gpu.rows * n_heads * shape.d_value);
    let weights =
        options.keeps_weights.then(|| Array::new(cuda, ElementType::F32, gpu.rows * n_heads * max_len));
    let [slots, lengths] = gpu.sources(options.source);
    let name = format!("cached_cross_{}", cached.suffix());
    cuda.launch(
        launch(&name, gpu.rows, n_heads),
        args![
            query.array(),
            cached,
            &out,
            &slots,
            &lengths,
            max_len,
            gpu.rows,
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
pub(crate) fn step_input(
    table: &Tensor,
    rows: &StepRows,
    scale: f32,
    positions: StepPositions<'_>,
) -> Tensor {
    let (gpu, [_, width]) = (rows_of(rows), table.rows());
    let positions = match positions {
        StepPositions::None => None,
        // A parameter is read as f32, not as its bf16 copy.
        StepPositions::Learned(table) => Some(table.array().clone()),
        StepPositions::Computed(compute) => Some(gpu.table(POSITION_TABLE, || compute(0, gpu.capacity))),
    };
    let table = table.array().matching(gpu.dtype());
    let y = Array::new(gpu.cuda(), gpu.dtype(), gpu.rows * width);
    let name = format!("step_input_{}", y.suffix());
    let launch = Launch {
        file: "step_input",
        name: &name,
        grid: [gpu.rows, 1, 1],
        block: width.next_multiple_of(32).min(256),
        shared: 0,
        family: KernelFamily::Embedding,
    };
    gpu.cuda().launch(
        launch,
        args![&gpu.tokens(), &table, positions.as_ref(), &gpu.position(), &gpu.starts(), &y, width, scale],
    );
    Tensor::on_gpu(&[gpu.rows, width], y)
}

/// x·Wᵀ + b, in f32 and in persistent memory.
pub(crate) fn step_logits(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let ([rows, d_in], [d_out, _], input) = (x.rows(), weight.rows(), x.array());
    let cuda = input.cuda();
    let y = cuda.persistent(|| Array::new(cuda, ElementType::F32, rows * d_out));
    let operand = weight.array().matching(input.dtype());
    let product = Product::new(Operand::new(input, rows, d_in), Operand::new(&operand, d_out, d_in).t(), &y);
    let bias = bias.map(Tensor::array);
    cuda.multiply(&Product { bias, epilogue: Epilogue::None, ..product });
    Tensor::on_gpu(&[rows, d_out], y)
}
