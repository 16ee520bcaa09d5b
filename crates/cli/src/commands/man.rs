//! `polyhead man`: manual pages, from the same definitions as the help.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Command};
use clap_mangen::Man as Page;
use polyhead_text::output::Output;

use crate::arguments::command;
use crate::report::{note, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead man | man -l -
  polyhead man --out ~/.local/share/man/man1";

/// Options of `polyhead man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Folder for one .1 file per command [default: the main page on standard output]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<()> {
        let mut command = command().disable_help_subcommand(true);
        // Names such as polyhead-data-check are set when the command is built.
        command.build();
        let Some(folder) = self.out else {
            return print_text(&page(&command)?);
        };
        std::fs::create_dir_all(&folder)
            .map_err(|error| polyhead_text::Error::io(&folder, "create the folder", error))?;
        let mut commands = vec![&command];
        let mut count = 0;
        while let Some(command) = commands.pop() {
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            Output::save(folder.join(format!("{name}.1")), page(command)?.as_bytes())?;
            commands.extend(command.get_subcommands().filter(|below| !below.is_hide_set()));
            count += 1;
        }
        note(&format!("wrote {count} manual pages into {}", folder.display()));
        Ok(())
    }
}

/// The manual page of one command in roff.
fn page(command: &Command) -> Result<String> {
    let mut page = Vec::new();
    Page::new(command.clone()).render(&mut page)?;
    // The text after the options begins with the examples of a command.
    let page = String::from_utf8(page)?.replace("\n.SH EXTRA\nExamples:\n", "\n.SH EXAMPLES\n");
    Ok(page.replace("\n.SH EXTRA\n", "\n.SH NOTES\n"))
}
