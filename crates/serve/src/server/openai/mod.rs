//! The calls of OpenAI's API: `/v1/completions` and `/v1/chat/completions` for language models, `/v1/embeddings` for encoders,
//! `/v1/audio/transcriptions` and `/v1/audio/translations` for speech recognisers, `/v1/models`.
//!
//! `request.rs` reads the fields (`field_names.rs`, `field_values.rs`, `sampling.rs`), `choices.rs` gathers the tokens of each text, `answers.rs` writes them as JSON and `events.rs`
//! as server-sent events, `error.rs` has the errors. `embeddings.rs` is the call for vectors, `audio.rs` those for sounds. [`super::generation`] generates the texts.

mod answers;
mod audio;
mod choices;
mod embeddings;
mod error;
mod events;
mod field_names;
mod field_values;
mod models;
mod request;
mod sampling;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use polyhead_engine::Generator;
use polyhead_engine::generate::GenerateOptions;
use tokio::sync::mpsc::UnboundedReceiver;

use self::answers::{AnswerHead, Usage, WholeText};
use self::choices::Choices;
use self::error::OpenAiError;
use self::events::TextEvents;
use self::field_names::CallKind;
use self::request::{Streaming, TextInput, TextRequest};
use super::generation::{GenerationRequest, LoadedGenerator, Update};
use super::limits::RequestLimits;
use super::routes::{ReadRequest, ServerState, at_most};
use super::scheduler::{Client, Scheduler};
use crate::Error;
use crate::blocking::blocking;
use crate::front::ErrorResponse;
use crate::front::budget::MemoryReservation;
use crate::front::form::{KnownFields, UnknownFields};

pub(super) use audio::{transcriptions, translations};
pub(super) use embeddings::embeddings;
pub(super) use models::{ModelsAnswer, model};

/// Maximum number of JSON values in a request, such as the tokens of prompts.
const VALUES: usize = 1 << 16;

/// Bytes of memory for each byte of a request while it becomes tokens.
const PROMPT_MEMORY: usize = 64;

