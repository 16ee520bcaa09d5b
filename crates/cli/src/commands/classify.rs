//! `polyhead classify`: the labels of texts, by a model that was trained on labelled text.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_engine::classify::Class;
use polyhead_engine::{Classifier, LoadOptions};
use serde_json::json;

use crate::decode_options::{Dtype, positive};
use crate::input::{Chunks, Line, Patience};
use crate::report::{note, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead train recipes/ab/attention.toml
  polyhead classify --model runs/ab/attention/model AABA AAAA
  polyhead classify --model sentiment --top 3 < reviews.txt
  polyhead classify --model sentiment --format jsonl 'a fine film'

A text gives a line: its most probable label, the probability and the text, with tabs between; with --top N, the N most
probable labels and their probabilities. A text that is empty or too long for the model gets an empty label and a note.
Models are made by polyhead train with model_type = \"transformer_encoder\" or \"window_encoder\" from a TSV file of texts
and labels.";

/// Options of `polyhead classify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Classify {
    /// Texts to classify [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// Folder of the model
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Labels told for each text
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    top: usize,
    /// Lines of text, or of JSON with the probabilities of all labels
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Where to compute: cpu, cuda, cuda:N, or auto
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: String,
    /// Compute dtype; int8 models stay int8
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

impl Classify {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let (device, precision) = self.dtype.open(&self.device)?;
            let classifier = Classifier::load(&self.model, &LoadOptions { device, precision })?;
            let mut written = 0;
            if !self.texts.is_empty() {
                return self.write(&classifier, &self.texts, &mut written);
            }
            let policy = classifier.parameters().device().policy();
            let is_typed = std::io::stdin().is_terminal();
            let patience = if policy.takes_turns && !is_typed { Patience::UntilFull } else { Patience::None };
            for chunk in Chunks::of_standard_input(policy.texts, patience)? {
                let texts: Vec<String> = chunk?.into_iter().map(Line::noted).collect();
                self.write(&classifier, &texts, &mut written)?;
            }
            Ok(())
        })
    }

    /// A line for each text.
    fn write(&self, classifier: &Classifier, texts: &[String], written: &mut usize) -> Result<()> {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut out = std::io::stdout().lock();
        for (text, found) in texts.iter().zip(classifier.classify_each(&borrowed)?) {
            let classes = found.unwrap_or_else(|reason| {
                note(&format!("note: text {}: {reason}", *written + 1));
                Vec::new()
            });
            let line = match self.format {
                Format::Text => self.line(text, &classes),
                Format::Jsonl => json_line(*written, text, &classes),
            };
            writeln!(out, "{line}")?;
            *written += 1;
        }
        Ok(())
    }

    fn line(&self, text: &str, classes: &[Class]) -> String {
        let mut fields: Vec<String> = classes
            .iter()
            .take(self.top)
            .flat_map(|class| [class.label.clone(), format!("{:.4}", class.probability)])
            .collect();
        if fields.is_empty() {
            fields.extend([String::new(), String::new()]);
        }
        // A text gives a line, whatever stands in it.
        fields.push(text.replace(['\n', '\r'], " "));
        fields.join("\t")
    }
}

fn json_line(id: usize, text: &str, classes: &[Class]) -> String {
    let each: Vec<_> = classes
        .iter()
        .map(|class| json!({ "label": class.label, "probability": class.probability }))
        .collect();
    json!({ "id": id, "text": text, "label": classes.first().map(|class| &class.label), "classes": each })
        .to_string()
}
