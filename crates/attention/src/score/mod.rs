//! Score functions: the compatibility of a query and a key, before softmax.
//!
//! | name | score of query q and key k | paper |
//! |---|---|---|
//! | `cosine` | β·cos(q, k) | Graves, Wayne & Danihelka 2014 |
//! | `additive` | vᵀ·tanh(W·q + U·k) | Bahdanau, Cho & Bengio 2015 |
//! | `location` | (W·q) at the key's position | Luong, Pham & Manning 2015 |
//! | `general` | qᵀ·W·k | Luong, Pham & Manning 2015 |
//! | `dot` | qᵀ·k | Luong, Pham & Manning 2015 |
//! | `scaled_dot` | qᵀ·k/√d | Vaswani et al. 2017 |
//!
//! ```
//! use polyhead_attention::score::{Score, ScoreKind, ScoreOptions};
//! use polyhead_attention::{Builder, Capture, Pass};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let kind = ScoreKind::from_name("additive").expect("in the table above");
//! let mut parameters = Parameters::default();
//! let options = ScoreOptions { kind, d_query: 3, d_key: 5, d_hidden: 4, ..ScoreOptions::default() };
//! let score = Score::new(&mut Builder::new(&mut parameters).at("score"), options)?;
//! parameters.initialise(1);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let [query, key] = [[2, 7, 3], [2, 6, 5]].map(|shape| Var::constant(Tensor::zeros(&shape)));
//! assert_eq!(score.scores(&pass, &query, &key)?.shape(), [2, 7, 6]);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

pub mod additive;
pub mod cosine;
pub mod dot;
pub mod general;
pub mod location;
pub mod scaled_dot;

pub use additive::Additive;
pub use cosine::Cosine;
pub use dot::Dot;
pub use general::General;
pub use location::Location;
pub use scaled_dot::ScaledDot;

use polyhead_tensor::error::shape;
use polyhead_tensor::ops::matmul::{Layout, MatmulOptions, matmul};
use polyhead_tensor::{Error, Result, Tape, Var};

use crate::builder::Builder;
use crate::pass::Pass;

/// The kind of a score function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ScoreKind {
    /// qᵀ·k.
    Dot,
    /// qᵀ·k/√d.
    #[default]
    ScaledDot,
    /// qᵀ·W·k.
    General,
    /// vᵀ·tanh(W·q + U·k).
    Additive,
    /// (W·q) at the key's position.
    Location,
    /// β·cos(q, k).
    Cosine,
}

impl ScoreKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Dot, Self::ScaledDot, Self::General, Self::Additive, Self::Location, Self::Cosine];

    /// The name in recipes and configs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dot => "dot",
            Self::ScaledDot => "scaled_dot",
            Self::General => "general",
            Self::Additive => "additive",
            Self::Location => "location",
            Self::Cosine => "cosine",
        }
    }

    /// The kind called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A score function and its sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreOptions {
    /// The function; default: scaled dot product.
    pub kind: ScoreKind,
    /// Width of a query; default: 512.
    pub d_query: usize,
    /// Width of a key; default: 512. Dot products and cosines need equal widths.
    pub d_key: usize,
    /// Width of the additive score's hidden layer; default: 512.
    pub d_hidden: usize,
    /// Maximum number of keys of the location-based score; default: 256.
    pub max_len: usize,
    /// β of the cosine, an inverse temperature; default: 1, at which weights differ by a factor of at most e².
    pub sharpness: f32,
}

impl Default for ScoreOptions {
    fn default() -> Self {
        let kind = ScoreKind::default();
        Self { kind, d_query: 512, d_key: 512, d_hidden: 512, max_len: 256, sharpness: 1.0 }
    }
}

/// A score function with its parameters.
#[derive(Debug, Clone)]
pub enum Score {
    /// qᵀ·k.
    Dot(Dot),
    /// qᵀ·k/√d.
    ScaledDot(ScaledDot),
    /// qᵀ·W·k.
    General(General),
    /// vᵀ·tanh(W·q + U·k).
    Additive(Additive),
    /// (W·q) at the key's position.
    Location(Location),
    /// β·cos(q, k).
    Cosine(Cosine),
}

