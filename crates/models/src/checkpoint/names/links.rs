//! A table of names applied to a model: which rows of which tensor in the file are which rows of which parameter.

use std::collections::HashMap;
use std::ops::Range;

use polyhead_attention::Sites;
use polyhead_tensor::{ParameterId, Parameters};

use super::CheckpointLayout;
use super::table::{IGNORE, NameRule, RowMapping, Rows, matches};
use crate::{Error, Model, ModelConfig, Result};

/// Rows of a tensor in the file and the rows of the parameter that they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) theirs: String,
    pub(super) their_shape: Vec<usize>,
    pub(super) their_rows: Range<usize>,
    pub(super) parameter: ParameterId,
    pub(super) our_rows: Range<usize>,
    /// Elements of a row.
    pub(super) width: usize,
    /// True if theirs is the transposed matrix.
    pub(super) is_transposed: bool,
}

/// All links of a model.
#[derive(Debug)]
pub(super) struct Links {
    /// One group for each range of rows of each parameter; aliases within a group are in the order of the table.
    pub(super) groups: Vec<Vec<Link>>,
    /// Patterns of tensor names to ignore.
    ignored: Vec<String>,
}

impl Links {
    /// The links between the tensors of a layout and the declared parameters, each of which must have one.
    pub(super) fn new(
        layout: CheckpointLayout,
        config: &ModelConfig,
        parameters: &Parameters,
    ) -> Result<Self> {
        // In Polyhead's own layout tensors have the names of the parameters.
        let sites = match layout {
            CheckpointLayout::Polyhead => Sites::default(),
            _ => Model::new(config, &mut Parameters::default())?.sites(),
        };
        let declared: HashMap<&str, (ParameterId, &[usize])> =
            parameters.declared().map(|(id, name, shape)| (name, (id, shape))).collect();
        let mut found = Links { groups: Vec::new(), ignored: Vec::new() };
        let mut links = Vec::new();
        for rule in layout.rules() {
            let n_layers = if rule.theirs.contains("{}") { layers(&sites) } else { 1 };
            for layer in 0..n_layers {
                match declared_name(&rule, layer, &declared) {
                    Some(ours) => {
                        let mut link = link(&rule, layer, &sites, (&ours, declared[ours.as_str()]))?;
                        if rule.mapping == RowMapping::Patches {
                            link.their_shape.splice(1.., config.patch_shape());
                        }
                        links.push(link);
                    }
                    None if rule.ours.contains(&IGNORE) => found.ignored.push(rule.theirs.clone()),
                    None => {}
                }
            }
        }
        if layout == CheckpointLayout::Polyhead {
            links.extend(
                parameters.declared().map(|(id, name, shape)| whole(name, (id, shape), shape.to_vec())),
            );
        }
        check_named(layout, parameters, &links)?;
        found.groups = grouped(links);
        Ok(found)
    }

    /// True if a tensor of this name is to be ignored.
    pub(super) fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|pattern| matches(pattern, name))
    }
}

/// The first of the rule's names that the model declares.
fn declared_name(
    rule: &NameRule,
    layer: usize,
    declared: &HashMap<&str, (ParameterId, &[usize])>,
) -> Option<String> {
    let names = rule.ours.iter().map(|name| numbered(name, layer));
    names.into_iter().find(|name| declared.contains_key(name.as_str()))
}

fn numbered(name: &str, layer: usize) -> String {
    name.replace("{}", &layer.to_string())
}

fn layers(sites: &Sites) -> usize {
    sites.groups().iter().map(|group| group.n_layers).max().unwrap_or(0)
}

