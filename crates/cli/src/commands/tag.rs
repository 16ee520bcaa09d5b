//! `polyhead tag`: entities in texts, such as names, from a classifier of tokens.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use polyhead_engine::encoder::tag::{Entity, Tagger};
use serde_json::json;

use crate::encoder_options::{EncoderOptions, TextInputs, taken};
use crate::output_format::LineFormat;

const EXAMPLES: &str = "\
Examples:
  polyhead tag --model bert-base-NER 'Ada Lovelace lived in London.'
  polyhead tag --model bert-base-NER --format jsonl < sentences.txt
  polyhead tag --model runs/ner --words 'Ada Lovelace lived in London .'

Each entity gives one line: its first and last character (from 0, the last excluded), its class, the probability and the text, separated by tabs; an empty line follows each text. --format jsonl has a line for each text: `text` and `entities` with `label`, `start`, `end`, `text` and `probability`.

The class of a word is that of its first token. Classes that begin with B-, I-, E-, L-, S- or U- are merged to entities, others where neighbouring words have the same class. O is no entity. With --words, words are what spaces separate, as in the files that taggers are trained on; otherwise punctuation marks are words of their own, if the tokeniser separates them.

Taggers are trained by polyhead train with task = \"tag\". Folders of Hugging Face's BertForTokenClassification and the like are read too.";

/// Options of `polyhead tag`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Tag {
    #[command(flatten)]
    inputs: TextInputs,
    /// Model folder or run folder of a classifier of tokens, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Take what spaces separate as words
    #[arg(long)]
    words: bool,
    #[command(flatten)]
    format: LineFormat,
    #[command(flatten)]
    options: EncoderOptions,
}

impl Tag {
    pub(crate) fn run(self) -> Result<()> {
        self.options.with_model(
            &self.model,
            |folder, options| Tagger::load(folder, options),
            |tagger| {
                let encoder = tagger.encoder();
                self.inputs.for_each_chunk(encoder.parameters(), |texts, first| {
                    let long = self.options.long();
                    let found =
                        if self.words { tagger.tag_words(texts, long)? } else { tagger.tag(texts, long)? };
                    let mut out = std::io::stdout().lock();
                    for ((text, found), number) in texts.iter().zip(found).zip(first..) {
                        let found = taken(found, number, |found| found.cut_from, encoder.max_len())?;
                        let line = if self.format.is_jsonl() {
                            json_line(text, &found.entities)
                        } else {
                            lines(text, &found.entities)
                        };
                        writeln!(out, "{line}")?;
                    }
                    Ok(())
                })
            },
        )
    }
}

/// The characters of an entity, from 0.
fn characters(text: &str, entity: &Entity) -> [usize; 2] {
    [entity.range.start, entity.range.end].map(|at| text[..at].chars().count())
}

fn lines(text: &str, entities: &[Entity]) -> String {
    let line = |entity: &Entity| {
        let [start, end] = characters(text, entity);
        format!(
            "{start}\t{end}\t{}\t{:.4}\t{}\n",
            entity.label,
            entity.probability,
            &text[entity.range.clone()]
        )
    };
    entities.iter().map(line).collect()
}

fn json_line(text: &str, entities: &[Entity]) -> String {
    let each: Vec<_> = entities
        .iter()
        .map(|entity| {
            let [start, end] = characters(text, entity);
            json!({
                "label": entity.label, "start": start, "end": end, "text": &text[entity.range.clone()],
                "probability": entity.probability,
            })
        })
        .collect();
    json!({ "text": text, "entities": each }).to_string()
}
