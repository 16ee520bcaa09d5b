//! What `polyhead inspect` changes in a model: heads and layers named as `cross:5:3` and `encoder:0`.

use anyhow::Result;
use polyhead_attention::{Intervention, Kind, Site, Stack};
use polyhead_models::transformer::TransformerConfig;

use super::misuse;

/// Heads that are switched off: one, or all of an attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Without {
    site: Site,
    head: Option<usize>,
}

/// A head with a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scaled {
    site: Site,
    head: usize,
    factor: f32,
}

/// A layer that is passed over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Skipped {
    stack: Stack,
    layer: usize,
}

pub(super) fn without(text: &str) -> Result<Without, String> {
    let wrong = || format!("{text:?}, expected KIND:LAYER:HEAD or KIND:LAYER, such as cross:5:3");
    let parts: Vec<&str> = text.split(':').collect();
    let (&[kind, layer], head) = parts.split_first_chunk::<2>().ok_or_else(wrong)?;
    let head = match head {
        [] => None,
        [head] => Some(head.parse().map_err(|_| wrong())?),
        _ => return Err(wrong()),
    };
    Ok(Without { site: site(kind, layer).ok_or_else(wrong)?, head })
}

pub(super) fn scaled(text: &str) -> Result<Scaled, String> {
    let wrong = || format!("{text:?}, expected KIND:LAYER:HEAD=FACTOR, such as cross:5:3=0.5");
    let (head, factor) = text.split_once('=').ok_or_else(wrong)?;
    let Without { site, head: Some(head) } = without(head)? else { return Err(wrong()) };
    let factor: f32 = factor.parse().map_err(|_| wrong())?;
    if factor.is_finite() { Ok(Scaled { site, head, factor }) } else { Err(wrong()) }
}

pub(super) fn skipped(text: &str) -> Result<Skipped, String> {
    let wrong = || format!("{text:?}, expected encoder:LAYER or decoder:LAYER");
    let (stack, layer) = text.split_once(':').ok_or_else(wrong)?;
    let stack = match stack {
        "encoder" => Stack::Encoder,
        "decoder" => Stack::Decoder,
        _ => return Err(wrong()),
    };
    Ok(Skipped { stack, layer: layer.parse().map_err(|_| wrong())? })
}

fn site(kind: &str, layer: &str) -> Option<Site> {
    let kind = match kind {
        "encoder" => Kind::EncoderSelf,
        "decoder" => Kind::DecoderSelf,
        "cross" => Kind::Cross,
        _ => return None,
    };
    Some(Site { kind, layer: layer.parse().ok()? })
}

/// All changes together, checked against the model.
pub(super) fn intervention(
    config: &TransformerConfig,
    without: &[Without],
    scaled: &[Scaled],
    skipped: &[Skipped],
) -> Result<Intervention> {
    let sizes = |stack: Stack| match stack {
        Stack::Encoder => ("encoder", config.encoder),
        Stack::Decoder => ("decoder", config.decoder),
    };
    let check = |stack: Stack, layer: usize, head: usize| {
        let (name, sizes) = sizes(stack);
        let wrong = |what: &str, found: usize, n: usize| {
            let message =
                format!("{what} {found}, expected one of the model's ({name}: 0–{})", n.saturating_sub(1));
            Err(misuse(&message, &format!("{what}s are counted from 0")))
        };
        match () {
            () if layer >= sizes.n_layers => wrong("layer", layer, sizes.n_layers),
            () if head >= sizes.n_heads => wrong("head", head, sizes.n_heads),
            () => Ok(()),
        }
    };
    let mut changed = Intervention::default();
    for &Without { site, head } in without {
        check(site.stack(), site.layer, head.unwrap_or(0))?;
        let heads = head.map_or(0..sizes(site.stack()).1.n_heads, |head| head..head + 1);
        changed = heads.fold(changed, |changed, head| changed.head(site, head, 0.0));
    }
    for &Scaled { site, head, factor } in scaled {
        check(site.stack(), site.layer, head)?;
        changed = changed.head(site, head, factor);
    }
    for &Skipped { stack, layer } in skipped {
        check(stack, layer, 0)?;
        changed = changed.without_layer(stack, layer);
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_layers_are_named_by_numbers() {
        let cross = Site { kind: Kind::Cross, layer: 5 };
        assert_eq!(without("cross:5:3"), Ok(Without { site: cross, head: Some(3) }));
        assert_eq!(without("cross:5"), Ok(Without { site: cross, head: None }));
        assert_eq!(scaled("cross:5:3=0.5"), Ok(Scaled { site: cross, head: 3, factor: 0.5 }));
        assert_eq!(skipped("encoder:0"), Ok(Skipped { stack: Stack::Encoder, layer: 0 }));
        for wrong in ["cross", "crass:1:2", "cross:a", "cross:1:2:3", ""] {
            assert!(without(wrong).is_err() && scaled(wrong).is_err() && skipped(wrong).is_err(), "{wrong}");
        }
        assert!(scaled("cross:1=2").is_err() && scaled("cross:1:1=nan").is_err());
    }
}
