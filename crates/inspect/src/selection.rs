//! Which attentions are meant: a kind, layers and heads, checked against the model, and the maps that show them.

use polyhead_attention::{Filter, Kind, Site, SiteGroup, Sites};

use crate::heat_map::HeatMap;
use crate::matrix::Matrix;
use crate::trace::{Side, Trace};
use crate::{Error, Result};

/// Some of the layers or heads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Places {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// All, one by one.
    All,
    /// These.
    Some(Vec<usize>),
}

impl Places {
    /// Those of `n`.
    fn of(&self, n: usize) -> Vec<usize> {
        match self {
            Self::Unsaid | Self::All => (0..n).collect(),
            Self::Some(places) => places.iter().copied().filter(|place| *place < n).collect(),
        }
    }

    /// Looks whether a stack has them; how many there are of `what`, by stack.
    fn check(&self, what: &str, stacks: &[(&str, usize)]) -> Result<()> {
        let Self::Some(places) = self else { return Ok(()) };
        let most = stacks.iter().map(|(_, n)| *n).max().unwrap_or(0);
        let Some(found) = places.iter().find(|place| **place >= most) else { return Ok(()) };
        let there: Vec<String> = stacks.iter().map(|(name, n)| format!("{name}: {}", range(*n))).collect();
        let message = format!("{what} {found}, expected one of the model's ({})", there.join(", "));
        Err(Error::Request { message, hint: format!("{what}s are counted from 0") })
    }

    fn filter(&self) -> Option<Vec<usize>> {
        match self {
            Self::Unsaid | Self::All => None,
            Self::Some(places) => Some(places.clone()),
        }
    }
}

/// Whether tokens or words are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Tokens, as the model sees them.
    #[default]
    Tokens,
    /// Words: the mean over a word's pieces as queries, their sum as keys.
    Words,
}

/// What is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The kind; all in files of numbers, in pictures attention between two sequences where there is some.
    pub kind: Option<Kind>,
    /// The layers; all in files of numbers, in pictures the one that alignments are read from, or the last.
    pub layers: Places,
    /// The heads; all in files of numbers, in pictures their mean.
    pub heads: Places,
    /// What rows and columns of a picture are; tokens.
    pub unit: Unit,
}

impl Selection {
    /// Looks whether the model has what is meant.
    ///
    /// # Errors
    /// If it has not; the message lists what there is.
    pub fn check(&self, sites: &Sites) -> Result<()> {
        let groups = match self.kind {
            Some(kind) => sites.of(kind).into_iter().collect(),
            None => sites.stacks(),
        };
        if let Some(group) = groups.iter().find(|group| group.n_layers == 0) {
            let message = format!("the model has no {} layers, expected at least one", group.kind.stack);
            return Err(Error::Request { message, hint: "leave --kind out, or choose another".into() });
        }
        let counts = |count: fn(&SiteGroup) -> usize| -> Vec<(&str, usize)> {
            groups.iter().map(|group| (group.kind.stack, count(group))).collect()
        };
        self.layers.check("layer", &counts(|group| group.n_layers))?;
        self.heads.check("head", &counts(|group| group.heads.n_heads))
    }

    /// What goes into files of numbers.
    pub fn filter(&self) -> Filter {
        Filter { stack: None, kind: self.kind, layers: self.layers.filter(), heads: self.heads.filter() }
    }

