//! `polyhead completions`: a completion script for a shell, from the same definitions as the help.

use anyhow::Result;
use clap::Args;
use clap_complete::{Shell, generate};

use crate::arguments::command;
use crate::report::print_text;

const EXAMPLES: &str = "\
Examples:
  polyhead completions bash >> ~/.bash_completion
  polyhead completions zsh > ~/.zfunc/_polyhead
  polyhead completions fish > ~/.config/fish/completions/polyhead.fish";

/// Options of `polyhead completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<()> {
        let mut script = Vec::new();
        generate(self.shell, &mut command(), "polyhead", &mut script);
        print_text(&String::from_utf8(script)?)
    }
}
