//! Attention on a GPU; see [`crate::ops::attention`] and the kernels `attention_*.cu`.
//!
//! bf16 uses tensor cores, f32 does not. The backward pass of short sequences is one kernel, that of others two: one
//! for queries, which also computes rowsum(dO ∘ O), and one for keys and values. Long sequences in bf16 have tiled
//! kernels, which also compute patterns that are a window ([`TiledShape`]). Other patterns, a bias, relative positions
//! and heads of more than 256 values fall back to the CPU.

use super::attention_shape::{AttentionKernel, AttentionShape, MAX_HEAD};
use super::attention_tiled::TiledShape;
use super::walk;
use crate::Result;
use crate::cuda::{Argument, Array, ElementType, KernelFamily, Launch, args, through_host};
use crate::indices::Indices;
use crate::ops::attention::{
    self as host, AttentionOptions, AttentionPlan, Columns, Direction, HeadLayout, Relative, gradient_tensors,
};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Attention of the first of `sides` to the others.
pub(crate) fn attention(tape: &Tape, sides: [Columns<'_>; 3], options: &AttentionOptions) -> Result<Var> {
    let dtype = sides[0].var.value().array().dtype();
    let inputs = sides.map(|side| side.var.value().array().matching(dtype));
    let tiled = TiledShape::new(&inputs, sides, options);
    if tiled.is_none() && !has_kernel(sides, options) {
        return by_host(tape, sides, options);
    }
    let plan = AttentionPlan::new(tape, sides, options)?;
    let cuda = inputs[0].cuda();
    let lengths = plan.options.key_lengths.as_ref().map(|lengths| lengths.gpu().clone());
    let out = Array::new(cuda, dtype, plan.batch * plan.q_len * plan.out.width());
    let logsumexp = Array::new(cuda, ElementType::F32, plan.batch * plan.n_heads * plan.q_len);
    let call = Call { shape: AttentionShape::new(&plan, dtype), tiled, plan, inputs, lengths };
    call.forward(&out, &logsumexp);
    let value = Tensor::on_gpu(&[call.plan.batch, call.plan.q_len, call.plan.out.width()], out.clone());
    let recorded = sides.map(|side| side.var);
    let saved = CudaAttentionSaved {
        vars: recorded.map(Clone::clone),
        out: (!call.shape.is_short()).then_some(out),
        logsumexp,
        call,
    };
    Ok(tape.record(value, &recorded, move |gradient, gradients| saved.backward(gradient, gradients)))
}

/// The attention weights, computed on the CPU.
pub(crate) fn weights(sides: [Columns<'_>; 2], options: &AttentionOptions) -> Result<Tensor> {
    let tables = options.relative.as_ref().map_or_else(Vec::new, Relative::tables);
    let to_host = |var: &Var| Ok(Var::constant(var.value().to_host()?));
    let tables = tables.iter().map(to_host).collect::<Result<Vec<_>>>()?;
    let [query, key] = sides.map(|side| to_host(side.var));
    let [query, key] = [Columns { var: &query?, ..sides[0] }, Columns { var: &key?, ..sides[1] }];
    host::attention_weights(query, key, &options_of_host(options, &tables)?)
}

fn has_kernel(sides: [Columns<'_>; 3], options: &AttentionOptions) -> bool {
    let is_plain = options.pattern.is_none() && options.bias.is_none() && options.relative.is_none();
    let heads = options.n_key_heads.unwrap_or(options.n_heads).max(1);
    is_plain && sides[1..].iter().all(|side| side.width / heads <= MAX_HEAD)
}

fn by_host(tape: &Tape, sides: [Columns<'_>; 3], options: &AttentionOptions) -> Result<Var> {
    let tables = options.relative.as_ref().map_or_else(Vec::new, Relative::tables);
    let inputs: Vec<&Var> = sides.iter().map(|side| side.var).chain(&tables).collect();
    through_host(tape, &inputs, |tape, copies| {
        let [query, key, value] = [0, 1, 2].map(|side| Columns { var: &copies[side], ..sides[side] });
        host::attention(tape, query, key, value, &options_of_host(options, &copies[3..])?)
    })
}

/// The same options with everything in CPU memory; `tables` are those of relative positions.
fn options_of_host(options: &AttentionOptions, tables: &[Var]) -> Result<AttentionOptions> {
    let relative = options.relative.as_ref().map(|relative| Relative {
        max_distance: relative.max_distance,
        keys: tables[0].clone(),
        values: tables.get(1).cloned(),
    });
    let bias = options.bias.as_ref().map(Tensor::to_host).transpose()?;
    let key_lengths = options.key_lengths.as_ref().map(Indices::to_host).transpose()?;
    Ok(AttentionOptions { key_lengths, bias, relative, ..options.clone() })
}

/// Arguments of all launches of one attention.
struct Call {
    plan: AttentionPlan,
    shape: AttentionShape,
    tiled: Option<TiledShape>,
    inputs: [Array; 3],
    lengths: Option<Array>,
}

impl Call {
    fn forward(&self, out: &Array, logsumexp: &Array) {
        let mut arguments = self.sides(&self.inputs.each_ref());
        arguments.extend(args![out, logsumexp]);
        match self.tiled {
            Some(tiled) => self.launch_tiled(tiled, &tiled.forward(), arguments, self.draw().as_ref()),
            None => self.launch(&self.shape.forward(), arguments, &[out]),
        }
    }

    /// Dropout bits of all weights, for tiled kernels.
    fn draw(&self) -> Option<Array> {
        let mask = self.plan.mask?;
        let AttentionPlan { batch, n_heads, q_len, k_len, .. } = self.plan;
        // A warp draws 256 bits; the kernels may read four words more.
        let draws = (batch * n_heads * q_len * k_len).div_ceil(256);
        let bits = Array::new(self.inputs[0].cuda(), ElementType::U32, 8 * draws + 4);
        let arguments = args![&bits, draws as u64, mask];
        walk(("dropout", "dropout_bits"), 32 * draws, KernelFamily::Attention, &bits, arguments);
        Some(bits)
    }

    fn launch_tiled(
        &self,
        tiled: TiledShape,
        kernel: &AttentionKernel,
        mut arguments: Vec<Argument>,
        bits: Option<&Array>,
    ) {
        let AttentionPlan { q_len, k_len, n_heads, n_key_heads, ref sides, scale, mask, .. } = self.plan;
        let [before, after] = tiled.band;
        arguments.extend(args![q_len, k_len, n_heads, n_key_heads, sides[1].d_head, sides[2].d_head]);
        let keep_scale = mask.map_or(1.0, |mask| mask.argument().scale);
        arguments.extend(args![before, after, scale, self.lengths.as_ref(), bits, keep_scale]);
        self.queue(kernel, &arguments);
    }

    /// Address of the first column and stride, for each side.
    fn sides(&self, arrays: &[&Array]) -> Vec<Argument> {
        arrays.iter().zip(self.plan.sides).flat_map(|(array, side)| arguments_of(array, side)).collect()
    }

    /// `whole` are further arrays that are read or written in the same way.
    fn launch(&self, kernel: &AttentionKernel, mut arguments: Vec<Argument>, whole: &[&Array]) {
        let AttentionPlan { q_len, k_len, n_heads, n_key_heads, ref sides, scale, mask, .. } = self.plan;
        arguments.extend(args![q_len, k_len, n_heads, n_key_heads, sides[1].d_head, sides[2].d_head]);
        let is_causal = self.plan.options.direction == Direction::Causal;
        arguments.extend(args![u32::from(is_causal), u32::from(self.is_wide(whole)), scale]);
        arguments.extend(args![self.lengths.as_ref(), mask]);
        self.queue(kernel, &arguments);
    }

    fn queue(&self, kernel: &AttentionKernel, arguments: &[Argument]) {
        let launch = Launch {
            file: kernel.file,
            name: &kernel.name,
            grid: kernel.grid,
            block: kernel.block,
            shared: kernel.shared,
            family: KernelFamily::Attention,
        };
        self.inputs[0].cuda().launch(launch, arguments);
    }

    /// True if all rows of all heads begin and end at multiples of 16 bytes.
    fn is_wide(&self, whole: &[&Array]) -> bool {
        let heads = self.plan.sides.iter().all(|side| side.d_head.is_multiple_of(8));
        let aligned = |array: &Array, side: HeadLayout| {
            let bytes = array.dtype().bytes();
            first_column(array, side).is_multiple_of(16) && (side.stride * bytes).is_multiple_of(16)
        };
        heads
            && self.inputs.iter().zip(self.plan.sides).all(|(array, side)| aligned(array, side))
            && whole.iter().all(|array| array.pointer().is_multiple_of(16))
    }
}

fn first_column(array: &Array, side: HeadLayout) -> u64 {
    array.pointer() + (side.start * array.dtype().bytes()) as u64
}

fn arguments_of(array: &Array, side: HeadLayout) -> [Argument; 2] {
    [Argument::Pointer(first_column(array, side)), Argument::from(side.stride)]
}

/// State saved for the backward pass.
struct CudaAttentionSaved {
    vars: [Var; 3],
    call: Call,
    /// The result, if the backward pass reads it.
    out: Option<Array>,
    logsumexp: Array,
}

impl CudaAttentionSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let dtype = self.call.inputs[0].dtype();
        let d_out = gradient.array().to_dtype(dtype);
        let make = |input: &Var, is_covered| {
            let make = if is_covered { Array::new } else { Array::zeros };
            Tensor::on_gpu(input.shape(), make(d_out.cuda(), dtype, input.value().len()))
        };
        let (tensors, tensor_of) = gradient_tensors(&self.vars, &self.call.plan.sides, make);
        let targets = tensor_of.map(|index| tensors[index].1.array());
        match &self.out {
            None => self.backward_short(&d_out, targets),
            Some(out) => self.backward_long(out, &d_out, targets),
        }
        for (input, gradient) in &tensors {
            gradients.add(input, gradient);
        }
    }

    /// Computes all three gradients with one kernel.
    fn backward_short(&self, d_out: &Array, targets: [&Array; 3]) {
        let call = &self.call;
        let mut arguments = call.sides(&call.inputs.each_ref());
        arguments.extend(args![d_out, &self.logsumexp]);
        arguments.extend(call.sides(&targets));
        call.launch(&call.shape.backward(), arguments, &[d_out, targets[0], targets[1], targets[2]]);
    }

    /// Computes dQ, then dK and dV.
    fn backward_long(&self, out: &Array, d_out: &Array, targets: [&Array; 3]) {
        let call = &self.call;
        let delta = Array::new(d_out.cuda(), ElementType::F32, self.logsumexp.len());
        let inputs = call.sides(&call.inputs.each_ref());
        let mut to = call.sides(&targets);
        let keys = to.split_off(2);
        let whole = [d_out, targets[0], targets[1], targets[2]];
        let given = args![out, d_out, &self.logsumexp, &delta];
        let for_queries = [&inputs, &given[..], &to].concat();
        let given = args![d_out, &self.logsumexp, &delta];
        let for_keys = [&inputs, &given[..], &keys].concat();
        if let Some(tiled) = call.tiled {
            let bits = call.draw();
            call.launch_tiled(tiled, &tiled.queries_backward(), for_queries, bits.as_ref());
            call.launch_tiled(tiled, &tiled.keys_backward(), for_keys, bits.as_ref());
        } else {
            call.launch(&call.shape.queries_backward(), for_queries, &whole);
            call.launch(&call.shape.keys_backward(), for_keys, &whole);
        }
    }
}
