//! Heat-maps as one SVG: a few large ones with labels, or many small ones in a grid.
//!
//! Cells of the same shade (of 64) are one path, so that a map of 200 × 200 takes half a megabyte.

use super::{HeatMap, ValueRange};
use crate::label::visible;
use crate::{font, palette, svg};

/// Maximum number of rows or columns of a map; larger maps are downsampled.
pub const MOST_CELLS: usize = 256;
/// The same for signed values, which cannot be max-pooled.
const MOST_SIGNED: usize = 2048;
/// Maximum number of maps in a figure with labels.
const MOST_LABELLED: usize = 12;
/// Largest width of a label.
const MOST_LABEL: f64 = 130.0;
const MARGIN: f64 = 24.0;
const GAP: f64 = 28.0;
const LABEL: f64 = 12.0;
const TITLE: f64 = 13.0;
const HEADING: f64 = 18.0;
const SHADES: usize = 64;
const INK: &str = "#1f2328";
const QUIET: &str = "#57606a";
/// Rotation of column labels, in degrees.
const LEAN: f64 = 50.0;

/// Options of a figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FigureOptions {
    /// Heading; default: empty.
    pub title: String,
    /// Lines below the heading; default: none.
    pub lines: Vec<String>,
    /// Columns of the grid of small maps; default: as many as fit.
    pub n_columns: Option<usize>,
}

/// Draws maps in rows.
pub fn figure(maps: &[HeatMap], options: &FigureOptions) -> String {
    let is_labelled = maps.len() <= MOST_LABELLED;
    let panels: Vec<Panel> = maps.iter().map(|map| Panel::new(map, maps.len(), is_labelled)).collect();
    let widest = panels.iter().map(|panel| panel.width).fold(0.0, f64::max);
    let n_columns = options
        .n_columns
        .filter(|_| !is_labelled)
        .unwrap_or_else(|| ((1100.0 / (widest + GAP)) as usize).max(1));
    let mut body = String::new();
    let mut top = MARGIN;
    let mut text = |size: f64, colour: &str, text: &str, top: &mut f64| {
        *top += size;
        body += &format!(
            "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"{size}\" fill=\"{colour}\">{}</text>\n",
            svg::short(*top),
            svg::escaped(text)
        );
        *top += 8.0;
    };
    let most = (widest + GAP).mul_add(n_columns.min(panels.len()).max(1) as f64, -GAP).max(480.0);
    if !options.title.is_empty() {
        text(HEADING, INK, &font::fitted(&visible(&options.title), HEADING, most), &mut top);
    }
    for line in &options.lines {
        text(TITLE, QUIET, &font::fitted(&visible(line), TITLE, most), &mut top);
    }
    if !options.lines.is_empty() || !options.title.is_empty() {
        top += 10.0;
    }
    for row in panels.chunks(n_columns.max(1)) {
        // Plots of a row are aligned, whatever the height of their labels.
        let above = row.iter().map(|panel| panel.above).fold(0.0, f64::max);
        for (place, panel) in row.iter().enumerate() {
            let left = MARGIN + place as f64 * (widest + GAP);
            body += &panel.draw([left, top + above - panel.above]);
        }
        top += row.iter().map(|panel| above - panel.above + panel.height).fold(0.0, f64::max) + GAP;
    }
    svg::document([most + 2.0 * MARGIN, top - GAP + MARGIN], &options.title, &body)
}

/// One map with space for its labels.
struct Panel {
    map: HeatMap,
    /// Size of the pooling window.
    step: usize,
    cell: f64,
    is_labelled: bool,
    /// Space for labels.
    left: f64,
    above: f64,
    width: f64,
    height: f64,
}

