//! `polyhead init`: looks a corpus through and writes a recipe for it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_text::corpus::Corpus;
use polyhead_text::doctor::{CheckOptions, Report, check};
use polyhead_text::output::Output;
use polyhead_train::config;
use polyhead_train::init::{
    FEW_PAIRS, Facts, HoldOut, RecipeText, Setting, choose, guess, hold_out, relative, render, usual_count,
};

use crate::corpus_options::CorpusOptions;
use crate::report::{Failure, Misuse, grouped, note, progress};

const EXAMPLES: &str = "\
Examples:
  polyhead init --source train.en --target train.de --valid-source valid.en --valid-target valid.de --out en-de.toml
  polyhead init --tsv train.eng-tur.tsv.gz --hold-out 1000 --out en-tr.toml --run runs/en-tr
  polyhead init --jsonl pairs.jsonl --fields question,answer --from en --to en

The recipe has a reason on each line that matters; change what you know better. Without a validation set some pairs are
held out: both parts are written beside the recipe, the corpus itself is never touched.";

/// Options of `polyhead init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Init {
    #[command(flatten)]
    corpus: CorpusOptions,
    /// Source sentences to validate on (with --valid-target)
    #[arg(long, value_name = "FILE", requires = "valid_target")]
    valid_source: Option<PathBuf>,
    /// Target sentences to validate on (with --valid-source)
    #[arg(long, value_name = "FILE", requires = "valid_source")]
    valid_target: Option<PathBuf>,
    /// Pairs to validate on in a tab-separated file, columns as in the corpus
    #[arg(long, value_name = "FILE", conflicts_with_all = ["valid_source", "valid_target"])]
    valid_tsv: Option<PathBuf>,
    /// Pairs to validate on in a JSONL file, fields as in the corpus
    #[arg(long, value_name = "FILE", conflicts_with_all = ["valid_source", "valid_target", "valid_tsv"])]
    valid_jsonl: Option<PathBuf>,
    /// Pairs held out to validate on, 0 for none [default: 1 %, at least 100, at most 2000]
    #[arg(long, value_name = "N", conflicts_with_all = ["valid_source", "valid_target", "valid_tsv", "valid_jsonl"])]
    hold_out: Option<u64>,
    /// Language of the source, as in en [default: by the names of the files]
    #[arg(long, value_name = "CODE", requires = "to")]
    from: Option<String>,
    /// Language of the target, as in de [default: by the names of the files]
    #[arg(long, value_name = "CODE", requires = "from")]
    to: Option<String>,
    /// The recipe to write
    #[arg(long, short, value_name = "FILE", default_value = "config.toml")]
    out: PathBuf,
    /// The folder of the run [default: runs/NAME beside the recipe]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Replace files that are there already
    #[arg(long)]
    force: bool,
}

/// The corpus as the recipe will know it.
struct Data {
    facts: Facts,
    train: Corpus,
    /// Pairs to validate on, and how many.
    valid: Option<(Corpus, u64)>,
}

impl Init {
    pub(crate) fn run(self) -> Result<()> {
        let corpus = self.corpus.corpus()?;
        let valid = self.valid();
        for corpus in std::iter::once(&corpus).chain(&valid) {
            check_files(corpus)?;
        }
        self.may_write(&self.out)?;
        let languages = match (&self.from, &self.to) {
            (Some(from), Some(to)) => Some([from.clone(), to.clone()]),
            _ => guess(&corpus),
        };
        let facts = examine(&corpus, valid.as_ref())?;
        tell_facts(&facts, languages.as_ref());
        let data = match valid {
            Some(valid) => {
                let pairs = Facts::measure(&valid)?.pairs;
                Data { facts, train: corpus, valid: Some((valid, pairs)) }
            }
            None => self.divide(corpus, facts, languages.as_ref())?,
        };
        let settings = choose(&data.facts, data.valid.as_ref().map(|(_, pairs)| *pairs));
        tell_settings(&settings);
        self.write(&data, languages, &settings)?;
        note(&format!("\nwritten: {}", self.out.display()));
        note(&format!("next: polyhead train {}", self.out.display()));
        Ok(())
    }

