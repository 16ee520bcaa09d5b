//! `polyhead inspect`: how a model translates or classifies one text, in the terminal or as files.

mod change;
mod files;
mod screen;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_attention::{Filter, Intervention, SiteGroup, Sites};
use polyhead_engine::Classifier;
use polyhead_inspect::selection::{Places, Selection, Unit};
use polyhead_inspect::trace::{Kept, Trace, TraceOptions};
use polyhead_models::View;
use polyhead_models::checkpoint::read_config;
use polyhead_translate::{Engine, LoadOptions};

use self::change::{Scaled, Skipped, Without};
use self::files::Form;
use crate::default_model;
use crate::model_folder::{check_folder, model_name};
use crate::report::{Failure, Misuse, grouped, note};

const EXAMPLES: &str = "\
Examples:
  polyhead inspect 'The cat ate the mouse.'
  polyhead inspect --to tr --layers 0,2 --heads all 'The cat ate the mouse.'
  polyhead inspect --to de --kind encoder --words --out it.svg 'The animal slept because it was tired.'
  polyhead inspect --model opus-mt-en-tr --target 'Kedi fareyi yedi.' --out trace.json 'The cat ate the mouse.'
  polyhead inspect --to tr --without cross:1:3 --skip encoder:0 'The cat ate the mouse.'
  polyhead inspect --model runs/ab/attention/model AABA

The sentence goes to the model whole and as it is, with the tag of the language to write, and one pass over it and its translation is looked at: the
weights are those that the translation was made with, whichever search found it. Shown are, unless --kind, --layers and
--heads say otherwise, the cross-attention that alignments are read from (last layer but one, or the last of two; mean of its heads), the
probability of each token with what the model held probable instead, and how widely every head looks (entropy in bits).

Files: .svg and .png are pictures of what would be shown; .html is a page with the views of polyhead explore that needs no
server and no network, its weights rounded to three decimals or better; .json has everything (tokens, weights,
probabilities, beam tree, rollout, alignment), .npz and .safetensors the weights as arrays `encoder`, `decoder` and `cross`,
each layers × heads × queries × keys, of all layers and heads or of those named.

A classifier has one sequence, its text, and shows the probabilities of its labels; it has no page.";

/// The most numbers of weights that are kept: 1 GB.
const MOST_NUMBERS: usize = 250_000_000;

