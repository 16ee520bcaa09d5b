//! The terminal output of `polyhead inspect` for a language model, apart from its attention.

use polyhead_inspect::label::visible;
use polyhead_inspect::trace::text::Prediction;
use polyhead_inspect::trace::{TextTrace, Trace, TraceSide};

use super::screen::MAX_ROWS;

/// Tokens of the comparison with the unchanged model.
const COMPARED: usize = 5;

/// The rows of the summary; `plain` is the trace of the unchanged model, where there are interventions.
pub(super) fn summary(
    (found, trace): (&TextTrace, &Trace),
    plain: Option<&Trace>,
) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(side) = trace.sides.first() {
        let [prompt, continuation] = parts(side, found);
        rows.push(("text", visible(prompt)));
        if found.n_generated > 0 {
            rows.push(("continuation", visible(continuation)));
        }
    }
    rows.push(("probability", scored(found)));
    if let Some((trace, plain)) = plain.and_then(|plain| Some((plain, plain.text()?))) {
        if let Some(side) = trace.sides.first().filter(|_| plain.n_generated > 0) {
            rows.push(("unchanged", visible(parts(side, plain)[1])));
        }
        rows.push(("unchanged", scored(plain)));
        rows.extend([
            ("next", after_prompt(found).map(next).unwrap_or_default()),
            ("unchanged", after_prompt(plain).map(next).unwrap_or_default()),
        ]);
    }
    rows
}

/// The text that was given, and what the model appended.
fn parts<'a>(side: &'a TraceSide, found: &TextTrace) -> [&'a str; 2] {
    let first = side.tokens.len() - found.n_generated;
    let start = side.tokens.get(first).map_or(side.text.len(), |token| token.span.start);
    [&side.text[..start], &side.text[start..]]
}

/// The distribution after the text that was given.
fn after_prompt(found: &TextTrace) -> Option<&Prediction> {
    found.predictions.get(found.predictions.len() - found.n_generated - 1)
}

fn scored(found: &TextTrace) -> String {
    let count = found.predictions.len() - 1;
    let mean = found.log_probability() / count.max(1) as f64;
    format!(
        "log {:.3}, {mean:.3} per token, perplexity {:.2}, {count} tokens after the first",
        found.log_probability(),
        (-mean).exp()
    )
}

/// The most probable next tokens.
fn next(prediction: &Prediction) -> String {
    let best = prediction.alternatives.iter().take(COMPARED);
    let each = best.map(|own| format!("{} {:.3}", visible(&own.label), own.log_probability.exp()));
    each.collect::<Vec<_>>().join("  ")
}

/// Each token with its probability given those before it, and what comes next.
pub(super) fn predictions(found: &TextTrace, side: &TraceSide, width: usize) -> String {
    let mut out = String::from(
        "\nprobability of each token after those before it, and the most probable (rank 1: most probable; surprisal in bits)\n",
    );
    let labels: Vec<String> =
        side.labels().iter().map(|label| visible(label)).chain(["next".to_owned()]).collect();
    let margin = labels.iter().map(|label| console::measure_text_width(label)).max().unwrap_or(0);
    let pad = |label: &str| format!("{}{label}", " ".repeat(margin - console::measure_text_width(label)));
    out += &format!("{:>5} {} {:>7} {:>6} {:>9}\n", "", pad(""), "p", "rank", "surprisal");
    let n_tokens = side.tokens.len();
    for (position, label) in labels.iter().enumerate() {
        if position >= MAX_ROWS && position < n_tokens {
            continue;
        }
        if position == n_tokens && n_tokens > MAX_ROWS {
            out += &format!("… {} more tokens; --out FILE.json has all\n", n_tokens - MAX_ROWS);
        }
        let before = position.checked_sub(1).and_then(|before| found.predictions.get(before));
        let numbers = match before.and_then(|before| before.following) {
            Some(own) => {
                format!("{:>7.4} {:>6} {:>9.2}", own.log_probability.exp(), own.rank, own.surprisal())
            }
            None => " ".repeat(24),
        };
        let number = if position < n_tokens { position.to_string() } else { String::new() };
        let others = before.map(|before| {
            let each = before.alternatives.iter();
            each.map(|own| format!("{} {:.3}", visible(&own.label), own.log_probability.exp()))
                .collect::<Vec<_>>()
                .join("  ")
        });
        let line = format!("{number:>5} {} {numbers}   {}", pad(label), others.unwrap_or_default());
        out += &format!("{}\n", console::truncate_str(line.trim_end(), width, "…"));
    }
    out
}
