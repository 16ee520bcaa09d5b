//! Scores of labels and spans against scikit-learn and seqeval (see `tests/golden/labels`).

use polyhead_text::metrics::{LabelCounts, LabelScore};
use polyhead_text::spans::SpanCounts;
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/labels/expected.json")).unwrap()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

fn assert_score(name: &str, found: &LabelScore, expected: &Value) {
    let numbers = [found.precision, found.recall, found.f1, found.support as f64];
    for (number, expected) in numbers.iter().zip(expected.as_array().unwrap()) {
        assert!(
            (number - expected.as_f64().unwrap()).abs() < 1e-9,
            "{name}: {found:?}, expected {expected:?}"
        );
    }
}

#[test]
fn scores_of_spans_are_those_of_seqeval() {
    for case in golden()["spans"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut counts = SpanCounts::default();
        for (found, reference) in
            case["found"].as_array().unwrap().iter().zip(case["references"].as_array().unwrap())
        {
            counts.add(strings(found).into_iter().map(Some), strings(reference).into_iter().map(Some));
        }
        assert_score(name, &counts.total(), &case["total"]);
        let (types, expected) = (counts.types(), case["types"].as_object().unwrap());
        assert_eq!(types.len(), expected.len(), "{name}");
        for score in &types {
            assert_score(name, score, &expected[&score.label]);
        }
    }
}

#[test]
fn scores_of_labels_are_those_of_scikit_learn() {
    for case in golden()["labels"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut counts = LabelCounts::default();
        for (found, reference) in strings(&case["found"]).into_iter().zip(strings(&case["references"])) {
            counts.add(found, reference);
        }
        let totals = [(counts.accuracy(), "accuracy"), (counts.macro_f1(), "macro_f1")];
        for (number, key) in totals {
            assert!((number - case[key].as_f64().unwrap()).abs() < 1e-9, "{name} {key}: {number}");
        }
        let (labels, expected) = (counts.labels(), case["labels"].as_object().unwrap());
        assert_eq!(labels.len(), expected.len(), "{name}");
        for score in &labels {
            assert_score(name, score, &expected[&score.label]);
        }
    }
}
