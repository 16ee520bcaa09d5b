//! Attention for any score function: weights = softmax(scores) over the keys, context = Σ weights · values.
//!
//! Bahdanau, Cho & Bengio 2015; Vaswani et al. 2017. This is the reference implementation, one tensor per step, against
//! which the fused kernel of `polyhead_tensor::ops::attention` is tested. A query that may attend to nothing gets a context
//! of zeros and passes back gradients of zero.
//!
//! ```
//! use polyhead_attention::attend::attend;
//! use polyhead_tensor::{Tape, Tensor, Var};
//! let tape = Tape::inference();
//! // Scores of 14 and 12 weigh 0.88 and 0.12.
//! let scores = Var::constant(Tensor::new(&[1, 1, 2], vec![14.0, 12.0]));
//! let values = Var::constant(Tensor::new(&[1, 2, 1], vec![1.0, 0.0]));
//! let (context, weights) = attend(&tape, &scores, &values, None)?;
//! assert!((weights.value().data()[1] - 0.12).abs() < 0.005);
//! assert!((context.value().data()[0] - 0.88).abs() < 0.005);
//! let (context, weights) = attend(&tape, &scores, &values, Some(&[false, true]))?;
//! assert_eq!((weights.value().data(), context.value().data()), (&[0.0, 1.0][..], &[0.0][..]));
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::error::shape;
use polyhead_tensor::ops::elementwise::add;
use polyhead_tensor::ops::matmul::{MatmulOptions, matmul};
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Result, Tape, Tensor, Var};

/// Context (… × q_len × d_value) and attention weights (… × q_len × k_len) of each query.
///
/// # Errors
/// As [`weights`] and [`mix`].
pub fn attend(tape: &Tape, scores: &Var, values: &Var, allowed: Option<&[bool]>) -> Result<(Var, Var)> {
    let weights = weights(tape, scores, allowed)?;
    Ok((mix(tape, &weights, values)?, weights))
}

/// Attention weights: scores (… × q_len × k_len) → the same shape, a softmax over the `allowed` keys.
///
/// `allowed` is true where a query may attend to a key. It has the shape of the scores, or q_len × k_len for one mask
/// shared by the whole batch.
///
/// # Errors
/// If the scores have fewer than two axes or `allowed` has a different size.
pub fn weights(tape: &Tape, scores: &Var, allowed: Option<&[bool]>) -> Result<Var> {
    let &[.., q_len, k_len] = scores.shape() else {
        return shape("weights", "scores", scores.shape(), "… × q_len × k_len");
    };
    let Some(allowed) = allowed else { return Ok(softmax(tape, scores)) };
    let sizes = if allowed.len() == q_len * k_len { vec![q_len, k_len] } else { scores.shape().to_vec() };
    if allowed.len() != sizes.iter().product::<usize>() {
        let expected = format!("{:?} or [{q_len}, {k_len}], as the scores", scores.shape());
        return shape("weights", "allowed", &[allowed.len()], expected);
    }
    let hidden = allowed.iter().map(|&allowed| if allowed { 0.0 } else { f32::NEG_INFINITY });
    let hidden = Var::constant(Tensor::new(&sizes, hidden.collect()));
    Ok(softmax(tape, &add(tape, scores, &hidden)?))
}

/// Context: weights (… × q_len × k_len) and values (… × k_len × d_value) → … × q_len × d_value.
///
/// # Errors
/// If the shapes do not match.
pub fn mix(tape: &Tape, weights: &Var, values: &Var) -> Result<Var> {
    let (weight_axes, value_axes) = (weights.shape(), values.shape());
    match (weight_axes, value_axes) {
        ([batch @ .., _, k_len], [value_batch @ .., value_len, _])
            if batch == value_batch && k_len == value_len =>
        {
            matmul(tape, weights, values, MatmulOptions::default())
        }
        _ => {
            shape("mix", "values", value_axes, format!("… × k_len × d_value for weights of {weight_axes:?}"))
        }
    }
}
