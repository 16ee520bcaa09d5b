//! What was said in a sound: text, segments with their times, words with theirs.

use std::fmt::Write as _;

use serde::Serialize;

/// The text of a sound.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Transcript {
    /// The whole text.
    pub text: String,
    /// The language: given, or detected; none for a model of one language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Seconds of sound.
    pub duration: f64,
    /// Its parts in order.
    pub segments: Vec<Segment>,
    /// What was done to the sound, or is missing.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Segment {
    /// Its start in seconds.
    pub start: f64,
    /// Its end in seconds.
    pub end: f64,
    /// Its text.
    pub text: String,
    /// Its tokens, timestamps included.
    pub tokens: Vec<u32>,
    /// Mean log-probability of the tokens of its window.
    pub log_probability: f64,
    /// Its words, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<Vec<Word>>,
}

/// A word with its times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Word {
    /// The word.
    pub word: String,
    /// Its start in seconds.
    pub start: f64,
    /// Its end in seconds.
    pub end: f64,
}

impl Transcript {
    /// The segments as subtitles in the format SubRip.
    pub fn to_srt(&self) -> String {
        let mut all = String::new();
        for (number, segment) in (1..).zip(&self.segments) {
            let [start, end] = [segment.start, segment.end].map(|time| clock(time, ','));
            let _ = write!(all, "{number}\n{start} --> {end}\n{}\n\n", segment.text);
        }
        all
    }

    /// The segments as subtitles in the format WebVTT.
    pub fn to_vtt(&self) -> String {
        let mut all = "WEBVTT\n\n".to_owned();
        for segment in &self.segments {
            let [start, end] = [segment.start, segment.end].map(|time| clock(time, '.'));
            let _ = write!(all, "{start} --> {end}\n{}\n\n", segment.text.replace("-->", "->"));
        }
        all
    }
}

/// Hours, minutes, seconds and milliseconds.
fn clock(seconds: f64, mark: char) -> String {
    let all = (seconds.max(0.0) * 1_000.0).round() as u64;
    let [hours, minutes, seconds] = [all / 3_600_000, all / 60_000 % 60, all / 1_000 % 60];
    format!("{hours:02}:{minutes:02}:{seconds:02}{mark}{:03}", all % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtitles_have_numbers_and_clock_times() {
        let segment = |start, end, text: &str| Segment {
            start,
            end,
            text: text.into(),
            tokens: Vec::new(),
            log_probability: 0.0,
            words: None,
        };
        let segments = vec![segment(0.0, 1.5, "one"), segment(3_661.0, 3_662.25, "two --> three")];
        let transcript = Transcript { segments, ..Transcript::default() };
        assert_eq!(
            transcript.to_srt(),
            "1\n00:00:00,000 --> 00:00:01,500\none\n\n2\n01:01:01,000 --> 01:01:02,250\ntwo --> three\n\n"
        );
        assert_eq!(
            transcript.to_vtt(),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\none\n\n01:01:01.000 --> 01:01:02.250\ntwo -> three\n\n"
        );
    }
}
