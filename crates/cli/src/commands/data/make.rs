//! `polyhead data make`: puzzles with known answers for pointer networks, and scenes for captioners.

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

use super::scenes::{self, SceneCounts};
use crate::option_help::SEED;
use crate::report::{Misuse, counted, note};

const EXAMPLES: &str = "\
Examples:
  polyhead data make sort --count 100000 --size 10 --out sort.jsonl
  polyhead data make hull --count 100000 --size 5-50 --seed 2 --out hull.jsonl
  polyhead data make tsp --count 10 --size 10
  polyhead data make scenes --train 10000 --valid 500 --test 1000 --out scenes

Each line is a JSON object. sort: \"numbers\", distinct integers from 0 to 99, and \"order\", their indices from the smallest to the largest. The others: \"points\" in the unit square and \"order\", indices of points, counted from 0. hull: the corners of the convex hull, counter-clockwise from the lowest index. delaunay: the triangles of the Delaunay triangulation, three ascending indices each, by the coordinates of their incentres. tsp: the shortest closed tour (Held-Karp, at most 12 points), counter-clockwise from point 0.

scenes: a folder of rendered pictures of coloured shapes, with a TSV file of sentences about them and a file of their facts for each set. Some combinations of colour and shape, and some pairs of objects, occur in the test set alone; README.md and scenes.json in the folder say which.

The same seed gives the same lines; use another seed for a validation set.";

/// What is made besides puzzles.
const SCENES: &str = "scenes";
/// Rows made between two writes.
const CHUNK: u64 = 4096;
/// Stream of the random sizes.
const SIZES: u64 = 0x5349_5A45;

/// Options of `polyhead data make`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Make {
    /// Puzzle (sort, hull, delaunay or tsp), or scenes
    #[arg(value_name = "PUZZLE", value_parser = PossibleValuesParser::new(Puzzle::ALL.map(Puzzle::name).into_iter().chain([SCENES])))]
    puzzle: String,
    /// Number of lines [default: 1000]
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Number of points, or a range such as 5-50 to draw from; of scenes, pixels of a side [default: 10; of scenes 64]
    #[arg(long, value_name = "N|N-M", value_parser = sizes)]
    size: Option<[usize; 2]>,
    #[command(flatten)]
    scenes: SceneCounts,
    #[arg(long, value_name = "N", default_value_t = 1, help = SEED)]
    seed: u64,
    /// File to write, of scenes a folder [default: standard output]
    #[arg(short, long, value_name = "PATH")]
    out: Option<PathBuf>,
}

impl Make {
    pub(crate) fn run(self) -> Result<()> {
        if self.puzzle == SCENES {
            return self.make_scenes();
        }
        if self.scenes.is_given() {
            let message = format!("numbers of scenes with {}, expected scenes", self.puzzle);
            return Err(Misuse { message, hint: "--count has the number of lines".into() }.into());
        }
        let count = self.count.unwrap_or(1000);
        let puzzle = Puzzle::ALL.into_iter().find(|puzzle| puzzle.name() == self.puzzle);
        let puzzle = puzzle.ok_or_else(|| Misuse {
            message: format!("{:?}, expected a puzzle", self.puzzle),
            hint: "polyhead data make --help lists them".into(),
        })?;
        let [least, most] = self.size.unwrap_or([10; 2]);
        let sizes = Random::new(self.seed).stream(SIZES);
        let line = |index: u64| -> Result<String, polyhead_engine::Error> {
            let size = least + sizes.below(most - least + 1, index);
            Ok(Value::Object(puzzle.make(self.seed, index, size)?.to_json()).to_string() + "\n")
        };
        let mut output = self.out.as_ref().map(Output::create).transpose()?;
        for first in (0..count).step_by(CHUNK as usize) {
            let rows: Vec<String> =
                (first..count.min(first + CHUNK)).into_par_iter().map(line).collect::<Result<_, _>>()?;
            match &mut output {
                Some(output) => output.write(rows.concat().as_bytes())?,
                None => std::io::stdout().lock().write_all(rows.concat().as_bytes())?,
            }
        }
        if let Some(output) = output {
            output.finish()?;
        }
        if let Some(path) = &self.out {
            note(&format!("wrote {} to {}", counted(count, "line"), path.display()));
        }
        Ok(())
    }

    fn make_scenes(&self) -> Result<()> {
        let Some(folder) = &self.out else {
            let message = "scenes without a folder, expected --out DIR".to_owned();
            return Err(Misuse { message, hint: "pictures do not fit on standard output".into() }.into());
        };
        if self.count.is_some() {
            let message = "--count with scenes, expected --train, --valid and --test".to_owned();
            return Err(Misuse { message, hint: "each set has a number of its own".into() }.into());
        }
        let side = self.size.map_or(Ok(scenes::SIDE), scenes::side)?;
        self.scenes.write(folder, side, self.seed)
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
