//! `polyhead models`: the models in the user's data folder.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::output_format::DocumentFormat;
use crate::report::{bytes, note, print_json, print_text};
use crate::{default_model, installed_models, model_folder};

const EXAMPLES: &str = "\
Examples:
  polyhead models add models/default
  polyhead models add opus-mt-en-de
  polyhead models list
  polyhead models remove opus-mt-en-de
  polyhead translate -m opus-mt-en-de 'Good morning.'

Installed models are found from every folder: -m NAME uses one, and the one with the name default is used where no model is named. They are in XDG_DATA_HOME/polyhead/models, by default ~/.local/share/polyhead/models.";

const ADD_EXAMPLES: &str = "\
Examples:
  polyhead models add models/default
  polyhead models add runs/en-de --name en-de
  polyhead models add opus-mt-en-de --name default --overwrite

The files of the model folder are copied. Of a run folder, the finished model is taken, otherwise the newest checkpoint.";

const LIST_EXAMPLES: &str = "\
Examples:
  polyhead models list
  polyhead models list --format json

Each model gives one line: its name, size and folder, separated by tabs. The model that is used where none is named has a star before its name.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  polyhead models remove opus-mt-en-de";

/// Subcommands of `polyhead models`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Models {
    /// Copy a model into the data folder
    Add(AddModel),
    /// List the installed models and the default model
    List(ListModels),
    /// Remove a model from the data folder
    Remove(RemoveModel),
}

/// Options of `polyhead models add`.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddModel {
    /// Model folder or run folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Name of the model: letters, digits, `.`, `_` and `-` [default: that of DIR]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Replace an installed model of this name
    #[arg(long)]
    overwrite: bool,
}

/// Options of `polyhead models list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListModels {
    #[command(flatten)]
    format: DocumentFormat,
}

/// Options of `polyhead models remove`.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveModel {
    /// Name of the model
    #[arg(value_name = "NAME")]
    name: String,
}

impl Models {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Add(add) => add.run(),
            Self::List(list) => list.run(),
            Self::Remove(RemoveModel { name }) => {
                note(&format!("removed {}", installed_models::remove(&name)?.display()));
                Ok(())
            }
        }
    }
}

impl AddModel {
    fn run(self) -> Result<()> {
        let name = self.name.unwrap_or_else(|| model_folder::model_name(&self.folder));
        let from = model_folder::resolve(&self.folder)?;
        let (folder, size) = installed_models::add(&from, &name, self.overwrite)?;
        note(&format!("copied {} to {} ({})", from.display(), folder.display(), bytes(size)));
        let how = if name == default_model::NAME { String::new() } else { format!(" --model {name}") };
        note(&format!("use it with: polyhead translate{how} TEXT"));
        Ok(())
    }
}

impl ListModels {
    fn run(self) -> Result<()> {
        // A list without a default model is no error.
        let used = default_model::folder().ok();
        let installed: Vec<(String, PathBuf)> = installed_models::names()
            .into_iter()
            .filter_map(|name| Some((name.clone(), installed_models::find(Path::new(&name))?)))
            .collect();
        let is_installed = |folder: &PathBuf| installed.iter().any(|(_, own)| own == folder);
        let bundled = used.clone().filter(|folder| !is_installed(folder));
        let bundled = bundled.map(|folder| (model_folder::model_name(&folder), folder));
        let all: Vec<(String, PathBuf)> = bundled.into_iter().chain(installed.clone()).collect();
        if self.format.is_json() {
            let models = all.iter().map(|(name, folder)| {
                json!({
                    "name": name,
                    "folder": folder,
                    "bytes": installed_models::size(folder),
                    "installed": is_installed(folder),
                    "default": used.as_ref() == Some(folder),
                })
            });
            return print_json(&models.collect::<Vec<_>>());
        }
        if all.is_empty() {
            note("no model is installed; polyhead models add DIR installs one");
        }
        let line = |(name, folder): &(String, PathBuf)| {
            let star = if used.as_ref() == Some(folder) { "*" } else { "" };
            format!("{star}{name}\t{}\t{}\n", bytes(installed_models::size(folder)), folder.display())
        };
        print_text(&all.iter().map(line).collect::<String>())
    }
}
