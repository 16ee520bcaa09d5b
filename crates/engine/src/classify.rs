//! Text classification: probabilities of the labels for each text.

use std::path::Path;

use polyhead_attention::{Pass, Watch};
use polyhead_models::encoder::EncoderHead;
use polyhead_models::{Encoder, Ids};
use polyhead_tensor::ops::elementwise::sigmoid;
use polyhead_tensor::ops::softmax::softmax;
use polyhead_tensor::{Parameters, Tape, Var};
use polyhead_text::tokenizer::Encoding;

use crate::Result;
use crate::encoder::{LongTexts, TextEncoder, TextInput};
use crate::load::LoadOptions;

/// A text classifier. It may be used by several threads at once.
#[derive(Debug)]
pub struct Classifier {
    encoder: TextEncoder,
}

/// What is computed of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassScores {
    /// The output of the model.
    Logits,
    /// Numbers from 0 to 1: of classes that exclude each other they sum to 1 (softmax); of a model with one class, or one
    /// that gives each class a probability of its own, they are separate (sigmoid).
    Probabilities,
}

impl TextEncoder {
    /// The scores of the classes of each text that was read, in the order of the labels, as long as they are wanted.
    ///
    /// # Errors
    /// If they are no longer wanted, the model has no classes of texts, or the device fails.
    pub fn class_scores(
        &self,
        inputs: &[&TextInput],
        scores: ClassScores,
        watch: Option<Watch<'_>>,
    ) -> Result<Vec<Vec<f32>>> {
        self.expect_head(EncoderHead::Classes)?;
        self.run_read(inputs, watch, |pass, ids, _| self.batch_scores((pass, ids), scores))
    }

    fn batch_scores(&self, (pass, ids): (&Pass<'_>, &Ids), scores: ClassScores) -> Result<Vec<Vec<f32>>> {
        let model = self.model();
        let logits = model.classify(pass, ids)?;
        let scores = match scores {
            ClassScores::Logits => logits,
            ClassScores::Probabilities if model.is_multi_label() || model.labels().len() == 1 => {
                sigmoid(&Tape::inference(), &logits)
            }
            ClassScores::Probabilities => softmax(&Tape::inference(), &logits),
        };
        let scores = scores.value().to_host()?;
        Ok(scores.data().chunks_exact(model.labels().len()).map(<[f32]>::to_vec).collect())
    }
}

/// A label with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The label.
    pub label: String,
    /// The probability, from 0 to 1.
    pub probability: f64,
}

/// The classes of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifiedText {
    /// The classes, the most probable first.
    pub classes: Vec<Class>,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub cut_from: Option<usize>,
}

impl Classifier {
    /// Loads a classifier from a model folder.
    ///
    /// # Errors
    /// If the folder lacks a config, weights or a tokeniser, if they do not match, or if the model is not a classifier.
    pub fn load(folder: impl AsRef<Path>, options: &LoadOptions) -> Result<Self> {
        Self::of(TextEncoder::load(folder, options)?)
    }

    /// The classifier that a loaded encoder is.
    ///
    /// # Errors
    /// If it has no classes of texts.
    pub fn of(encoder: TextEncoder) -> Result<Self> {
        encoder.expect_head(EncoderHead::Classes)?;
        Ok(Self { encoder })
    }

    /// The encoder.
    pub fn encoder(&self) -> &TextEncoder {
        &self.encoder
    }

    /// The model.
    pub fn model(&self) -> &Encoder {
        self.encoder.model()
    }

    /// The values of its parameters.
    pub fn parameters(&self) -> &Parameters {
        self.encoder.parameters()
    }

    /// Longest text in tokens, special tokens included.
    pub fn max_len(&self) -> usize {
        self.encoder.max_len()
    }

    /// The tokens of a text that the model reads.
    ///
    /// # Errors
    /// If the text has no tokens, or more than the model accepts.
    pub fn encode(&self, text: &str) -> Result<Encoding> {
        Ok(self.encoder.read(text, LongTexts::Refuse)?.encoding)
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
        let found = self.classify_with(texts, LongTexts::Refuse)?;
        Ok(found.into_iter().map(|found| found.map(|found| found.classes)).collect())
    }

    /// The same, where `long` says what happens to texts that are too long.
    ///
    /// # Errors
    /// If the device fails.
    pub fn classify_with(&self, texts: &[&str], long: LongTexts) -> Result<Vec<Result<ClassifiedText>>> {
        let found = self.encoder.run(self.encoder.read_all(texts, long), |pass, ids, _| {
            let scores = self.encoder.batch_scores((pass, ids), ClassScores::Probabilities)?;
            Ok(scores.iter().map(|row| self.classes(row)).collect())
        })?;
        let text =
            |(classes, input): (Vec<Class>, TextInput)| ClassifiedText { classes, cut_from: input.cut_from };
        Ok(found.into_iter().map(|found| found.map(text)).collect())
    }

    /// The probabilities of logits: the classes of a text exclude each other, unless the model gives each a probability of its
    /// own.
    pub fn probabilities(&self, logits: &Var) -> Var {
        let tape = Tape::inference();
        if self.model().is_multi_label() { sigmoid(&tape, logits) } else { softmax(&tape, logits) }
    }

    /// Labels with these probabilities, the most probable first; ties keep the order of the labels.
    pub fn classes(&self, probabilities: &[f32]) -> Vec<Class> {
        ranked(self.model().labels(), probabilities)
    }
}

/// Labels with these probabilities, the most probable first; ties keep the order of the labels.
pub(crate) fn ranked(labels: &[String], probabilities: &[f32]) -> Vec<Class> {
    let mut classes: Vec<Class> = labels
        .iter()
        .zip(probabilities)
        .map(|(label, &probability)| Class { label: label.clone(), probability: probability.into() })
        .collect();
    classes.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    classes
}
