//! Attention over an image, drawn on the image: what the class token, or a word of a caption, attends to stays bright, the rest is
//! dark (as in Dosovitskiy et al. 2021, figure 6). The weight of a patch is relative to the largest one and interpolated between the
//! centres of patches.

use polyhead_engine::image::{Filter, Picture};
use resvg::tiny_skia::Pixmap;

use crate::export::base64;
use crate::heat_map::HeatMap;
use crate::matrix::Matrix;
use crate::selection::Selection;
use crate::trace::{CaptionTrace, ImageTrace, ROLLOUT, Trace};
use crate::{Error, Result, png, svg};

/// Width and height of a panel's longer side, in units of the SVG.
const PANEL: f64 = 180.0;
/// Space between panels, and above one for its title.
const GAP: f64 = 12.0;
const TITLE: f64 = 20.0;
/// Space above all panels for the title.
const HEADER: f64 = 62.0;
/// Panels in a row where the selection forms no grid.
const COLUMNS: usize = 4;
/// Panels in a row of a caption.
const CAPTION_COLUMNS: usize = 6;
/// Brightness of a patch without weight.
const DARK: f32 = 0.12;

/// Panels of an image with attention drawn on it.
#[derive(Debug)]
pub struct Overlay {
    size: [f64; 2],
    title: String,
    body: String,
    panels: Vec<Panel>,
}

/// A picture at a place of the drawing.
#[derive(Debug)]
struct Panel {
    place: [f64; 2],
    size: [f64; 2],
    picture: Picture,
}

impl Overlay {
    /// The image, its attention rollout, and the selected heads or the mean of the selected layers.
    ///
    /// # Errors
    /// If the trace is of no image, or there is nothing to draw.
    pub fn new(trace: &Trace, selection: &Selection) -> Result<Self> {
        let (maps, columns) = selection.maps(trace)?;
        if let Some(caption) = trace.caption() {
            return Ok(Self::of_caption(trace, caption, &maps));
        }
        let Some(image) = trace.image() else {
            return Err(Error::request(
                "a trace of text, expected one of an image",
                "choose an image classifier or a captioner",
            ));
        };
        let shown = |weights: &Matrix| darkened((&image.picture, image.grid), &image.of_patches(weights));
        let mut found = vec![("image".to_owned(), image.picture.clone())];
        if let Some(rollout) = trace.rollout().and_then(|rollout| rollout.parts.into_iter().next()) {
            found.push((ROLLOUT.to_owned(), shown(&rollout.1)));
        }
        found.extend(maps.iter().map(|map| (map.title.clone(), shown(&map.numbers))));
        Ok(Self::arranged(found, columns.unwrap_or(COLUMNS).max(2), &heading(trace, image)))
    }

    /// The image, and once for each word of its caption with what the word attends to; once more for each further map.
    fn of_caption(trace: &Trace, caption: &CaptionTrace, maps: &[HeatMap]) -> Self {
        let mut found = vec![("image".to_owned(), caption.picture.clone())];
        let written = trace.sides.last();
        for map in maps {
            let words = written.map(|side| caption.words(side, &map.numbers)).unwrap_or_default();
            for (word, weights) in words {
                let title = if maps.len() > 1 { format!("{word} ({})", map.title) } else { word };
                found.push((title, darkened((&caption.picture, caption.grid), &weights)));
            }
        }
        let name = trace.sides.first().map_or("", |side| side.text.as_str());
        let of = maps.first().filter(|_| maps.len() == 1).map_or("", |map| map.title.as_str());
        let separator = if of.is_empty() { "" } else { ": " };
        let lines = [
            name.to_owned(),
            format!("→ {}", caption.text),
            format!("bright: what each word attends to{separator}{of}"),
        ];
        Self::arranged(found, CAPTION_COLUMNS, &lines)
    }

    fn arranged(found: Vec<(String, Picture)>, columns: usize, lines: &[String; 3]) -> Self {
        let [height, width] = found[0].1.size().map(|side| side as f64);
        let size = [width, height].map(|side| side * PANEL / width.max(height));
        let columns = columns.min(found.len());
        let n_rows = found.len().div_ceil(columns);
        let step = [size[0].max(110.0) + GAP, size[1] + TITLE + GAP];
        let mut body = text([GAP, 20.0], 14, &lines[0])
            + &text([GAP, 38.0], 12, &lines[1])
            + &text([GAP, 54.0], 11, &lines[2]);
        let mut panels = Vec::new();
        for (index, (title, picture)) in found.into_iter().enumerate() {
            let place = [
                GAP + (index % columns) as f64 * step[0],
                HEADER + TITLE + (index / columns) as f64 * step[1],
            ];
            body += &text([place[0], place[1] - 6.0], 11, &title);
            panels.push(Panel { place, size, picture });
        }
        let whole = [(GAP + columns as f64 * step[0]).max(420.0), HEADER + n_rows as f64 * step[1] + GAP];
        Self { size: whole, title: lines[0].clone(), body, panels }
    }

