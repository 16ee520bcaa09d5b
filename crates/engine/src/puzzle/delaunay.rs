//! The Delaunay triangulation: the triangles whose circumscribed circle contains no other point.
//!
//! All triples are tested, exactly: n⁴ steps, for the small n of puzzles.

use super::{Point, turn};

/// The indices of all triangles, one triangle after the other: by the coordinates of their incentres, x first, each with
/// ascending indices, as in Vinyals et al. `None` if three points are on a line or four on a circle, so that there is
/// none or more than one triangulation.
pub fn delaunay(points: &[Point]) -> Option<Vec<u32>> {
    let n = points.len();
    let mut triangles: Vec<([f64; 2], [u32; 3])> = Vec::new();
    for i in 0..n {
        for j in i + 1..n {
            for k in j + 1..n {
                let [a, b, c] = [points[i], points[j], points[k]];
                let orientation = turn(a, b, c).signum();
                if orientation == 0 {
                    return None;
                }
                let others = (0..n).filter(|other| ![i, j, k].contains(other));
                let sides = others.map(|other| orientation * in_circle([a, b, c], points[other]).signum());
                let mut nearest = -1;
                for side in sides {
                    nearest = nearest.max(side);
                    if nearest > 0 {
                        break;
                    }
                }
                match nearest {
                    // A point on the circle and none inside.
                    0 => return None,
                    -1 => triangles.push((incentre([a, b, c]), [i as u32, j as u32, k as u32])),
                    _ => {}
                }
            }
        }
    }
    triangles.sort_by(|(a, x), (b, y)| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])).then(x.cmp(y)));
    (!triangles.is_empty()).then(|| triangles.into_iter().flat_map(|(_, corners)| corners).collect())
}

/// Positive if `d` is inside the circle through a counter-clockwise triangle, 0 if it is on it. With coordinates up to 10⁶
/// the determinant is below 10²⁶.
fn in_circle([a, b, c]: [Point; 3], d: Point) -> i128 {
    let row = |point: Point| {
        let [x, y] = [point[0] - d[0], point[1] - d[1]].map(i128::from);
        [x, y, x * x + y * y]
    };
    let [[ax, ay, aw], [bx, by, bw], [cx, cy, cw]] = [row(a), row(b), row(c)];
    ax * (by * cw - bw * cy) - ay * (bx * cw - bw * cx) + aw * (bx * cy - by * cx)
}

/// The centre of the inscribed circle: the corners weighted by the lengths of the opposite sides.
fn incentre([a, b, c]: [Point; 3]) -> [f64; 2] {
    let length = |p: Point, q: Point| ((p[0] - q[0]) as f64).hypot((p[1] - q[1]) as f64);
    let weights = [length(b, c), length(c, a), length(a, b)];
    let sum: f64 = weights.iter().sum();
    [0, 1].map(|axis| {
        (weights[0] * a[axis] as f64 + weights[1] * b[axis] as f64 + weights[2] * c[axis] as f64) / sum
    })
}

#[cfg(test)]
mod tests {
    use polyhead_random::Random;

    use super::super::convex_hull;
    use super::*;

    /// Euler: n points with h corners of the hull have 2n − 2 − h triangles, and these cover the hull.
    #[test]
    fn triangles_cover_the_hull() {
        for row in 0..30 {
            let random = Random::new(4).stream(row);
            let points: Vec<Point> = (0..9)
                .map(|at| {
                    [random.below(1_000_000, 2 * at) as i64, random.below(1_000_000, 2 * at + 1) as i64]
                })
                .collect();
            let found = delaunay(&points).unwrap();
            let hull = convex_hull(&points);
            assert_eq!(found.len() / 3, 2 * points.len() - 2 - hull.len());
            let doubled = |corners: &[u32]| {
                let [a, b, c] = [0, 1, 2].map(|at| points[corners[at] as usize]);
                turn(a, b, c).abs()
            };
            let covered: i128 = found.chunks_exact(3).map(doubled).sum();
            let whole: i128 = (1..hull.len() - 1).map(|at| doubled(&[hull[0], hull[at], hull[at + 1]])).sum();
            assert_eq!(covered, whole);
            assert!(found.chunks_exact(3).all(<[u32]>::is_sorted));
        }
    }

    #[test]
    fn points_on_a_line_or_a_circle_have_no_answer() {
        assert_eq!(delaunay(&[[0, 0], [1, 1], [2, 2]]), None);
        assert_eq!(delaunay(&[[0, 0], [0, 2], [2, 0], [2, 2]]), None);
        assert_eq!(delaunay(&[[0, 0], [0, 2], [3, 0], [2, 2]]), Some(vec![0, 1, 3, 0, 2, 3]));
    }
}
