//! Puzzles with known answers, by which pointer networks are trained and measured (Vinyals et al. 2015).
//!
//! Coordinates are multiples of 10⁻⁶ in the unit square, held as integers, so that every geometric test is exact and the
//! answer is that of the numbers as written. Row i of a seed is a pure function of (seed, i, size).
//!
//! ```
//! use polyhead_engine::puzzle::Puzzle;
//! let row = Puzzle::Sort.make(1, 0, 5)?;
//! let numbers: Vec<f32> = row.order.unwrap().iter().map(|&at| row.coordinates[at as usize]).collect();
//! assert!(numbers.is_sorted());
//! # Ok::<(), polyhead_engine::Error>(())
//! ```

mod delaunay;
mod hull;
mod tour;

use polyhead_random::Random;

pub use self::delaunay::delaunay;
pub use self::hull::convex_hull;
pub use self::tour::shortest_tour;
use crate::point::PointRow;
use crate::{Error, Result};

/// A point in units of 10⁻⁶.
pub type Point = [i64; 2];

/// Units of the side of the square.
const SIDE: usize = 1_000_000;
/// Draws until a row without degenerate points must have been found.
const MOST_DRAWS: u64 = 1000;

/// A kind of puzzle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Puzzle {
    /// Distinct integers from 0 to 99, in ascending order.
    Sort,
    /// The convex hull of points, counter-clockwise from its lowest index.
    Hull,
    /// The triangles of the Delaunay triangulation, by the coordinates of their incentres, each with ascending indices.
    Delaunay,
    /// The shortest closed tour through all points, from point 0, counter-clockwise.
    Tsp,
}

impl Puzzle {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sort, Self::Hull, Self::Delaunay, Self::Tsp];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sort => "sort",
            Self::Hull => "hull",
            Self::Delaunay => "delaunay",
            Self::Tsp => "tsp",
        }
    }

    /// Fewest and most points of a row.
    pub fn sizes(self) -> [usize; 2] {
        match self {
            Self::Sort => [1, 100],
            Self::Hull => [3, 1000],
            Self::Delaunay => [3, 60],
            Self::Tsp => [2, 12],
        }
    }

    /// Row `index` of a seed, with `size` points.
    ///
    /// # Errors
    /// If the puzzle does not have this size.
    pub fn make(self, seed: u64, index: u64, size: usize) -> Result<PointRow> {
        let [fewest, most] = self.sizes();
        if !(fewest..=most).contains(&size) {
            let message = format!("{size} points, expected {fewest} to {most} for {}", self.name());
            return Err(Error::request(message, "choose another --size"));
        }
        let random = Random::new(seed);
        if self == Self::Sort {
            let drawn = random.stream(index).permutation(100);
            let numbers = &drawn[..size];
            let mut order: Vec<u32> = (0..size as u32).collect();
            order.sort_by_key(|&at| numbers[at as usize]);
            let coordinates = numbers.iter().map(|&number| number as f32).collect();
            return Ok(PointRow { coordinates, d_point: 1, order: Some(order) });
        }
        for draw in 0..MOST_DRAWS {
            let random = random.stream_pair(index, draw);
            let at = |number: u64| random.below(SIDE + 1, number) as i64;
            let points: Vec<Point> =
                (0..size as u64).map(|point| [at(2 * point), at(2 * point + 1)]).collect();
            if let Some(order) = self.answer(&points) {
                let coordinates = points.iter().flatten().map(|&unit| (unit as f64 / SIDE as f64) as f32);
                return Ok(PointRow { coordinates: coordinates.collect(), d_point: 2, order: Some(order) });
            }
        }
        Err(Error::request("no points in general position were drawn", "choose another --seed"))
    }

    /// The answer; `None` for points that have none or several.
    fn answer(self, points: &[Point]) -> Option<Vec<u32>> {
        match self {
            Self::Sort => None,
            Self::Hull => Some(convex_hull(points)).filter(|hull| hull.len() >= 3),
            Self::Delaunay => delaunay(points),
            Self::Tsp => Some(shortest_tour(points)),
        }
    }
}

/// Twice the signed area of a triangle: positive if a → b → c turns counter-clockwise.
fn turn(a: Point, b: Point, c: Point) -> i128 {
    let [ax, ay, bx, by, cx, cy] = [a[0], a[1], b[0], b[1], c[0], c[1]].map(i128::from);
    (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_functions_of_seed_and_index_and_every_size_is_checked() {
        for puzzle in Puzzle::ALL {
            let [fewest, _] = puzzle.sizes();
            for size in [fewest, 9] {
                let row = puzzle.make(5, 3, size).unwrap();
                assert_eq!(row, puzzle.make(5, 3, size).unwrap());
                assert_ne!(row.coordinates, puzzle.make(5, 4, size).unwrap().coordinates);
                assert_ne!(row.coordinates, puzzle.make(6, 3, size).unwrap().coordinates);
                assert_eq!(row.len(), size);
            }
            assert!(puzzle.make(5, 3, fewest - 1).is_err() && puzzle.make(5, 3, 2000).is_err());
        }
    }

    #[test]
    fn sorted_numbers_are_distinct_and_below_100() {
        for index in 0..50 {
            let row = Puzzle::Sort.make(1, index, 10).unwrap();
            let order = row.order.as_ref().unwrap();
            let sorted: Vec<f32> = order.iter().map(|&at| row.coordinates[at as usize]).collect();
            assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]), "{sorted:?}");
            assert!(sorted[0] >= 0.0 && sorted[9] <= 99.0);
        }
    }
}