    /// The drawing as an SVG with the pictures inside.
    pub fn svg(&self) -> String {
        let mut body = self.body.clone();
        for Panel { place, size, picture } in &self.panels {
            let [x, y, width, height] = [place[0], place[1], size[0], size[1]].map(svg::short);
            body += &format!(
                "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" preserveAspectRatio=\"none\" \
                 style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
                base64::base64(picture.to_png().into_iter())
            );
        }
        svg::document(self.size, &self.title, &body)
    }

    /// The drawing as a PNG with `scale` pixels per unit of the SVG.
    ///
    /// # Errors
    /// If it has too many pixels.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>> {
        let text = svg::document(self.size, &self.title, &self.body);
        let mut pixels = png::pixels(&text, scale)?;
        for panel in &self.panels {
            panel.draw(&mut pixels, f64::from(scale));
        }
        pixels.encode_png().map_err(|error| Error::Png { found: error.to_string() })
    }
}

impl Panel {
    /// Copies the picture, each pixel the nearest one.
    fn draw(&self, pixels: &mut Pixmap, scale: f64) {
        let [left, top, width, height] = [self.place[0], self.place[1], self.size[0], self.size[1]]
            .map(|length| (length * scale) as usize);
        let [rows, columns] = self.picture.size();
        let (across, channels) = (pixels.width() as usize, self.picture.channels());
        let down = pixels.height() as usize;
        let data = pixels.data_mut();
        for y in (0..height).filter(|y| top + y < down) {
            for x in (0..width).filter(|x| left + x < across) {
                let from = (y * rows / height * columns + x * columns / width) * channels;
                let colour = |part: usize| self.picture.data()[from + part.min(channels - 1)];
                let to = 4 * ((top + y) * across + left + x);
                data[to..to + 4].copy_from_slice(&[colour(0), colour(1), colour(2), 255]);
            }
        }
    }
}

/// What is drawn, and the classes.
fn heading(trace: &Trace, image: &ImageTrace) -> [String; 3] {
    let name = trace.sides.first().map_or("", |side| side.text.as_str());
    let classes = image.classes.iter().take(3);
    let classes: Vec<String> =
        classes.map(|class| format!("{} ({:.3})", class.label, class.probability)).collect();
    let from = if image.tokens > 0 { "the class token attends to" } else { "all patches attend to" };
    [name.to_owned(), format!("→ {}", classes.join(", ")), format!("bright: what {from}")]
}

fn text([x, y]: [f64; 2], size: usize, text: &str) -> String {
    let [x, y] = [x, y].map(svg::short);
    format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"#1c1c1c\">{}</text>\n", svg::escaped(text))
}

/// The picture, dark where the weights of its patches are small.
fn darkened((picture, grid): (&Picture, [usize; 2]), weights: &[f32]) -> Picture {
    let largest = weights.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let bytes = weights.iter().map(|weight| (255.0 * (weight / largest).clamp(0.0, 1.0)).round() as u8);
    let mask = Picture::new(grid, 1, bytes.collect());
    let [height, width] = picture.size();
    // The right and bottom edge may lie outside all patches.
    let patch = (height / grid[0]).min(width / grid[1]);
    let inside = grid.map(|patches| patches * patch);
    let mask = mask.resized(inside, Filter::Bilinear);
    let channels = picture.channels();
    let data = picture.data().iter().enumerate().map(|(at, &value)| {
        let (y, x) = (at / channels / width, at / channels % width);
        let weight = if y < inside[0] && x < inside[1] { mask.data()[y * inside[1] + x] } else { 0 };
        let bright = DARK + (1.0 - DARK) * f32::from(weight) / 255.0;
        (f32::from(value) * bright).round() as u8
    });
    Picture::new([height, width], channels, data.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> ImageTrace {
        let picture = Picture::new([4, 6], 1, vec![200; 24]);
        ImageTrace { picture, grid: [2, 3], tokens: 1, classes: Vec::new() }
    }

    #[test]
    fn patches_without_weight_are_dark_and_the_heaviest_is_unchanged() {
        let found = darkened((&image().picture, [2, 3]), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.5]);
        assert_eq!((found.data()[0], found.data()[23]), (24, 200));
        assert!(found.data()[9] > 24 && found.data()[9] < 200);
    }

    #[test]
    fn drawings_have_the_pictures_at_their_places() {
        let pictures = vec![("image".to_owned(), image().picture), ("two".to_owned(), image().picture)];
        let found = Overlay::arranged(pictures, 4, &["a < b".to_owned(), String::new(), String::new()]);
        let text = found.svg();
        assert_eq!(text.matches("<image ").count(), 2);
        assert!(text.contains("a &lt; b") && text.contains("data:image/png;base64,iVBOR"));
        let pixels = Pixmap::decode_png(&found.png(1.0).unwrap()).unwrap();
        let [x, y] = found.panels[1].place.map(|place| place as u32 + 3);
        assert_eq!(pixels.pixel(x, y).unwrap().red(), 200);
        assert_eq!(pixels.pixel(1, 100).unwrap().red(), 255);
    }
}
