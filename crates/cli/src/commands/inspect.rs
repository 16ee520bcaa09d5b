//! `polyhead inspect`: attention, probabilities and search of one text, in the terminal or as files.

mod change;
mod compare;
mod encoder;
mod encoder_screen;
mod files;
mod image;
mod language_model;
mod lens;
mod screen;
mod text_screen;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::{Filter, Intervention, SiteGroup, Sites};
use polyhead_engine::point::PointRow;
use polyhead_engine::speech::{MOST_SECONDS, TranscribeOptions, wav};
use polyhead_engine::{PointEngine, SpeechEngine};
use polyhead_inspect::selection::{Granularity, IndexSelection, Selection};
use polyhead_inspect::trace::{CaptureVectors, Trace, TraceOptions};
use polyhead_models::View;
use polyhead_models::checkpoint::read_config;
use polyhead_models::pointer::SearchOptions;
use polyhead_translate::{Engine, LoadOptions};

use self::change::{HeadRemoval, HeadScale, LayerSkip};
use self::files::TraceFormat;
use self::image::ImageArgument;
use self::language_model::LanguageModelOptions;
use crate::default_model;
use crate::input::joined_sources;
use crate::model_folder::{check_folder, model_name, report_loaded, view};
use crate::option_help::{DETECTED, ENGLISH_OR_TURKISH, FROM, MODEL, TO, with_default};
use crate::report::{Misuse, grouped, note};

const EXAMPLES: &str = "\
Examples:
  polyhead inspect 'The cat ate the mouse.'
  polyhead inspect --to tr --layers 0,2 --heads all 'The cat ate the mouse.'
  polyhead inspect --to de --kind encoder --words --out it.svg \\
      'The animal slept because it was tired.'
  polyhead inspect -m en-tr --target 'Kedi fareyi yedi.' --out trace.json \\
      'The cat ate the mouse.'
  polyhead inspect --to tr --without cross:1:3 --skip encoder:0 'The cat'
  polyhead inspect -m runs/ab/attention/model AABA
  polyhead inspect -m bert-base-uncased --heads all 'The [MASK] ate the mouse.'
  polyhead inspect -m MiniLM --compare bank 'I bank only at my local bank.'
  polyhead inspect -m all-MiniLM-L6-v2 --compare bank --out bank.svg \\
      'the bank of the river' 'a bank account' 'the bank lends money'
  polyhead inspect -m deit-tiny --image cat.jpg --heads all --out cat.svg
  polyhead inspect -m runs/pointer/sort/model '{\"numbers\": [42, 7, 99]}'
  polyhead inspect -m whisper-tiny --out heard.svg talk.wav
  polyhead inspect -m runs/sources/model --out a.svg 'Das Haus.' 'La maison.'
  polyhead inspect -m gpt2 --generate 5 --lens 'The cat sat on the'
  polyhead inspect -m gpt2 --contributions=last:Ġmat 'The cat sat on the'

The text is passed to the model as one sentence, with the tag of the target language. The attention weights are those of one forward pass over the text and its translation. By default the terminal shows the cross-attention that alignments are read from (the second-last layer, or the last of two; mean over heads), the probability of each token with its alternatives, and the entropy of every head in bits.

Files: .svg and .png are pictures of the selection; .html is a page with the views of polyhead explore that needs no server and no network (weights rounded to three decimals or better); .json has tokens, weights, probabilities, beam tree, rollout and alignment; .npz and .safetensors have the weights as arrays `encoder`, `decoder` and `cross` of shape layers × heads × queries × keys, for all layers and heads or the selected ones.

A language model shows the attention over the text so far, and for each token its probability, rank and surprisal (−log₂ p, in bits) given those before it, with the most probable tokens; the last line is what comes next, the distribution that polyhead generate draws from. Position t reads token t and predicts token t + 1. Files .json and .html have the logit lens and the contributions of all positions. With interventions, the distribution after the text is shown beside the unchanged one.

