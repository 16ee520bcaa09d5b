//! The rule that every answer of a pointer network follows. It is read off the training data, and the search keeps it.

use serde::{Deserialize, Serialize};

/// What an order of points may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerRule {
    /// Every point once, as a sorted list or a tour.
    #[default]
    Permutation,
    /// Some of the points, each at most once, as a convex hull.
    Subset,
    /// Triangles: three indices after the other, ascending within a triangle, no triangle twice.
    Triangles,
    /// Any points, also several times.
    Free,
}

impl AnswerRule {
    /// The strictest rule that all orders follow; each comes with the number of its points.
    ///
    /// ```
    /// use polyhead_models::pointer::AnswerRule;
    /// let rule = |orders: &[&[u32]]| AnswerRule::of(&orders.iter().map(|order| (*order, 4)));
    /// assert_eq!(rule(&[&[3, 0, 1, 2]]), AnswerRule::Permutation);
    /// assert_eq!(rule(&[&[3, 0, 1, 2], &[0, 2, 3]]), AnswerRule::Subset);
    /// assert_eq!(rule(&[&[0, 1, 2, 0, 1, 3]]), AnswerRule::Triangles);
    /// assert_eq!(rule(&[&[0, 1, 0]]), AnswerRule::Free);
    /// ```
    pub fn of<'a>(orders: &(impl Iterator<Item = (&'a [u32], usize)> + Clone)) -> Self {
        let keeps = |rule: &Self| {
            orders.clone().all(|(order, count)| {
                let each = (0..order.len()).all(|at| rule.allows(&order[..at], order[at], count));
                each && rule.may_end(order, count, 0)
            })
        };
        [Self::Permutation, Self::Subset, Self::Triangles].into_iter().find(keeps).unwrap_or(Self::Free)
    }

    /// True if `point` may follow `order`, among `count` points.
    pub fn allows(self, order: &[u32], point: u32, count: usize) -> bool {
        match self {
            Self::Permutation | Self::Subset => !order.contains(&point),
            Self::Free => true,
            Self::Triangles => {
                let (whole, begun) = order.split_at(order.len() - order.len() % 3);
                let room = count - point as usize;
                match *begun {
                    // Two larger points must remain.
                    [] => room > 2,
                    [first] => point > first && room > 1,
                    [first, second] => {
                        point > second && !whole.chunks_exact(3).any(|known| known == [first, second, point])
                    }
                    _ => false,
                }
            }
        }
    }

    /// True if an answer may end after `order`; an answer of a subset has at least `shortest` points.
    pub fn may_end(self, order: &[u32], count: usize, shortest: usize) -> bool {
        match self {
            Self::Permutation => order.len() == count,
            Self::Subset => order.len() >= shortest.min(count).max(1),
            Self::Triangles => order.len().is_multiple_of(3) && (count < 3 || !order.is_empty()),
            Self::Free => true,
        }
    }

    /// Most points of an answer over `count` points. A triangulation of n points has at most 2n − 5 triangles.
    pub fn longest(self, count: usize) -> usize {
        match self {
            Self::Permutation | Self::Subset => count,
            Self::Triangles => 3 * (2 * count).saturating_sub(5),
            Self::Free => 4 * count,
        }
    }

    /// A description in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Permutation => "every point once",
            Self::Subset => "some of the points, each at most once",
            Self::Triangles => "triangles of three ascending points",
            Self::Free => "any points",
        }
    }
}
