//! Attention of a decoder to several sources (Zoph & Knight 2016; Libovický & Helcl 2017, "Attention Strategies for
//! Multi-Source Sequence-to-Sequence Learning"; for Transformers Libovický, Helcl & Mareček 2018).
//!
//! Flat: one softmax over the keys of all sources, each projected by matrices of its own:
//! α_kj ∝ exp(q·W_k h_kj/√d_key) over all sources k and their tokens j, context = Σ_k Σ_j α_kj U_k h_kj.
//!
//! Hierarchical: every source k has a context c_k from an attention of its own; a second attention, with the same query, weighs
//! these: β_k ∝ exp(q′·W c_k/√d_key), context = Σ_k β_k U c_k.
//!
//! Keys of flat attention lie one source after the other without padding between, so that the mask is that of one longer
//! sequence ([`SourceOrder`]).

use std::sync::Arc;

use polyhead_tensor::ops::attention::{Columns, StepOptions, attention, attention_weights, cross_step};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding};
use polyhead_tensor::ops::shape::{concat, split};
use polyhead_tensor::{Device, Indices, Result, Tensor, Var};

use crate::builder::Builder;
use crate::mask::{Mask, ResolvedMask};
use crate::multi_head::{CrossAttention, HeadShape, KeyValueProjection, Memory};
use crate::pass::Pass;
use crate::site::Site;

/// The tokens of several sources, one source after the other, those of a row without padding between.
#[derive(Debug, Clone)]
pub struct SourceOrder {
    /// For each row and place the index of its token among those of all sources, first by source, then by row: rows × length.
    order: Indices,
    /// Number of tokens of all sources together, for each row.
    lengths: Indices,
    length: usize,
    /// Number of tokens of each source in each row, in CPU memory.
    parts: Arc<[Vec<u32>]>,
}

impl SourceOrder {
    /// The order of sources of which each has as many tokens as `parts` say, for each row, and is padded to its length in
    /// `padded`; a row of all sources is padded to `length`.
    ///
    /// # Panics
    /// If a row has more tokens than `length`, or a source more than its padded length.
    pub fn new(parts: Vec<Vec<u32>>, padded: &[usize], length: usize) -> Self {
        let rows = parts[0].len();
        let (mut order, mut lengths) = (Vec::with_capacity(rows * length), Vec::with_capacity(rows));
        for row in 0..rows {
            let (start, mut before) = (order.len(), 0);
            for (lengths, &padded) in parts.iter().zip(padded) {
                assert!(lengths[row] as usize <= padded, "{} tokens for a source of {padded}", lengths[row]);
                let first = (before + row * padded) as u32;
                order.extend(first..first + lengths[row]);
                before += rows * padded;
            }
            let own = order.len() - start;
            assert!(own <= length, "{own} tokens for a row of {length}");
            lengths.push(own as u32);
            // Padding, which no query attends to.
            order.resize(start + length, 0);
        }
        Self { order: order.into(), lengths: lengths.into(), length, parts: parts.into() }
    }

    /// Number of tokens of all sources together, for each row.
    pub fn lengths(&self) -> &Indices {
        &self.lengths
    }

    /// Length of a row, padding included.
    pub fn length(&self) -> usize {
        self.length
    }

    /// What differs between batches of one shape.
    pub fn order(&self) -> &Indices {
        &self.order
    }

    /// The same with other entries, which may be on a GPU. Weights can be captured only of the original ones.
    #[must_use]
    pub fn with(&self, order: Indices, lengths: Indices) -> Self {
        Self { order, lengths, ..self.clone() }
    }

