//! `polyhead evaluate`: translates a test set and scores the result.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_text::Error;
use polyhead_text::corpus::Corpus;
use polyhead_text::metrics::tokenize::trim_end;
use polyhead_text::metrics::{
    Bleu, BleuOptions, Chrf, Metric, SequenceErrorRate, Statistics, Ter, Tokenization, signature,
};
use polyhead_text::output::Output;
use polyhead_translate::{LanguageDetection, TranslateOptions};
use serde::Serialize;

use crate::bleu_tokenization::BleuTokenization;
use crate::decode_options::DecodeOptions;
use crate::input::shown;
use crate::line_progress::LineProgress;
use crate::output_format::DocumentFormat;
use crate::report::{
    Misuse, agreeing, counted, note, note_when_interrupted, print_json, print_text, thread_pool,
    writing_lines,
};
use crate::window::Window;

const EXAMPLES: &str = "\
Examples:
  polyhead evaluate --from en --to tr --source test.en --reference test.tr
  polyhead evaluate -m en-tr --source test.en --reference test.tr --device cuda
  polyhead evaluate -m en-tr --tsv test.tsv.gz --beam 1 --dtype int8 \\
      --out translated.tr --format json
  polyhead evaluate -m runs/cmudict/model --tsv cmudict-test.tsv --any-reference

The scores are BLEU, chrF, TER and SER (sequence error rate: the share of lines that equal no reference), as computed by polyhead score. The time is that of translating, without loading the model. Translations are written to FILE.partial as soon as they are done, and renamed to the FILE of --out at the end; Ctrl-C keeps them.";

/// Options of `polyhead evaluate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Evaluate {
    #[command(flatten)]
    decode: DecodeOptions,
    /// Source sentences, one per line; - is standard input
    #[arg(long, value_name = "FILE", requires = "reference")]
    source: Option<PathBuf>,
    /// Reference translations, one per line
    #[arg(long, value_name = "FILE", requires = "source")]
    reference: Option<PathBuf>,
    /// Sources and references in a tab-separated file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["source", "reference"])]
    tsv: Option<PathBuf>,
    /// Treat lines with the same source as alternative references of one sentence
    #[arg(long)]
    any_reference: bool,
    #[command(flatten)]
    tokenize: BleuTokenization,
    /// Write the translations to this file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    format: DocumentFormat,
}

/// The result as it is printed.
#[derive(Serialize)]
struct EvaluationReport {
    lines: usize,
    seconds: f64,
    tokens: u64,
    tokens_per_s: f64,
    lines_with_notes: usize,
    metrics: Vec<MetricJson>,
}

#[derive(Serialize)]
struct MetricJson {
    name: String,
    score: f64,
    signature: String,
}

impl Evaluate {
    pub(crate) fn run(self) -> Result<()> {
        self.check_out()?;
        let tokenization = self.tokenize.tokenization()?;
        let mut options =
            TranslateOptions { detection: LanguageDetection::InOrder, ..self.decode.options()? };
        let pool = thread_pool(self.decode.threads)?;
        let engine = pool.install(|| self.decode.engine())?;
        let (sources, references) = self.read(engine.model().n_sources())?;
        let mut progress = LineProgress::new(Some(sources.len() as u64));
        let mut out = self.out.as_ref().map(Output::create_partial).transpose()?;
        let mut window = Window::for_device(&engine.device(), pool.current_num_threads());
        let mut routes: BTreeMap<String, usize> = BTreeMap::new();
        let mut report = EvaluationReport {
            lines: sources.len(),
            seconds: 0.0,
            tokens: 0,
            tokens_per_s: 0.0,
            lines_with_notes: 0,
            metrics: vec![],
        };
        let mut hypotheses = Vec::with_capacity(sources.len());
        let mut rest = sources.as_slice();
        while !rest.is_empty() {
            let (start, tokens) = (Instant::now(), report.tokens);
            let chunk;
            (chunk, rest) = rest.split_at(window.lines().min(rest.len()));
            let texts: Vec<&str> = chunk.iter().map(String::as_str).collect();
            let found = pool.install(|| engine.translate(&texts, &options))?;
            options.follow(&texts);
            for translation in found {
                if let Some(route) = translation.route.as_ref().filter(|route| route.is_notable()) {
                    *routes.entry(route.to_string()).or_default() += 1;
                }
                report.tokens += translation.best().tokens as u64;
                report.lines_with_notes +=
                    usize::from(translation.notes.iter().any(polyhead_translate::Note::is_warning));
                hypotheses.push(translation.text().replace('\n', " "));
            }
            let done = &hypotheses[hypotheses.len() - chunk.len()..];
            writing_lines(|| write_lines(out.as_mut(), done))?;
            progress.add(chunk.len() as u64, report.tokens - tokens);
            if let Some(path) = out.as_ref().and_then(Output::partial_path) {
                let done = hypotheses.len() as u64;
                let lines = format!("{} {}", counted(done, "line"), agreeing(done, ["is", "are"]));
                note_when_interrupted(format!("interrupted: {lines} in {}", path.display()));
            }
            window.took(chunk.len(), start.elapsed());
        }
        progress.finish();
        for (route, lines) in routes {
            note(&format!("{} {route}", counted(lines as u64, "line")));
        }
        report.seconds = progress.seconds();
        report.tokens_per_s = report.tokens as f64 / report.seconds;
        if let Some(out) = out {
            out.finish()?;
        }
        report.metrics = pool.install(|| scores(tokenization, &hypotheses, &references))?;
        self.print(&report)
    }

