//! The terminal output of `polyhead inspect`.

use std::io::IsTerminal as _;

use anyhow::Result;
use polyhead_attention::Filter;
use polyhead_inspect::alignment::pharaoh;
use polyhead_inspect::entropy::entropy;
use polyhead_inspect::heat_map::terminal::{Colours, TerminalOptions, text};
use polyhead_inspect::label::visible;
use polyhead_inspect::selection::Selection;
use polyhead_inspect::trace::{ImageTrace, OrderTrace, Trace, TraceOutcome, TraceSide, TranslationTrace};

use super::{encoder_screen, lens, text_screen};
use crate::report::{aligned, counted, print_text};

/// Width of the output, in columns, where there is no terminal.
const WIDTH: usize = 100;
/// Maximum number of rows of a heat-map and of tokens in the list; pictures show all.
pub(super) const MAX_ROWS: usize = 60;
/// Classes of an image that are shown.
const CLASSES: usize = 5;

/// Prints the trace; `plain` is the trace of the unchanged model, where there are interventions.
pub(super) fn show(trace: &Trace, plain: Option<&Trace>, selection: &Selection) -> Result<()> {
    let stdout = std::io::stdout();
    let width = if stdout.is_terminal() { console::Term::stdout().size().1.into() } else { WIDTH };
    let options = TerminalOptions {
        width,
        most_rows: MAX_ROWS,
        colours: colours(stdout.is_terminal(), |name| std::env::var(name).ok()),
        measure: console::measure_text_width,
    };
    let mut out = summary(trace, plain);
    if !trace.sites.is_empty() {
        out += &format!("\n{}, percent\n", selection.pictured(&trace.sites)?.kind.title());
        match selection.maps(trace) {
            Ok((maps, _)) => {
                let maps = match (&trace.outcome, trace.sides.last()) {
                    (TraceOutcome::Image(image), _) => image.grids(&maps, trace.rollout()),
                    (TraceOutcome::Caption(caption), Some(written)) => caption.grids(written, &maps),
                    _ => maps,
                };
                for map in &maps {
                    out += &format!("\n{}", text(map, &options));
                }
            }
            // The rest of the output does not need the heat-maps.
            Err(reason) => out += &format!("\n{reason} (hint: {})\n", reason.hint()),
        }
    }
    if let (Some(found), Some(written)) = (trace.translation(), trace.sides.last()) {
        out += &probabilities(found, written, width);
    }
    if let (Some(found), Some(side)) = (trace.text(), trace.sides.first()) {
        out += &text_screen::predictions(found, side, width);
        out += &found.lens.as_ref().map(|layers| lens::table(layers, side, width)).unwrap_or_default();
        if let Some(all) = &found.contributions {
            all.targets.iter().for_each(|target| out += &lens::contributions(all, target, side));
        }
    }
    if let (Some(found), Some(side)) = (trace.encoder(), trace.sides.first()) {
        out += &encoder_screen::table(found, side, width);
    }
    if !trace.sites.is_empty() {
        out += &entropies(trace);
    }
    print_text(&out)
}

