//! The convex hull by Andrew's monotone chain (1979): lower and upper chain of the points sorted by x, then y.

use super::{Point, turn};

/// The corners of the convex hull, counter-clockwise from the lowest index; points on an edge are no corners.
///
/// ```
/// use polyhead_engine::puzzle::convex_hull;
/// // A square, its centre, and a point on its lower edge.
/// let points = [[1, 1], [2, 0], [0, 2], [0, 0], [2, 2], [1, 0]];
/// assert_eq!(convex_hull(&points), [1, 4, 2, 3]);
/// ```
pub fn convex_hull(points: &[Point]) -> Vec<u32> {
    let mut sorted: Vec<u32> = (0..points.len() as u32).collect();
    let point = |index: u32| points[index as usize];
    sorted.sort_by_key(|&index| point(index));
    sorted.dedup_by_key(|index| point(*index));
    if sorted.len() < 3 {
        return sorted;
    }
    let chain = |indices: &mut dyn Iterator<Item = u32>| {
        let mut chain: Vec<u32> = Vec::new();
        for index in indices {
            while let [.., a, b] = chain[..]
                && turn(point(a), point(b), point(index)) <= 0
            {
                chain.pop();
            }
            chain.push(index);
        }
        // The last point is the first one of the other chain.
        chain.pop();
        chain
    };
    let mut hull = chain(&mut sorted.iter().copied());
    hull.extend(chain(&mut sorted.iter().rev().copied()));
    let lowest = (0..hull.len()).min_by_key(|&at| hull[at]).unwrap_or(0);
    hull.rotate_left(lowest);
    hull
}

#[cfg(test)]
mod tests {
    use polyhead_random::Random;

    use super::*;

    /// Every edge has all points on its left, and every corner turns left.
    #[test]
    fn all_points_lie_left_of_every_edge() {
        for row in 0..200 {
            let random = Random::new(2).stream(row);
            // A small grid has many points on edges, and duplicates.
            let points: Vec<Point> = (0..14)
                .map(|at| [random.below(6, 2 * at) as i64, random.below(6, 2 * at + 1) as i64])
                .collect();
            let hull = convex_hull(&points);
            for (at, &corner) in hull.iter().enumerate() {
                let [a, b, c] = [0, 1, 2].map(|more| points[hull[(at + more) % hull.len()] as usize]);
                assert!(turn(a, b, c) > 0, "{points:?} {hull:?}");
                assert!(points.iter().all(|&other| turn(a, b, other) >= 0), "{points:?} {hull:?}");
                assert!(hull[0] <= corner);
            }
        }
    }

    #[test]
    fn points_on_a_line_have_two_corners() {
        assert_eq!(convex_hull(&[[0, 0], [2, 2], [1, 1]]), [0, 1]);
        assert_eq!(convex_hull(&[[5, 5], [5, 5]]), [0]);
    }
}
