//! Attention masks: the keys that a query may attend to. `true` = may attend, everywhere.
//!
//! A mask is a small description, combined with [`Mask::and`] and [`Mask::or`]. [`Mask::resolve`] prepares it for the
//! kernel, which skips masked keys; [`Mask::materialise`] builds the matrix, for the reference path and for pictures.
//! Queries are aligned with the keys at the end: the last query is at the position of the last key.
//!
//! ```
//! use polyhead_attention::Mask;
//! let longformer = Mask::window(1).or(Mask::global(vec![0]));
//! let picture = longformer.materialise(1, 4, 4);
//! #[rustfmt::skip]
//! assert_eq!(picture, [
//!     true, true,  true,  true,
//!     true, true,  true,  false,
//!     true, true,  true,  true,
//!     true, false, true,  true,
//! ]);
//! ```

mod causal;
mod dilated;
mod global;
mod padding;
mod window;

use std::ops::Range;
use std::sync::Arc;

use polyhead_tensor::ops::attention::{AttentionOptions, Direction, Pattern, join};
use polyhead_tensor::{Indices, Tensor};

pub use causal::Causal;
pub use dilated::Dilated;
pub use global::Global;
pub use padding::Padding;
pub use window::Window;

/// An attention mask: the keys that a query may attend to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mask {
    padding: Option<Padding>,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Rule {
    #[default]
    All,
    Causal(Causal),
    Window(Window),
    Dilated(Dilated),
    Global(Global),
    And(Box<[Rule; 2]>),
    Or(Box<[Rule; 2]>),
}

impl Mask {
    /// Full attention: nothing is masked.
    pub fn full() -> Self {
        Self::default()
    }

    /// The padding mask: keys at or after a row's length are masked.
    pub fn padding(lengths: impl Into<Indices>) -> Self {
        Self { padding: Some(Padding { lengths: lengths.into() }), rule: Rule::All }
    }

    /// The causal mask: keys up to the query's own position.
    pub fn causal() -> Self {
        Self::of(Rule::Causal(Causal))
    }

    /// A sliding window: that many keys to each side of the query, or a [`Window`].
    pub fn window(window: impl Into<Window>) -> Self {
        Self::of(Rule::Window(window.into()))
    }

    /// A dilated window: that many keys to each side, `dilation` apart, and the query's own position.
    pub fn dilated(window: impl Into<Window>, dilation: usize) -> Self {
        Self::of(Rule::Dilated(Dilated { window: window.into(), dilation: dilation.max(1) }))
    }

    /// Global tokens: positions that attend to all and are attended to by all.
    pub fn global(positions: Vec<usize>) -> Self {
        Self::of(Rule::Global(Global::new(positions)))
    }

    fn of(rule: Rule) -> Self {
        Self { padding: None, rule }
    }

    /// Intersection: a key is visible if both masks allow it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rule = match (self.rule, other.rule) {
            (Rule::All, rule) | (rule, Rule::All) => rule,
            (a, b) if a == b => a,
            (a, b) => Rule::And(Box::new([a, b])),
        };
        Self { padding: Padding::shorter(self.padding, other.padding), rule }
    }

    /// Union: a key is visible if either mask allows it; padding stays masked.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let rule = match (self.rule, other.rule) {
            (Rule::All, _) | (_, Rule::All) => Rule::All,
            (a, b) => Rule::Or(Box::new([a, b])),
        };
        Self { padding: Padding::shorter(self.padding, other.padding), rule }
    }

    /// Prepares the mask for `q_len` queries and `k_len` keys; computed once, it serves all layers.
    pub fn resolve(&self, q_len: usize, k_len: usize) -> ResolvedMask {
        let key_lengths = self.padding.as_ref().map(|padding| padding.lengths.clone());
        let (direction, pattern) = match &self.rule {
            Rule::All => (Direction::Both, None),
            Rule::Causal(_) => (Direction::Causal, None),
            rule => {
                let visible: Vec<_> =
                    (0..q_len).map(|query| rule.visible_from(position(query, q_len, k_len), k_len)).collect();
                (Direction::Both, Some(Arc::new(Pattern::new(&visible, k_len, rule.stride()))))
            }
        };
        ResolvedMask { direction, key_lengths, pattern, bias: None }
    }

    /// The keys visible to a query at the last of `k_len` positions, in ascending order; `None` if all are visible.
    pub fn visible_from_last(&self, k_len: usize) -> Option<Vec<Range<u32>>> {
        match &self.rule {
            Rule::All | Rule::Causal(_) => None,
            rule => Some(rule.visible_from(Some(k_len.saturating_sub(1)), k_len)),
        }
    }

    /// The mask as a matrix, batch × q_len × k_len.
    pub fn materialise(&self, batch: usize, q_len: usize, k_len: usize) -> Vec<bool> {
        let mut out = vec![false; batch * q_len * k_len];
        for row in 0..batch {
            let length = self.padding.as_ref().map_or(k_len, |padding| padding.lengths.host()[row] as usize);
            for query in 0..q_len {
                for key in self.rule.visible_from(position(query, q_len, k_len), k_len).into_iter().flatten()
                {
                    out[(row * q_len + query) * k_len + key as usize] = (key as usize) < length;
                }
            }
        }
        out
    }
}

