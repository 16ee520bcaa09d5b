//! The attention layers of a model as data: what attends to what, in which layers, with how many heads.
//!
//! A model publishes its [`Sites`]; capture, interventions, traces, pictures and the explorer read them and know no model.
//!
//! ```
//! use polyhead_attention::multi_head::HeadShape;
//! use polyhead_attention::{AttentionKind, Site, SiteGroup, Sites};
//! let own = AttentionKind::self_attention(0, "text", "text").causal();
//! let sites = Sites::new(vec![SiteGroup { kind: own, n_layers: 2, heads: HeadShape::even(12, 3) }]);
//! assert_eq!(sites.all().last(), Some(Site { kind: own, layer: 1 }));
//! assert_eq!(sites.named("text").map(|group| group.heads.n_heads), Some(3));
//! assert_eq!(Site { kind: own, layer: 1 }.to_string(), "text.layers.1.self_attention");
//! assert_eq!(own.title(), "text self-attention: text ↓ attends to the text so far →");
//! ```

use crate::multi_head::HeadShape;

/// The name of a self-attention sub-layer.
const SELF_ATTENTION: &str = "self_attention";
/// The name of a cross-attention sub-layer.
const CROSS_ATTENTION: &str = "cross_attention";

/// A kind of attention: what attends to what in each layer of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttentionKind {
    /// Its rank among the kinds of a model, by which sites are sorted.
    pub rank: usize,
    /// The name in files and on the command line, unique in a model, such as `cross`.
    pub name: &'static str,
    /// The stack of layers it belongs to, such as `decoder`.
    pub stack: &'static str,
    /// The sub-layer, such as `cross_attention`.
    pub sub_layer: &'static str,
    /// The sequence that the queries come from, such as `target`.
    pub queries: &'static str,
    /// The sequence that the keys come from, such as `source`.
    pub keys: &'static str,
    /// True if no position attends to a later one.
    pub is_causal: bool,
}

impl AttentionKind {
    /// The self-attention of a stack, named after it, over the positions of `sequence`.
    pub const fn self_attention(rank: usize, stack: &'static str, sequence: &'static str) -> Self {
        let (name, sub_layer) = (stack, SELF_ATTENTION);
        Self { rank, name, stack, sub_layer, queries: sequence, keys: sequence, is_causal: false }
    }

    /// The cross-attention called `name`, from the positions of one sequence to those of another.
    pub const fn cross_attention(
        rank: usize,
        name: &'static str,
        stack: &'static str,
        [queries, keys]: [&'static str; 2],
    ) -> Self {
        Self { rank, name, stack, sub_layer: CROSS_ATTENTION, queries, keys, is_causal: false }
    }

    /// The same kind with a causal mask.
    #[must_use]
    pub const fn causal(self) -> Self {
        Self { is_causal: true, ..self }
    }

    /// True if a sequence attends to itself.
    pub fn is_self(self) -> bool {
        self.sub_layer == SELF_ATTENTION
    }

    /// A title in words, such as `cross-attention: target ↓ attends to source →`.
    pub fn title(self) -> String {
        let Self { stack, queries, keys, .. } = self;
        let so_far = if self.is_causal { format!("the {keys} so far") } else { keys.to_owned() };
        let stack = if self.is_self() { format!("{stack} ") } else { String::new() };
        format!("{stack}{}: {queries} ↓ attends to {so_far} →", self.sub_layer.replace('_', "-"))
    }
}

/// One attention layer of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The kind of attention.
    pub kind: AttentionKind,
    /// The layer of its stack, from 0.
    pub layer: usize,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.layers.{}.{}", self.kind.stack, self.layer, self.kind.sub_layer)
    }
}

/// The attention layers of one kind, one in each layer of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteGroup {
    /// The kind of attention.
    pub kind: AttentionKind,
    /// Number of layers.
    pub n_layers: usize,
    /// Sizes of the heads of each layer.
    pub heads: HeadShape,
}

/// All attention layers of a model, in the order of computation; empty for a model without attention.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sites {
    groups: Vec<SiteGroup>,
}

impl Sites {
    /// The sites of `groups`.
    pub fn new(groups: Vec<SiteGroup>) -> Self {
        Self { groups }
    }

    /// The groups.
    pub fn groups(&self) -> &[SiteGroup] {
        &self.groups
    }

    /// True for a model without attention.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The group of a kind.
    pub fn of(&self, kind: AttentionKind) -> Option<&SiteGroup> {
        self.groups.iter().find(|group| group.kind == kind)
    }

    /// The group whose kind is called `name`.
    pub fn named(&self, name: &str) -> Option<&SiteGroup> {
        self.groups.iter().find(|group| group.kind.name == name)
    }

    /// The first group of each stack, in order; its sizes are those of the stack.
    pub fn stacks(&self) -> Vec<&SiteGroup> {
        let mut found: Vec<&SiteGroup> = Vec::new();
        for group in &self.groups {
            if !found.iter().any(|known| known.kind.stack == group.kind.stack) {
                found.push(group);
            }
        }
        found
    }

    /// Every attention layer.
    pub fn all(&self) -> impl Iterator<Item = Site> {
        let layers =
            |group: &SiteGroup| (0..group.n_layers).map(|layer| (group.kind, layer)).collect::<Vec<_>>();
        self.groups.iter().flat_map(layers).map(|(kind, layer)| Site { kind, layer })
    }
}
