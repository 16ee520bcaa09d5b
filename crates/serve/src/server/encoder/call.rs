//! A call to an encoder: model, texts → tokens → memory of the answer → queue → numbers.

use std::sync::Arc;
use std::time::Instant;

use polyhead_engine::LongTexts;
use polyhead_engine::encoder::TextInput;
use polyhead_tensor::Dtype;
use serde::Serialize;
use tokio::sync::mpsc;

use super::{EncoderInput, EncoderOutput, EncoderUse, LoadedEncoder, QueuedText, TextResult};
use crate::Error;
use crate::blocking::blocking;
use crate::front::ErrorResponse;
use crate::front::budget::{MemoryReservation, OutOfMemory};
use crate::front::rate::Client;
use crate::server::limits::RequestLimits;
use crate::server::routes::{ServerState, at_most, reserve};
use crate::server::scheduler::{Scheduler, Slice};
use crate::server::work::QueuedWork;

/// Bytes of memory for each byte of the longest text while it becomes tokens: 680 for 50,000 full stops.
const READ_MEMORY: usize = 800;
/// Bytes for each byte of all texts: the text, its copy, and its ids, which may be one for each byte.
const TEXT_MEMORY: usize = 10;
/// Bytes of a waiting text beside its ids, and of its part of an answer beside its numbers.
const ROW_MEMORY: usize = 256;
/// What memory is reserved for.
const WHAT: &str = "the texts and the answer";

/// A checked call.
#[derive(Debug)]
pub(crate) struct EncoderCall {
    pub(crate) client: Client,
    /// Name of the model; default: the first that is meant for this use.
    pub(crate) model: Option<String>,
    pub(crate) needed: EncoderUse,
    pub(crate) output: EncoderOutput,
    pub(crate) inputs: Vec<EncoderInput>,
    /// What happens to texts that are too long.
    pub(crate) long: LongTexts,
    /// Name of a prompt of the model.
    pub(crate) prompt: Option<String>,
    /// Size of the vectors that is asked for.
    pub(crate) dimensions: Option<usize>,
    /// Bytes of a number in the answer.
    pub(crate) number_bytes: usize,
    /// Bytes of texts in the answer.
    pub(crate) text_bytes: usize,
    pub(crate) deadline: Instant,
}

/// What was computed of the texts of a call.
#[derive(Debug)]
pub(crate) struct EncodedTexts {
    pub(crate) loaded: Arc<LoadedEncoder>,
    /// The numbers of each text.
    pub(crate) rows: Vec<Vec<f32>>,
    /// Tokens of all texts, special tokens included.
    pub(crate) n_tokens: usize,
    /// Bytes of the answer, at most.
    answer_bytes: usize,
}

impl EncodedTexts {
    /// An answer as JSON, written into memory that was reserved for it.
    pub(crate) fn json(&self, answer: &impl Serialize) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.answer_bytes);
        serde_json::to_writer(&mut body, answer).expect("plain values");
        body.shrink_to_fit();
        body
    }
}

/// Why a call cannot be answered.
#[derive(Debug)]
pub(crate) enum EncoderError {
    /// A text has more tokens than the model accepts.
    TooLong(ErrorResponse),
    /// A text cannot be read as tokens.
    Unreadable(ErrorResponse),
    /// Another size of vectors than the model's.
    Dimensions(ErrorResponse),
    /// Another error.
    Other(Error),
}

impl From<Error> for EncoderError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<OutOfMemory> for EncoderError {
    fn from(error: OutOfMemory) -> Self {
        Self::Other(error.into())
    }
}

/// A model and tokens.
struct PreparedCall {
    loaded: Arc<LoadedEncoder>,
    inputs: Vec<TextInput>,
}

impl EncoderCall {
    /// Checks the number of texts and characters.
    pub(crate) fn check(&self, limits: &RequestLimits) -> Result<(), Error> {
        at_most(self.inputs.len(), limits.inputs, "texts")?;
        let characters = self.inputs.iter().map(EncoderInput::characters);
        at_most(characters.clone().max().unwrap_or(0), limits.characters, "characters of a text")?;
        at_most(characters.sum(), limits.input_characters, "characters")
    }

