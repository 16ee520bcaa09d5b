//! `polyhead explore`: an interactive page in the browser that shows a model's attention.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_engine::encoder::HeadedEncoder;
use polyhead_engine::image::ImageOptions;
use polyhead_engine::speech::SpeechSummary;
use polyhead_engine::{Generator, ImageClassifier, SpeechEngine};
use polyhead_models::View;
use polyhead_serve::explorer::{PORT, Port};
use polyhead_serve::{EncoderExplorer, Explorer, ImageExplorer, SoundExplorer, TextExplorer};
use polyhead_translate::{Engine, LoadOptions};

use crate::default_model;
use crate::locale;
use crate::model_folder::{check_folder, model_name, report_loaded, view};
use crate::option_help::MODEL;
use crate::report::{Misuse, note, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead explore
  polyhead explore --model opus-mt-en-tr --port 8080 --no-open
  polyhead explore --model gpt2
  polyhead explore --model all-MiniLM-L6-v2
  polyhead explore --model deit-tiny
  polyhead explore --model whisper-tiny

The page shows a translation token by token: the attention of every head and layer, queries and keys, the beam tree, and what changes when heads or layers are switched off. It also has lessons. For a language model it shows the surprisal of each token, what could come next, the logit lens, and what each layer adds to a logit; for an encoder, the vectors of the tokens after each layer, and classes, entities or words in place of masks. For an image classifier it shows an image that is dropped in: its classes, the attention rollout, and what each head of each layer attends to, drawn on the image; for a speech recogniser, a sound that is dropped in: its words with their times, and which part of the sound each token attends to. Only this machine can reach it, and it loads nothing from the network. Ctrl-C stops it.";

/// Options of `polyhead explore`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explore {
    #[arg(short, long, value_name = "DIR", help = MODEL)]
    model: Option<PathBuf>,
    /// Port to listen on; 0 chooses a free one [default: the first free one from 7465]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
}

impl Explore {
    pub(crate) fn run(self) -> Result<()> {
        let start = Instant::now();
        let folder = default_model::or(self.model.as_deref())?;
        check_folder(&folder)?;
        let port = self.port.map_or(Port::Free, Port::Exactly);
        let listening = match view(&folder)? {
            View::LanguageModel => {
                let generator = Generator::load(&folder, &polyhead_engine::LoadOptions::default())?;
                report_loaded(&folder, &generator.parameters().device(), "f32", start);
                TextExplorer::new(Arc::new(generator), model_name(&folder)).listen(port)?
            }
            View::Encoder => {
                let encoder = HeadedEncoder::load(&folder, &polyhead_engine::LoadOptions::default())?;
                report_loaded(&folder, &encoder.encoder().parameters().device(), "f32", start);
                EncoderExplorer::new(Arc::new(encoder), model_name(&folder)).listen(port)?
            }
            View::Image => {
                let load = polyhead_engine::LoadOptions::default();
                let classifier = ImageClassifier::load(&folder, &load, ImageOptions::default())?;
                report_loaded(&folder, &classifier.parameters().device(), "f32", start);
                ImageExplorer::new(Arc::new(classifier), model_name(&folder)).listen(port)?
            }
            view @ View::Caption => {
                const EXPECTED: &str = "a model of text, an image classifier or a speech recogniser";
                let message = format!("{}: {}, expected {EXPECTED}", folder.display(), view.name());
                let hint = "polyhead inspect --image FILE --out FILE.svg shows its attention".into();
                return Err(Misuse { message, hint }.into());
            }
            View::Speech => {
                let engine = SpeechEngine::load(&folder, &polyhead_engine::LoadOptions::default())?;
                report_loaded(&folder, &engine.parameters().device(), "f32", start);
                let summary = SpeechSummary::of_folder(&folder)?;
                SoundExplorer::new(Arc::new(engine), summary, model_name(&folder)).listen(port)?
            }
            // What the explorer cannot show is refused with the command that uses it.
            View::SequenceToSequence | View::Pointer => {
                let engine = Engine::load(&folder, &LoadOptions::default())?;
                if engine.model().n_sources() > 1 {
                    let message = format!("{}: a model of several sources, expected one", folder.display());
                    let hint = "polyhead inspect --out FILE.svg shows the attention to each".into();
                    return Err(Misuse { message, hint }.into());
                }
                report_loaded(&folder, &engine.device(), "f32", start);
                let explorer = Explorer::new(engine, model_name(&folder));
                explorer.with_english_to(locale::language()).listen(port)?
            }
        };
        let address = listening.address();
        if self.port.is_none() && address.port() != PORT {
            note(&format!("note: port {PORT} is in use; listening on {}", address.port()));
        }
        let address = format!("http://{address}/");
        print_text(&format!("{address}\n"))?;
        if !self.no_open && !open(&address) {
            note("note: no browser could be opened; open the address yourself");
        }
        note("press Ctrl-C to stop");
        Ok(listening.run()?)
    }
}

/// Opens an address in the browser; true if a browser was started.
fn open(address: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let quiet = || Stdio::null();
    has_screen
        && Command::new(program).arg(address).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().is_ok()
}
