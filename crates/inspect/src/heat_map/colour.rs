//! Colour scales.

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// White to dark blue, for print.
const PAPER: &[Rgb] = &[[255, 255, 255], [191, 219, 254], [96, 165, 250], [37, 99, 235], [23, 37, 108]];
/// Viridis (Smith & van der Walt): perceptually uniform, safe for the colour-blind; for screens.
const SCREEN: &[Rgb] = &[[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
/// Blue for −1, white for 0, red for 1.
const SIGNED: &[Rgb] = &[[29, 78, 216], [147, 197, 253], [255, 255, 255], [252, 165, 165], [185, 28, 28]];

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
pub fn palette(colour: Rgb) -> u8 {
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
        assert_eq!([signed(-1.0), signed(0.0), signed(1.0)], [SIGNED[0], SIGNED[2], SIGNED[4]]);
        assert_eq!([on_screen(f32::NAN), on_screen(9.0)], [SCREEN[0], SCREEN[4]]);
        assert_eq!(
            (hex(on_paper(0.0)), palette([255, 0, 0]), palette([0, 0, 0])),
            ("#ffffff".into(), 196, 16)
        );
        assert!(is_light(on_screen(1.0)) && !is_light(on_screen(0.0)));
    }
}
