//! Problems of labelled text in words.

use polyhead_text::doctor::{LabelCount, LabelFinding, LabelReport};
use polyhead_text::metrics::LabelScore;

use crate::report::{counted, grouped};

/// Labels shown in a table; the others are counted.
const MOST_LABELS: usize = 30;

/// The report of `polyhead data check`.
pub(crate) fn summary(report: &LabelReport) -> String {
    let mut out = sizes(report) + "\n\n";
    let width =
        report.labels.iter().take(MOST_LABELS).map(|own| own.label.chars().count()).max().unwrap_or(0).max(5);
    let unit = if report.is_tagged { "words" } else { "texts" };
    out += &format!("{:width$}  {unit:>10}  {:>10}\n", "label", "validation");
    for LabelCount { label, count, validation } in report.labels.iter().take(MOST_LABELS) {
        out += &format!("{label:width$}  {:>10}  {:>10}\n", grouped(*count), grouped(*validation));
    }
    if report.labels.len() > MOST_LABELS {
        out += &format!("… and {} more\n", grouped((report.labels.len() - MOST_LABELS) as u64));
    }
    out.push('\n');
    if report.findings.is_empty() {
        return out + "✓ no problem found\n";
    }
    for finding in &report.findings {
        let mark = if finding.problem.is_fatal() { '✗' } else { '!' };
        out += &format!("{mark} {:<36} {:>10}\n", finding.problem.describe(), grouped(finding.count));
        for example in &finding.examples {
            let row = format!("    {}:{}  {}", example.path.display(), example.line, example.detail);
            out += row.trim_end();
            out.push('\n');
        }
        if finding.count > finding.examples.len() as u64 && !finding.examples.is_empty() {
            out += "    …\n";
        }
    }
    out
}

/// The report at the start of a training: sizes, and a line for each problem.
pub(crate) fn notes(report: &LabelReport) -> String {
    let row = |LabelFinding { problem, count, examples }: &LabelFinding| {
        let first = examples.first().map_or(String::new(), |first| {
            format!("; the first: {}:{} {}", first.path.display(), first.line, first.detail)
                .trim_end()
                .to_owned()
        });
        format!("\n    {}: {}{first}", problem.describe(), grouped(*count))
    };
    report.findings.iter().fold(sizes(report), |text, finding| text + &row(finding))
}

fn sizes(report: &LabelReport) -> String {
    let unit = if report.is_tagged { "sentence" } else { "text" };
    let validation = match report.validation_texts {
        0 => String::new(),
        count => format!(", {} for validation", grouped(count)),
    };
    let imbalance = report
        .imbalance
        .map_or(String::new(), |ratio| format!(", the most frequent {ratio:.1} times the least"));
    let labels = counted(report.labels.len() as u64, "label");
    format!("{}{validation}, {labels}{imbalance}", counted(report.texts, unit))
}

/// Precision, recall and F1 of each label, below a line of text; empty without labels.
pub(crate) fn score_table(scores: &[LabelScore]) -> String {
    if scores.is_empty() {
        return String::new();
    }
    let width =
        scores.iter().take(MOST_LABELS).map(|score| score.label.chars().count()).max().unwrap_or(0).max(5);
    let mut out = format!("\n    {:width$}  precision  recall     F1  support", "label");
    for LabelScore { label, precision, recall, f1, support } in scores.iter().take(MOST_LABELS) {
        out += &format!(
            "\n    {label:width$}  {precision:>9.1}  {recall:>6.1}  {f1:>5.1}  {:>7}",
            grouped(*support)
        );
    }
    if scores.len() > MOST_LABELS {
        out += &format!(
            "\n    … and {} more, in the model's README.md",
            grouped((scores.len() - MOST_LABELS) as u64)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_table_has_a_row_for_each_label() {
        let score = |label: &str, f1| LabelScore {
            label: label.into(),
            precision: 100.0,
            recall: 50.0,
            f1,
            support: 1200,
        };
        let found = score_table(&[score("PER", 66.666), score("LOCATION", 0.0)]);
        let expected = [
            "",
            "    label     precision  recall     F1  support",
            "    PER           100.0    50.0   66.7    1,200",
            "    LOCATION      100.0    50.0    0.0    1,200",
        ];
        assert_eq!(found.split('\n').collect::<Vec<_>>(), expected);
        assert_eq!(score_table(&[]), "");
    }
}
