//! The shortest closed tour through all points, exactly, by dynamic programming over subsets (Held & Karp 1962).

use super::{Point, turn};

/// The shortest closed tour through all points, from point 0, counter-clockwise: O(n²·2ⁿ) steps.
///
/// ```
/// use polyhead_engine::puzzle::shortest_tour;
/// assert_eq!(shortest_tour(&[[0, 0], [9, 9], [0, 9], [9, 0]]), [0, 3, 1, 2]);
/// ```
///
/// # Panics
/// With more than 20 points.
pub fn shortest_tour(points: &[Point]) -> Vec<u32> {
    let n = points.len();
    assert!(n <= 20, "{n} points need 2^{n} subsets");
    if n < 3 {
        return (0..n as u32).collect();
    }
    let mut tour = held_karp(points);
    // The area of a tour that does not cross itself; an optimal tour never does.
    let corner = |at: usize| points[tour[at % n] as usize];
    let area: i128 = (0..n).map(|at| turn(points[0], corner(at), corner(at + 1))).sum();
    if area < 0 {
        tour[1..].reverse();
    }
    tour
}

fn held_karp(points: &[Point]) -> Vec<u32> {
    let n = points.len();
    let distance = |a: usize, b: usize| {
        let [x, y] = [0, 1].map(|axis| (points[a][axis] - points[b][axis]) as f64);
        (x * x + y * y).sqrt()
    };
    // Shortest path from point 0 through the points 1 + bit of `set` to `last`, and the point before it.
    let (sets, others) = (1_usize << (n - 1), n - 1);
    let mut length = vec![f64::INFINITY; sets * others];
    let mut before = vec![0_u8; sets * others];
    for last in 0..others {
        length[(1 << last) * others + last] = distance(0, last + 1);
    }
    for set in 1..sets {
        for last in (0..others).filter(|last| set >> last & 1 == 1) {
            let so_far = length[set * others + last];
            for next in (0..others).filter(|next| set >> next & 1 == 0) {
                let at = (set | 1 << next) * others + next;
                let longer = so_far + distance(last + 1, next + 1);
                if longer < length[at] {
                    (length[at], before[at]) = (longer, last as u8);
                }
            }
        }
    }
    let mut set = sets - 1;
    let closed = |last: &usize| length[set * others + last] + distance(last + 1, 0);
    let mut last = (0..others).min_by(|a, b| closed(a).total_cmp(&closed(b))).unwrap_or(0);
    let mut tour = Vec::with_capacity(n);
    while set != 0 {
        tour.push(last as u32 + 1);
        let previous = before[set * others + last] as usize;
        set &= !(1 << last);
        last = previous;
    }
    tour.push(0);
    tour.reverse();
    tour
}

#[cfg(test)]
mod tests {
    use polyhead_random::Random;

    use super::*;

    fn length(points: &[Point], tour: &[u32]) -> f64 {
        let corner = |at: usize| points[tour[at % tour.len()] as usize];
        let edge = |a: Point, b: Point| ((a[0] - b[0]) as f64).hypot((a[1] - b[1]) as f64);
        (0..tour.len()).map(|at| edge(corner(at), corner(at + 1))).sum()
    }

    /// All tours of seven points from point 0.
    fn best_of_all(points: &[Point], tour: &mut Vec<u32>) -> f64 {
        if tour.len() == points.len() {
            return length(points, tour);
        }
        let mut best = f64::INFINITY;
        for next in 1..points.len() as u32 {
            if !tour.contains(&next) {
                tour.push(next);
                best = best.min(best_of_all(points, tour));
                tour.pop();
            }
        }
        best
    }

    #[test]
    fn no_tour_is_shorter() {
        for row in 0..20 {
            let random = Random::new(8).stream(row);
            let points: Vec<Point> = (0..7)
                .map(|at| [random.below(1000, 2 * at) as i64, random.below(1000, 2 * at + 1) as i64])
                .collect();
            let tour = shortest_tour(&points);
            let best = best_of_all(&points, &mut vec![0]);
            assert!((length(&points, &tour) - best).abs() < 1e-9 * best, "{tour:?}");
            assert_eq!(tour[0], 0);
        }
    }
}
