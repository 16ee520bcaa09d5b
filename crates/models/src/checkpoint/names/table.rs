//! Tables of names: one rule per line with their name, our names, and the rows.
//!
//! ```text
//! model.encoder.layers.{}.self_attn.q_proj.weight   encoder.layers.{}.self_attention.query_key_value.weight   query
//! ```
//!
//! `{}` is the number of a layer; `*` at the start of their name matches anything. Of several names of ours separated by
//! `|`, the first that the model declares applies; `ignore` drops the tensor. The third column is empty if both are the
//! same tensor; `query`, `key` or `value` if theirs is these rows of ours; `of:query` or `of:key+value` if ours is these
//! rows of theirs, which stacks queries, keys and values; `row` if theirs has an additional leading axis of size one;
//! `transposed` if theirs is the transposed matrix; `patches` if theirs has the channels, rows and columns of a patch as axes of
//! their own; `convolution` if theirs is a kernel of outputs × inputs × 3 times, and ours has the inputs of one time together;
//! `key?` if theirs is these rows of ours, or missing where they are zero; `first` or `second` if theirs is this half of our rows.
//! Of several rules for the same rows of ours, the first is used for writing; on reading, all that are present must be
//! equal.

/// Rows of a stacked projection, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rows {
    Query,
    Key,
    Value,
}

/// The correspondence between a tensor of theirs and a parameter of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowMapping {
    /// Both are the same tensor.
    Whole,
    /// Theirs has an additional leading axis of size one.
    Row,
    /// Theirs is these rows of ours.
    Into(Rows),
    /// Ours is these rows of theirs.
    Of(Vec<Rows>),
    /// Theirs is the transposed matrix.
    Transposed,
    /// Theirs is a kernel of outputs × inputs × 3.
    Convolution,
    /// Theirs is these rows of ours, or missing where they are zero.
    IntoOrZero(Rows),
    /// Theirs is this half of our rows, 0 or 1.
    Half(usize),
    /// Theirs has an axis each for the channels, rows and columns of a patch.
    Patches,
}

/// One line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameRule {
    pub(super) theirs: String,
    pub(super) ours: Vec<&'static str>,
    pub(super) mapping: RowMapping,
}

impl NameRule {
    /// The same rule for a name without `prefix`; `None` if theirs has none.
    pub(super) fn without_prefix(&self, prefix: &str) -> Option<Self> {
        let theirs = self.theirs.strip_prefix(prefix)?.to_owned();
        Some(Self { theirs, ..self.clone() })
    }

    /// The same rule for the names that TensorFlow gave to weight and bias of a norm; `None` if theirs is not one.
    pub(super) fn of_old_norm(&self) -> Option<Self> {
        let norm = |new: &str, old: &str| {
            self.theirs
                .strip_suffix(new)
                .filter(|name| name.ends_with("LayerNorm"))
                .map(|name| format!("{name}{old}"))
        };
        let theirs = norm(".weight", ".gamma").or_else(|| norm(".bias", ".beta"))?;
        Some(Self { theirs, ..self.clone() })
    }
}

/// The name of ours that drops a tensor.
pub(super) const IGNORE: &str = "ignore";

/// Parses the rules of a table.
///
/// # Panics
/// If a line is malformed; tables are part of the program, and a test reads them all.
pub(super) fn parse(text: &'static str) -> Vec<NameRule> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| parse_line(line).unwrap_or_else(|| panic!("malformed line {line:?} in a table of names")))
        .collect()
}

fn parse_line(line: &'static str) -> Option<NameRule> {
    let mut columns = line.split_whitespace();
    let (theirs, ours) = (columns.next()?.to_owned(), columns.next()?.split('|').collect());
    let mapping = match columns.next() {
        None => RowMapping::Whole,
        Some("row") => RowMapping::Row,
        Some("transposed") => RowMapping::Transposed,
        Some("patches") => RowMapping::Patches,
        Some("convolution") => RowMapping::Convolution,
        Some("key?") => RowMapping::IntoOrZero(Rows::Key),
        Some("first") => RowMapping::Half(0),
        Some("second") => RowMapping::Half(1),
        Some(part) => match part.strip_prefix("of:") {
            Some(rows) => RowMapping::Of(rows.split('+').map(parse_rows).collect::<Option<_>>()?),
            None => RowMapping::Into(parse_rows(part)?),
        },
    };
    columns.next().is_none().then_some(NameRule { theirs, ours, mapping })
}

fn parse_rows(name: &str) -> Option<Rows> {
    match name {
        "query" => Some(Rows::Query),
        "key" => Some(Rows::Key),
        "value" => Some(Rows::Value),
        _ => None,
    }
}

/// True if `pattern`, with its `{}` or `*`, matches `name`.
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
    use crate::checkpoint::names::CheckpointLayout;

    #[test]
    fn every_table_is_well_formed_and_names_each_layer_on_both_sides() {
        for layout in CheckpointLayout::FOREIGN {
            let rules = layout.rules();
            assert!(rules.len() >= 20, "{layout} has {} rules", rules.len());
            for rule in rules.iter().filter(|rule| rule.ours != [IGNORE]) {
                let layers = rule.theirs.contains("{}");
                assert!(rule.ours.iter().all(|ours| ours.contains("{}") == layers), "{rule:?}");
            }
        }
    }

    #[test]
    fn patterns_match_layer_numbers_and_suffixes() {
        assert!(matches("a.{}.b", "a.12.b") && !matches("a.{}.b", "a.x.b") && !matches("a.{}.b", "a..b"));
        assert!(matches("*._float_tensor", "encoder.embed_positions._float_tensor"));
        assert!(matches("a.b", "a.b") && !matches("a.b", "a.bc"));
    }

    #[test]
    #[should_panic(expected = "malformed line \"a b c\"")]
    fn a_malformed_line_is_reported() {
        parse("a b c");
    }
}
