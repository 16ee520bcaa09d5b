//! Heat-maps in a terminal: a cell is a percentage on a coloured background, or the number alone without colours.
//!
//! Columns are as wide as their labels if they fit. Otherwise they are three characters wide, with vertical labels; columns
//! beyond the width are left out, with a note.

use super::HeatMap;
use crate::label::visible;
use crate::palette;

/// Maximum length of a row label in characters.
const MOST_ROW_LABEL: usize = 16;
/// Maximum height of a vertical label in lines.
const MOST_LINES: usize = 12;
/// Width of a narrow column.
const NARROW: usize = 3;

/// Colour support of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// 24-bit colours.
    True,
    /// 256-colour palette.
    Palette,
    /// None.
    None,
}

/// Options of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct TerminalOptions {
    /// Width in character columns.
    pub width: usize,
    /// Maximum number of rows of a map; others are left out, with a note.
    pub most_rows: usize,
    /// Colour support.
    pub colours: Colours,
    /// Returns the display width of a text.
    pub measure: fn(&str) -> usize,
}

/// Renders the map as lines of text.
pub fn text(map: &HeatMap, options: &TerminalOptions) -> String {
    let cut = |label: &String, most: usize| fitted(&visible(label), most, options.measure);
    let rows: Vec<String> = map.rows.iter().map(|label| cut(label, MOST_ROW_LABEL)).collect();
    let columns: Vec<String> = map.columns.iter().map(|label| cut(label, MOST_ROW_LABEL)).collect();
    let margin = rows.iter().map(|label| (options.measure)(label)).max().unwrap_or(0);
    let wide: Vec<usize> = columns.iter().map(|label| (options.measure)(label).max(NARROW) + 1).collect();
    let room = options.width.saturating_sub(margin + 1);
    let fits = wide.iter().sum::<usize>() <= room;
    let shown = if fits { columns.len() } else { columns.len().min(room / NARROW) };
    let widths = if fits { wide } else { vec![NARROW; shown] };
    let mut out = String::new();
    if !map.title.is_empty() {
        out += &format!("{}\n", visible(&map.title));
    }
    out += &if fits {
        header(&columns, &widths, margin, options)
    } else {
        downwards(&columns[..shown], margin, options)
    };
    // Wide columns are separated by a space.
    let after = if fits { " " } else { "" };
    for (label, numbers) in rows.iter().zip(map.numbers.rows()).take(options.most_rows) {
        let space = " ".repeat(margin - (options.measure)(label));
        let mut line = format!("{space}{label} ");
        for (number, width) in numbers.iter().zip(&widths) {
            line += &cell(*number, map.part(*number), (*width, after), options.colours);
        }
        out += &if options.colours == Colours::None {
            format!("{}\n", line.trim_end())
        } else {
            line + "\x1b[0m\n"
        };
    }
    out + &left_out([columns.len() - shown, rows.len().saturating_sub(options.most_rows)], options)
}

/// Horizontal labels above their columns.
fn header(columns: &[String], widths: &[usize], margin: usize, options: &TerminalOptions) -> String {
    let mut out = " ".repeat(margin + 1);
    for (label, width) in columns.iter().zip(widths) {
        let space = " ".repeat(width - 1 - (options.measure)(label));
        out += &format!("{space}{label} ");
    }
    format!("{}\n", out.trim_end())
}

/// Vertical labels above their columns; zero-width characters stay with the letter before them.
fn downwards(columns: &[String], margin: usize, options: &TerminalOptions) -> String {
    let letters = |label: &String| -> Vec<String> {
        let mut letters: Vec<String> = Vec::new();
        for letter in label.chars() {
            match letters.last_mut().filter(|_| (options.measure)(&letter.to_string()) == 0) {
                Some(last) => last.push(letter),
                None => letters.push(letter.to_string()),
            }
        }
        if letters.len() > MOST_LINES {
            letters.truncate(MOST_LINES - 1);
            letters.push("…".into());
        }
        letters
    };
    let columns: Vec<Vec<String>> = columns.iter().map(letters).collect();
    let high = columns.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for line in 0..high {
        let mut text = " ".repeat(margin + 1);
        for letters in &columns {
            let letter = (line + letters.len()).checked_sub(high).map_or(" ", |place| &letters[place]);
            let space = " ".repeat(NARROW.saturating_sub((options.measure)(letter)));
            text += &format!("{space}{letter}");
        }
        out += &format!("{}\n", text.trim_end());
    }
    out
}

