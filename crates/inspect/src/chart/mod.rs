//! Line charts as SVG, one below the other in one picture.
//!
//! `line.rs` places points, `axis.rs` places ticks, `label.rs` formats numbers, `mark.rs` labels single points, and `draw.rs`
//! assembles a chart.

mod axis;
mod draw;
mod label;
mod line;
mod mark;

pub use label::alone as number_label;

use crate::{font, palette, svg};

/// Colours of series, in order.
pub const COLOURS: [&str; 8] = palette::SERIES;

/// A chart: lines over one pair of axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// Title above the chart; default: empty.
    pub title: String,
    /// Label of the x axis; default: empty.
    pub x_label: String,
    /// Label of the y axis, with its unit; default: empty.
    pub y_label: String,
    /// The lines, later ones on top; default: none.
    pub series: Vec<Series>,
    /// Scale of the y axis; default: linear.
    pub y_scale: AxisScale,
}

/// One line of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Name in the legend; default: empty, not in the legend.
    pub name: String,
    /// Points (x, y) in drawing order; a NaN or infinite coordinate makes a gap; default: none.
    pub points: Vec<[f64; 2]>,
    /// Index into [`COLOURS`], modulo their number; default: index in the chart.
    pub colour: Option<usize>,
    /// Line weight; default: strong.
    pub weight: LineWeight,
    /// A point with a ring and a label; default: none.
    pub mark: Option<MarkedPoint>,
}

/// A labelled point of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct MarkedPoint {
    /// The point (x, y).
    pub point: [f64; 2],
    /// The label.
    pub text: String,
}

/// Axis scale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AxisScale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic; numbers that are not positive make gaps.
    Log,
}

/// Line weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineWeight {
    /// A strong line, with a dot at each point if they are few.
    #[default]
    Strong,
    /// A thinner, lighter line, beneath a strong one.
    Light,
    /// A faint line, for values before smoothing.
    Faint,
}

/// Options of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct PictureOptions {
    /// Heading above all charts; default: empty.
    pub title: String,
    /// Width of the picture in SVG units, at least 240; default: 900.
    pub width: f64,
    /// Height of each chart's plot area, at least 60; default: 220.
    pub plot_height: f64,
}

impl Default for PictureOptions {
    fn default() -> Self {
        Self { title: String::new(), width: 900.0, plot_height: 220.0 }
    }
}

/// Draws the charts as SVG, one below the other. Plots are aligned, and charts with the same x label share their x axis.
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
