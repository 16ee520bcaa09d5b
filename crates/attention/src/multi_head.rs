//! Multi-head attention (Vaswani et al. 2017, section 3.2.2).
//!
//! MultiHead(Q, K, V) = Concat(head₁ … head_h)·W_O, head_i = softmax(Q·W_Qᵢ (K·W_Kᵢ)ᵀ/√d_key)·V·W_Vᵢ. Keys and queries of a
//! head have d_key numbers, values d_value. Several query heads may share one head of keys and values (Ainslie et al.
//! 2023). Queries, keys and values of self-attention come from one product, and attention reads its columns in place.
//!
//! ```
//! use polyhead_attention::multi_head::{HeadShape, SelfAttention, SelfAttentionOptions};
//! use polyhead_attention::{Builder, Capture, Kind, Mask, Pass, Site};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let options = SelfAttentionOptions::default();
//! let shape = HeadShape::even(12, 3);
//! let layer = SelfAttention::new(&mut Builder::new(&mut parameters).at("attention"), shape, options);
//! parameters.initialise(1);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let x = Var::constant(Tensor::zeros(&[2, 5, 12]));
//! let site = Site { kind: Kind::of_self(0, "encoder", "source"), layer: 0 };
//! let y = layer.forward(&pass, &x, &Mask::causal().resolve(5, 5), site)?;
//! assert_eq!(y.shape(), [2, 5, 12]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::attention::{
    Attended, AttentionOptions, CacheShape, Columns, KeysValues, StepOptions, StepRows, attention,
    attention_weights, cross_step,
};
use polyhead_tensor::ops::shape;
use polyhead_tensor::{Result, Var};

use crate::builder::Builder;
use crate::cache::CacheLayer;
use crate::layers::Linear;
use crate::mask::Sight;
use crate::pass::Pass;
use crate::position::{RelativePositions, Rotary};
use crate::site::Site;

/// Sizes of the heads of one attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    /// Width of input and output.
    pub d_model: usize,
    /// Heads of the queries.
    pub n_heads: usize,
    /// Heads of keys and values; a divisor of `n_heads`.
    pub n_key_heads: usize,
    /// Width of a head's queries and keys.
    pub d_key: usize,
    /// Width of a head's values.
    pub d_value: usize,
}

impl HeadShape {
    /// Heads that share d_model evenly.
    pub const fn even(d_model: usize, n_heads: usize) -> Self {
        let d_head = d_model / n_heads;
        Self { d_model, n_heads, n_key_heads: n_heads, d_key: d_head, d_value: d_head }
    }

    /// Columns of the queries, the keys and the values.
    pub const fn widths(self) -> [usize; 3] {
        [self.n_heads * self.d_key, self.n_key_heads * self.d_key, self.n_key_heads * self.d_value]
    }

    /// Sizes of what a cache keeps.
    pub const fn cache(self) -> CacheShape {
        CacheShape { n_heads: self.n_key_heads, d_key: self.d_key, d_value: self.d_value }
    }

    /// A layer that makes queries, keys or values, or several of them side by side. It starts as part of one matrix that
    /// makes all three, as in other programs: post-norm models stay blind to their source with larger numbers.
    fn projection(self, builder: &mut Builder<'_>, widths: &[usize]) -> Linear {
        Linear::part_of(builder, self.d_model, widths, self.widths().iter().sum())
    }

    fn context(self) -> usize {
        self.n_heads * self.d_value
    }

    fn options(self, dropout: f32) -> AttentionOptions {
        let n_key_heads = Some(self.n_key_heads);
        AttentionOptions { n_heads: self.n_heads, n_key_heads, dropout, ..AttentionOptions::default() }
    }
}

/// How self-attention knows the order of tokens.
#[derive(Debug, Clone, Default)]
pub enum Order {
    /// Only from what was added to the embeddings.
    #[default]
    Embedded,
    /// Queries and keys are turned.
    Rotary(Rotary),
    /// Distances have vectors.
    Relative {
        /// Distances beyond this count as this.
        max_distance: usize,
    },
}

