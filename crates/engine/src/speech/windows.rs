//! Windows of a sound, one after the other, and the segments of their texts.

use polyhead_attention::Watch;

use super::recognise::{Recognised, Search};
use super::segments::{PRECISION, divide};
use super::transcript::{Segment, Word};
use super::words::words;
use super::{SpeechEngine, TranscribeOptions};
use crate::Result;

/// Windows of short sounds that are searched together.
pub(super) const TOGETHER: usize = 16;
/// Part of a window in whose last frames a quiet place to end it is looked for.
const SEARCHED: usize = 4;

impl SpeechEngine {
    /// The texts of sounds of the model's rate, of which the first window counts. Sounds are searched together, which
    /// changes no text.
    ///
    /// # Errors
    /// If an option does not fit the model, or the device fails.
    pub fn recognise_all(&self, sounds: &[&[f32]], options: &TranscribeOptions) -> Result<Vec<String>> {
        let mut texts = Vec::with_capacity(sounds.len());
        let search = self.search(options)?;
        let batch = if self.model.config().pad_sound { 1 } else { TOGETHER };
        for sounds in sounds.chunks(batch) {
            let windows: Vec<_> = sounds.iter().map(|samples| self.first_window(samples)).collect();
            let rows: Vec<(&[f32], usize)> =
                windows.iter().map(|(frames, sound)| (&frames[..], *sound)).collect();
            let found = self.recognise(&rows, &mut search.clone(), None)?;
            texts.extend(found.iter().map(|found| self.text(&found.ids)).collect::<Result<Vec<_>>>()?);
        }
        Ok(texts)
    }

    /// The frames of the first window, and how many of them are sound.
    pub(super) fn first_window(&self, samples: &[f32]) -> (Vec<f32>, usize) {
        let most = self.model.config().max_frames;
        let samples = &samples[..samples.len().min(most * self.features.hop())];
        let sound = self.features.n_frames(samples.len());
        (self.features.frames(samples, if self.model.config().pad_sound { most } else { sound }), sound)
    }

    /// The segments of the next window of a sound by a model that pads its windows, and the frames after which the one after it
    /// begins: where the last complete segment ended.
    pub(super) fn padded_window(
        &self,
        (frames, seek, total): (&[f32], usize, usize),
        search: &mut Search,
        watch: Option<Watch<'_>>,
    ) -> Result<(Vec<Segment>, usize)> {
        let (most, n_mels) = (self.model.config().max_frames, self.model.config().n_mels);
        let end = (seek + most).min(frames.len() / n_mels);
        let mut window = frames[seek * n_mels..end * n_mels].to_vec();
        window.resize(most * n_mels, 0.0);
        let sound = most.min(total - seek);
        let recognised = self.recognise(&[(&window, sound)], search, watch)?.remove(0);
        // Without timestamps no token is one, and the window is one segment.
        let first_id = if search.timestamps {
            self.settings.timestamps().map_or(u32::MAX, |own| own.first_id)
        } else {
            u32::MAX
        };
        let (segments, next) = divide(&recognised.ids, first_id, sound);
        let offset = self.model.config().seconds(seek);
        let segments = segments.into_iter().map(|segment| (segment.tokens, segment.times));
        Ok((self.segments(&recognised, segments, (offset, search.word_times))?, next))
    }

    /// The length of the next window of a sound for a model without padding: it ends where it is quiet.
    pub(super) fn free_length(&self, rest: &[f32]) -> usize {
        let hop = self.features.hop();
        let most = self.model.config().max_frames * hop;
        if rest.len() > most { quiet(&rest[..most], hop) } else { rest.len() }
    }

    /// The segments of windows of a sound, one after the other, the first of which begins at sample `seek`.
    pub(super) fn free_windows(
        &self,
        (parts, mut seek): (&[&[f32]], usize),
        search: &mut Search,
        watch: Option<Watch<'_>>,
    ) -> Result<Vec<Segment>> {
        let windows: Vec<_> = parts.iter().map(|part| self.first_window(part)).collect();
        let rows: Vec<(&[f32], usize)> =
            windows.iter().map(|(frames, sound)| (&frames[..], *sound)).collect();
        let mut found = Vec::new();
        for (recognised, part) in self.recognise(&rows, search, watch)?.iter().zip(parts) {
            let rate = self.model.config().sample_rate as f64;
            let (offset, length) = (seek as f64 / rate, part.len() as f64 / rate);
            let whole = std::iter::once((0..recognised.ids.len(), [0.0, length]));
            found.extend(self.segments(recognised, whole, (offset, search.word_times))?);
            seek += part.len();
        }
        Ok(found)
    }

    /// Segments of a window that begins at `offset` seconds.
    pub(super) fn segments(
        &self,
        recognised: &Recognised,
        divided: impl Iterator<Item = (std::ops::Range<usize>, [f64; 2])>,
        (offset, word_times): (f64, bool),
    ) -> Result<Vec<Segment>> {
        let is_text = |id: &u32| self.is_text(*id);
        let time = |position: usize| offset + position as f64 * PRECISION;
        let mut segments = Vec::new();
        for (range, [start, end]) in divided {
            let tokens = &recognised.ids[range.clone()];
            let words = if word_times {
                let text: Vec<u32> = tokens.iter().copied().filter(is_text).collect();
                let before = recognised.ids[..range.start].iter().filter(|id| is_text(id)).count();
                let starts = &recognised.starts[before.min(recognised.starts.len())..];
                let at = |token: usize| time(starts.get(token).or(starts.last()).copied().unwrap_or(0));
                let word = |word: super::words::TokenWord| Word {
                    start: at(word.tokens.start),
                    end: at(word.tokens.end),
                    word: word.text,
                };
                Some(words(&self.tokenizer, &text)?.into_iter().map(word).collect())
            } else {
                None
            };
            segments.push(Segment {
                start: offset + start,
                end: offset + end,
                text: self.text(tokens)?,
                tokens: tokens.to_vec(),
                log_probability: recognised.log_probability,
                words,
            });
        }
        Ok(segments)
    }
}

/// The quietest place in the last quarter of a window, in samples.
fn quiet(window: &[f32], hop: usize) -> usize {
    let first = window.len() - window.len() / SEARCHED;
    // Energy of a fifth of a second.
    let width = 20 * hop;
    let energy = |at: usize| -> f64 {
        window[at..(at + width).min(window.len())].iter().map(|sample| f64::from(*sample).powi(2)).sum()
    };
    let places = (first..window.len().saturating_sub(width).max(first + 1)).step_by(hop);
    let best = places.min_by(|a, b| energy(*a).total_cmp(&energy(*b))).unwrap_or(first);
    (best + width / 2).clamp(1, window.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_in_its_quietest_part() {
        let mut window = vec![0.5; 16_000];
        window[13_000..14_500].fill(0.0);
        // Loud before the last quarter, however quiet.
        window[2_000..6_000].fill(0.0);
        let found = quiet(&window, 40);
        assert!((13_200..14_300).contains(&found), "{found}");
        assert_eq!(quiet(&[0.5; 3], 40), 3);
    }
}
