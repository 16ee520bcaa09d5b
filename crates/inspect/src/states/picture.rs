//! A comparison as SVG: the occurrences in their texts, the points of some layers in the plane, and the cosines by layer.

use std::cmp::Ordering;

use super::StateLayer;
use super::compare::{ComparedLayer, Comparison, Occurrence};
use crate::label::visible;
use crate::palette::SERIES;
use crate::{font, svg};

const MARGIN: f64 = 24.0;
const GAP: f64 = 24.0;
const PANEL: [f64; 2] = [380.0, 290.0];
/// Space between a panel's frame and its points.
const INSET: f64 = 30.0;
const CHART_HEIGHT: f64 = 190.0;
const INK: &str = "#1f2328";
const QUIET: &str = "#57606a";
const FRAME: &str = "#d0d7de";
const LABEL: f64 = 11.0;
/// Occurrences that the heading lists.
const LISTED: usize = 8;
/// Pairs with a line of their own.
const MAX_LINES: usize = 6;
/// Characters of a text on each side of an occurrence.
const CONTEXT: usize = 46;

/// A rectangle: left, top, right, bottom.
type Box4 = [f64; 4];

/// The layers that a picture shows by default: the first and the last.
pub fn ends(found: &Comparison) -> Vec<StateLayer> {
    let first = found.layers.first().map(|own| own.layer);
    let last = found.layers.last().map(|own| own.layer).filter(|last| Some(*last) != first);
    first.into_iter().chain(last).collect()
}

/// Draws a comparison, with a panel for each of `layers`.
pub fn picture(found: &Comparison, title: &str, layers: &[StateLayer]) -> String {
    let width = 2.0 * PANEL[0] + GAP;
    let mut top = MARGIN + 18.0;
    let mut body = text([MARGIN, top], 18.0, INK, &font::fitted(&visible(title), 18.0, width));
    top += 12.0;
    for (index, occurrence) in found.occurrences.iter().enumerate().take(LISTED) {
        top += 20.0;
        body += &listed(found, occurrence, index, [MARGIN, top]);
    }
    if found.occurrences.len() > LISTED {
        top += 20.0;
        let more = format!("… {} more", found.occurrences.len() - LISTED);
        body += &text([MARGIN, top], 13.0, QUIET, &more);
    }
    top += GAP;
    let shown: Vec<&ComparedLayer> = found.layers.iter().filter(|own| layers.contains(&own.layer)).collect();
    for row in shown.chunks(2) {
        for (column, layer) in row.iter().enumerate() {
            body += &panel(found, layer, [MARGIN + column as f64 * (PANEL[0] + GAP), top]);
        }
        top += PANEL[1] + GAP + 20.0;
    }
    if found.layers.len() > 1 {
        body += &chart(found, [MARGIN, top], width);
        top += CHART_HEIGHT + 62.0;
    }
    svg::document([width + 2.0 * MARGIN, top + MARGIN - GAP], title, &body)
}

/// The colour of an occurrence.
fn colour(index: usize) -> &'static str {
    SERIES[index % SERIES.len()]
}

/// An occurrence in the list: its number and its context, with the word in its colour.
fn listed(found: &Comparison, own: &Occurrence, index: usize, [x, y]: [f64; 2]) -> String {
    let [before, word, after] = context(found, own, CONTEXT);
    let span = |colour: &str, weight: &str, part: &str| {
        format!("<tspan fill=\"{colour}\" font-weight=\"{weight}\">{}</tspan>", svg::escaped(&visible(part)))
    };
    let [cx, cy, baseline] = [x + 8.0, y - 4.5, y].map(svg::short);
    format!(
        "<circle cx=\"{cx}\" cy=\"{cy}\" r=\"8\" fill=\"{0}\"/>{1}\
         <text x=\"{2}\" y=\"{baseline}\" font-size=\"13\" xml:space=\"preserve\">{3}{4}{5}</text>\n",
        colour(index),
        badge([x + 8.0, y - 4.5], index),
        svg::short(x + 24.0),
        span(QUIET, "400", &before),
        span(colour(index), "700", &word),
        span(QUIET, "400", &after),
    )
}

/// The number of an occurrence on its disc.
fn badge([x, y]: [f64; 2], index: usize) -> String {
    let number = (index + 1).to_string();
    let left = x - font::width(&number, 10.0) / 2.0;
    text([left, y + 3.6], 10.0, "#ffffff", &number)
}

/// The text around an occurrence, at most `most` characters on each side.
pub fn context(found: &Comparison, own: &Occurrence, most: usize) -> [String; 3] {
    let text = &found.texts[own.text].side.text;
    let before: Vec<char> = text[..own.span.start].chars().collect();
    let after: Vec<char> = text[own.span.end..].chars().collect();
    let start = before.len().saturating_sub(most);
    let cut = if start > 0 { "…" } else { "" };
    let more = if after.len() > most { "…" } else { "" };
    [
        format!("{cut}{}", before[start..].iter().collect::<String>()),
        text[own.span.clone()].to_owned(),
        format!("{}{more}", after.iter().take(most).collect::<String>()),
    ]
}