pub(super) async fn completions(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, OpenAiError> {
    answer(&state, CallKind::Completion, request).await
}

pub(super) async fn chat(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, OpenAiError> {
    answer(&state, CallKind::Chat, request).await
}

async fn answer(state: &ServerState, kind: CallKind, request: Request) -> Result<Response, OpenAiError> {
    let limits = state.limits;
    let deadline = Instant::now() + limits.deadline;
    let known = KnownFields { names: kind.fields(), values: VALUES, unknown: UnknownFields::Named };
    let ReadRequest { fields, client, mut memory, .. } = state.read(request, limits.body, known).await?;
    let call = TextRequest::read(kind, &fields, &limits)?;
    drop(fields);
    at_most(call.input.characters(), limits.characters, "characters")?;
    memory.grow(PROMPT_MEMORY * call.input.characters())?;
    let streaming = call.stream;
    let scheduler = state.scheduler.clone();
    let prepared = blocking(move || Ok(Prepared::new(&call, client, &scheduler, &limits))).await??;
    prepared.reserve(&mut memory)?;
    let updates = prepared.loaded.submit(&prepared.request).map_err(Error::from)?;
    match streaming {
        Streaming::Off => prepared.whole(updates, deadline, memory).await,
        Streaming::Events | Streaming::EventsWithUsage => prepared.events(updates, deadline, memory).await,
    }
}

/// A request with its model and tokens.
struct Prepared {
    loaded: Arc<LoadedGenerator>,
    request: GenerationRequest,
    head: AnswerHead,
    /// The prompt of each text, if it is repeated in the answer.
    echoes: Vec<String>,
    limits: RequestLimits,
}

impl Prepared {
    /// Loads the model and reads the prompts.
    fn new(
        call: &TextRequest,
        client: Client,
        scheduler: &Scheduler,
        limits: &RequestLimits,
    ) -> Result<Self, OpenAiError> {
        let loaded = scheduler.generator(call.model.as_deref())?;
        let generator = &loaded.generator;
        let options = call.sampling.over(&generator.options(), limits.new_tokens)?;
        let options = GenerateOptions { alternatives: call.log_probabilities.unwrap_or(0), ..options };
        options.check().map_err(Error::from)?;
        let prompts = prompts(generator, &call.input)?;
        let echoes = if call.has_echo { echoes(generator, call, &prompts)? } else { Vec::new() };
        let prefix = if call.kind == CallKind::Chat { "chatcmpl" } else { "cmpl" };
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let head = AnswerHead {
            kind: call.kind,
            id: format!("{prefix}-{:016x}", sampling::random()?),
            created,
            model: loaded.name.clone(),
            seed: options.seed,
            has_tokens: call.log_probabilities.is_some(),
            has_usage: call.stream == Streaming::EventsWithUsage,
        };
        let request =
            GenerationRequest { client, prompts, samples: call.samples, options: Arc::new(options) };
        Ok(Self { loaded, request, head, echoes, limits: *limits })
    }

    /// Reserves the memory of all texts and their answers.
    fn reserve(&self, memory: &mut MemoryReservation) -> Result<(), OpenAiError> {
        let echoes: usize = self.echoes.iter().map(|echo| 8 * echo.len()).sum();
        let bytes = self.request.bytes(&self.loaded.generator).saturating_add(echoes);
        let most = memory.largest();
        if bytes > most {
            let [found, limit] = [bytes, most].map(|bytes| format!("{} MiB", bytes.div_ceil(1 << 20)));
            let found = format!("about {found} of memory for {} texts", self.request.n_texts());
            let error = OpenAiError::from(Error::TooLarge { found, limit });
            return Err(error.with_hint("lower max_tokens or n, or send several requests"));
        }
        Ok(memory.resize(bytes)?)
    }

    fn choices(&self) -> Choices {
        let count = self.request.n_texts();
        let offset = |index: usize| self.echoes.get(index).map_or(0, |echo| echo.chars().count());
        Choices::new((0..count).map(offset).collect(), self.head.has_tokens)
    }

    fn prompt_tokens(&self) -> usize {
        self.request.prompts.iter().map(|prompt| prompt.len()).sum()
    }

    /// All texts at once.
    async fn whole(
        self,
        mut updates: UnboundedReceiver<Update>,
        deadline: Instant,
        memory: MemoryReservation,
    ) -> Result<Response, OpenAiError> {
        let mut choices = self.choices();
        let text = |index: usize| WholeText::after(self.echoes.get(index));
        let mut texts: Vec<WholeText> = (0..self.request.n_texts()).map(text).collect();
        while !choices.are_finished() {
            let update = tokio::time::timeout_at(deadline.into(), updates.recv()).await;
            let update = update.map_err(|_| self.late(choices.n_tokens()))?.ok_or_else(ended)?;
            let piece = choices.add(update, self.loaded.generator.tokenizer())?;
            texts[piece.choice].push(piece);
        }
        let usage = Usage::new(self.prompt_tokens(), choices.n_tokens());
        let body = self.head.whole(&texts, usage);
        Ok(([(header::CONTENT_TYPE, "application/json")], memory.counted(body)).into_response())
    }

    /// Texts as they are generated.
    async fn events(
        self,
        mut updates: UnboundedReceiver<Update>,
        deadline: Instant,
        memory: MemoryReservation,
    ) -> Result<Response, OpenAiError> {
        let first = tokio::time::timeout_at(deadline.into(), updates.recv()).await;
        let first = first.map_err(|_| self.late(0))?.ok_or_else(ended)?;
        if let Update { found: Err(error), .. } = first {
            return Err(error.into());
        }
        let events = TextEvents {
            choices: self.choices(),
            begun: vec![false; self.request.n_texts()],
            prompt_tokens: self.prompt_tokens(),
            late: self.late(1),
            timer: Box::pin(tokio::time::sleep_until(deadline.into())),
            updates,
            first: Some(first),
            head: self.head,
            echoes: self.echoes,
            loaded: self.loaded,
            is_over: false,
            _memory: memory,
        };
        Ok(events.response())
    }

    /// The error of a deadline that passed after so many tokens: without any, the server was busy.
    fn late(&self, n_tokens: usize) -> OpenAiError {
        let seconds = self.limits.deadline.as_secs();
        if n_tokens == 0 {
            let found = format!("no token was generated within the deadline of {seconds} s");
            return Error::Busy { found, retry_after: 1 }.into();
        }
        let error = format!("the text was not finished within the deadline of {seconds} s");
        let hint = "lower max_tokens, or raise --deadline of the server";
        OpenAiError::from(ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, error, hint))
            .with_code("deadline_exceeded")
    }
}

/// The error of texts whose runner has ended.
fn ended() -> OpenAiError {
    Error::Busy { found: "the server is shutting down".into(), retry_after: 1 }.into()
}

/// The tokens of each prompt, checked.
fn prompts(generator: &Generator, input: &TextInput) -> Result<Vec<Arc<[u32]>>, OpenAiError> {
    let (field, prompts) = match input {
        TextInput::Texts(texts) => {
            let prompts = texts.iter().map(|text| generator.encode(text)).collect::<Result<Vec<_>, _>>();
            ("prompt", prompts.map_err(Error::from)?)
        }
        TextInput::Ids(prompts) => ("prompt", prompts.clone()),
        TextInput::Messages(messages) => {
            ("messages", vec![generator.encode_chat(messages).map_err(Error::from)?])
        }
    };
    for prompt in &prompts {
        if prompt.is_empty() {
            let hint = "send at least one token";
            return Err(OpenAiError::field(field, format!("{field}: no tokens, expected some"), hint));
        }
        let vocab_size = generator.model().vocab_size();
        if let Some(id) = prompt.iter().find(|&&id| id as usize >= vocab_size) {
            let error =
                format!("{field}: token {id}, expected one below {vocab_size}, the size of the vocabulary");
            return Err(OpenAiError::field(field, error, "are these tokens of another model?"));
        }
        if let Some(most) = generator.model().max_len().filter(|&most| prompt.len() > most) {
            let found = prompt.len();
            let error = format!("{field}: {found} tokens, expected at most {most}, the context of the model");
            let error = OpenAiError::field(field, error, "shorten it");
            return Err(error.with_code("context_length_exceeded"));
        }
    }
    Ok(prompts.into_iter().map(Into::into).collect())
}

/// The prompt of each text.
fn echoes(
    generator: &Generator,
    call: &TextRequest,
    prompts: &[Arc<[u32]>],
) -> Result<Vec<String>, OpenAiError> {
    let texts = if let TextInput::Texts(texts) = &call.input {
        texts.clone()
    } else {
        let texts = prompts.iter().map(|prompt| generator.tokenizer().decode(prompt));
        texts.collect::<Result<_, _>>().map_err(|error| Error::Translate(error.into()))?
    };
    Ok(texts.into_iter().flat_map(|text| vec![text; call.samples]).collect())
}
