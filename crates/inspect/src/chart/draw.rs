//! Draws a chart: title, legend, grid, axes, lines.

use super::axis::{Axis, AxisMargin, Tick};
use super::{AxisScale, COLOURS, Chart, LineWeight, PictureOptions, Series, line, mark};
use crate::font;
use crate::svg::{escaped, short};

/// Margin around the picture.
pub(super) const MARGIN: f64 = 20.0;
/// Space between charts.
pub(super) const BETWEEN: f64 = 26.0;
/// Font size of the picture's heading.
pub(super) const HEADING: f64 = 18.0;
/// Font size of a chart's title.
const TITLE: f64 = 14.0;
/// Font size of labels.
pub(super) const LABEL: f64 = 11.0;
/// Height of a legend row.
const ROW: f64 = 18.0;
/// Length of the line beside a legend name.
const SWATCH: f64 = 18.0;
/// Maximum number of points of a strong line that are drawn as dots.
const MOST_DOTS: usize = 60;

const INK: &str = "#1f2328";
const MUTED: &str = "#59636e";
const GRID: &str = "#e7eaee";
const AXIS: &str = "#a8b0b9";

/// Layout shared by all charts of a picture.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) width: f64,
    plot_height: f64,
    pub(super) left: f64,
    plot_width: f64,
    /// One for each chart; charts with the same x label share it.
    x_axes: Vec<Axis>,
    /// True if the next chart has the same x label, which is then written once.
    is_named_below: Vec<bool>,
}

impl Frame {
    pub(super) fn new(charts: &[Chart], options: &PictureOptions) -> Self {
        let (width, plot_height) = (options.width.max(240.0), options.plot_height.max(60.0));
        let labels = charts.iter().flat_map(|chart| y_ticks(&y_axis(chart, plot_height)));
        let widest = labels.map(|tick| font::width(&tick.label, LABEL)).fold(0.0, f64::max);
        let named = charts.iter().any(|chart| !chart.y_label.is_empty());
        let left = MARGIN + widest.min(width / 4.0) + 8.0 + if named { LABEL + 10.0 } else { 0.0 };
        let plot_width = width - left - MARGIN;
        let x_axes = charts.iter().map(|chart| x_axis(charts, &chart.x_label, plot_width)).collect();
        let next = charts.iter().skip(1).map(Some).chain([None]);
        let is_named_below = charts
            .iter()
            .zip(next)
            .map(|(chart, next)| next.is_some_and(|next| next.x_label == chart.x_label));
        Self { width, plot_height, left, plot_width, x_axes, is_named_below: is_named_below.collect() }
    }
}

/// The x axis of all charts with this label. Points without a finite y are not drawn and must not stretch it.
fn x_axis(charts: &[Chart], label: &str, length: f64) -> Axis {
    let series = charts.iter().filter(|chart| chart.x_label == label).flat_map(|chart| &chart.series);
    let points = series.flat_map(|series| &series.points).filter(|point| point[1].is_finite());
    Axis::new(points.map(|point| point[0]), length, AxisScale::Linear, AxisMargin::Tight)
}

/// SVG of the `index`-th chart from `top` down; `top` is advanced to its lower edge.
pub(super) fn chart(chart: &Chart, frame: &Frame, index: usize, top: &mut f64) -> String {
    let mut out = String::from("<g>\n");
    if !chart.title.is_empty() {
        let title = font::fitted(&chart.title, TITLE, frame.width - frame.left - MARGIN);
        out += &text([frame.left, *top + TITLE], &attributes(TITLE, INK, "start"), &title);
        *top += TITLE + 8.0;
    }
    out += &legend(chart, frame, top);
    *top += 6.0;
    let x_axis = frame.x_axes[index];
    let y_axis = y_axis(chart, frame.plot_height);
    out += &grid(&x_axis, &y_axis, [frame.left, *top]);
    out += &plot(chart, [&x_axis, &y_axis], [frame.left, *top], index);
    if !chart.y_label.is_empty() {
        let at = [MARGIN + LABEL - 2.0, *top + frame.plot_height / 2.0].map(short);
        let label = font::fitted(&chart.y_label, LABEL, frame.plot_height);
        let turned = format!(
            "{} transform=\"translate({} {}) rotate(-90)\"",
            attributes(LABEL, MUTED, "middle"),
            at[0],
            at[1]
        );
        out += &format!("<text {turned}>{}</text>\n", escaped(&label));
    }
    *top += frame.plot_height + LABEL + 8.0;
    if !chart.x_label.is_empty() && !frame.is_named_below[index] {
        *top += LABEL + 6.0;
        let label = font::fitted(&chart.x_label, LABEL, frame.plot_width);
        let at = [frame.left + frame.plot_width / 2.0, *top];
        out += &text(at, &attributes(LABEL, MUTED, "middle"), &label);
    }
    out + "</g>\n"
}

/// The area between the axes.
fn plot(chart: &Chart, [x_axis, y_axis]: [&Axis; 2], [left, top]: [f64; 2], index: usize) -> String {
    let clip = format!("plot{index}");
    let mut out = format!(
        "<clipPath id=\"{clip}\"><rect x=\"-4\" y=\"-4\" width=\"{}\" height=\"{}\"/></clipPath>\n\
         <g transform=\"translate({} {})\">\n<g clip-path=\"url(#{clip})\" fill=\"none\" stroke-linejoin=\"round\" \
         stroke-linecap=\"round\">\n",
        short(x_axis.length + 8.0),
        short(y_axis.length + 8.0),
        short(left),
        short(top)
    );
    let mut is_empty = true;
    for (place, series) in chart.series.iter().enumerate() {
        let segments = line::segments(&series.points, x_axis, y_axis);
        is_empty &= segments.is_empty();
        out += &lines(series, place, &segments);
    }
    out += "</g>\n";
    if is_empty {
        let middle = [x_axis.length / 2.0, y_axis.length / 2.0];
        out += &text(middle, &attributes(LABEL, MUTED, "middle"), "no values");
    }
    out + &mark::marks(chart, [x_axis, y_axis]) + "</g>\n"
}

