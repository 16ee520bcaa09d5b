//! The logit lens and the contributions to a logit in the terminal.

use polyhead_inspect::label::visible;
use polyhead_inspect::trace::TraceSide;
use polyhead_inspect::trace::text::{Contribution, Contributions, LensLayer, Prediction};
use polyhead_models::StreamPart;

use super::screen::MAX_ROWS;

/// Columns of a cell of the lens.
const CELL: usize = 9;
/// Columns of the longest bar.
const BAR: f64 = 24.0;

/// The most probable next token after each layer, and the rank of the token that follows.
pub(super) fn table(layers: &[LensLayer], side: &TraceSide, width: usize) -> String {
    let best =
        |own: &Prediction| own.alternatives.first().map_or_else(String::new, |own| visible(&own.label));
    let rank = |own: &Prediction| own.following.map_or_else(String::new, |own| own.rank.to_string());
    let mut out =
        String::from("\nlogit lens: the most probable next token after the embedding and after each layer\n");
    out += &grid(layers, side, width, best);
    out += "\nlogit lens: the rank of the token that follows\n";
    out += &grid(layers, side, width, rank);
    out
}

/// A row for each token and a column for each layer, as many columns at once as fit.
fn grid(
    layers: &[LensLayer],
    side: &TraceSide,
    width: usize,
    cell: impl Fn(&Prediction) -> String,
) -> String {
    let labels: Vec<String> = side.labels().iter().take(MAX_ROWS).map(|label| visible(label)).collect();
    let margin = labels.iter().map(|label| console::measure_text_width(label)).max().unwrap_or(0).min(16);
    let fitted = |text: &str, width: usize| {
        let text = console::truncate_str(text, width, "…").into_owned();
        format!("{}{text}", " ".repeat(width - console::measure_text_width(&text)))
    };
    let at_once = ((width.saturating_sub(margin + 6)) / (CELL + 1)).max(1);
    let mut out = String::new();
    for part in layers.chunks(at_once) {
        let name =
            |own: &LensLayer| own.layer.map_or_else(|| "embedding".into(), |layer| format!("layer {layer}"));
        let head: String = part.iter().map(|own| format!(" {}", fitted(&name(own), CELL))).collect();
        out += &format!("{:>5} {}{head}\n", "", " ".repeat(margin));
        for (position, label) in labels.iter().enumerate() {
            let cells: String = part
                .iter()
                .map(|own| format!(" {}", fitted(&cell(&own.predictions[position]), CELL)))
                .collect();
            out += &format!("{position:>5} {}{cells}\n", fitted(label, margin));
        }
    }
    if side.tokens.len() > MAX_ROWS {
        out += &format!("… {} more tokens; --out FILE.json has all\n", side.tokens.len() - MAX_ROWS);
    }
    out
}

/// What the parts add to one logit.
pub(super) fn contributions(found: &Contributions, target: &Contribution, side: &TraceSide) -> String {
    let after = visible(&side.label(target.position));
    let mut out = format!(
        "\nwhat adds to the logit of {} after position {}, {after} (scale of the final norm held fixed)\n",
        visible(&target.label),
        target.position
    );
    let most = target.values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    for ((part, value), norm) in found.parts.iter().zip(&target.values).zip(&target.norms) {
        let length = if most > 0.0 { (BAR * value.abs() / most).round() as usize } else { 0 };
        // Colour is not all that tells the signs apart.
        let bar = if *value < 0.0 { "░" } else { "█" }.repeat(length);
        let line = format!("{:<16} {value:>9.4}  norm {norm:>9.4}  {bar}", name(*part));
        out += &format!("{}\n", line.trim_end());
    }
    out + &format!("{:<16} {:>9.4}  logit {:>8.4}\n", "sum", target.sum(), target.logit)
}

fn name(part: StreamPart) -> String {
    match part {
        StreamPart::Embedding => "embedding".into(),
        StreamPart::Attention(layer) => format!("attention {layer}"),
        StreamPart::FeedForward(layer) => format!("feed-forward {layer}"),
        StreamPart::FinalNorm => "final norm, bias".into(),
    }
}
