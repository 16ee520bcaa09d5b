//! `polyhead draw`: pictures of what stands around attention, for lectures.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use polyhead_attention::Mask;
use polyhead_attention::position::{Layout, Sinusoidal};
use polyhead_inspect::chart::{Chart, PictureOptions, Series, stacked};
use polyhead_inspect::draw;
use polyhead_train::schedule::{Curve, Schedule, ScheduleConfig};

use crate::picture::Form;
use crate::report::{Misuse, note};

/// The most positions, numbers of a position, and tokens of a mask.
const MOST: u64 = 1024;
/// Points of a curve.
const POINTS: u64 = 400;

const EXAMPLES: &str = "\
Examples:
  polyhead draw positions --length 100 --d-model 128 --out positions.svg
  polyhead draw schedule --curve noam,inverse-sqrt,cosine --warmup 4000 --steps 40000 --out schedule.png
  polyhead draw mask --kind causal --length 12 --out causal.svg
  polyhead draw mask --kind window --distance 2 --causal --length 12 --out window.svg
  polyhead draw mask --kind padding --lengths 5,8,3 --out padding.svg";

/// What to draw.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Draw {
    /// Sinusoidal positions: a row for each position, a column for each number of it
    Positions(Positions),
    /// Learning rates over the steps of training
    Schedule(Curves),
    /// Which queries may look at which keys
    Mask(MaskPicture),
}

/// Options of `polyhead draw positions`.
#[derive(Debug, Args)]
pub(crate) struct Positions {
    /// Positions
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    length: u64,
    /// Numbers of each
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    d_model: u64,
    /// In which order sines and cosines stand
    #[arg(long, value_enum, default_value_t = LayoutName::Interleaved)]
    layout: LayoutName,
    /// The picture, .svg or .png
    #[arg(long, value_name = "FILE", default_value = "positions.svg")]
    out: PathBuf,
}

/// In which order sines and cosines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    /// sin, cos, sin, cos, …, as in the paper
    Interleaved,
    /// All sines, then all cosines, as in Marian
    Concatenated,
    /// The same with d/2 − 1 in the exponent
    Fairseq,
}

/// Options of `polyhead draw schedule`.
#[derive(Debug, Args)]
pub(crate) struct Curves {
    /// The curves
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [CurveName::Noam])]
    curve: Vec<CurveName>,
    /// Steps from 0 to the peak
    #[arg(long, value_name = "N", default_value_t = 4000)]
    warmup: u64,
    /// Steps that are drawn; cosine and linear end there
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(2..=1_000_000_000_000))]
    steps: u64,
    /// The highest rate, except of noam
    #[arg(long, value_name = "X", default_value_t = 7e-4)]
    peak: f64,
    /// Width of the model, for noam
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    d_model: u64,
    /// The picture, .svg or .png
    #[arg(long, value_name = "FILE", default_value = "schedule.svg")]
    out: PathBuf,
}

/// The form of a curve after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CurveName {
    /// As in the Transformer paper
    Noam,
    /// Falls with 1/√step
    InverseSqrt,
    /// Falls like a cosine to 0
    Cosine,
    /// Falls like a line to 0
    Linear,
    /// Stays
    Constant,
}

/// Options of `polyhead draw mask`.
#[derive(Debug, Args)]
pub(crate) struct MaskPicture {
    /// The rule
    #[arg(long, value_enum, default_value_t = MaskName::Causal)]
    kind: MaskName,
    /// Tokens [default: 12, of padding the longest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST))]
    length: Option<u64>,
    /// Tokens to each side of a window
    #[arg(long, value_name = "N", default_value_t = 2)]
    distance: usize,
    /// How far apart the tokens of a dilated window are
    #[arg(long, value_name = "N", default_value_t = 2)]
    dilation: usize,
    /// Positions that see all and are seen by all, for global
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    global: Vec<usize>,
    /// Lengths of the sentences of a batch, for padding
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "5,8,3")]
    lengths: Vec<u32>,
    /// Hide the future besides
    #[arg(long)]
    causal: bool,
    /// The picture, .svg or .png
    #[arg(long, value_name = "FILE", default_value = "mask.svg")]
    out: PathBuf,
}

/// The rule of a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MaskName {
    /// Everything is seen
    Full,
    /// Not the future
    Causal,
    /// Not what fills up a batch
    Padding,
    /// Some tokens to each side
    Window,
    /// Some tokens to each side, with gaps
    Dilated,
    /// A window, and some tokens that see all and are seen by all
    Global,
}

