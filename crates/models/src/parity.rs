//! Compares a model with another implementation, layer by layer.
//!
//! A reference file (safetensors) holds `source_ids`, `source_lengths`, `target_ids`, `target_lengths` and what another
//! program computed from them with the same weights: outputs of layers such as `encoder.layers.0.feed_forward`, attention
//! weights such as `decoder.layers.1.cross_attention.weights`, and `logits`. Padding positions are ignored.

use std::collections::HashMap;

use polyhead_attention::{Capture, Pass};
use polyhead_tensor::{Parameters, Tape, Tensor};

use crate::checkpoint::safetensors::TensorFile;
use crate::{Error, Ids, Result, SequenceToSequence};

/// Tolerance of a comparison: an error within either bound is accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Absolute error; default: 1e-4.
    pub absolute: f64,
    /// Error relative to the largest magnitude in the tensor; default: 1e-5.
    pub relative: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { absolute: 1e-4, relative: 1e-5 }
    }
}

/// The comparison of one tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The name of the tensor.
    pub name: String,
    /// The shape of the tensor.
    pub shape: Vec<usize>,
    /// The largest absolute error.
    pub absolute: f64,
    /// The largest absolute error divided by the largest magnitude of the reference.
    pub relative: f64,
    /// True if both errors exceed the tolerance.
    pub diverges: bool,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Every tensor that both sides have, in the order of computation.
    pub comparisons: Vec<Comparison>,
    /// Tensors of the reference that this model does not compute.
    pub unknown: Vec<String>,
}

impl Report {
    /// The first tensor that diverges.
    pub fn first_divergence(&self) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.diverges)
    }
}

const INPUTS: [&str; 4] = ["source_ids", "source_lengths", "target_ids", "target_lengths"];

/// Runs the inputs of `reference` through the model and compares every tensor.
///
/// # Errors
/// If the reference has no inputs, inputs that are invalid for the model, or tensors of different shapes.
pub fn compare(
    model: &SequenceToSequence,
    parameters: &Parameters,
    reference: &TensorFile,
    tolerance: Tolerance,
) -> Result<Report> {
    let source = read_ids(reference, "source_ids", "source_lengths", model.special_ids().pad_id)?;
    let target = read_ids(reference, "target_ids", "target_lengths", model.special_ids().pad_id)?;
    if source.rows() != target.rows() {
        let message = format!("source_ids has {} rows, target_ids {}", source.rows(), target.rows());
        return Err(Error::file(reference.path(), message, "both need one row per sentence"));
    }
    let (tape, capture) = (Tape::inference(), Capture::everything());
    model.forward(&Pass::new(&tape, parameters, &capture), &source, &target)?;
    let trace = capture.take();
    let mut ours: Vec<(String, Tensor)> = trace.activations;
    ours.extend(
        trace.weights.into_iter().map(|captured| (format!("{}.weights", captured.site), captured.weights)),
    );
    let order: HashMap<&str, usize> =
        ours.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for name in reference.names().filter(|name| !INPUTS.contains(name)) {
        match order.get(name) {
            None => unknown.push(name.to_owned()),
            Some(&at) => {
                let rows = RowLengths { source: source.lengths().host(), target: target.lengths().host() };
                let comparison = compare_tensor(name, &ours[at].1, reference, &rows, tolerance)?;
                found.push((order_of(name, &order), comparison));
            }
        }
    }
    found.sort_by_key(|(order, _)| *order);
    Ok(Report { comparisons: found.into_iter().map(|(_, comparison)| comparison).collect(), unknown })
}

/// The sort key of a tensor: weights are computed just before the output of their attention.
fn order_of(name: &str, order: &HashMap<&str, usize>) -> (usize, bool) {
    let activation = name.strip_suffix(".weights").unwrap_or(name);
    (order.get(activation).copied().unwrap_or(usize::MAX), activation == name)
}

