//! `polyhead init`: examines a corpus and writes a recipe for it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_models::checkpoint::CheckpointLayout;
use polyhead_text::corpus::Corpus;
use polyhead_text::doctor::{CheckOptions, CheckReport, check};
use polyhead_text::output::Output;
use polyhead_train::config::{self, RunConfig};
use polyhead_train::init::{
    ChoiceOptions, CorpusStatistics, FEW_PAIRS, HoldOut, ModelUse, RecipeText, Setting, StepForecast, choose,
    default_hold_out, detected_languages, forecast_steps, hold_out, languages_from_names, relative, render,
};

use crate::commands::train::steps_text;
use crate::corpus_options::CorpusOptions;
use crate::input::shown;
use crate::option_help::{FROM, TO, with_default};
use crate::report::{Failure, Misuse, agreeing, counted, grouped, note, progress};

const EXAMPLES: &str = "\
Examples:
  polyhead init --source train.en --target train.de --out en-de.toml
  polyhead init --source train.en --target train.de --valid-source valid.en \\
      --valid-target valid.de --out en-de.toml
  polyhead init --tsv train.eng-tur.tsv.gz --hold-out 1000 --out en-tr.toml
  polyhead init --jsonl pairs.jsonl --fields question,answer --from en --to en
  polyhead init --tsv train.eng-tur.tsv.gz --for marian --out en-tr.toml

The recipe gives a reason for each setting. The steps of the run are counted with the tokeniser and the batches of the recipe; of more than 100,000 pairs, a sample is counted. Languages are those of the file names; otherwise they are detected in the text: English, German, French, Turkish and some others. Without a validation set, some pairs are held out: training and validation pairs are written to files beside the recipe, and the corpus is not changed.";

/// Options of `polyhead init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Init {
    #[command(flatten)]
    corpus: CorpusOptions,
    /// Source sentences of the validation set (with --valid-target)
    #[arg(long, value_name = "FILE", requires = "valid_target")]
    valid_source: Option<PathBuf>,
    /// Target sentences of the validation set (with --valid-source)
    #[arg(long, value_name = "FILE", requires = "valid_source")]
    valid_target: Option<PathBuf>,
    /// Validation set in a tab-separated file, with the columns of the corpus
    #[arg(long, value_name = "FILE", conflicts_with_all = ["valid_source", "valid_target"])]
    valid_tsv: Option<PathBuf>,
    /// Validation set in a JSONL file, with the fields of the corpus
    #[arg(long, value_name = "FILE", conflicts_with_all = ["valid_source", "valid_target", "valid_tsv"])]
    valid_jsonl: Option<PathBuf>,
    /// Number of pairs to hold out for validation; 0 for none [default: 1 %, at least 100, at most 2000]
    #[arg(long, value_name = "N", conflicts_with_all = ["valid_source", "valid_target", "valid_tsv", "valid_jsonl"])]
    hold_out: Option<u64>,
    #[arg(long, value_name = "LANGUAGE", requires = "to", help = with_default(FROM, FROM_FILE_NAMES))]
    from: Option<String>,
    #[arg(long, value_name = "LANGUAGE", requires = "from", help = with_default(TO, FROM_FILE_NAMES))]
    to: Option<String>,
    /// Programs that the model is for
    #[arg(long = "for", value_enum, value_name = "PROGRAM", default_value_t = Program::Polyhead)]
    program: Program,
    /// Recipe to write
    #[arg(short, long, value_name = "FILE", default_value = "config.toml")]
    out: PathBuf,
    /// Run folder of the recipe [default: runs/NAME beside the recipe]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Replace an existing recipe and its held-out pairs
    #[arg(long)]
    overwrite: bool,
}

const FROM_FILE_NAMES: &str = "from the file names, otherwise detected";

/// `--for`: the programs that load the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    /// Polyhead: the layout that learns best
    Polyhead,
    /// Also Hugging Face's Marian classes, and what reads their layout
    Marian,
}