/// Options of `polyhead inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Inspect {
    /// The text: one sentence
    #[arg(value_name = "TEXT")]
    text: String,
    /// Folder of the model: ours, of OPUS-MT and Marian, or of fairseq [default: the one that comes with the program]
    #[arg(short, long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The language of the sentence: en, eng or English [default: guessed, if the model knows several]
    #[arg(long, value_name = "LANGUAGE")]
    from: Option<String>,
    /// The language to translate into: tr, tur, Turkish or >>tur<< [default: English, of English texts Turkish]
    #[arg(long, value_name = "LANGUAGE")]
    to: Option<String>,
    /// A translation to look at instead of the model's own
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    /// Hypotheses followed; 1 is greedy [default: the model's]
    #[arg(long, value_name = "N")]
    beam: Option<usize>,
    /// What looks at what: encoder, decoder or cross, as the model has them [default: cross in pictures, all in files of numbers]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Layers, such as 0,2 or 1-3 or all [default: in pictures the one that alignments are read from]
    #[arg(long, value_name = "LIST", value_parser = places, default_value = "", hide_default_value = true)]
    layers: Places,
    /// Heads, such as 0,2 or 1-3 or all [default: in pictures their mean]
    #[arg(long, value_name = "LIST", value_parser = places, default_value = "", hide_default_value = true)]
    heads: Places,
    /// Show words instead of pieces
    #[arg(long)]
    words: bool,
    /// Most probable tokens told at each step
    #[arg(long, value_name = "N", default_value_t = 5)]
    alternatives: usize,
    /// Files instead of the terminal: .svg, .png, .html, .json, .npz, .safetensors
    #[arg(long, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// Keep queries, keys and values of the named layers and heads too, in .json
    #[arg(long)]
    vectors: bool,
    /// Switch heads off: KIND:LAYER:HEAD, or KIND:LAYER for all of an attention
    #[arg(long, value_name = "HEAD", value_parser = change::without, help_heading = "Intervening")]
    without: Vec<Without>,
    /// Multiply what a head finds: KIND:LAYER:HEAD=FACTOR
    #[arg(long, value_name = "HEAD=FACTOR", value_parser = change::scaled, help_heading = "Intervening")]
    scale: Vec<Scaled>,
    /// Skip a layer: encoder:LAYER or decoder:LAYER
    #[arg(long, value_name = "LAYER", value_parser = change::skipped, help_heading = "Intervening")]
    skip: Vec<Skipped>,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<()> {
        let forms = self.out.iter().map(|path| Form::of(path)).collect::<Result<Vec<_>>>()?;
        if self.vectors && !forms.contains(&Form::Json) {
            return Err(misuse(
                "--vectors without a .json file, expected one in --out",
                "add --out trace.json",
            ));
        }
        let folder = default_model::or(self.model.as_deref())?;
        check_folder(&folder)?;
        match read_config(&folder)?.0.view() {
            View::SequenceToSequence => self.look_at_translation(&folder, &forms),
            View::Encoder => self.look_at_classes(&folder, &forms),
        }
    }

    fn look_at_translation(&self, folder: &Path, forms: &[Form]) -> Result<()> {
        let engine = Engine::load(folder, &LoadOptions::default())?;
        let (sites, max_len) = (engine.model().sites(), engine.model().max_len());
        let (selection, intervention) = self.meant(&sites)?;
        let options = TraceOptions {
            from: self.from.clone(),
            to: self.to.clone(),
            target: self.target.clone(),
            beam_size: self.beam,
            n_alternatives: self.alternatives,
            filter: self.kept(&engine, &selection)?,
            vectors: if self.vectors || forms.contains(&Form::Html) { Kept::Yes } else { Kept::No },
            intervention,
            ..TraceOptions::default()
        };
        let trace = Trace::new(&engine, &self.text, &options)?;
        if let Some(side) = trace.sides.first().filter(|side| side.tokens.len() > max_len) {
            note(&format!(
                "note: {} {} tokens, more than the {max_len} that the model is made for",
                grouped(side.tokens.len() as u64),
                side.name,
            ));
        }
        // Beside what was changed stands what was not.
        let plain = || {
            let filter = Filter { layers: Some(Vec::new()), ..Filter::default() };
            let intervention = Intervention::default();
            let options = TraceOptions { filter, intervention, ..options.clone() };
            Ok(Trace::new(&engine, &self.text, &options)?)
        };
        self.show(trace, plain, forms, (&selection, folder))
    }

    fn look_at_classes(&self, folder: &Path, forms: &[Form]) -> Result<()> {
        if forms.contains(&Form::Html) {
            return Err(misuse(
                "a page of a classifier, expected a picture or a file of numbers",
                "write .svg, .png, .json, .npz or .safetensors",
            ));
        }
        let for_translation = [
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--target", self.target.is_some()),
            ("--beam", self.beam.is_some()),
        ];
        if let Some((name, _)) = for_translation.into_iter().find(|(_, is_given)| *is_given) {
            let message = format!("{name} with a classifier, expected a model that translates");
            return Err(misuse(&message, "leave it out"));
        }
        let classifier = Classifier::load(folder, &polyhead_engine::LoadOptions::default())?;
        let sites = classifier.model().sites();
        if sites.is_empty() {
            let message =
                format!("{}: a model without attention, expected some to look at", folder.display());
            let hint = "polyhead classify uses it; polyhead info tells what it is".into();
            return Err(Failure { message, hint }.into());
        }
        let (selection, intervention) = self.meant(&sites)?;
        let look = |filter: &Filter, intervention: &Intervention| {
            Ok(Trace::of_classes(&classifier, &self.text, filter, intervention)?)
        };
        let trace = look(&Filter::default(), &intervention)?;
        let nothing = Filter { layers: Some(Vec::new()), ..Filter::default() };
        self.show(trace, || look(&nothing, &Intervention::default()), forms, (&selection, folder))
    }

    /// What is asked for, checked against the attentions of the model.
    fn meant(&self, sites: &Sites) -> Result<(Selection, Intervention)> {
        let selection = Selection {
            kind: self.kind.as_deref().map(|name| change::kind(sites, name)).transpose()?,
            layers: self.layers.clone(),
            heads: self.heads.clone(),
            unit: if self.words { Unit::Words } else { Unit::Tokens },
        };
        selection.check(sites)?;
        let changed = change::intervention(sites, &self.without, &self.scale, &self.skip)?;
        Ok((selection, changed))
    }

    /// Writes the files, or shows the trace in the terminal beside the unchanged model's.
    fn show(
        &self,
        mut trace: Trace,
        plain: impl FnOnce() -> Result<Trace>,
        forms: &[Form],
        (selection, folder): (&Selection, &Path),
    ) -> Result<()> {
        let name = model_name(folder);
        let (pages, others): (Vec<_>, Vec<_>) =
            self.out.iter().zip(forms.iter().copied()).partition(|(_, form)| *form == Form::Html);
        let write = |files: Vec<(&PathBuf, Form)>, trace: &Trace| {
            for (path, form) in files {
                form.write(path, trace, selection, &name)?;
                note(&format!("wrote {}", path.display()));
            }
            Ok::<(), anyhow::Error>(())
        };
        write(pages, &trace)?;
        if !self.vectors {
            // Pages have them where they fit, other files where they are asked for.
            trace.vectors.clear();
        }
        write(others, &trace)?;
        if self.out.is_empty() {
            let plain = if trace.intervention.is_empty() { None } else { Some(plain()?) };
            screen::show(&trace, plain.as_ref(), selection)?;
        }
        Ok(())
    }

    /// All attention if it is not too much, else what is meant.
    fn kept(&self, engine: &Engine, selection: &Selection) -> Result<Filter> {
        let source = engine.encode_source(&self.text, self.from.as_deref(), self.to.as_deref())?.0.len();
        let target = match &self.target {
            Some(target) => engine.encode_target(target)?.len(),
            // A guess: nobody knows before.
            None => source.min(engine.generation().max_length),
        };
        let sites = engine.model().sites();
        let lengths = |side: &str| if side == "source" { source } else { target };
        let numbers = |filter: &Filter| numbers(&sites, lengths, filter);
        if !self.vectors && numbers(&Filter::default()) <= MOST_NUMBERS {
            return Ok(Filter::default());
        }
        let filter = selection.filter();
        let count = numbers(&filter);
        if count > MOST_NUMBERS {
            return Err(misuse(
                &format!(
                    "{} attention weights of {} source tokens, expected at most {}",
                    grouped(count as u64),
                    grouped(source as u64),
                    grouped(MOST_NUMBERS as u64)
                ),
                "choose fewer with --kind, --layers and --heads",
            ));
        }
        Ok(filter)
    }
}