fn read_ids(reference: &TensorFile, name: &str, lengths: &str, pad_id: u32) -> Result<Ids> {
    let invalid = |message: String| {
        let hint = "a reference holds source_ids, source_lengths, target_ids and target_lengths beside the activations";
        Error::file(reference.path(), message, hint)
    };
    let &[rows, length] = reference.shape(name).ok_or_else(|| invalid(format!("no tensor {name}")))? else {
        let shape = reference.shape(name).unwrap_or_default();
        return Err(invalid(format!("{name} has shape {shape:?}, expected rows × length")));
    };
    if rows == 0 || length == 0 {
        return Err(invalid(format!("{name} has shape [{rows}, {length}], expected at least one id")));
    }
    let ids = reference.ids(name)?;
    let lengths: Vec<usize> = match reference.shape(lengths) {
        None => vec![length; rows],
        Some(_) => reference.ids(lengths)?.into_iter().map(|length| length as usize).collect(),
    };
    if lengths.len() != rows || lengths.iter().any(|&own| own == 0 || own > length) {
        return Err(invalid(format!(
            "lengths {lengths:?} for {rows} rows of {length}, expected one per row, from 1 to {length}"
        )));
    }
    let rows: Vec<&[u32]> = ids.chunks_exact(length).zip(&lengths).map(|(row, &own)| &row[..own]).collect();
    let padded = Ids::padded(&rows, pad_id);
    if padded.length() != length {
        return Err(invalid(format!(
            "the longest row of {name} has {} ids, expected {length}",
            padded.length()
        )));
    }
    Ok(padded)
}

/// Lengths of the rows of a batch.
struct RowLengths<'a> {
    source: &'a [u32],
    target: &'a [u32],
}

impl RowLengths<'_> {
    /// The lengths that apply to the positions of a tensor: those of the stack that computed it.
    fn lengths(&self, name: &str) -> &[u32] {
        if name.starts_with("encoder") { self.source } else { self.target }
    }
}

fn compare_tensor(
    name: &str,
    ours: &Tensor,
    reference: &TensorFile,
    rows: &RowLengths<'_>,
    tolerance: Tolerance,
) -> Result<Comparison> {
    let theirs = reference.tensor(name)?;
    if theirs.shape() != ours.shape() {
        let message = format!("{name} has shape {:?}, expected {:?}", theirs.shape(), ours.shape());
        return Err(Error::file(reference.path(), message, "does the reference belong to this model?"));
    }
    let lengths = rows.lengths(name);
    // rows × [heads ×] positions × width; outputs of layers have no axis of heads.
    let &[n_rows, .., positions, width] = ours.shape() else {
        return Err(Error::file(
            reference.path(),
            format!("{name} has shape {:?}", ours.shape()),
            "expected rows × positions × width",
        ));
    };
    let per_row = ours.len() / n_rows.max(1) / width.max(1);
    let (mut worst, mut largest) = (0.0_f64, 0.0_f64);
    for (index, (ours, theirs)) in
        ours.data().chunks_exact(width).zip(theirs.data().chunks_exact(width)).enumerate()
    {
        if index % positions >= lengths[index / per_row] as usize {
            continue;
        }
        for (&ours, &theirs) in ours.iter().zip(theirs) {
            worst = worst.max(error(ours.into(), theirs.into()));
            largest = largest.max(f64::from(theirs).abs());
        }
    }
    // An infinite error stays infinite, even if the reference holds infinite values.
    let relative = if worst == 0.0 || worst.is_infinite() { worst } else { worst / largest };
    let diverges = worst > tolerance.absolute && relative > tolerance.relative;
    Ok(Comparison {
        name: name.to_owned(),
        shape: ours.shape().to_vec(),
        absolute: worst,
        relative,
        diverges,
    })
}

/// The absolute error of two values: 0 for equal infinities or two NaNs, infinite if only one side is NaN or infinite.
fn error(ours: f64, theirs: f64) -> f64 {
    if ours == theirs || (ours.is_nan() && theirs.is_nan()) {
        return 0.0;
    }
    let error = (ours - theirs).abs();
    if error.is_nan() { f64::INFINITY } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformer::TransformerConfig;

    #[test]
    fn values_that_are_not_finite_must_agree() {
        let (infinite, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!([error(infinite, infinite), error(nan, nan), error(1.5, 1.0)], [0.0, 0.0, 0.5]);
        for (ours, theirs) in [(infinite, -infinite), (nan, infinite), (1.0, nan), (1.0, -infinite)] {
            assert_eq!([error(ours, theirs), error(theirs, ours)], [infinite; 2], "{ours} {theirs}");
        }
    }

    #[test]
    fn rows_without_ids_are_rejected_whatever_their_number() {
        let mut parameters = Parameters::default();
        let model = SequenceToSequence::new(TransformerConfig::tiny(9), &mut parameters).unwrap();
        for shape in ["[1152921504606846976,0]", "[0,1]"] {
            let entry = format!(r#"{{"dtype":"I32","shape":{shape},"data_offsets":[0,0]}}"#);
            let header = format!(r#"{{"source_ids":{entry},"target_ids":{entry}}}"#);
            let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
            let reference = TensorFile::from_bytes("a", bytes).unwrap();
            let error = compare(&model, &parameters, &reference, Tolerance::default()).unwrap_err();
            assert!(error.to_string().contains("expected at least one id"), "{error}");
        }
    }
}
