//! Multi-head attention (Vaswani et al. 2017, section 3.2.2).
//!
//! MultiHead(Q, K, V) = Concat(head₁ … head_h)·W_O, head_i = softmax(Q·W_Qᵢ (K·W_Kᵢ)ᵀ/√d_key)·V·W_Vᵢ. Queries and keys of
//! a head have width d_key, values d_value. Several query heads may share one key/value head (grouped-query attention,
//! Ainslie et al. 2023). Queries, keys and values of self-attention come from one product, whose columns attention reads
//! in place.
//!
//! ```
//! use polyhead_attention::multi_head::{HeadShape, SelfAttention, SelfAttentionOptions};
//! use polyhead_attention::{AttentionKind, Builder, Capture, Mask, Pass, Site};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let options = SelfAttentionOptions::default();
//! let shape = HeadShape::even(12, 3);
//! let layer = SelfAttention::new(&mut Builder::new(&mut parameters).at("attention"), shape, options);
//! parameters.initialise(1);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let x = Var::constant(Tensor::zeros(&[2, 5, 12]));
//! let site = Site { kind: AttentionKind::self_attention(0, "encoder", "source"), layer: 0 };
//! let y = layer.forward(&pass, &x, &Mask::causal().resolve(5, 5), site)?;
//! assert_eq!(y.shape(), [2, 5, 12]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::attention::{
    AttentionOptions, AttentionOutput, CacheShape, Columns, KeysValues, StepOptions, StepRows, attention,
    attention_weights, cross_step,
};
use polyhead_tensor::ops::shape;
use polyhead_tensor::{Result, Var};

use crate::builder::Builder;
use crate::cache::CacheLayer;
use crate::layers::{Bias, Linear};
use crate::mask::ResolvedMask;
use crate::pass::Pass;
use crate::position::{RelativePositions, Rotary};
use crate::site::Site;

/// Sizes of the heads of one attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    /// Width of input and output.
    pub d_model: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of key/value heads; a divisor of `n_heads`.
    pub n_key_heads: usize,
    /// Width of a head's queries and keys.
    pub d_key: usize,
    /// Width of a head's values.
    pub d_value: usize,
}

impl HeadShape {
    /// `n_heads` heads of width d_model / n_heads each.
    pub const fn even(d_model: usize, n_heads: usize) -> Self {
        let d_head = d_model / n_heads;
        Self { d_model, n_heads, n_key_heads: n_heads, d_key: d_head, d_value: d_head }
    }

    /// Total widths of queries, keys and values.
    pub const fn widths(self) -> [usize; 3] {
        [self.n_heads * self.d_key, self.n_key_heads * self.d_key, self.n_key_heads * self.d_value]
    }

    /// Sizes of the K/V cache.
    pub const fn cache(self) -> CacheShape {
        CacheShape { n_heads: self.n_key_heads, d_key: self.d_key, d_value: self.d_value }
    }

    /// A projection to queries, keys or values, or to several of them side by side. It is initialised as part of one
    /// matrix that projects to all three, as in fairseq and PyTorch: with larger values post-norm models fail to learn to
    /// attend to their source.
    fn projection(self, builder: &mut Builder<'_>, widths: &[usize]) -> Linear {
        Linear::with_fan_out(builder, self.d_model, widths, self.fan_out())
    }

    /// Rows of the matrix that projects to queries, keys and values.
    fn fan_out(self) -> usize {
        self.widths().iter().sum()
    }

    fn context_width(self) -> usize {
        self.n_heads * self.d_value
    }

    pub(crate) fn options(self, dropout: f32) -> AttentionOptions {
        let n_key_heads = Some(self.n_key_heads);
        AttentionOptions { n_heads: self.n_heads, n_key_heads, dropout, ..AttentionOptions::default() }
    }
}

/// The positional encoding inside self-attention.
#[derive(Debug, Clone, Default)]
pub enum PositionEncoding {
    /// None: positions were added to the embeddings.
    #[default]
    Embedded,
    /// Rotary: queries and keys are rotated by their positions.
    Rotary(Rotary),
    /// Relative: distances have learned vectors.
    Relative {
        /// Larger distances are clipped to this.
        max_distance: usize,
    },
}

/// Options of self-attention.
#[derive(Debug, Clone, Default)]
pub struct SelfAttentionOptions {
    /// The positional encoding; default: in the embeddings.
    pub positions: PositionEncoding,
    /// Dropout probability of the attention weights; default: 0.
    pub dropout: f32,
    /// Biases of the projections; default: all have one.
    pub biases: ProjectionBiases,
}

