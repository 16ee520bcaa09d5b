//! The answer of a pointer network as a picture: points in the plane with the predicted outline and where each step
//! attended, and the attention of all steps as a map.

use crate::matrix::Matrix;
use crate::{font, palette, svg};

const MARGIN: f64 = 24.0;
const SIDE: f64 = 400.0;
const CELL: f64 = 22.0;
const INK: &str = "#1f2328";
const QUIET: &str = "#57606a";
const FOUND: &str = "#0969da";
const EXPECTED: &str = "#bf8700";
/// Weights below this are not drawn as lines.
const FAINT: f32 = 0.02;

/// How the points of an answer are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outline {
    /// A closed polygon: a hull or a tour.
    Polygon,
    /// One triangle after the other.
    Triangles,
    /// Nothing.
    None,
}

/// An answer to draw.
#[derive(Debug, Clone)]
pub struct PointPicture<'a> {
    /// Heading.
    pub title: &'a str,
    /// Coordinates in the plane; empty if there are none, and only the attention is drawn.
    pub points: &'a [[f64; 2]],
    /// One label for each point.
    pub labels: &'a [String],
    /// The answer: indices of points.
    pub order: &'a [u32],
    /// The expected answer, if it is known.
    pub expected: Option<&'a [u32]>,
    /// How the points are joined.
    pub outline: Outline,
    /// Attention, one row for each step, the end included: the weights of the points, then that of the end.
    pub weights: &'a Matrix,
}

/// Draws an answer as SVG.
pub fn points(picture: &PointPicture<'_>) -> String {
    let mut body = text([MARGIN, MARGIN + 14.0], 16.0, INK, picture.title);
    let top = MARGIN + 34.0;
    let (mut left, mut bottom) = (MARGIN, top);
    if !picture.points.is_empty() {
        let plane = Plane::new(picture.points, [MARGIN, top]);
        body += &plane.draw(picture);
        (left, bottom) = (MARGIN + SIDE + 40.0, top + SIDE + 46.0);
    }
    let (map, size) = attention(picture, [left, top]);
    body += &map;
    let width = (left + size[0] + MARGIN).max(font::width(picture.title, 16.0) + 2.0 * MARGIN);
    svg::document([width, bottom.max(top + size[1]) + MARGIN], picture.title, &body)
}

/// The square that the points are drawn in; y points up.
struct Plane {
    corner: [f64; 2],
    least: [f64; 2],
    unit: f64,
}

impl Plane {
    fn new(points: &[[f64; 2]], corner: [f64; 2]) -> Self {
        let of = |axis: usize, better: fn(f64, f64) -> f64| {
            points.iter().map(|point| point[axis]).reduce(better).unwrap_or(0.0)
        };
        let least = [of(0, f64::min), of(1, f64::min)];
        let spread = (of(0, f64::max) - least[0]).max(of(1, f64::max) - least[1]);
        let unit = if spread > 0.0 { (SIDE - 40.0) / spread } else { 1.0 };
        Self { corner, least, unit }
    }

    fn place(&self, point: [f64; 2]) -> [f64; 2] {
        let [x, y] = [0, 1].map(|axis| (point[axis] - self.least[axis]) * self.unit);
        [self.corner[0] + 20.0 + x, self.corner[1] + SIDE - 20.0 - y]
    }

    fn draw(&self, picture: &PointPicture<'_>) -> String {
        let [x, y] = self.corner.map(svg::short);
        let mut out = format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"none\" stroke=\"#d0d7de\"/>\n"
        );
        let at = |index: u32| self.place(picture.points[index as usize]);
        // Where each step attended besides the point that it chose.
        for (step, weights) in picture.weights.rows().enumerate().skip(1).take(picture.order.len()) {
            let from = at(picture.order[step - 1]);
            for (point, &weight) in weights[..picture.points.len()].iter().enumerate() {
                if weight >= FAINT && picture.order.get(step) != Some(&(point as u32)) {
                    let width = 1.0 + 6.0 * f64::from(weight);
                    out += &line(from, at(point as u32), QUIET, width, &format!(" opacity=\"{weight:.2}\""));
                }
            }
        }
        if let Some(expected) = picture.expected.filter(|expected| *expected != picture.order) {
            for [a, b] in edges(expected, picture.outline) {
                out += &line(at(a), at(b), EXPECTED, 2.0, " stroke-dasharray=\"5 5\"");
            }
        }
        for [a, b] in edges(picture.order, picture.outline) {
            let (from, to) = (at(a), at(b));
            out += &line(from, to, FOUND, 2.5, "");
            if picture.outline == Outline::Polygon {
                out += &arrow(from, to);
            }
        }
        for (index, &point) in picture.points.iter().enumerate() {
            let [x, y] = self.place(point);
            let is_first = picture.order.first() == Some(&(index as u32));
            let (radius, fill) = if is_first { (6.0, FOUND) } else { (4.0, INK) };
            out += &format!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{fill}\"/>\n",
                svg::short(x),
                svg::short(y)
            );
            out += &text([x + 7.0, y - 7.0], 12.0, INK, &index.to_string());
        }
        let [left, below] = [self.corner[0], self.corner[1] + SIDE + 18.0];
        out += &text([left, below], 12.0, FOUND, "answer, from the large point");
        let other = if picture.expected.is_some_and(|expected| expected != picture.order) {
            text([left + 200.0, below], 12.0, EXPECTED, "expected, where it differs")
        } else {
            String::new()
        };
        out + &other + &text([left, below + 18.0], 12.0, QUIET, "grey: other points attended to")
    }
}