fn link(
    rule: &NameRule,
    layer: usize,
    sites: &Sites,
    (name, (id, shape)): (&str, (ParameterId, &[usize])),
) -> Result<Link> {
    let mut link = whole(&numbered(&rule.theirs, layer), (id, shape), shape.to_vec());
    if rule.mapping == RowMapping::Transposed {
        link.their_shape.reverse();
        link.is_transposed = true;
        return Ok(link);
    }
    let needed = match &rule.mapping {
        RowMapping::Transposed => unreachable!("returned above"),
        RowMapping::Half(half) => {
            let rows = shape[0] / 2;
            link.our_rows = half * rows..(half + 1) * rows;
            link.their_rows = 0..rows;
            link.their_shape[0] = rows;
            2 * rows
        }
        RowMapping::Whole | RowMapping::Patches => return Ok(link),
        RowMapping::Row => {
            link.their_shape.insert(0, 1);
            return Ok(link);
        }
        RowMapping::Into(rows) => {
            let all = stacked(name);
            link.our_rows = row_range(sites, name, &all, &[*rows]);
            link.their_rows = 0..link.our_rows.len();
            link.their_shape[0] = link.our_rows.len();
            row_range(sites, name, &all, &all).end
        }
        RowMapping::Of(rows) => {
            let all = [Rows::Query, Rows::Key, Rows::Value];
            link.their_rows = row_range(sites, name, &all, rows);
            link.their_shape[0] = row_range(sites, name, &all, &all).end;
            link.their_rows.len()
        }
    };
    if needed == shape[0] {
        return Ok(link);
    }
    let message = format!("{name} has {} rows, expected {needed} for the heads of the config", shape[0]);
    Err(Error::Config { message })
}

/// A link of a whole tensor to a whole parameter.
fn whole(theirs: &str, (parameter, shape): (ParameterId, &[usize]), their_shape: Vec<usize>) -> Link {
    let rows = shape.first().copied().unwrap_or(1);
    let width = shape.iter().skip(1).product();
    Link {
        theirs: theirs.to_owned(),
        their_shape,
        their_rows: 0..rows,
        parameter,
        our_rows: 0..rows,
        width,
        is_transposed: false,
    }
}

/// The projections stacked in a parameter, by its name.
fn stacked(name: &str) -> Vec<Rows> {
    let parts = [("query", Rows::Query), ("key", Rows::Key), ("value", Rows::Value)];
    let layer = name.rsplit('.').nth(1).unwrap_or_default();
    parts
        .into_iter()
        .filter(|(part, _)| layer.split('_').any(|word| word == *part))
        .map(|(_, rows)| rows)
        .collect()
}

/// The rows of `wanted`, which are adjacent, within those of `all`.
fn row_range(sites: &Sites, name: &str, all: &[Rows], wanted: &[Rows]) -> Range<usize> {
    let stack = name.split('.').next().unwrap_or_default();
    let group = sites.groups().iter().find(|group| group.kind.stack == stack);
    let widths = group.map_or([0; 3], |group| group.heads.widths());
    let size = |rows: &Rows| widths[*rows as usize];
    let before = all.iter().take_while(|rows| !wanted.contains(rows)).map(size).sum();
    before..before + wanted.iter().map(size).sum::<usize>()
}

fn check_named(layout: CheckpointLayout, parameters: &Parameters, links: &[Link]) -> Result<()> {
    let mut named: Vec<ParameterId> = links.iter().map(|link| link.parameter).collect();
    named.sort();
    let nameless: Vec<&str> = parameters
        .declared()
        .filter(|(id, ..)| named.binary_search(id).is_err())
        .map(|(_, name, _)| name)
        .collect();
    match nameless.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let message =
                format!("the {layout} layout has no name for {first}{more}; the polyhead layout has");
            Err(Error::Config { message })
        }
    }
}

/// Groups links of the same rows, ordered by parameter and rows.
fn grouped(mut links: Vec<Link>) -> Vec<Vec<Link>> {
    let key = |link: &Link| (link.parameter, link.our_rows.start);
    links.sort_by_key(key); // stable: the order of the table stays within a group
    links.chunk_by(|a, b| key(a) == key(b)).map(<[Link]>::to_vec).collect()
}
