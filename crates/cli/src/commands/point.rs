//! `polyhead point`: the answers of a pointer network, as JSON lines, scores or a picture.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::{Filter, Intervention};
use polyhead_engine::point::{PointRow, PointScores, Rows};
use polyhead_engine::{LoadOptions, PointEngine};
use polyhead_inspect::draw::{Outline, PointPicture, points};
use polyhead_inspect::matrix::Matrix;
use polyhead_models::pointer::{AnswerRule, Found, SearchOptions};
use serde_json::{Value, json};

use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::model_folder::{report_loaded, resolve};
use crate::option_help::{DEVICE, DTYPE, THREADS};
use crate::picture::PictureFormat;
use crate::report::{Misuse, aligned, counted, grouped, note, print_text, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead train recipes/pointer/sort.toml
  echo '{\"numbers\": [42, 7, 99]}' | polyhead point -m runs/pointer/sort/model
  polyhead point -m runs/pointer/hull/model --score hull-test.jsonl
  polyhead point -m runs/pointer/tsp/model --beam 8 --picture tour.svg tsp.jsonl

Each line of the input is a JSON object with the key \"points\", a list of points with equally many coordinates, or \"numbers\", a list of numbers. Each gives a line with \"order\", the indices of the answer counted from 0, and \"log_probability\"; with --n-best, \"answers\" has several, best first. Every answer follows the rule of the training data: every point once, some of the points at most once, or triangles.

--score compares with the key \"order\" of the input. --picture draws one line: the points, the answer with arrows, where each step attended, and the expected answer if it differs.";

/// Rows that are answered at once.
const CHUNK: usize = 1024;

/// Options of `polyhead point`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Point {
    /// File of JSON lines [default: standard input]
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    input: PathBuf,
    /// Model folder or run folder of a pointer network, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Beam size; 1 is greedy search
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    beam: usize,
    /// Number of answers for each line, at most the beam size
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    n_best: usize,
    /// Print scores against the expected orders instead of answers
    #[arg(long)]
    score: bool,
    /// Picture of one line to write, .svg or .png
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Line of the picture, counted from 1
    #[arg(long, value_name = "N", default_value_t = 1, requires = "picture", value_parser = positive)]
    line: usize,
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Compute", help = DEVICE,
          value_parser = device_name)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

impl Point {
    pub(crate) fn run(self) -> Result<()> {
        if self.n_best > self.beam {
            let message = format!("--n-best {}, but --beam {}", self.n_best, self.beam);
            return Err(Misuse { message, hint: format!("use --beam {} or more", self.n_best) }.into());
        }
        let picture = self.picture.as_ref().map(|path| picture_format(path)).transpose()?;
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let (device, dtype) = self.dtype.open(&self.device)?;
            let folder = resolve(&self.model)?;
            let engine = PointEngine::load(&folder, &LoadOptions { device, dtype })?;
            report_loaded(&folder, &engine.parameters().device(), self.dtype.name(), start);
            self.answer(&engine, picture)
        })
    }

    /// Reads the input by chunks, and prints or scores the answers.
    fn answer(&self, engine: &PointEngine, picture: Option<PictureFormat>) -> Result<()> {
        let mut rows = Rows::open(&self.input)?;
        let mut scored: Vec<(PointRow, Vec<u32>)> = Vec::new();
        let (mut done, mut is_drawn) = (0, false);
        loop {
            let mut chunk = Vec::new();
            while chunk.len() < CHUNK
                && let Some(row) = rows.next_row()?
            {
                engine.check(&row).map_err(|error| self.in_line(&error, rows.line()))?;
                if self.score && row.order.is_none() {
                    let error =
                        polyhead_engine::Error::request("no order, expected the answer", "--score needs it");
                    return Err(self.in_line(&error, rows.line()).into());
                }
                chunk.push(row);
            }
            if chunk.is_empty() {
                break;
            }
            let found = engine.solve(&chunk, SearchOptions { beam_size: self.beam })?;
            if let (Some(format), Some(path)) = (picture, &self.picture)
                && (done..done + chunk.len()).contains(&(self.line - 1))
            {
                let at = self.line - 1 - done;
                format.save(path, &draw(engine, &chunk[at], &found[at][0], self.line)?)?;
                note(&format!("wrote {}", path.display()));
                is_drawn = true;
            }
            done += chunk.len();
            if self.score {
                let answers = found.into_iter().map(|mut found| found.remove(0).order);
                scored.extend(chunk.into_iter().zip(answers));
            } else {
                self.print(&chunk, &found)?;
            }
        }
        if picture.is_some() && !is_drawn {
            let message = format!("--line {}, but the input has {}", self.line, counted(done as u64, "line"));
            return Err(Misuse { message, hint: "lines are counted from 1".into() }.into());
        }
        if self.score { print_scores(&scored, engine.model().config().answer) } else { Ok(()) }
    }

    /// An error of a row, with the line that it stands in.
    fn in_line(&self, error: &polyhead_engine::Error, line: u64) -> polyhead_engine::Error {
        let name = if self.input == Path::new("-") {
            "standard input".into()
        } else {
            self.input.display().to_string()
        };
        polyhead_engine::Error::at(format!("{name}:{line}"), error.to_string(), error.hint())
    }

    fn print(&self, rows: &[PointRow], found: &[Vec<Found>]) -> Result<()> {
        let mut out = std::io::stdout().lock();
        for (row, found) in rows.iter().zip(found) {
            let mut map = PointRow { order: None, ..row.clone() }.to_json();
            let best = &found[0];
            map.insert("order".into(), best.order.clone().into());
            map.insert("log_probability".into(), json!(best.log_probability));
            if self.n_best > 1 {
                let answers = found.iter().take(self.n_best);
                let answer =
                    |found: &Found| json!({ "order": found.order, "log_probability": found.log_probability });
                map.insert("answers".into(), answers.map(answer).collect());
            }
            writeln!(out, "{}", Value::Object(map))?;
        }
        Ok(())
    }
}

