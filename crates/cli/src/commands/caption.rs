//! `polyhead caption`: texts about images.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_engine::image::{CaptionOptions, ImageCaption, Picture, decode};
use polyhead_engine::scene::{FactCounts, read_facts};
use polyhead_engine::{CaptionEngine, LoadOptions};
use polyhead_text::lines::Lines;
use polyhead_text::metrics::{Bleu, Chrf, Statistics};
use serde_json::json;

use super::classify::{ImageReading, image_files};
use crate::compute_options::ComputeOptions;
use crate::decode_options::positive;
use crate::line_progress::LineProgress;
use crate::output_format::LineFormat;
use crate::report::{aligned, grouped, note, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead data make scenes --out scenes
  polyhead train recipes/images/scenes.toml
  polyhead caption -m runs/scenes/model scenes/test/000000.png
  polyhead caption -m runs/scenes/model --format jsonl scenes/test
  polyhead caption -m runs/scenes/model --score scenes/test.jsonl
  polyhead inspect -m runs/scenes/model --image photo.png --out words.svg

Images are PNG and JPEG files, or folders of them; they are resized and normalised as the model's preprocessor_config.json says. With several images, text has the name of the file and a tab before each caption. An image that cannot be read gets an empty caption and a note.

--score FILE.jsonl compares captions with the facts of scenes (polyhead data make scenes): the share of objects, colours, relations, positions and sizes that are right. A caption may state any true relation; objects that it leaves out count as wrong. Any other FILE has lines of an image (relative to the file), a tab and a caption; captions are compared with all captions of their image by BLEU and chrF.

Captioners are trained by polyhead train with task = \"caption\".";

/// Images that are decoded and described at once.
const CHUNK: usize = 64;

/// Options of `polyhead caption`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Caption {
    /// PNG or JPEG files, or folders of them
    #[arg(value_name = "IMAGE", required_unless_present = "score")]
    files: Vec<PathBuf>,
    /// Model folder or run folder of a captioner, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    format: LineFormat,
    /// Compare captions with facts (.jsonl) or captions of images, and print scores
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "output_format"])]
    score: Option<PathBuf>,
    #[command(flatten)]
    reading: ImageReading,
    /// Beam size; 1 is greedy search [default: that of the model, else 1]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    beam: Option<usize>,
    /// Most tokens of a caption [default: as many as the model has positions]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    max_tokens: Option<usize>,
    #[command(flatten)]
    compute: ComputeOptions,
}

impl Caption {
    pub(crate) fn run(self) -> Result<()> {
        let files = image_files(&self.files)?;
        let load = |folder: &Path, options: &LoadOptions| {
            CaptionEngine::load(folder, options, self.reading.options())
        };
        self.compute.with_model(&self.model, load, |engine| match &self.score {
            Some(path) if path.extension().is_some_and(|extension| extension == "jsonl") => {
                self.score_facts(engine, path)
            }
            Some(path) => self.score_texts(engine, path),
            None => (0..)
                .step_by(CHUNK)
                .zip(files.chunks(CHUNK))
                .try_for_each(|(first, part)| self.write(engine, part, (first, files.len()))),
        })
    }

    fn options(&self) -> CaptionOptions {
        CaptionOptions { beam_size: self.beam, max_tokens: self.max_tokens }
    }

    /// Prints a line for each image, of which the first has the number `first`, of `all`.
    fn write(&self, engine: &CaptionEngine, files: &[PathBuf], (first, all): (usize, usize)) -> Result<()> {
        let limits = self.reading.limits();
        let read: Vec<_> = files.iter().map(|file| decode::read(file, limits)).collect();
        let pictures: Vec<Picture> = read.iter().flatten().cloned().collect();
        let mut found = engine.caption(&pictures, &self.options())?.into_iter();
        let mut out = std::io::stdout().lock();
        for ((file, read), number) in files.iter().zip(&read).zip(first..) {
            let caption = match read {
                Ok(_) => found.next(),
                Err(reason) => {
                    note(&format!("note: {reason}"));
                    None
                }
            };
            let name = file.display().to_string();
            let text = caption.as_ref().map_or("", |caption| &caption.text).replace(['\n', '\r'], " ");
            if self.format.is_jsonl() {
                writeln!(out, "{}", json_line(number, &name, caption.as_ref()))?;
            } else if all > 1 {
                writeln!(out, "{name}\t{text}")?;
            } else {
                writeln!(out, "{text}")?;
            }
        }
        Ok(())
    }

