//! Attention layers: a query looks up keys and mixes their values.
//!
//! This crate knows no model. Layers hold the places of their parameters and are shared (`&self`) in use; what changes
//! is passed in ([`Pass`], [`KvCache`], [`Intervention`]), what was seen comes back ([`Capture`]), by [`Site`].
//!
//! 1. [`mask`] says which queries and keys may meet, [`position`] tells the order.
//! 2. [`multi_head`] attends with several heads.
//! 3. [`score`] and [`attend`] are attention step by step, with any score function.
//! 4. [`layers`] stand around it.
//!
//! Two keys score 112 and 96 with queries and keys of 64 numbers: divided by √64 that is 14 and 12, and the first value
//! weighs 0.88.
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
pub mod site;
pub mod vectors;

pub use builder::Builder;
pub use cache::KvCache;
pub use capture::{Capture, Filter, Trace};
pub use intervention::Intervention;
pub use mask::Mask;
pub use pass::Pass;
pub use polyhead_tensor::{Error, Result};
pub use site::{Kind, Site, SiteGroup, Sites};
pub use vectors::Vectors;
