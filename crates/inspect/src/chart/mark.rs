//! Marked points: rings with labels that overlap neither each other nor a ring.

use super::axis::Axis;
use super::draw::{LABEL, attributes, colour, text};
use super::{Chart, MarkedPoint};
use crate::font;
use crate::svg::short;

const RADIUS: f64 = 4.5;
/// Distance from the centre of a ring to its label.
const APART: f64 = 9.0;

/// Left, top, right and bottom.
type Rectangle = [f64; 4];

/// SVG of all marked points of a chart; the origin is the top left of the plot.
pub(super) fn marks(chart: &Chart, [x_axis, y_axis]: [&Axis; 2]) -> String {
    let placed = chart.series.iter().enumerate().filter_map(|(place, series)| {
        let mark = series.mark.as_ref()?;
        let at = [x_axis.place(mark.point[0])?, y_axis.length - y_axis.place(mark.point[1])?];
        Some((mark, at, colour(series, place)))
    });
    let placed: Vec<(&MarkedPoint, [f64; 2], &str)> = placed.collect();
    let mut taken: Vec<Rectangle> =
        placed.iter().map(|(_, [x, y], _)| [x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS]).collect();
    let mut out = String::new();
    for (_, [x, y], colour) in &placed {
        out += &format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{RADIUS}\" fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
            short(*x),
            short(*y)
        );
    }
    for (mark, at, colour) in &placed {
        let room = free(*at, font::width(&mark.text, LABEL), &taken, [x_axis.length, y_axis.length]);
        taken.push(room);
        // A white outline keeps the letters legible on top of lines.
        let halo = "stroke=\"#ffffff\" stroke-width=\"4\" stroke-linejoin=\"round\" paint-order=\"stroke\"";
        let attributes = format!("{} {halo}", attributes(LABEL, colour, "start"));
        out += &text([room[0], room[3] - LABEL * 0.2], &attributes, &mark.text);
    }
    out
}

/// The first free rectangle around a point inside the plot, clockwise from above, then further away.
fn free([x, y]: [f64; 2], width: f64, taken: &[Rectangle], [right, bottom]: [f64; 2]) -> Rectangle {
    let from = |left: f64, top: f64| [left, top, left + width, top + LABEL];
    let around = |apart: f64| {
        [
            from(x - width / 2.0, y - apart - LABEL),
            // At the right edge: above and to the left, off the line that comes from there.
            from(x - width, y - apart - LABEL),
            from(x + apart, y - apart - LABEL / 2.0),
            from(x + apart, y - LABEL / 2.0),
            from(x - width / 2.0, y + apart),
            from(x - apart - width, y - LABEL / 2.0),
            from(x - apart - width, y - apart - LABEL / 2.0),
        ]
    };
    let fits = |place: &Rectangle| {
        let inside = place[0] >= 0.0 && place[1] >= -APART && place[2] <= right + APART && place[3] <= bottom;
        inside && !taken.iter().any(|other| overlap(place, other))
    };
    let places = [1.0, 2.0, 3.0].into_iter().flat_map(|times| around(times * APART - 2.0));
    let least = [x - width / 2.0, y - APART - LABEL];
    places
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| from(least[0].clamp(0.0, (right - width).max(0.0)), least[1].max(0.0)))
}

fn overlap(a: &Rectangle, b: &Rectangle) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_avoid_each_other_and_the_edges() {
        let plot = [300.0, 100.0];
        let points = [[100.0, 50.0], [104.0, 52.0], [96.0, 48.0], [0.0, 0.0], [300.0, 100.0]];
        let mut taken = Vec::new();
        for point in points {
            let room = free(point, 30.0, &taken, plot);
            assert!(!taken.iter().any(|other| overlap(&room, other)), "{point:?}: {room:?} {taken:?}");
            assert!(room[0] >= 0.0 && room[2] <= 300.0 + APART && room[3] <= 100.0, "{point:?}: {room:?}");
            taken.push(room);
        }
        assert!(free([10.0, 10.0], 1000.0, &taken, plot)[0] == 0.0);
    }
}
