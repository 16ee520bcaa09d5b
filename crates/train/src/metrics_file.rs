//! `metrics.jsonl` of a run folder: one JSON object per line, appended during the run.
//!
//! The field `kind` is the type of a line. Training and validation lines are read here; other kinds and unknown fields are
//! ignored. A number that is missing or `null` (JSON has no NaN) reads as NaN.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use polyhead_text::metrics::LabelScore;
use polyhead_text::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize};

/// The file's name in a run folder.
pub const FILE_NAME: &str = "metrics.jsonl";

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MetricsLine {
    /// Means over the steps since the previous training line.
    Train(TrainLine),
    /// Scores of a validation.
    Valid(ValidLine),
    /// Any other kind.
    #[serde(other, skip_serializing)]
    Other,
}

/// A training line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainLine {
    /// Steps done.
    pub step: u64,
    /// Epochs done, with the fraction of the current one.
    #[serde(default = "missing", deserialize_with = "number")]
    pub epoch: f64,
    /// Loss per target token, in nats.
    #[serde(default = "missing", deserialize_with = "number")]
    pub loss: f64,
    /// e to the power of the cross-entropy per target token.
    #[serde(default = "missing", deserialize_with = "number")]
    pub perplexity: f64,
    /// Learning rate of the last step.
    #[serde(default = "missing", deserialize_with = "number")]
    pub learning_rate: f64,
    /// Global gradient norm before clipping.
    #[serde(default = "missing", deserialize_with = "number")]
    pub gradient_norm: f64,
    /// Target tokens since the start of the run.
    #[serde(default)]
    pub target_tokens: u64,
    /// Target tokens per second.
    #[serde(default = "missing", deserialize_with = "number")]
    pub tokens_per_s: f64,
    /// Fraction of batch positions that is padding, 0 to 1.
    #[serde(default = "missing", deserialize_with = "number")]
    pub padding: f64,
    /// Seconds of training since the start of the run.
    #[serde(default = "missing", deserialize_with = "number")]
    pub seconds: f64,
}

/// A validation line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidLine {
    /// Steps done.
    pub step: u64,
    /// Epochs done, with the fraction of the current one.
    #[serde(default = "missing", deserialize_with = "number")]
    pub epoch: f64,
    /// Loss per target token, in nats.
    #[serde(default = "missing", deserialize_with = "number")]
    pub loss: f64,
    /// e to the power of the cross-entropy per target token.
    #[serde(default = "missing", deserialize_with = "number")]
    pub perplexity: f64,
    /// Scores of decoded sentences by metric name; empty if nothing was decoded.
    #[serde(default, deserialize_with = "numbers")]
    pub scores: BTreeMap<String, f64>,
    /// Scores of each label, or of each type of spans, of a finished model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelScore>,
    /// True if this was the best validation so far.
    #[serde(default)]
    pub is_best: bool,
    /// SHA-256 of the validated weights, if they are one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Seconds of training since the start of the run.
    #[serde(default = "missing", deserialize_with = "number")]
    pub seconds: f64,
}

impl MetricsLine {
    /// Steps done; `None` for other kinds.
    pub fn step(&self) -> Option<u64> {
        match self {
            Self::Train(line) => Some(line.step),
            Self::Valid(line) => Some(line.step),
            Self::Other => None,
        }
    }
}

/// Reads the training and validation lines of the file at `path`. An incomplete last line, as an interrupted run leaves it,
/// is ignored; steps that a resumed run repeated replace the earlier ones.
pub fn read(path: &Path) -> Result<Vec<MetricsLine>> {
    let bytes = fs::read(path).map_err(|error| Error::io(path, "read", error))?;
    let mut lines = Vec::new();
    for (index, text) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if text.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(line) => add(&mut lines, line),
            Err(_) if !text.ends_with(b"\n") => {}
            Err(error) => return Err(invalid_line(path, index as u64 + 1, &error)),
        }
    }
    Ok(lines)
}

/// Like [`read`], without lines that cannot be read; also their number. A run can be resumed without them.
pub(crate) fn read_valid(path: &Path) -> Result<(Vec<MetricsLine>, usize)> {
    let bytes = fs::read(path).map_err(|error| Error::io(path, "read", error))?;
    let (mut lines, mut n_invalid) = (Vec::new(), 0);
    for text in bytes.split_inclusive(|&byte| byte == b'\n').filter(|text| !text.trim_ascii().is_empty()) {
        match serde_json::from_slice(text) {
            Ok(line) => add(&mut lines, line),
            // Of an incomplete last line nothing is lost.
            Err(_) => n_invalid += usize::from(text.ends_with(b"\n")),
        }
    }
    Ok((lines, n_invalid))
}

/// Adds a line and removes those that a run resumed from an older checkpoint has replaced: all of later steps, and the one
/// of the same kind and step. Steps thus never decrease.
fn add(lines: &mut Vec<MetricsLine>, line: MetricsLine) {
    let Some(step) = line.step() else { return };
    let earlier = lines.iter().rposition(|old| old.step() < Some(step)).map_or(0, |last| last + 1);
    let same_step = lines.split_off(earlier).into_iter().filter(|old| {
        old.step() == Some(step) && std::mem::discriminant(old) != std::mem::discriminant(&line)
    });
    lines.extend(same_step);
    lines.push(line);
}

fn invalid_line(path: &Path, line: u64, error: &serde_json::Error) -> Error {
    // The parser saw a single line, so its own "at line 1" would mislead.
    let text = error.to_string();
    let found = text.split(" at line ").next().unwrap_or(&text);
    Error::Format {
        path: path.to_owned(),
        line: Some(line),
        found: format!("{found} (column {})", error.column()),
        expected: r#"a JSON object with "kind" and "step""#.into(),
        hint: "repair or remove this line".into(),
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

    fn read_text(text: impl AsRef<[u8]>) -> Result<Vec<MetricsLine>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        fs::write(&path, text).unwrap();
        read(&path)
    }

    /// `kind:step` of every line.
    fn outline(lines: &[MetricsLine]) -> String {
        let name = |line: &MetricsLine| if matches!(line, MetricsLine::Train(_)) { "t" } else { "v" };
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
    fn other_kinds_and_fields_are_ignored_and_missing_numbers_are_nan() {
        let text = r#"{"kind":"start","seed":1}

{"kind":"train","step":1,"loss":null,"new":[{}]}
{"kind":"resume","step":1}
{"kind":"valid","step":1,"scores":{"BLEU":null}}"#;
        let lines = read_text(text).unwrap();
        let [MetricsLine::Train(train), MetricsLine::Valid(valid)] = &lines[..] else { panic!("{lines:?}") };
        assert!(train.loss.is_nan() && train.epoch.is_nan() && valid.scores["BLEU"].is_nan());
    }

    #[test]
    fn an_incomplete_line_is_an_error_except_at_the_end() {
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
    fn a_line_that_cannot_be_read_does_not_hide_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let mut bytes = format!("{TRAIN}\n{VALID}\n{TRAIN}\n").into_bytes();
        bytes[20] = 0xff;
        fs::write(&path, &bytes).unwrap();
        assert!(read(&path).is_err());
        let (lines, n_invalid) = read_valid(&path).unwrap();
        assert_eq!((outline(&lines).as_str(), n_invalid), ("v100 t100", 1));
        fs::write(&path, format!("{TRAIN}\n{}", &VALID[..30])).unwrap();
        let (lines, n_invalid) = read_valid(&path).unwrap();
        assert_eq!((lines.len(), n_invalid), (1, 0));
    }

    #[test]
    fn a_resumed_run_replaces_repeated_steps() {
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
