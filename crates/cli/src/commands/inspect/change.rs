//! Interventions of `polyhead inspect`: heads and layers, named as `cross:5:3` and `encoder:0`.

use anyhow::Result;
use polyhead_attention::{AttentionKind, Intervention, Site, SiteGroup, Sites};

use super::misuse;

/// A head to switch off; none for all heads of the layer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HeadRemoval {
    kind: String,
    layer: usize,
    head: Option<usize>,
}

/// A head and the factor of its output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HeadScale {
    kind: String,
    layer: usize,
    head: usize,
    factor: f32,
}

/// A layer to skip.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LayerSkip {
    stack: String,
    layer: usize,
}

/// Parses `--without`.
pub(super) fn removal(text: &str) -> Result<HeadRemoval, String> {
    let wrong = || format!("{text:?}, expected KIND:LAYER:HEAD or KIND:LAYER, such as cross:5:3");
    let parts: Vec<&str> = text.split(':').collect();
    let (&[kind, layer], head) = parts.split_first_chunk::<2>().ok_or_else(wrong)?;
    let head = match head {
        [] => None,
        [head] => Some(head.parse().map_err(|_| wrong())?),
        _ => return Err(wrong()),
    };
    Ok(HeadRemoval { kind: kind.to_owned(), layer: layer.parse().map_err(|_| wrong())?, head })
}

/// Parses `--scale`.
pub(super) fn scale(text: &str) -> Result<HeadScale, String> {
    let wrong = || format!("{text:?}, expected KIND:LAYER:HEAD=FACTOR, such as cross:5:3=0.5");
    let (head, factor) = text.split_once('=').ok_or_else(wrong)?;
    let HeadRemoval { kind, layer, head: Some(head) } = removal(head)? else { return Err(wrong()) };
    let factor: f32 = factor.parse().map_err(|_| wrong())?;
    if factor.is_finite() { Ok(HeadScale { kind, layer, head, factor }) } else { Err(wrong()) }
}

/// Parses `--skip`.
pub(super) fn skip(text: &str) -> Result<LayerSkip, String> {
    let wrong = || format!("{text:?}, expected STACK:LAYER, such as encoder:0");
    let (stack, layer) = text.split_once(':').ok_or_else(wrong)?;
    Ok(LayerSkip { stack: stack.to_owned(), layer: layer.parse().map_err(|_| wrong())? })
}

/// The kind of attention with this name.
pub(super) fn kind(sites: &Sites, name: &str) -> Result<AttentionKind> {
    let names: Vec<&str> = sites.groups().iter().map(|group| group.kind.name).collect();
    let unknown = || unknown("kind of attention", name, &names);
    sites.named(name).map(|group| group.kind).ok_or_else(unknown)
}

fn unknown(what: &str, found: &str, known: &[&str]) -> anyhow::Error {
    let message = format!("{what} {found:?}, expected one of the model's: {}", known.join(", "));
    misuse(&message, "polyhead info describes the model")
}

/// All interventions, checked against the model.
pub(super) fn intervention(
    sites: &Sites,
    removals: &[HeadRemoval],
    scales: &[HeadScale],
    skips: &[LayerSkip],
) -> Result<Intervention> {
    let mut changed = Intervention::default();
    for HeadRemoval { kind: name, layer, head } in removals {
        let kind = kind(sites, name)?;
        let n_heads = check(sites.of(kind), *layer, head.unwrap_or(0))?;
        let heads = head.map_or(0..n_heads, |head| head..head + 1);
        let site = Site { kind, layer: *layer };
        changed = heads.fold(changed, |changed, head| changed.head(site, head, 0.0));
    }
    for HeadScale { kind: name, layer, head, factor } in scales {
        let kind = kind(sites, name)?;
        check(sites.of(kind), *layer, *head)?;
        changed = changed.head(Site { kind, layer: *layer }, *head, *factor);
    }
    for LayerSkip { stack, layer } in skips {
        let stacks = sites.stacks();
        let Some(group) = stacks.iter().find(|group| group.kind.stack == stack) else {
            let known: Vec<&str> = stacks.iter().map(|group| group.kind.stack).collect();
            return Err(unknown("stack", stack, &known));
        };
        check(Some(group), *layer, 0)?;
        changed = changed.without_layer(group.kind.stack, *layer);
    }
    Ok(changed)
}

/// The number of heads; misuse if there is no such layer or head.
fn check(group: Option<&SiteGroup>, layer: usize, head: usize) -> Result<usize> {
    let (stack, n_layers, n_heads) =
        group.map_or(("", 0, 0), |group| (group.kind.stack, group.n_layers, group.heads.n_heads));
    let wrong = |what: &str, found: usize, n: usize| {
        let message =
            format!("{what} {found}, expected one of the model's ({stack}: 0–{})", n.saturating_sub(1));
        Err(misuse(&message, &format!("{what}s are counted from 0")))
    };
    match () {
        () if layer >= n_layers => wrong("layer", layer, n_layers),
        () if head >= n_heads => wrong("head", head, n_heads),
        () => Ok(n_heads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_layers_are_named_by_numbers() {
        let (kind, layer) = (|| "cross".to_owned(), 5);
        assert_eq!(removal("cross:5:3"), Ok(HeadRemoval { kind: kind(), layer, head: Some(3) }));
        assert_eq!(removal("cross:5"), Ok(HeadRemoval { kind: kind(), layer, head: None }));
        assert_eq!(scale("cross:5:3=0.5"), Ok(HeadScale { kind: kind(), layer, head: 3, factor: 0.5 }));
        assert_eq!(skip("encoder:0"), Ok(LayerSkip { stack: "encoder".into(), layer: 0 }));
        for wrong in ["cross", "cross:a", "cross:1:2:3", ""] {
            assert!(removal(wrong).is_err() && scale(wrong).is_err() && skip(wrong).is_err(), "{wrong}");
        }
        assert!(super::kind(&Sites::default(), "crass").is_err());
        assert!(scale("cross:1=2").is_err() && scale("cross:1:1=nan").is_err());
    }
}
