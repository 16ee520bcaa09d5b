//! Routes: one hop where the model was trained on the direction, otherwise two via a third language.
//!
//! Only a folder that states the directions of its model has routes; any other translates in one hop into the language of
//! a tag.

mod hops;
mod plan;

use serde::Serialize;

pub(crate) use self::plan::{RoutePlan, Router};
use crate::languages::name;

/// The languages of a translation, as two-letter codes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The language of the text.
    pub from: String,
    /// The language of the translation.
    pub to: String,
    /// The language between the two hops; none where the model was trained on the direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// True if `from` was detected rather than given.
    pub guessed: bool,
    /// True if `to` is the default rather than given.
    #[serde(skip)]
    pub is_default: bool,
}

impl Route {
    /// True if it differs from what was asked for literally: detected, a default, or in two hops.
    pub fn is_notable(&self) -> bool {
        self.guessed || self.is_default || self.through.is_some()
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let detected = if self.guessed { " (detected)" } else { "" };
        write!(f, "from {}{detected}, into {}", name(&self.from), name(&self.to))?;
        match &self.through {
            Some(middle) => write!(f, ", via {}", name(middle)),
            None => Ok(()),
        }
    }
}

/// One pass of a text through the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Hop {
    /// Id of the tag that chooses the target language.
    pub(crate) tag: Option<u32>,
    /// Source and target language, where they are known.
    pub(crate) languages: Option<(String, String)>,
}
