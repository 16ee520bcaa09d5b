//! Token embeddings, y_t = scale · E(id_t) + position_t, and the same table as an output layer, logits = h·Eᵀ.
//!
//! Press & Wolf 2017 tie the two; Vaswani et al. 2017 scale the embeddings by √d_model.
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, layers::Embedding};
//! use polyhead_tensor::ops::embedding::EmbeddingOptions;
//! use polyhead_tensor::{Parameters, Tape};
//! let mut parameters = Parameters::default();
//! let table = Embedding::new(&mut Builder::new(&mut parameters).at("embedding"), 6, 4);
//! parameters.initialise(0);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let x = table.forward(&pass, &[5, 1, 0, 2].into(), 2, &EmbeddingOptions::default())?;
//! assert_eq!(x.shape(), [2, 2, 4]);
//! assert_eq!(table.logits(&pass, &x, None)?.shape(), [2, 2, 6]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::attention::StepRows;
use polyhead_tensor::ops::decoding::{StepPositions, step_input, step_logits};
use polyhead_tensor::ops::embedding::{EmbeddingOptions, embedding, embedding_prepared};
use polyhead_tensor::ops::linear::LinearOptions;
use polyhead_tensor::{Indices, Init, ParameterId, Result, Var};

use super::linear::product;
use crate::builder::Builder;
use crate::pass::Pass;

/// An embedding table, vocab_size × d_model.
#[derive(Debug, Clone)]
pub struct Embedding {
    weight: ParameterId,
}

impl Embedding {
    /// Declares `weight`, initialised from a normal distribution with standard deviation 1/√d_model, so that scaled
    /// embeddings and tied logits both have unit variance.
    pub fn new(builder: &mut Builder<'_>, vocab_size: usize, d_model: usize) -> Self {
        let init = Init::Normal(1.0 / (d_model as f32).sqrt());
        Self { weight: builder.declare_product("weight", &[vocab_size, d_model], init) }
    }

    /// The table, vocab_size × d_model.
    pub fn weight(&self) -> ParameterId {
        self.weight
    }

    /// Embeddings: `ids` (rows × length) → rows × length × d_model.
    ///
    /// # Errors
    /// If an id is outside the table or there are too few positions.
    pub fn forward(
        &self,
        pass: &Pass<'_>,
        ids: &Indices,
        length: usize,
        options: &EmbeddingOptions,
    ) -> Result<Var> {
        if let Some(table) = pass.parameters.prepared(self.weight) {
            return Ok(Var::constant(embedding_prepared(ids, length, table, options)?));
        }
        embedding(pass.tape, ids, length, &pass.parameter(self.weight), options)
    }

    /// Output logits: h (… × d_model) → … × vocab_size.
    ///
    /// # Errors
    /// If the last axis of h is not d_model.
    pub fn logits(&self, pass: &Pass<'_>, h: &Var, bias: Option<ParameterId>) -> Result<Var> {
        product(pass, h, self.weight, bias, LinearOptions::default())
    }

    /// Embeddings of the newest token of each row: rows × d_model.
    ///
    /// # Errors
    /// If a token is outside the table, or its position outside the table of positions.
    pub fn step(
        &self,
        pass: &Pass<'_>,
        rows: &StepRows,
        scale: f32,
        places: StepPositions<'_>,
    ) -> Result<Var> {
        if let Some(table) = pass.parameters.prepared(self.weight) {
            let [_, d_model] = table.shape();
            let options = EmbeddingOptions { scale, positions: None };
            let x = embedding_prepared(&rows.tokens().into(), 1, table, &options)?;
            let mut x = x.reshaped(&[rows.count(), d_model]);
            places.add_to(&mut x, rows.lengths());
            return Ok(Var::constant(x));
        }
        let table = pass.parameter(self.weight);
        Ok(Var::constant(step_input(table.value(), rows, scale, places)?))
    }

    /// Same as [`Embedding::logits`], without gradients and in f32 on any device.
    ///
    /// # Errors
    /// If the last axis of h is not d_model.
    pub fn step_logits(&self, pass: &Pass<'_>, h: &Var, bias: Option<ParameterId>) -> Result<Var> {
        if pass.parameters.prepared(self.weight).is_some() {
            return self.logits(pass, h, bias);
        }
        let (weight, bias) = (pass.parameter(self.weight), bias.map(|bias| pass.parameter(bias)));
        Ok(Var::constant(step_logits(h.value(), weight.value(), bias.as_ref().map(Var::value))?))
    }

    /// Table and bias of [`Embedding::logits`], for a fused operation that computes the loss without storing the logits.
    /// `None` if the table was prepared for inference and has no gradient.
    pub fn output(&self, pass: &Pass<'_>, bias: Option<ParameterId>) -> Option<(Var, Option<Var>)> {
        let plain = pass.parameters.prepared(self.weight).is_none();
        plain.then(|| (pass.parameter(self.weight), bias.map(|bias| pass.parameter(bias))))
    }
}