/// Biases of the projections of self-attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectionBiases {
    /// Of queries, keys and values; default: present.
    pub query_key_value: Bias,
    /// Of the output; default: present.
    pub output: Bias,
}

impl Default for ProjectionBiases {
    fn default() -> Self {
        Self { query_key_value: Bias::Present, output: Bias::Present }
    }
}

/// Multi-head self-attention: a sequence attends to itself.
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
        let (rotary, relative) = match options.positions {
            PositionEncoding::Embedded => (None, None),
            PositionEncoding::Rotary(rotary) => (Some(rotary), None),
            PositionEncoding::Relative { max_distance } => {
                let sizes = [shape.d_key, shape.d_value];
                (None, Some(RelativePositions::new(&mut builder.at("relative"), max_distance, sizes)))
            }
        };
        let ProjectionBiases { query_key_value, output } = options.biases;
        let projection = &mut builder.at("query_key_value");
        Self {
            query_key_value: Linear::projection(
                projection,
                (shape.d_model, &shape.widths()),
                shape.fan_out(),
                query_key_value,
            ),
            output: Linear::with(&mut builder.at("output"), shape.context_width(), shape.d_model, output),
            shape,
            rotary,
            relative,
            dropout: options.dropout,
        }
    }

    /// Attends within x (batch × length × d_model) → the same shape.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var, mask: &ResolvedMask, site: Site) -> Result<Var> {
        self.whole(pass, x, mask, None, site)
    }

    /// Same as [`SelfAttention::forward`], and keys and values are kept in `cache`, as many as its rows have tokens.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn prefill(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        (mask, cache): (&ResolvedMask, &mut CacheLayer<'_>),
        site: Site,
    ) -> Result<Var> {
        self.whole(pass, x, mask, Some(cache), site)
    }

    fn whole(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        mask: &ResolvedMask,
        cache: Option<&mut CacheLayer<'_>>,
        site: Site,
    ) -> Result<Var> {
        let projected = self.query_key_value.forward(pass, x)?;
        let rotated = self.rotated(pass, &projected)?;
        let [query, key, value] = match &rotated {
            None => self.columns(&projected),
            Some([query, key]) => [query.into(), key.into(), self.columns(&projected)[2]],
        };
        if let Some(cache) = cache {
            cache.fill(key, value)?;
        }
        let options = AttentionOptions {
            relative: self.relative.as_ref().map(|relative| relative.vars(pass)),
            ..mask.apply(self.shape.options(self.dropout))
        };
        if pass.capture.wants(site) {
            pass.capture.weights(site, &attention_weights(query, key, &options)?.to_host()?);
            pass.capture.vectors(site, self.shape, [query, key, value])?;
        }
        let context = attention(pass.tape, query, key, value, &options)?;
        self.output.forward(pass, &pass.scale_heads(site, context, self.shape.n_heads)?)
    }

    /// One decoding step, a token per row: x (rows × d_model) → the same shape. Keys and values are appended to `cache`,
    /// which also holds the step's mask.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn step(&self, pass: &Pass<'_>, x: &Var, cache: &mut CacheLayer<'_>, site: Site) -> Result<Var> {
        let projected = self.query_key_value.forward(pass, x)?;
        let relative = self.relative.as_ref().map(|relative| relative.vars(pass));
        let options = StepOptions {
            n_heads: self.shape.n_heads,
            rotary: self.rotary.as_ref().map(Rotary::table),
            relative: relative.as_ref(),
            seen: None,
            keeps_weights: pass.capture.wants(site),
            ..StepOptions::default()
        };
        let attended = cache.attend(projected.value(), &options)?;
        let context = pass.scale_heads(site, captured_context(pass, attended, site), self.shape.n_heads)?;
        self.output.forward(pass, &context)
    }

    /// Queries and keys rotated by their positions; `None` without rotary positions.
    fn rotated(&self, pass: &Pass<'_>, projected: &Var) -> Result<Option<[Var; 2]>> {
        let Some(rotary) = &self.rotary else { return Ok(None) };
        let parts = shape::split(pass.tape, projected, 2, &self.shape.widths())?;
        Ok(Some([rotary.rotate(pass.tape, &parts[0], 0)?, rotary.rotate(pass.tape, &parts[1], 0)?]))
    }

    fn columns<'a>(&self, projected: &'a Var) -> [Columns<'a>; 3] {
        let mut start = 0;
        self.shape.widths().map(|width| {
            start += width;
            Columns { var: projected, start: start - width, width }
        })
    }
}

