//! Tables of names: lines of their name, our names, and which rows.
//!
//! ```text
//! model.encoder.layers.{}.self_attn.q_proj.weight   encoder.layers.{}.self_attention.query_key_value.weight   query
//! ```
//!
//! `{}` is the number of a layer; `*` at the start of their name is anything. Of several names of ours with `|` between
//! them, the first that the model declares is meant; `ignore` is nothing. The third column is empty if both hold the same
//! array; `query`, `key` or `value` if theirs is these rows of ours; `of:query` or `of:key+value` if ours is these rows of
//! theirs, which holds queries, keys and values; `row` if theirs has a further axis of one in front. Of several lines for
//! the same rows of ours, the first is written, and all that are present are read and must be equal.

/// Rows of a stacked projection, in the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rows {
    Query,
    Key,
    Value,
}

/// How an array of theirs and one of ours lie in each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Both are the same.
    Whole,
    /// Theirs has a further axis of one in front.
    Row,
    /// Theirs is these rows of ours.
    Into(Rows),
    /// Ours is these rows of theirs.
    Of(Vec<Rows>),
}

/// One line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) theirs: &'static str,
    pub(super) ours: Vec<&'static str>,
    pub(super) part: Part,
}

/// The name of ours that stands for nothing.
pub(super) const IGNORE: &str = "ignore";

/// The lines of a table.
///
/// # Panics
/// If a line is malformed; tables are part of the program, and a test reads them all.
pub(super) fn parse(text: &'static str) -> Vec<Line> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).unwrap_or_else(|| panic!("a table holds the line {line:?}"))).collect()
}

fn parse_line(line: &'static str) -> Option<Line> {
    let mut columns = line.split_whitespace();
    let (theirs, ours) = (columns.next()?, columns.next()?.split('|').collect());
    let part = match columns.next() {
        None => Part::Whole,
        Some("row") => Part::Row,
        Some(part) => match part.strip_prefix("of:") {
            Some(rows) => Part::Of(rows.split('+').map(parse_rows).collect::<Option<_>>()?),
            None => Part::Into(parse_rows(part)?),
        },
    };
    columns.next().is_none().then_some(Line { theirs, ours, part })
}

fn parse_rows(name: &str) -> Option<Rows> {
    match name {
        "query" => Some(Rows::Query),
        "key" => Some(Rows::Key),
        "value" => Some(Rows::Value),
        _ => None,
    }
}

/// Whether `pattern`, with its `{}` or `*`, stands for `name`.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    if let Some(end) = pattern.strip_prefix('*') {
        return name.ends_with(end);
    }
    match pattern.split_once("{}") {
        None => pattern == name,
        Some((start, end)) => {
            let middle = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            middle
                .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::names::Layout;

    #[test]
    fn every_table_is_well_formed_and_names_each_layer_on_both_sides() {
        for layout in Layout::FOREIGN {
            let lines = layout.lines();
            assert!(lines.len() >= 40, "{layout} has {} lines", lines.len());
            for line in lines.iter().filter(|line| line.ours != [IGNORE]) {
                let layers = line.theirs.contains("{}");
                assert!(line.ours.iter().all(|ours| ours.contains("{}") == layers), "{line:?}");
            }
        }
    }

    #[test]
    fn patterns_stand_for_numbers_and_endings() {
        assert!(matches("a.{}.b", "a.12.b") && !matches("a.{}.b", "a.x.b") && !matches("a.{}.b", "a..b"));
        assert!(matches("*._float_tensor", "encoder.embed_positions._float_tensor"));
        assert!(matches("a.b", "a.b") && !matches("a.b", "a.bc"));
    }

    #[test]
    #[should_panic(expected = "a table holds the line \"a b c\"")]
    fn a_malformed_line_is_shown() {
        parse("a b c");
    }
}
