//! Captured queries, keys and values of an attention layer, head by head.
//!
//! They are the inputs of the scores, after rotary positions were applied. With q and k of one head, softmax(q·k/√d_key)
//! over all keys are its weights; relative positions add terms of their own to the scores.

use polyhead_tensor::ops::attention::Columns;
use polyhead_tensor::{Result, Tensor};

use crate::multi_head::HeadShape;
use crate::site::Site;

/// The vectors of one attention layer. A key/value head shared by several query heads is repeated for each of them.
#[derive(Debug, Clone)]
pub struct Vectors {
    /// The attention layer.
    pub site: Site,
    /// The captured query heads, from 0.
    pub heads: Vec<usize>,
    /// batch × heads × q_len × d_key.
    pub query: Tensor,
    /// batch × heads × k_len × d_key.
    pub key: Tensor,
    /// batch × heads × k_len × d_value.
    pub value: Tensor,
}

impl Vectors {
    /// Cuts the selected heads out of queries, keys and values whose heads lie side by side.
    pub(crate) fn of(
        site: Site,
        heads: Vec<usize>,
        shape: HeadShape,
        [query, key, value]: [Columns<'_>; 3],
    ) -> Result<Self> {
        let group = shape.n_heads / shape.n_key_heads;
        let shared: Vec<usize> = heads.iter().map(|head| head / group).collect();
        let query = cut(query, &heads, shape.d_key)?;
        let [key, value] = [cut(key, &shared, shape.d_key)?, cut(value, &shared, shape.d_value)?];
        Ok(Self { site, heads, query, key, value })
    }
}

/// batch × length × columns → batch × heads × length × width.
fn cut(columns: Columns<'_>, heads: &[usize], width: usize) -> Result<Tensor> {
    let all = columns.var.value().to_host()?;
    let &[batch, length, row] = all.shape() else {
        unreachable!("queries, keys and values are batch × length × columns")
    };
    let mut data = Vec::with_capacity(batch * heads.len() * length * width);
    for sentence in 0..batch {
        for head in heads {
            for position in 0..length {
                let start = (sentence * length + position) * row + columns.start + head * width;
                data.extend_from_slice(&all.data()[start..start + width]);
            }
        }
    }
    Ok(Tensor::new(&[batch, heads.len(), length, width], data))
}
