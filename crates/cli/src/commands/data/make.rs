//! `polyhead data make`: puzzles with known answers for pointer networks.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use polyhead_engine::puzzle::Puzzle;
use polyhead_random::Random;
use polyhead_text::output::Output;
use rayon::prelude::*;
use serde_json::Value;

use crate::option_help::SEED;
use crate::report::{Misuse, counted, note};

const EXAMPLES: &str = "\
Examples:
  polyhead data make sort --count 100000 --size 10 --out sort.jsonl
  polyhead data make hull --count 100000 --size 5-50 --seed 2 --out hull.jsonl
  polyhead data make tsp --count 10 --size 10

Each line is a JSON object. sort: \"numbers\", distinct integers from 0 to 99, and \"order\", their indices from the smallest to the largest. The others: \"points\" in the unit square and \"order\", indices of points, counted from 0. hull: the corners of the convex hull, counter-clockwise from the lowest index. delaunay: the triangles of the Delaunay triangulation, three ascending indices each, by the coordinates of their incentres. tsp: the shortest closed tour (Held-Karp, at most 12 points), counter-clockwise from point 0.

The same seed gives the same lines; use another seed for a validation set.";

/// Rows made between two writes.
const CHUNK: u64 = 4096;
/// Stream of the random sizes.
const SIZES: u64 = 0x5349_5A45;

/// Options of `polyhead data make`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Make {
    /// Puzzle: sort, hull, delaunay or tsp
    #[arg(value_name = "PUZZLE", value_parser = PossibleValuesParser::new(Puzzle::ALL.map(Puzzle::name)))]
    puzzle: String,
    /// Number of lines
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// Number of points, or a range such as 5-50 to draw from
    #[arg(long, value_name = "N|N-M", default_value = "10", value_parser = sizes)]
    size: [usize; 2],
    #[arg(long, value_name = "N", default_value_t = 1, help = SEED)]
    seed: u64,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Make {
    pub(crate) fn run(self) -> Result<()> {
        let puzzle = Puzzle::ALL.into_iter().find(|puzzle| puzzle.name() == self.puzzle);
        let puzzle = puzzle.ok_or_else(|| Misuse {
            message: format!("{:?}, expected a puzzle", self.puzzle),
            hint: "polyhead data make --help lists them".into(),
        })?;
        let [least, most] = self.size;
        let sizes = Random::new(self.seed).stream(SIZES);
        let line = |index: u64| -> Result<String, polyhead_engine::Error> {
            let size = least + sizes.below(most - least + 1, index);
            Ok(Value::Object(puzzle.make(self.seed, index, size)?.to_json()).to_string() + "\n")
        };
        let mut output = self.out.as_ref().map(Output::create).transpose()?;
        for first in (0..self.count).step_by(CHUNK as usize) {
            let rows: Vec<String> =
                (first..self.count.min(first + CHUNK)).into_par_iter().map(line).collect::<Result<_, _>>()?;
            match &mut output {
                Some(output) => output.write(rows.concat().as_bytes())?,
                None => std::io::stdout().lock().write_all(rows.concat().as_bytes())?,
            }
        }
        if let Some(output) = output {
            output.finish()?;
        }
        if let Some(path) = &self.out {
            note(&format!("wrote {} to {}", counted(self.count, "line"), path.display()));
        }
        Ok(())
    }
}

/// Parses `10` or `5-50`.
fn sizes(text: &str) -> Result<[usize; 2], String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    match (least.trim().parse(), most.trim().parse()) {
        (Ok(least), Ok(most)) if 0 < least && least <= most => Ok([least, most]),
        _ => Err(format!("{text:?}, expected a number such as 10 or a range such as 5-50")),
    }
}
