//! What worker threads do: sentences to translate, texts for encoders, images to classify and steps of transcriptions, in one queue with
//! the same turns.

use super::encoder::{EncoderOutput, QueuedText};
use super::images::QueuedImage;
use super::queue::QueueItem;
use super::speech::QueuedSound;
use super::worker_pool::{QueuedSentence, RequestOptions};

/// An item of the queue.
#[derive(Debug)]
pub(crate) enum QueuedWork {
    /// A sentence to translate.
    Sentence(QueuedSentence),
    /// A text for an encoder.
    Text(QueuedText),
    /// An image to classify.
    Image(QueuedImage),
    /// A step of a transcription.
    Sound(QueuedSound),
}

/// Items with equal keys may share a batch.
#[derive(Debug, PartialEq)]
pub(crate) enum WorkKey {
    /// The serial number of the model, and the options.
    Sentence(u64, RequestOptions),
    /// The serial number of the model, and what is computed.
    Text(u64, EncoderOutput),
    /// The serial number of the model.
    Image(u64),
    /// The number of the request: a batch has one sound.
    Sound(u64),
}

impl QueueItem for QueuedWork {
    type BatchKey = WorkKey;

    fn batch_key(&self) -> WorkKey {
        match self {
            Self::Sentence(sentence) => WorkKey::Sentence(sentence.key.serial, sentence.key.options.clone()),
            Self::Text(text) => WorkKey::Text(text.loaded.serial, text.output),
            Self::Image(image) => WorkKey::Image(image.loaded.serial),
            Self::Sound(sound) => WorkKey::Sound(sound.request),
        }
    }

    fn tokens(&self) -> usize {
        match self {
            Self::Sentence(sentence) => sentence.tokens(),
            Self::Text(text) => text.tokens(),
            Self::Image(image) => image.tokens(),
            Self::Sound(sound) => sound.tokens(),
        }
    }

    fn work(&self) -> usize {
        match self {
            Self::Sentence(sentence) => sentence.work,
            Self::Text(text) => text.tokens(),
            Self::Image(image) => image.work(),
            Self::Sound(sound) => sound.tokens(),
        }
    }

    fn is_abandoned(&self) -> bool {
        match self {
            Self::Sentence(sentence) => sentence.is_abandoned(),
            Self::Text(text) => text.is_abandoned(),
            Self::Image(image) => image.is_abandoned(),
            Self::Sound(sound) => sound.is_abandoned(),
        }
    }
}

/// A batch, all of one kind.
pub(crate) enum WorkBatch {
    Sentences(Vec<QueuedSentence>),
    Texts(Vec<QueuedText>),
    Images(Vec<QueuedImage>),
    Sounds(Vec<QueuedSound>),
}

impl WorkBatch {
    pub(crate) fn new(items: Vec<QueuedWork>) -> Self {
        let (mut sentences, mut texts, mut images, mut sounds) =
            <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        for item in items {
            match item {
                QueuedWork::Sentence(sentence) => sentences.push(sentence),
                QueuedWork::Text(text) => texts.push(text),
                QueuedWork::Image(image) => images.push(image),
                QueuedWork::Sound(sound) => sounds.push(sound),
            }
        }
        // Their keys are equal, so all but one are empty.
        if !texts.is_empty() {
            Self::Texts(texts)
        } else if !images.is_empty() {
            Self::Images(images)
        } else if !sounds.is_empty() {
            Self::Sounds(sounds)
        } else {
            Self::Sentences(sentences)
        }
    }
}
