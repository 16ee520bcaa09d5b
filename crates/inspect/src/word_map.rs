//! A map of words: labelled points in two dimensions, coloured by cluster, as SVG and as a web page with search.

use serde_json::json;

use crate::font;
use crate::label::visible;
use crate::palette::{SERIES, SERIES_ON_DARK};
use crate::svg::{document, escaped, short};

/// Size of the picture, in pixels.
const SIZE: [f64; 2] = [1200.0, 900.0];
/// Space around the points; labels at the right edge need more of it.
const MARGIN: [f64; 2] = [60.0, 40.0];
const FONT_SIZE: f64 = 11.0;
const RADIUS: f64 = 2.0;

/// The page of [`WordMap::html`], with places for its title and its data.
const PAGE: &str = include_str!("../assets/word_map.html");

/// Words with their places and clusters. Labels of earlier words come first where space is scarce.
#[derive(Debug, Clone, PartialEq)]
pub struct WordMap {
    /// Title of the picture.
    pub title: String,
    /// The words.
    pub words: Vec<String>,
    /// Their places; any scale.
    pub places: Vec<[f64; 2]>,
    /// Their clusters; colours repeat after eight.
    pub clusters: Vec<usize>,
    /// The words nearest to each, as indices; may be empty.
    pub neighbours: Vec<Vec<usize>>,
}

/// A rectangle: left, top, right, bottom.
type Box4 = [f64; 4];

impl WordMap {
    /// The map as SVG. Labels never overlap; a word without space for its label is a point with a tooltip.
    pub fn svg(&self) -> String {
        let places = self.scaled();
        let mut taken: Vec<Box4> = Vec::new();
        let (mut dots, mut labels) = (String::new(), String::new());
        for (at, &[x, y]) in places.iter().enumerate() {
            let colour = SERIES[self.clusters[at] % SERIES.len()];
            let word = visible(&self.words[at]);
            dots.push_str(&format!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"{RADIUS}\" fill=\"{colour}\" fill-opacity=\"0.55\"><title>{}</title></circle>\n",
                short(x),
                short(y),
                escaped(&word)
            ));
            let width = font::width(&word, FONT_SIZE);
            let free = candidates([x, y], width).into_iter().find(|&(_, own)| {
                let inside = own[0] >= 0.0 && own[1] >= 0.0 && own[2] <= SIZE[0] && own[3] <= SIZE[1];
                inside && taken.iter().all(|other| !overlap(own, *other))
            });
            let Some((left, own)) = free else { continue };
            taken.push(own);
            labels.push_str(&format!(
                "<text x=\"{}\" y=\"{}\" fill=\"{colour}\">{}</text>\n",
                short(left),
                short(own[3] - 3.0),
                escaped(&word)
            ));
        }
        let body = format!("<g>\n{dots}</g>\n<g font-size=\"{FONT_SIZE}\">\n{labels}</g>\n");
        document(SIZE, &self.title, &body)
    }

    /// The map as a self-contained web page: zoom, search, and the neighbours of the word under the pointer.
    pub fn html(&self) -> String {
        let places: Vec<[f64; 2]> =
            self.scaled().iter().map(|place| place.map(|x| (x * 100.0).round() / 100.0)).collect();
        let data = json!({
            "words": self.words.iter().map(|word| visible(word)).collect::<Vec<_>>(),
            "places": places,
            "clusters": self.clusters,
            "neighbours": self.neighbours,
            "size": SIZE,
            "light": SERIES,
            "dark": SERIES_ON_DARK,
        });
        // `</script>` inside a word must not end the script.
        let data = data.to_string().replace("</", "<\\/");
        PAGE.replace("{{title}}", &escaped(&self.title)).replace("{{data}}", &data)
    }

    /// Places within the picture, the same scale on both axes.
    fn scaled(&self) -> Vec<[f64; 2]> {
        let bound = |axis: usize, start: f64, choose: fn(f64, f64) -> f64| {
            self.places.iter().map(|place| place[axis]).fold(start, choose)
        };
        let low = [0, 1].map(|axis| bound(axis, f64::INFINITY, f64::min));
        let high = [0, 1].map(|axis| bound(axis, f64::NEG_INFINITY, f64::max));
        let room = [0, 1].map(|axis| (SIZE[axis] - 2.0 * MARGIN[axis]) / (high[axis] - low[axis]).max(1e-12));
        let place = |place: &[f64; 2]| {
            [0, 1].map(|axis| {
                let middle = f64::midpoint(low[axis], high[axis]);
                SIZE[axis] / 2.0 + (place[axis] - middle) * room[axis]
            })
        };
        self.places.iter().map(place).collect()
    }
}

/// Boxes where a label could stand, the best first, with the left end of its text.
fn candidates([x, y]: [f64; 2], width: f64) -> [(f64, Box4); 4] {
    let half = FONT_SIZE / 2.0 + 1.0;
    let gap = RADIUS + 2.0;
    let at = |left: f64, middle: f64| (left, [left, middle - half, left + width, middle + half]);
    [
        at(x + gap, y),
        at(x - gap - width, y),
        at(x - width / 2.0, y - gap - half),
        at(x - width / 2.0, y + gap + half),
    ]
}

fn overlap(a: Box4, b: Box4) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(n: usize) -> WordMap {
        WordMap {
            title: "words".into(),
            words: (0..n).map(|at| format!("word{at}")).collect(),
            places: (0..n).map(|at| [(at % 30) as f64, (at / 30) as f64 * 0.2]).collect(),
            clusters: (0..n).map(|at| at % 9).collect(),
            neighbours: Vec::new(),
        }
    }

    /// Labels of a crowded map, read back from the SVG.
    #[test]
    fn labels_never_overlap() {
        let svg = map(900).svg();
        let number = |line: &str, name: &str| {
            let rest = line.split(&format!("{name}=\"")).nth(1).expect("an attribute");
            rest.split('"').next().expect("a value").parse::<f64>().expect("a number")
        };
        let boxes: Vec<Box4> = svg
            .lines()
            .filter(|line| line.starts_with("<text"))
            .map(|line| {
                let text = line.split(['>', '<']).nth(2).expect("a text");
                let (x, y) = (number(line, "x"), number(line, "y"));
                [x + 0.02, y - 9.0, x + font::width(text, FONT_SIZE) - 0.02, y + 2.0]
            })
            .collect();
        assert!(boxes.len() > 100, "{}", boxes.len());
        for (at, a) in boxes.iter().enumerate() {
            assert!(boxes[..at].iter().all(|b| !overlap(*a, *b)));
        }
        assert_eq!(svg.matches("<circle").count(), 900);
    }

    #[test]
    fn words_cannot_end_the_script() {
        let mut map = map(3);
        map.words[1] = "</script><b>".into();
        map.title = "<i>".into();
        let page = map.html();
        assert!(!page.contains("</script><b>") && !page.contains("<i>") && !page.contains("{{"));
    }
}
