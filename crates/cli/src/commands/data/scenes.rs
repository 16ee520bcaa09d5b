//! `polyhead data make scenes`: rendered scenes with sentences and facts, for captioners.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_engine::scene::{HELD_OUT, Kind, Scene, Set, held_out_pairs};
use polyhead_text::output::Output;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::line_progress::LineProgress;
use crate::report::{Misuse, counted, grouped, note};

/// Scenes made between two writes.
const CHUNK: u64 = 1024;
/// Pixels of a side, at least and at most.
pub(super) const SIDES: [usize; 2] = [16, 1024];
/// Pixels of a side by default.
pub(super) const SIDE: usize = 64;

const README: &str = "\
# Scenes

Coloured shapes with their positions and relations, made by `polyhead data make scenes`. For each set:

- `SET/NUMBER.png`: the pictures.
- `SET.tsv`: lines of a picture, a tab and a true sentence about it; several sentences of each picture.
- `SET.jsonl`: the facts of each picture: objects, all true relations, and of a single object the ninth of the picture
  that it is in (row and column). Lengths are thousandths of the side.

`scenes.json` has the combinations of colour and shape, and the pairs of objects, that occur in the test set alone.
Pictures with an even number have such a combination, those with an odd number such a pair (`held_out` in `test.jsonl`).
";

/// Numbers of scenes.
#[derive(Debug, Args)]
pub(super) struct SceneCounts {
    /// scenes: number of scenes to train on [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Scenes")]
    train: Option<u64>,
    /// scenes: number of scenes for validation [default: 500]
    #[arg(long, value_name = "N", help_heading = "Scenes")]
    valid: Option<u64>,
    /// scenes: number of test scenes, with held-out combinations and pairs [default: 1000]
    #[arg(long, value_name = "N", help_heading = "Scenes")]
    test: Option<u64>,
    /// scenes: sentences about each scene
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Scenes")]
    sentences: usize,
}

impl SceneCounts {
    /// True if a number is given.
    pub(super) fn is_given(&self) -> bool {
        self.train.is_some() || self.valid.is_some() || self.test.is_some() || self.sentences != 3
    }

    /// Writes all sets to a folder.
    pub(super) fn write(&self, folder: &Path, side: usize, seed: u64) -> Result<()> {
        if !(1..=6).contains(&self.sentences) {
            let message = format!("--sentences {}, expected 1 to 6", self.sentences);
            return Err(Misuse { message, hint: "a scene has a few different sentences".into() }.into());
        }
        if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            let message = format!("{}: a folder with files, expected a new or empty one", folder.display());
            return Err(Misuse { message, hint: "choose another --out, or remove the folder".into() }.into());
        }
        let counts = [self.train.unwrap_or(10_000), self.valid.unwrap_or(500), self.test.unwrap_or(1_000)];
        let total: u64 = counts.iter().sum();
        let mut progress = LineProgress::new(Some(total));
        for (set, count) in Set::ALL.into_iter().zip(counts) {
            self.write_set(folder, (set, count), (side, seed), &mut progress)?;
        }
        progress.finish();
        let held_out = json!({
            "seed": seed,
            "size": side,
            "held_out_combinations": HELD_OUT.map(named),
            "held_out_pairs": held_out_pairs().into_iter().map(|pair| pair.map(named)).collect::<Vec<_>>(),
        });
        Output::save(
            folder.join("scenes.json"),
            (serde_json::to_string_pretty(&held_out)? + "\n").as_bytes(),
        )?;
        Output::save(folder.join("README.md"), README.as_bytes())?;
        note(&format!("wrote {} to {}", counted(total, "scene"), folder.display()));
        Ok(())
    }

    fn write_set(
        &self,
        folder: &Path,
        (set, count): (Set, u64),
        (side, seed): (usize, u64),
        progress: &mut LineProgress,
    ) -> Result<()> {
        let own = folder.join(set.name());
        create(&own)?;
        let mut texts = Output::create(folder.join(format!("{}.tsv", set.name())))?;
        let mut facts = Output::create(folder.join(format!("{}.jsonl", set.name())))?;
        for first in (0..count).step_by(CHUNK as usize) {
            let last = count.min(first + CHUNK);
            let made = (first..last).into_par_iter().map(|index| -> Result<_> {
                let scene = Scene::make(seed, set, index);
                let name = format!("{}/{index:06}.png", set.name());
                let path = folder.join(&name);
                std::fs::write(&path, scene.render(side).to_png())
                    .map_err(|error| polyhead_text::Error::io(&path, "write", error))?;
                let sentences = scene.sentences(self.sentences);
                let lines: String =
                    sentences.iter().map(|sentence| format!("{name}\t{sentence}\n")).collect();
                Ok((lines, record(&scene, &name)?))
            });
            for (lines, record) in made.collect::<Result<Vec<_>>>()? {
                texts.write(lines.as_bytes())?;
                facts.write_line(&record)?;
            }
            progress.add(last - first, 0);
        }
        texts.finish()?;
        Ok(facts.finish()?)
    }
}

fn create(folder: &PathBuf) -> Result<()> {
    Ok(std::fs::create_dir_all(folder).map_err(|error| polyhead_text::Error::io(folder, "create", error))?)
}

/// The facts of a scene as a line of JSON.
fn record(scene: &Scene, image: &str) -> Result<String> {
    let mut value = serde_json::to_value(scene.facts())?;
    if let Value::Object(map) = &mut value {
        map.insert("image".into(), image.into());
        map.insert("objects".into(), serde_json::to_value(&scene.objects)?);
        if let Some(held_out) = scene.held_out() {
            map.insert("held_out".into(), held_out.into());
        }
    }
    Ok(value.to_string())
}

fn named((colour, shape): Kind) -> String {
    format!("{} {}", colour.name(), shape.name())
}

/// The pixels of a side that `--size` asks for.
pub(super) fn side([least, most]: [usize; 2]) -> Result<usize> {
    if least != most || !(SIDES[0]..=SIDES[1]).contains(&least) {
        let message = format!(
            "--size for scenes, expected pixels of a side from {} to {}",
            SIDES[0],
            grouped(SIDES[1] as u64)
        );
        return Err(Misuse { message, hint: format!("the default is {SIDE}") }.into());
    }
    Ok(least)
}