/// Choices of self-attention.
#[derive(Debug, Clone, Default)]
pub struct SelfAttentionOptions {
    /// How the order of tokens is known; from the embeddings.
    pub order: Order,
    /// Probability of dropping a weight in training; 0.
    pub dropout: f32,
}

/// A sequence attends to itself.
#[derive(Debug, Clone)]
pub struct SelfAttention {
    query_key_value: Linear,
    output: Linear,
    shape: HeadShape,
    rotary: Option<Rotary>,
    relative: Option<RelativePositions>,
    dropout: f32,
}

impl SelfAttention {
    /// Declares `query_key_value`, `output` and, for relative positions, `relative`.
    pub fn new(builder: &mut Builder<'_>, shape: HeadShape, options: SelfAttentionOptions) -> Self {
        let (rotary, relative) = match options.order {
            Order::Embedded => (None, None),
            Order::Rotary(rotary) => (Some(rotary), None),
            Order::Relative { max_distance } => {
                let sizes = [shape.d_key, shape.d_value];
                (None, Some(RelativePositions::new(&mut builder.at("relative"), max_distance, sizes)))
            }
        };
        Self {
            query_key_value: shape.projection(&mut builder.at("query_key_value"), &shape.widths()),
            output: Linear::new(&mut builder.at("output"), shape.context(), shape.d_model),
            shape,
            rotary,
            relative,
            dropout: options.dropout,
        }
    }

    /// x, batch × length × d_model → the same shape.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var, sight: &Sight, site: Site) -> Result<Var> {
        let projected = self.query_key_value.forward(pass, x)?;
        let turned = self.turned(pass, &projected)?;
        let [query, key, value] = match &turned {
            None => self.columns(&projected),
            Some([query, key]) => [query.into(), key.into(), self.columns(&projected)[2]],
        };
        let options = AttentionOptions {
            relative: self.relative.as_ref().map(|relative| relative.on(pass)),
            ..sight.on(self.shape.options(self.dropout))
        };
        if pass.capture.wants(site) {
            pass.capture.weights(site, &attention_weights(query, key, &options)?.to_host()?);
            pass.capture.vectors(site, self.shape, [query, key, value])?;
        }
        let context = attention(pass.tape, query, key, value, &options)?;
        self.output.forward(pass, &pass.intervened(site, context, self.shape.n_heads)?)
    }

    /// One more token in each row: x, rows × d_model → the same shape. Its keys and values are kept in `cache`, which says
    /// what it sees.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn step(&self, pass: &Pass<'_>, x: &Var, cache: &mut CacheLayer<'_>, site: Site) -> Result<Var> {
        let projected = self.query_key_value.forward(pass, x)?;
        let relative = self.relative.as_ref().map(|relative| relative.on(pass));
        let options = StepOptions {
            n_heads: self.shape.n_heads,
            rotary: self.rotary.as_ref().map(Rotary::table),
            relative: relative.as_ref(),
            seen: None,
            keeps_weights: pass.capture.wants(site),
        };
        let attended = cache.attend(projected.value(), &options)?;
        let context = pass.intervened(site, seen_context(pass, attended, site), self.shape.n_heads)?;
        self.output.forward(pass, &context)
    }

    /// Queries and keys turned by their positions, if they are.
    fn turned(&self, pass: &Pass<'_>, projected: &Var) -> Result<Option<[Var; 2]>> {
        let Some(rotary) = &self.rotary else { return Ok(None) };
        let parts = shape::split(pass.tape, projected, 2, &self.shape.widths())?;
        Ok(Some([rotary.turn(pass.tape, &parts[0], 0)?, rotary.turn(pass.tape, &parts[1], 0)?]))
    }

    fn columns<'a>(&self, projected: &'a Var) -> [Columns<'a>; 3] {
        let mut start = 0;
        self.shape.widths().map(|width| {
            start += width;
            Columns { var: projected, start: start - width, width }
        })
    }
}

