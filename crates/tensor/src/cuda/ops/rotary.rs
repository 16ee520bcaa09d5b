//! Rotary positions on a GPU; see [`crate::ops::rotary`].

use super::walk;
use crate::cuda::{Array, ElementType, KernelFamily, args};
use crate::ops::rotary::Pairing;
use crate::tape::{Tape, Var};
use crate::tensor::Tensor;

/// Rotates x, batch × length × n_heads × d_head, by the angles of `turns`, from position `offset`.
pub(crate) fn rotary(tape: &Tape, x: &Var, turns: &Tensor, pairing: Pairing, offset: usize) -> Var {
    let cuda = x.value().array().cuda();
    let turns = match turns.gpu() {
        Some(gpu) => gpu.to_dtype(ElementType::F32),
        None => Array::constant(cuda, turns.data()),
    };
    let y = turned(x.value(), &turns, pairing, (offset, 1.0));
    let node = x.node_only();
    tape.record(y, &[x], move |gradient, gradients| {
        gradients.add(&node, &turned(gradient, &turns, pairing, (offset, -1.0)));
    })
}

/// x rotated by `sign` times the angles.
fn turned(x: &Tensor, turns: &Array, pairing: Pairing, (offset, sign): (usize, f32)) -> Tensor {
    let y = x.uninit_like();
    let &[_, length, n_heads, d_head] = x.shape() else { unreachable!("checked before") };
    let pairs = x.len() / 2;
    let halves = u32::from(pairing == Pairing::Halves);
    let arguments =
        args![x.array(), y.array(), turns, pairs as u64, length, n_heads, d_head / 2, offset, halves, sign];
    walk(("rotary", "rotary"), pairs, KernelFamily::Attention, y.array(), arguments);
    y
}
