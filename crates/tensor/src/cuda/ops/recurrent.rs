//! Recurrent layers on a GPU: per position one product and one kernel; see [`crate::ops::recurrent`].
//!
//! States and gates are f32 in every mode; h is rounded to the compute dtype for the products.

use crate::cuda::{Argument, Array, ElementType, KernelFamily, Launch, Operand, Product, args};
use crate::gemm::Output;
use crate::ops::recurrent::{
    CellKind, Reading, RecurrentInput, RecurrentOptions, RecurrentOutput, Sizes, record,
};
use crate::ops::shared_weight::SharedWeight;
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;

/// Runs a layer over all positions.
pub(crate) fn recurrent(
    tape: &Tape,
    input: RecurrentInput<'_>,
    (sizes, options): (Sizes, RecurrentOptions),
) -> RecurrentOutput {
    let Sizes { batch, length, d, .. } = sizes;
    let projected = input.projected.value().array();
    let (cuda, dtype) = (projected.cuda(), projected.dtype());
    let weight = input.weight.weight().expect("weights on a GPU are not prepared").array().matching(dtype);
    let bias = input.weight.bias().map(|bias| bias.array().to_dtype(ElementType::F32));
    let state = match input.state {
        Some(state) if state.value().array().dtype() == ElementType::F32 => state.value().array().duplicate(),
        Some(state) => state.value().array().to_dtype(ElementType::F32),
        None => Array::zeros(cuda, ElementType::F32, batch * sizes.state()),
    };
    let outputs = Array::new(cuda, dtype, batch * length * d);
    let before = Array::new(cuda, dtype, length * batch * d);
    let kernels = Kernels { sizes, lengths: input.lengths.map(|lengths| lengths.gpu().clone()) };
    let stored = |width: usize| {
        let is_stored = tape.is_training();
        is_stored.then(|| Array::new(cuda, ElementType::F32, length * batch * width))
    };
    let (gates, extra) = (stored(sizes.gates()), stored(2 * d));
    if length > 0 {
        let first = before.part(0..batch * d);
        kernels.each("begin", &first, args![&state, &first, batch, d, sizes.cell.n_states()]);
    }
    let product = Array::new(cuda, ElementType::F32, batch * sizes.gates());
    for step in 0..length {
        let own = |array: &Array, width: usize| array.part(step * batch * width..(step + 1) * batch * width);
        let h = own(&before, d);
        let operands = (Operand::new(&h, batch, d), Operand::new(&weight, sizes.gates(), d).t());
        cuda.multiply(&Product::new(operands.0, operands.1, &product));
        let next = (step + 1 < length).then(|| before.part((step + 1) * batch * d..(step + 2) * batch * d));
        let saved = [(&gates, sizes.gates()), (&extra, 2 * d)]
            .map(|(array, width)| array.as_ref().map(|array| own(array, width)));
        let more = args![
            projected,
            &product,
            bias.as_ref(),
            &state,
            &outputs,
            next.as_ref(),
            saved[0].as_ref(),
            saved[1].as_ref()
        ];
        kernels.position("recurrent", position(sizes, options, step), projected, more);
    }
    let outputs = Tensor::on_gpu(&[batch, length, d], outputs);
    let last = Tensor::on_gpu(&[batch, sizes.state()], state);
    let saved = gates.zip(extra).map(|(gates, extra)| CudaRecurrentSaved {
        projected: input.projected.node_only(),
        state: input.state.map(Var::node_only),
        shared: input.weight.detached(),
        weight,
        before,
        gates,
        extra,
        kernels,
        options,
    });
    record(tape, &input, [outputs, last], move |gradient, last, gradients| {
        saved.expect("saved while the tape records").backward(gradient, last, gradients);
    })
}

/// The position of step `step`.
fn position(sizes: Sizes, options: RecurrentOptions, step: usize) -> usize {
    match options.reading {
        Reading::Forwards => step,
        Reading::Backwards => sizes.length - 1 - step,
    }
}

/// Launches of the kernels of a layer.
struct Kernels {
    sizes: Sizes,
    lengths: Option<Array>,
}

