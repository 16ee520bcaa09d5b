//! The terminal output of `polyhead inspect` for an encoder, apart from its attention.

use polyhead_engine::classify::Class;
use polyhead_engine::encoder::embed::cosine;
use polyhead_inspect::label::visible;
use polyhead_inspect::trace::text::Prediction;
use polyhead_inspect::trace::{EncoderTrace, HeadOutput, TraceSide};

use super::screen::MAX_ROWS;

/// Numbers of a vector that are shown.
const SHOWN: usize = 6;
/// Classes of a token that are shown.
const MAX_CLASSES: usize = 4;

/// The rows of the summary; `plain` is the trace of the unchanged model, where there are interventions.
pub(super) fn summary(
    found: &EncoderTrace,
    side: &TraceSide,
    plain: Option<&EncoderTrace>,
) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    match (&found.head, plain.map(|plain| &plain.head)) {
        (HeadOutput::Classes(own), plain) => {
            rows.push(("classes", list(own)));
            if let Some(HeadOutput::Classes(plain)) = plain {
                rows.push(("unchanged", list(plain)));
            }
        }
        (HeadOutput::Tags(_, own), plain) => {
            let named = |entities: &[polyhead_engine::encoder::tag::Entity]| {
                let each = entities.iter().map(|own| {
                    let text = visible(&side.text[own.range.clone()]);
                    format!("{text} {} {:.3}", own.label, own.probability)
                });
                let all = each.collect::<Vec<_>>().join("  ");
                if all.is_empty() { "none".to_owned() } else { all }
            };
            rows.push(("entities", named(own)));
            if let Some(HeadOutput::Tags(_, plain)) = plain {
                rows.push(("unchanged", named(plain)));
            }
        }
        (HeadOutput::Vector(own), plain) => {
            rows.push(("vector", start(own)));
            if let Some(HeadOutput::Vector(plain)) = plain {
                rows.push(("unchanged", format!("{} (cosine {:.4})", start(plain), cosine(own, plain))));
            }
        }
        (HeadOutput::Words(own), plain) => {
            rows.push(("probability", mean(own)));
            if let Some(HeadOutput::Words(plain)) = plain {
                rows.push(("unchanged", mean(plain)));
            }
        }
    }
    rows
}

fn list(classes: &[Class]) -> String {
    let each = classes.iter().map(|class| format!("{} {:.3}", class.label, class.probability));
    each.collect::<Vec<_>>().join("  ")
}

/// The size and the first numbers of a vector.
fn start(vector: &[f32]) -> String {
    let first: Vec<String> = vector.iter().take(SHOWN).map(|number| format!("{number:.4}")).collect();
    let more = if vector.len() > SHOWN { " …" } else { "" };
    format!("{} numbers: {}{more}", vector.len(), first.join(" "))
}

/// The mean log-probability of the tokens.
fn mean(words: &[Prediction]) -> String {
    let all: Vec<f64> = words
        .iter()
        .filter_map(|own| own.following.as_ref())
        .map(|own| f64::from(own.log_probability))
        .collect();
    format!(
        "log {:.3} per token, each of which the model has read",
        all.iter().sum::<f64>() / all.len().max(1) as f64
    )
}

/// What the head says of each token.
pub(super) fn table(found: &EncoderTrace, side: &TraceSide, width: usize) -> String {
    let (title, lines): (&str, Vec<String>) = match &found.head {
        HeadOutput::Tags(classes, _) => (
            "classes of each token",
            classes.iter().map(|own| list(&own[..own.len().min(MAX_CLASSES)])).collect(),
        ),
        HeadOutput::Words(words) => (
            "words in place of each token (p: probability of the token itself)",
            words.iter().map(line).collect(),
        ),
        HeadOutput::Classes(_) | HeadOutput::Vector(_) => return String::new(),
    };
    let mut out = format!("\n{title}\n");
    let labels: Vec<String> = side.labels().iter().map(|label| visible(label)).collect();
    let margin = labels.iter().map(|label| console::measure_text_width(label)).max().unwrap_or(0);
    for (position, (label, line)) in labels.iter().zip(&lines).enumerate().take(MAX_ROWS) {
        let space = " ".repeat(margin - console::measure_text_width(label));
        let line = format!("{position:>5} {space}{label}  {line}");
        out += &format!("{}\n", console::truncate_str(line.trim_end(), width, "…"));
    }
    if labels.len() > MAX_ROWS {
        out += &format!("… {} more tokens; --out FILE.json has all\n", labels.len() - MAX_ROWS);
    }
    out
}

fn line(own: &Prediction) -> String {
    let p = own.following.as_ref().map_or(f32::NAN, |own| own.log_probability.exp());
    let others = own.alternatives.iter();
    let others: Vec<String> =
        others.map(|own| format!("{} {:.3}", visible(&own.label), own.log_probability.exp())).collect();
    format!("p {p:.4}   {}", others.join("  "))
}
