//! The residual connection around a sub-layer, with its norm.
//!
//! Post-norm, as in the paper: Norm(x + dropout(f(x))). Pre-norm: x + dropout(f(Norm(x))).

use polyhead_attention::layers::Norm;
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::ops::dropout;
use polyhead_tensor::{Result, Var};

use super::config::NormOrder;
use super::stack::LayerOptions;

/// The residual connection and the norm of one sub-layer.
#[derive(Debug, Clone)]
pub(super) struct Residual {
    /// `None` for a sub-layer of a pre-norm stack whose input is normed already.
    norm: Option<Norm>,
    order: NormOrder,
    dropout: f32,
}

impl Residual {
    pub(super) fn new(builder: &mut Builder<'_>, layer: &LayerOptions) -> Self {
        let norm = Norm::new(builder, layer.norm, layer.d_model, layer.norm_epsilon);
        Self { norm: Some(norm), ..Self::without_norm(layer) }
    }

    /// x + dropout(f(x)), without a norm.
    pub(super) fn without_norm(layer: &LayerOptions) -> Self {
        Self { norm: None, order: layer.norm_order, dropout: layer.dropout.residual }
    }

    /// Applies the sub-layer `f` to x with residual connection and norm.
    pub(super) fn around(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        f: impl FnOnce(&Var) -> Result<Var>,
    ) -> Result<Var> {
        let inner = match (self.order, &self.norm) {
            (NormOrder::Post, Some(norm)) => return norm.after_residual(pass, &f(x)?, x, self.dropout),
            (NormOrder::Pre, Some(norm)) => f(&norm.forward(pass, x)?)?,
            (_, None) => f(x)?,
        };
        dropout::add_dropped(pass.tape, x, &inner, self.dropout)
    }
}