    /// Copies the order to `device`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        Ok(self.with(self.order.to_device(device)?, self.lengths.to_device(device)?))
    }

    /// Joins a value of each token of the sources, rows × padded length × width each: rows × length × width.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn join(&self, pass: &Pass<'_>, sources: &[Var]) -> Result<Var> {
        let flat = |source: &Var| {
            let &[rows, length, width] = source.shape() else { unreachable!("rows × length × width") };
            source.reshaped(&[rows * length, width])
        };
        let flat: Vec<Var> = sources.iter().map(flat).collect();
        let table = concat(pass.tape, &flat.iter().collect::<Vec<_>>(), 0)?;
        embedding(pass.tape, &self.order, self.length, &table, &EmbeddingOptions::default())
    }

    /// Captures the weights of each source, from those of all (rows × heads × queries × length), given the number of tokens of
    /// each source in each row.
    fn capture(pass: &Pass<'_>, weights: &Tensor, sites: &[Site], parts: &[Vec<usize>]) {
        let &[rows, heads, queries, length] = weights.shape() else { unreachable!("weights have four axes") };
        let mut starts = vec![0; rows];
        for (&site, lengths) in sites.iter().zip(parts) {
            let longest = lengths.iter().copied().max().unwrap_or(0).max(1);
            let mut own = Tensor::zeros(&[rows, heads, queries, longest]);
            let lines = own.data_mut().chunks_exact_mut(longest).zip(weights.data().chunks_exact(length));
            for (index, (own, all)) in lines.enumerate() {
                let row = index / (heads * queries);
                own[..lengths[row]].copy_from_slice(&all[starts[row]..][..lengths[row]]);
            }
            pass.capture.weights(site, &own);
            starts.iter_mut().zip(lengths).for_each(|(start, length)| *start += length);
        }
    }
}

/// Attention with one softmax over the keys of several sources.
#[derive(Debug, Clone)]
pub struct FlatAttention {
    inner: CrossAttention,
}

/// The projected sources of [`FlatAttention`].
#[derive(Debug)]
pub struct FlatKeys {
    /// Keys and values of each source.
    own: Vec<Var>,
    /// Those of all, joined.
    pub joined: Var,
}

impl FlatAttention {
    /// Declares `query` and `output`.
    pub fn new(builder: &mut Builder<'_>, shape: HeadShape, dropout: f32) -> Self {
        Self { inner: CrossAttention::new(builder, shape, dropout) }
    }

    /// Projects each source by a projection of its own; `sites` name the attention to each.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn keys(
        &self,
        pass: &Pass<'_>,
        sources: &[Var],
        (projections, order): (&[KeyValueProjection], &SourceOrder),
        sites: &[Site],
    ) -> Result<FlatKeys> {
        let project = |((source, projection), &site): ((&Var, &KeyValueProjection), &Site)| {
            self.scaled(pass, projection.forward(pass, source)?, site)
        };
        let own = sources.iter().zip(projections).zip(sites).map(project).collect::<Result<Vec<Var>>>()?;
        let joined = order.join(pass, &own)?;
        Ok(FlatKeys { own, joined })
    }

    /// Keys and values with the factors of an intervention on the values: a head's context of one source is their weighted sum.
    fn scaled(&self, pass: &Pass<'_>, key_value: Var, site: Site) -> Result<Var> {
        if pass.intervention.is_none() {
            return Ok(key_value);
        }
        let [_, d_keys, d_values] = self.inner.shape.widths();
        let parts = split(pass.tape, &key_value, 2, &[d_keys, d_values])?;
        let values = pass.scale_heads(site, parts[1].clone(), self.inner.shape.n_key_heads)?;
        concat(pass.tape, &[&parts[0], &values], 2)
    }

    /// Attends from x (rows × length × d_model) to the tokens of all sources → the shape of x.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        (keys, order, mask): (&FlatKeys, &SourceOrder, &ResolvedMask),
        sites: &[Site],
    ) -> Result<Var> {
        let CrossAttention { query, output, shape, dropout } = &self.inner;
        let query = query.forward(pass, x)?;
        let [_, d_keys, d_values] = shape.widths();
        let columns =
            |var| [Columns { var, start: 0, width: d_keys }, Columns { var, start: d_keys, width: d_values }];
        let [key, value] = columns(&keys.joined);
        let options = mask.apply(shape.options(*dropout));
        if sites.iter().any(|site| pass.capture.wants(*site)) {
            let weights = attention_weights(&query, key, &options)?.to_host()?;
            let part = |lengths: &Vec<u32>| lengths.iter().map(|&length| length as usize).collect();
            SourceOrder::capture(pass, &weights, sites, &order.parts.iter().map(part).collect::<Vec<_>>());
            for (own, &site) in keys.own.iter().zip(sites) {
                let [key, value] = columns(own);
                pass.capture.vectors(site, *shape, [(&query).into(), key, value])?;
            }
        }
        let context = attention(pass.tape, &query, key, value, &options)?;
        output.forward(pass, &context)
    }

    /// One decoding step: x (rows × d_model) attends to the joined sources of each row. The lengths of the rows are those of
    /// all sources together, then those of each.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn step(&self, pass: &Pass<'_>, x: &Var, memory: &Memory<'_>, sites: &[Site]) -> Result<Var> {
        let CrossAttention { query, output, shape, .. } = &self.inner;
        let query = query.forward(pass, x)?;
        let keeps_weights = sites.iter().any(|site| pass.capture.wants(*site));
        let options = StepOptions {
            n_heads: shape.n_heads,
            source: memory.source,
            keeps_weights,
            ..StepOptions::default()
        };
        let attended = cross_step(query.value(), memory.key_values, memory.rows, &options)?;
        if let Some(weights) = attended.weights {
            let &[rows, n_heads, len] = weights.shape() else { unreachable!("rows × n_heads × length") };
            let parts: Vec<Vec<usize>> =
                (1..=sites.len()).map(|source| memory.rows.row_lengths(source).to_vec()).collect();
            SourceOrder::capture(pass, &weights.reshaped(&[rows, n_heads, 1, len]), sites, &parts);
        }
        output.forward(pass, &Var::constant(attended.context))
    }
}

