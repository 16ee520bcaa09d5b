//! The vectors of words in their contexts compared: cosines of each pair of occurrences, after each layer.
//!
//! The vector of an occurrence is the mean of the states of its tokens. Vectors of different tokens are similar, too, more so in
//! later layers of most models (Ethayarajh 2019), so the mean cosine of all other pairs of tokens stands beside the cosines.

use std::ops::{ControlFlow, Range};

use polyhead_attention::Intervention;
use polyhead_engine::LongTexts;

use super::occurrence::{occurrences, words};
use super::projection::{projection, similarities};
use super::reader::ReadText;
use super::{StateLayer, StateReader, States};
use crate::matrix::Matrix;
use crate::trace::TraceSide;
use crate::{Error, Result};

/// Most occurrences that are compared.
const MAX_OCCURRENCES: usize = 64;
/// Words that an error lists.
const LISTED: usize = 24;

/// Options of a comparison.
#[derive(Debug, Clone, Default)]
pub struct CompareOptions {
    /// What happens to texts that are too long; default: they are refused.
    pub long: LongTexts,
    /// Changes to the model; default: none.
    pub intervention: Intervention,
}

/// Words in their contexts.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The texts.
    pub texts: Vec<ComparedText>,
    /// The occurrences, in the order of the words, then of the texts.
    pub occurrences: Vec<Occurrence>,
    /// The points of the projections: occurrences and all other tokens with text, in the order of the texts.
    pub points: Vec<Point>,
    /// The layers.
    pub layers: Vec<ComparedLayer>,
}

/// A text of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedText {
    /// The text as the model reads it, with its tokens.
    pub side: TraceSide,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

/// A word in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// Index of the word that was asked for.
    pub word: usize,
    /// Index of the text.
    pub text: usize,
    /// Bytes in the text.
    pub span: Range<usize>,
    /// Indices of its tokens.
    pub tokens: Vec<usize>,
}

/// A point of the projections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Index of the text.
    pub text: usize,
    /// Index of the occurrence; `None` for another token.
    pub occurrence: Option<usize>,
    /// Label of the token or the word.
    pub label: String,
}

/// A layer of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedLayer {
    /// The layer.
    pub layer: StateLayer,
    /// The vector of each occurrence.
    pub vectors: Matrix,
    /// Cosines of each pair of occurrences.
    pub similarities: Matrix,
    /// Mean cosine of all other pairs of points; `None` without any.
    pub others: Option<f64>,
    /// The points in the plane.
    pub places: Vec<[f64; 2]>,
    /// Share of the variance of the points that the plane has.
    pub variance: f64,
}

impl Comparison {
    /// Compares the occurrences of words in texts. `watch` receives the number of tokens of each text, before
    /// each text is read by the model and before each layer is compared, and may cancel.
    ///
    /// # Errors
    /// If there are fewer than two occurrences, the model has no states, or the comparison is cancelled.
    pub fn new(
        reader: StateReader<'_>,
        (texts, wanted): (&[&str], &[&str]),
        options: &CompareOptions,
        watch: &mut dyn FnMut(&[usize]) -> ControlFlow<()>,
    ) -> Result<Self> {
        let read = texts.iter().map(|text| reader.read(text, options.long)).collect::<Result<Vec<_>>>()?;
        let found = found(&read, wanted)?;
        let lengths: Vec<usize> = read.iter().map(|own| own.encoding.len()).collect();
        let mut check = || match watch(&lengths) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Translate(polyhead_engine::Error::Cancelled)),
        };
        let mut all: Vec<States> = Vec::with_capacity(read.len());
        for own in &read {
            check()?;
            all.push(reader.states(&own.encoding.ids, &options.intervention)?);
        }
        let texts: Vec<ComparedText> = read
            .into_iter()
            .map(|own| ComparedText {
                side: TraceSide::new("text", &own.text, own.encoding),
                cut_from: own.cut_from,
            })
            .collect();
        let (points, tokens) = points(&texts, &found);
        let mut layers: Vec<ComparedLayer> = Vec::new();
        for (index, (layer, _)) in all[0].layers.iter().enumerate() {
            check()?;
            let states: Vec<&Matrix> = all.iter().map(|own| &own.layers[index].1).collect();
            let before = layers.last().map(|own| own.places.as_slice());
            layers.push(compared(*layer, &states, (&points, &tokens), before));
        }
        Ok(Self { texts, occurrences: found, points, layers })
    }

    /// The text of an occurrence.
    pub fn spelled(&self, occurrence: &Occurrence) -> &str {
        &self.texts[occurrence.text].side.text[occurrence.span.clone()]
    }

    /// All pairs of occurrences.
    pub fn pairs(&self) -> Vec<[usize; 2]> {
        let n = self.occurrences.len();
        (0..n).flat_map(|a| (a + 1..n).map(move |b| [a, b])).collect()
    }
}

/// The occurrences of words in the parts of texts that are read.
fn found(read: &[ReadText], wanted: &[&str]) -> Result<Vec<Occurrence>> {
    let mut found = Vec::new();
    for (word, name) in wanted.iter().enumerate() {
        let before = found.len();
        for (text, own) in read.iter().enumerate() {
            for span in occurrences(&own.text, name) {
                let tokens = tokens_of(own, &span);
                // What was cut off has no tokens.
                if !tokens.is_empty() {
                    found.push(Occurrence { word, text, span, tokens });
                }
            }
        }
        if found.len() == before {
            return Err(missing(read, name));
        }
    }
    match found.len() {
        1 => {
            let message = format!("{:?} occurs once, expected two occurrences or more", wanted[0]);
            let hint = "add another text with the word, or another word with a second --compare";
            Err(Error::request(message, hint))
        }
        n if n > MAX_OCCURRENCES => {
            let message = format!("{n} occurrences, expected at most {MAX_OCCURRENCES}");
            Err(Error::request(message, "choose a rarer word, or fewer texts"))
        }
        _ => Ok(found),
    }
}