impl Program {
    fn model_use(self) -> ModelUse {
        match self {
            Self::Polyhead => ModelUse::Polyhead,
            Self::Marian => ModelUse::Marian,
        }
    }
}

/// The languages of a corpus, and where they are from.
struct FoundLanguages {
    codes: Option<[String; 2]>,
    text: String,
}

/// The corpora of the recipe.
struct RecipeData {
    facts: CorpusStatistics,
    train: Corpus,
    /// The validation set and its number of pairs.
    valid: Option<(Corpus, u64)>,
}

impl Init {
    pub(crate) fn run(self) -> Result<()> {
        let corpus = self.corpus.corpus()?;
        let valid = self.valid()?;
        for corpus in std::iter::once(&corpus).chain(&valid) {
            check_files(corpus)?;
        }
        self.may_write(&self.out)?;
        let facts = examine(&corpus, valid.as_ref())?;
        let FoundLanguages { codes: languages, text } = self.languages(&corpus)?;
        tell_facts(&facts, &text);
        let data = match valid {
            Some(valid) => {
                let pairs = CorpusStatistics::measure(&valid)?.pairs;
                RecipeData { facts, train: corpus, valid: Some((valid, pairs)) }
            }
            None => self.divide(corpus, facts, languages.as_ref())?,
        };
        let valid = data.valid.as_ref().map(|(_, pairs)| *pairs);
        let options = ChoiceOptions { valid, steps: None, model_use: self.program.model_use() };
        let recipe = self.recipe(&data, languages);
        // The tokeniser and the batches do not depend on the number of steps.
        let (config, _) = self.render(&recipe, &choose(&data.facts, options))?;
        let forecast = count_steps(&config, data.facts.pairs)?;
        let settings = choose(&data.facts, ChoiceOptions { steps: Some(forecast.per_epoch), ..options });
        let (config, text) = self.render(&recipe, &settings)?;
        tell_settings(&settings);
        tell_layout(&config);
        note(&format!("run: {}", steps_text(&forecast)));
        Output::save(&self.out, text.as_bytes())?;
        note(&format!("\nwrote {}", self.out.display()));
        note(&format!("next: polyhead train {}", self.out.display()));
        Ok(())
    }