/// The second attention of hierarchical combination: from each position to the contexts of the sources.
#[derive(Debug, Clone)]
pub struct ContextAttention {
    inner: CrossAttention,
    key_value: KeyValueProjection,
}

impl ContextAttention {
    /// Declares `query`, `output` and `key_value`.
    pub fn new(builder: &mut Builder<'_>, shape: HeadShape, dropout: f32) -> Self {
        let inner = CrossAttention::new(builder, shape, dropout);
        Self { inner, key_value: KeyValueProjection::new(&mut builder.at("key_value"), shape) }
    }

    /// Attends from each position of x (… × d_model) to its context of each source, of the same shape → the same shape. The
    /// first `n_rows` rows are captured.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        (contexts, n_rows): (&[Var], usize),
        site: Site,
    ) -> Result<Var> {
        let CrossAttention { query, output, shape, dropout } = &self.inner;
        let [d_query, d_keys, d_values] = shape.widths();
        let outer = x.shape()[..x.shape().len() - 1].to_vec();
        let (positions, n_sources) = (outer.iter().product::<usize>(), contexts.len());
        let query = query.forward(pass, x)?.reshaped(&[positions, 1, d_query]);
        let project = |context: &Var| self.key_value.forward(pass, context);
        let projected = contexts.iter().map(project).collect::<Result<Vec<Var>>>()?;
        let side_by_side = concat(pass.tape, &projected.iter().collect::<Vec<_>>(), outer.len())?;
        let key_value = &side_by_side.reshaped(&[positions, n_sources, d_keys + d_values]);
        let key = Columns { var: key_value, start: 0, width: d_keys };
        let value = Columns { var: key_value, start: d_keys, width: d_values };
        let options = Mask::full().resolve(1, n_sources).apply(shape.options(*dropout));
        if pass.capture.wants(site) {
            let weights = attention_weights(&query, key, &options)?.to_host()?;
            pass.capture.weights(site, &by_rows(&weights, n_rows, outer.get(1).copied().unwrap_or(1)));
        }
        let context = attention(pass.tape, &query, key, value, &options)?;
        let mut to = outer;
        to.push(shape.n_heads * shape.d_value);
        output.forward(pass, &pass.scale_heads(site, context.reshaped(&to), shape.n_heads)?)
    }
}

/// Weights of the first `n_rows` rows, (rows · length) × heads × 1 × sources → rows × heads × length × sources.
fn by_rows(weights: &Tensor, n_rows: usize, length: usize) -> Tensor {
    let &[_, heads, _, n_sources] = weights.shape() else { unreachable!("weights have four axes") };
    let mut out = Tensor::zeros(&[n_rows, heads, length, n_sources]);
    for (index, line) in out.data_mut().chunks_exact_mut(n_sources).enumerate() {
        let (row, head, position) = (index / (heads * length), index / length % heads, index % length);
        let from = ((row * length + position) * heads + head) * n_sources;
        line.copy_from_slice(&weights.data()[from..from + n_sources]);
    }
    out
}