/// A sequence attends to another one.
#[derive(Debug, Clone)]
pub struct CrossAttention {
    query: Linear,
    output: Linear,
    shape: HeadShape,
    dropout: f32,
}

/// Makes keys and values of the sequence that is attended to; a layer has its own, or several share one.
#[derive(Debug, Clone)]
pub struct KeyValueProjection {
    project: Linear,
    shape: HeadShape,
}

impl KeyValueProjection {
    /// Declares a stacked layer here: rows of keys, then rows of values.
    pub fn new(builder: &mut Builder<'_>, shape: HeadShape) -> Self {
        let [_, key, value] = shape.widths();
        Self { project: shape.projection(builder, &[key, value]), shape }
    }

    /// memory, batch × length × d_model → keys and values side by side.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn forward(&self, pass: &Pass<'_>, memory: &Var) -> Result<Var> {
        self.project.forward(pass, memory)
    }

    /// The same, kept for decoding: a slot for each row of the batch.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn keep(&self, pass: &Pass<'_>, memory: &Var) -> Result<KeysValues> {
        KeysValues::of_product(self.shape.cache(), self.forward(pass, memory)?.value())
    }
}

impl CrossAttention {
    /// Declares `query` and `output`.
    pub fn new(builder: &mut Builder<'_>, shape: HeadShape, dropout: f32) -> Self {
        Self {
            query: shape.projection(&mut builder.at("query"), &shape.widths()[..1]),
            output: Linear::new(&mut builder.at("output"), shape.context(), shape.d_model),
            shape,
            dropout,
        }
    }

    /// x, batch × q_len × d_model, attends to `key_value`, batch × k_len × (keys and values) → the shape of x.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        key_value: &Var,
        sight: &Sight,
        site: Site,
    ) -> Result<Var> {
        let query = self.query.forward(pass, x)?;
        let [_, d_keys, d_values] = self.shape.widths();
        let key = Columns { var: key_value, start: 0, width: d_keys };
        let value = Columns { var: key_value, start: d_keys, width: d_values };
        let options = sight.on(self.shape.options(self.dropout));
        if pass.capture.wants(site) {
            pass.capture.weights(site, &attention_weights(&query, key, &options)?.to_host()?);
            pass.capture.vectors(site, self.shape, [(&query).into(), key, value])?;
        }
        let context = attention(pass.tape, &query, key, value, &options)?;
        self.output.forward(pass, &pass.intervened(site, context, self.shape.n_heads)?)
    }

    /// One token in each row, x of rows × d_model, attends to the row's source sentence.
    ///
    /// # Errors
    /// If the shapes do not fit together.
    pub fn step(&self, pass: &Pass<'_>, x: &Var, memory: &Memory<'_>, site: Site) -> Result<Var> {
        let query = self.query.forward(pass, x)?;
        let keeps_weights = pass.capture.wants(site);
        let options = StepOptions { n_heads: self.shape.n_heads, keeps_weights, ..StepOptions::default() };
        let attended = cross_step(query.value(), memory.kept, memory.rows, &options)?;
        let context = pass.intervened(site, seen_context(pass, attended, site), self.shape.n_heads)?;
        self.output.forward(pass, &context)
    }
}

/// What a step of cross-attention attends to.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    /// Keys and values, a slot for each source sentence.
    pub kept: &'a KeysValues,
    /// Which sentence each row reads, and how long that is.
    pub rows: &'a StepRows,
}

/// The context, after the weights were captured if they are wanted.
fn seen_context(pass: &Pass<'_>, attended: Attended, site: Site) -> Var {
    if let Some(weights) = attended.weights {
        let &[rows, n_heads, len] = weights.shape() else { unreachable!("rows × n_heads × length") };
        pass.capture.weights(site, &weights.reshaped(&[rows, n_heads, 1, len]));
    }
    Var::constant(attended.context)
}