/// How many weights a filter lets through, for sequences of these lengths.
fn numbers(sites: &Sites, length: impl Fn(&str) -> usize, filter: &Filter) -> usize {
    let count =
        |chosen: &Option<Vec<usize>>, n: usize| chosen.as_ref().map_or(n, |chosen| chosen.len().min(n));
    let groups = sites.groups().iter().filter(|group| filter.kind.is_none_or(|kind| kind == group.kind));
    groups
        .map(|SiteGroup { kind, n_layers, heads }| {
            let size = length(kind.queries) * length(kind.keys);
            count(&filter.layers, *n_layers) * count(&filter.heads, heads.n_heads) * size
        })
        .sum()
}

/// `0,2`, `1-3`, `all`, or nothing.
fn places(text: &str) -> Result<Places, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<usize>()
            .map_err(|_| format!("{text:?}, expected numbers such as 0,2 or 1-3, or all"))
    };
    match text.trim() {
        "" => return Ok(Places::Unsaid),
        "all" => return Ok(Places::All),
        _ => {}
    }
    let mut places = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= 1024 {
            return Err(format!("{part:?}, expected a range such as 1-3"));
        }
        places.extend(first..=last);
    }
    places.sort_unstable();
    places.dedup();
    Ok(Places::Some(places))
}

fn misuse(message: &str, hint: &str) -> anyhow::Error {
    Misuse { message: message.into(), hint: hint.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lists_and_ranges() {
        assert_eq!(places("0,2-4,3"), Ok(Places::Some(vec![0, 2, 3, 4])));
        assert_eq!([places("all"), places("")], [Ok(Places::All), Ok(Places::Unsaid)]);
        for wrong in ["x", "3-1", "1,", "-1", "0-99999"] {
            assert!(places(wrong).is_err(), "{wrong}");
        }
    }
}
