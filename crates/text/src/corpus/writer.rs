//! Writers of corpora in the format in which they were read.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::{Corpus, RawPair};
use crate::Result;
use crate::output::Output;

/// The object of a JSONL line with other texts in some fields; the fields keep their order.
fn changed_object(whole: &[u8], texts: [(&String, &String); 2]) -> Vec<u8> {
    let Fields(mut fields) = serde_json::from_slice(whole).expect("the line was read before");
    for (name, value) in &mut fields {
        if let Some((_, text)) = texts.iter().find(|(field, _)| *field == name) {
            *value = Value::String((*text).clone());
        }
    }
    let fields: Vec<String> =
        fields.into_iter().map(|(name, value)| format!("{}:{value}", Value::String(name))).collect();
    format!("{{{}}}", fields.join(",")).into_bytes()
}

/// The fields of a JSON object in their order.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct FieldVisitor;
        impl<'de> Visitor<'de> for FieldVisitor {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldVisitor)
    }
}

/// Writer of pairs in the format in which they were read.
#[derive(Debug)]
pub enum PairWriter {
    /// Two files line by line.
    LineFiles {
        /// Source lines.
        source: Output,
        /// Target lines.
        target: Output,
    },
    /// Lines of a TSV or JSONL file, with all their columns and fields.
    Whole(Output),
}

impl PairWriter {
    /// Writes a pair; `whole` is its line in a TSV or JSONL file.
    pub(crate) fn write(&mut self, pair: RawPair<'_>, whole: &[u8]) -> Result<()> {
        match self {
            Self::LineFiles { source: first, target: second } => {
                let RawPair { source, target, .. } = pair;
                for (output, bytes) in [(first, source), (second, target)] {
                    output.write(bytes.unwrap_or_default())?;
                    output.write(b"\n")?;
                }
                Ok(())
            }
            Self::Whole(output) => {
                output.write(whole)?;
                output.write(b"\n")
            }
        }
    }

    /// Writes a pair of `corpus` with other texts; they hold no tab and no line end.
    pub(crate) fn write_changed(&mut self, corpus: &Corpus, whole: &[u8], sides: &[String; 2]) -> Result<()> {
        let [source, target] = sides.each_ref().map(|side| Some(side.as_bytes()));
        let changed = match corpus {
            Corpus::LineFiles { .. } | Corpus::SeveralFiles { .. } => Vec::new(),
            // Read for training alone; nothing writes them.
            Corpus::Csv { .. }
            | Corpus::Conll { .. }
            | Corpus::TokensJsonl { .. }
            | Corpus::SeveralColumns { .. } => whole.to_vec(),
            Corpus::Text { .. } => sides[0].as_bytes().to_vec(),
            Corpus::Tsv { source_column, target_column, .. } => {
                let column = |(index, column)| match index {
                    index if index == *source_column => sides[0].as_bytes(),
                    index if index == *target_column => sides[1].as_bytes(),
                    _ => column,
                };
                let columns: Vec<&[u8]> =
                    whole.split(|&byte| byte == b'\t').enumerate().map(column).collect();
                columns.join(&b'\t')
            }
            Corpus::Jsonl { source_field, target_field, .. } => {
                changed_object(whole, [(source_field, &sides[0]), (target_field, &sides[1])])
            }
        };
        self.write(RawPair { line: 0, source, target }, &changed)
    }

    /// Completes the files and renames them to their final names.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::LineFiles { source, target } => {
                source.finish()?;
                target.finish()
            }
            Self::Whole(output) => output.finish(),
        }
    }
}
