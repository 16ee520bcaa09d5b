//! Which keys a query may attend to: `true` = may attend, everywhere.
//!
//! A mask is a small description, combined with [`Mask::and`] and [`Mask::or`]. [`Mask::resolve`] makes it ready for the
//! kernel, which skips what is hidden; [`Mask::materialise`] builds the matrix, for the reference path and for pictures.
//! Queries are counted so that the last one stands at the last key.
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

use polyhead_tensor::Indices;
use polyhead_tensor::ops::attention::{AttentionOptions, Direction, Pattern, join};

pub use causal::Causal;
pub use dilated::Dilated;
pub use global::Global;
pub use padding::Padding;
pub use window::Window;

/// Which keys a query may attend to.
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
    /// Everything is seen.
    pub fn full() -> Self {
        Self::default()
    }

    /// Keys from a row's length on do not exist.
    pub fn padding(lengths: impl Into<Indices>) -> Self {
        Self { padding: Some(Padding { lengths: lengths.into() }), rule: Rule::All }
    }

    /// Keys up to the query's own place.
    pub fn causal() -> Self {
        Self::of(Rule::Causal(Causal))
    }

    /// Keys near the query: so many to each side, or a [`Window`].
    pub fn window(window: impl Into<Window>) -> Self {
        Self::of(Rule::Window(window.into()))
    }

    /// So many keys to each side, `dilation` apart, and the query's own place.
    pub fn dilated(window: impl Into<Window>, dilation: usize) -> Self {
        Self::of(Rule::Dilated(Dilated { window: window.into(), dilation: dilation.max(1) }))
    }

    /// Some positions that see all and are seen by all.
    pub fn global(positions: Vec<usize>) -> Self {
        Self::of(Rule::Global(Global::new(positions)))
    }

    fn of(rule: Rule) -> Self {
        Self { padding: None, rule }
    }

    /// Seen if both masks allow it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let rule = match (self.rule, other.rule) {
            (Rule::All, rule) | (rule, Rule::All) => rule,
            (a, b) if a == b => a,
            (a, b) => Rule::And(Box::new([a, b])),
        };
        Self { padding: Padding::shorter(self.padding, other.padding), rule }
    }

    /// Seen if either mask allows it; keys that do not exist stay hidden.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let rule = match (self.rule, other.rule) {
            (Rule::All, _) | (_, Rule::All) => Rule::All,
            (a, b) => Rule::Or(Box::new([a, b])),
        };
        Self { padding: Padding::shorter(self.padding, other.padding), rule }
    }

    /// Ready for attention of `q_len` queries to `k_len` keys; made once, it serves all layers.
    pub fn resolve(&self, q_len: usize, k_len: usize) -> Sight {
        let key_lengths = self.padding.as_ref().map(|padding| padding.lengths.clone());
        let (direction, pattern) = match &self.rule {
            Rule::All => (Direction::Both, None),
            Rule::Causal(_) => (Direction::Causal, None),
            rule => {
                let visible: Vec<_> =
                    (0..q_len).map(|query| rule.seen_from(place(query, q_len, k_len), k_len)).collect();
                (Direction::Both, Some(Arc::new(Pattern::new(&visible, k_len, rule.stride()))))
            }
        };
        Sight { direction, key_lengths, pattern }
    }

    /// What a query at the last of `k_len` keys sees, in rising order; `None` if that is all of them.
    pub fn seen_by_last(&self, k_len: usize) -> Option<Vec<Range<u32>>> {
        match &self.rule {
            Rule::All | Rule::Causal(_) => None,
            rule => Some(rule.seen_from(Some(k_len.saturating_sub(1)), k_len)),
        }
    }

    /// batch × q_len × k_len.
    pub fn materialise(&self, batch: usize, q_len: usize, k_len: usize) -> Vec<bool> {
        let mut out = vec![false; batch * q_len * k_len];
        for row in 0..batch {
            let exists = self.padding.as_ref().map_or(k_len, |padding| padding.lengths.host()[row] as usize);
            for query in 0..q_len {
                for key in self.rule.seen_from(place(query, q_len, k_len), k_len).into_iter().flatten() {
                    out[(row * q_len + query) * k_len + key as usize] = (key as usize) < exists;
                }
            }
        }
        out
    }
}

/// A mask made ready for certain lengths.
#[derive(Debug, Clone)]
pub struct Sight {
    direction: Direction,
    key_lengths: Option<Indices>,
    pattern: Option<Arc<Pattern>>,
}

impl Sight {
    /// `options` with this mask.
    pub fn on(&self, options: AttentionOptions) -> AttentionOptions {
        let Self { direction, key_lengths, pattern } = self.clone();
        AttentionOptions { direction, key_lengths, pattern, ..options }
    }
}

/// The place of a query among the keys; none if it stands before the first.
fn place(query: usize, q_len: usize, k_len: usize) -> Option<usize> {
    (query + k_len).checked_sub(q_len)
}

impl Rule {
    /// The keys that a query at `place` sees, as ranges in rising order that do not touch.
    fn seen_from(&self, place: Option<usize>, k_len: usize) -> Vec<Range<u32>> {
        let Some(place) = place else { return if *self == Self::All { whole(k_len) } else { Vec::new() } };
        match self {
            Self::All => whole(k_len),
            Self::Causal(rule) => rule.seen_from(place, k_len),
            Self::Window(rule) => rule.seen_from(place, k_len),
            Self::Dilated(rule) => rule.seen_from(place, k_len),
            Self::Global(rule) => rule.seen_from(place, k_len),
            Self::And(rules) => {
                let [a, b] = rules.each_ref().map(|rule| rule.seen_from(Some(place), k_len));
                intersection(&a, &b)
            }
            Self::Or(rules) => {
                let [a, b] = rules.each_ref().map(|rule| rule.seen_from(Some(place), k_len));
                join(&a, &b)
            }
        }
    }

    /// Queries so far apart see nearby keys.
    fn stride(&self) -> usize {
        match self {
            Self::Dilated(rule) => rule.dilation,
            Self::And(rules) | Self::Or(rules) => rules[0].stride().max(rules[1].stride()),
            _ => 1,
        }
    }
}

/// All of `k_len` keys.
fn whole(k_len: usize) -> Vec<Range<u32>> {
    between(0, k_len)
}

/// Keys from `start` to before `end`.
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
