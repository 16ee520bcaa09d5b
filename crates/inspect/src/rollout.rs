//! Attention rollout: what each token is made of when the layers are taken together (Abnar & Zuidema 2020).
//!
//! Half of a layer's output comes past its attention, by the residual connection: Ã_l = ½·A_l + ½·I, with A_l the mean
//! over heads. The encoder's rollout is R = Ã_L ⋯ Ã_1, source × source. A decoder token is made of target tokens T and
//! source tokens S; from T = I and S = 0 its self-attention gives (Ã·T, Ã·S), and its cross-attention C, likewise
//! halved, gives (½·T, ½·S + ½·C·R). Every row of (T, S) sums to 1.

use polyhead_attention::{Kind, Site};

use crate::matrix::Matrix;

/// What tokens are made of after the last layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// Source tokens of source tokens.
    pub encoder: Matrix,
    /// Target positions of the target tokens read so far.
    pub decoder: Matrix,
    /// Target positions of source tokens.
    pub cross: Matrix,
}

/// The rollout of a model with `n_layers` in encoder and decoder; `mean` gives an attention averaged over its heads.
/// None if one of them is missing.
pub fn rollout(n_layers: [usize; 2], mean: impl Fn(Site) -> Option<Matrix>) -> Option<Rollout> {
    let [n_encoder, n_decoder] = n_layers;
    let at = |kind, layer| mean(Site { kind, layer });
    let mut encoder: Option<Matrix> = None;
    for layer in 0..n_encoder {
        let own = with_residual(&at(Kind::EncoderSelf, layer)?);
        encoder = Some(encoder.map_or(own.clone(), |before| own.times(&before)));
    }
    let encoder = encoder?;
    let mut state: Option<[Matrix; 2]> = None;
    for layer in 0..n_decoder {
        let (own, cross) = (with_residual(&at(Kind::DecoderSelf, layer)?), at(Kind::Cross, layer)?);
        let looked = cross.times(&encoder);
        let [target, source] = match state {
            None => [own, Matrix::zeros(cross.n_rows(), cross.n_columns())],
            Some([target, source]) => [own.times(&target), own.times(&source)],
        };
        let nothing = Matrix::zeros(target.n_rows(), target.n_columns());
        state = Some([target.mixed(0.5, &nothing, 0.0), source.mixed(0.5, &looked, 0.5)]);
    }
    let [decoder, cross] = state?;
    Some(Rollout { encoder, decoder, cross })
}

/// ½·A + ½·I.
fn with_residual(attention: &Matrix) -> Matrix {
    let mut mixed = Matrix::zeros(attention.n_rows(), attention.n_columns());
    for row in 0..attention.n_rows() {
        let out = mixed.row_mut(row);
        out.iter_mut().zip(attention.row(row)).for_each(|(out, weight)| *out = 0.5 * weight);
        out[row] += 0.5;
    }
    mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(site: Site) -> Matrix {
        match (site.kind, site.layer) {
            (Kind::EncoderSelf, 0) => Matrix::new(2, vec![0.5, 0.5, 0.0, 1.0]),
            (Kind::EncoderSelf, _) => Matrix::new(2, vec![0.0, 1.0, 1.0, 0.0]),
            (Kind::DecoderSelf, _) => Matrix::new(2, vec![1.0, 0.0, 0.5, 0.5]),
            (Kind::Cross, _) => Matrix::new(2, vec![1.0, 0.0, 0.25, 0.75]),
        }
    }

    #[test]
    fn two_layers_by_hand() {
        let found = rollout([2, 1], |site| Some(two(site))).unwrap();
        // Ã₁ = [.75 .25; 0 1], Ã₂ = [.5 .5; .5 .5]; Ã₂·Ã₁ = [.375 .625] in both rows.
        assert_eq!(found.encoder.numbers(), [0.375, 0.625, 0.375, 0.625]);
        // ½·[1 0; .25 .75] and ½·C·R, whose rows are R's.
        assert_eq!(found.decoder.numbers(), [0.5, 0.0, 0.125, 0.375]);
        assert_eq!(found.cross.numbers(), [0.1875, 0.3125, 0.1875, 0.3125]);
    }

    #[test]
    fn everything_comes_from_somewhere() {
        let found = rollout([2, 3], |site| Some(two(site))).unwrap();
        for row in 0..2 {
            let sum: f32 = found.decoder.row(row).iter().chain(found.cross.row(row)).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
        assert_eq!(rollout([2, 1], |site| Some(two(site)).filter(|_| site.kind != Kind::Cross)), None);
    }
}
