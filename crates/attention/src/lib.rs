//! Attention layers: a query looks up keys and mixes their values.
//!
//! This crate knows no model. Layers hold the places of their parameters and are shared (`&self`) in use; what changes
//! is passed in ([`Pass`], [`KvCache`]), what was seen comes back ([`Capture`]).
//!
//! 1. [`mask`] says which queries and keys may meet, [`position`] tells the order.
//! 2. [`multi_head`] attends with several heads.
//! 3. [`score`] and [`attend`] are attention step by step, with any score function.
//! 4. [`layers`] stand around it.

pub mod attend;
pub mod builder;
pub mod cache;
pub mod capture;
pub mod layers;
pub mod mask;
pub mod multi_head;
pub mod pass;
pub mod position;
pub mod score;

pub use builder::Builder;
pub use cache::KvCache;
pub use capture::{Capture, Filter, Kind, Site, Stack, Trace};
pub use mask::Mask;
pub use pass::Pass;
pub use polyhead_tensor::{Error, Result};