    /// The validation set that was named.
    fn valid(&self) -> Option<Corpus> {
        match (&self.valid_source, &self.valid_target, &self.valid_tsv, &self.valid_jsonl) {
            (Some(source), Some(target), ..) => {
                Some(Corpus::LineFiles { source: source.clone(), target: target.clone() })
            }
            (_, _, Some(path), _) => Some(self.corpus.tsv(path.clone())),
            (_, _, _, Some(path)) => Some(self.corpus.jsonl(path.clone())),
            _ => None,
        }
    }

    /// Every file that is read.
    fn inputs(&self) -> Vec<PathBuf> {
        let corpora = self.corpus.corpus().into_iter().chain(self.valid());
        corpora
            .flat_map(|corpus| [corpus.source_path().to_owned(), corpus.target_path().to_owned()])
            .collect()
    }

    /// The folder of the recipe.
    fn folder(&self) -> &Path {
        self.out.parent().unwrap_or(Path::new(""))
    }

    /// The recipe's name without its ending.
    fn stem(&self) -> String {
        self.out.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Refuses to replace a file unless that was asked for.
    fn may_write(&self, path: &Path) -> Result<()> {
        if let Some(input) = self.inputs().into_iter().find(|input| is_same_file(input, path)) {
            return Err(Failure {
                message: format!("{}: would be replaced, expected a file that is not read", input.display()),
                hint: "name another recipe with --out: parts of the corpus are written beside it".into(),
            }
            .into());
        }
        if self.force || !path.exists() {
            return Ok(());
        }
        Err(Failure {
            message: format!("{}: is there already, expected a new file", path.display()),
            hint: "name another with --out, or replace it with --force".into(),
        }
        .into())
    }

    /// Holds pairs out of a corpus that came without a validation set.
    fn divide(&self, corpus: Corpus, facts: Facts, languages: Option<&[String; 2]>) -> Result<Data> {
        let count = self.hold_out.unwrap_or_else(|| usual_count(facts.pairs));
        if count == 0 {
            note("nothing to validate on: the run cannot tell a good model from a bad one");
            return Ok(Data { facts, train: corpus, valid: None });
        }
        let names = languages.cloned().unwrap_or_else(|| ["source".into(), "target".into()]);
        let names = if names[0] == names[1] { ["source".into(), "target".into()] } else { names };
        let files = |part: &str| {
            names.each_ref().map(|name| self.folder().join(format!("{}.{part}.{name}.gz", self.stem())))
        };
        let options = HoldOut { count, seed: 1, train: files("train"), valid: files("valid") };
        for path in options.train.iter().chain(&options.valid) {
            self.may_write(path)?;
        }
        let split = hold_out(&corpus, &options)?;
        let left_out = match split.left_out {
            0 => String::new(),
            left_out => format!("; {} left out, since their source is held out", grouped(left_out)),
        };
        note(&format!(
            "no validation set is named: {} pairs are held out for it, {} stay to learn from{left_out}",
            grouped(split.valid),
            grouped(split.train)
        ));
        let of = |[source, target]: [PathBuf; 2]| Corpus::LineFiles { source, target };
        let train = of(options.train);
        Ok(Data { facts: Facts::measure(&train)?, train, valid: Some((of(options.valid), split.valid)) })
    }

    fn write(&self, data: &Data, languages: Option<[String; 2]>, settings: &[Setting]) -> Result<()> {
        let named = |corpus: &Corpus| renamed(corpus, self.folder());
        let from_to = languages.as_ref().map_or(String::new(), |[from, to]| format!(", {from} into {to}"));
        let [source, target] = &data.facts.sides;
        let recipe = RecipeText {
            head: vec![
                format!("{} pairs{from_to}: written by polyhead init.", grouped(data.facts.pairs)),
                format!(
                    "{} source and {} target words; the longest line has {} characters.",
                    grouped(source.words),
                    grouped(target.words),
                    grouped(source.longest.max(target.longest))
                ),
                "polyhead train FILE --dump-config shows every other key with its default.".into(),
            ],
            out: match &self.run {
                Some(run) => relative(self.folder(), run),
                None => Path::new("runs").join(self.stem()),
            },
            languages,
            train: named(&data.train),
            valid: data.valid.as_ref().map(|(corpus, _)| named(corpus)),
        };
        let text = render(&recipe, settings);
        config::parse(&text, &self.out.display().to_string(), self.folder(), &[])?;
        Ok(Output::save(&self.out, text.as_bytes())?)
    }
}

/// Whether two names stand for one file that is there.
fn is_same_file(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// Files are read several times.
fn check_files(corpus: &Corpus) -> Result<()> {
    corpus.pairs()?;
    if corpus.can_be_read_twice() {
        return Ok(());
    }
    Err(Misuse {
        message: format!(
            "{}: no regular file, expected one that can be read again",
            corpus.source_path().display()
        ),
        hint: "a recipe names its corpus: write the stream into a file first".into(),
    }
    .into())
}

/// Looks the corpus through for faults, and measures it.
fn examine(corpus: &Corpus, valid: Option<&Corpus>) -> Result<Facts> {
    let bar = progress("lines checked");
    let options = CheckOptions { test: valid.cloned(), ..CheckOptions::default() };
    let report = check(corpus, &options, &mut |line| bar.set_position(line))?;
    bar.finish_and_clear();
    tell_report(&report);
    // Reading names what is wrong: unequal counts, a missing column, bytes that are no text.
    let facts = Facts::measure(corpus)?;
    if report.is_readable() {
        return Ok(facts);
    }
    Err(Failure {
        message: format!("{}: the corpus cannot be read as pairs of lines", corpus.source_path().display()),
        hint: "polyhead data check names the lines, polyhead data clean keeps the good pairs".into(),
    }
    .into())
}

fn tell_report(report: &Report) {
    let mut text = format!("{} pairs, {} without fault", grouped(report.lines), grouped(report.clean));
    for finding in &report.findings {
        text += &format!("\n    {} {}", grouped(finding.count), finding.fault.describe());
    }
    if report.source.lines != report.target.lines {
        let [source, target] = [report.source.lines, report.target.lines].map(grouped);
        text += &format!("\n    line counts differ: {source} source, {target} target");
    } else if report.drift.is_some() {
        text += "\n    the sides seem to fall out of step: see polyhead data check";
    }
    if report.is_readable() && !report.findings.is_empty() {
        text += "\n    polyhead data clean drops such pairs";
    }
    note(&text);
}

fn tell_facts(facts: &Facts, languages: Option<&[String; 2]>) {
    for (name, side) in ["source", "target"].into_iter().zip(&facts.sides) {
        let mean = side.words as f64 / facts.pairs as f64;
        note(&format!(
            "{name}: {} words ({mean:.1} a line), {} characters, the longest line {}",
            grouped(side.words),
            grouped(side.chars),
            grouped(side.longest)
        ));
    }
    match languages {
        Some([from, to]) => note(&format!("languages: {from} into {to}")),
        None => note("languages: the names of the files do not tell; name them with --from and --to"),
    }
    if facts.pairs < FEW_PAIRS {
        note(&format!(
            "warning: {} pairs are very few: a model will know them by heart and translate little else well; some ten \
             thousand are a beginning",
            grouped(facts.pairs)
        ));
    }
}

fn tell_settings(settings: &[Setting]) {
    note("\nchosen:");
    for Setting { key, value, reason } in settings.iter().filter(|setting| !setting.reason.is_empty()) {
        note(&format!("    {key} = {value}: {reason}"));
    }
}

/// The corpus as a recipe in `folder` names it.
fn renamed(corpus: &Corpus, folder: &Path) -> Corpus {
    let mut corpus = corpus.clone();
    match &mut corpus {
        Corpus::LineFiles { source, target } => {
            *source = relative(folder, source);
            *target = relative(folder, target);
        }
        Corpus::Tsv { path, .. } | Corpus::Jsonl { path, .. } => *path = relative(folder, path),
    }
    corpus
}
