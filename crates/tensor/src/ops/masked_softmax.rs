//! Attention weights over the keys of each row: softmax over the first n keys, n the row's own length, or over a window
//! of them (Luong, Pham & Manning 2015, section 3.2).
//!
//! With `Monotonic` (local-m) query t attends to keys within D of p = min(t, n − 1). With `Predictive` (local-p) p is given
//! for each query as a share of n, and the softmax of key s is multiplied by b_s = exp(−(s − p)²/(2σ²)), σ = D/2: the weights
//! of a query sum to less than 1, the less the further the keys are from p, which is how p learns. All other keys have
//! weight 0, and a row without keys has only zeros.
//!
//! Backward: with y the weights, dx = y ∘ (dy − Σ y∘dy / b), b = 1 without a predicted position, and
//! dp = Σ_s y_s·dy_s·(s − p)/σ².

use crate::error::shape;
use crate::indices::Indices;
use crate::lanes::{exp, max, sum, sum2, vectorised};
use crate::tape::{Gradients, Tape, Var};
use crate::tensor::Tensor;
use crate::{Error, Result, parallel};

/// The keys of a query, apart from padding.
#[derive(Debug, Clone, Copy)]
pub enum Locality<'a> {
    /// All keys.
    Global,
    /// Keys within `distance` of the query's own position; the first query of each row is at `start`.
    Monotonic {
        /// D.
        distance: usize,
        /// Position of the first query.
        start: usize,
    },
    /// Keys within `distance` of a predicted position, and the nearer the better.
    Predictive {
        /// D.
        distance: usize,
        /// The position as a share of the row's length, from 0 to 1: batch × q_len.
        centre: &'a Var,
    },
}

/// Weights of scores (batch × q_len × k_len): the same shape. `lengths` has the number of keys of each row.
///
/// # Errors
/// If the shapes do not fit together or a distance is 0.
pub fn masked_softmax(tape: &Tape, scores: &Var, lengths: &Indices, locality: Locality<'_>) -> Result<Var> {
    let sizes = check(scores, lengths, locality)?;
    on_gpu!(scores.value() => Ok(crate::cuda::ops::masked_softmax::masked_softmax(tape, scores, lengths, locality)));
    let [_, q_len, k_len] = sizes;
    let lengths: Vec<usize> = lengths.host().iter().map(|&length| (length as usize).min(k_len)).collect();
    let window = Window::new(locality, &lengths, q_len);
    let mut weights = Tensor::uninit(scores.shape());
    let from = scores.value().data();
    parallel::rows(weights.data_mut(), k_len, |first, block| {
        for (offset, out) in block.chunks_exact_mut(k_len).enumerate() {
            let row = first + offset;
            let (keys, bell) = window.of(row);
            weigh(out, &from[row * k_len..(row + 1) * k_len], [keys.start, keys.end], bell);
        }
    });
    let centre = locality.centre().cloned();
    let inputs: Vec<&Var> = [scores].into_iter().chain(centre.as_ref()).collect();
    let saved =
        SoftmaxSaved { scores: scores.node_only(), centre: centre.clone(), weights: weights.clone(), window };
    Ok(tape.record(weights, &inputs, move |gradient, gradients| saved.backward(gradient, gradients)))
}

impl<'a> Locality<'a> {
    /// Its code and distance in GPU kernels.
    #[cfg(feature = "cuda")]
    pub(crate) fn code(self) -> [usize; 3] {
        match self {
            Self::Global => [0, 1, 0],
            Self::Monotonic { distance, start } => [1, distance, start],
            Self::Predictive { distance, .. } => [2, distance, 0],
        }
    }

    /// The predicted positions.
    pub(crate) fn centre(self) -> Option<&'a Var> {
        match self {
            Self::Predictive { centre, .. } => Some(centre),
            Self::Global | Self::Monotonic { .. } => None,
        }
    }
}

fn check(scores: &Var, lengths: &Indices, locality: Locality<'_>) -> Result<[usize; 3]> {
    let &[batch, q_len, k_len] = scores.shape() else {
        return shape("masked_softmax", "scores", scores.shape(), "batch × q_len × k_len");
    };
    if lengths.len() != batch {
        return shape("masked_softmax", "lengths", &[lengths.len()], format!("[{batch}], one for each row"));
    }
    if let Some(centre) = locality.centre().filter(|centre| centre.shape() != [batch, q_len]) {
        return shape("masked_softmax", "centre", centre.shape(), format!("[{batch}, {q_len}]"));
    }
    match locality {
        Locality::Monotonic { distance: 0, .. } | Locality::Predictive { distance: 0, .. } => {
            Err(Error::Value {
                operation: "masked_softmax",
                name: "distance",
                found: 0.0,
                expected: "at least 1",
            })
        }
        _ => Ok([batch, q_len, k_len]),
    }
}

