//! A table applied to a model: which rows of which array in the file are which rows of which parameter.

use std::collections::HashMap;
use std::ops::Range;

use polyhead_attention::Sites;
use polyhead_tensor::{ParameterId, Parameters};

use super::Layout;
use super::table::{IGNORE, Line, Part, Rows, matches};
use crate::{Error, Model, ModelConfig, Result};

/// Rows of an array in the file that are rows of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) theirs: String,
    pub(super) their_shape: Vec<usize>,
    pub(super) their_rows: Range<usize>,
    pub(super) parameter: ParameterId,
    pub(super) our_rows: Range<usize>,
    /// Numbers of a row.
    pub(super) width: usize,
}

/// All links of a model.
#[derive(Debug)]
pub(super) struct Links {
    /// Links of the same rows of the same parameter stand together, in the order of the table.
    pub(super) groups: Vec<Vec<Link>>,
    /// Patterns of names that mean nothing.
    ignored: Vec<&'static str>,
}

impl Links {
    /// The links between the arrays of a layout and the declared parameters, all of which must have some.
    pub(super) fn new(layout: Layout, config: &ModelConfig, parameters: &Parameters) -> Result<Self> {
        // Our own names are those of the parameters.
        let sites = match layout {
            Layout::Polyhead => Sites::default(),
            _ => Model::new(config, &mut Parameters::default())?.sites(),
        };
        let declared: HashMap<&str, (ParameterId, &[usize])> =
            parameters.declared().map(|(id, name, shape)| (name, (id, shape))).collect();
        let mut found = Links { groups: Vec::new(), ignored: Vec::new() };
        let mut links = Vec::new();
        for line in layout.lines() {
            let n_layers = if line.theirs.contains("{}") { layers(&sites) } else { 1 };
            for layer in 0..n_layers {
                match meant(&line, layer, &declared) {
                    Some(ours) => links.push(link(&line, layer, &sites, (&ours, declared[ours.as_str()]))?),
                    None if line.ours.contains(&IGNORE) => found.ignored.push(line.theirs),
                    None => {}
                }
            }
        }
        if layout == Layout::Polyhead {
            links.extend(
                parameters.declared().map(|(id, name, shape)| whole(name, (id, shape), shape.to_vec())),
            );
        }
        check_named(layout, parameters, &links)?;
        found.groups = grouped(links);
        Ok(found)
    }

    /// Whether an array of this name is meant to be left alone.
    pub(super) fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|pattern| matches(pattern, name))
    }
}

/// The first of the line's names that the model declares.
fn meant(line: &Line, layer: usize, declared: &HashMap<&str, (ParameterId, &[usize])>) -> Option<String> {
    let names = line.ours.iter().map(|name| numbered(name, layer));
    names.into_iter().find(|name| declared.contains_key(name.as_str()))
}

fn numbered(name: &str, layer: usize) -> String {
    name.replace("{}", &layer.to_string())
}

fn layers(sites: &Sites) -> usize {
    sites.groups().iter().map(|group| group.n_layers).max().unwrap_or(0)
}

fn link(
    line: &Line,
    layer: usize,
    sites: &Sites,
    (name, (id, shape)): (&str, (ParameterId, &[usize])),
) -> Result<Link> {
    let mut link = whole(&numbered(line.theirs, layer), (id, shape), shape.to_vec());
    let needed = match &line.part {
        Part::Whole => return Ok(link),
        Part::Row => {
            link.their_shape.insert(0, 1);
            return Ok(link);
        }
        Part::Into(rows) => {
            let all = stacked(name);
            link.our_rows = place(sites, name, &all, &[*rows]);
            link.their_rows = 0..link.our_rows.len();
            link.their_shape[0] = link.our_rows.len();
            place(sites, name, &all, &all).end
        }
        Part::Of(rows) => {
            let all = [Rows::Query, Rows::Key, Rows::Value];
            link.their_rows = place(sites, name, &all, rows);
            link.their_shape[0] = place(sites, name, &all, &all).end;
            link.their_rows.len()
        }
    };
    if needed == shape[0] {
        return Ok(link);
    }
    let message = format!("{name} has {} rows, expected {needed} for the heads of the config", shape[0]);
    Err(Error::Config { message })
}

/// Both arrays are the same.
fn whole(theirs: &str, (parameter, shape): (ParameterId, &[usize]), their_shape: Vec<usize>) -> Link {
    let rows = shape.first().copied().unwrap_or(1);
    let width = shape.iter().skip(1).product();
    Link { theirs: theirs.to_owned(), their_shape, their_rows: 0..rows, parameter, our_rows: 0..rows, width }
}

/// What stands in a parameter of ours, by its name.
fn stacked(name: &str) -> Vec<Rows> {
    let parts = [("query", Rows::Query), ("key", Rows::Key), ("value", Rows::Value)];
    let layer = name.rsplit('.').nth(1).unwrap_or_default();
    parts
        .into_iter()
        .filter(|(part, _)| layer.split('_').any(|word| word == *part))
        .map(|(_, rows)| rows)
        .collect()
}

/// Where `wanted`, which follow each other, stand among `all`.
fn place(sites: &Sites, name: &str, all: &[Rows], wanted: &[Rows]) -> Range<usize> {
    let stack = name.split('.').next().unwrap_or_default();
    let group = sites.groups().iter().find(|group| group.kind.stack == stack);
    let widths = group.map_or([0; 3], |group| group.heads.widths());
    let size = |rows: &Rows| widths[*rows as usize];
    let before = all.iter().take_while(|rows| !wanted.contains(rows)).map(size).sum();
    before..before + wanted.iter().map(size).sum::<usize>()
}

fn check_named(layout: Layout, parameters: &Parameters, links: &[Link]) -> Result<()> {
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

/// Links of the same rows together, ordered by parameter and rows.
fn grouped(mut links: Vec<Link>) -> Vec<Vec<Link>> {
    let key = |link: &Link| (link.parameter, link.our_rows.start);
    links.sort_by_key(key); // stable: the order of the table stays within a group
    links.chunk_by(|a, b| key(a) == key(b)).map(<[Link]>::to_vec).collect()
}
