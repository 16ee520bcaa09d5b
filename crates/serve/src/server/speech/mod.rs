//! Speech recognisers for many clients.
//!
//! 1. [`LoadedSpeech`] is a recogniser in the model registry.
//! 2. [`QueuedSound`] is one step of a transcription: a part of the preparation, or one window. After it the sound waits for its next
//!    turn in the queue, so that an hour of one client does not hold up ten seconds of another.
//! 3. `call.rs` is a call: it checks the size of a sound, reserves its memory, and takes its steps.
//!
//! What is computed of a sound depends on nothing else.

mod call;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Bytes;
use polyhead_attention::Watch;
use polyhead_engine::speech::{SpeechSummary, TranscribeOptions, Transcript, Transcription, wav};
use polyhead_engine::{LoadOptions, SpeechEngine};
use tokio::sync::mpsc::UnboundedSender;

use super::media_counters::MediaCounters;
use crate::{Error, Result};

pub(crate) use call::SpeechCall;

/// Part of the work of a window that a step of the preparation costs.
const PREPARATION: usize = 16;

/// A loaded recogniser; requests keep it alive while a reload replaces it.
#[derive(Debug)]
pub struct LoadedSpeech {
    /// The model.
    pub engine: SpeechEngine,
    /// Name by which clients choose it.
    pub name: String,
    /// What is known of it without its weights.
    pub summary: Arc<SpeechSummary>,
}

/// A recogniser in the answer to `/v1/models`.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeechEntry {
    /// Its name.
    pub name: String,
    /// True if it is in memory.
    pub is_loaded: bool,
    /// What is known of it without its weights.
    pub summary: Arc<SpeechSummary>,
}

impl LoadedSpeech {
    pub(crate) fn load((name, folder): (&str, &Path), options: &LoadOptions) -> Result<Self> {
        let engine = SpeechEngine::load(folder, options)?;
        Ok(Self { engine, name: name.to_owned(), summary: Arc::new(SpeechSummary::of_folder(folder)?) })
    }
}

/// A sound on its way to a text.
#[derive(Debug)]
pub(crate) enum SoundState {
    /// A file, whose size was checked.
    File(Bytes),
    /// Under way.
    Reading(Box<Transcription>),
    /// The text.
    Done(Box<Transcript>),
}

/// A sound that waits for its next step.
#[derive(Debug)]
pub(crate) struct QueuedSound {
    pub(crate) loaded: Arc<LoadedSpeech>,
    pub(crate) options: Arc<TranscribeOptions>,
    pub(crate) state: SoundState,
    /// Number of the request: sounds of two are never in one batch.
    pub(crate) request: u64,
    /// Longest sound in seconds.
    pub(crate) most_seconds: f64,
    pub(crate) reply: UnboundedSender<Result<SoundState>>,
}

/// A number for each request.
pub(crate) fn request_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl QueuedSound {
    /// The work of the step, in positions of the encoder.
    pub(crate) fn tokens(&self) -> usize {
        let window = self.loaded.summary.window();
        match &self.state {
            SoundState::Reading(transcription) => {
                let next = self.loaded.engine.next_frames(transcription);
                if next == 0 { window / PREPARATION + 1 } else { next.div_ceil(2) }
            }
            _ => window / PREPARATION + 1,
        }
    }

    /// True if the request was cancelled.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// Makes the step and sends what came of it. `between` is called between layers and tokens.
    pub(crate) fn run(self, between: &(dyn Fn() + Sync), counters: &MediaCounters) {
        let Self { loaded, options, state, most_seconds, reply, .. } = self;
        let is_wanted = || {
            between();
            !reply.is_closed()
        };
        let step = || step(&loaded.engine, (&options, most_seconds), state, Watch(&is_wanted));
        let found =
            catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| Err(Error::from_panic(&*panic)));
        if let Ok(SoundState::Done(transcript)) = &found {
            counters.add_item(transcript.duration);
        }
        // The client may have disconnected.
        let _ = reply.send(found);
    }
}

fn step(
    engine: &SpeechEngine,
    (options, most_seconds): (&TranscribeOptions, f64),
    state: SoundState,
    watch: Watch<'_>,
) -> Result<SoundState> {
    match state {
        SoundState::File(bytes) => {
            let sound =
                wav::decode(&bytes, "file", most_seconds).map_err(|error| Error::unreadable(&error))?;
            drop(bytes);
            Ok(SoundState::Reading(Box::new(engine.begin(sound, options)?)))
        }
        SoundState::Reading(mut transcription) => {
            let goes_on = engine.advance(&mut transcription, 1, Some(watch))?;
            if goes_on {
                return Ok(SoundState::Reading(transcription));
            }
            Ok(SoundState::Done(Box::new(engine.finish(*transcription))))
        }
        done @ SoundState::Done(_) => Ok(done),
    }
}