impl Score {
    /// Declares the parameters of the score function.
    ///
    /// # Errors
    /// If the function needs queries and keys of equal width and their widths differ.
    pub fn new(builder: &mut Builder<'_>, options: ScoreOptions) -> Result<Self> {
        let ScoreOptions { kind, d_query, d_key, d_hidden, max_len, sharpness } = options;
        if matches!(kind, ScoreKind::Dot | ScoreKind::ScaledDot | ScoreKind::Cosine) && d_query != d_key {
            let expected = "the width of a query, d_query";
            return Err(Error::Value {
                operation: kind.name(),
                name: "d_key",
                found: d_key as f64,
                expected,
            });
        }
        Ok(match kind {
            ScoreKind::Dot => Self::Dot(Dot),
            ScoreKind::ScaledDot => Self::ScaledDot(ScaledDot),
            ScoreKind::General => Self::General(General::new(builder, d_query, d_key)),
            ScoreKind::Additive => Self::Additive(Additive::new(builder, [d_query, d_key], d_hidden)),
            ScoreKind::Location => Self::Location(Location::new(builder, d_query, max_len)),
            ScoreKind::Cosine => Self::Cosine(Cosine { sharpness }),
        })
    }

    /// Query (batch × q_len × d_query) and key (batch × k_len × d_key) → batch × q_len × k_len.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn scores(&self, pass: &Pass<'_>, query: &Var, key: &Var) -> Result<Var> {
        match self {
            Self::Dot(score) => score.scores(pass, query, key),
            Self::ScaledDot(score) => score.scores(pass, query, key),
            Self::General(score) => score.scores(pass, query, key),
            Self::Additive(score) => score.scores(pass, query, key),
            Self::Location(score) => score.scores(pass, query, key),
            Self::Cosine(score) => score.scores(pass, query, key),
        }
    }

    /// What [`Score::compare`] needs of the keys, computed once for the queries of several steps.
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn keys(&self, pass: &Pass<'_>, key: &Var) -> Result<Var> {
        match self {
            Self::Additive(score) => score.keys(pass, key),
            Self::Cosine(_) => Cosine::keys(pass, key),
            Self::Dot(_) | Self::ScaledDot(_) | Self::General(_) | Self::Location(_) => Ok(key.clone()),
        }
    }

    /// Same as [`Score::scores`], from the result of [`Score::keys`].
    ///
    /// # Errors
    /// If the shapes do not match.
    pub fn compare(&self, pass: &Pass<'_>, query: &Var, keys: &Var) -> Result<Var> {
        match self {
            Self::Additive(score) => score.compare(pass, query, keys),
            Self::Cosine(score) => score.compare(pass, query, keys),
            _ => self.scores(pass, query, keys),
        }
    }
}

/// Batch, q_len and k_len.
fn sizes(operation: &'static str, query: &Var, key: &Var) -> Result<[usize; 3]> {
    let &[batch, q_len, _] = query.shape() else {
        return shape(operation, "query", query.shape(), "batch × q_len × d_query");
    };
    match *key.shape() {
        [key_batch, k_len, _] if key_batch == batch => Ok([batch, q_len, k_len]),
        _ => {
            let expected = format!("[{batch}, k_len, d_key] for a query of {:?}", query.shape());
            shape(operation, "key", key.shape(), expected)
        }
    }
}

/// Dot products of every query with every key of its batch row: batch × q_len × k_len.
fn products(tape: &Tape, operation: &'static str, query: &Var, key: &Var) -> Result<Var> {
    let [batch, _, k_len] = sizes(operation, query, key)?;
    if query.shape()[2] != key.shape()[2] {
        let expected = format!("[{batch}, {k_len}, {}] for a query of {:?}", query.shape()[2], query.shape());
        return shape(operation, "key", key.shape(), expected);
    }
    matmul(tape, query, key, MatmulOptions { right: Layout::Transposed, ..MatmulOptions::default() })
}
