//! Frames of windows in, tokens out: language, prefix, search, and the times of tokens.

use polyhead_attention::{Capture, Pass, Watch};
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken as _};
use polyhead_models::text_decoder::{Encoded, EncodedDecoding};
use polyhead_tensor::{Tape, Tensor};

use super::{SpeechEngine, SpeechTask, TranscribeOptions, Word, times};
use crate::encoded_text::{TextAttention, TextSearch, attend, scored};
use crate::{Error, Result};

/// What a search does, resolved for a model.
#[derive(Debug, Clone)]
pub(super) struct Search {
    /// Rules without prefixes.
    decode: DecodeOptions,
    /// The language; none until it is detected, or for a model of one language.
    pub(super) language: Option<u32>,
    detects: bool,
    task: Option<u32>,
    /// True if the model writes timestamps.
    pub(super) timestamps: bool,
    pub(super) word_times: bool,
    text: TextSearch,
}

/// The tokens of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Recognised {
    /// The tokens after the prefix, without the end token.
    pub ids: Vec<u32>,
    /// Mean log-probability of the tokens, the end token included.
    pub log_probability: f64,
    /// The position of the encoder at which each token of the text begins, and after the last the one at which it ends.
    pub(super) starts: Vec<usize>,
}

impl SpeechEngine {
    /// Resolves options.
    pub(super) fn search(&self, options: &TranscribeOptions) -> Result<Search> {
        let settings = &self.settings;
        let special = self.model.special_ids();
        let most = settings.text.max_length.saturating_sub(1).max(1);
        let lengths = Lengths {
            max: most,
            max_new: options.max_tokens,
            min_new: options.min_tokens,
            ..Lengths::default()
        };
        let mut rules = settings.text.rules.clone();
        let timestamps = options.timestamps && settings.no_timestamps.is_some();
        rules.timestamps = if timestamps { settings.timestamps() } else { None };
        if let Some(none) = settings.timestamps().filter(|_| !timestamps) {
            rules.forbidden.extend(none.first_id..self.model.config().vocab_size as u32);
        }
        if !(options.temperature >= 0.0 && options.temperature.is_finite()) {
            let message = format!("a temperature of {}, expected 0 or more", options.temperature);
            return Err(Error::request(message, "0 does not sample"));
        }
        let name = match options.task {
            SpeechTask::Transcribe => "transcribe",
            SpeechTask::Translate => "translate",
        };
        let task = settings.tasks.get(name).copied();
        if task.is_none() && options.task == SpeechTask::Translate {
            return Err(Error::request(
                "translation, but this model writes the language that is spoken",
                "leave the option out, and use polyhead translate after it",
            ));
        }
        let language = options.language.as_deref().map(|code| settings.language(code)).transpose()?;
        let forced = settings.forced.iter().find(|id| settings.languages.values().any(|own| own == *id));
        let language = language.or(forced.copied());
        Ok(Search {
            decode: DecodeOptions { start_id: special.start_id, end_id: special.end_id, lengths, rules },
            detects: language.is_none() && !settings.languages.is_empty(),
            language,
            task,
            timestamps,
            word_times: options.word_times,
            text: TextSearch {
                beam_size: settings.text.beam_size(options.beam_size)?,
                length_penalty: settings.text.length_penalty,
                temperature: options.temperature,
                seed: options.seed,
            },
        })
    }

    /// The tokens of windows, each frames × n_mels; `frames` is how many of the first are sound and not padding.
    pub(super) fn recognise(
        &self,
        windows: &[(&[f32], usize)],
        search: &mut Search,
        watch: Option<Watch<'_>>,
    ) -> Result<Vec<Recognised>> {
        let n_mels = self.model.config().n_mels;
        let longest = windows.iter().map(|(frames, _)| frames.len() / n_mels).max().unwrap_or(0);
        let capture = Capture::off();
        let tape = Tape::inference();
        let pass = Pass { watch, ..Pass::new(&tape, &self.parameters, &capture) };
        let frames = self.model.frames(windows.iter().map(|(frames, _)| Some(*frames)), longest);
        let encoded = self.model.encode(&pass, &frames)?;
        let decoding = EncodedDecoding {
            decoder: self.model.decoder(),
            parameters: &self.parameters,
            capture: &capture,
            encoded: &encoded,
            watch,
        };
        let rows: Vec<[u32; 1]> = (0..windows.len() as u32).map(|row| [row]).collect();
        let sources: Vec<&[u32]> = rows.iter().map(|row| &row[..]).collect();
        if search.detects && search.language.is_none() {
            search.language = Some(self.detect_language(&decoding, sources[0])?);
        }
        let prefix = self.prefix(search, search.timestamps);
        let mut decode = search.decode.clone();
        if !prefix.is_empty() {
            decode.rules.prefixes = vec![prefix.clone(); sources.len()];
        }
        let hypotheses = search.text.run(&decoding, &sources, decode)?;
        let mut found = Vec::with_capacity(hypotheses.len());
        for (row, (hypothesis, (_, sound))) in hypotheses.into_iter().zip(windows).enumerate() {
            let end = (prefix.len(), search.decode.end_id);
            let (ids, log_probability) = scored(&hypothesis, end, &search.text);
            let starts = if search.word_times {
                self.token_starts((&encoded, row), &ids, (*sound, search))?
            } else {
                Vec::new()
            };
            found.push(Recognised { ids, log_probability, starts });
        }
        Ok(found)
    }

