//! SVG to PNG with the embedded font alone: no system fonts, no files referenced by the SVG.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{ImageHrefResolver, Options, Tree};

use crate::{Error, Result, font};

/// Maximum number of pixels: 400 MB while rendering.
const MOST_PIXELS: u64 = 100_000_000;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(font::BYTES.to_vec());
    fonts.set_serif_family(font::FAMILY);
    fonts.set_sans_serif_family(font::FAMILY);
    fonts.set_monospace_family(font::FAMILY);
    Arc::new(fonts)
});

/// Renders an SVG as PNG, with `scale` pixels per SVG unit.
pub fn render(svg: &str, scale: f32) -> Result<Vec<u8>> {
    pixels(svg, scale)?.encode_png().map_err(|error| Error::Png { found: error.to_string() })
}

/// The pixels of an SVG, with `scale` of them per SVG unit.
pub(crate) fn pixels(svg: &str, scale: f32) -> Result<Pixmap> {
    let nothing =
        ImageHrefResolver { resolve_data: Box::new(|_, _, _| None), resolve_string: Box::new(|_, _| None) };
    let options = Options {
        fontdb: Arc::clone(&FONTS),
        font_family: font::FAMILY.into(),
        image_href_resolver: nothing,
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| Error::Svg { found: error.to_string() })?;
    let [width, height] = [tree.size().width(), tree.size().height()]
        .map(|length| (f64::from(length) * f64::from(scale)).round());
    let size_error = || Error::Size { width, height, most: MOST_PIXELS };
    // A NaN scale fails here as well.
    if !(width >= 1.0 && height >= 1.0 && width * height <= MOST_PIXELS as f64) {
        return Err(size_error());
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(size_error)?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    Ok(pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RGBA pixels of a PNG, and its size.
    fn decoded(png: &[u8]) -> (Pixmap, [u32; 2]) {
        let pixels = Pixmap::decode_png(png).unwrap();
        let size = [pixels.width(), pixels.height()];
        (pixels, size)
    }

    fn picture(body: &str) -> String {
        crate::svg::document([60.0, 20.0], "a test", body)
    }

    fn dark(pixels: &Pixmap) -> usize {
        pixels.pixels().iter().filter(|pixel| pixel.red() < 128).count()
    }

    #[test]
    fn shapes_and_text_are_rendered_at_the_requested_size() {
        let (pixels, size) = decoded(&render(&picture(""), 2.0).unwrap());
        assert_eq!((size, dark(&pixels)), ([120, 40], 0));
        let (pixels, _) = decoded(&render(&picture(r#"<rect width="3" height="5"/>"#), 2.0).unwrap());
        assert_eq!(dark(&pixels), 60);
        let text = |family: &str| picture(&format!(r#"<text y="15" font-family="{family}">ağ → ß</text>"#));
        let [plain, unknown] = [font::FAMILIES, "No Such Font"]
            .map(|family| dark(&decoded(&render(&text(family), 1.0).unwrap()).0));
        assert!(plain > 50, "{plain} dark pixels");
        assert_eq!(plain, unknown);
    }

    /// The width that charts compute is the width that is rendered.
    #[test]
    fn text_is_as_wide_as_measured() {
        let text = "Δοκιμή ışık 0.25 WAV";
        let body = format!(r#"<text x="10" y="30" font-size="20">{text}</text>"#);
        let (pixels, [wide, _]) =
            decoded(&render(&crate::svg::document([400.0, 40.0], "", &body), 1.0).unwrap());
        let columns = pixels.pixels().chunks(wide as usize).flat_map(|row| {
            row.iter().enumerate().filter(|(_, pixel)| pixel.red() < 128).map(|(column, _)| column)
        });
        let last = columns.max().unwrap() as f64;
        assert!((last - 10.0 - font::width(text, 20.0)).abs() < 3.0, "{last}");
    }

    #[test]
    fn an_invalid_picture_is_an_error_with_a_hint() {
        for (svg, scale) in [("no svg", 1.0), ("<html/>", 1.0), (&picture(""), 1e6), (&picture(""), 0.0)] {
            let error = render(svg, scale).unwrap_err();
            assert!(error.to_string().contains("expected") && !error.hint().is_empty(), "{error}");
        }
        assert!(render(&picture(""), f32::NAN).is_err());
    }
}