/// A line of text whose anchor (left, middle or right end of the baseline) is at `at`.
pub(super) fn text(at: [f64; 2], attributes: &str, text: &str) -> String {
    let [x, y] = at.map(short);
    format!("<text x=\"{x}\" y=\"{y}\" {attributes}>{}</text>\n", escaped(text))
}

pub(super) fn attributes(size: f64, fill: &str, anchor: &str) -> String {
    let anchor = if anchor == "start" { String::new() } else { format!(" text-anchor=\"{anchor}\"") };
    format!("font-size=\"{}\" fill=\"{fill}\"{anchor}", short(size))
}

fn y_axis(chart: &Chart, length: f64) -> Axis {
    let points = chart.series.iter().flat_map(|series| &series.points);
    Axis::new(points.map(|point| point[1]), length, chart.y_scale, AxisMargin::Padded)
}

fn y_ticks(axis: &Axis) -> Vec<Tick> {
    axis.ticks(38.0)
}

/// The legend: names with line samples, in as many rows as needed.
fn legend(chart: &Chart, frame: &Frame, top: &mut f64) -> String {
    let named = chart.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
    let mut out = String::new();
    let mut left = frame.left;
    let mut rows = 0.0;
    for (place, series) in named {
        let name = font::fitted(&series.name, LABEL, frame.plot_width - SWATCH - 6.0);
        let width = SWATCH + 6.0 + font::width(&name, LABEL);
        if rows == 0.0 || left + width > frame.left + frame.plot_width + 0.01 {
            (left, rows) = (frame.left, rows + 1.0);
        }
        let middle = *top + (rows - 0.5) * ROW;
        out += &format!(
            "<path d=\"M{} {}h{}\" fill=\"none\" {} stroke-linecap=\"round\"/>\n",
            short(left),
            short(middle),
            short(SWATCH),
            stroke(series, place)
        );
        let at = [left + SWATCH + 6.0, middle + LABEL * 0.36];
        out += &text(at, &attributes(LABEL, MUTED, "start"), &name);
        left += width + 18.0;
    }
    *top += rows * ROW;
    out
}

/// Lines and labels of both axes.
fn grid(x_axis: &Axis, y_axis: &Axis, [left, top]: [f64; 2]) -> String {
    let (width, bottom) = (x_axis.length, top + y_axis.length);
    let mut paths = String::new();
    let mut labels = String::new();
    for tick in y_ticks(y_axis) {
        let y = bottom - tick.at;
        paths += &format!("M{} {}h{}", short(left), short(y), short(width));
        labels += &text([left - 8.0, y + LABEL * 0.36], &attributes(LABEL, MUTED, "end"), &tick.label);
    }
    for tick in x_axis.ticks(80.0) {
        let x = left + tick.at;
        paths += &format!("M{} {}v{}", short(x), short(top), short(y_axis.length));
        // The outermost label must stay inside the picture.
        let half = font::width(&tick.label, LABEL) / 2.0;
        let middle = x.min(left + width + MARGIN - 4.0 - half);
        labels += &text([middle, bottom + LABEL + 7.0], &attributes(LABEL, MUTED, "middle"), &tick.label);
    }
    let base = format!("M{} {}h{}", short(left), short(bottom), short(width));
    format!(
        "<path d=\"{paths}\" stroke=\"{GRID}\" fill=\"none\"/>\n<path d=\"{base}\" stroke=\"{AXIS}\" fill=\"none\"/>\n{labels}"
    )
}

pub(super) fn colour(series: &Series, place: usize) -> &'static str {
    COLOURS[series.colour.unwrap_or(place) % COLOURS.len()]
}

fn stroke(series: &Series, place: usize) -> String {
    let (width, opacity) = match series.weight {
        LineWeight::Strong => (2.0, 1.0),
        LineWeight::Light => (1.4, 0.6),
        LineWeight::Faint => (1.0, 0.25),
    };
    let opacity = if opacity < 1.0 { format!(" stroke-opacity=\"{opacity}\"") } else { String::new() };
    format!("stroke=\"{}\" stroke-width=\"{}\"{opacity}", colour(series, place), short(width))
}

/// The line of a series, and dots where a line alone would hide its points.
fn lines(series: &Series, place: usize, segments: &[Vec<[f64; 2]>]) -> String {
    let path: String =
        segments.iter().filter(|segment| segment.len() > 1).map(|segment| path(segment)).collect();
    let mut out = String::new();
    if !path.is_empty() {
        out += &format!("<path d=\"{path}\" {}/>\n", stroke(series, place));
    }
    let few = series.weight == LineWeight::Strong && series.points.len() <= MOST_DOTS;
    let dots = segments.iter().filter(|segment| few || segment.len() == 1).flatten();
    for &[x, y] in dots {
        let radius = if series.weight == LineWeight::Strong { 2.6 } else { 1.5 };
        out += &format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{}\"/>\n",
            short(x),
            short(y),
            colour(series, place)
        );
    }
    out
}

fn path(points: &[[f64; 2]]) -> String {
    let points: Vec<String> = points.iter().map(|point| format!("{:.1} {:.1}", point[0], point[1])).collect();
    format!("M{}", points.join("L"))
}
