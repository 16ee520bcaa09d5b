//! `polyhead inspect` of a language model.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::{Filter, Intervention};
use polyhead_engine::Generator;
use polyhead_inspect::trace::text::{Continuation, LensPositions, Target, TextInput, TextOptions};
use polyhead_inspect::trace::{CaptureVectors, Trace};

use super::files::TraceFormat;
use super::{Inspect, misuse};
use crate::model_folder::report_loaded;
use crate::report::{grouped, note};

/// Options of language models.
#[derive(Debug, Args)]
#[command(next_help_heading = "Language models")]
pub(super) struct LanguageModelOptions {
    /// Continue the text by N tokens at most: the most probable ones, or with --seed tokens drawn as polyhead generate does
    #[arg(long, value_name = "N")]
    generate: Option<usize>,
    /// Random seed
    #[arg(long, value_name = "SEED", requires = "generate")]
    seed: Option<u64>,
    /// Show the logit lens: the most probable next token after each layer
    #[arg(long)]
    pub(super) lens: bool,
    /// Show what each layer adds to the logit of a token after a position [default position: last; default token: the
    /// one that follows, or the most probable]
    #[arg(
        long, value_name = "POSITION[:TOKEN]", num_args = 0..=1, require_equals = true,
        default_missing_value = "last", value_parser = place
    )]
    contributions: Option<LogitPlace>,
}

/// A position and a token.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogitPlace {
    position: Option<usize>,
    token: Option<String>,
}

/// Parses `--contributions`: `last`, `3` or `3:mat`.
fn place(text: &str) -> Result<LogitPlace, String> {
    let (position, token) = match text.split_once(':') {
        Some((position, token)) => (position, Some(token.to_owned())),
        None => (text, None),
    };
    let wrong = || {
        format!("{text:?}, expected a position such as 3 or last, or a position and a token such as 3:mat")
    };
    let position = match position.trim() {
        "last" => None,
        number => Some(number.parse().map_err(|_| wrong())?),
    };
    match token {
        Some(token) if token.is_empty() => Err(wrong()),
        token => Ok(LogitPlace { position, token }),
    }
}

impl LanguageModelOptions {
    /// Refuses options that only language models have.
    pub(super) fn refuse(&self, what: &str) -> Result<()> {
        let given = [
            ("--generate", self.generate.is_some()),
            ("--lens", self.lens),
            ("--contributions", self.contributions.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("{name} with {what}, expected a language model");
                Err(misuse(&message, "leave it out, or choose a language model with --model"))
            }
        }
    }

    fn continuation(&self) -> Result<Option<Continuation>> {
        match self.generate {
            Some(0) => Err(misuse("--generate 0, expected 1 or more", "leave it out to generate nothing")),
            generate => Ok(generate.map(|max_new_tokens| Continuation { max_new_tokens, seed: self.seed })),
        }
    }

    /// The logit that `--contributions` names.
    fn target(&self, generator: &Generator) -> Result<Option<Target>> {
        let Some(LogitPlace { position, token }) = &self.contributions else { return Ok(None) };
        let token = token.as_ref().map(|token| token_id(generator, token)).transpose()?;
        Ok(Some(Target { position: *position, token }))
    }
}

/// The id of a token: a vocabulary entry, `#` and an id, or a text of one token.
fn token_id(generator: &Generator, token: &str) -> Result<u32> {
    let tokenizer = generator.tokenizer();
    let number = || token.strip_prefix('#').and_then(|id| id.parse().ok());
    if let Some(id) = tokenizer.id(token).or_else(number) {
        return Ok(id);
    }
    match tokenizer.encode(token)?.ids[..] {
        [id] if Some(id) != tokenizer.unknown_id() => Ok(id),
        _ => {
            let message = format!("{token:?} is not one token of the vocabulary");
            let hint = "name a vocabulary entry, such as Ġmat or ▁mat, or an id, such as #262";
            Err(misuse(&message, hint))
        }
    }
}

