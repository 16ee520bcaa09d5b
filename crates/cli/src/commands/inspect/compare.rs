//! `polyhead inspect --compare`: the vectors of a word in its contexts.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use polyhead_attention::Sites;
use polyhead_engine::encoder::HeadedEncoder;
use polyhead_engine::{Generator, LoadOptions};
use polyhead_inspect::label::visible;
use polyhead_inspect::selection::IndexSelection;
use polyhead_inspect::states::compare::ComparedLayer;
use polyhead_inspect::states::picture::{context, ends, picture};
use polyhead_inspect::states::{CompareOptions, Comparison, StateLayer, StateReader, json};
use polyhead_inspect::trace::CaptureVectors;
use polyhead_models::View;
use polyhead_text::output::Output;
use polyhead_translate::Engine;

use super::files::TraceFormat;
use super::{Inspect, change, misuse};
use crate::model_folder::{model_name, report_loaded};
use crate::report::{Failure, note, print_text};

/// Width of a column of the table.
const COLUMN: usize = 9;
/// Pairs that the table lists; of more it has the least, the mean and the greatest.
const MAX_PAIRS: usize = 10;
/// Occurrences whose pairs are a matrix.
const MAX_MATRIX: usize = 16;
/// Characters of a text on each side of a word.
const CONTEXT: usize = 36;

impl Inspect {
    pub(super) fn compare_words(&self, folder: &Path, view: View, formats: &[TraceFormat]) -> Result<()> {
        self.refuse_with_compare(view, formats)?;
        let start = Instant::now();
        match view {
            View::Encoder => {
                let encoder = HeadedEncoder::load(folder, &LoadOptions::default())?;
                report_loaded(folder, &encoder.encoder().parameters().device(), "f32", start);
                let sites = encoder.encoder().model().sites();
                self.compare_with((StateReader::Encoder(&encoder), &sites), folder, formats)
            }
            View::SequenceToSequence => {
                let engine = Engine::load(folder, &polyhead_translate::LoadOptions::default())?;
                report_loaded(folder, &engine.device(), "f32", start);
                let sites = engine.model().sites();
                let reader = StateReader::Translation(&engine, self.from.as_deref(), self.to.as_deref());
                self.compare_with((reader, &sites), folder, formats)
            }
            View::LanguageModel => {
                let generator = Generator::load(folder, &LoadOptions::default())?;
                report_loaded(folder, &generator.parameters().device(), "f32", start);
                let sites = generator.model().sites();
                self.compare_with((StateReader::LanguageModel(&generator), &sites), folder, formats)
            }
            View::Pointer | View::Image | View::Speech | View::Caption => {
                let message = format!("{}: {}, expected a model of text", folder.display(), view.name());
                let hint = "use an encoder, a translator or a language model".into();
                Err(Failure { message, hint }.into())
            }
        }
    }

    fn refuse_with_compare(&self, view: View, formats: &[TraceFormat]) -> Result<()> {
        let given = [
            ("--target", self.target.is_some()),
            ("--beam", self.beam.is_some()),
            ("--kind", self.kind.is_some()),
            ("--heads", self.heads != IndexSelection::Unspecified),
            ("--words", self.words),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(misuse(&format!("{name} with --compare, which shows no attention"), "leave it out"));
        }
        self.language_model.refuse("--compare")?;
        if view != View::SequenceToSequence {
            self.refuse_translation("this model")?;
        }
        let wrong = self.out.iter().zip(formats).find(|(_, format)| format.is_of_weights());
        if let Some((path, _)) = wrong {
            let message =
                format!("--out: {}, expected .svg, .png, .html or .json with --compare", path.display());
            return Err(misuse(&message, "--vectors writes the vectors to .json"));
        }
        Ok(())
    }

