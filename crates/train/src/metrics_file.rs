//! `metrics.jsonl` of a run folder: one JSON object a line, added while the run goes on.
//!
//! The field `kind` says what a line is. Lines of training and of validation are read here; other kinds, and fields that
//! nobody knows yet, are passed over. A number that is missing or `null` (JSON has no NaN) reads as NaN.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use polyhead_text::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize};

/// The file's name in a run folder.
pub const FILE_NAME: &str = "metrics.jsonl";

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// Means over the updates since the line of training before.
    Train(TrainLine),
    /// What a validation found.
    Valid(ValidLine),
    /// A kind that is not read here.
    #[serde(other, skip_serializing)]
    Other,
}

/// A line of training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainLine {
    /// Updates done.
    pub step: u64,
    /// Passes over the data, with the part of the one under way.
    #[serde(default = "missing", deserialize_with = "number")]
    pub epoch: f64,
    /// Loss of a target token, in nats.
    #[serde(default = "missing", deserialize_with = "number")]
    pub loss: f64,
    /// e to the cross-entropy of a target token.
    #[serde(default = "missing", deserialize_with = "number")]
    pub perplexity: f64,
    /// The rate of the last update.
    #[serde(default = "missing", deserialize_with = "number")]
    pub learning_rate: f64,
    /// Length of the gradient before clipping.
    #[serde(default = "missing", deserialize_with = "number")]
    pub gradient_norm: f64,
    /// Target tokens seen since the run began.
    #[serde(default)]
    pub target_tokens: u64,
    /// Target tokens a second.
    #[serde(default = "missing", deserialize_with = "number")]
    pub tokens_per_s: f64,
    /// Part of the batches that was padding, 0 to 1.
    #[serde(default = "missing", deserialize_with = "number")]
    pub padding: f64,
    /// Seconds of training since the run began.
    #[serde(default = "missing", deserialize_with = "number")]
    pub seconds: f64,
}

/// A line of validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidLine {
    /// Updates done.
    pub step: u64,
    /// Passes over the data, with the part of the one under way.
    #[serde(default = "missing", deserialize_with = "number")]
    pub epoch: f64,
    /// Loss of a target token, in nats.
    #[serde(default = "missing", deserialize_with = "number")]
    pub loss: f64,
    /// e to the cross-entropy of a target token.
    #[serde(default = "missing", deserialize_with = "number")]
    pub perplexity: f64,
    /// Scores of decoded sentences by their names; empty where nothing was decoded.
    #[serde(default, deserialize_with = "numbers")]
    pub scores: BTreeMap<String, f64>,
    /// Whether this was the best validation so far.
    #[serde(default)]
    pub is_best: bool,
    /// SHA-256 of the weights file that was judged, where it is one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Seconds of training since the run began.
    #[serde(default = "missing", deserialize_with = "number")]
    pub seconds: f64,
}

impl Line {
    /// Updates done; none for a kind that is not read here.
    pub fn step(&self) -> Option<u64> {
        match self {
            Self::Train(line) => Some(line.step),
            Self::Valid(line) => Some(line.step),
            Self::Other => None,
        }
    }
}

/// The lines of training and validation in the file at `path`. Half a line at the end, as an interrupted run leaves it, is
/// passed over; what a resumed run did again replaces what it had done before.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let bytes = fs::read(path).map_err(|error| Error::io(path, "read", error))?;
    let mut lines = Vec::new();
    for (index, text) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if text.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(line) => add(&mut lines, line),
            Err(_) if !text.ends_with(b"\n") => {}
            Err(error) => return Err(broken(path, index as u64 + 1, &error)),
        }
    }
    Ok(lines)
}

/// Adds a line and drops those that a run resumed from an older checkpoint has overtaken: all of later steps, and the one
/// of the same kind and step. Steps thus never go down.
fn add(lines: &mut Vec<Line>, line: Line) {
    let Some(step) = line.step() else { return };
    let earlier = lines.iter().rposition(|old| old.step() < Some(step)).map_or(0, |last| last + 1);
    let same_step = lines.split_off(earlier).into_iter().filter(|old| {
        old.step() == Some(step) && std::mem::discriminant(old) != std::mem::discriminant(&line)
    });
    lines.extend(same_step);
    lines.push(line);
}

