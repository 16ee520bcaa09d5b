//! What `polyhead inspect` shows in the terminal.

use std::io::IsTerminal as _;

use anyhow::Result;
use polyhead_attention::{Filter, Kind};
use polyhead_inspect::alignment::pharaoh;
use polyhead_inspect::entropy::entropy;
use polyhead_inspect::export::kind_name;
use polyhead_inspect::heat_map::terminal::{Colours, TerminalOptions, text};
use polyhead_inspect::label::visible;
use polyhead_inspect::selection::{Selection, title};
use polyhead_inspect::trace::Trace;

use crate::report::{aligned, print_text};

/// Columns where there is no terminal.
const WIDTH: usize = 100;
/// The most rows of a map and tokens of the list; pictures show all.
const MOST_ROWS: usize = 60;

/// Prints everything; `plain` is the same sentence with nothing changed in the model.
pub(super) fn show(trace: &Trace, plain: Option<&Trace>, selection: &Selection) -> Result<()> {
    let stdout = std::io::stdout();
    let width = if stdout.is_terminal() { console::Term::stdout().size().1.into() } else { WIDTH };
    let options = TerminalOptions {
        width,
        most_rows: MOST_ROWS,
        colours: colours(stdout.is_terminal(), |name| std::env::var(name).ok()),
        measure: console::measure_text_width,
    };
    let mut out = summary(trace, plain);
    out += &format!("\n{}, percent\n", title(selection.pictured()));
    match selection.maps(trace) {
        Ok((maps, _)) => maps.iter().for_each(|map| out += &format!("\n{}", text(map, &options))),
        // The rest can be shown all the same.
        Err(reason) => out += &format!("\n{reason} (hint: {})\n", reason.hint()),
    }
    out += &probabilities(trace, width);
    out += &entropies(trace);
    print_text(&out)
}

/// What the terminal says that it can show.
fn colours(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Colours {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let term = set("TERM").unwrap_or_default();
    if !is_terminal || set("NO_COLOR").is_some() || term == "dumb" {
        return Colours::None;
    }
    match set("COLORTERM").as_deref() {
        Some("truecolor" | "24bit") => Colours::True,
        _ if term.contains("256color") || term.contains("direct") => Colours::Palette,
        _ => Colours::None,
    }
}

fn summary(trace: &Trace, plain: Option<&Trace>) -> String {
    let scored = |trace: &Trace| {
        format!(
            "log {:.3}, {:.3} a token, over {} tokens",
            trace.log_probability(),
            trace.log_probability() / trace.steps.len().max(1) as f64,
            trace.steps.len()
        )
    };
    let way = match (&trace.tree, trace.is_given) {
        (_, true) => "given".into(),
        (Some(tree), false) => format!("beam of {}", tree.beam_size),
        (None, false) => "greedy".into(),
    };
    let languages = trace.route.iter().map(|route| ("languages", route.to_string()));
    let mut rows: Vec<(&str, String)> = languages.collect();
    rows.extend([
        ("source", visible(&trace.source.text)),
        ("translation", visible(&trace.target.text)),
        ("probability", format!("{} ({way})", scored(trace))),
    ]);
    if let Some(plain) = plain {
        rows.push(("unchanged", visible(&plain.target.text)));
        rows.push(("", scored(plain)));
    }
    if let Some(pairs) = trace.alignment() {
        rows.push(("alignment", pharaoh(&pairs)));
    }
    aligned(&rows)
}

/// Each token with its probability, and what else was probable.
fn probabilities(trace: &Trace, width: usize) -> String {
    let mut out = String::from("\nprobability of each token, and what was probable besides\n");
    let labels: Vec<String> = trace.target.labels().iter().map(|label| visible(label)).collect();
    let margin = labels.iter().map(|label| console::measure_text_width(label)).max().unwrap_or(0);
    for ((label, token), step) in labels.iter().zip(&trace.target.tokens).zip(&trace.steps).take(MOST_ROWS) {
        let others = step.alternatives.iter().filter(|other| other.id != token.id);
        let others: Vec<String> = others
            .map(|other| format!("{} {:.3}", visible(&other.piece), other.log_probability.exp()))
            .collect();
        let space = " ".repeat(margin - console::measure_text_width(label));
        let line = format!("{space}{label} {:.3}  {}", step.log_probability.exp(), others.join("  "));
        out += &format!("{}\n", console::truncate_str(line.trim_end(), width, "…"));
    }
    if labels.len() > MOST_ROWS {
        out += &format!("… {} more tokens; --out FILE.json has all\n", labels.len() - MOST_ROWS);
    }
    out
}

/// How widely heads look.
fn entropies(trace: &Trace) -> String {
    let mut out = String::from("\nentropy of each head in bits: 0 looks at one token at a time\n");
    let n_heads = trace.config.encoder.n_heads.max(trace.config.decoder.n_heads);
    let heads: String = (0..n_heads).map(|head| format!("{head:>6}")).collect();
    out += &format!("{:>10}{heads}\n", "head");
    for kind in [Kind::EncoderSelf, Kind::DecoderSelf, Kind::Cross] {
        for found in trace.selected(&Filter { kind: Some(kind), ..Filter::default() }) {
            out += &format!("{:>8}{:>2}", kind_name(kind), found.site.layer);
            let mut next = 0;
            for (head, weights) in found.heads.iter().zip(&found.weights) {
                out += &format!("{}{:>6.2}", " ".repeat(6 * (head - next)), entropy(weights));
                next = head + 1;
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_shown_where_they_are_wanted() {
        let with = |is_terminal, variables: &[(&str, &str)]| {
            let find = |name: &str| {
                variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
            };
            colours(is_terminal, find)
        };
        assert_eq!(with(true, &[("COLORTERM", "truecolor"), ("TERM", "xterm")]), Colours::True);
        assert_eq!(with(true, &[("TERM", "xterm-256color")]), Colours::Palette);
        assert_eq!(with(true, &[("TERM", "vt100")]), Colours::None);
        assert_eq!(with(true, &[("COLORTERM", "truecolor"), ("NO_COLOR", "1")]), Colours::None);
        assert_eq!(with(true, &[("COLORTERM", "truecolor"), ("NO_COLOR", "")]), Colours::True);
        assert_eq!(with(false, &[("COLORTERM", "truecolor")]), Colours::None);
    }
}
