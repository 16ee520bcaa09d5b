//! Pairs of texts that people have judged, such as STS-B: how far cosines of their vectors agree.

use std::path::Path;

use polyhead_engine::encoder::embed::cosine;
use polyhead_text::lines::Lines;
use polyhead_text::metrics::spearman;

use crate::{Error, Result};

/// Pairs of texts and how similar people find them.
#[derive(Debug, Default)]
pub(super) struct JudgedPairs {
    /// The first texts, and the second ones.
    pub(super) texts: [Vec<String>; 2],
    scores: Vec<f64>,
}

impl JudgedPairs {
    /// Reads two texts and a number on each line, between tabs; the first line may be the names of the columns.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut found = Self::default();
        let mut lines = Lines::open(path)?;
        while let Some(line) = lines.next_text()? {
            let line = line.to_owned();
            let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
            match fields[..] {
                [""] => {}
                [a, b, score]
                    if score.parse::<f64>().is_ok_and(f64::is_finite) && !a.is_empty() && !b.is_empty() =>
                {
                    found.scores.extend(score.parse::<f64>());
                    found.texts[0].push(a.to_owned());
                    found.texts[1].push(b.to_owned());
                }
                [_, _, _] if lines.line() == 1 => {}
                _ => {
                    let place = format!("{}:{}", path.display(), lines.line());
                    let message = format!("{} columns, expected two texts and a number", fields.len());
                    return Err(Error::config(
                        place,
                        message,
                        "validation.judged has text, tab, text, tab, score on each line",
                    ));
                }
            }
        }
        if found.scores.len() < 2 {
            let message = format!("{} judged pairs, expected at least 2", found.scores.len());
            return Err(Error::config(
                path.display().to_string(),
                message,
                "a correlation compares pairs with each other",
            ));
        }
        Ok(found)
    }

    /// 100 times Spearman's correlation of cosines with the scores.
    pub(super) fn agreement(&self, [a, b]: [&[Vec<f32>]; 2]) -> f64 {
        let cosines: Vec<f64> = a.iter().zip(b).map(|(a, b)| cosine(a, b)).collect();
        100.0 * spearman(&self.scores, &cosines)
    }
}