/// Pairs of points to join.
fn edges(order: &[u32], outline: Outline) -> Vec<[u32; 2]> {
    let closed = |corners: &[u32]| -> Vec<[u32; 2]> {
        let next = corners.iter().cycle().skip(1);
        corners.iter().zip(next).map(|(a, b)| [*a, *b]).collect()
    };
    match outline {
        Outline::Polygon => closed(order),
        Outline::Triangles => order.chunks_exact(3).flat_map(closed).collect(),
        Outline::None => Vec::new(),
    }
}

/// The map of all steps: rows are the chosen points, columns all points and the end. Returns it with its size.
fn attention(picture: &PointPicture<'_>, [left, top]: [f64; 2]) -> (String, [f64; 2]) {
    let PointPicture { labels, order, weights, points, .. } = picture;
    let name = |point: usize| if points.is_empty() { labels[point].clone() } else { point.to_string() };
    let mut columns: Vec<String> = (0..labels.len()).map(name).collect();
    columns.push("end".into());
    let mut rows: Vec<String> = order.iter().map(|&point| columns[point as usize].clone()).collect();
    rows.push("end".into());
    let margin = rows.iter().map(|row| font::width(row, 12.0)).fold(0.0, f64::max) + 8.0;
    let (x, y) = (left + margin, top + 40.0);
    let mut out = text([x, top + 12.0], 13.0, INK, "answer ↓ attends to points →");
    for (column, label) in columns.iter().enumerate() {
        let middle = x + (column as f64 + 0.5) * CELL - font::width(label, 11.0) / 2.0;
        out += &text([middle, y - 6.0], 11.0, QUIET, label);
    }
    for ((row, label), numbers) in rows.iter().enumerate().zip(weights.rows()) {
        let at = y + row as f64 * CELL;
        out += &text([x - 6.0 - font::width(label, 12.0), at + 15.0], 12.0, QUIET, label);
        for (column, &weight) in numbers.iter().enumerate() {
            let [cx, cy] = [x + column as f64 * CELL, at].map(svg::short);
            let fill = palette::hex(palette::on_paper(weight));
            out += &format!(
                "<rect x=\"{cx}\" y=\"{cy}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{fill}\"/>\n"
            );
        }
    }
    let size = [columns.len() as f64 * CELL, rows.len() as f64 * CELL];
    let [sx, sy] = [x, y].map(svg::short);
    let [width, height] = size.map(svg::short);
    out += &format!(
        "<rect x=\"{sx}\" y=\"{sy}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#d0d7de\"/>\n"
    );
    (out, [margin + size[0], 40.0 + size[1]])
}

fn text([x, y]: [f64; 2], size: f64, colour: &str, text: &str) -> String {
    let [x, y] = [x, y].map(svg::short);
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\">{}</text>\n",
        svg::escaped(text)
    )
}

fn line(from: [f64; 2], to: [f64; 2], colour: &str, width: f64, more: &str) -> String {
    let [x1, y1, x2, y2] = [from[0], from[1], to[0], to[1]].map(svg::short);
    let width = svg::short(width);
    format!(
        "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{colour}\" stroke-width=\"{width}\"{more}/>\n"
    )
}

/// An arrow head in the middle of a line.
fn arrow(from: [f64; 2], to: [f64; 2]) -> String {
    let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    let length = dx.hypot(dy);
    if length < 16.0 {
        return String::new();
    }
    let [ux, uy] = [dx / length, dy / length];
    let [mx, my] = [f64::midpoint(from[0], to[0]) + 5.0 * ux, f64::midpoint(from[1], to[1]) + 5.0 * uy];
    let corner = |along: f64, across: f64| {
        let [x, y] = [mx + along * ux - across * uy, my + along * uy + across * ux].map(svg::short);
        format!("{x},{y}")
    };
    let corners = [corner(0.0, 0.0), corner(-10.0, 4.5), corner(-10.0, -4.5)].join(" ");
    format!("<polygon points=\"{corners}\" fill=\"{FOUND}\"/>\n")
}
