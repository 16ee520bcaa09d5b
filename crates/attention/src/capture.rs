//! Evidence: attention weights and activations of the places one asks for.
//!
//! [`Capture::off`] computes no weights that outlive a block. [`Capture::on`] computes them besides; the numbers that come
//! out are the same.
//!
//! ```
//! use polyhead_attention::{Capture, Filter, Kind, Site};
//! let own = Kind::of_self(0, "decoder", "target").past_only();
//! let cross = Kind::across(1, "cross", "decoder", ["target", "source"]);
//! let capture = Capture::on(Filter { kind: Some(cross), layers: Some(vec![1]), ..Filter::default() });
//! assert!(capture.wants(Site { kind: cross, layer: 1 }));
//! assert!(!capture.wants(Site { kind: own, layer: 1 }));
//! ```

use std::cell::RefCell;

use polyhead_tensor::ops::attention::Columns;
use polyhead_tensor::{Result, Tensor, Var};

use crate::multi_head::HeadShape;
use crate::site::{Kind, Site};
use crate::vectors::Vectors;

/// Which attentions are captured; `None` is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this stack; all.
    pub stack: Option<&'static str>,
    /// Of this kind; all.
    pub kind: Option<Kind>,
    /// Of these layers; all.
    pub layers: Option<Vec<usize>>,
    /// These heads of them; all.
    pub heads: Option<Vec<usize>>,
}

impl Filter {
    /// Whether a head of an attention goes through.
    pub fn accepts_head(&self, site: Site, head: usize) -> bool {
        self.accepts(site) && self.heads.as_ref().is_none_or(|heads| heads.contains(&head))
    }

    /// Whether an attention goes through, with at least some of its heads.
    pub fn accepts(&self, site: Site) -> bool {
        self.stack.is_none_or(|stack| stack == site.kind.stack)
            && self.kind.is_none_or(|kind| kind == site.kind)
            && self.layers.as_ref().is_none_or(|layers| layers.contains(&site.layer))
    }
}

/// The weights of one attention.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Where they come from.
    pub site: Site,
    /// Which heads these are.
    pub heads: Vec<usize>,
    /// batch × heads × q_len × k_len.
    pub weights: Tensor,
}

/// What was captured, in the order in which it happened.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Attention weights.
    pub weights: Vec<Weights>,
    /// Queries, keys and values.
    pub vectors: Vec<Vectors>,
    /// Outputs of layers by name, such as `encoder.layers.0.feed_forward`.
    pub activations: Vec<(String, Tensor)>,
}

/// What to keep of a pass.
#[derive(Debug, Default)]
pub struct Capture {
    filter: Option<Filter>,
    keeps_activations: bool,
    keeps_vectors: bool,
    trace: RefCell<Trace>,
}

impl Capture {
    /// Keeps nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Keeps the weights that `filter` lets through.
    pub fn on(filter: Filter) -> Self {
        Self { filter: Some(filter), ..Self::default() }
    }

    /// Keeps all weights and all activations.
    pub fn everything() -> Self {
        Self { keeps_activations: true, ..Self::on(Filter::default()) }
    }

    /// Keeps queries, keys and values besides the weights, where all tokens go through a layer at once.
    #[must_use]
    pub fn with_vectors(self) -> Self {
        Self { keeps_vectors: true, ..self }
    }

    /// Whether nothing is wanted.
    pub fn is_off(&self) -> bool {
        self.filter.is_none() && !self.keeps_activations
    }

    /// Whether outputs of layers are wanted.
    pub fn wants_activations(&self) -> bool {
        self.keeps_activations
    }

    /// Whether the weights of `site` are wanted.
    pub fn wants(&self, site: Site) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.accepts(site))
    }

    /// Takes the weights of `site`, batch × n_heads × q_len × k_len; only the wanted heads stay.
    ///
    /// # Panics
    /// If `weights` has another number of axes.
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

    /// Takes the vectors of `site`, batch × length × heads side by side, if they are wanted.
    pub(crate) fn vectors(&self, site: Site, shape: HeadShape, columns: [Columns<'_>; 3]) -> Result<()> {
        if self.keeps_vectors && self.wants(site) {
            let vectors = Vectors::of(site, self.heads(shape.n_heads), shape, columns)?;
            self.trace.borrow_mut().vectors.push(vectors);
        }
        Ok(())
    }

    /// The wanted ones of so many heads.
    fn heads(&self, n_heads: usize) -> Vec<usize> {
        let wanted = self.filter.as_ref().and_then(|filter| filter.heads.as_ref());
        (0..n_heads).filter(|head| wanted.is_none_or(|wanted| wanted.contains(head))).collect()
    }

    /// Takes the output of a layer; its name is only made if it is wanted.
    pub fn activation(&self, name: impl FnOnce() -> String, value: &Var) {
        if self.keeps_activations {
            self.trace.borrow_mut().activations.push((name(), value.value().clone()));
        }
    }

    /// What was captured since the last call.
    pub fn take(&self) -> Trace {
        self.trace.take()
    }
}
