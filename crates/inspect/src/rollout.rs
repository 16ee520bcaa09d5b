//! Attention rollout: contribution of every input token to each token over all layers (Abnar & Zuidema 2020).
//!
//! Half of a layer's output comes through the residual connection: Ã_l = ½·A_l + ½·I, with A_l the mean over heads. The
//! encoder's rollout is R = Ã_L ⋯ Ã_1, source × source. A decoder token is a mixture of target tokens T and source tokens S;
//! from T = I and S = 0 its self-attention gives (Ã·T, Ã·S), and its cross-attention C, likewise halved, gives
//! (½·T, ½·S + ½·C·R). Every row of (T, S) sums to 1.

use polyhead_attention::{AttentionKind, Site, Sites};

use crate::matrix::Matrix;

/// Rollout after the last layer of each stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// For each kind of attention a matrix, query positions × key positions.
    pub parts: Vec<(AttentionKind, Matrix)>,
}

impl Rollout {
    /// The rollout of a kind of attention.
    pub fn of(&self, kind: AttentionKind) -> Option<&Matrix> {
        self.parts.iter().find(|(own, _)| *own == kind).map(|(_, matrix)| matrix)
    }
}

/// Computes the rollout of a model; `mean` returns an attention averaged over its heads. `None` if one of them is missing, or a
/// stack has no self-attention.
pub fn rollout(sites: &Sites, mean: impl Fn(Site) -> Option<Matrix>) -> Option<Rollout> {
    let mut found = Rollout { parts: Vec::new() };
    for stack in sites.stacks() {
        if !stack.kind.is_self() {
            // Without self-attention the flow from one layer to the next is undefined.
            return None;
        }
        let others = sites.groups().iter().map(|group| group.kind);
        let others: Vec<AttentionKind> =
            others.filter(|kind| kind.stack == stack.kind.stack && *kind != stack.kind).collect();
        let mut state: Option<(Matrix, Vec<Matrix>)> = None;
        for layer in 0..stack.n_layers {
            let at = |kind| mean(Site { kind, layer });
            let own = with_residual(&at(stack.kind)?);
            let (mut target, mut sources) = match state {
                Some((target, sources)) => {
                    (own.times(&target), sources.iter().map(|source| own.times(source)).collect())
                }
                None => (own, Vec::new()),
            };
            for (place, kind) in others.iter().enumerate() {
                // The keys may themselves be the output of a stack: its rollout is applied.
                let cross = at(*kind)?;
                let read = found.parts.iter().find(|(own, _)| own.is_self() && own.queries == kind.keys);
                let attended = read.map_or_else(|| cross.clone(), |(_, read)| cross.times(read));
                if sources.len() == place {
                    sources.push(Matrix::zeros(cross.n_rows(), attended.n_columns()));
                }
                target = halved(&target);
                for (other, source) in sources.iter_mut().enumerate() {
                    *source = if other == place { source.mixed(0.5, &attended, 0.5) } else { halved(source) };
                }
            }
            state = Some((target, sources));
        }
        let (own, sources) = state?;
        found.parts.push((stack.kind, own));
        found.parts.extend(others.into_iter().zip(sources));
    }
    (!found.parts.is_empty()).then_some(found)
}

fn halved(matrix: &Matrix) -> Matrix {
    matrix.mixed(0.5, &Matrix::zeros(matrix.n_rows(), matrix.n_columns()), 0.0)
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
    use polyhead_attention::SiteGroup;
    use polyhead_attention::multi_head::HeadShape;

    use super::*;

    const ENCODER: AttentionKind = AttentionKind::self_attention(0, "encoder", "source");
    const DECODER: AttentionKind = AttentionKind::self_attention(1, "decoder", "target").causal();
    const CROSS: AttentionKind = AttentionKind::cross_attention(2, "cross", "decoder", ["target", "source"]);

    fn two(site: Site) -> Matrix {
        Matrix::new(
            2,
            match (site.kind.name, site.layer) {
                ("encoder", 0) => vec![0.5, 0.5, 0.0, 1.0],
                ("encoder", _) => vec![0.0, 1.0, 1.0, 0.0],
                ("decoder", _) => vec![1.0, 0.0, 0.5, 0.5],
                _ => vec![1.0, 0.0, 0.25, 0.75],
            },
        )
    }

    fn sites(n_layers: [usize; 2]) -> Sites {
        let group = |kind, n_layers| SiteGroup { kind, n_layers, heads: HeadShape::even(4, 2) };
        Sites::new(vec![group(ENCODER, n_layers[0]), group(DECODER, n_layers[1]), group(CROSS, n_layers[1])])
    }

    #[test]
    fn two_layers_by_hand() {
        let found = rollout(&sites([2, 1]), |site| Some(two(site))).unwrap();
        let [encoder, decoder, cross] =
            [ENCODER, DECODER, CROSS].map(|kind| found.of(kind).unwrap().numbers());
        // Ã₁ = [.75 .25; 0 1], Ã₂ = [.5 .5; .5 .5]; Ã₂·Ã₁ = [.375 .625] in both rows.
        assert_eq!(encoder, [0.375, 0.625, 0.375, 0.625]);
        // ½·[1 0; .25 .75] and ½·C·R, whose rows are R's.
        assert_eq!(decoder, [0.5, 0.0, 0.125, 0.375]);
        assert_eq!(cross, [0.1875, 0.3125, 0.1875, 0.3125]);
    }

    #[test]
    fn rows_sum_to_one() {
        let found = rollout(&sites([2, 3]), |site| Some(two(site))).unwrap();
        let [decoder, cross] = [DECODER, CROSS].map(|kind| found.of(kind).unwrap());
        for row in 0..2 {
            let sum: f32 = decoder.row(row).iter().chain(cross.row(row)).sum();
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
        let without = |site: Site| Some(two(site)).filter(|_| site.kind != CROSS);
        assert_eq!(rollout(&sites([2, 1]), without), None);
    }

    #[test]
    fn one_stack_has_one_part_and_no_attention_has_none() {
        let alone = Sites::new(vec![SiteGroup { kind: ENCODER, n_layers: 1, heads: HeadShape::even(4, 2) }]);
        let found = rollout(&alone, |site| Some(two(site))).unwrap();
        assert_eq!(found.of(ENCODER).map(Matrix::numbers), Some(&[0.75, 0.25, 0.0, 1.0][..]));
        assert_eq!(rollout(&Sites::default(), |site| Some(two(site))), None);
        let cross = Sites::new(vec![SiteGroup { kind: CROSS, n_layers: 1, heads: HeadShape::even(4, 2) }]);
        assert_eq!(rollout(&cross, |_| Some(Matrix::new(1, vec![1.0, 1.0]))), None);
    }
}
