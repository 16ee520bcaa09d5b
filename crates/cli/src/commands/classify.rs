//! `polyhead classify`: labels of texts, from a model trained on labelled text.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_engine::classify::Class;
use polyhead_engine::{Classifier, LoadOptions};
use serde_json::json;

use crate::compute_dtype::{ComputeDtype, device_name};
use crate::decode_options::positive;
use crate::input::{ChunkFill, Chunks, InputLine};
use crate::model_folder::{report_loaded, resolve};
use crate::option_help::{DEVICE, DTYPE, THREADS};
use crate::output_format::LineFormat;
use crate::report::{note, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead train recipes/ab/attention.toml
  polyhead classify --model runs/ab/attention/model AABA AAAA
  polyhead classify --model sentiment --top 3 < reviews.txt
  polyhead classify --model sentiment --format jsonl 'a fine film'

Each text gives one line: the most probable label, its probability and the text, separated by tabs; with --top N, the N most probable labels with their probabilities. --format jsonl has the probabilities of all labels. A text that is empty or too long for the model gets an empty label and a note.

Classifiers are trained by polyhead train with model_type = \"transformer_encoder\" or \"window_encoder\" from a TSV file of texts and labels.";

/// Options of `polyhead classify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Classify {
    /// Texts to classify [default: the lines of standard input]
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// Model folder or run folder of a classifier, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Number of labels printed for each text
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    top: usize,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Compute", help = DEVICE,
          value_parser = device_name)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

impl Classify {
    pub(crate) fn run(self) -> Result<()> {
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let (device, dtype) = self.dtype.open(&self.device)?;
            let folder = resolve(&self.model)?;
            let classifier = Classifier::load(&folder, &LoadOptions { device, dtype })?;
            let device = classifier.parameters().device();
            report_loaded(&folder, &device, self.dtype.name(), start);
            let mut written = 0;
            if !self.texts.is_empty() {
                return self.write(&classifier, &self.texts, &mut written);
            }
            let fill = ChunkFill::for_device(&device);
            for chunk in Chunks::of_standard_input(device.policy().texts, fill)? {
                let texts: Vec<String> = chunk?.into_iter().map(InputLine::into_text).collect();
                self.write(&classifier, &texts, &mut written)?;
            }
            Ok(())
        })
    }

    /// Prints a line for each text.
    fn write(&self, classifier: &Classifier, texts: &[String], written: &mut usize) -> Result<()> {
        let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut out = std::io::stdout().lock();
        for (text, found) in texts.iter().zip(classifier.classify_each(&borrowed)?) {
            let classes = found.unwrap_or_else(|reason| {
                note(&format!("note: text {}: {reason}", *written + 1));
                Vec::new()
            });
            let line = if self.format.is_jsonl() {
                json_line(*written, text, &classes)
            } else {
                self.line(text, &classes)
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
        // Line breaks inside a text become spaces.
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
