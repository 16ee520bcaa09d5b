//! Direct logit attribution: what the embedding, each attention and each feed-forward sub-layer add to the logit of a token.
//!
//! The final norm divides by the size of the whole sum. That divisor is held fixed, so the parts add up to the logit; without
//! one of them it would be another.

use polyhead_models::{ResidualStream, StreamPart};
use polyhead_tensor::ops::best_tokens::top;

use super::prediction::{LogitRows, Readout};
use crate::{Error, Result};

/// A logit: that of a token after a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The position; default: the last.
    pub position: Option<usize>,
    /// The token; default: the one that follows, after the last position the most probable one.
    pub token: Option<u32>,
}

impl Target {
    /// The tokens that follow at each of `length` positions.
    pub fn all(length: usize) -> Vec<Self> {
        (0..length).map(|position| Self { position: Some(position), token: None }).collect()
    }
}

/// Logits divided among the parts of the residual stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Contributions {
    /// The parts, in the order of computation; the last is the bias of the final norm.
    pub parts: Vec<StreamPart>,
    /// The logits.
    pub targets: Vec<Contribution>,
}

/// A logit and what the parts add to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    /// The position.
    pub position: usize,
    /// Id of the token.
    pub id: u32,
    /// Vocabulary entry of the token.
    pub piece: String,
    /// Readable label of the token.
    pub label: String,
    /// The logit of the model.
    pub logit: f32,
    /// What each part adds.
    pub values: Vec<f64>,
    /// Euclidean norm of each part.
    pub norms: Vec<f64>,
}

impl Contribution {
    /// The sum of the parts: the logit, up to rounding.
    pub fn sum(&self) -> f64 {
        self.values.iter().sum()
    }
}

/// The positions of targets, each once.
pub(super) fn positions(targets: &[Target], length: usize) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for target in targets {
        let position = target.position.unwrap_or(length - 1);
        if position >= length {
            let message = format!("position {position}, expected one of 0 to {}", length - 1);
            return Err(Error::request(message, "positions are those of the tokens, counted from 0"));
        }
        found.push(position);
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Positions and tokens of targets.
pub(super) fn targets(targets: &[Target], ids: &[u32], logits: &LogitRows) -> Result<Vec<(usize, u32)>> {
    let vocab_size = logits.first().map_or(0, |(_, row)| row.len());
    let chosen = |target: &Target| {
        let position = target.position.unwrap_or(ids.len() - 1);
        let following = ids.get(position + 1).copied();
        let row = logits.iter().find(|(own, _)| *own == position);
        let best = || row.and_then(|(_, row)| Some(top(row, 1).first()?.id));
        let token = target.token.or(following).or_else(best).unwrap_or_default();
        if token as usize >= vocab_size {
            let message = format!("token {token}, expected an id of 0 to {}", vocab_size.saturating_sub(1));
            return Err(Error::request(message, "choose a token of the vocabulary"));
        }
        Ok((position, token))
    };
    targets.iter().map(chosen).collect()
}

/// The contributions to logits.
pub(super) fn contributions(
    readout: &Readout<'_>,
    stream: &ResidualStream<'_>,
    targets: &[(usize, u32)],
    logits: &LogitRows,
) -> Result<Contributions> {
    let own = |&(position, id): &(usize, u32)| {
        let found = stream.attribution(&readout.pass, position, id)?;
        let row = logits.iter().find(|(own, _)| *own == position);
        Ok(Contribution {
            position,
            id,
            piece: readout.labels.piece(id),
            label: readout.labels.label(id),
            logit: row.map_or(f32::NAN, |(_, row)| row[id as usize]),
            values: found.logits,
            norms: found.norms,
        })
    };
    let targets = targets.iter().map(own).collect::<Result<_>>()?;
    Ok(Contributions { parts: stream.parts().collect(), targets })
}