impl Panel {
    fn new(map: &HeatMap, n_maps: usize, is_labelled: bool) -> Self {
        let most = if map.range == ValueRange::Signed { MOST_SIGNED } else { MOST_CELLS };
        let (map, step) = map.coarse(most);
        let longest = map.numbers.n_rows().max(map.numbers.n_columns()).max(1) as f64;
        let side = if n_maps == 1 {
            720.0
        } else if is_labelled {
            340.0
        } else {
            110.0
        };
        let cell = (side / longest).min(if is_labelled { 26.0 } else { 12.0 });
        let is_labelled = is_labelled && !map.rows.is_empty();
        let width_of = |label: &String| font::width(&shown(label), label_size(cell)).min(MOST_LABEL);
        let widest = |labels: &[String]| labels.iter().map(width_of).fold(0.0, f64::max);
        let (sine, cosine) = LEAN.to_radians().sin_cos();
        let (left, above, beside) = if is_labelled {
            let top = widest(&map.columns);
            (widest(&map.rows) + 8.0, top * sine + 14.0, top * cosine)
        } else {
            (0.0, 0.0, 0.0)
        };
        let above = above + TITLE + 8.0;
        let [n_rows, n_columns] = [map.numbers.n_rows(), map.numbers.n_columns()].map(|n| n as f64);
        let legend = if is_labelled { 34.0 } else { 0.0 };
        let title = font::width(&visible(&map.title), TITLE) + left;
        Self {
            step,
            cell,
            is_labelled,
            left,
            above,
            width: (left + n_columns * cell + beside).max(title.min(340.0)).max(90.0),
            height: above + n_rows * cell + legend,
            map,
        }
    }

