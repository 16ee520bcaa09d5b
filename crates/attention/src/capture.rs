//! Capture of attention weights, vectors and activations at selected sites.
//!
//! [`Capture::off`] lets fused kernels run, which never store the weights. [`Capture::on`] computes the weights in
//! addition; the output of the model is the same.
//!
//! ```
//! use polyhead_attention::{Capture, Filter, AttentionKind, Site};
//! let own = AttentionKind::self_attention(0, "decoder", "target").causal();
//! let cross = AttentionKind::cross_attention(1, "cross", "decoder", ["target", "source"]);
//! let capture = Capture::on(Filter { kind: Some(cross), layers: Some(vec![1]), ..Filter::default() });
//! assert!(capture.wants(Site { kind: cross, layer: 1 }));
//! assert!(!capture.wants(Site { kind: own, layer: 1 }));
//! ```

use std::cell::RefCell;

use polyhead_tensor::ops::attention::Columns;
use polyhead_tensor::{Result, Tensor, Var};

use crate::multi_head::HeadShape;
use crate::site::{AttentionKind, Site};
use crate::vectors::Vectors;

/// A selection of attention heads; every field is `None` by default and then matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The stack; default: all.
    pub stack: Option<&'static str>,
    /// The kind of attention; default: all.
    pub kind: Option<AttentionKind>,
    /// The layers, from 0; default: all.
    pub layers: Option<Vec<usize>>,
    /// The heads, from 0; default: all.
    pub heads: Option<Vec<usize>>,
}

impl Filter {
    /// True if the filter selects this head of the attention at `site`.
    pub fn accepts_head(&self, site: Site, head: usize) -> bool {
        self.accepts(site) && self.heads.as_ref().is_none_or(|heads| heads.contains(&head))
    }

    /// True if the filter selects the attention at `site`, whatever its heads.
    pub fn accepts(&self, site: Site) -> bool {
        self.stack.is_none_or(|stack| stack == site.kind.stack)
            && self.kind.is_none_or(|kind| kind == site.kind)
            && self.layers.as_ref().is_none_or(|layers| layers.contains(&site.layer))
    }
}

/// The captured weights of one attention.
#[derive(Debug, Clone)]
pub struct Weights {
    /// The attention that computed them.
    pub site: Site,
    /// The captured heads, from 0.
    pub heads: Vec<usize>,
    /// batch × heads × q_len × k_len.
    pub weights: Tensor,
}

/// Everything captured, in the order of computation.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Attention weights.
    pub weights: Vec<Weights>,
    /// Queries, keys and values.
    pub vectors: Vec<Vectors>,
    /// Outputs of layers by name, such as `encoder.layers.0.feed_forward`.
    pub activations: Vec<(String, Tensor)>,
}

/// The selection of what to capture in a pass, and what has been captured so far.
#[derive(Debug, Default)]
pub struct Capture {
    filter: Option<Filter>,
    keeps_activations: bool,
    keeps_vectors: bool,
    trace: RefCell<Trace>,
}

impl Capture {
    /// Captures nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Captures the weights that `filter` selects.
    pub fn on(filter: Filter) -> Self {
        Self { filter: Some(filter), ..Self::default() }
    }

    /// Captures all weights and all activations.
    pub fn everything() -> Self {
        Self { keeps_activations: true, ..Self::on(Filter::default()) }
    }

    /// Captures queries, keys and values too, in passes over whole sequences (not in decoding steps).
    #[must_use]
    pub fn with_vectors(self) -> Self {
        Self { keeps_vectors: true, ..self }
    }

    /// Captures outputs of layers too.
    #[must_use]
    pub fn with_activations(self) -> Self {
        Self { keeps_activations: true, ..self }
    }

    /// True if nothing is captured.
    pub fn is_off(&self) -> bool {
        self.filter.is_none() && !self.keeps_activations
    }

    /// True if outputs of layers are captured.
    pub fn wants_activations(&self) -> bool {
        self.keeps_activations
    }

    /// True if the weights of `site` are captured.
    pub fn wants(&self, site: Site) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.accepts(site))
    }

    /// Records the weights of `site`, batch × n_heads × q_len × k_len, for the selected heads only.
    ///
    /// # Panics
    /// If `weights` does not have four axes.
    pub fn weights(&self, site: Site, weights: &Tensor) {
        let &[batch, n_heads, q_len, k_len] = weights.shape() else {
            panic!("weights of {site} have shape {:?}", weights.shape());
        };
        if !self.wants(site) {
            return;
        }
        let heads = self.heads(n_heads);
        let weights = if heads.len() == n_heads {
            weights.clone()
        } else {
            let size = q_len * k_len;
            let parts =
                (0..batch).flat_map(|row| heads.iter().map(move |head| (row * n_heads + head) * size));
            let data = parts.flat_map(|start| &weights.data()[start..start + size]).copied().collect();
            Tensor::new(&[batch, heads.len(), q_len, k_len], data)
        };
        self.trace.borrow_mut().weights.push(Weights { site, heads, weights });
    }

    /// Records queries, keys and values of `site`, each batch × length × (heads side by side), if they are captured.
    pub(crate) fn vectors(&self, site: Site, shape: HeadShape, columns: [Columns<'_>; 3]) -> Result<()> {
        if self.keeps_vectors && self.wants(site) {
            let vectors = Vectors::of(site, self.heads(shape.n_heads), shape, columns)?;
            self.trace.borrow_mut().vectors.push(vectors);
        }
        Ok(())
    }

    /// The selected heads of `n_heads`.
    fn heads(&self, n_heads: usize) -> Vec<usize> {
        let selected = self.filter.as_ref().and_then(|filter| filter.heads.as_ref());
        (0..n_heads).filter(|head| selected.is_none_or(|selected| selected.contains(head))).collect()
    }

    /// Records the output of a layer if activations are captured; `name` is called only then.
    pub fn activation(&self, name: impl FnOnce() -> String, value: &Var) {
        if self.keeps_activations {
            self.trace.borrow_mut().activations.push((name(), value.value().clone()));
        }
    }

    /// Returns everything captured since the last call.
    pub fn take(&self) -> Trace {
        self.trace.take()
    }
}
