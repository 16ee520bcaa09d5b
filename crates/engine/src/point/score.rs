//! Scores of answers against expected ones.

use polyhead_models::pointer::AnswerRule;

use super::PointRow;

/// Scores of many answers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PointScores {
    /// Rows with an expected answer.
    pub rows: usize,
    /// Share of answers that are the expected ones, in percent.
    pub sequences: f64,
    /// Share of positions with the expected point, in percent; a missing or surplus position is wrong.
    pub positions: f64,
    /// Mean of the length of the closed tour over that of the expected one; for answers with every point once, of points
    /// in the plane.
    pub tour: Option<f64>,
    /// Mean of the area of the polygon over that of the expected one; for answers with some of the points, of points in
    /// the plane.
    pub area: Option<f64>,
    /// Share of the expected triangles that were found, in percent; for answers of triangles.
    pub triangles: Option<f64>,
}

impl PointScores {
    /// Scores `found` against the orders of `rows`; rows without an order do not count.
    pub fn of<'a>(rows: impl Iterator<Item = (&'a PointRow, &'a [u32])>, rule: AnswerRule) -> Self {
        let (mut count, mut same) = (0, 0);
        let (mut right, mut positions) = (0, 0);
        let (mut tours, mut areas) = (Vec::new(), Vec::new());
        let (mut triangles, mut known) = (0, 0);
        for (row, found) in rows {
            let Some(expected) = &row.order else { continue };
            count += 1;
            same += usize::from(found == expected);
            right += found.iter().zip(expected).filter(|(found, expected)| found == expected).count();
            positions += found.len().max(expected.len());
            if row.d_point == 2 {
                tours.push(ratio(tour_length(row, found), tour_length(row, expected)));
                areas.push(ratio(area(row, found), area(row, expected)));
            }
            let each = |order: &[u32]| order.chunks_exact(3).map(<[u32]>::to_vec).collect::<Vec<_>>();
            let (own, wanted) = (each(found), each(expected));
            known += wanted.len();
            triangles += wanted.iter().filter(|triangle| own.contains(triangle)).count();
        }
        let percent = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
        let mean = |list: &[f64]| (!list.is_empty()).then(|| list.iter().sum::<f64>() / list.len() as f64);
        Self {
            rows: count,
            sequences: percent(same, count),
            positions: percent(right, positions),
            tour: mean(&tours).filter(|_| rule == AnswerRule::Permutation),
            area: mean(&areas).filter(|_| rule == AnswerRule::Subset),
            triangles: (rule == AnswerRule::Triangles).then(|| percent(triangles, known)),
        }
    }
}

fn ratio(found: f64, expected: f64) -> f64 {
    if expected == 0.0 { 1.0 } else { found / expected }
}

fn corners(row: &PointRow, order: &[u32]) -> Vec<[f64; 2]> {
    let corner = |index: &u32| [0, 1].map(|axis| f64::from(row.point(*index as usize)[axis]));
    order.iter().map(corner).collect()
}

/// Length of the closed tour through the points of an order.
fn tour_length(row: &PointRow, order: &[u32]) -> f64 {
    let corners = corners(row, order);
    let next = corners.iter().cycle().skip(1);
    corners.iter().zip(next).map(|(a, b)| (a[0] - b[0]).hypot(a[1] - b[1])).sum()
}

/// Area of the polygon (shoelace formula).
fn area(row: &PointRow, order: &[u32]) -> f64 {
    let corners = corners(row, order);
    let next = corners.iter().cycle().skip(1);
    (corners.iter().zip(next).map(|(a, b)| a[0] * b[1] - a[1] * b[0]).sum::<f64>() / 2.0).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_a_square_by_hand() {
        let row = PointRow {
            coordinates: vec![0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0],
            d_point: 2,
            order: Some(vec![0, 1, 2, 3]),
        };
        let score = |found: &[u32], rule| PointScores::of(std::iter::once((&row, found)), rule);
        let same = score(&[0, 1, 2, 3], AnswerRule::Permutation);
        assert_eq!((same.sequences, same.positions, same.tour), (100.0, 100.0, Some(1.0)));
        // The crossing tour has two diagonals: (2 + 2√2) / 4.
        let crossing = score(&[0, 2, 1, 3], AnswerRule::Permutation);
        assert!((crossing.tour.unwrap() - (2.0 + 2.0 * 2_f64.sqrt()) / 4.0).abs() < 1e-12);
        assert_eq!((crossing.sequences, crossing.positions), (0.0, 50.0));
        let half = score(&[0, 1, 2], AnswerRule::Subset);
        assert_eq!((half.area, half.positions, half.tour), (Some(0.5), 75.0, None));
    }
}