/// The points of a layer.
fn panel(found: &Comparison, layer: &ComparedLayer, [left, top]: [f64; 2]) -> String {
    let n = layer.similarities.n_rows();
    let mut title = layer.layer.name();
    if n == 2 {
        title += &format!(" · cosine {:.2}", layer.similarities.row(0)[1]);
    }
    let mut out = text([left, top + 12.0], 13.0, INK, &title);
    let share = format!("{:.0} % of the variance", 100.0 * layer.variance);
    out += &text([left + PANEL[0] - font::width(&share, LABEL), top + 12.0], LABEL, QUIET, &share);
    let frame_top = top + 20.0;
    let [x, y, width, height] = [left, frame_top, PANEL[0], PANEL[1]].map(svg::short);
    out += &format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"{FRAME}\"/>\n"
    );
    let places = scaled(&layer.places, [left, frame_top]);
    let bounds = [left + 2.0, frame_top + 2.0, left + PANEL[0] - 2.0, frame_top + PANEL[1] - 2.0];
    let mut taken: Vec<Box4> = found
        .points
        .iter()
        .zip(&places)
        .filter(|(point, _)| point.occurrence.is_some())
        .map(|(_, [x, y])| [x - 9.0, y - 9.0, x + 9.0, y + 9.0])
        .collect();
    // Occurrences are drawn last, above the others, but their labels have the first choice of a place.
    let mut order: Vec<usize> = (0..found.points.len()).collect();
    order.sort_by_key(|index| found.points[*index].occurrence.is_none());
    let (mut marks, mut others) = (String::new(), String::new());
    for index in order {
        let (point, place) = (&found.points[index], places[index]);
        let label = visible(&point.label);
        let [cx, cy] = place.map(svg::short);
        let (radius, ink, out) = if let Some(own) = point.occurrence {
            let fill = colour(own);
            let badge = badge(place, own);
            marks += &format!("<circle cx=\"{cx}\" cy=\"{cy}\" r=\"8\" fill=\"{fill}\"/>{badge}");
            (8.0, fill, &mut marks)
        } else {
            others += &format!("<circle cx=\"{cx}\" cy=\"{cy}\" r=\"2.5\" fill=\"{QUIET}\"/>\n");
            (2.5, QUIET, &mut others)
        };
        let free = label_place(place, (&label, radius), bounds, &taken);
        if let Some((at, own)) = free {
            taken.push(own);
            *out += &text(at, LABEL, ink, &label);
        }
    }
    out + &others + &marks
}

/// Points within a panel, the same scale on both axes.
fn scaled(places: &[[f64; 2]], corner: [f64; 2]) -> Vec<[f64; 2]> {
    let bound = |axis: usize, start: f64, choose: fn(f64, f64) -> f64| {
        places.iter().map(|place| place[axis]).fold(start, choose)
    };
    let low = [0, 1].map(|axis| bound(axis, f64::INFINITY, f64::min));
    let high = [0, 1].map(|axis| bound(axis, f64::NEG_INFINITY, f64::max));
    let room = [0, 1].map(|axis| (PANEL[axis] - 2.0 * INSET) / (high[axis] - low[axis]).max(1e-9));
    let unit = room[0].min(room[1]);
    let place = |place: &[f64; 2]| {
        [0, 1].map(|axis| {
            let middle = f64::midpoint(low[axis], high[axis]);
            let sign = if axis == 0 { 1.0 } else { -1.0 };
            corner[axis] + PANEL[axis] / 2.0 + sign * (place[axis] - middle) * unit
        })
    };
    places.iter().map(place).collect()
}

/// The start of a label beside a point, and its box; `None` if there is no room.
fn label_place(
    [x, y]: [f64; 2],
    (label, radius): (&str, f64),
    bounds: Box4,
    taken: &[Box4],
) -> Option<([f64; 2], Box4)> {
    let width = font::width(label, LABEL);
    let half = LABEL / 2.0 + 1.0;
    let gap = radius + 3.0;
    let candidates = [
        [x + gap, y],
        [x - gap - width, y],
        [x - width / 2.0, y - gap - half],
        [x - width / 2.0, y + gap + half],
    ];
    candidates.into_iter().find_map(|[left, middle]| {
        let own = [left, middle - half, left + width, middle + half];
        let inside = own[0] >= bounds[0] && own[1] >= bounds[1] && own[2] <= bounds[2] && own[3] <= bounds[3];
        let is_free = taken.iter().all(|other| {
            own[2] <= other[0] || other[2] <= own[0] || own[3] <= other[1] || other[3] <= own[1]
        });
        (inside && is_free).then_some(([left, middle + LABEL * 0.36], own))
    })
}