    /// Captions of the images of a list; every image must be readable.
    fn captions(&self, engine: &CaptionEngine, list: &Path, images: &[String]) -> Result<Vec<String>> {
        let folder = list.parent().unwrap_or_else(|| Path::new(""));
        let mut progress = LineProgress::new(Some(images.len() as u64));
        let mut found = Vec::with_capacity(images.len());
        for part in images.chunks(CHUNK) {
            let read = |name: &String| decode::read(&folder.join(name), self.reading.limits());
            let pictures = part.iter().map(read).collect::<polyhead_engine::Result<Vec<Picture>>>()?;
            found.extend(engine.caption(&pictures, &self.options())?.into_iter().map(|own| own.text));
            progress.add(part.len() as u64, 0);
        }
        progress.finish();
        Ok(found)
    }

    /// Compares captions with the facts of scenes.
    fn score_facts(&self, engine: &CaptionEngine, path: &Path) -> Result<()> {
        let facts = read_facts(path)?;
        let images: Vec<String> = facts.keys().cloned().collect();
        let captions = self.captions(engine, path, &images)?;
        let mut counts = FactCounts::default();
        facts.values().zip(&captions).for_each(|(own, text)| counts.add(&own.score(text)));
        let mut rows = vec![("images", grouped(images.len() as u64)), ("facts", percent(counts.all()))];
        rows.extend(counts.rows().into_iter().map(|(name, own)| (name, percent(own))));
        print_text(&aligned(&rows))
    }

    /// Compares captions with others by BLEU and chrF.
    fn score_texts(&self, engine: &CaptionEngine, path: &Path) -> Result<()> {
        let (images, references) = references(path)?;
        let captions = self.captions(engine, path, &images)?;
        let (bleu, chrf) = (Bleu::default(), Chrf::default());
        let rows = [
            ("images", grouped(images.len() as u64)),
            ("BLEU", format!("{:.2}", Statistics::collect(&bleu, &captions, &references)?.score(&bleu))),
            ("chrF", format!("{:.2}", Statistics::collect(&chrf, &captions, &references)?.score(&chrf))),
        ];
        print_text(&aligned(&rows))
    }
}

/// The images of a list, and their captions: the first of each, the second of each, and so on; an image with fewer than others
/// repeats its last one.
fn references(path: &Path) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    let (mut images, mut captions): (Vec<String>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    let mut lines = Lines::open(path)?;
    let mut number = 0;
    while let Some(line) = lines.next_text()? {
        number += 1;
        let Some((image, caption)) = line.split_once('\t') else {
            let message = "no tab, expected the path of an image, a tab and a caption";
            let hint = "paths are relative to the folder of the file";
            let place = format!("{}:{number}", path.display());
            return Err(polyhead_engine::Error::at(place, message, hint).into());
        };
        if images.last().is_none_or(|last| last != image) {
            images.push(image.to_owned());
            captions.push(Vec::new());
        }
        captions.last_mut().into_iter().for_each(|own| own.push(caption.trim().to_owned()));
    }
    let most = captions.iter().map(Vec::len).max().unwrap_or(0);
    let column = |at: usize| captions.iter().map(|own| own[at.min(own.len() - 1)].clone()).collect();
    Ok((images, (0..most).map(column).collect()))
}

/// As in `98.41 % (1,240 of 1,260)`.
fn percent([right, all]: [u64; 2]) -> String {
    if all == 0 {
        return "none".to_owned();
    }
    format!("{:.2} % ({} of {})", 100.0 * right as f64 / all as f64, grouped(right), grouped(all))
}

fn json_line(id: usize, image: &str, caption: Option<&ImageCaption>) -> String {
    json!({
        "id": id,
        "image": image,
        "caption": caption.map(|own| &own.text),
        "log_probability": caption.map(|own| own.log_probability),
    })
    .to_string()
}
