//! The residual connection around a sub-layer, with its norm.
//!
//! Post-norm, as in the paper: Norm(x + dropout(f(x))). Pre-norm: x + dropout(f(Norm(x))).
//!
//! Stochastic depth (Huang et al. 2016) multiplies f by b/(1 − p) in training, with b = 0 with probability p and 1 otherwise, drawn
//! for each row of the batch.

use polyhead_attention::layers::Norm;
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::dropout;
use polyhead_tensor::ops::scale_rows::scale_rows;
use polyhead_tensor::{Result, Tensor, Var};

use super::config::NormOrder;
use super::stack::LayerOptions;

/// The residual connection and the norm of one sub-layer.
#[derive(Debug, Clone)]
pub(super) struct Residual {
    /// `None` for a sub-layer of a pre-norm stack whose input is normed already.
    norm: Option<Norm>,
    order: NormOrder,
    dropout: f32,
    /// Probability that a row skips the sub-layer in training.
    skip: f32,
}

impl Residual {
    pub(super) fn new(builder: &mut Builder<'_>, layer: &LayerOptions) -> Self {
        let norm = Norm::new(builder, layer.norm, layer.d_model, layer.norm_epsilon);
        Self { norm: Some(norm), ..Self::without_norm(layer) }
    }

    /// x + dropout(f(x)), without a norm.
    pub(super) fn without_norm(layer: &LayerOptions) -> Self {
        Self { norm: None, order: layer.norm_order, dropout: layer.dropout.residual, skip: 0.0 }
    }

    /// The same, whose sub-layer a row skips with this probability in training.
    pub(super) fn skipped_with(self, skip: f32) -> Self {
        Self { skip, ..self }
    }

    /// Applies the sub-layer `f` to x with residual connection and norm.
    pub(super) fn around(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        f: impl FnOnce(&Var) -> Result<Var>,
    ) -> Result<Var> {
        let inner = match (self.order, &self.norm) {
            (NormOrder::Post, Some(norm)) => {
                let inner = self.skipping(pass, f(x)?)?;
                return norm.after_residual(pass, &inner, x, self.dropout);
            }
            (NormOrder::Pre, Some(norm)) => f(&norm.forward(pass, x)?)?,
            (_, None) => f(x)?,
        };
        dropout::add_dropped(pass.tape, x, &self.skipping(pass, inner)?, self.dropout)
    }

    /// The output of the sub-layer (rows × …), 0 for rows that skip it.
    fn skipping(&self, pass: &Pass<'_>, inner: Var) -> Result<Var> {
        if self.skip == 0.0 || !pass.tape.is_training() {
            return Ok(inner);
        }
        let rows = inner.shape()[0];
        let ones = Tensor::new(&[rows], vec![1.0; rows]).to_device(&pass.parameters.device())?;
        let kept = dropout::dropout(pass.tape, &Var::constant(ones), self.skip)?;
        scale_rows(pass.tape, &inner, kept.value())
    }
}