    /// An error if the translations would replace the test set.
    fn check_out(&self) -> Result<()> {
        let Some(out) = self.out.as_ref().and_then(|out| out.canonicalize().ok()) else { return Ok(()) };
        let inputs = [&self.source, &self.reference, &self.tsv].into_iter().flatten();
        if inputs.filter_map(|input| input.canonicalize().ok()).any(|input| input == out) {
            return Err(Misuse {
                message: format!("--out {} is the test set, expected another file", out.display()),
                hint: "write the translations to a new file".into(),
            }
            .into());
        }
        Ok(())
    }

    /// Sources, and lists of references, each as long as the sources.
    fn read(&self, n_sources: usize) -> Result<(Vec<String>, Vec<Vec<String>>)> {
        let corpus = match (&self.source, &self.reference, &self.tsv) {
            (Some(source), Some(target), _) => {
                Corpus::LineFiles { source: source.clone(), target: target.clone() }
            }
            (_, _, Some(path)) if n_sources > 1 => Corpus::SeveralColumns {
                path: path.clone(),
                source_columns: (0..n_sources).collect(),
                target_column: n_sources,
            },
            (_, _, Some(path)) => Corpus::Tsv { path: path.clone(), source_column: 0, target_column: 1 },
            _ => {
                return Err(Misuse {
                    message: "no test set, expected --source and --reference, or --tsv".into(),
                    hint: "for example: --source test.en --reference test.tr".into(),
                }
                .into());
            }
        };
        let mut pairs = corpus.pairs()?;
        let (mut sources, mut references) = (Vec::new(), Vec::new());
        while let Some(pair) = pairs.next_pair()? {
            sources.push(pair.source.to_owned());
            references.push(trim_end(pair.target).to_owned());
        }
        if sources.is_empty() {
            return Err(Error::Empty { what: shown(corpus.source_path()).display().to_string() }.into());
        }
        Ok(if self.any_reference { grouped(sources, references) } else { (sources, vec![references]) })
    }

    fn print(&self, report: &EvaluationReport) -> Result<()> {
        if self.format.is_json() {
            return print_json(report);
        }
        let scores = report.metrics.iter().map(|metric| format!("{:<6}  {:.2}\n", metric.name, metric.score));
        let signatures =
            report.metrics.iter().map(|metric| format!("{}|{}\n", metric.name, metric.signature));
        let EvaluationReport { lines, seconds, tokens, tokens_per_s, lines_with_notes, .. } = report;
        let speed = format!(
            "\n{}, {} in {seconds:.2} s ({tokens_per_s:.0} tokens/s)\n\n",
            counted(*lines as u64, "line"),
            counted(*tokens, "token")
        );
        if *lines_with_notes > 0 {
            note(&format!(
                "note: {} {} notes; polyhead translate --format jsonl shows them",
                counted(*lines_with_notes as u64, "line"),
                agreeing(*lines_with_notes as u64, ["has", "have"])
            ));
        }
        print_text(&scores.chain([speed]).chain(signatures).collect::<String>())
    }
}

fn scores(
    tokenization: Tokenization,
    hypotheses: &[String],
    references: &[Vec<String>],
) -> Result<Vec<MetricJson>> {
    let bleu = Bleu::new(BleuOptions { tokenization, ..BleuOptions::default() });
    let errors = SequenceErrorRate::default();
    let metrics: [Box<dyn Metric>; 4] =
        [Box::new(bleu), Box::new(Chrf::default()), Box::new(Ter::default()), Box::new(errors)];
    let hypotheses: Vec<&str> = hypotheses.iter().map(|line| trim_end(line)).collect();
    metrics
        .iter()
        .map(|metric| {
            let score = Statistics::collect(metric.as_ref(), &hypotheses, references)?.score(metric.as_ref());
            Ok(MetricJson {
                name: metric.name(),
                score,
                signature: signature(metric.as_ref(), references.len(), None),
            })
        })
        .collect()
}

/// Writes lines, so that they are in the file at once.
fn write_lines(out: Option<&mut Output>, lines: &[String]) -> Result<()> {
    let Some(out) = out else { return Ok(()) };
    lines.iter().try_for_each(|line| out.write_line(line))?;
    Ok(out.flush()?)
}

/// Every distinct source once, with its references in n lists, n being the largest number of references of a source.
/// Shorter lists are padded with the first reference, which changes no score.
fn grouped(sources: Vec<String>, references: Vec<String>) -> (Vec<String>, Vec<Vec<String>>) {
    let mut places: HashMap<String, usize> = HashMap::new();
    let (mut distinct, mut all): (Vec<String>, Vec<Vec<String>>) = (Vec::new(), Vec::new());
    for (source, reference) in sources.into_iter().zip(references) {
        let place = *places.entry(source).or_insert_with_key(|source| {
            distinct.push(source.clone());
            all.push(Vec::new());
            distinct.len() - 1
        });
        all[place].push(reference);
    }
    let most = all.iter().map(Vec::len).max().unwrap_or(0);
    let list = |index: usize| all.iter().map(|own| own.get(index).unwrap_or(&own[0]).clone()).collect();
    (distinct, (0..most).map(list).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_the_same_source_become_its_references() {
        let text = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let (sources, references) = grouped(text(&["a", "b", "a"]), text(&["1", "2", "3"]));
        assert_eq!(sources, ["a", "b"]);
        assert_eq!(references, [["1", "2"], ["3", "2"]]);
    }
}