/// A mask prepared for a given number of queries and keys.
#[derive(Debug, Clone)]
pub struct ResolvedMask {
    direction: Direction,
    key_lengths: Option<Indices>,
    pattern: Option<Arc<Pattern>>,
    bias: Option<Tensor>,
}

impl ResolvedMask {
    /// The mask with a bias, n_heads × q_len × k_len, which is added to the scaled scores and gets no gradient.
    #[must_use]
    pub fn with_bias(self, bias: Tensor) -> Self {
        Self { bias: Some(bias), ..self }
    }

    /// Returns `options` with this mask.
    pub fn apply(&self, options: AttentionOptions) -> AttentionOptions {
        let Self { direction, key_lengths, pattern, bias } = self.clone();
        AttentionOptions { direction, key_lengths, pattern, bias, ..options }
    }
}

/// The position of a query among the keys; `None` if it lies before the first.
fn position(query: usize, q_len: usize, k_len: usize) -> Option<usize> {
    (query + k_len).checked_sub(q_len)
}

impl Rule {
    /// The keys visible to a query at `position`, as ascending ranges that do not touch.
    fn visible_from(&self, position: Option<usize>, k_len: usize) -> Vec<Range<u32>> {
        let Some(position) = position else {
            return if *self == Self::All { whole(k_len) } else { Vec::new() };
        };
        match self {
            Self::All => whole(k_len),
            Self::Causal(rule) => rule.visible_from(position, k_len),
            Self::Window(rule) => rule.visible_from(position, k_len),
            Self::Dilated(rule) => rule.visible_from(position, k_len),
            Self::Global(rule) => rule.visible_from(position, k_len),
            Self::And(rules) => {
                let [a, b] = rules.each_ref().map(|rule| rule.visible_from(Some(position), k_len));
                intersection(&a, &b)
            }
            Self::Or(rules) => {
                let [a, b] = rules.each_ref().map(|rule| rule.visible_from(Some(position), k_len));
                join(&a, &b)
            }
        }
    }

    /// Distance between queries that attend to neighbouring keys, by which the kernel groups queries.
    fn stride(&self) -> usize {
        match self {
            Self::Dilated(rule) => rule.dilation,
            Self::And(rules) | Self::Or(rules) => rules[0].stride().max(rules[1].stride()),
            _ => 1,
        }
    }
}

/// All `k_len` keys.
fn whole(k_len: usize) -> Vec<Range<u32>> {
    between(0, k_len)
}

/// Keys `start..end`; nothing if that is empty.
fn between(start: usize, end: usize) -> Vec<Range<u32>> {
    (start < end).then_some(start as u32..end as u32).into_iter().collect()
}

fn intersection(a: &[Range<u32>], b: &[Range<u32>]) -> Vec<Range<u32>> {
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while let (Some(left), Some(right)) = (a.get(i), b.get(j)) {
        let both = left.start.max(right.start)..left.end.min(right.end);
        if both.start < both.end {
            out.push(both);
        }
        if left.end < right.end { i += 1 } else { j += 1 }
    }
    out
}
