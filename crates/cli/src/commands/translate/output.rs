//! Translations on standard output as lines of text or JSON; notes on standard error.

use std::collections::VecDeque;
use std::io::{BufWriter, Write as _};

use anyhow::Result;
use polyhead_translate::{Candidate, CopiedWord, Route, Translation};
use serde::Serialize;

use super::TranslationFormat;
use crate::input::LineEnd;
use crate::report::{note, writing_lines};

/// Maximum number of notes that are printed; the others are counted.
pub(super) const MAX_NOTES: usize = 20;

/// Printer of translations, and its state.
pub(super) struct Output {
    style: Style,
    /// Number of texts whose translations were printed.
    written: usize,
    notes: usize,
    /// The route that was printed last.
    route: Option<Route>,
    /// Line ends of the next texts; `\n` for the others.
    line_ends: VecDeque<LineEnd>,
}

#[derive(Clone, Copy)]
enum Style {
    Json,
    Lines { columns: Columns },
}

/// Columns of a line of text output.
#[derive(Clone, Copy)]
enum Columns {
    /// Translation.
    Text,
    /// Translation, score.
    Score,
    /// Number of the text, translation, score; a line for each of the n best.
    NBest,
}

impl Output {
    pub(super) fn new(format: TranslationFormat, scores: bool, n_best: bool) -> Self {
        let columns = match (n_best, scores) {
            (true, _) => Columns::NBest,
            (false, true) => Columns::Score,
            (false, false) => Columns::Text,
        };
        let style = match format {
            TranslationFormat::Jsonl => Style::Json,
            _ => Style::Lines { columns },
        };
        Self { style, written: 0, notes: 0, route: None, line_ends: VecDeque::new() }
    }

    /// Number of texts whose translations were printed.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Sets the line ends of the next texts.
    pub(super) fn set_line_ends(&mut self, line_ends: VecDeque<LineEnd>) {
        self.line_ends = line_ends;
    }

    /// Prints the translations of `sources` and flushes.
    pub(super) fn write(&mut self, sources: &[&str], translations: &[Translation]) -> Result<()> {
        writing_lines(|| self.write_lines(sources, translations))
    }

    fn write_lines(&mut self, sources: &[&str], translations: &[Translation]) -> Result<()> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for (source, translation) in sources.iter().zip(translations) {
            let end = self.line_ends.pop_front().unwrap_or(LineEnd::Newline).text();
            match self.style {
                Style::Json => writeln!(out, "{}", json(self.written, source, translation)?)?,
                Style::Lines { columns } => {
                    self.show_route(translation);
                    for (rank, candidate) in translation.n_best.iter().enumerate() {
                        let evidence = (rank == 0).then(|| evidence(translation)).flatten();
                        write!(out, "{}{end}", line(columns, self.written, source, candidate, evidence))?;
                    }
                    self.note(translation);
                }
            }
            self.written += 1;
        }
        Ok(out.flush()?)
    }

    /// Prints a detected or chosen route once, and again where it changes.
    fn show_route(&mut self, translation: &Translation) {
        let Some(route) = translation.route.as_ref().filter(|route| route.is_notable()) else { return };
        match &self.route {
            None => note(&route.to_string()),
            Some(shown) if shown == route => return,
            Some(_) => note(&format!("line {}: {route}", self.written + 1)),
        }
        self.route = Some(route.clone());
    }

    fn note(&mut self, translation: &Translation) {
        for warning in translation.notes.iter().filter(|note| note.is_warning()) {
            self.notes += 1;
            if self.notes <= MAX_NOTES {
                note(&format!("note: line {}: {warning}", self.written + 1));
            }
        }
    }

    /// Prints the number of notes that were not printed.
    pub(super) fn finish(&self) {
        if self.notes > MAX_NOTES {
            note(&format!("note: {} more notes; --format jsonl has all of them", self.notes - MAX_NOTES));
        }
    }
}

fn line(
    columns: Columns,
    number: usize,
    source: &str,
    candidate: &Candidate,
    evidence: Option<String>,
) -> String {
    // Each line gives one line, whatever the model outputs.
    let text = if source.contains('\n') { candidate.text.clone() } else { candidate.text.replace('\n', " ") };
    let mut line = match columns {
        Columns::Text => text,
        Columns::Score => format!("{text} ||| {:.4}", candidate.score),
        Columns::NBest => format!("{number} ||| {text} ||| {:.4}", candidate.score),
    };
    if let Some(evidence) = evidence {
        line.push_str(&format!(" ||| {evidence}"));
    }
    line
}

/// The last column: the word alignment or the copied words.
fn evidence(translation: &Translation) -> Option<String> {
    if let Some(copied) = &translation.copied {
        let word = |CopiedWord { word, source, target, .. }: &CopiedWord| match source {
            Some(source) => format!("{word} {source}-{target}"),
            None => format!("{word} -{target}"),
        };
        return Some(copied.iter().map(word).collect::<Vec<_>>().join(", "));
    }
    let pairs = translation.alignment.as_ref()?;
    let pairs: Vec<String> = pairs.iter().map(|(source, target)| format!("{source}-{target}")).collect();
    Some(pairs.join(" "))
}

#[derive(Serialize)]
struct LineJson<'a> {
    id: usize,
    #[serde(flatten)]
    route: Option<&'a Route>,
    source: &'a str,
    text: &'a str,
    score: f64,
    log_probability: f64,
    source_tokens: usize,
    tokens: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    n_best: Vec<CandidateJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alignment: Option<&'a [(usize, usize)]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copied: Option<&'a [CopiedWord]>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unsure: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<NoteJson<'a>>,
}

#[derive(Serialize)]
struct CandidateJson<'a> {
    text: &'a str,
    score: f64,
    log_probability: f64,
    tokens: usize,
}

#[derive(Serialize)]
struct NoteJson<'a> {
    #[serde(flatten)]
    note: &'a polyhead_translate::Note,
    message: String,
}

fn json(id: usize, source: &str, translation: &Translation) -> Result<String> {
    let Candidate { text, score, log_probability, tokens } = translation.best();
    let candidates = translation.n_best.iter().map(|candidate| CandidateJson {
        text: &candidate.text,
        score: candidate.score,
        log_probability: candidate.log_probability,
        tokens: candidate.tokens,
    });
    Ok(serde_json::to_string(&LineJson {
        id,
        route: translation.route.as_ref(),
        source,
        text,
        score: *score,
        log_probability: *log_probability,
        source_tokens: translation.source_tokens,
        tokens: *tokens,
        n_best: if translation.n_best.len() > 1 { candidates.collect() } else { Vec::new() },
        alignment: translation.alignment.as_deref(),
        copied: translation.copied.as_deref(),
        unsure: translation.is_unsure(),
        notes: translation.notes.iter().map(|note| NoteJson { note, message: note.to_string() }).collect(),
    })?)
}