/// A bell curve around a position: the position and 1/σ².
type Bell = Option<[f32; 2]>;

/// The keys of each query.
struct Window {
    lengths: Vec<usize>,
    q_len: usize,
    kind: WindowKind,
}

enum WindowKind {
    Global,
    Monotonic { distance: usize, start: usize },
    Predictive { distance: usize, shares: Tensor },
}

impl Window {
    fn new(locality: Locality<'_>, lengths: &[usize], q_len: usize) -> Self {
        let kind = match locality {
            Locality::Global => WindowKind::Global,
            Locality::Monotonic { distance, start } => WindowKind::Monotonic { distance, start },
            Locality::Predictive { distance, centre } => {
                WindowKind::Predictive { distance, shares: centre.value().clone() }
            }
        };
        Self { lengths: lengths.to_vec(), q_len, kind }
    }

    /// The keys of row `row` of batch × q_len, and its bell curve.
    fn of(&self, row: usize) -> (std::ops::Range<usize>, Bell) {
        let length = self.lengths[row / self.q_len];
        match &self.kind {
            WindowKind::Global => (0..length, None),
            WindowKind::Monotonic { distance, start } => {
                let at = (row % self.q_len + start).min(length.saturating_sub(1));
                (at.saturating_sub(*distance)..(at + distance + 1).min(length), None)
            }
            WindowKind::Predictive { distance, shares } => {
                let (p, distance) = (length as f32 * shares.data()[row], *distance as f32);
                let first = (p - distance).ceil().max(0.0) as usize;
                let end = ((p + distance).floor() as usize + 1).min(length);
                let sigma = distance / 2.0;
                (first.min(end)..end, Some([p, 1.0 / (sigma * sigma)]))
            }
        }
    }
}

struct SoftmaxSaved {
    scores: Var,
    centre: Option<Var>,
    weights: Tensor,
    window: Window,
}

impl SoftmaxSaved {
    fn backward(&self, gradient: &Tensor, gradients: &mut Gradients) {
        let [_, k_len] = self.weights.rows();
        let mut dx = Tensor::uninit(self.weights.shape());
        let (y, dy) = (self.weights.data(), gradient.data());
        parallel::rows(dx.data_mut(), k_len, |first, block| {
            for (offset, out) in block.chunks_exact_mut(k_len).enumerate() {
                let row = first + offset;
                let (keys, bell) = self.window.of(row);
                let range = row * k_len..(row + 1) * k_len;
                weigh_back(out, [&dy[range.clone()], &y[range]], [keys.start, keys.end], bell);
            }
        });
        if let Some(centre) = &self.centre {
            let of_row = |row: usize| match self.window.of(row).1 {
                Some([p, inverse]) => {
                    let range = row * k_len..(row + 1) * k_len;
                    let products = y[range.clone()].iter().zip(&dy[range]).zip(0..);
                    let moved: f32 = products.map(|((y, dy), s)| y * dy * (s as f32 - p)).sum();
                    moved * inverse * self.window.lengths[row / self.window.q_len] as f32
                }
                None => 0.0,
            };
            let of_centre = (0..centre.value().len()).map(of_row).collect();
            gradients.add(centre, &Tensor::new(centre.shape(), of_centre));
        }
        gradients.add(&self.scores, &dx);
    }
}

vectorised! {
    /// Weights of one query: the keys from keys[0] to before keys[1].
    fn weigh(out: &mut [f32], scores: &[f32], keys: [usize; 2], bell: Bell) {
        out.fill(0.0);
        let (out, scores) = (&mut out[keys[0]..keys[1]], &scores[keys[0]..keys[1]]);
        out.copy_from_slice(scores);
        let largest = max(out);
        let shift = if largest == f32::NEG_INFINITY { 0.0 } else { largest };
        for out in out.iter_mut() {
            *out = exp(*out - shift);
        }
        let total = sum(out, |weight| weight);
        if total != 0.0 {
            for out in out.iter_mut() {
                *out /= total;
            }
        }
        if let Some([p, inverse]) = bell {
            for (s, out) in out.iter_mut().enumerate() {
                let away = (keys[0] + s) as f32 - p;
                *out *= exp(-0.5 * away * away * inverse);
            }
        }
    }
}

vectorised! {
    /// Gradient of the scores of one query from those of its weights and the weights.
    fn weigh_back(out: &mut [f32], sides: [&[f32]; 2], keys: [usize; 2], bell: Bell) {
        let [dy, y] = sides;
        let mean = sum2(y, dy, |y, dy| y * dy);
        out.fill(0.0);
        let [p, inverse] = bell.unwrap_or([0.0, 0.0]);
        for s in keys[0]..keys[1] {
            let away = s as f32 - p;
            out[s] = y[s] * (dy[s] - mean * exp(0.5 * away * away * inverse));
        }
    }
}