    /// The most probable language after the start token.
    fn detect_language(&self, decoding: &EncodedDecoding<'_>, source: &[u32]) -> Result<u32> {
        let mut state = decoding.start(&[source], 1)?;
        let logits = decoding.step(&mut state, &[self.model.special_ids().start_id])?.to_host()?;
        let score = |id: u32| logits.data()[id as usize];
        let mut best: Option<u32> = None;
        let mut ids: Vec<u32> = self.settings.languages.values().copied().collect();
        ids.sort_unstable();
        for id in ids {
            if best.is_none_or(|best| score(id) > score(best)) {
                best = Some(id);
            }
        }
        Ok(best.expect("a model that detects has languages"))
    }

    /// The tokens after the start token that say language, task, and whether there are timestamps.
    fn prefix(&self, search: &Search, timestamps: bool) -> Vec<u32> {
        let settings = &self.settings;
        let mut prefix: Vec<u32> = if settings.languages.is_empty() {
            settings.forced.iter().copied().filter(|id| Some(*id) != settings.no_timestamps).collect()
        } else {
            search.language.into_iter().chain(search.task).collect()
        };
        prefix.extend(settings.no_timestamps.filter(|_| !timestamps));
        prefix
    }

    /// The position at which each token of a text begins, timestamps among the tokens left out, and at which the text ends.
    fn token_starts(
        &self,
        encoded: (&Encoded, usize),
        ids: &[u32],
        (frames, search): (usize, &Search),
    ) -> Result<Vec<usize>> {
        let text: Vec<u32> = ids.iter().copied().filter(|id| self.is_text(*id)).collect();
        let attention = self.attend(encoded, &text, search)?;
        let positions = frames.div_ceil(2).max(1);
        let all = self.model.config().decoder.n_layers;
        let mut heads = Vec::new();
        for TextAttention { site, weights } in attention {
            let &[n_heads, tokens, length] = weights.shape() else {
                unreachable!("heads × tokens × positions")
            };
            for head in 0..n_heads {
                let listed = &self.settings.alignment_heads;
                let is_used = if listed.is_empty() {
                    site.layer >= all / 2
                } else {
                    listed.contains(&[site.layer, head])
                };
                if is_used {
                    let rows = weights.data()[head * tokens * length..(head + 1) * tokens * length]
                        .chunks_exact(length);
                    let cut = rows.flat_map(|row| row[..positions.min(length)].iter().copied()).collect();
                    heads.push(Tensor::new(&[tokens, positions.min(length)], cut));
                }
            }
        }
        Ok(times::starts(&heads))
    }

    /// The cross-attention from each token of a text, and from the end token, to a sound.
    fn attend(
        &self,
        encoded: (&Encoded, usize),
        text: &[u32],
        search: &Search,
    ) -> Result<Vec<TextAttention>> {
        let prefix = self.prefix(search, false);
        let of_model = (self.model.special_ids(), self.model.config().max_len);
        attend((self.model.decoder(), &self.parameters), encoded, (&prefix, text), of_model)
    }

    /// The text of a sound of at most one window: its tokens, its words with their times, and its cross-attention.
    ///
    /// # Errors
    /// If an option does not fit the model, or the device fails.
    pub fn attention(
        &self,
        samples: &[f32],
        options: &TranscribeOptions,
    ) -> Result<(Vec<u32>, Vec<Word>, Vec<TextAttention>)> {
        let mut search = self.search(&TranscribeOptions { word_times: true, ..options.clone() })?;
        let (frames, sound) = self.first_window(samples);
        let found = self.recognise(&[(&frames, sound)], &mut search, None)?.remove(0);
        let whole = std::iter::once((0..found.ids.len(), [0.0, self.model.config().seconds(sound)]));
        let segments = self.segments(&found, whole, (0.0, true))?;
        let words = segments.into_iter().flat_map(|segment| segment.words.into_iter().flatten()).collect();
        let text: Vec<u32> = found.ids.iter().copied().filter(|id| self.is_text(*id)).collect();
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &self.parameters, &capture);
        let n_frames = frames.len() / self.model.config().n_mels;
        let batch = self.model.frames(std::iter::once(Some(&frames[..])), n_frames);
        let encoded = self.model.encode(&pass, &batch)?;
        let attention = self.attend((&encoded, 0), &text, &search)?;
        Ok((text, words, attention))
    }
}
