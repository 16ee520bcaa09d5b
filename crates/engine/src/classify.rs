//! Text classification: a softmax over the labels for each text.

use std::path::Path;

use polyhead_attention::{Capture, Pass};
use polyhead_models::Encoder;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Parameters, Tape};
use polyhead_text::tokenizer::{Encoding, Tokenizer};

use crate::load::{LoadOptions, check_folder, load};
use crate::{Error, Result};

/// A text classifier. It may be used by several threads at once.
#[derive(Debug)]
pub struct Classifier {
    model: Encoder,
    parameters: Parameters,
    tokenizer: Tokenizer,
}

/// A label with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The label.
    pub label: String,
    /// The probability, from 0 to 1.
    pub probability: f64,
}

impl Classifier {
    /// Loads a classifier from a Polyhead model folder.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, if they do not match, or if the model is not a classifier.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        let folder = folder.as_ref();
        check_folder(folder)?;
        let checkpoint = load(folder, options)?;
        let model = checkpoint.model.into_encoder().map_err(|error| {
            let hint = error.hint();
            Error::file(folder, error.to_string(), hint)
        })?;
        let tokenizer = Tokenizer::load(folder.join("tokenizer.json"))?;
        if tokenizer.vocab_size() > model.vocab_size() {
            let message = format!(
                "the tokeniser has {} entries, the embedding {} rows",
                tokenizer.vocab_size(),
                model.vocab_size()
            );
            return Err(Error::file(folder, message, "does the tokeniser belong to another model?"));
        }
        Ok(Self { model, parameters: checkpoint.parameters, tokenizer })
    }

    /// The model.
    pub fn model(&self) -> &Encoder {
        &self.model
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The tokens of a text that the model reads.
    ///
    /// # Errors
    /// If the text has no tokens, or more than the model accepts.
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        let Encoding { ids, pieces, offsets } = self.tokenizer.encode(text)?;
        let start = ids.len() - self.model.truncate(&ids).len();
        let read = Encoding {
            ids: ids[start..].to_vec(),
            pieces: pieces[start..].to_vec(),
            offsets: offsets[start..].to_vec(),
        };
        let max_len = self.model.max_len();
        match read.ids.len() {
            0 => Err(Error::request("an empty text, expected at least one token", "pass some text")),
            n if n > max_len => Err(Error::request(
                format!("{n} tokens, expected at most {max_len}, the model's maximum length"),
                "shorten the text",
            )),
            _ => Ok(read),
        }
    }

    /// The classes of each text, the most probable first.
    ///
    /// # Errors
    /// If a text is empty or too long.
    pub fn classify(&self, texts: &[&str]) -> Result<Vec<Vec<Class>>> {
        self.classify_each(texts)?.into_iter().collect()
    }

    /// The same with a separate result for each text, which is an error if the text is empty or too long.
    ///
    /// # Errors
    /// If the device fails.
    pub fn classify_each(&self, texts: &[&str]) -> Result<Vec<Result<Vec<Class>>>> {
        let device = self.parameters.device();
        let mut found = Vec::with_capacity(texts.len());
        for texts in texts.chunks(device.policy().rows) {
            let encoded: Vec<Result<Encoding>> = texts.iter().map(|text| self.encode(text)).collect();
            let rows: Vec<&[u32]> = encoded.iter().flatten().map(|text| text.ids.as_slice()).collect();
            let mut classes = self.classes_of(&rows)?.into_iter();
            found.extend(encoded.into_iter().map(|text| text.map(|_| classes.next().unwrap_or_default())));
        }
        Ok(found)
    }

    /// The classes of each sequence of ids.
    fn classes_of(&self, rows: &[&[u32]]) -> Result<Vec<Vec<Class>>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &self.parameters, &capture);
        let ids = self.model.ids(rows).to_device(&self.parameters.device())?;
        let logits = self.model.classify(&pass, &ids)?;
        let probabilities = softmax(&tape, &logits).value().to_host()?;
        let n_labels = self.model.labels().len();
        Ok(probabilities.data().chunks_exact(n_labels).map(|row| self.classes(row)).collect())
    }

    /// Labels with these probabilities, the most probable first; ties keep the order of the labels.
    pub fn classes(&self, probabilities: &[f32]) -> Vec<Class> {
        let labels = self.model.labels().iter().zip(probabilities);
        let mut classes: Vec<Class> = labels
            .map(|(label, &probability)| Class { label: label.clone(), probability: probability.into() })
            .collect();
        classes.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        classes
    }
}