    fn compare_with(
        &self,
        (reader, sites): (StateReader<'_>, &Sites),
        folder: &Path,
        formats: &[TraceFormat],
    ) -> Result<()> {
        let options = CompareOptions {
            long: self.long(),
            intervention: change::intervention(sites, &self.without, &self.scale, &self.skip)?,
        };
        let [texts, words] =
            [&self.texts, &self.compare].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
        let found = Comparison::new(reader, (&texts, &words), &options, &mut |_| ControlFlow::Continue(()))?;
        for (number, text) in found.texts.iter().enumerate() {
            if let Some(length) = text.cut_from {
                note(&format!(
                    "note: text {}: {length} tokens, cut to {}",
                    number + 1,
                    text.side.tokens.len()
                ));
            }
        }
        let layers = self.compared_layers(&found)?;
        let name = model_name(folder);
        for (path, format) in self.out.iter().zip(formats) {
            let vectors = if self.vectors { CaptureVectors::Yes } else { CaptureVectors::No };
            match format {
                TraceFormat::Picture(format) => {
                    let title = format!("{} in context, {name}", words.join(", "));
                    format.save(path, &picture(&found, &title, &layers))?;
                }
                TraceFormat::Html => {
                    let data = json(&found, &words, CaptureVectors::No);
                    Output::save(path, polyhead_serve::comparison_page(&data, &name).as_bytes())?;
                }
                _ => Output::save(path, format!("{}\n", json(&found, &words, vectors)).as_bytes())?,
            }
            note(&format!("wrote {}", path.display()));
        }
        if self.out.is_empty() {
            print_text(&shown(&found, &words))?;
        }
        Ok(())
    }

    /// The layers of pictures.
    fn compared_layers(&self, found: &Comparison) -> Result<Vec<StateLayer>> {
        let all: Vec<StateLayer> = found.layers.iter().map(|own| own.layer).collect();
        match &self.layers {
            IndexSelection::Unspecified => Ok(ends(found)),
            IndexSelection::All => Ok(all),
            IndexSelection::Some(wanted) => {
                let missing = wanted.iter().find(|layer| !all.contains(&StateLayer::Layer(**layer)));
                if let Some(missing) = missing {
                    let n = all.iter().filter(|own| matches!(own, StateLayer::Layer(_))).count();
                    let message =
                        format!("layer {missing}, expected one of the model's (0–{})", n.saturating_sub(1));
                    return Err(misuse(&message, "layers are counted from 0; all includes the embedding"));
                }
                Ok(wanted.iter().map(|layer| StateLayer::Layer(*layer)).collect())
            }
        }
    }
}

/// The comparison as text.
fn shown(found: &Comparison, words: &[&str]) -> String {
    let n = found.occurrences.len();
    let quoted: Vec<String> = words.iter().map(|word| visible(word)).collect();
    let texts = if found.texts.len() == 1 { "1 text".into() } else { format!("{} texts", found.texts.len()) };
    let mut out = format!("{}: {n} occurrences in {texts}\n\n", quoted.join(", "));
    for (index, own) in found.occurrences.iter().enumerate() {
        let [before, word, after] = context(found, own, CONTEXT).map(|part| visible(&part));
        let labels: Vec<String> =
            own.tokens.iter().map(|token| visible(&found.texts[own.text].side.label(*token))).collect();
        let tokens =
            if labels.len() > 1 { format!("   tokens: {}", labels.join(" ")) } else { String::new() };
        out += &format!("{:>4}  {before}[{word}]{after}{tokens}\n", index + 1);
    }
    out += "\ncosine of the vectors after each layer\n";
    out += &table(found);
    if (3..=MAX_MATRIX).contains(&n) && found.pairs().len() > MAX_PAIRS {
        out += &matrix(found);
    }
    out
}

/// A row for each layer, and a column for each pair, or for the least, the mean and the greatest of them.
fn table(found: &Comparison) -> String {
    let pairs = found.pairs();
    let mut heads: Vec<String> = if pairs.len() <= MAX_PAIRS {
        pairs.iter().map(|[a, b]| format!("{} and {}", a + 1, b + 1)).collect()
    } else {
        ["least", "mean", "greatest"].map(String::from).to_vec()
    };
    heads.push("others".into());
    let cell = |text: &str| format!("{text:>COLUMN$}");
    let mut out = format!("{:<10}{}\n", "", heads.iter().map(|head| cell(head)).collect::<String>());
    for layer in &found.layers {
        let cosines: Vec<f64> =
            pairs.iter().map(|[a, b]| f64::from(layer.similarities.row(*a)[*b])).collect();
        let mut cells = if pairs.len() <= MAX_PAIRS { cosines } else { summarised(&cosines) };
        cells.push(layer.others.unwrap_or(f64::NAN));
        let cells: String = cells
            .iter()
            .map(|number| cell(&if number.is_nan() { "–".into() } else { format!("{number:.4}") }))
            .collect();
        out += &format!("{:<10}{cells}\n", layer.layer.name());
    }
    out + "others: mean cosine of all other pairs of tokens\n"
}

/// The least, the mean and the greatest.
fn summarised(cosines: &[f64]) -> Vec<f64> {
    let least = cosines.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = cosines.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    vec![least, cosines.iter().sum::<f64>() / cosines.len().max(1) as f64, greatest]
}

/// The cosines of all pairs after the last layer.
fn matrix(found: &Comparison) -> String {
    let Some(ComparedLayer { layer, similarities, .. }) = found.layers.last() else { return String::new() };
    let numbers: String = (1..=similarities.n_rows()).map(|number| format!("{number:>6}")).collect();
    let mut out = format!("\ncosine of each pair, {}\n{:4}{numbers}\n", layer.name(), "");
    for (index, row) in similarities.rows().enumerate() {
        let cells: String = row.iter().map(|number| format!("{number:>6.2}")).collect();
        out += &format!("{:>4}{cells}\n", index + 1);
    }
    out
}
