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
    norm: Norm,
    order: NormOrder,
    dropout: f32,
}

impl Residual {
    pub(super) fn new(builder: &mut Builder<'_>, layer: &LayerOptions) -> Self {
        Self {
            norm: Norm::new(builder, layer.norm, layer.d_model, layer.norm_epsilon),
            order: layer.norm_order,
            dropout: layer.dropout.residual,
        }
    }

    /// Applies the sub-layer `f` to x with residual connection and norm.
    pub(super) fn around(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        f: impl FnOnce(&Var) -> Result<Var>,
    ) -> Result<Var> {
        match self.order {
            NormOrder::Post => self.norm.after_residual(pass, &f(x)?, x, self.dropout),
            NormOrder::Pre => {
                let inner = f(&self.norm.forward(pass, x)?)?;
                dropout::add_dropped(pass.tape, x, &inner, self.dropout)
            }
        }
    }
}
