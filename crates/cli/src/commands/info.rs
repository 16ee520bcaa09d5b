//! `polyhead info`: a description of a model folder or of a preset.

mod description;
mod text;
mod tokenizers;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use polyhead_models::ModelConfig;

use self::description::ModelDescription;
use crate::default_model;
use crate::output_format::DocumentFormat;
use crate::report::{Failure, print_json, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead info
  polyhead info opus-mt-en-de
  polyhead info models/en-de --format json
  polyhead info --preset base --vocab-size 37000

A folder without weights is described by its config alone. Exit code 1 if the weights do not fit the config, or if the tokeniser has more ids than the embedding has rows.";

/// Options of `polyhead info`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Info {
    /// Model folder, run folder or installed model [default: the default model]
    #[arg(value_name = "DIR", conflicts_with = "preset")]
    folder: Option<PathBuf>,
    /// Describe a preset instead of a folder
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Vocabulary size of the preset, shared by source and target
    #[arg(long, value_name = "N", default_value_t = PAPER_VOCAB_SIZE, requires = "preset")]
    vocab_size: usize,
    #[command(flatten)]
    format: DocumentFormat,
}

/// Vocabulary size of English–German in Vaswani et al. 2017.
const PAPER_VOCAB_SIZE: usize = 37_000;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Preset {
    /// d_model 128, 4 heads, d_ff 512, 3 + 3 layers
    Tiny,
    /// d_model 256, 4 heads, d_ff 1024, 3 + 3 layers
    Small,
    /// d_model 512, 8 heads, d_ff 2048, 6 + 6 layers, as in the paper
    Base,
    /// d_model 1024, 16 heads, d_ff 4096, 6 + 6 layers, as in the paper
    Big,
}

impl Info {
    pub(crate) fn run(self) -> Result<()> {
        let description = match self.preset {
            Some(preset) => self.describe_preset(preset)?,
            None => ModelDescription::of_folder(&default_model::or(self.folder.as_deref())?)?,
        };
        if self.format.is_json() {
            print_json(&description)?;
        } else {
            print_text(&text::text(&description))?;
        }
        if let Some(problem) = description.tokenizers.iter().find_map(tokenizers::Vocabulary::problem) {
            let folder = description.folder.unwrap_or_default();
            bail!(Failure {
                message: format!("{}: {problem}", folder.display()),
                hint: "does the tokeniser belong to another model? ids without a row cannot be embedded"
                    .into(),
            });
        }
        Ok(())
    }

    fn describe_preset(&self, preset: Preset) -> Result<ModelDescription> {
        let name = match preset {
            Preset::Tiny => "tiny",
            Preset::Small => "small",
            Preset::Base => "base",
            Preset::Big => "big",
        };
        let config = ModelConfig::preset(name, self.vocab_size).expect("a known preset");
        let mut description = ModelDescription::of_config(config)?;
        description.notes.extend(paper(preset).map(str::to_owned));
        Ok(description)
    }
}

/// The parameter count that the paper prints, and why it differs.
fn paper(preset: Preset) -> Option<&'static str> {
    match preset {
        Preset::Tiny | Preset::Small => None,
        Preset::Base => Some(
            "the paper prints 65 million without saying how they were counted; with a shared vocabulary of 37,000 its \
             sizes give 63,082,496, biases and norms included, and no vocabulary size gives both 65 (base) and 213 \
             million (big)",
        ),
        Preset::Big => Some(
            "the paper prints 213 million without saying how they were counted; with a shared vocabulary of 37,000 its \
             sizes give 214,245,376, biases and norms included, and no vocabulary size gives both 65 (base) and 213 \
             million (big)",
        ),
    }
}