impl Kernels {
    /// A kernel over all positions of one step, with the sizes before its own arguments.
    fn position(&self, name: &str, position: usize, of: &Array, more: &[Argument]) {
        let Sizes { batch, length, d, cell } = self.sizes;
        let code = match cell {
            CellKind::RnnTanh => 0_u32,
            CellKind::RnnRelu => 1,
            CellKind::Gru => 2,
            CellKind::Lstm => 3,
        };
        let sizes: &[Argument] = args![batch, length, d, code, position, self.lengths.as_ref()];
        self.each(name, of, &[sizes, more].concat());
    }

    /// A kernel with a thread for each component of each row, for the type of `of`.
    fn each(&self, name: &str, of: &Array, arguments: &[Argument]) {
        self.plain(&format!("{name}_{}", of.suffix()), of, arguments);
    }

    fn plain(&self, name: &str, of: &Array, arguments: &[Argument]) {
        let grid = [(self.sizes.batch * self.sizes.d).div_ceil(256), 1, 1];
        let launch = Launch {
            file: "recurrent",
            name,
            grid,
            block: 256,
            shared: 0,
            family: KernelFamily::Elementwise,
        };
        of.cuda().launch(launch, arguments);
    }
}

struct CudaRecurrentSaved {
    projected: Var,
    state: Option<Var>,
    shared: SharedWeight<'static>,
    weight: Array,
    before: Array,
    gates: Array,
    extra: Array,
    kernels: Kernels,
    options: RecurrentOptions,
}

impl CudaRecurrentSaved {
    fn backward(&self, gradient: &Tensor, last: Option<&Tensor>, gradients: &mut Gradients) {
        let sizes @ Sizes { batch, length, d, cell } = self.kernels.sizes;
        let (cuda, dtype) = (self.before.cuda(), self.before.dtype());
        let gradient = gradient.array().to_dtype(dtype);
        let [of_h, of_c] = [(); 2].map(|()| Array::new(cuda, ElementType::F32, batch * d));
        let last = last.map(|last| last.array().to_dtype(ElementType::F32));
        let apart = args![last.as_ref(), &of_h, &of_c, batch, d, cell.n_states()];
        self.kernels.plain("state_apart", &of_h, apart);
        let of_input = Array::new(cuda, dtype, batch * length * sizes.gates());
        let of_hidden = Array::new(cuda, dtype, length * batch * sizes.gates());
        for step in (0..length).rev() {
            let own =
                |array: &Array, width: usize| array.part(step * batch * width..(step + 1) * batch * width);
            let (gates, extra) = (own(&self.gates, sizes.gates()), own(&self.extra, 2 * d));
            let hidden = own(&of_hidden, sizes.gates());
            let more = args![&gradient, &gates, &extra, &of_h, &of_c, &of_input, &hidden];
            self.kernels.position("recurrent_back", position(sizes, self.options, step), &of_input, more);
            if step > 0 || self.state.as_ref().is_some_and(Var::needs_gradient) {
                let weight = Operand::new(&self.weight, sizes.gates(), d);
                let product = Product::new(Operand::new(&hidden, batch, sizes.gates()), weight, &of_h);
                cuda.multiply(&Product { output: Output::Accumulate, ..product });
            }
        }
        if let Some(state) = self.state.as_ref().filter(|state| state.needs_gradient()) {
            let of_state = Array::new(cuda, ElementType::F32, batch * sizes.state());
            let together = args![&of_state, &of_h, &of_c, batch, d, cell.n_states()];
            self.kernels.plain("state_together", &of_state, together);
            gradients.add(state, &Tensor::on_gpu(&[batch, sizes.state()], of_state));
        }
        gradients.add(&self.projected, &Tensor::on_gpu(&[batch, length, sizes.gates()], of_input));
        let rows = length * batch;
        let step = (
            Tensor::on_gpu(&[rows, sizes.gates()], of_hidden),
            Tensor::on_gpu(&[rows, d], self.before.clone()),
        );
        self.shared.collect(step, gradients);
    }
}