    /// Encodes the texts. The reservation is that of the request, and has room for the answer after.
    pub(crate) async fn run(
        self,
        state: &ServerState,
        memory: &mut MemoryReservation,
    ) -> Result<EncodedTexts, EncoderError> {
        self.check(&state.limits)?;
        let deadline = self.deadline;
        let late = || {
            let seconds = state.limits.deadline.as_secs();
            state.scheduler.busy(format!("the texts were not encoded within the deadline of {seconds} s"))
        };
        let answer = tokio::time::timeout_at(deadline.into(), self.answer(&state.scheduler, memory)).await;
        answer.unwrap_or_else(|_| Err(late().into()))
    }

    async fn answer(
        self,
        scheduler: &Arc<Scheduler>,
        memory: &mut MemoryReservation,
    ) -> Result<EncodedTexts, EncoderError> {
        let bytes = self.inputs.iter().map(EncoderInput::bytes);
        let longest = bytes.clone().max().unwrap_or(0);
        let read = READ_MEMORY * longest + TEXT_MEMORY * bytes.sum::<usize>();
        reserve(memory, memory.bytes().max(read + ROW_MEMORY * self.inputs.len()), WHAT)?;
        let Self { output, number_bytes, text_bytes, deadline, .. } = self;
        let client = self.client.clone();
        // Whoever hangs up closes the channel.
        let (reply, replies) = mpsc::unbounded_channel();
        let (own, sender) = (scheduler.clone(), reply.clone());
        let prepared = blocking(move || Ok(self.prepare(&own, &sender))).await??;
        let PreparedCall { loaded, inputs } = prepared;
        let n_tokens: usize = inputs.iter().map(|input| input.encoding.len()).sum();
        let numbers = inputs.iter().map(|input| loaded.numbers(output, input.encoding.len()));
        let numbers: usize = numbers.sum();
        let labels = if matches!(output, EncoderOutput::Scores(_)) { loaded.label_bytes() } else { 0 };
        let rows = inputs.len() * (ROW_MEMORY + labels);
        let answer_bytes = numbers * number_bytes + rows + text_bytes;
        // Texts that come back are kept until then.
        reserve(memory, answer_bytes + numbers * size_of::<f32>() + 32 * n_tokens + rows + text_bytes, WHAT)?;
        let queued = QueuedTexts { client, loaded: loaded.clone(), output, inputs, deadline };
        let rows = scheduler.encode(queued, (reply, replies)).await?;
        Ok(EncodedTexts { loaded, rows, n_tokens, answer_bytes })
    }

    /// Loads the model and reads the texts, as long as somebody waits for them.
    fn prepare(
        &self,
        scheduler: &Scheduler,
        reply: &mpsc::UnboundedSender<TextResult>,
    ) -> Result<PreparedCall, EncoderError> {
        let loaded = scheduler.encoder(self.model.as_deref(), self.needed)?;
        if let Some(found) = self.dimensions.filter(|found| *found != loaded.width) {
            let error =
                format!("dimensions: {found}, expected {}, the size of the model's vectors", loaded.width);
            let hint = "leave it out; the vectors of a model that was trained to be cut (Matryoshka) can be cut and divided \
                        by their length by whoever asks";
            return Err(EncoderError::Dimensions(ErrorResponse::bad_request(error, hint)));
        }
        let prompt = self.prompt.as_deref().map(|name| loaded.encoder.prompt(name)).transpose();
        let prompt = prompt.map_err(|error| unreadable("prompt_name", &error))?;
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for (index, input) in self.inputs.iter().enumerate() {
            if reply.is_closed() {
                return Err(Error::Translate(polyhead_engine::Error::Cancelled).into());
            }
            let read = self.read(&loaded, input, prompt);
            let place =
                if self.inputs.len() == 1 { "the text".into() } else { format!("text {}", index + 1) };
            let read = read.map_err(|error| unreadable(&place, &error))?;
            if let Some(found) = read.cut_from.filter(|_| self.long == LongTexts::Refuse) {
                let most = loaded.encoder.max_len();
                let error = format!(
                    "{place} has {found} tokens, expected at most {most}, the model's maximum length"
                );
                let hint = "shorten it, or send truncate: true to cut off its end";
                let response = ErrorResponse::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, error, hint);
                return Err(EncoderError::TooLong(response));
            }
            inputs.push(read.ids_only());
        }
        Ok(PreparedCall { loaded, inputs })
    }

    /// The tokens of a text; what is too long is cut, and says so.
    fn read(
        &self,
        loaded: &LoadedEncoder,
        input: &EncoderInput,
        prompt: Option<&str>,
    ) -> polyhead_engine::Result<TextInput> {
        let encoder = &loaded.encoder;
        match (input, self.output) {
            (EncoderInput::Pair(first, second), _) => encoder.read_pair(first, second, LongTexts::Truncate),
            (EncoderInput::Text(text), EncoderOutput::Vector(_)) => {
                encoder.prepare(text, prompt, LongTexts::Truncate)
            }
            // Tokens and classes are those of the text without the prompt that the folder has for vectors.
            (EncoderInput::Text(text), _) => match prompt {
                Some(prompt) => encoder.read(&format!("{prompt}{text}"), LongTexts::Truncate),
                None => encoder.read(text, LongTexts::Truncate),
            },
            (EncoderInput::Ids(ids), EncoderOutput::Vector(_)) => {
                encoder.prepare_ids(ids, prompt, LongTexts::Truncate)
            }
            (EncoderInput::Ids(ids), _) => {
                encoder.prepare_ids(ids, Some(prompt.unwrap_or("")), LongTexts::Truncate)
            }
        }
    }
}