impl Draw {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Positions(positions) => positions.run(),
            Self::Schedule(curves) => curves.run(),
            Self::Mask(mask) => mask.run(),
        }
    }
}

impl Positions {
    fn run(self) -> Result<()> {
        let layout = match self.layout {
            LayoutName::Interleaved => Layout::Interleaved,
            LayoutName::Concatenated => Layout::Concatenated,
            LayoutName::Fairseq => Layout::Fairseq,
        };
        let sinusoidal = Sinusoidal { layout, first: 0 };
        let title = "Sinusoidal positions: sin and cos of position / 10000^(2j/d)";
        save(&self.out, || draw::positions(sinusoidal, self.length as usize, self.d_model as usize, title))
    }
}

impl Curves {
    fn run(self) -> Result<()> {
        let series = self.curve.iter().map(|&curve| self.series(curve)).collect::<Result<Vec<_>>>()?;
        let chart =
            Chart { title: "Learning rate".into(), x_label: "step".into(), series, ..Chart::default() };
        save(&self.out, || stacked(&[chart], &PictureOptions::default()))
    }

    fn series(&self, name: CurveName) -> Result<Series> {
        let (curve, name) = match name {
            CurveName::Noam => (Curve::Noam, format!("noam, d_model {}", self.d_model)),
            CurveName::InverseSqrt => (Curve::InverseSqrt, "inverse square root".into()),
            CurveName::Cosine => (Curve::Cosine, "cosine".into()),
            CurveName::Linear => (Curve::Linear, "linear".into()),
            CurveName::Constant => (Curve::Constant, "constant".into()),
        };
        let config =
            ScheduleConfig { curve, peak: self.peak, warmup_steps: self.warmup, ..ScheduleConfig::default() };
        let schedule = Schedule::new(&config, self.d_model as usize, self.steps)?;
        let points = POINTS.min(self.steps);
        // The peak stands at the end of the warm-up, which may fall between two others.
        let mut steps: Vec<u64> = (0..=points)
            .map(|point| (u128::from(self.steps) * u128::from(point) / u128::from(points)) as u64)
            .chain([self.warmup.min(self.steps)])
            .collect();
        steps.sort_unstable();
        let points = steps.into_iter().map(|step| [step as f64, schedule.rate(step)]).collect();
        Ok(Series { name, points, ..Series::default() })
    }
}

impl MaskPicture {
    fn run(self) -> Result<()> {
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        let is_padding = self.kind == MaskName::Padding;
        let length = self.length.unwrap_or(if is_padding { longest.into() } else { 12 }).max(1);
        let room = length.min(MOST);
        if is_padding && (self.lengths.len() > 8 || u64::from(longest) > room) {
            return Err(Misuse {
                message: format!(
                    "--lengths: {} sentences of up to {longest} tokens, expected at most 8 of up to {room}",
                    self.lengths.len()
                ),
                hint: "draw fewer and shorter ones, or leave --length out".into(),
            }
            .into());
        }
        let (rule, title) = match self.kind {
            MaskName::Full => (Mask::full(), "Full attention".into()),
            MaskName::Causal => (Mask::causal(), "Causal mask".into()),
            MaskName::Padding => (Mask::padding(self.lengths.clone()), "Padding mask".into()),
            MaskName::Window => {
                (Mask::window(self.distance), format!("Window of {} to each side", self.distance))
            }
            MaskName::Dilated => (
                Mask::dilated(self.distance, self.dilation),
                format!("Window of {} to each side, {} apart", self.distance, self.dilation),
            ),
            MaskName::Global => (
                Mask::window(self.distance).or(Mask::global(self.global.clone())),
                format!("Window of {} to each side, with global tokens", self.distance),
            ),
        };
        let is_causal = self.causal && self.kind != MaskName::Causal;
        let (rule, title) =
            if is_causal { (rule.and(Mask::causal()), format!("{title}, causal")) } else { (rule, title) };
        let batch = if is_padding { self.lengths.len() } else { 1 };
        save(&self.out, || draw::mask(&rule, batch, length as usize, &title))
    }
}

/// Writes the picture as its name says.
fn save(out: &Path, svg: impl FnOnce() -> String) -> Result<()> {
    let form = Form::of_out(out)?;
    form.save(out, &svg())?;
    note(&format!("wrote {}", out.display()));
    Ok(())
}
