//! Optional normalisation of TER: that of Tercom (Snover et al. 2006), as in sacreBLEU.

use super::super::ter::TerOptions;
use super::{around, is_western_mark, numbers, trim_end, unescape, words};

/// `line` normalised, with one space between its words, so that a second pass sees spaces for other white space.
pub(crate) fn normalize(line: &str, options: &TerOptions) -> String {
    let line = trim_end(line);
    let mut line = if options.case_sensitive { line.to_owned() } else { line.to_lowercase() };
    if options.normalized && !line.is_empty() {
        line = western(&line);
        if options.asian_support {
            line = around(&line, |c| is_asian(c) || is_asian_punctuation(c));
        }
    }
    if options.no_punctuation {
        line.retain(|c| !matches!(c, '.' | ',' | '?' | ':' | ';' | '!' | '"' | '(' | ')'));
        if options.asian_support {
            line.retain(|c| !is_asian_punctuation(c));
        }
    }
    words(&line).collect::<Vec<_>>().join(" ")
}

fn western(line: &str) -> String {
    let line = line.replace("\n-", "").replace('\n', " ");
    let line = around(&format!(" {} ", unescape(&line)), is_western_mark);
    numbers(&line.replace("'s ", " 's "))
}

/// True for ideographs and related characters, which are words of their own. Kana are not split: sacreBLEU's rule for
/// them matches a line of kana only, yet runs after spaces were put around the line.
fn is_asian(c: char) -> bool {
    matches!(
        c,
        '\u{2e80}'..='\u{2eff}'
            | '\u{31c0}'..='\u{31ef}'
            | '\u{3200}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe4f}'
    )
}

fn is_asian_punctuation(c: char) -> bool {
    matches!(
        c,
        '\u{3001}' | '\u{3002}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '\u{30fb}'
            | '\u{ff61}'..='\u{ff65}'
            // Full-width . , ? : ; ! " ( )
            | '\u{ff0e}' | '\u{ff0c}' | '\u{ff1f}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff01}' | '\u{ff02}'
            | '\u{ff08}' | '\u{ff09}'
    )
}