/// The error of too much work, with what helps here.
fn in_parts(error: Error) -> Error {
    match error {
        Error::TooLong { .. } => {
            let hint = "send it in parts, or raise --deadline of the server";
            Error::Refused(ErrorResponse::new(error.status(), error.to_string(), hint))
        }
        other => other,
    }
}

fn unreadable(place: &str, error: &polyhead_engine::Error) -> EncoderError {
    let status = axum::http::StatusCode::UNPROCESSABLE_ENTITY;
    EncoderError::Unreadable(ErrorResponse::new(status, format!("{place}: {error}"), error.hint()))
}

/// Texts that go to the queue.
struct QueuedTexts {
    client: Client,
    loaded: Arc<LoadedEncoder>,
    output: EncoderOutput,
    inputs: Vec<TextInput>,
    deadline: Instant,
}

/// How a server encodes texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AboutEncoding {
    /// Compute dtype.
    pub(crate) dtype: Dtype,
    /// Texts that may wait.
    pub(crate) waiting: usize,
    /// Tokens of a batch.
    pub(crate) batch_tokens: usize,
    /// Worker threads.
    pub(crate) threads: usize,
}

impl Scheduler {
    /// How texts are encoded.
    pub(crate) fn about_encoding(&self) -> AboutEncoding {
        let (waiting, batch_tokens) = (self.pool.queue.capacity(), self.pool.queue.batch_tokens());
        AboutEncoding { dtype: self.registry.dtype(), waiting, batch_tokens, threads: self.threads }
    }

    /// An encoder by its name, default: the first for this use; loads it if necessary, which may take a while.
    ///
    /// # Errors
    /// 404 if no model has this name, 424 if it cannot be used so, or if it cannot be loaded.
    pub(crate) fn encoder(
        &self,
        model: Option<&str>,
        needed: EncoderUse,
    ) -> crate::Result<Arc<LoadedEncoder>> {
        let found = self.registry.encoder(model, needed)?;
        self.plan_memory();
        Ok(found)
    }

    /// The numbers of each text, in order.
    async fn encode(
        &self,
        texts: QueuedTexts,
        (reply, mut replies): (mpsc::UnboundedSender<TextResult>, mpsc::UnboundedReceiver<TextResult>),
    ) -> crate::Result<Vec<Vec<f32>>> {
        let QueuedTexts { client, loaded, output, inputs, deadline } = texts;
        let work = inputs.iter().map(|input| input.encoding.len());
        let work = [work.clone().sum(), work.max().unwrap_or(0)];
        self.check_work(work, &self.pool.encoder_counters.meter, deadline).map_err(in_parts)?;
        let slice = (self.pool.queue.capacity() / 4).max(1);
        let mut rows: Vec<Vec<f32>> = vec![Vec::new(); inputs.len()];
        let mut inputs = inputs.into_iter().enumerate();
        let (mut n_sent, mut n_done) = (0, 0);
        while n_sent < rows.len() {
            let text = |(index, input)| {
                let (loaded, reply) = (loaded.clone(), reply.clone());
                QueuedWork::Text(QueuedText { loaded, output, input, index, reply })
            };
            let items: Vec<QueuedWork> = inputs.by_ref().take(slice).map(text).collect();
            let part = if n_sent == 0 { Slice::First } else { Slice::Later };
            n_sent += items.len();
            self.queue(&client, items, part).await?;
            while n_done < n_sent {
                // This function holds a sender, so the channel stays open.
                let Some((index, found)) = replies.recv().await else { break };
                rows[index] = found?;
                n_done += 1;
            }
        }
        Ok(rows)
    }
}
