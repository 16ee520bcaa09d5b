//! Interventions on a forward pass: heads switched off or scaled, layers skipped.
//!
//! MultiHead = Concat(λ₁·head₁ … λ_h·head_h)·W_O with a factor λ for each head, default 1. λ = 0 ablates a head, exactly
//! as zeros in its rows of W_O would (Michel, Levy & Neubig 2019, "Are sixteen heads really better than one?"). A skipped
//! layer returns its input (Fan, Grave & Joulin 2020, LayerDrop).
//!
//! ```
//! use polyhead_attention::{AttentionKind, Intervention, Site};
//! let site = Site { kind: AttentionKind::cross_attention(0, "cross", "decoder", ["target", "source"]), layer: 1 };
//! let intervention = Intervention::default().head(site, 2, 0.0).without_layer("encoder", 0);
//! assert_eq!(intervention.factors(site, 4), Some(vec![1.0, 1.0, 0.0, 1.0]));
//! assert_eq!(intervention.factors(Site { layer: 0, ..site }, 4), None);
//! assert!(intervention.skips("encoder", 0) && !intervention.skips("decoder", 0));
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::site::Site;

/// The changes made to a forward pass; default: none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Intervention {
    heads: BTreeMap<(Site, usize), f32>,
    layers: BTreeSet<(&'static str, usize)>,
}

impl Intervention {
    /// Multiplies a head's context by `factor`; 0 switches the head off. A later factor for the same head replaces an
    /// earlier one.
    #[must_use]
    pub fn head(mut self, site: Site, head: usize, factor: f32) -> Self {
        self.heads.insert((site, head), factor);
        self
    }

    /// Skips a layer with all its sub-layers.
    #[must_use]
    pub fn without_layer(mut self, stack: &'static str, layer: usize) -> Self {
        self.layers.insert((stack, layer));
        self
    }

    /// True if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.layers.is_empty()
    }

    /// True if the layer is skipped.
    pub fn skips(&self, stack: &'static str, layer: usize) -> bool {
        self.layers.contains(&(stack, layer))
    }

    /// The factor of each of the `n_heads` heads at `site`; `None` if no head there was given one.
    pub fn factors(&self, site: Site, n_heads: usize) -> Option<Vec<f32>> {
        let own = |head| self.heads.get(&(site, head)).copied();
        let is_changed = (0..n_heads).any(|head| own(head).is_some());
        is_changed.then(|| (0..n_heads).map(|head| own(head).unwrap_or(1.0)).collect())
    }

    /// Heads with a factor, sorted by site.
    pub fn heads(&self) -> impl Iterator<Item = (Site, usize, f32)> {
        self.heads.iter().map(|(&(site, head), &factor)| (site, head, factor))
    }

    /// Skipped layers as (stack, layer).
    pub fn layers(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.layers.iter().copied()
    }
}
