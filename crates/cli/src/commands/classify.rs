//! `polyhead classify`: labels of texts or images, from a model trained on labelled ones.

mod images;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_engine::classify::Class;
use polyhead_engine::{Classifier, LoadOptions};
use serde_json::json;

use self::images::ImageArguments;
pub(crate) use self::images::{ImageReading, image_files};
use crate::decode_options::positive;
use crate::encoder_options::{EncoderOptions, TextInputs};
use crate::output_format::LineFormat;
use crate::report::note;

const EXAMPLES: &str = "\
Examples:
  polyhead train recipes/ab/attention.toml
  polyhead classify --model runs/ab/attention/model AABA AAAA
  polyhead classify --model sentiment --top 3 < reviews.txt
  polyhead classify --model sentiment --format jsonl 'a fine film'
  polyhead classify --model distilbert-sst2 --truncate --file long-reviews.txt
  polyhead classify --model deit-tiny --top 5 --image cat.jpg dog.png

Each text gives one line: the most probable label, its probability and the text, separated by tabs; with --top N, the N most probable labels with their probabilities. --format jsonl has the probabilities of all labels. A text that is empty or too long for the model gets an empty label and a note; --truncate cuts the end of long ones.

--image reads PNG and JPEG files, or folders of them, and prints the labels and the name of each file. Pictures are resized, cropped and normalised as the model's preprocessor_config.json says; an image that cannot be read gets an empty label and a note.

Classifiers are trained by polyhead train with model_type = \"transformer_encoder\", \"bert\" or \"window_encoder\" from a TSV file of texts and labels. Folders of Hugging Face's BertForSequenceClassification and the like are read too. Image classifiers (model_type = \"vit\") learn from idx files, CIFAR's binary files and folders of images; ViTForImageClassification and DeiTForImageClassification are read too.";

/// Options of `polyhead classify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Classify {
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder or run folder of a classifier, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Number of labels printed for each text or image
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    top: usize,
    #[command(flatten)]
    images: ImageArguments,
    #[command(flatten)]
    format: LineFormat,
    #[command(flatten)]
    options: EncoderOptions,
}

impl Classify {
    pub(crate) fn run(self) -> Result<()> {
        if self.images.is_given() {
            return self.classify_images();
        }
        let load = |folder: &Path, options: &LoadOptions| Classifier::load(folder, options);
        self.options.with_model(&self.model, load, |classifier| {
            self.inputs
                .for_each_chunk(classifier.parameters(), |texts, first| self.write(classifier, texts, first))
        })
    }

    /// Prints a line for each text, of which the first has the number `first`.
    fn write(&self, classifier: &Classifier, texts: &[&str], first: usize) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let found = classifier.classify_with(texts, self.options.long())?;
        for ((text, found), number) in texts.iter().zip(found).zip(first..) {
            let classes = match found {
                Ok(found) => {
                    if let Some(length) = found.cut_from {
                        note(&format!(
                            "note: text {number}: {length} tokens, cut to {}",
                            classifier.max_len()
                        ));
                    }
                    found.classes
                }
                Err(reason) => {
                    note(&format!("note: text {number}: {reason}"));
                    Vec::new()
                }
            };
            let line = if self.format.is_jsonl() {
                json_line(number - 1, text, &classes)
            } else {
                self.line(text, &classes)
            };
            writeln!(out, "{line}")?;
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
