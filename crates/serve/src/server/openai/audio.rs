//! `/v1/audio/transcriptions` and `/v1/audio/translations`: what is said in a sound.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use polyhead_engine::speech::{Segment, SpeechTask, TranscribeOptions, Transcript, Word};
use polyhead_translate::languages;
use serde::Serialize;
use serde_json::Value;

use super::super::routes::{ReadRequest, ServerState};
use super::super::speech::SpeechCall;
use super::error::OpenAiError;
use super::field_names::{UnsupportedField, check_known, check_supported, is_empty};
use super::field_values::{HINT, decimal, named, text, whole};
use crate::Error;
use crate::front::budget::MemoryReservation;
use crate::front::fields::{Fields, Texts, quoted};
use crate::front::form::{KnownFields, UnknownFields};

/// Fields of `/v1/audio/transcriptions`.
#[rustfmt::skip]
const TRANSCRIPTION: &[&str] = &[
    "file",
    "model",
    "language",
    "prompt",
    "response_format",
    "temperature",
    "timestamp_granularities[]",
    "timestamp_granularities",
    "seed",
    "beam_size",
    "stream",
    "include[]",
    "include",
    "chunking_strategy",
    "known_speaker_names[]",
    "known_speaker_names",
    "known_speaker_references[]",
    "known_speaker_references",
    "api_key",
];

/// Fields of `/v1/audio/translations`.
#[rustfmt::skip]
const TRANSLATION: &[&str] = &[
    "file",
    "model",
    "prompt",
    "response_format",
    "temperature",
    "seed",
    "beam_size",
    "api_key",
];

const UNSUPPORTED: &[UnsupportedField] = &[
    ("prompt", is_empty, "the model gets no text before the sound"),
    ("stream", is_off, "the text is sent once it is complete"),
    (
        "include[]",
        is_empty,
        "answers have no log-probabilities of tokens; verbose_json has those of segments",
    ),
    ("include", is_empty, "answers have no log-probabilities of tokens; verbose_json has those of segments"),
    ("chunking_strategy", is_empty, "long sounds are always read window by window"),
    ("known_speaker_names[]", is_empty, "speakers are not told apart"),
    ("known_speaker_names", is_empty, "speakers are not told apart"),
    ("known_speaker_references[]", is_empty, "speakers are not told apart"),
    ("known_speaker_references", is_empty, "speakers are not told apart"),
];

/// The highest temperature of sampling.
const HOTTEST: f32 = 1.0;

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SoundFormat {
    Json,
    Text,
    VerboseJson,
    Srt,
    Vtt,
}

/// Which parts of a text have times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Granularities {
    segments: bool,
    words: bool,
}

