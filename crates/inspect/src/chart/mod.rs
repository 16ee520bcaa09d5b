//! Line charts as SVG, one below the other in one picture.
//!
//! Points become pixels in `line.rs`, numbers become round ticks in `axis.rs` and words in
//! `label.rs`, `mark.rs` names single points, and `draw.rs` puts a chart together.

mod axis;
mod draw;
mod label;
mod line;
mod mark;

pub use label::alone as number_label;

use crate::{font, svg};

/// Colours of series, in order.
pub const COLOURS: [&str; 8] =
    ["#2563eb", "#ea580c", "#0f9d76", "#c026d3", "#a16207", "#0891b2", "#dc2626", "#6b7280"];

/// A chart: lines over one pair of axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// What the chart shows, above it; empty by default.
    pub title: String,
    /// What is counted from left to right; empty by default.
    pub x_label: String,
    /// What is counted upwards, and its unit; empty by default.
    pub y_label: String,
    /// The lines, later ones on top; none by default.
    pub series: Vec<Series>,
    /// How numbers become heights; linear by default.
    pub y_scale: Scale,
}

/// One line of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Its name in the legend; empty, as by default, leaves it out of the legend.
    pub name: String,
    /// Points (x, y) in drawing order, none by default. A point that is no finite number makes a gap.
    pub points: Vec<[f64; 2]>,
    /// Its place in [`COLOURS`], over again after the last; by default its place in the chart.
    pub colour: Option<usize>,
    /// How much it stands out; strong by default.
    pub weight: Weight,
    /// A point to be ringed and named; none by default.
    pub mark: Option<Mark>,
}

/// A point of a line that the reader should find.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The point (x, y).
    pub point: [f64; 2],
    /// What stands beside it.
    pub text: String,
}

/// How numbers become heights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally high.
    #[default]
    Linear,
    /// Equal ratios are equally high; numbers that are not positive make gaps.
    Log,
}

/// How much a line stands out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Weight {
    /// A strong line, with a dot at each point where they are few.
    #[default]
    Strong,
    /// A thinner, lighter line that goes well beneath a strong one.
    Light,
    /// A shadow of a line, as for values before smoothing.
    Faint,
}

/// The picture around charts.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureOptions {
    /// A heading above all charts; empty by default.
    pub title: String,
    /// Width of the picture in SVG units; 900 by default, 240 at least.
    pub width: f64,
    /// Height of each chart's plot, between its axes; 220 by default, 60 at least.
    pub plot_height: f64,
}

impl Default for PictureOptions {
    fn default() -> Self {
        Self { title: String::new(), width: 900.0, plot_height: 220.0 }
    }
}

/// A picture (SVG) of the charts, one below the other. Their plots are in line, and those with the same
/// label from left to right have the same numbers there.
pub fn stacked(charts: &[Chart], options: &PictureOptions) -> String {
    let frame = draw::Frame::new(charts, options);
    let mut top = draw::MARGIN;
    let mut body = String::new();
    if !options.title.is_empty() {
        let title = font::fitted(&options.title, draw::HEADING, frame.width - frame.left - draw::MARGIN);
        body += &draw::text([frame.left, top + draw::HEADING], "font-size=\"18\" fill=\"#1f2328\"", &title);
        top += draw::HEADING + 20.0;
    }
    for (index, chart) in charts.iter().enumerate() {
        body += &draw::chart(chart, &frame, index, &mut top);
        top += draw::BETWEEN;
    }
    let height = if charts.is_empty() { top } else { top - draw::BETWEEN } + draw::MARGIN;
    let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
    let title = if options.title.is_empty() { titles.join(", ") } else { options.title.clone() };
    svg::document([frame.width, height], &title, &body)
}
