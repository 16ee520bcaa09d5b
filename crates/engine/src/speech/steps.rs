//! A transcription in steps of at most some windows, so that a server can do other work between them.

use polyhead_attention::Watch;

use super::recognise::Search;
use super::resample::Resampling;
use super::{Segment, Sound, SpeechEngine, TranscribeOptions, Transcript};
use crate::{Error, Result};

/// A transcription that is under way.
#[derive(Debug)]
pub struct Transcription {
    search: Search,
    duration: f64,
    notes: Vec<String>,
    resampling: Resampling,
    /// The samples as they were; empty once they have the rate of the model.
    sound: Vec<f32>,
    /// Samples at the rate of the model so far.
    samples: Vec<f32>,
    /// Frames of the whole sound for a model that pads its windows, and how many of them are computed.
    frames: (Vec<f32>, usize),
    /// Where the next window begins: a frame of such a model, else a sample.
    seek: usize,
    segments: Vec<Segment>,
}

impl Transcription {
    /// What was done to the sound, or is missing.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl SpeechEngine {
    /// Begins a transcription.
    ///
    /// # Errors
    /// If an option does not fit the model.
    pub fn begin(&self, sound: Sound, options: &TranscribeOptions) -> Result<Transcription> {
        let search = self.search(options)?;
        let rate = self.model.config().sample_rate as u32;
        let duration = sound.seconds();
        let notes = self.notes(&sound);
        let resampling = Resampling::new(sound.samples.len(), sound.rate, rate);
        let (sound, samples) =
            if sound.rate == rate { (Vec::new(), sound.samples) } else { (sound.samples, Vec::new()) };
        let (frames, segments) = ((Vec::new(), 0), Vec::new());
        Ok(Transcription { search, duration, notes, resampling, sound, samples, frames, seek: 0, segments })
    }

    /// Makes a step: a part of the preparation, or at most `windows` windows. False once all of the sound has been read.
    ///
    /// # Errors
    /// If the device fails, or the text is no longer wanted.
    pub fn advance(&self, on: &mut Transcription, windows: usize, watch: Option<Watch<'_>>) -> Result<bool> {
        if watch.is_some_and(|Watch(is_wanted)| !is_wanted()) {
            return Err(Error::Cancelled);
        }
        if on.samples.len() < on.resampling.length() {
            on.resampling.next_part(&on.sound, &mut on.samples);
            if on.samples.len() == on.resampling.length() {
                on.sound = Vec::new();
            }
            return Ok(true);
        }
        if self.model.config().pad_sound {
            self.padded_step(on, watch)
        } else {
            self.free_step(on, windows, watch)
        }
    }

    /// Frames of the next window, or 0 if the next step is a part of the preparation.
    pub fn next_frames(&self, on: &Transcription) -> usize {
        let config = self.model.config();
        if on.samples.len() < on.resampling.length() {
            return 0;
        }
        if !config.pad_sound {
            return self.features.n_frames(on.samples.len() - on.seek).min(config.max_frames);
        }
        let (frames, done) = &on.frames;
        let is_prepared = !frames.is_empty() && *done * config.n_mels == frames.len();
        if is_prepared { config.max_frames } else { 0 }
    }

    fn padded_step(&self, on: &mut Transcription, watch: Option<Watch<'_>>) -> Result<bool> {
        let config = self.model.config();
        let total = self.features.n_frames(on.samples.len());
        let (frames, done) = &mut on.frames;
        if frames.is_empty() {
            // Silence follows a sound within the first window; frames after the end of a later one are 0, as in Whisper.
            frames.resize(total.max(config.max_frames) * config.n_mels, 0.0);
        }
        if *done * config.n_mels < frames.len() {
            *done = self.features.next_part(&on.samples, frames, *done);
            return Ok(true);
        }
        let (segments, next) = self.padded_window((frames, on.seek, total), &mut on.search, watch)?;
        on.segments.extend(segments);
        on.seek += next;
        Ok(on.seek < total)
    }

    fn free_step(&self, on: &mut Transcription, windows: usize, watch: Option<Watch<'_>>) -> Result<bool> {
        let (mut parts, mut end) = (Vec::new(), on.seek);
        while parts.len() < windows.max(1) && (end < on.samples.len() || parts.is_empty()) {
            let rest = &on.samples[end..];
            let part = &rest[..self.free_length(rest)];
            end += part.len();
            parts.push(part);
        }
        on.segments.extend(self.free_windows((&parts, on.seek), &mut on.search, watch)?);
        on.seek = end;
        Ok(on.seek < on.samples.len())
    }

    /// The text of a transcription whose steps are done.
    pub fn finish(&self, on: Transcription) -> Transcript {
        let Transcription { search, duration, notes, segments, .. } = on;
        let texts: Vec<&str> = segments.iter().map(|segment| segment.text.as_str()).collect();
        let text = texts.iter().filter(|text| !text.is_empty()).copied().collect::<Vec<_>>().join(" ");
        let language = search.language.and_then(|id| {
            self.settings.languages.iter().find(|(_, own)| **own == id).map(|(code, _)| code.clone())
        });
        Transcript { text, language, duration, segments, notes }
    }
}