An encoder shows the attention over its text and what its head computes: classes, entities, words in place of masks, or, without a head, the vector of the text. Files .npz and .safetensors also have `hidden_states`: the states of the tokens after the embedding and each layer. A pointer network reads a line of JSON, as polyhead point does; with the key \"order\" that answer is inspected. A speech recogniser reads a WAV file, whose name is the text, and shows which part of the sound each token attends to; files are the same, .html among them.

An image classifier reads --image. A file .html has the views of polyhead explore; .svg and .png show the image, the attention rollout, and what the class token attends to in the selected heads: bright patches have large weights. The tokens of other files are the class token and the patches, row by row. A captioner reads --image, too: .svg and .png show the image once for each word of its caption, with the patches that the word attends to (the mean of the heads of the last layer, or those that --layers and --heads select).

--compare compares the vectors that a word has in its contexts, in one text or several, by the cosine of each pair after each layer; it works with encoders, translators (their encoder) and language models. An occurrence of several tokens has the mean of their vectors. The cosines of other tokens are shown beside them, because vectors of different words are similar, too. Files: .svg and .png show the vectors of all tokens in the plane (principal components) in the first and the last layer, or those of --layers; .html shows every layer; .json has all numbers.";

/// Maximum number of attention weights that are captured: 1 GB.
const MAX_WEIGHTS: usize = 250_000_000;

/// Options of `polyhead inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Inspect {
    /// Text to inspect: one sentence, for a model of several sources one each; for a language model any text; with --compare one
    /// or several
    #[arg(value_name = "TEXT", required_unless_present = "image")]
    texts: Vec<String>,
    #[arg(short, long, value_name = "DIR", help = MODEL)]
    model: Option<PathBuf>,
    #[arg(long, value_name = "LANGUAGE", help = with_default(FROM, DETECTED))]
    from: Option<String>,
    #[arg(long, value_name = "LANGUAGE", help = with_default(TO, ENGLISH_OR_TURKISH))]
    to: Option<String>,
    /// Translation to inspect instead of the model's own (forced decoding)
    #[arg(long, value_name = "TEXT")]
    target: Option<String>,
    /// Beam size; 1 is greedy search [default: the model's]
    #[arg(long, value_name = "N")]
    beam: Option<usize>,
    /// Attention to show: encoder, decoder or cross [default: cross in pictures, all in .json, .npz and .safetensors]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Layers, such as 0,2 or 1-3 or all [default: in pictures, the alignment layer]
    #[arg(long, value_name = "LIST", value_parser = indices, default_value = "", hide_default_value = true)]
    layers: IndexSelection,
    /// Heads, such as 0,2 or 1-3 or all [default: in pictures, their mean]
    #[arg(long, value_name = "LIST", value_parser = indices, default_value = "", hide_default_value = true)]
    heads: IndexSelection,
    /// Show words instead of tokens
    #[arg(long)]
    words: bool,
    /// Number of most probable tokens shown at each step
    #[arg(long, value_name = "N", default_value_t = 5)]
    alternatives: usize,
    /// Write files instead: .svg, .png, .html, .json, .npz, .safetensors; repeatable
    #[arg(short, long, value_name = "FILE")]
    out: Vec<PathBuf>,
    /// Also write queries, keys and values of the selection to .json
    #[arg(long)]
    vectors: bool,
    /// Switch off a head, KIND:LAYER:HEAD, or all heads of a layer, KIND:LAYER
    #[arg(long, value_name = "HEAD", value_parser = change::removal, help_heading = "Interventions")]
    without: Vec<HeadRemoval>,
    /// Scale the output of a head: KIND:LAYER:HEAD=FACTOR
    #[arg(long, value_name = "HEAD=FACTOR", value_parser = change::scale, help_heading = "Interventions")]
    scale: Vec<HeadScale>,
    /// Skip a layer: encoder:LAYER or decoder:LAYER
    #[arg(long, value_name = "LAYER", value_parser = change::skip, help_heading = "Interventions")]
    skip: Vec<LayerSkip>,
    /// Compare the vectors of a word in its contexts; repeatable
    #[arg(long, value_name = "WORD", help_heading = "Encoders")]
    compare: Vec<String>,
    /// Cut off the end of a text that is too long for the model, with a note [default: it is an error]
    #[arg(long, help_heading = "Encoders")]
    truncate: bool,
    #[command(flatten)]
    image: ImageArgument,
    #[command(flatten)]
    language_model: LanguageModelOptions,
}

