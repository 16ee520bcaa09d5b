//! Attention entropy of a head, in bits (Voita et al. 2019; Clark et al. 2019).
//!
//! H = −Σ_j a_ij·log₂ a_ij, averaged over the queries i. 0: every query attends to one token; log₂ n: to n tokens equally.

use crate::matrix::Matrix;

/// Mean entropy of the rows, in bits; rows without weights count as 0.
pub fn entropy(weights: &Matrix) -> f64 {
    let n_rows = weights.n_rows();
    let sum: f64 = weights.rows().map(of_row).sum();
    if n_rows == 0 { 0.0 } else { sum / n_rows as f64 }
}

/// Entropy of one distribution, in bits.
fn of_row(row: &[f32]) -> f64 {
    let part = |&weight: &f32| if weight > 0.0 { -f64::from(weight) * f64::from(weight).log2() } else { 0.0 };
    // −0 would be printed with its sign.
    row.iter().map(part).sum::<f64>().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_definition() {
        let even = Matrix::new(4, vec![0.25; 4]);
        let certain = Matrix::new(4, vec![0.0, 1.0, 0.0, 0.0]);
        // 1/2·1 + 1/4·2 + 1/8·3 + 1/8·3 = 1.75.
        let skewed = Matrix::new(4, vec![0.5, 0.25, 0.125, 0.125]);
        assert_eq!([&even, &certain, &skewed].map(entropy), [2.0, 0.0, 1.75]);
        let both = Matrix::new(4, [even.numbers(), certain.numbers()].concat());
        assert_eq!(entropy(&both), 1.0);
    }
}
