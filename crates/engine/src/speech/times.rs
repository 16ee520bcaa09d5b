//! Times of tokens from cross-attention: the cheapest monotone path through the weights (dynamic time warping).
//!
//! The weights of each head are normalised over the tokens and smoothed over time by a median of 7; their mean over the heads
//! is the similarity of a token and a position. (Radford et al. 2023; Giorgino 2009.)

use polyhead_tensor::Tensor;

/// Width of the median filter.
const MEDIAN: usize = 7;

/// The position at which each token begins, from its weights in several heads: tokens × positions each.
pub(super) fn starts(heads: &[Tensor]) -> Vec<usize> {
    let Some(&[tokens, positions]) = heads.first().map(Tensor::shape) else { return Vec::new() };
    let mut similarity = vec![0.0; tokens * positions];
    for head in heads {
        let normalised = normalised(head.data(), positions);
        for (row, sums) in normalised.chunks_exact(positions).zip(similarity.chunks_exact_mut(positions)) {
            let smooth = smoothed(row);
            sums.iter_mut().zip(smooth).for_each(|(sum, value)| *sum += value / heads.len() as f64);
        }
    }
    path(&similarity, positions)
}

/// (w − mean) / standard deviation over the tokens, for each position; 0 where all tokens have one weight.
fn normalised(weights: &[f32], positions: usize) -> Vec<f64> {
    let tokens = weights.len() / positions;
    let mut out = vec![0.0; weights.len()];
    for position in 0..positions {
        let column = || weights.iter().skip(position).step_by(positions).map(|weight| f64::from(*weight));
        let mean = column().sum::<f64>() / tokens as f64;
        let variance = column().map(|weight| (weight - mean).powi(2)).sum::<f64>() / tokens as f64;
        if variance > 0.0 {
            let deviation = variance.sqrt();
            for (token, weight) in column().enumerate() {
                out[token * positions + position] = (weight - mean) / deviation;
            }
        }
    }
    out
}

/// The median of each value and its neighbours; the row is reflected at its ends.
fn smoothed(row: &[f64]) -> Vec<f64> {
    let half = MEDIAN / 2;
    if row.len() <= half {
        return row.to_vec();
    }
    let last = row.len() - 1;
    let at = |place: isize| {
        let place = place.unsigned_abs();
        row[if place > last { 2 * last - place } else { place }]
    };
    let median = |center: usize| {
        let mut window: [f64; MEDIAN] =
            std::array::from_fn(|offset| at((center + offset) as isize - half as isize));
        window.sort_by(f64::total_cmp);
        window[half]
    };
    (0..row.len()).map(median).collect()
}

/// For each token the first position of the cheapest monotone path, whose cost is the negative similarity.
fn path(similarity: &[f64], positions: usize) -> Vec<usize> {
    let tokens = similarity.len() / positions;
    let width = positions + 1;
    let mut cost = vec![f64::INFINITY; (tokens + 1) * width];
    // 0: both go on, 1: the token alone, 2: the position alone.
    let mut steps = vec![2_u8; (tokens + 1) * width];
    cost[0] = 0.0;
    for token in 1..=tokens {
        for position in 1..=positions {
            let here = token * width + position;
            let [both, only_token, only_position] =
                [cost[here - width - 1], cost[here - width], cost[here - 1]];
            let (before, step) = if both < only_token && both < only_position {
                (both, 0)
            } else if only_token < both && only_token < only_position {
                (only_token, 1)
            } else {
                (only_position, 2)
            };
            cost[here] = before - similarity[(token - 1) * positions + position - 1];
            steps[here] = step;
        }
        steps[token * width] = 1;
    }
    let mut starts = vec![0; tokens];
    let (mut token, mut position) = (tokens, positions);
    while token > 0 || position > 0 {
        if token > 0 {
            starts[token - 1] = position.saturating_sub(1);
        }
        match steps[token * width + position] {
            0 => (token, position) = (token - 1, position - 1),
            1 => token -= 1,
            _ => position -= 1,
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_follows_a_diagonal_of_blocks() {
        // Three tokens that attend to four positions each.
        let weights =
            (0..3).flat_map(|token| (0..12).map(move |position| f32::from(u8::from(position / 4 == token))));
        let head = Tensor::new(&[3, 12], weights.collect());
        assert_eq!(starts(&[head]), [0, 4, 8]);
        assert_eq!(starts(&[]), Vec::<usize>::new());
    }

    #[test]
    fn paths_are_those_of_transformers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/speech/speech.json.gz");
        let file = std::fs::File::open(path).unwrap();
        let golden: serde_json::Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
        let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
        for case in list(&golden["times"]) {
            let [n_heads, tokens, positions] =
                [0, 1, 2].map(|at| case["shape"][at].as_u64().unwrap() as usize);
            let weights: Vec<f32> =
                list(&case["weights"]).iter().map(|weight| weight.as_f64().unwrap() as f32).collect();
            let heads: Vec<Tensor> = weights
                .chunks_exact(tokens * positions)
                .map(|head| Tensor::new(&[tokens, positions], head.to_vec()))
                .collect();
            let expected: Vec<usize> =
                list(&case["starts"]).iter().map(|start| start.as_u64().unwrap() as usize).collect();
            assert_eq!(heads.len(), n_heads);
            assert_eq!(starts(&heads), expected, "{n_heads} {tokens} {positions}");
        }
    }

    #[test]
    fn medians_reflect_the_ends() {
        assert_eq!(smoothed(&[0.0, 0.0, 9.0, 0.0, 0.0]), [0.0; 5]);
        assert_eq!(smoothed(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        // Around the first: 2 3 4 5 4 3 2.
        assert_eq!(smoothed(&[5.0, 4.0, 3.0, 2.0]), [3.0, 3.0, 4.0, 4.0]);
    }
}