impl Inspect {
    pub(crate) fn run(mut self) -> Result<()> {
        let formats = self.out.iter().map(|path| TraceFormat::of(path)).collect::<Result<Vec<_>>>()?;
        if self.vectors && !formats.contains(&TraceFormat::Json) {
            return Err(misuse(
                "--vectors without a .json file, expected one in --out",
                "add --out trace.json",
            ));
        }
        let folder = default_model::or(self.model.as_deref())?;
        check_folder(&folder)?;
        let view = view(&folder)?;
        if matches!(view, View::Image | View::Caption) || self.image.is_given() {
            return self.inspect_image((&folder, view), &formats);
        }
        if !self.compare.is_empty() {
            return self.compare_words(&folder, view, &formats);
        }
        if view == View::SequenceToSequence {
            let n_sources = read_config(&folder)?.0.n_sources();
            self.texts = joined_sources(std::mem::take(&mut self.texts), n_sources);
        }
        if self.texts.len() > 1 {
            let message = format!("{} texts, expected one", self.texts.len());
            return Err(misuse(
                &message,
                "quote a text with spaces; --compare compares a word in several texts",
            ));
        }
        if self.truncate && view != View::Encoder {
            return Err(misuse("--truncate, expected an encoder or --compare", "leave it out"));
        }
        match view {
            View::SequenceToSequence => {
                self.language_model.refuse("a translator")?;
                self.inspect_translation(&folder, &formats)
            }
            View::Encoder => self.inspect_encoder(&folder, &formats),
            View::LanguageModel => self.inspect_text(&folder, &formats),
            View::Pointer => self.inspect_order(&folder, &formats),
            View::Image | View::Caption => self.inspect_image((&folder, view), &formats),
            View::Speech => self.inspect_speech(&folder, &formats),
        }
    }

    fn inspect_translation(&self, folder: &Path, formats: &[TraceFormat]) -> Result<()> {
        let start = Instant::now();
        let engine = Engine::load(folder, &LoadOptions::default())?;
        report_loaded(folder, &engine.device(), "f32", start);
        let (sites, max_len) = (engine.model().sites(), engine.model().max_len());
        let (selection, intervention) = self.selection(&sites)?;
        let options = TraceOptions {
            from: self.from.clone(),
            to: self.to.clone(),
            target: self.target.clone(),
            beam_size: self.beam,
            n_alternatives: self.alternatives,
            filter: self.captured(&engine, &selection)?,
            vectors: if self.vectors || formats.contains(&TraceFormat::Html) {
                CaptureVectors::Yes
            } else {
                CaptureVectors::No
            },
            intervention,
            ..TraceOptions::default()
        };
        let trace = Trace::new(&engine, self.text(), &options)?;
        if let Some(side) = trace.sides.first().filter(|side| side.tokens.len() > max_len) {
            note(&format!(
                "note: {} {} tokens, more than the model's maximum of {max_len}",
                grouped(side.tokens.len() as u64),
                side.name,
            ));
        }
        // The unchanged model, for comparison.
        let plain = || {
            let filter = Filter { layers: Some(Vec::new()), ..Filter::default() };
            let intervention = Intervention::default();
            let options = TraceOptions { filter, intervention, ..options.clone() };
            Ok(Trace::new(&engine, self.text(), &options)?)
        };
        self.show(trace, plain, formats, (&selection, folder))
    }

    /// The text to inspect.
    fn text(&self) -> &str {
        &self.texts[0]
    }

