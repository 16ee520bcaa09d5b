//! `polyhead explore`: a page in the browser that shows what a model attends to.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;
use clap::Args;
use polyhead_serve::Explorer;
use polyhead_serve::explorer::{PORT, Port};
use polyhead_translate::{Engine, LoadOptions};

use crate::default_model;
use crate::model_folder::model_name;
use crate::report::{note, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead explore
  polyhead explore --model opus-mt-en-tr --port 8080 --no-open

The page shows a translation as it is written, where each token looks, all heads and layers, single neurons, the beam tree, and
what changes when heads or layers are switched off; its lessons compute with numbers of their own. Only this machine can reach it, and
the page loads nothing from elsewhere. Ctrl-C ends it.";

/// Options of `polyhead explore`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explore {
    /// Folder of the model: ours, of OPUS-MT and Marian, or of fairseq [default: the one that comes with the program]
    #[arg(short, long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The port to listen on; 0 is any that is free [default: the first free one from 7465]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Open no browser
    #[arg(long)]
    no_open: bool,
}

impl Explore {
    pub(crate) fn run(self) -> Result<()> {
        let folder = default_model::or(self.model.as_deref())?;
        let engine = Engine::load(&folder, &LoadOptions::default())?;
        let listening =
            Explorer::new(engine, model_name(&folder)).listen(self.port.map_or(Port::Free, Port::Exactly))?;
        let address = listening.address();
        if self.port.is_none() && address.port() != PORT {
            note(&format!("note: port {PORT} is taken, so it is {}", address.port()));
        }
        let address = format!("http://{address}/");
        print_text(&format!("{address}\n"))?;
        if !self.no_open && !open(&address) {
            note("note: no browser could be opened; open the address yourself");
        }
        note("Ctrl-C ends it.");
        Ok(listening.run()?)
    }
}

/// Asks the system to show a page; whether somebody took the order.
fn open(address: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let quiet = || Stdio::null();
    has_screen
        && Command::new(program).arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().is_ok()
}