fn broken(path: &Path, line: u64, error: &serde_json::Error) -> Error {
    // The reader saw one line alone, so its own "at line 1" would mislead.
    let text = error.to_string();
    let found = text.split(" at line ").next().unwrap_or(&text);
    Error::Format {
        path: path.to_owned(),
        line: Some(line),
        found: format!("{found} (column {})", error.column()),
        expected: r#"a JSON object with "kind" and "step""#.into(),
        hint: "remove or mend this line; every other line can stay".into(),
    }
}

fn missing() -> f64 {
    f64::NAN
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn numbers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, f64>, D::Error> {
    let numbers = BTreeMap::<String, Option<f64>>::deserialize(deserializer)?;
    Ok(numbers.into_iter().map(|(name, number)| (name, number.unwrap_or(f64::NAN))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIN: &str = r#"{"kind":"train","step":100,"epoch":1.25,"loss":4.5,"perplexity":90.0,"learning_rate":0.001,"gradient_norm":1.5,"target_tokens":412000,"tokens_per_s":7700.0,"padding":0.05,"seconds":53.5}"#;
    const VALID: &str = r#"{"kind":"valid","step":100,"epoch":1.25,"loss":4.25,"perplexity":60.5,"scores":{"BLEU":3.5,"chrF2":21.0},"is_best":true,"seconds":55.0}"#;

    fn read_text(text: impl AsRef<[u8]>) -> Result<Vec<Line>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        fs::write(&path, text).unwrap();
        read(&path)
    }

    /// `kind:step` of every line.
    fn outline(lines: &[Line]) -> String {
        let name = |line: &Line| if matches!(line, Line::Train(_)) { "t" } else { "v" };
        let names = lines.iter().map(|line| format!("{}{}", name(line), line.step().unwrap()));
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_are_written_as_they_are_read() {
        let lines = read_text(format!("{TRAIN}\n{VALID}\n")).unwrap();
        let written: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        assert_eq!(written, [TRAIN, VALID]);
    }

    #[test]
    fn other_kinds_and_fields_are_passed_over_and_missing_numbers_are_nan() {
        let text = r#"{"kind":"start","seed":1}

{"kind":"train","step":1,"loss":null,"new":[{}]}
{"kind":"resume","step":1}
{"kind":"valid","step":1,"scores":{"BLEU":null}}"#;
        let lines = read_text(text).unwrap();
        let [Line::Train(train), Line::Valid(valid)] = &lines[..] else { panic!("{lines:?}") };
        assert!(train.loss.is_nan() && train.epoch.is_nan() && valid.scores["BLEU"].is_nan());
    }

    #[test]
    fn half_a_line_at_the_end_is_no_fault_but_elsewhere_it_is() {
        let half = &TRAIN[..40];
        assert_eq!(read_text(format!("{TRAIN}\n{half}")).unwrap().len(), 1);
        assert_eq!(read_text([TRAIN.as_bytes(), b"\n{\"kind\":\"\xc3"].concat()).unwrap().len(), 1);
        let error = read_text(format!("{VALID}\n{half}\n{TRAIN}\n")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("metrics.jsonl:2: EOF while parsing"), "{text}");
        assert!(!error.hint().is_empty());
        let text = read_text("{\"kind\":\"train\"}\n").unwrap_err().to_string();
        assert!(text.contains("metrics.jsonl:1: missing field `step`"), "{text}");
    }

    #[test]
    fn a_resumed_run_replaces_what_it_does_again() {
        let train = |step| format!("{{\"kind\":\"train\",\"step\":{step}}}\n");
        let valid = |step| format!("{{\"kind\":\"valid\",\"step\":{step}}}\n");
        let before = [train(100), train(200), valid(200), train(300), train(400), valid(400)].concat();
        let after = |more: &[String]| outline(&read_text(before.clone() + &more.concat()).unwrap());
        assert_eq!(after(&[]), "t100 t200 v200 t300 t400 v400");
        assert_eq!(after(&[train(300)]), "t100 t200 v200 t300");
        assert_eq!(after(&[valid(300)]), "t100 t200 v200 t300 v300");
        assert_eq!(after(&[valid(400), train(500)]), "t100 t200 v200 t300 t400 v400 t500");
    }
}