/// A line of the chart.
struct Line {
    name: String,
    colour: &'static str,
    dashes: &'static str,
    values: Vec<f64>,
}

/// Cosines by layer: each pair, or their mean, and the mean of other tokens.
fn chart(found: &Comparison, [left, top]: [f64; 2], width: f64) -> String {
    let mut lines = lines(found);
    // Labels at the ends of lines are in the order of the lines.
    lines.sort_by(|a, b| b.values.last().partial_cmp(&a.values.last()).unwrap_or(Ordering::Equal));
    let all = || lines.iter().flat_map(|line| line.values.iter().copied()).filter(|value| value.is_finite());
    let least = (all().fold(0.0, f64::min) * 5.0).floor() / 5.0;
    let (plot_left, plot_top) = (left + 34.0, top + 22.0);
    let plot_width = width - 34.0 - 150.0;
    let steps = (found.layers.len() - 1) as f64;
    let x = |index: usize| plot_left + plot_width * index as f64 / steps;
    let y = |value: f64| plot_top + CHART_HEIGHT * (1.0 - value) / (1.0 - least);
    let mut out = text([left, top + 8.0], 13.0, INK, "cosine after each layer");
    let ticks = ((1.0 - least) / 0.2).round() as usize;
    for tick in 0..=ticks {
        let value = least + 0.2 * tick as f64;
        let [x1, x2, at] = [plot_left, plot_left + plot_width, y(value)].map(svg::short);
        out += &format!("<line x1=\"{x1}\" x2=\"{x2}\" y1=\"{at}\" y2=\"{at}\" stroke=\"{FRAME}\"/>\n");
        let label = format!("{value:.1}").replace('-', "−");
        out += &text([plot_left - 8.0 - font::width(&label, LABEL), y(value) + 4.0], LABEL, QUIET, &label);
    }
    let every = (found.layers.len() / 14).max(1);
    for (index, layer) in found.layers.iter().enumerate().step_by(every) {
        let name = match layer.layer {
            StateLayer::Layer(layer) => layer.to_string(),
            other => other.name(),
        };
        let at = [x(index) - font::width(&name, LABEL) / 2.0, plot_top + CHART_HEIGHT + 16.0];
        out += &text(at, LABEL, QUIET, &name);
    }
    let mut ends: Vec<f64> = Vec::new();
    for line in &lines {
        let points = line.values.iter().enumerate().filter(|(_, value)| value.is_finite());
        let path: Vec<String> = points
            .map(|(index, value)| format!("{} {}", svg::short(x(index)), svg::short(y(*value))))
            .collect();
        out += &format!(
            "<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
            path.join("L"),
            line.colour,
            line.dashes
        );
        // Labels of lines that end at the same height stand below each other.
        let mut end = y(line.values.last().copied().unwrap_or(0.0)) + 4.0;
        while ends.iter().any(|other: &f64| (other - end).abs() < 13.0) {
            end += 1.0;
        }
        ends.push(end);
        out += &text([plot_left + plot_width + 8.0, end], LABEL, line.colour, &line.name);
    }
    out
}

fn lines(found: &Comparison) -> Vec<Line> {
    let pairs = found.pairs();
    let of = |values: &dyn Fn(&ComparedLayer) -> f64| found.layers.iter().map(values).collect::<Vec<f64>>();
    let pair = |own: &ComparedLayer, [a, b]: [usize; 2]| f64::from(own.similarities.row(a)[b]);
    let last = |values: &[f64]| values.last().copied().unwrap_or(0.0);
    let mut lines: Vec<Line> = if pairs.len() <= MAX_LINES {
        let line = |(index, &both): (usize, &[usize; 2])| {
            let values = of(&|own| pair(own, both));
            let name = format!("{} and {}: {:.2}", both[0] + 1, both[1] + 1, last(&values));
            Line { name, colour: colour(index), dashes: "", values }
        };
        pairs.iter().enumerate().map(line).collect()
    } else {
        let mean =
            |own: &ComparedLayer| pairs.iter().map(|both| pair(own, *both)).sum::<f64>() / pairs.len() as f64;
        let values = of(&mean);
        let name = format!("mean of {} pairs: {:.2}", pairs.len(), last(&values));
        vec![Line { name, colour: colour(0), dashes: "", values }]
    };
    let values = of(&|own| own.others.unwrap_or(f64::NAN));
    if values.iter().all(|value| value.is_finite()) {
        let name = format!("other pairs of tokens: {:.2}", last(&values));
        lines.push(Line { name, colour: QUIET, dashes: " stroke-dasharray=\"5 4\"", values });
    }
    lines
}

fn text([x, y]: [f64; 2], size: f64, colour: &str, text: &str) -> String {
    let [x, y] = [x, y].map(svg::short);
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\">{}</text>\n",
        svg::escaped(text)
    )
}
