//! Lines: points to pixels, with gaps, thinned to what a screen can show.

use super::axis::Axis;

/// Segments between gaps, thinned to distinguishable points; y points down from the top of the plot.
pub(super) fn segments(points: &[[f64; 2]], x_axis: &Axis, y_axis: &Axis) -> Vec<Vec<[f64; 2]>> {
    let place = |&[x, y]: &[f64; 2]| Some([x_axis.place(x)?, y_axis.length - y_axis.place(y)?]);
    let placed: Vec<Option<[f64; 2]>> = points.iter().map(place).collect();
    placed
        .split(Option::is_none)
        .map(|segment| thinned(&segment.iter().copied().flatten().collect::<Vec<_>>()))
        .filter(|segment| !segment.is_empty())
        .collect()
}

/// Keeps the first, lowest, highest and last point of each pixel column, so that no peak is lost.
fn thinned(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let same_column = |a: &[f64; 2], b: &[f64; 2]| a[0].floor() == b[0].floor();
    points.chunk_by(same_column).flat_map(extremes).collect()
}

fn extremes(column: &[[f64; 2]]) -> Vec<[f64; 2]> {
    if column.len() <= 4 {
        return column.to_vec();
    }
    let by_height = |&a: &usize, &b: &usize| column[a][1].total_cmp(&column[b][1]);
    let mut kept = vec![0, column.len() - 1];
    kept.extend((0..column.len()).min_by(by_height));
    kept.extend((0..column.len()).max_by(by_height));
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| column[index]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::AxisScale;
    use super::*;

    fn axis(low: f64, high: f64, length: f64) -> Axis {
        Axis { low, high, length, scale: AxisScale::Linear }
    }

    #[test]
    fn nan_and_infinity_make_gaps() {
        let y = [0.0, 1.0, f64::NAN, 2.0, f64::INFINITY, f64::NEG_INFINITY, 4.0, 3.0];
        let points: Vec<[f64; 2]> = y.iter().enumerate().map(|(x, &y)| [x as f64, y]).collect();
        let found = segments(&points, &axis(0.0, 8.0, 80.0), &axis(0.0, 4.0, 40.0));
        let expected =
            vec![vec![[0.0, 40.0], [10.0, 30.0]], vec![[30.0, 20.0]], vec![[60.0, 0.0], [70.0, 10.0]]];
        assert_eq!(found, expected);
        assert!(segments(&[], &axis(0.0, 1.0, 1.0), &axis(0.0, 1.0, 1.0)).is_empty());
    }

    proptest! {
        /// At most four points per column: the ends and the extremes, in their order.
        #[test]
        fn thinning_keeps_peaks(heights in prop::collection::vec(0.0f64..100.0, 1..2000)) {
            let last = heights.len() as f64;
            let points: Vec<[f64; 2]> = heights.iter().enumerate().map(|(x, &y)| [x as f64, y]).collect();
            let found = segments(&points, &axis(0.0, last, 50.0), &axis(0.0, 100.0, 100.0));
            let found = &found[0];
            prop_assert!(found.len() <= 4 * 51);
            prop_assert!(found.windows(2).all(|pair| pair[0][0] < pair[1][0]));
            let column = |x: f64| (x / last * 50.0).floor();
            for at in 0..50 {
                let all = points.iter().filter(|point| column(point[0]) == f64::from(at)).map(|point| 100.0 - point[1]);
                let kept = found.iter().filter(|point| point[0].floor() == f64::from(at)).map(|point| point[1]);
                let ends = |values: &mut dyn Iterator<Item = f64>| values.fold((1e9, -1e9), |(low, high): (f64, f64), y| (low.min(y), high.max(y)));
                let (all, kept) = (ends(&mut { all }), ends(&mut { kept }));
                prop_assert!((all.0 - kept.0).abs() < 1e-9 && (all.1 - kept.1).abs() < 1e-9, "{:?} {:?}", all, kept);
            }
        }
    }
}