    fn inspect_order(&self, folder: &Path, formats: &[TraceFormat]) -> Result<()> {
        self.refuse_page("a pointer network", formats)?;
        self.refuse_translation("a pointer network")?;
        let start = Instant::now();
        let engine = PointEngine::load(folder, &polyhead_engine::LoadOptions::default())?;
        report_loaded(folder, &engine.parameters().device(), "f32", start);
        let row = PointRow::parse(self.text(), "TEXT")?;
        let (selection, intervention) = self.selection(&engine.sites())?;
        let search = SearchOptions { beam_size: self.beam.unwrap_or(1) };
        let traced = |filter: &Filter, intervention: &Intervention| {
            Ok(Trace::of_order(&engine, &row, search, (filter, intervention))?)
        };
        let trace = traced(&Filter::default(), &intervention)?;
        let nothing = Filter { layers: Some(Vec::new()), ..Filter::default() };
        self.show(trace, || traced(&nothing, &Intervention::default()), formats, (&selection, folder))
    }

    /// The cross-attention of a sound: TEXT is the path of a WAV file.
    fn inspect_speech(&self, folder: &Path, formats: &[TraceFormat]) -> Result<()> {
        const WHAT: &str = "a speech recogniser";
        self.language_model.refuse(WHAT)?;
        self.refuse_translation(WHAT)?;
        let start = Instant::now();
        let engine = SpeechEngine::load(folder, &polyhead_engine::LoadOptions::default())?;
        report_loaded(folder, &engine.parameters().device(), "f32", start);
        let sound = wav::read(Path::new(self.text()), MOST_SECONDS)?;
        let selection = self.plain_selection(engine.model().decoder().cross_attention(), View::Speech)?;
        let (samples, notes) = engine.samples(&sound);
        for text in notes {
            note(&format!("note: {text}"));
        }
        let options = TranscribeOptions { beam_size: self.beam, ..TranscribeOptions::default() };
        let traced = || Ok(Trace::of_speech(&engine, &samples, &options)?);
        self.show(traced()?, traced, formats, (&selection, folder))
    }

    /// Refuses pages and options that this kind of model does not have.
    fn refuse_page(&self, what: &str, formats: &[TraceFormat]) -> Result<()> {
        if formats.contains(&TraceFormat::Html) {
            let message =
                format!("an .html page of {what}, expected .svg, .png, .json, .npz or .safetensors");
            return Err(misuse(&message, "write .svg for a picture"));
        }
        self.language_model.refuse(what)
    }