    /// The kind that pictures show.
    ///
    /// # Errors
    /// If the model has no attention.
    pub fn pictured<'a>(&self, sites: &'a Sites) -> Result<&'a SiteGroup> {
        let own = self.kind.and_then(|kind| sites.of(kind));
        let across = || sites.groups().iter().find(|group| !group.kind.is_self());
        own.or_else(across).or(sites.groups().last()).ok_or_else(|| Error::Request {
            message: "a model without attention, expected one with some to show".into(),
            hint: "choose another model".into(),
        })
    }

    /// The maps that pictures show: one for each head that was named, else one for each layer, and how many stand side by
    /// side if they are a grid.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub fn maps(&self, trace: &Trace) -> Result<(Vec<HeatMap>, Option<usize>)> {
        let &SiteGroup { kind, n_layers, heads } = self.pictured(&trace.sites)?;
        let last = Site { kind, layer: n_layers.saturating_sub(1) };
        let layers = match &self.layers {
            Places::Unsaid => {
                vec![trace.alignment_site().filter(|site| site.kind == kind).unwrap_or(last).layer]
            }
            places => places.of(n_layers),
        };
        let mut maps = Vec::new();
        for site in layers.into_iter().map(|layer| Site { kind, layer }) {
            let Some(attention) = trace.attention(site) else { continue };
            if self.heads == Places::Unsaid {
                let title = match attention.heads[..] {
                    [head] => format!("layer {}, head {head}", site.layer),
                    _ => format!("layer {}, mean of {} heads", site.layer, attention.heads.len()),
                };
                maps.extend(attention.mean().and_then(|mean| self.map(trace, kind, &mean, title)));
                continue;
            }
            for head in self.heads.of(heads.n_heads) {
                let title = format!("layer {}, head {head}", site.layer);
                maps.extend(attention.head(head).and_then(|own| self.map(trace, kind, own, title)));
            }
        }
        if maps.is_empty() {
            return Err(self.nothing(trace, kind));
        }
        let n_heads = self.heads.of(heads.n_heads).len();
        Ok((maps, (self.heads != Places::Unsaid && n_heads > 1).then_some(n_heads)))
    }

    /// Why there is nothing to show of a kind.
    fn nothing(&self, trace: &Trace, kind: Kind) -> Error {
        let (message, hint) = if self.unit == Unit::Words
            && trace.sides.iter().any(|side| side.words.is_empty())
        {
            ("no words to draw, expected at least one in each text".into(), "leave --words out")
        } else {
            let sizes = trace.sites.of(kind).map_or([0; 2], |group| [group.n_layers, group.heads.n_heads]);
            let [layers, heads] = sizes.map(range);
            let expected = format!("layers {layers} and heads {heads} that are not passed over");
            (
                format!("nothing of {} to draw, expected {expected}", kind.name),
                "choose with --kind, --layers and --heads",
            )
        };
        Error::Request { message, hint: hint.into() }
    }

    fn map(&self, trace: &Trace, kind: Kind, weights: &Matrix, title: String) -> Option<HeatMap> {
        let range = crate::heat_map::Range::Weights;
        match self.unit {
            Unit::Tokens => {
                let [rows, columns] = trace.labels(kind);
                Some(HeatMap { title, numbers: weights.clone(), rows, columns, range })
            }
            Unit::Words => {
                let numbers = trace.word_weights(kind, weights)?;
                let words = |side: &str| trace.side(side).map_or_else(Vec::new, Side::word_labels);
                let (rows, columns) = (words(kind.queries), words(kind.keys));
                Some(HeatMap { title, numbers, rows, columns, range })
            }
        }
    }
}

fn range(n: usize) -> String {
    if n == 1 { "0".into() } else { format!("0–{}", n.saturating_sub(1)) }
}

#[cfg(test)]
mod tests {
    use polyhead_attention::multi_head::HeadShape;

    use super::*;

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let encoder = Kind::of_self(0, "encoder", "source");
        let decoder = Kind::of_self(1, "decoder", "target");
        let cross = Kind::across(2, "cross", "decoder", ["target", "source"]);
        let group =
            |kind, n_layers, n_heads| SiteGroup { kind, n_layers, heads: HeadShape::even(8, n_heads) };
        let sites = Sites::new(vec![group(encoder, 3, 2), group(decoder, 1, 4), group(cross, 1, 4)]);
        let with = |kind, layers: &[usize], heads: &[usize]| {
            let some = |places: &[usize]| Places::Some(places.to_vec());
            Selection { kind, layers: some(layers), heads: some(heads), unit: Unit::Tokens }.check(&sites)
        };
        assert!(with(None, &[2, 0], &[3]).is_ok());
        let found = with(Some(cross), &[1], &[]).unwrap_err();
        assert_eq!(found.to_string(), "layer 1, expected one of the model's (decoder: 0)");
        let found = with(None, &[0], &[4]).unwrap_err();
        assert_eq!(found.to_string(), "head 4, expected one of the model's (encoder: 0–1, decoder: 0–3)");
        assert!(found.is_misuse() && found.hint().contains("from 0"));
    }
}
