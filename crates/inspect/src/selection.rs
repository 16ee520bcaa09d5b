//! Selection of attentions by kind, layer and head, checked against the model, and their heat-maps.

use polyhead_attention::{AttentionKind, Filter, Site, SiteGroup, Sites};

use crate::heat_map::HeatMap;
use crate::matrix::Matrix;
use crate::trace::{Trace, TraceSide};
use crate::{Error, Result};

/// A selection of layers or heads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum IndexSelection {
    /// Not specified.
    #[default]
    Unspecified,
    /// All, each by itself.
    All,
    /// The given indices.
    Some(Vec<usize>),
}

impl IndexSelection {
    /// The selected indices below `n`.
    fn of(&self, n: usize) -> Vec<usize> {
        match self {
            Self::Unspecified | Self::All => (0..n).collect(),
            Self::Some(indices) => indices.iter().copied().filter(|index| *index < n).collect(),
        }
    }

    /// Checks that some stack has every index; `stacks` are counts of `what` by stack.
    fn check(&self, what: &str, stacks: &[(&str, usize)]) -> Result<()> {
        let Self::Some(indices) = self else { return Ok(()) };
        let most = stacks.iter().map(|(_, n)| *n).max().unwrap_or(0);
        let Some(found) = indices.iter().find(|index| **index >= most) else { return Ok(()) };
        let available: Vec<String> =
            stacks.iter().map(|(name, n)| format!("{name}: {}", range(*n))).collect();
        let message = format!("{what} {found}, expected one of the model's ({})", available.join(", "));
        Err(Error::request(message, format!("{what}s are counted from 0")))
    }

    fn filter(&self) -> Option<Vec<usize>> {
        match self {
            Self::Unspecified | Self::All => None,
            Self::Some(indices) => Some(indices.clone()),
        }
    }
}

/// Tokens or words as rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Granularity {
    /// Tokens of the model.
    #[default]
    Tokens,
    /// Words: mean over a word's tokens as queries, sum as keys.
    Words,
}

/// A selection of attentions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The kind of attention; default: all in exported arrays, cross-attention (if any) in pictures.
    pub kind: Option<AttentionKind>,
    /// The layers; default: all in exported arrays, in pictures the alignment layer or else the last.
    pub layers: IndexSelection,
    /// The heads; default: all in exported arrays, their mean in pictures.
    pub heads: IndexSelection,
    /// Rows and columns of a picture; default: tokens.
    pub unit: Granularity,
}

impl Selection {
    /// Checks the selection against the model.
    ///
    /// # Errors
    /// If a layer or head does not exist; the message lists those that do.
    pub fn check(&self, sites: &Sites) -> Result<()> {
        let groups = match self.kind {
            Some(kind) => sites.of(kind).into_iter().collect(),
            None => sites.stacks(),
        };
        if let Some(group) = groups.iter().find(|group| group.n_layers == 0) {
            let message = format!("the model has no {} layers, expected at least one", group.kind.stack);
            return Err(Error::request(message, "leave --kind out, or choose another"));
        }
        let counts = |count: fn(&SiteGroup) -> usize| -> Vec<(&str, usize)> {
            groups.iter().map(|group| (group.kind.stack, count(group))).collect()
        };
        self.layers.check("layer", &counts(|group| group.n_layers))?;
        self.heads.check("head", &counts(|group| group.heads.n_heads))
    }

    /// Filter for exported arrays.
    pub fn filter(&self) -> Filter {
        Filter { stack: None, kind: self.kind, layers: self.layers.filter(), heads: self.heads.filter() }
    }

