//! The page has the palette of the pictures.

use polyhead_inspect::palette::{PAPER, SCREEN, SERIES, SERIES_ON_DARK, SIGNED};
use polyhead_serve::assets;

/// All numbers of the text between two marks.
fn numbers(text: &str, from: &str, to: &str) -> Vec<u8> {
    let (_, rest) = text.split_once(from).unwrap();
    let (own, _) = rest.split_once(to).unwrap();
    own.split(|digit: char| !digit.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn the_page_and_the_pictures_have_one_palette() {
    let script = assets::find("js/colour.js").unwrap().text;
    assert_eq!(numbers(script, "const LIGHT = [", "];"), PAPER.concat());
    assert_eq!(numbers(script, "const DARK = [", "];"), SCREEN.concat());
    let style = assets::find("css/base.css").unwrap().text;
    for (head, (light, dark)) in SERIES.iter().zip(SERIES_ON_DARK).enumerate() {
        let line = format!("--head-{head}: light-dark({light}, {dark});");
        assert!(style.contains(&line), "{line}");
    }
    for [red, green, blue] in SIGNED {
        assert!(script.contains(&format!("[{red}, {green}, {blue}]")), "{red} {green} {blue}");
    }
}
