//! Attention layers: a query looks up keys and mixes their values.
//!
//! This crate knows no model. Layers hold the places of their parameters and are shared (`&self`) in use; what changes
//! is passed in ([`Pass`]), what was seen comes back ([`Capture`]).

pub mod attend;
pub mod builder;
pub mod capture;
pub mod layers;
pub mod pass;
pub mod score;

pub use builder::Builder;
pub use capture::{Capture, Filter, Kind, Site, Stack, Trace};
pub use pass::Pass;
pub use polyhead_tensor::{Error, Result};