fn picture_format(path: &Path) -> Result<PictureFormat> {
    let wrong = || Misuse {
        message: format!("--picture: {}, expected a name that ends in .svg or .png", path.display()),
        hint: "SVG stays sharp at any size; PNG is for programs that cannot show SVG".into(),
    };
    Ok(PictureFormat::of(path).ok_or_else(wrong)?)
}

fn print_scores(scored: &[(PointRow, Vec<u32>)], rule: AnswerRule) -> Result<()> {
    let scores = PointScores::of(scored.iter().map(|(row, found)| (row, found.as_slice())), rule);
    let mut rows = vec![
        ("rows", grouped(scores.rows as u64)),
        ("sequences right", format!("{:.2} %", scores.sequences)),
        ("positions right", format!("{:.2} %", scores.positions)),
    ];
    rows.extend(scores.tour.map(|ratio| ("tour length", format!("{ratio:.4} of the expected one"))));
    rows.extend(scores.area.map(|ratio| ("area", format!("{:.2} % of the expected one", 100.0 * ratio))));
    rows.extend(scores.triangles.map(|share| ("triangles found", format!("{share:.2} %"))));
    print_text(&aligned(&rows))
}

/// The picture of an answer.
fn draw(engine: &PointEngine, row: &PointRow, found: &Found, line: usize) -> Result<String> {
    let changes = (&Filter::default(), &Intervention::default());
    let (attentions, _) = engine.attention(row, &found.order, changes)?;
    // The pointer is the first site; a glimpse is computed before it.
    let pointer = engine.sites().all().next();
    let pointer = attentions.iter().find(|attention| Some(attention.site) == pointer);
    let weights = pointer.map_or(&[][..], |attention| attention.weights.data());
    let n_keys = 1 + row.len();
    // The end comes last in the picture.
    let turned = weights.chunks_exact(n_keys).flat_map(|keys| keys[1..].iter().chain(&keys[..1]).copied());
    let weights = Matrix::new(n_keys, turned.collect());
    let plane: Vec<[f64; 2]> = if row.d_point == 2 {
        (0..row.len()).map(|index| [0, 1].map(|axis| f64::from(row.point(index)[axis]))).collect()
    } else {
        Vec::new()
    };
    let labels: Vec<String> = (0..row.len()).map(|index| row.label(index)).collect();
    let title = match &row.order {
        Some(expected) if *expected == found.order => format!("line {line}: as expected"),
        Some(_) => format!("line {line}: not the expected answer"),
        None => format!("line {line}"),
    };
    Ok(points(&PointPicture {
        title: &title,
        points: &plane,
        labels: &labels,
        order: &found.order,
        expected: row.order.as_deref(),
        outline: match engine.model().config().answer {
            AnswerRule::Triangles => Outline::Triangles,
            AnswerRule::Permutation | AnswerRule::Subset => Outline::Polygon,
            AnswerRule::Free => Outline::None,
        },
        weights: &weights,
    }))
}
