//! A call to a speech recogniser: size → memory → steps in the queue → text.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use polyhead_engine::speech::{SpeechSummary, TranscribeOptions, Transcript, wav};
use tokio::sync::mpsc;

use super::{LoadedSpeech, QueuedSound, SoundState, request_number};
use crate::Error;
use crate::blocking::blocking;
use crate::front::budget::MemoryReservation;
use crate::front::rate::Client;
use crate::server::routes::{ServerState, reserve};
use crate::server::scheduler::{Scheduler, Slice};
use crate::server::work::QueuedWork;

/// Bytes of a sample.
const SAMPLE: usize = size_of::<f32>();

/// A checked call.
#[derive(Debug)]
pub(crate) struct SpeechCall {
    pub(crate) client: Client,
    /// Name of the model; default: the first.
    pub(crate) model: Option<String>,
    /// A WAV file.
    pub(crate) file: Bytes,
    pub(crate) options: TranscribeOptions,
    pub(crate) deadline: Instant,
}

impl SpeechCall {
    /// Transcribes the sound. The reservation is that of the request, and grows by what the work needs.
    pub(crate) async fn run(
        self,
        state: &ServerState,
        memory: &mut MemoryReservation,
    ) -> Result<Transcript, Error> {
        let deadline = self.deadline;
        let late = || {
            let seconds = state.limits.file_deadline.as_secs();
            state.scheduler.busy(format!("the sound was not read within the deadline of {seconds} s"))
        };
        let answer = tokio::time::timeout_at(deadline.into(), self.answer(state, memory)).await;
        answer.unwrap_or_else(|_| Err(late()))
    }

    async fn answer(self, state: &ServerState, memory: &mut MemoryReservation) -> Result<Transcript, Error> {
        let most = state.limits.sound_seconds;
        let size = wav::measure(&self.file, "file").map_err(|error| Error::unreadable(&error))?;
        if size.seconds > most {
            let found = format!("{:.0} s of sound", size.seconds);
            return Err(Error::TooLarge { found, limit: format!("{most:.0} s") });
        }
        let scheduler = state.scheduler.clone();
        let summary = scheduler.speech_summary(self.model.as_deref())?;
        let bytes = self.file.len() + working_bytes(&summary, size.samples, size.seconds);
        reserve(memory, bytes, "the sound")?;
        let Self { client, model, file, options, deadline } = self;
        let loaded = blocking(move || scheduler.speech(model.as_deref())).await?;
        let sound = Sound { client, file, options, deadline, seconds: size.seconds };
        state.scheduler.transcribe(loaded, sound, most).await
    }
}

/// Bytes for the samples of a sound at its own rate and at that of the model, its frames, and the states of a window.
fn working_bytes(summary: &SpeechSummary, samples: usize, seconds: f64) -> usize {
    let own = samples * SAMPLE;
    let resampled = (seconds * summary.sample_rate as f64).ceil() as usize * SAMPLE;
    let frames = ((seconds * 100.0).ceil() as usize).max(summary.max_frames) * summary.n_mels * SAMPLE;
    let window =
        if summary.pads { summary.window() } else { summary.window().min(summary.positions(seconds)) };
    let states = window * (16 * summary.d_model + summary.n_heads) * SAMPLE;
    own + resampled + frames + states
}

/// A sound whose size was checked.
struct Sound {
    client: Client,
    file: Bytes,
    options: TranscribeOptions,
    deadline: Instant,
    seconds: f64,
}

impl Scheduler {
    /// A speech recogniser by its name, default: the first; loads it if necessary, which may take a while.
    ///
    /// # Errors
    /// 404 if no model has this name, or if it cannot be loaded.
    pub(crate) fn speech(&self, model: Option<&str>) -> crate::Result<Arc<LoadedSpeech>> {
        let found = self.registry.speech(model)?;
        self.plan_memory();
        Ok(found)
    }

    /// Takes the steps of a sound, each in its turn.
    async fn transcribe(
        &self,
        loaded: Arc<LoadedSpeech>,
        sound: Sound,
        most_seconds: f64,
    ) -> crate::Result<Transcript> {
        let Sound { client, file, options, deadline, seconds } = sound;
        let work = loaded.summary.positions(seconds);
        self.check_work([work; 2], &self.pool.speech_counters.meter, deadline)?;
        // Whoever hangs up closes the channel.
        let (reply, mut replies) = mpsc::unbounded_channel();
        let (request, options) = (request_number(), Arc::new(options));
        let (mut state, mut part) = (SoundState::File(file), Slice::First);
        loop {
            let (loaded, options, reply) = (loaded.clone(), options.clone(), reply.clone());
            let item = QueuedSound { loaded, options, state, request, most_seconds, reply };
            self.queue(&client, vec![QueuedWork::Sound(item)], part).await?;
            part = Slice::Later;
            // This function holds a sender, so the channel stays open.
            match replies.recv().await {
                Some(Ok(SoundState::Done(transcript))) => return Ok(*transcript),
                Some(found) => state = found?,
                None => return Err(self.busy("the server is shutting down".into())),
            }
        }
    }
}