fn missing(read: &[ReadText], word: &str) -> Error {
    let mut known: Vec<&str> = Vec::new();
    for own in read.iter().flat_map(|own| words(&own.text)) {
        if !known.contains(&own) {
            known.push(own);
        }
    }
    let more = if known.len() > LISTED { ", …" } else { "" };
    known.truncate(LISTED);
    let texts = if read.len() == 1 { "the text" } else { "the texts" };
    let message =
        format!("{word:?} is not a word of {texts}, expected one of them: {}{more}", known.join(", "));
    Error::request(message, "choose a word as it is in the text; case is ignored")
}

/// Indices of the tokens that have some of these bytes.
fn tokens_of(read: &ReadText, span: &Range<usize>) -> Vec<usize> {
    let touches = |own: &Range<usize>| {
        let text = &read.text[own.clone()];
        let start = own.start + (text.len() - text.trim_start().len());
        start < span.end && own.end > span.start && start < own.end
    };
    let offsets = read.encoding.offsets.iter().enumerate();
    offsets.filter(|(_, own)| touches(own)).map(|(index, _)| index).collect()
}

/// The points of all layers, and the text and the tokens of each.
fn points(texts: &[ComparedText], found: &[Occurrence]) -> (Vec<Point>, Vec<Vec<usize>>) {
    let (mut points, mut tokens) = (Vec::new(), Vec::new());
    for (text, own) in texts.iter().enumerate() {
        let side = &own.side;
        for (index, token) in side.tokens.iter().enumerate() {
            let mut here = found
                .iter()
                .enumerate()
                .filter(|(_, other)| other.text == text && other.tokens.contains(&index))
                .peekable();
            if here.peek().is_none() && !side.text[token.span.clone()].trim().is_empty() {
                points.push(Point { text, occurrence: None, label: side.label(index) });
                tokens.push(vec![index]);
            }
            for (occurrence, other) in here.filter(|(_, other)| other.tokens[0] == index) {
                let label = side.text[other.span.clone()].to_owned();
                points.push(Point { text, occurrence: Some(occurrence), label });
                tokens.push(other.tokens.clone());
            }
        }
    }
    (points, tokens)
}

/// One layer; `states` are those of each text, `tokens` those of each point.
fn compared(
    layer: StateLayer,
    states: &[&Matrix],
    (points, tokens): (&[Point], &[Vec<usize>]),
    before: Option<&[[f64; 2]]>,
) -> ComparedLayer {
    let width = states[0].n_columns();
    let mut all = Matrix::zeros(points.len(), width);
    for (row, (point, tokens)) in points.iter().zip(tokens).enumerate() {
        mean(states[point.text], tokens, all.row_mut(row));
    }
    // In the order of the occurrences, which differs from that of the texts if there are several words.
    let mut own: Vec<(usize, usize)> =
        points.iter().enumerate().filter_map(|(row, point)| Some((point.occurrence?, row))).collect();
    own.sort_unstable();
    let numbers = own.iter().flat_map(|(_, row)| all.row(*row).iter().copied()).collect();
    let vectors = Matrix::new(width, numbers);
    let similarities = similarities(&vectors);
    let others = others(&all, &similarities);
    let found = projection(&all, before);
    ComparedLayer { layer, vectors, similarities, others, places: found.places, variance: found.variance }
}

/// The mean of some rows.
fn mean(states: &Matrix, rows: &[usize], out: &mut [f32]) {
    let mut sum = vec![0.0; out.len()];
    for &row in rows {
        sum.iter_mut().zip(states.row(row)).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    out.iter_mut().zip(sum).for_each(|(out, sum)| *out = (sum / rows.len() as f64) as f32);
}

/// Mean cosine of the pairs of rows that are not pairs of occurrences: (|Σ u|² − n)/2 is the sum over all pairs of unit vectors.
fn others(all: &Matrix, similarities: &Matrix) -> Option<f64> {
    let n = all.n_rows() as f64;
    let mut sum = vec![0.0; all.n_columns()];
    let mut units = 0.0;
    for row in all.rows() {
        let length = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if length > 0.0 {
            units += 1.0;
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) / length);
        }
    }
    let whole = (sum.iter().map(|x| x * x).sum::<f64>() - units) / 2.0;
    let k = similarities.n_rows();
    let own: f64 = (0..k)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .map(|(a, b)| f64::from(similarities.row(a)[b]))
        .sum();
    let pairs = (n * (n - 1.0) - (k * (k - 1)) as f64) / 2.0;
    (pairs > 0.0).then(|| (whole - own) / pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_pairs_are_those_with_another_token() {
        let all = Matrix::new(2, vec![1.0, 0.0, 0.0, 2.0, 1.0, 1.0]);
        // Rows 0 and 1 are occurrences; their cosine is 0, the two others are √½.
        let own = similarities(&Matrix::new(2, vec![1.0, 0.0, 0.0, 2.0]));
        assert!((others(&all, &own).unwrap() - 0.5_f64.sqrt()).abs() < 1e-9);
        assert_eq!(others(&Matrix::new(2, vec![1.0, 0.0, 0.0, 2.0]), &own), None);
    }
}