/// A percentage on its colour, `width` columns wide, ending with `after`.
fn cell(number: f32, part: f32, (width, after): (usize, &str), colours: Colours) -> String {
    let percent = (number * 100.0).round() as i64;
    let digits = if percent == 0 { "·".into() } else { percent.to_string() };
    let space = " ".repeat(width.saturating_sub(digits.chars().count() + after.len()));
    let text = format!("{space}{digits}{after}");
    let back = palette::on_screen(part);
    let front = if palette::is_light(back) {
        [0; 3]
    } else if percent == 0 {
        [110; 3]
    } else {
        [240; 3]
    };
    match colours {
        Colours::None => text,
        Colours::Palette => {
            format!(
                "\x1b[48;5;{}m\x1b[38;5;{}m{text}",
                palette::nearest_of_256(back),
                palette::nearest_of_256(front)
            )
        }
        Colours::True => {
            let code = |[red, green, blue]: palette::Rgb| format!("{red};{green};{blue}");
            format!("\x1b[48;2;{}m\x1b[38;2;{}m{text}", code(back), code(front))
        }
    }
}

/// A note about rows and columns that are left out.
fn left_out([columns, rows]: [usize; 2], options: &TerminalOptions) -> String {
    let mut parts = Vec::new();
    if columns > 0 {
        parts.push(format!("{columns} more columns do not fit into {} characters", options.width));
    }
    if rows > 0 {
        parts.push(format!("{rows} more rows"));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!("… {}; --out FILE.svg shows all\n", parts.join(" and "))
    }
}

/// `text` truncated to at most `most` columns.
fn fitted(text: &str, most: usize, measure: fn(&str) -> usize) -> String {
    if measure(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    for letter in text.chars() {
        let longer = format!("{out}{letter}");
        if measure(&longer) + 1 > most {
            break;
        }
        out = longer;
    }
    out + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;

    fn map(n: usize) -> HeatMap {
        let labels: Vec<String> = (0..n).map(|index| format!("word{index}")).collect();
        let mut numbers = Matrix::zeros(n, n);
        (0..n).for_each(|place| numbers.row_mut(place)[n - 1 - place] = 0.5);
        HeatMap {
            title: "a map".into(),
            numbers,
            rows: labels.clone(),
            columns: labels,
            ..HeatMap::default()
        }
    }

    fn options(width: usize, colours: Colours) -> TerminalOptions {
        TerminalOptions { width, most_rows: 60, colours, measure: |text| text.chars().count() }
    }

    #[test]
    fn a_small_map_has_its_labels_above_its_columns() {
        let found = text(&map(2), &options(40, Colours::None));
        assert_eq!(found, "a map\n      word0 word1\nword0     ·    50\nword1    50     ·\n");
        let coloured = text(&map(2), &options(40, Colours::True));
        assert!(coloured.contains("\x1b[48;2;233;246;244m\x1b[38;2;0;0;0m   50 "), "{coloured:?}");
        assert!(text(&map(2), &options(40, Colours::Palette)).contains("\x1b[48;5;"));
    }

    #[test]
    fn a_wide_map_is_truncated_with_a_note() {
        let found = text(&map(30), &options(60, Colours::None));
        assert!(found.lines().all(|line| line.chars().count() <= 100), "{found}");
        let rows = found.lines().filter(|line| line.trim_start().starts_with("word"));
        assert!(rows.clone().all(|line| line.chars().count() <= 60) && rows.count() == 30, "{found}");
        assert!(
            found.ends_with("… 13 more columns do not fit into 60 characters; --out FILE.svg shows all\n"),
            "{found}"
        );
        // Vertical labels.
        assert!(found.lines().nth(1).is_some_and(|line| line.trim_start().starts_with('w')), "{found}");
    }

    #[test]
    fn hostile_labels_cannot_move_the_cursor() {
        let mut map = map(2);
        map.rows[0] = "\x1b[2J\u{202e}".into();
        map.columns[1] = "a\nb".into();
        let found = text(&map, &options(60, Colours::None));
        assert!(
            !found.contains('\x1b') && !found.contains('\u{202e}') && found.lines().count() == 4,
            "{found:?}"
        );
    }
}
