//! `polyhead draw`: pictures of position encodings, learning-rate schedules and attention masks, for lectures.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use polyhead_attention::Mask;
use polyhead_attention::position::{SinusoidLayout, Sinusoidal};
use polyhead_inspect::chart::{Chart, PictureOptions, Series, stacked};
use polyhead_inspect::draw;
use polyhead_train::schedule::{Curve, Schedule, ScheduleConfig};

use crate::option_help::PICTURE;
use crate::picture::PictureFormat;
use crate::report::{Misuse, note};

/// Maximum number of positions, of dimensions, and of tokens of a mask.
const MAX_SIZE: u64 = 1024;
/// Points of a curve.
const POINTS: u64 = 400;

const EXAMPLES: &str = "\
Examples:
  polyhead draw positions --length 100 --d-model 128 --out positions.svg
  polyhead draw schedule --curve noam,inverse-sqrt,cosine --out schedule.png
  polyhead draw mask --kind causal --length 12 --out causal.svg";

const POSITIONS_EXAMPLES: &str = "\
Examples:
  polyhead draw positions
  polyhead draw positions --length 100 --layout concatenated --out marian.png

Sinusoidal position encodings (Vaswani et al. 2017): one row per position, one column per dimension.";

const SCHEDULE_EXAMPLES: &str = "\
Examples:
  polyhead draw schedule
  polyhead draw schedule --curve noam,inverse-sqrt,cosine --warmup 4000 \\
      --steps 40000 --out schedule.png";

const MASK_EXAMPLES: &str = "\
Examples:
  polyhead draw mask --kind causal --length 12 --out causal.svg
  polyhead draw mask --kind window --distance 2 --causal --out window.svg
  polyhead draw mask --kind padding --lengths 5,8,3 --out padding.svg

One row per query, one column per key; a filled cell means that the query may attend to the key.";

/// Subcommands of `polyhead draw`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Draw {
    /// Draw sinusoidal position encodings
    Positions(PositionsPicture),
    /// Draw learning-rate schedules
    Schedule(SchedulePicture),
    /// Draw an attention mask
    Mask(MaskPicture),
}

/// Options of `polyhead draw positions`.
#[derive(Debug, Args)]
#[command(after_help = POSITIONS_EXAMPLES)]
pub(crate) struct PositionsPicture {
    /// Number of positions
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=MAX_SIZE))]
    length: u64,
    /// Number of dimensions
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=MAX_SIZE))]
    d_model: u64,
    /// Order of sines and cosines
    #[arg(long, value_enum, default_value_t = PositionLayout::Interleaved)]
    layout: PositionLayout,
    #[arg(short, long, value_name = "FILE", default_value = "positions.svg", help = PICTURE)]
    out: PathBuf,
}

/// Order of sines and cosines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PositionLayout {
    /// sin, cos, sin, cos, …, as in the paper
    Interleaved,
    /// All sines, then all cosines, as in Marian
    Concatenated,
    /// As concatenated, with d/2 − 1 in the exponent
    Fairseq,
}

/// Options of `polyhead draw schedule`.
#[derive(Debug, Args)]
#[command(after_help = SCHEDULE_EXAMPLES)]
pub(crate) struct SchedulePicture {
    /// Schedules to draw
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [CurveName::Noam])]
    curve: Vec<CurveName>,
    /// Warm-up steps
    #[arg(long, value_name = "N", default_value_t = 4000)]
    warmup: u64,
    /// Number of steps; cosine and linear reach 0 there
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(2..=1_000_000_000_000))]
    steps: u64,
    /// Peak learning rate, except for noam
    #[arg(long, value_name = "X", default_value_t = 7e-4)]
    peak: f64,
    /// Width of the model, for noam
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    d_model: u64,
    #[arg(short, long, value_name = "FILE", default_value = "schedule.svg", help = PICTURE)]
    out: PathBuf,
}

/// Schedule after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CurveName {
    /// d_model^-0.5 · step^-0.5, of the Transformer paper
    Noam,
    /// Decays with 1/√step
    InverseSqrt,
    /// Cosine decay to 0
    Cosine,
    /// Linear decay to 0
    Linear,
    /// No decay
    Constant,
}

/// Options of `polyhead draw mask`.
#[derive(Debug, Args)]
#[command(after_help = MASK_EXAMPLES)]
pub(crate) struct MaskPicture {
    /// Attention pattern
    #[arg(long, value_enum, default_value_t = MaskName::Causal)]
    kind: MaskName,
    /// Number of tokens [default: 12; for padding, the longest sentence]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_SIZE))]
    length: Option<u64>,
    /// Number of tokens on each side of a window
    #[arg(long, value_name = "N", default_value_t = 2)]
    distance: usize,
    /// Distance between the tokens of a dilated window
    #[arg(long, value_name = "N", default_value_t = 2)]
    dilation: usize,
    /// Positions of global tokens (with --kind global)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0")]
    global: Vec<usize>,
    /// Sentence lengths of the batch (with --kind padding)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "5,8,3")]
    lengths: Vec<u32>,
    /// Also mask the future
    #[arg(long)]
    causal: bool,
    #[arg(short, long, value_name = "FILE", default_value = "mask.svg", help = PICTURE)]
    out: PathBuf,
}

/// Attention pattern of a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MaskName {
    /// Every token attends to every token
    Full,
    /// No token attends to later ones
    Causal,
    /// No token attends to padding
    Padding,
    /// Tokens attend to their neighbours
    Window,
    /// Tokens attend to neighbours with gaps between them
    Dilated,
    /// A window, and tokens that attend to all and are attended to by all
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

impl PositionsPicture {
    fn run(self) -> Result<()> {
        let layout = match self.layout {
            PositionLayout::Interleaved => SinusoidLayout::Interleaved,
            PositionLayout::Concatenated => SinusoidLayout::Concatenated,
            PositionLayout::Fairseq => SinusoidLayout::Fairseq,
        };
        let sinusoidal = Sinusoidal { layout, first: 0 };
        let title = "Sinusoidal positions: sin and cos of position / 10000^(2j/d)";
        save(&self.out, || draw::positions(sinusoidal, self.length as usize, self.d_model as usize, title))
    }
}

impl SchedulePicture {
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
        // The peak, at the end of the warm-up, may be between two points.
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
        let limit = length.min(MAX_SIZE);
        if is_padding && (self.lengths.len() > 8 || u64::from(longest) > limit) {
            return Err(Misuse {
                message: format!(
                    "--lengths: {} sentences of up to {longest} tokens, expected at most 8 of up to {limit}",
                    self.lengths.len()
                ),
                hint: "use fewer and shorter sentences, or leave out --length".into(),
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

/// Writes the picture in the format of its extension.
fn save(out: &Path, svg: impl FnOnce() -> String) -> Result<()> {
    let format = PictureFormat::of_out(out)?;
    format.save(out, &svg())?;
    note(&format!("wrote {}", out.display()));
    Ok(())
}
