//! `polyhead score`: how close a translation is to its references.

use anyhow::Result;
use clap::Args;

/// Options of `polyhead score`.
#[derive(Debug, Args)]
pub(crate) struct Score {}

impl Score {
    pub(crate) fn run(self) -> Result<()> {
        Ok(())
    }
}
