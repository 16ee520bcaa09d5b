//! What worker threads do: sentences to translate, and texts for encoders, in one queue with the same turns.

use super::encoder::{EncoderOutput, QueuedText};
use super::queue::QueueItem;
use super::worker_pool::{QueuedSentence, RequestOptions};

/// An item of the queue.
#[derive(Debug)]
pub(crate) enum QueuedWork {
    /// A sentence to translate.
    Sentence(QueuedSentence),
    /// A text for an encoder.
    Text(QueuedText),
}

/// Items with equal keys may share a batch.
#[derive(Debug, PartialEq)]
pub(crate) enum WorkKey {
    /// The serial number of the model, and the options.
    Sentence(u64, RequestOptions),
    /// The serial number of the model, and what is computed.
    Text(u64, EncoderOutput),
}

impl QueueItem for QueuedWork {
    type BatchKey = WorkKey;

    fn batch_key(&self) -> WorkKey {
        match self {
            Self::Sentence(sentence) => WorkKey::Sentence(sentence.key.serial, sentence.key.options.clone()),
            Self::Text(text) => WorkKey::Text(text.loaded.serial, text.output),
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Self::Sentence(sentence) => sentence.tokens(),
            Self::Text(text) => text.tokens(),
        }
    }

    fn work(&self) -> usize {
        match self {
            Self::Sentence(sentence) => sentence.work,
            Self::Text(text) => text.tokens(),
        }
    }

    fn is_abandoned(&self) -> bool {
        match self {
            Self::Sentence(sentence) => sentence.is_abandoned(),
            Self::Text(text) => text.is_abandoned(),
        }
    }
}

/// A batch, all of one kind.
pub(crate) enum WorkBatch {
    Sentences(Vec<QueuedSentence>),
    Texts(Vec<QueuedText>),
}

impl WorkBatch {
    pub(crate) fn new(items: Vec<QueuedWork>) -> Self {
        let (mut sentences, mut texts) = (Vec::new(), Vec::new());
        for item in items {
            match item {
                QueuedWork::Sentence(sentence) => sentences.push(sentence),
                QueuedWork::Text(text) => texts.push(text),
            }
        }
        // Their keys are equal.
        debug_assert!(sentences.is_empty() || texts.is_empty());
        if texts.is_empty() { Self::Sentences(sentences) } else { Self::Texts(texts) }
    }
}
