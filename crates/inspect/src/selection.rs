//! Which attentions are meant: a kind, layers and heads, checked against the model, and the maps that show them.

use polyhead_attention::{Filter, Kind, Site};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::StackConfig;

use crate::export::kind_name;
use crate::heat_map::HeatMap;
use crate::matrix::Matrix;
use crate::trace::Trace;
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
    /// The kind; all in files of numbers, cross-attention in pictures.
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
    pub fn check(&self, config: &TransformerConfig) -> Result<()> {
        let kinds = self.kind.map_or_else(|| vec![Kind::EncoderSelf, Kind::DecoderSelf], |kind| vec![kind]);
        let stacks: Vec<(&str, StackConfig)> = kinds.iter().map(|kind| stack(config, *kind)).collect();
        if let Some((name, _)) = stacks.iter().find(|(_, stack)| stack.n_layers == 0) {
            let message = format!("the model has no {name} layers, expected at least one");
            return Err(Error::Request { message, hint: "leave --kind out, or choose another".into() });
        }
        let counts = |count: fn(&StackConfig) -> usize| -> Vec<(&str, usize)> {
            stacks.iter().map(|(name, stack)| (*name, count(stack))).collect()
        };
        self.layers.check("layer", &counts(|stack| stack.n_layers))?;
        self.heads.check("head", &counts(|stack| stack.n_heads))
    }

    /// What goes into files of numbers.
    pub fn filter(&self) -> Filter {
        Filter { stack: None, kind: self.kind, layers: self.layers.filter(), heads: self.heads.filter() }
    }

    /// The kind that pictures show.
    pub fn pictured(&self) -> Kind {
        self.kind.unwrap_or(Kind::Cross)
    }

    /// The maps that pictures show: one for each head that was named, else one for each layer, and how many stand side by
    /// side if they are a grid.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub fn maps(&self, trace: &Trace) -> Result<(Vec<HeatMap>, Option<usize>)> {
        let kind = self.pictured();
        let (_, stack) = stack(&trace.config, kind);
        let layers = match (&self.layers, kind) {
            (Places::Unsaid, Kind::Cross) => vec![trace.alignment_site().layer],
            (Places::Unsaid, _) => vec![stack.n_layers.saturating_sub(1)],
            (places, _) => places.of(stack.n_layers),
        };
        let mut maps = Vec::new();
        for site in layers.into_iter().map(|layer| Site { kind, layer }) {
            let Some(attention) = trace.attention(site) else { continue };
            if self.heads == Places::Unsaid {
                let title = format!("layer {}, mean of {} heads", site.layer, attention.heads.len());
                maps.extend(attention.mean().and_then(|mean| self.map(trace, kind, &mean, title)));
                continue;
            }
            for head in self.heads.of(stack.n_heads) {
                let title = format!("layer {}, head {head}", site.layer);
                maps.extend(attention.head(head).and_then(|own| self.map(trace, kind, own, title)));
            }
        }
        if maps.is_empty() {
            return Err(self.nothing(trace));
        }
        let n_heads = self.heads.of(stack.n_heads).len();
        Ok((maps, (self.heads != Places::Unsaid && n_heads > 1).then_some(n_heads)))
    }

    /// Why there is nothing to show.
    fn nothing(&self, trace: &Trace) -> Error {
        let (message, hint) =
            if self.unit == Unit::Words && (trace.source.words.is_empty() || trace.target.words.is_empty()) {
                ("no words to draw, expected at least one in each text".into(), "leave --words out")
            } else {
                let (_, stack) = stack(&trace.config, self.pictured());
                let [layers, heads] = [stack.n_layers, stack.n_heads].map(range);
                let kind = kind_name(self.pictured());
                let expected = format!("layers {layers} and heads {heads} that are not passed over");
                (
                    format!("nothing of {kind} to draw, expected {expected}"),
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
                let [source, target] = [trace.source.word_labels(), trace.target.word_labels()];
                let (rows, columns) = match kind {
                    Kind::EncoderSelf => (source.clone(), source),
                    Kind::DecoderSelf => (target.clone(), target),
                    Kind::Cross => (target, source),
                };
                Some(HeatMap { title, numbers, rows, columns, range })
            }
        }
    }
}

/// What a kind of attention is, in words.
pub fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::EncoderSelf => "encoder self-attention: source ↓ looks at source →",
        Kind::DecoderSelf => "decoder self-attention: target ↓ looks at the target so far →",
        Kind::Cross => "cross-attention: target ↓ looks at source →",
    }
}

/// The name and sizes of the stack that a kind stands in.
fn stack(config: &TransformerConfig, kind: Kind) -> (&'static str, StackConfig) {
    match kind {
        Kind::EncoderSelf => (kind_name(kind), config.encoder),
        Kind::DecoderSelf | Kind::Cross => (kind_name(Kind::DecoderSelf), config.decoder),
    }
}

fn range(n: usize) -> String {
    if n == 1 { "0".into() } else { format!("0–{}", n.saturating_sub(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let config = TransformerConfig {
            encoder: StackConfig::new(3, 2, 8),
            decoder: StackConfig::new(1, 4, 8),
            ..TransformerConfig::tiny(9)
        };
        let with = |kind, layers: &[usize], heads: &[usize]| {
            let some = |places: &[usize]| Places::Some(places.to_vec());
            Selection { kind, layers: some(layers), heads: some(heads), unit: Unit::Tokens }.check(&config)
        };
        assert!(with(None, &[2, 0], &[3]).is_ok());
        let found = with(Some(Kind::Cross), &[1], &[]).unwrap_err();
        assert_eq!(found.to_string(), "layer 1, expected one of the model's (decoder: 0)");
        let found = with(None, &[0], &[4]).unwrap_err();
        assert_eq!(found.to_string(), "head 4, expected one of the model's (encoder: 0–1, decoder: 0–3)");
        assert!(found.is_misuse() && found.hint().contains("from 0"));
    }
}
