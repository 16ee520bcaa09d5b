//! Whole pictures: contents of the SVG, and rendering to pixels.

use polyhead_inspect::chart::{
    AxisScale, COLOURS, Chart, LineWeight, MarkedPoint, PictureOptions, Series, stacked,
};
use polyhead_inspect::png;

fn series(name: &str, points: &[[f64; 2]]) -> Series {
    Series { name: name.into(), points: points.to_vec(), ..Series::default() }
}

fn chart(title: &str, series: Vec<Series>) -> Chart {
    Chart { title: title.into(), x_label: "step".into(), y_label: "loss".into(), series, ..Chart::default() }
}

fn picture(charts: &[Chart]) -> String {
    stacked(charts, &PictureOptions::default())
}

/// Width and height that a PNG states in its header.
fn size(png: &[u8]) -> [u32; 2] {
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    [16, 20].map(|at| u32::from_be_bytes(png[at..at + 4].try_into().unwrap()))
}

#[test]
fn names_titles_ticks_and_colours_are_in_the_picture() {
    let lines = vec![series("train", &[[0.0, 4.0], [1e5, 2.0]]), series("valid", &[[0.0, 5.0], [1e5, 3.0]])];
    let svg = picture(&[chart("Loss", lines.clone()), chart("Again", lines)]);
    for expected in
        [">Loss<", ">Again<", ">train<", ">valid<", ">step<", ">100k<", ">2<", COLOURS[0], COLOURS[1]]
    {
        assert!(svg.contains(expected), "{expected} is missing");
    }
    assert!(svg.contains(r#"font-family="DejaVu Sans, sans-serif""#));
}

#[test]
fn text_is_escaped_and_long_text_truncated() {
    let mut odd =
        chart("<script>alert('1')</script> & \"more\"", vec![series("R&D\u{7} <b>", &[[0.0, 1.0]])]);
    odd.series[0].mark = Some(MarkedPoint { point: [0.0, 1.0], text: "a<b".into() });
    odd.y_label = "y".repeat(500);
    let options = PictureOptions { title: "x>".repeat(500), ..PictureOptions::default() };
    let svg = stacked(&[odd], &options);
    assert!(!svg.contains("<script") && !svg.contains("<b>") && svg.contains("R&amp;D\u{fffd} &lt;b&gt;"));
    assert!(svg.contains("a&lt;b") && svg.contains('…'));
    assert!(png::render(&svg, 1.0).is_ok());
}

#[test]
fn gaps_dots_and_empty_charts() {
    let gap = series("", &[[0.0, 1.0], [1.0, 2.0], [2.0, f64::NAN], [3.0, 2.0], [4.0, 1.0]]);
    let faint = Series { weight: LineWeight::Faint, ..gap };
    let svg = picture(&[chart("", vec![faint])]);
    let path = svg.lines().find(|line| line.contains(COLOURS[0])).unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    let alone = picture(&[chart("", vec![series("one", &[[3.0, f64::INFINITY], [4.0, 1.0]])])]);
    assert_eq!(alone.matches("<circle").count(), 1);
    for empty in [vec![], vec![series("nothing", &[])], vec![series("no number", &[[1.0, f64::NAN]])]] {
        assert!(picture(&[chart("", empty)]).contains("no values"));
    }
    assert!(png::render(&picture(&[]), 1.0).is_ok());
}

#[test]
fn a_million_points_make_a_small_picture() {
    let points: Vec<[f64; 2]> = (0..1_000_000).map(f64::from).map(|x| [x, (x * 0.7).sin()]).collect();
    let svg = picture(&[chart("", vec![series("many", &points)])]);
    assert!(svg.len() < 60_000, "{} bytes", svg.len());
}

#[test]
fn pixels_show_the_lines() {
    let charts = [
        chart("Loss", vec![series("train", &[[0.0, 4.0], [100.0, 2.0]])]),
        Chart {
            y_scale: AxisScale::Log,
            ..chart("Log", vec![series("", &[[0.0, 1e4], [50.0, 0.0], [100.0, 1.0]])])
        },
    ];
    let options = PictureOptions { width: 500.0, ..PictureOptions::default() };
    let svg = stacked(&charts, &options);
    let drawn = png::render(&svg, 2.0).unwrap();
    assert_eq!(size(&drawn)[0], 1000);
    assert!(size(&drawn)[1] > 1000);
    let blank = png::render(&stacked(&[], &options), 2.0).unwrap();
    assert!(drawn.len() > 10 * blank.len(), "{} bytes next to {}", drawn.len(), blank.len());
}
