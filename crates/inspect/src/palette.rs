//! The one palette of pictures, terminal and web page (a test in `serve` compares the page's). Lightness alone encodes a weight,
//! so that the scale reads the same for every kind of colour vision.

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// White to dark blue: weights on a light background.
pub const PAPER: &[Rgb] = &[[255, 255, 255], [205, 226, 233], [128, 184, 205], [43, 122, 156], [9, 55, 82]];
/// Near black to near white: weights on a dark background, such as a terminal's.
pub const SCREEN: &[Rgb] = &[[20, 23, 26], [22, 56, 71], [31, 108, 135], [98, 182, 202], [233, 246, 244]];
/// Orange for −1, white for 0, blue-green for 1.
pub const SIGNED: &[Rgb] = &[[178, 82, 8], [255, 255, 255], [6, 88, 122]];

/// Colours of heads, and of the lines of a chart, on a light background: any two differ by at least 0.09 in OKLab for every
/// kind of colour vision, and each has a contrast of 4.5 with white.
pub const SERIES: [&str; 8] =
    ["#005ee4", "#946b00", "#bc005e", "#0d5e36", "#7943a1", "#432800", "#000094", "#6b0051"];
/// The same on a dark background.
pub const SERIES_ON_DARK: [&str; 8] =
    ["#0086ff", "#e4ae00", "#f2511b", "#00c9a1", "#bcbcff", "#bcff43", "#79ffff", "#a179ae"];

/// Colour for print, of a number from 0 to 1.
pub fn on_paper(number: f32) -> Rgb {
    between(PAPER, number)
}

/// Colour for screens, of a number from 0 to 1.
pub fn on_screen(number: f32) -> Rgb {
    between(SCREEN, number)
}

/// Colour of a number from −1 to 1.
pub fn signed(number: f32) -> Rgb {
    between(SIGNED, f32::midpoint(number, 1.0))
}

/// True if black text is more legible on a colour than white (relative luminance of WCAG, without its exponent).
pub fn is_light(colour: Rgb) -> bool {
    let [red, green, blue] = colour.map(f32::from);
    0.2126 * red + 0.7152 * green + 0.0722 * blue > 140.0
}

/// `#rrggbb`.
pub fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Index of the nearest colour of the 6 × 6 × 6 cube in a 256-colour terminal palette.
pub fn nearest_of_256(colour: Rgb) -> u8 {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest =
        |part: u8| (0..6_u8).min_by_key(|&level| LEVELS[level as usize].abs_diff(part)).unwrap_or(0);
    let [red, green, blue] = colour.map(nearest);
    16 + 36 * red + 6 * green + blue
}

/// Linear interpolation between evenly spaced stops, at a position from 0 to 1.
fn between(stops: &[Rgb], place: f32) -> Rgb {
    let last = stops.len() - 1;
    let place = if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) } * last as f32;
    let first = (place as usize).min(last - 1);
    let part = place - first as f32;
    let [from, to] = [stops[first], stops[first + 1]];
    std::array::from_fn(|channel| {
        let [from, to] = [from, to].map(|colour| f32::from(colour[channel]));
        (from + (to - from) * part).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middles_have_the_colours_of_the_stops() {
        assert_eq!([on_paper(0.0), on_paper(1.0), on_paper(0.5)], [PAPER[0], PAPER[4], PAPER[2]]);
        assert_eq!([signed(-1.0), signed(0.0), signed(1.0)], [SIGNED[0], SIGNED[1], SIGNED[2]]);
        assert_eq!([on_screen(f32::NAN), on_screen(9.0)], [SCREEN[0], SCREEN[4]]);
        assert_eq!(
            (hex(on_paper(0.0)), nearest_of_256([255, 0, 0]), nearest_of_256([0, 0, 0])),
            ("#ffffff".into(), 196, 16)
        );
        assert!(is_light(on_screen(1.0)) && !is_light(on_screen(0.0)));
    }

    /// Linear light of `#rrggbb`.
    fn linear(colour: &str) -> [f64; 3] {
        std::array::from_fn(|channel| {
            let digits = &colour[1 + 2 * channel..3 + 2 * channel];
            let value = f64::from(u8::from_str_radix(digits, 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(matrix: &[[f64; 3]; 3], [x, y, z]: [f64; 3]) -> [f64; 3] {
        matrix.map(|[a, b, c]| a * x + b * y + c * z)
    }

    /// OKLab (Ottosson 2020) of linear light.
    fn oklab(light: [f64; 3]) -> [f64; 3] {
        let cones = times(
            &[
                [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
            ],
            light.map(|value| value.clamp(0.0, 1.0)),
        );
        times(
            &[
                [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
                [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
                [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
            ],
            cones.map(f64::cbrt),
        )
    }

    /// Full colour vision, protanopia, deuteranopia and tritanopia (Machado, Oliveira & Fernandes 2009).
    const VISIONS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    #[test]
    fn series_are_told_apart_by_everyone() {
        for (colours, background) in [(SERIES, "#ffffff"), (SERIES_ON_DARK, "#1b1f23")] {
            for (index, first) in colours.iter().enumerate() {
                for second in &colours[..index] {
                    for vision in &VISIONS {
                        let [a, b] = [first, second].map(|colour| oklab(times(vision, linear(colour))));
                        let distance = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                        assert!(distance > 0.09, "{first} {second}: {distance}");
                    }
                }
                let luminance = |colour: &str| {
                    let [red, green, blue] = linear(colour);
                    0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
                };
                let [a, b] = [luminance(first), luminance(background)];
                assert!(a.max(b) / a.min(b) > 4.5, "{first} on {background}");
            }
        }
    }
}