impl Inspect {
    pub(super) fn inspect_text(&self, folder: &Path, formats: &[TraceFormat]) -> Result<()> {
        self.refuse_translation("a language model")?;
        if self.beam.is_some() {
            let message = "--beam with a language model, expected a model that translates";
            return Err(misuse(message, "--generate continues the text token by token"));
        }
        let own = &self.language_model;
        let continuation = own.continuation()?;
        let start = Instant::now();
        let generator = Generator::load(folder, &polyhead_engine::LoadOptions::default())?;
        report_loaded(folder, &generator.parameters().device(), "f32", start);
        let model = generator.model();
        let sites = model.sites();
        if sites.is_empty() {
            self.refuse_attention(folder, formats)?;
        }
        let (selection, intervention) = self.selection(&sites)?;
        let length = generator.encode(self.text())?.len();
        let longest = length + own.generate.unwrap_or(0);
        let longest = model.max_len().map_or(longest, |max_len| longest.min(max_len));
        let tokens = format!("{} tokens", grouped(longest as u64));
        let filter = self.fitting(&sites, |_| longest, &selection, &tokens)?;
        let is_page = formats.contains(&TraceFormat::Html);
        let is_whole = is_page || formats.contains(&TraceFormat::Json);
        let target = own.target(&generator)?;
        let options = TextOptions {
            continuation,
            // The lens shows the most probable token.
            n_alternatives: self.alternatives.max(1),
            lens: if own.lens || (is_whole && model.has_residual_stream()) {
                LensPositions::All
            } else {
                LensPositions::None
            },
            contributions: target.into_iter().collect(),
            all_contributions: is_whole && model.has_logit_sum(),
            filter,
            vectors: if self.vectors || is_page { CaptureVectors::Yes } else { CaptureVectors::No },
            intervention,
            ..TextOptions::default()
        };
        let input = TextInput::Text(self.text().to_owned());
        let traced = |options: &TextOptions| {
            Ok(Trace::of_text(&generator, &input, options, &|_| ControlFlow::Continue(()))?)
        };
        let trace = traced(&options)?;
        if model.max_len().is_some_and(|max_len| length + own.generate.unwrap_or(0) > max_len) {
            note(&format!(
                "note: the text fills the context of {longest} tokens: fewer tokens were generated"
            ));
        }
        let plain = || {
            let filter = Filter { layers: Some(Vec::new()), ..Filter::default() };
            let intervention = Intervention::default();
            traced(&TextOptions {
                filter,
                intervention,
                lens: LensPositions::None,
                contributions: Vec::new(),
                all_contributions: false,
                ..options.clone()
            })
        };
        self.show(trace, plain, formats, (&selection, folder))
    }

    /// Refuses options and files that need attention.
    fn refuse_attention(&self, folder: &Path, formats: &[TraceFormat]) -> Result<()> {
        let given = [
            ("--kind", self.kind.is_some()),
            ("--words", self.words),
            ("--vectors", self.vectors),
            ("--without", !self.without.is_empty()),
            ("--scale", !self.scale.is_empty()),
            ("--skip", !self.skip.is_empty()),
        ];
        let named = given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name.to_owned());
        let file = formats.iter().zip(&self.out).find(|(format, _)| format.needs_attention());
        match named.or_else(|| file.map(|(_, path)| format!("--out {}", path.display()))) {
            None => Ok(()),
            Some(name) => {
                let message = format!("{name} with {}, which has no attention", folder.display());
                let hint = "leave it out; .json and .html files have its next-token probabilities";
                Err(misuse(&message, hint))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_positions_with_or_without_a_token() {
        let of = |position, token: Option<&str>| Ok(LogitPlace { position, token: token.map(str::to_owned) });
        assert_eq!(
            [place("last"), place("3"), place("3::")],
            [of(None, None), of(Some(3), None), of(Some(3), Some(":"))]
        );
        assert_eq!(place("last: mat"), of(None, Some(" mat")));
        for wrong in ["", "x", "-1", "3:", ":mat"] {
            assert!(place(wrong).unwrap_err().contains("expected a position"), "{wrong}");
        }
    }
}