/// Multi-head cross-attention: a sequence attends to another one.
#[derive(Debug, Clone)]
pub struct CrossAttention {
    pub(crate) query: Linear,
    pub(crate) output: Linear,
    pub(crate) shape: HeadShape,
    pub(crate) dropout: f32,
}

/// The projection of the attended sequence to keys and values; one per layer, or shared by several layers.
#[derive(Debug, Clone)]
pub struct KeyValueProjection {
    project: Linear,
    shape: HeadShape,
}

impl KeyValueProjection {
    /// Declares one stacked linear layer: rows of keys, then rows of values.
    pub fn new(builder: &mut Builder<'_>, shape: HeadShape) -> Self {
        let [_, key, value] = shape.widths();
        Self { project: shape.projection(builder, &[key, value]), shape }
    }

    /// Projects memory (batch × length × d_model) → keys and values side by side.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(&self, pass: &Pass<'_>, memory: &Var) -> Result<Var> {
        self.project.forward(pass, memory)
    }

    /// The same projection as a cache for decoding steps, with a slot for each row of the batch.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn cached(&self, pass: &Pass<'_>, memory: &Var) -> Result<KeysValues> {
        KeysValues::of_product(self.shape.cache(), self.forward(pass, memory)?.value())
    }
}

impl CrossAttention {
    /// Declares `query` and `output`.
    pub fn new(builder: &mut Builder<'_>, shape: HeadShape, dropout: f32) -> Self {
        Self {
            query: shape.projection(&mut builder.at("query"), &shape.widths()[..1]),
            output: Linear::new(&mut builder.at("output"), shape.context_width(), shape.d_model),
            shape,
            dropout,
        }
    }

    /// Attends from x (batch × q_len × d_model) to `key_value` (batch × k_len × (keys and values)) → the shape of x.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn forward(
        &self,
        pass: &Pass<'_>,
        x: &Var,
        key_value: &Var,
        mask: &ResolvedMask,
        site: Site,
    ) -> Result<Var> {
        let query = self.query.forward(pass, x)?;
        let [_, d_keys, d_values] = self.shape.widths();
        let key = Columns { var: key_value, start: 0, width: d_keys };
        let value = Columns { var: key_value, start: d_keys, width: d_values };
        let options = mask.apply(self.shape.options(self.dropout));
        if pass.capture.wants(site) {
            pass.capture.weights(site, &attention_weights(&query, key, &options)?.to_host()?);
            pass.capture.vectors(site, self.shape, [(&query).into(), key, value])?;
        }
        let context = attention(pass.tape, &query, key, value, &options)?;
        self.output.forward(pass, &pass.scale_heads(site, context, self.shape.n_heads)?)
    }

    /// One decoding step: the token of each row, x (rows × d_model), attends to the row's source sentence.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn step(&self, pass: &Pass<'_>, x: &Var, memory: &Memory<'_>, site: Site) -> Result<Var> {
        let query = self.query.forward(pass, x)?;
        let keeps_weights = pass.capture.wants(site);
        let (n_heads, source) = (self.shape.n_heads, memory.source);
        let options = StepOptions { n_heads, source, keeps_weights, ..StepOptions::default() };
        let attended = cross_step(query.value(), memory.key_values, memory.rows, &options)?;
        let context = pass.scale_heads(site, captured_context(pass, attended, site), self.shape.n_heads)?;
        self.output.forward(pass, &context)
    }
}

/// The projected source that a decoding step of cross-attention attends to.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    /// Keys and values, a slot for each source sentence.
    pub key_values: &'a KeysValues,
    /// The source sentence of each row and its length.
    pub rows: &'a StepRows,
    /// The index of these lengths, 0 for a model that reads one source.
    pub source: usize,
}

/// Captures the weights if there are any, and returns the context.
fn captured_context(pass: &Pass<'_>, attended: AttentionOutput, site: Site) -> Var {
    if let Some(weights) = attended.weights {
        let &[rows, n_heads, len] = weights.shape() else { unreachable!("rows × n_heads × length") };
        pass.capture.weights(site, &weights.reshaped(&[rows, n_heads, 1, len]));
    }
    Var::constant(attended.context)
}