/// Colours that the terminal supports, by its environment variables.
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
    let mut rows: Vec<(&str, String)> = Vec::new();
    let translation = |trace: &Trace| trace.sides.last().map_or_else(String::new, |side| visible(&side.text));
    let text = |trace: &Trace, place: usize| {
        trace.sides.get(place).map_or_else(String::new, |side| visible(&side.text))
    };
    match &trace.outcome {
        TraceOutcome::Translation(found) => {
            let search = match (&found.tree, found.is_given) {
                (_, true) => "given".into(),
                (Some(tree), false) => format!("beam of {}", tree.beam_size),
                (None, false) => "greedy".into(),
            };
            rows.extend(found.route.iter().map(|route| ("languages", route.to_string())));
            let texts = trace.sides.iter().filter(|side| side.name != "target" && side.name != "sources");
            rows.extend(texts.map(|side| (side.name, visible(&side.text))));
            rows.extend([
                ("translation", translation(trace)),
                ("probability", format!("{} ({search})", scored(found))),
            ]);
            if let Some((plain, unchanged)) = plain.and_then(|plain| Some((plain, plain.translation()?))) {
                rows.push(("unchanged", translation(plain)));
                rows.push(("", scored(unchanged)));
            }
            if let Some(pairs) = trace.alignment() {
                rows.push(("alignment", pharaoh(&pairs)));
            }
        }
        TraceOutcome::Encoder(found) => {
            rows.push(("text", text(trace, 0)));
            rows.extend(encoder_screen::summary(found, &trace.sides[0], plain.and_then(Trace::encoder)));
        }
        TraceOutcome::Order(found) => {
            let list = |found: &OrderTrace| -> String {
                let each = found.order.iter().zip(&found.probabilities);
                each.map(|(point, probability)| format!("{point} {probability:.3}"))
                    .collect::<Vec<_>>()
                    .join("  ")
            };
            rows.extend([("points", text(trace, 0)), ("order", text(trace, 1)), ("indices", list(found))]);
            if let Some(TraceOutcome::Order(unchanged)) = plain.map(|plain| &plain.outcome) {
                rows.push(("unchanged", list(unchanged)));
            }
        }
        TraceOutcome::Image(found) => {
            let list = |found: &ImageTrace| {
                let each = found.classes.iter().take(CLASSES);
                let each = each.map(|class| format!("{} {:.3}", class.label, class.probability));
                each.collect::<Vec<_>>().join("  ")
            };
            let [grid_rows, columns] = found.grid;
            rows.push(("image", text(trace, 0)));
            rows.push(("patches", format!("{columns}×{grid_rows}")));
            rows.push(("classes", list(found)));
            rows.extend(plain.and_then(Trace::image).map(|found| ("unchanged", list(found))));
        }
        TraceOutcome::Text(found) => rows.extend(text_screen::summary((found, trace), plain)),
        TraceOutcome::Caption(found) => {
            let [grid_rows, columns] = found.grid;
            rows.extend([("image", text(trace, 0)), ("patches", format!("{columns}×{grid_rows}"))]);
            rows.push(("caption", visible(&found.text)));
            rows.push(("score", format!("log {:.3} per token", found.log_probability)));
        }
        TraceOutcome::Speech(found) => {
            rows.extend([("sound", format!("{:.2} s", found.seconds)), ("text", visible(&found.text))]);
            rows.push(("columns", format!("{:.2} s each", found.step)));
        }
    }
    aligned(&rows)
}

fn scored(found: &TranslationTrace) -> String {
    format!(
        "log {:.3}, {:.3} per token, {}",
        found.log_probability(),
        found.log_probability() / found.steps.len().max(1) as f64,
        counted(found.steps.len() as u64, "token")
    )
}

/// Each token with its probability and its alternatives.
fn probabilities(found: &TranslationTrace, written: &TraceSide, width: usize) -> String {
    let mut out = String::from("\nprobability of each token, and alternatives\n");
    let labels: Vec<String> = written.labels().iter().map(|label| visible(label)).collect();
    let margin = labels.iter().map(|label| console::measure_text_width(label)).max().unwrap_or(0);
    for ((label, token), step) in labels.iter().zip(&written.tokens).zip(&found.steps).take(MAX_ROWS) {
        let others = step.alternatives.iter().filter(|other| other.id != token.id);
        let others: Vec<String> = others
            .map(|other| format!("{} {:.3}", visible(&other.piece), other.log_probability.exp()))
            .collect();
        let space = " ".repeat(margin - console::measure_text_width(label));
        let line = format!("{space}{label} {:.3}  {}", step.log_probability.exp(), others.join("  "));
        out += &format!("{}\n", console::truncate_str(line.trim_end(), width, "…"));
    }
    if labels.len() > MAX_ROWS {
        out += &format!("… {} more tokens; --out FILE.json has all\n", labels.len() - MAX_ROWS);
    }
    out
}

/// Mean entropy of the attention weights of each head, in bits.
fn entropies(trace: &Trace) -> String {
    let mut out = String::from("\nentropy of each head in bits (0: all on one token; higher: spread out)\n");
    let n_heads = trace.sites.groups().iter().map(|group| group.heads.n_heads).max().unwrap_or(0);
    let heads: String = (0..n_heads).map(|head| format!("{head:>6}")).collect();
    out += &format!("{:>10}{heads}\n", "head");
    for kind in trace.sites.groups().iter().map(|group| group.kind) {
        for found in trace.selected(&Filter { kind: Some(kind), ..Filter::default() }) {
            out += &format!("{:>8}{:>2}", kind.name, found.site.layer);
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
    fn colours_depend_on_the_terminal() {
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
