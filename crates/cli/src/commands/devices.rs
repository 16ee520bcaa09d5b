//! `polyhead devices`: where models can run, and what keeps a card from being used.

use anyhow::Result;
use clap::Args;
use polyhead_tensor::Device;
use polyhead_tensor::device::Card;
use polyhead_tensor::isa::Isa;
use polyhead_train::memory::available;
use serde::Serialize;

use crate::report::{bytes, print_json, print_text};

const EXAMPLES: &str = "Examples:
  polyhead devices
  polyhead devices --json

The first column is what --device and train.device take. Exit code 0 also where there is no card: the processor always
does.";

/// Options of `polyhead devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Devices {
    /// Print for programs
    #[arg(long)]
    json: bool,
}

/// All there is.
#[derive(Serialize)]
struct List {
    processor: Processor,
    cards: Vec<CardLine>,
    /// Why there is no card.
    no_card: Option<Obstacle>,
}

#[derive(Serialize)]
struct Processor {
    name: String,
    instructions: &'static str,
    threads: usize,
    free_bytes: Option<usize>,
}

#[derive(Serialize)]
struct CardLine {
    name: String,
    model: String,
    memory_bytes: usize,
    free_bytes: Option<usize>,
    capability: String,
    driver_cuda: String,
    obstacle: Option<Obstacle>,
}

/// What keeps a card from being used.
#[derive(Serialize)]
struct Obstacle {
    what: String,
    hint: &'static str,
}

impl From<&polyhead_tensor::Error> for Obstacle {
    fn from(error: &polyhead_tensor::Error) -> Self {
        Self { what: error.to_string(), hint: error.hint() }
    }
}

impl From<Card> for CardLine {
    fn from(card: Card) -> Self {
        let (major, minor) = card.capability;
        Self {
            name: card.name,
            model: card.model,
            memory_bytes: card.memory,
            free_bytes: card.free,
            capability: format!("{major}.{minor}"),
            driver_cuda: card.driver,
            obstacle: card.obstacle.as_ref().map(Obstacle::from),
        }
    }
}

impl Devices {
    pub(crate) fn run(self) -> Result<()> {
        let (cards, no_card) = match Device::cards() {
            Ok(cards) if cards.is_empty() => {
                let hint = "is it visible to this system? nvidia-smi lists cards";
                (Vec::new(), Some(Obstacle { what: "the driver finds no card".into(), hint }))
            }
            Ok(cards) => (cards.into_iter().map(CardLine::from).collect(), None),
            Err(error) => (Vec::new(), Some(Obstacle::from(&error))),
        };
        let processor = Processor {
            name: Device::Cpu.name(),
            instructions: Isa::best().name(),
            threads: rayon::current_num_threads(),
            free_bytes: available(),
        };
        let list = List { processor, cards, no_card };
        if self.json { print_json(&list) } else { print_text(&text(&list)) }
    }
}

fn text(list: &List) -> String {
    let Processor { name, instructions, threads, free_bytes } = &list.processor;
    let free = |bytes_free: Option<usize>| {
        bytes_free.map_or(String::new(), |free| format!(", {} free", bytes(free as u64)))
    };
    let mut text = format!("{name}     processor: {threads} threads, {instructions}{}\n", free(*free_bytes));
    for card in &list.cards {
        text += &format!(
            "{}  {}: {}{}, compute capability {}, driver for CUDA {}\n",
            card.name,
            card.model,
            bytes(card.memory_bytes as u64),
            free(card.free_bytes),
            card.capability,
            card.driver_cuda
        );
        text += &obstacle(card.obstacle.as_ref(), "cannot be used");
    }
    text + &obstacle(list.no_card.as_ref(), "no card")
}

/// What is in the way, with its hint.
fn obstacle(obstacle: Option<&Obstacle>, begin: &str) -> String {
    obstacle.map_or(String::new(), |Obstacle { what, hint }| {
        format!("        {begin}: {what}\n        hint: {hint}\n")
    })
}