    fn draw(&self, [left, top]: [f64; 2]) -> String {
        let Self { map, cell, .. } = self;
        let [x, y] = [left + self.left, top + self.above];
        let [wide, high] =
            [map.numbers.n_columns(), map.numbers.n_rows()].map(|n| svg::short(n as f64 * cell));
        let title = font::fitted(&visible(&map.title), TITLE, self.width - self.left);
        let mut out = format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{TITLE}\" fill=\"{INK}\">{}</text>\n",
            svg::short(x),
            svg::short(top + TITLE),
            svg::escaped(&title)
        );
        out += &format!("<g transform=\"translate({} {})\">\n", svg::short(x), svg::short(y));
        out += &self.cells();
        out += &self.lines();
        out += &format!(
            "<rect width=\"{wide}\" height=\"{high}\" fill=\"none\" stroke=\"#d0d7de\" stroke-width=\"1\"/>\n"
        );
        if self.is_labelled {
            out += &self.labels();
            out += &self.legend();
        }
        out + "</g>\n"
    }

    /// One path for each shade that occurs.
    fn cells(&self) -> String {
        let mut paths = vec![String::new(); SHADES + 1];
        let side = svg::short(self.cell);
        for (row, numbers) in self.map.numbers.rows().enumerate() {
            for (column, &number) in numbers.iter().enumerate() {
                let part = match self.map.range {
                    ValueRange::Weights | ValueRange::Mask => self.map.part(number),
                    ValueRange::Signed => f32::midpoint(number, 1.0),
                };
                let shade = (part.clamp(0.0, 1.0) * SHADES as f32).round() as usize;
                let [x, y] = [column, row].map(|place| svg::short(place as f64 * self.cell));
                paths[shade] += &format!("M{x} {y}h{side}v{side}h-{side}z");
            }
        }
        let path = |(shade, path): (usize, &String)| {
            let part = shade as f32 / SHADES as f32;
            let rgb = self.colour(part);
            let is_drawn = !path.is_empty() && rgb != [255; 3];
            is_drawn.then(|| {
                format!(
                    "<path fill=\"{}\" shape-rendering=\"crispEdges\" d=\"{path}\"/>\n",
                    palette::hex(rgb)
                )
            })
        };
        paths.iter().enumerate().filter_map(path).collect()
    }

    /// The colour of a fraction of the range, 0 to 1.
    fn colour(&self, part: f32) -> palette::Rgb {
        match self.map.range {
            ValueRange::Weights => palette::on_paper(part),
            ValueRange::Signed => palette::signed(2.0 * part - 1.0),
            // A shade on which grid lines are visible.
            ValueRange::Mask => palette::on_paper(part / 2.0),
        }
    }

    /// Grid lines between cells that are large enough.
    fn lines(&self) -> String {
        if self.map.range != ValueRange::Mask || self.cell < 5.0 {
            return String::new();
        }
        let [wide, high] = [self.map.numbers.n_columns(), self.map.numbers.n_rows()];
        let [right, bottom] = [wide, high].map(|n| svg::short(n as f64 * self.cell));
        let at = |place: usize| svg::short(place as f64 * self.cell);
        let down: String = (1..wide).map(|place| format!("M{} 0V{bottom}", at(place))).collect();
        let across: String = (1..high).map(|place| format!("M0 {}H{right}", at(place))).collect();
        format!("<path fill=\"none\" stroke=\"#d0d7de\" stroke-width=\"0.75\" d=\"{down}{across}\"/>\n")
    }

    fn labels(&self) -> String {
        let size = label_size(self.cell);
        // If cells are smaller than letters, only every n-th has a label.
        let every = (size / self.cell).ceil().max(1.0) as usize;
        let mut out = format!("<g font-size=\"{}\" fill=\"{INK}\">\n", svg::short(size));
        for (row, label) in self.map.rows.iter().enumerate().step_by(every) {
            let y = svg::short((row as f64 + 0.5).mul_add(self.cell, size * 0.36));
            let label = svg::escaped(&font::fitted(&shown(label), size, MOST_LABEL));
            out += &format!("<text x=\"-7\" y=\"{y}\" text-anchor=\"end\">{label}</text>\n");
        }
        for (column, label) in self.map.columns.iter().enumerate().step_by(every) {
            let x = svg::short((column as f64 + 0.5).mul_add(self.cell, size * 0.25));
            let label = svg::escaped(&font::fitted(&shown(label), size, MOST_LABEL));
            out += &format!("<text transform=\"translate({x} -6) rotate(-{LEAN})\">{label}</text>\n");
        }
        out + "</g>\n"
    }

    /// The colour legend.
    fn legend(&self) -> String {
        let y = self.map.numbers.n_rows() as f64 * self.cell + 12.0;
        if self.map.range == ValueRange::Mask {
            let swatch = palette::hex(self.colour(1.0));
            let [y, baseline] = [y, y + 9.0].map(svg::short);
            return format!(
                "<rect y=\"{y}\" width=\"10\" height=\"10\" fill=\"{swatch}\"/>\
                 <text x=\"16\" y=\"{baseline}\" font-size=\"11\" fill=\"{QUIET}\">the query may attend to the key</text>\n"
            );
        }
        let (low, high) = match self.map.range {
            ValueRange::Weights => ("0", format!("{:.2}", self.map.top())),
            ValueRange::Signed | ValueRange::Mask => ("−1", "1".to_owned()),
        };
        let steps = 24;
        let swatch = |step: usize| {
            let part = step as f32 / (steps - 1) as f32;
            let rgb = self.colour(part);
            let x = 18 + 4 * step;
            format!(
                "<rect x=\"{x}\" y=\"{}\" width=\"4\" height=\"10\" fill=\"{}\"/>",
                svg::short(y),
                palette::hex(rgb)
            )
        };
        let coarse = if self.step == 1 {
            String::new()
        } else {
            format!(" · a cell is the largest of {0} × {0} weights", self.step)
        };
        let baseline = svg::short(y + 9.0);
        format!(
            "<g font-size=\"11\" fill=\"{QUIET}\"><text x=\"14\" y=\"{baseline}\" text-anchor=\"end\">{low}</text>{}\
             <text x=\"{}\" y=\"{baseline}\">{high}{coarse}</text></g>\n",
            (0..steps).map(swatch).collect::<String>(),
            18 + 4 * steps + 6
        )
    }
}

fn label_size(cell: f64) -> f64 {
    (cell * 0.8).clamp(7.0, LABEL)
}

/// A label with hidden characters made visible; `␣` if it is blank.
fn shown(label: &str) -> String {
    let label = visible(label);
    if label.trim().is_empty() { "␣".into() } else { label }
}