    /// The kind of attention that pictures show.
    ///
    /// # Errors
    /// If the model has no attention.
    pub fn pictured<'a>(&self, sites: &'a Sites) -> Result<&'a SiteGroup> {
        let own = self.kind.and_then(|kind| sites.of(kind));
        let across = || sites.groups().iter().find(|group| !group.kind.is_self());
        own.or_else(across).or(sites.groups().last()).ok_or_else(|| {
            Error::request(
                "the model has no attention, expected a model with attention",
                "choose another model",
            )
        })
    }

    /// The heat-maps of a picture: one for each selected head, else one for each layer, of several sources for each of them; and the
    /// number of columns if they form a grid.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub fn maps(&self, trace: &Trace) -> Result<(Vec<HeatMap>, Option<usize>)> {
        let first = *self.pictured(&trace.sites)?;
        let (mut maps, columns) = self.maps_of(trace, first)?;
        if self.kind.is_some() || first.kind.is_self() {
            return Ok((maps, columns));
        }
        // The attentions to other sequences, by the same queries.
        let others = trace.sites.groups().iter().filter(|group| {
            let (kind, own) = (group.kind, first.kind);
            !kind.is_self() && kind.queries == own.queries && kind.keys != own.keys
        });
        let others: Vec<SiteGroup> = others.copied().collect();
        if others.is_empty() {
            return Ok((maps, columns));
        }
        let named = |maps: &mut Vec<HeatMap>, kind: AttentionKind| {
            for map in maps {
                map.title = format!("{}: {}", kind.keys, map.title);
            }
        };
        named(&mut maps, first.kind);
        for group in others {
            let (mut more, _) = self.maps_of(trace, group)?;
            named(&mut more, group.kind);
            maps.extend(more);
        }
        Ok((maps, columns))
    }

    /// The heat-maps of one kind of attention.
    fn maps_of(
        &self,
        trace: &Trace,
        SiteGroup { kind, n_layers, heads }: SiteGroup,
    ) -> Result<(Vec<HeatMap>, Option<usize>)> {
        let last = Site { kind, layer: n_layers.saturating_sub(1) };
        let layers = match &self.layers {
            IndexSelection::Unspecified => {
                // Several sources are shown in one layer.
                let is_same = |site: &Site| site.kind.stack == kind.stack && !kind.is_self();
                let alignment = trace.alignment_site().filter(|site| site.kind == kind || is_same(site));
                vec![alignment.unwrap_or(last).layer.min(last.layer)]
            }
            indices => indices.of(n_layers),
        };
        let mut maps = Vec::new();
        for site in layers.into_iter().map(|layer| Site { kind, layer }) {
            let Some(attention) = trace.attention(site) else { continue };
            if self.heads == IndexSelection::Unspecified {
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
        Ok((maps, (self.heads != IndexSelection::Unspecified && n_heads > 1).then_some(n_heads)))
    }

    /// The error if there is nothing to draw.
    fn nothing(&self, trace: &Trace, kind: AttentionKind) -> Error {
        let (message, hint) = if self.unit == Granularity::Words
            && trace.sides.iter().any(|side| side.words.is_empty())
        {
            ("no words to draw, expected at least one in each text".into(), "leave --words out")
        } else {
            let sizes = trace.sites.of(kind).map_or([0; 2], |group| [group.n_layers, group.heads.n_heads]);
            let [layers, heads] = sizes.map(range);
            let expected = format!("layers {layers} and heads {heads} that are not skipped");
            (
                format!("no {} attention to draw, expected {expected}", kind.name),
                "choose with --kind, --layers and --heads",
            )
        };
        Error::request(message, hint)
    }

    fn map(&self, trace: &Trace, kind: AttentionKind, weights: &Matrix, title: String) -> Option<HeatMap> {
        let range = crate::heat_map::ValueRange::Weights;
        match self.unit {
            Granularity::Tokens => {
                let [rows, columns] = trace.labels(kind);
                Some(HeatMap { title, numbers: weights.clone(), rows, columns, range })
            }
            Granularity::Words => {
                let numbers = trace.word_weights(kind, weights)?;
                let words = |side: &str| trace.side(side).map_or_else(Vec::new, TraceSide::word_labels);
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
    fn a_missing_layer_is_reported_with_the_existing_ones() {
        let encoder = AttentionKind::self_attention(0, "encoder", "source");
        let decoder = AttentionKind::self_attention(1, "decoder", "target");
        let cross = AttentionKind::cross_attention(2, "cross", "decoder", ["target", "source"]);
        let group =
            |kind, n_layers, n_heads| SiteGroup { kind, n_layers, heads: HeadShape::even(8, n_heads) };
        let sites = Sites::new(vec![group(encoder, 3, 2), group(decoder, 1, 4), group(cross, 1, 4)]);
        let with = |kind, layers: &[usize], heads: &[usize]| {
            let some = |indices: &[usize]| IndexSelection::Some(indices.to_vec());
            Selection { kind, layers: some(layers), heads: some(heads), unit: Granularity::Tokens }
                .check(&sites)
        };
        assert!(with(None, &[2, 0], &[3]).is_ok());
        let found = with(Some(cross), &[1], &[]).unwrap_err();
        assert_eq!(found.to_string(), "layer 1, expected one of the model's (decoder: 0)");
        let found = with(None, &[0], &[4]).unwrap_err();
        assert_eq!(found.to_string(), "head 4, expected one of the model's (encoder: 0–1, decoder: 0–3)");
        assert!(found.is_misuse() && found.hint().contains("from 0"));
    }
}