    /// The languages: given, those of the file names, or detected in the text.
    fn languages(&self, corpus: &Corpus) -> Result<FoundLanguages> {
        let into = |[from, to]: &[String; 2], whence: &str| format!("languages: {from} into {to}{whence}");
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            let codes = [from.clone(), to.clone()];
            return Ok(FoundLanguages { text: into(&codes, ""), codes: Some(codes) });
        }
        let detected = detected_languages(corpus)?;
        if let Some(codes) = languages_from_names(corpus) {
            let mut text = into(&codes, "");
            for (side, (named, detected)) in ["source", "target"].into_iter().zip(codes.iter().zip(&detected))
            {
                if let Some(detected) = detected.as_ref().filter(|detected| *detected != named) {
                    text += &format!(
                        "\nwarning: by its file name the {side} is {named}, but its text is {detected}"
                    );
                }
            }
            return Ok(FoundLanguages { codes: Some(codes), text });
        }
        Ok(if let [Some(from), Some(to)] = detected {
            let codes = [from, to];
            FoundLanguages { text: into(&codes, ", detected in the text"), codes: Some(codes) }
        } else {
            let text =
                "languages: neither in the file names nor clear in the text; name them with --from and --to";
            FoundLanguages { codes: None, text: text.into() }
        })
    }

    /// The validation set of the command line.
    fn valid(&self) -> Result<Option<Corpus>> {
        Ok(match (&self.valid_source, &self.valid_target, &self.valid_tsv, &self.valid_jsonl) {
            (Some(source), Some(target), ..) => {
                Some(Corpus::LineFiles { source: source.clone(), target: target.clone() })
            }
            (_, _, Some(path), _) => Some(self.corpus.tsv(path.clone())?),
            (_, _, _, Some(path)) => Some(self.corpus.jsonl(path.clone())),
            _ => None,
        })
    }

    /// All input files.
    fn inputs(&self) -> Vec<PathBuf> {
        let corpora = self.corpus.corpus().into_iter().chain(self.valid().ok().flatten());
        corpora
            .flat_map(|corpus| [corpus.source_path().to_owned(), corpus.target_path().to_owned()])
            .collect()
    }

    /// The folder of the recipe.
    fn folder(&self) -> &Path {
        self.out.parent().unwrap_or(Path::new(""))
    }

    /// The recipe's file name without its extension.
    fn stem(&self) -> String {
        self.out.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// An error if `path` is an input, or exists without `--overwrite`.
    fn may_write(&self, path: &Path) -> Result<()> {
        if let Some(input) = self.inputs().into_iter().find(|input| is_same_file(input, path)) {
            return Err(Failure {
                message: format!(
                    "{}: an input that would be replaced, expected another file",
                    input.display()
                ),
                hint: "name another recipe with --out; held-out pairs are written beside it".into(),
            }
            .into());
        }
        if self.overwrite || !path.exists() {
            return Ok(());
        }
        Err(Failure {
            message: format!("{}: already exists, expected a new file", path.display()),
            hint: "name another recipe with --out, or add --overwrite".into(),
        }
        .into())
    }

    /// Splits off a validation set where none is named.
    fn divide(
        &self,
        corpus: Corpus,
        facts: CorpusStatistics,
        languages: Option<&[String; 2]>,
    ) -> Result<RecipeData> {
        let count = self.hold_out.unwrap_or_else(|| default_hold_out(facts.pairs));
        if count == 0 {
            note("warning: no validation set: the run cannot select the best checkpoint");
            return Ok(RecipeData { facts, train: corpus, valid: None });
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
            left_out => format!("; {} dropped, since their source is held out", grouped(left_out)),
        };
        note(&format!(
            "no validation set given: {} {} held out, {} {} left for training{left_out}",
            counted(split.valid, "pair"),
            agreeing(split.valid, ["is", "are"]),
            counted(split.train, "pair"),
            agreeing(split.train, ["is", "are"])
        ));
        let of = |[source, target]: [PathBuf; 2]| Corpus::LineFiles { source, target };
        let train = of(options.train);
        Ok(RecipeData {
            facts: CorpusStatistics::measure(&train)?,
            train,
            valid: Some((of(options.valid), split.valid)),
        })
    }

    /// The recipe without its settings.
    fn recipe(&self, data: &RecipeData, languages: Option<[String; 2]>) -> RecipeText {
        let named = |corpus: &Corpus| renamed(corpus, self.folder());
        let from_to = languages.as_ref().map_or(String::new(), |[from, to]| format!(", {from} into {to}"));
        let [source, target] = &data.facts.sides;
        RecipeText {
            head: vec![
                format!("{}{from_to}: written by polyhead init.", counted(data.facts.pairs, "pair")),
                format!(
                    "{} source and {}; the longest line has {}.",
                    grouped(source.words),
                    counted(target.words, "target word"),
                    counted(source.longest.max(target.longest), "character")
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
        }
    }

    /// The recipe with its settings, resolved and as text.
    fn render(&self, recipe: &RecipeText, settings: &[Setting]) -> Result<(RunConfig, String)> {
        let text = render(recipe, settings);
        let config = config::parse(&text, &self.out.display().to_string(), self.folder(), &[])?;
        Ok((config, text))
    }
}

/// True if both paths name the same existing file.
fn is_same_file(a: &Path, b: &Path) -> bool {
    a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

/// An error if the corpus cannot be opened, or cannot be read several times.
fn check_files(corpus: &Corpus) -> Result<()> {
    corpus.pairs()?;
    if corpus.can_be_read_twice() {
        return Ok(());
    }
    Err(Misuse {
        message: format!(
            "{}: not a regular file, expected one: the recipe names it, and it is read several times",
            shown(corpus.source_path()).display()
        ),
        hint: "write the stream to a file first".into(),
    }
    .into())
}

/// Checks the corpus for problems, and measures it.
fn examine(corpus: &Corpus, valid: Option<&Corpus>) -> Result<CorpusStatistics> {
    let bar = progress("lines checked");
    let options = CheckOptions { test: valid.cloned(), ..CheckOptions::default() };
    let report = check(corpus, &options, &mut |line| bar.set_position(line))?;
    bar.finish_and_clear();
    tell_report(&report);
    // Reading fails with the exact problem: unequal counts, a missing column, invalid UTF-8.
    let facts = CorpusStatistics::measure(corpus)?;
    if report.is_readable() {
        return Ok(facts);
    }
    Err(Failure {
        message: format!("{}: the corpus cannot be read as pairs", corpus.source_path().display()),
        hint: "polyhead data check names the lines; polyhead data clean drops them".into(),
    }
    .into())
}

fn tell_report(report: &CheckReport) {
    let mut text = format!("{}, {} without problems", counted(report.lines, "pair"), grouped(report.clean));
    for finding in &report.findings {
        text += &format!("\n    {} {}", grouped(finding.count), finding.problem.describe());
    }
    if report.source.lines != report.target.lines {
        let [source, target] = [report.source.lines, report.target.lines].map(grouped);
        text += &format!("\n    line counts differ: {source} source, {target} target");
    } else if report.drift.is_some() {
        text += "\n    source and target lines seem misaligned: see polyhead data check";
    }
    if report.is_readable() && !report.findings.is_empty() {
        text += "\n    polyhead data clean drops these pairs";
    }
    note(&text);
}

/// Counts the steps of a recipe.
fn count_steps(config: &RunConfig, pairs: u64) -> Result<StepForecast> {
    let bar = progress("counting steps");
    let forecast = forecast_steps(config, pairs);
    bar.finish_and_clear();
    Ok(forecast?)
}

fn tell_layout(config: &RunConfig) {
    note(&match CheckpointLayout::fitting(&config.model) {
        CheckpointLayout::Marian => {
            "\nlayout: marian; Hugging Face's Marian classes load the finished model".to_owned()
        }
        layout => {
            format!("\nlayout: {layout}; --for marian trains a model that Hugging Face's Marian classes load")
        }
    });
}

fn tell_facts(facts: &CorpusStatistics, languages: &str) {
    for (name, side) in ["source", "target"].into_iter().zip(&facts.sides) {
        let mean = side.words as f64 / facts.pairs as f64;
        note(&format!(
            "{name}: {} ({mean:.1} per line), {}, longest line {}",
            counted(side.words, "word"),
            counted(side.chars, "character"),
            grouped(side.longest)
        ));
    }
    note(languages);
    if facts.pairs < FEW_PAIRS {
        note(&format!(
            "warning: {} {} very few: the model will memorise them and generalise badly; use ten thousand or \
             more",
            counted(facts.pairs, "pair"),
            agreeing(facts.pairs, ["is", "are"])
        ));
    }
}

fn tell_settings(settings: &[Setting]) {
    note("\nchosen:");
    for Setting { key, value, reason } in settings.iter().filter(|setting| !setting.reason.is_empty()) {
        note(&format!("    {key} = {value}: {reason}"));
    }
}

/// The corpus with paths relative to `folder`.
fn renamed(corpus: &Corpus, folder: &Path) -> Corpus {
    let mut corpus = corpus.clone();
    match &mut corpus {
        Corpus::LineFiles { source, target } => {
            *source = relative(folder, source);
            *target = relative(folder, target);
        }
        Corpus::SeveralFiles { sources, target } => {
            for path in sources.iter_mut().chain([target]) {
                *path = relative(folder, path);
            }
        }
        Corpus::Tsv { path, .. }
        | Corpus::SeveralColumns { path, .. }
        | Corpus::Csv { path, .. }
        | Corpus::Conll { path, .. }
        | Corpus::TokensJsonl { path, .. }
        | Corpus::Jsonl { path, .. }
        | Corpus::Text { path } => {
            *path = relative(folder, path);
        }
    }
    corpus
}
