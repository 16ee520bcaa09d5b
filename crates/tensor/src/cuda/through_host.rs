//! Fallback for operations without a GPU kernel: computed on the CPU, forward and backward, with copies in both
//! directions.
//!
//! Correct but slow, and never part of a recording.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::array::Array;
use super::library::device_error;
use super::transfer::upload;
use crate::tape::{Gradients, Tape, Var};
use crate::{Result, Tensor};

/// Runs `operation` on copies of `inputs` on the CPU.
pub(crate) fn through_host(
    tape: &Tape,
    inputs: &[&Var],
    operation: impl FnOnce(&Tape, &[Var]) -> Result<Var>,
) -> Result<Var> {
    let Some(like) = inputs.iter().find_map(|input| input.value().gpu()).cloned() else {
        unreachable!("one input is on a GPU")
    };
    if like.cuda().recording.load(Ordering::Relaxed) {
        return device_error(
            "an operation without a GPU kernel cannot be part of a CUDA graph",
            "report this with the model's config",
        );
    }
    like.cuda().count_host_fallback();
    let host_tape = tape.for_host();
    let copies: Vec<Var> = inputs
        .iter()
        .map(|input| {
            let value = input.value().to_host()?;
            Ok(if input.needs_gradient() { host_tape.input(value) } else { Var::constant(value) })
        })
        .collect::<Result<_>>()?;
    let out = operation(&host_tape, &copies)?;
    tape.advance_to(&host_tape);
    let value = upload(like.cuda(), out.value())?;
    let originals: Vec<Var> = inputs.iter().map(|input| input.node_only()).collect();
    Ok(tape.record(value, inputs, move |gradient, gradients| {
        let cuda = Arc::clone(like.cuda());
        if let Err(error) = backward(host_tape, &out, [&originals, &copies], (gradient, gradients), &like) {
            cuda.note_error(error);
        }
    }))
}

fn backward(
    host_tape: Tape,
    out: &Var,
    [originals, copies]: [&[Var]; 2],
    (gradient, gradients): (&Tensor, &mut Gradients),
    like: &Array,
) -> Result<()> {
    let found = host_tape.backward_from(out, &gradient.to_host()?.reshaped(out.shape()));
    for (original, copy) in originals.iter().zip(copies) {
        if let Some(gradient) = found.of(copy) {
            gradients.add(original, &upload(like.cuda(), gradient)?);
        }
    }
    Ok(())
}