    /// Refuses options that only translations have.
    fn refuse_translation(&self, what: &str) -> Result<()> {
        let given = [
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--target", self.target.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("{name} with {what}, expected a model that translates");
                Err(misuse(&message, "leave it out"))
            }
        }
    }

    /// The selected attention and the interventions, checked against the attention sites of the model.
    fn selection(&self, sites: &Sites) -> Result<(Selection, Intervention)> {
        let selection = Selection {
            kind: self.kind.as_deref().map(|name| change::kind(sites, name)).transpose()?,
            layers: self.layers.clone(),
            heads: self.heads.clone(),
            unit: if self.words { Granularity::Words } else { Granularity::Tokens },
        };
        selection.check(sites)?;
        let changed = change::intervention(sites, &self.without, &self.scale, &self.skip)?;
        Ok((selection, changed))
    }

    /// The selected attention of a model whose cross-attention alone is shown.
    fn plain_selection(&self, cross: SiteGroup, view: View) -> Result<Selection> {
        let (selection, intervention) = self.selection(&Sites::new(vec![cross]))?;
        if intervention != Intervention::default() {
            let message = format!("an intervention on {}, expected none", view.name());
            return Err(misuse(&message, "leave --without, --scale and --skip out"));
        }
        Ok(selection)
    }

    /// Writes the files, or prints the trace next to that of the unchanged model.
    fn show(
        &self,
        mut trace: Trace,
        plain: impl FnOnce() -> Result<Trace>,
        formats: &[TraceFormat],
        (selection, folder): (&Selection, &Path),
    ) -> Result<()> {
        let name = model_name(folder);
        let (pages, others): (Vec<_>, Vec<_>) = self
            .out
            .iter()
            .zip(formats.iter().copied())
            .partition(|(_, format)| *format == TraceFormat::Html);
        let write = |files: Vec<(&PathBuf, TraceFormat)>, trace: &Trace| {
            for (path, format) in files {
                format.write(path, trace, selection, &name)?;
                note(&format!("wrote {}", path.display()));
            }
            Ok::<(), anyhow::Error>(())
        };
        write(pages, &trace)?;
        if !self.vectors {
            // Pages have vectors where they fit, other files with --vectors only.
            trace.vectors.clear();
        }
        write(others, &trace)?;
        if self.out.is_empty() {
            let plain = if trace.intervention.is_empty() { None } else { Some(plain()?) };
            screen::show(&trace, plain.as_ref(), selection)?;
        }
        Ok(())
    }

    /// The attention to capture: all if it fits, else the selection.
    fn captured(&self, engine: &Engine, selection: &Selection) -> Result<Filter> {
        let source = engine.encode_source(self.text(), self.from.as_deref(), self.to.as_deref())?.0.len();
        let target = match &self.target {
            Some(target) => engine.encode_target(target)?.len(),
            // An estimate: the length is known after decoding only.
            None => source.min(engine.generation().max_length),
        };
        let sites = engine.model().sites();
        let length = |side: &str| if side.starts_with("source") { source } else { target };
        self.fitting(&sites, length, selection, &format!("{} source tokens", grouped(source as u64)))
    }

    /// The attention to capture for sequences of these lengths: all if it fits, else the selection.
    fn fitting(
        &self,
        sites: &Sites,
        length: impl Fn(&str) -> usize,
        selection: &Selection,
        tokens: &str,
    ) -> Result<Filter> {
        let count = |filter: &Filter| n_weights(sites, &length, filter);
        if !self.vectors && count(&Filter::default()) <= MAX_WEIGHTS {
            return Ok(Filter::default());
        }
        let filter = selection.filter();
        let count = count(&filter);
        if count > MAX_WEIGHTS {
            return Err(misuse(
                &format!(
                    "{} attention weights of {tokens}, expected at most {}",
                    grouped(count as u64),
                    grouped(MAX_WEIGHTS as u64)
                ),
                "select fewer with --kind, --layers and --heads",
            ));
        }
        Ok(filter)
    }
}

/// The number of attention weights that a filter selects, for sequences of these lengths.
fn n_weights(sites: &Sites, length: impl Fn(&str) -> usize, filter: &Filter) -> usize {
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

/// Parses layers or heads: `0,2`, `1-3`, `all`, or nothing.
fn indices(text: &str) -> Result<IndexSelection, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<usize>()
            .map_err(|_| format!("{text:?}, expected numbers such as 0,2 or 1-3, or all"))
    };
    match text.trim() {
        "" => return Ok(IndexSelection::Unspecified),
        "all" => return Ok(IndexSelection::All),
        _ => {}
    }
    let mut indices = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= 1024 {
            return Err(format!("{part:?}, expected a range such as 1-3"));
        }
        indices.extend(first..=last);
    }
    indices.sort_unstable();
    indices.dedup();
    Ok(IndexSelection::Some(indices))
}

fn misuse(message: &str, hint: &str) -> anyhow::Error {
    Misuse { message: message.into(), hint: hint.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_lists_and_ranges() {
        assert_eq!(indices("0,2-4,3"), Ok(IndexSelection::Some(vec![0, 2, 3, 4])));
        assert_eq!([indices("all"), indices("")], [Ok(IndexSelection::All), Ok(IndexSelection::Unspecified)]);
        for wrong in ["x", "3-1", "1,", "-1", "0-99999"] {
            assert!(indices(wrong).is_err(), "{wrong}");
        }
    }
}
