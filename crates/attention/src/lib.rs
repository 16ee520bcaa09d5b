//! Attention layers: a query is compared with keys, and the context is the weighted mean of their values.
//!
//! The crate does not depend on any model. Layers hold the ids of their parameters and are immutable (`&self`) in use;
//! state is passed in ([`Pass`], [`KvCache`], [`Intervention`]), and captured weights are returned ([`Capture`]), each under
//! its [`Site`].
//!
//! 1. [`mask`] defines which keys a query may attend to; [`position`] encodes the order of tokens.
//! 2. [`multi_head`] is multi-head self-attention and cross-attention.
//! 3. [`score`] and [`attend`] compute attention step by step, with any score function.
//! 4. [`source_attention`] is the attention of recurrent decoders, [`several_sources`] that of a decoder with several sources.
//! 5. [`layers`] are the layers around attention.
//!
//! Two keys have dot products of 112 and 96 with a query of width 64. Divided by √64 the scores are 14 and 12, and the
//! weight of the first value is 0.88.
//!
//! ```
//! use polyhead_attention::attend::attend;
//! use polyhead_tensor::{Tape, Tensor, Var};
//! let scores = Var::constant(Tensor::new(&[1, 1, 2], vec![112.0 / 8.0, 96.0 / 8.0]));
//! let values = Var::constant(Tensor::new(&[1, 2, 2], vec![1.0, 0.0, 0.0, 1.0]));
//! let (context, weights) = attend(&Tape::inference(), &scores, &values, None)?;
//! assert!((weights.value().data()[0] - 0.88).abs() < 0.005);
//! assert_eq!(context.value().data(), weights.value().data());
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

pub mod attend;
pub mod builder;
pub mod cache;
pub mod capture;
pub mod intervention;
pub mod layers;
pub mod mask;
pub mod multi_head;
pub mod pass;
pub mod position;
pub mod score;
pub mod several_sources;
pub mod site;
pub mod source_attention;
pub mod vectors;

pub use builder::Builder;
pub use cache::KvCache;
pub use capture::{Capture, Filter, Trace};
pub use intervention::Intervention;
pub use mask::Mask;
pub use pass::{Pass, Watch};
pub use polyhead_tensor::{Error, Result};
pub use site::{AttentionKind, Site, SiteGroup, Sites};
pub use source_attention::{Local, Memory, SourceAttention};
pub use vectors::Vectors;