pub(in super::super) async fn transcriptions(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, OpenAiError> {
    answer(&state, SpeechTask::Transcribe, request).await
}

pub(in super::super) async fn translations(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, OpenAiError> {
    answer(&state, SpeechTask::Translate, request).await
}

async fn answer(state: &ServerState, task: SpeechTask, request: Request) -> Result<Response, OpenAiError> {
    let deadline = Instant::now() + state.limits.file_deadline;
    let names = if task == SpeechTask::Transcribe { TRANSCRIPTION } else { TRANSLATION };
    let known = KnownFields { names, values: names.len(), unknown: UnknownFields::Named };
    let read = state.read(request, state.limits.sound, known).await?;
    let ReadRequest { fields, client, mut memory, .. } = read;
    check_known(names, &fields)?;
    check_supported(UNSUPPORTED, &fields)?;
    let format = format(&fields)?;
    let granularities = granularities(&fields, format)?;
    let options = options(&fields, task, granularities, state.limits.beam_size)?;
    let model = text(&fields, "model")?;
    check_model(state, model.as_deref(), &options)?;
    let file = fields.file("file").map_err(|error| named("file", error))?.ok_or_else(|| {
        let hint = "send it as multipart/form-data: curl -F file=@talk.wav";
        OpenAiError::field("file", "file: missing, expected a WAV file", hint)
    })?;
    let file = file.bytes.clone();
    drop(fields);
    let temperature = options.temperature;
    let call = SpeechCall { client, model, file, options, deadline };
    let found = call.run(state, &mut memory).await.map_err(about_file)?;
    let written = Written { task, temperature, transcript: &found };
    Ok(written.response(format, granularities, memory))
}

/// The error of a sound that cannot be read names its field.
fn about_file(error: Error) -> OpenAiError {
    match error {
        Error::Refused(response) if response.status == StatusCode::BAD_REQUEST => named("file", response),
        other => other.into(),
    }
}

fn format(fields: &Fields) -> Result<SoundFormat, OpenAiError> {
    match text(fields, "response_format")?.as_deref() {
        None | Some("json") => Ok(SoundFormat::Json),
        Some("text") => Ok(SoundFormat::Text),
        Some("verbose_json") => Ok(SoundFormat::VerboseJson),
        Some("srt") => Ok(SoundFormat::Srt),
        Some("vtt") => Ok(SoundFormat::Vtt),
        Some(other) => {
            let error =
                format!("response_format: {}, expected json, text, srt, verbose_json or vtt", quoted(other));
            Err(OpenAiError::field("response_format", error, HINT))
        }
    }
}

/// The parts that shall have times; default: segments.
fn granularities(fields: &Fields, format: SoundFormat) -> Result<Granularities, OpenAiError> {
    const NAME: &str = "timestamp_granularities";
    let mut asked = Vec::new();
    for name in ["timestamp_granularities[]", NAME] {
        match fields.texts(name).map_err(|error| named(NAME, error))? {
            None => {}
            Some(Texts::One(one)) => asked.push(one),
            Some(Texts::Many(many)) => asked.extend(many),
        }
    }
    if asked.is_empty() {
        return Ok(Granularities { segments: true, words: false });
    }
    if format != SoundFormat::VerboseJson {
        let error = format!("{NAME}: only verbose_json has times of segments and words");
        return Err(OpenAiError::field(NAME, error, "send response_format=verbose_json, or leave it out"));
    }
    if let Some(other) = asked.iter().find(|asked| !["word", "segment"].contains(&asked.as_str())) {
        let error = format!("{NAME}: {}, expected word or segment", quoted(other));
        return Err(OpenAiError::field(NAME, error, HINT));
    }
    let has = |name: &str| asked.iter().any(|asked| asked == name);
    Ok(Granularities { segments: has("segment"), words: has("word") })
}

fn options(
    fields: &Fields,
    task: SpeechTask,
    granularities: Granularities,
    most_beams: usize,
) -> Result<TranscribeOptions, OpenAiError> {
    let is_temperature = |value: f32| (0.0..=HOTTEST).contains(&value);
    let temperature = decimal(fields, "temperature", is_temperature, "a number from 0 to 1")?.unwrap_or(0.0);
    let beam_size = whole(fields, "beam_size", [1, most_beams])?;
    if temperature > 0.0 && beam_size.is_some_and(|size| size > 1) {
        let error = "beam_size: with a temperature, expected one of them";
        return Err(OpenAiError::field("beam_size", error, "leave one of them out"));
    }
    let seed = whole(fields, "seed", [0, usize::MAX])?.unwrap_or(0) as u64;
    let language = text(fields, "language")?.filter(|language| !language.is_empty());
    let word_times = granularities.words;
    Ok(TranscribeOptions {
        language,
        task,
        word_times,
        beam_size,
        temperature,
        seed,
        ..TranscribeOptions::default()
    })
}

/// Refuses a language or a task that the model does not know, before anything is done for the sound.
fn check_model(
    state: &ServerState,
    model: Option<&str>,
    options: &TranscribeOptions,
) -> Result<(), OpenAiError> {
    let summary = state.scheduler.speech_summary(model)?;
    if options.task == SpeechTask::Translate && !summary.translates {
        let error = "this model writes the language that is spoken, expected one that translates";
        let hint = "send the sound to /v1/audio/transcriptions, and its text to /v1/translate";
        return Err(OpenAiError::field("model", error, hint).with_code("unsupported_model"));
    }
    let Some(language) = &options.language else { return Ok(()) };
    if summary.languages.is_empty() {
        let error = format!("language: {}, but this model has one language", quoted(language));
        return Err(OpenAiError::field("language", error, "leave it out"));
    }
    if !summary.languages.contains(&language.to_lowercase()) {
        let known = summary.languages.join(", ");
        let error = format!("language: {}, expected one of {known}", quoted(language));
        return Err(OpenAiError::field("language", error, "without it, the language is detected"));
    }
    Ok(())
}

/// A text and how it came about.
struct Written<'a> {
    task: SpeechTask,
    temperature: f32,
    transcript: &'a Transcript,
}

impl Written<'_> {
    fn response(&self, format: SoundFormat, parts: Granularities, memory: MemoryReservation) -> Response {
        let (media_type, body) = match format {
            SoundFormat::Json => ("application/json", written(&self.short())),
            SoundFormat::VerboseJson => ("application/json", written(&self.verbose(parts))),
            SoundFormat::Text => (PLAIN, format!("{}\n", self.transcript.text)),
            SoundFormat::Srt => (PLAIN, self.transcript.to_srt()),
            SoundFormat::Vtt => ("text/vtt; charset=utf-8", self.transcript.to_vtt()),
        };
        ([(header::CONTENT_TYPE, media_type)], memory.counted(body.into_bytes())).into_response()
    }

    fn short(&self) -> ShortAnswer<'_> {
        let Transcript { text, notes, .. } = self.transcript;
        ShortAnswer { text, usage: self.usage(), notes }
    }

    fn usage(&self) -> SoundUsage {
        SoundUsage { kind: "duration", seconds: self.transcript.duration.ceil() as u64 }
    }

    fn verbose(&self, parts: Granularities) -> VerboseAnswer<'_> {
        let Transcript { text, language, duration, segments, notes } = self.transcript;
        let words = || segments.iter().flat_map(|segment| segment.words.iter().flatten());
        VerboseAnswer {
            task: if self.task == SpeechTask::Translate { "translate" } else { "transcribe" },
            language: language.as_deref().map(|code| languages::name(code).to_lowercase()),
            duration: *duration,
            text,
            segments: parts.segments.then(|| (0..).zip(segments).map(|own| self.segment(own)).collect()),
            words: parts.words.then(|| words().collect()),
            usage: self.usage(),
            notes,
        }
    }

    fn segment<'a>(&self, (id, segment): (usize, &'a Segment)) -> SegmentAnswer<'a> {
        let Segment { start, end, text, tokens, log_probability, .. } = segment;
        let (start, end, avg_logprob) = (*start, *end, *log_probability);
        SegmentAnswer { id, start, end, text, tokens, temperature: self.temperature, avg_logprob }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn written(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).expect("plain values")
}

#[derive(Serialize)]
struct SoundUsage {
    #[serde(rename = "type")]
    kind: &'static str,
    seconds: u64,
}

/// The answer in the format `json`.
#[derive(Serialize)]
struct ShortAnswer<'a> {
    text: &'a str,
    usage: SoundUsage,
    /// What was done to the sound, or is missing.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

/// The answer in the format `verbose_json`.
#[derive(Serialize)]
struct VerboseAnswer<'a> {
    task: &'static str,
    /// The English name of the language; null for a model of one language.
    language: Option<String>,
    duration: f64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    segments: Option<Vec<SegmentAnswer<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<Vec<&'a Word>>,
    usage: SoundUsage,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
}

#[derive(Serialize)]
struct SegmentAnswer<'a> {
    id: usize,
    start: f64,
    end: f64,
    text: &'a str,
    tokens: &'a [u32],
    temperature: f32,
    avg_logprob: f64,
}

fn is_off(value: &Value) -> bool {
    match value {
        Value::Bool(is_on) => !is_on,
        Value::String(text) => ["", "false", "0"].contains(&text.to_lowercase().as_str()),
        _ => false,
    }
}
