//! Polyhead's own endpoints: `/v1/translate` with n-best lists, scores, alignments and attention, and `/v1/models`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use polyhead_translate::formats::Format;
use polyhead_translate::{Evidence, Translation};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::answers::{CandidateAnswer, TranslationAnswer, V1Answer};
use super::attention::{self, SentencePair};
use super::documents::{Document, notes, route};
use super::lexical::lexical_of;
use super::libre::texts_of;
use super::openai::ModelsAnswer;
use super::request::TranslationRequest;
use super::routes::{ReadRequest, ServerState, counted_json, json, translation_memory};
use super::scheduler::{Client, FinishedSentence, RequestOptions};
use super::stream::events;
use crate::Error;
use crate::front::ErrorResponse;
use crate::front::budget::MemoryReservation;
use crate::front::fields::{Fields, quoted};
use crate::front::form::UnknownFields;

const HINT: &str = "/docs shows each field";

/// Fields of `/v1/translate`.
const FIELDS: &[&str] = &[
    "text",
    "from",
    "to",
    "model",
    "format",
    "n_best",
    "beam_size",
    "alignment",
    "attention",
    "lexical",
    "stream",
    "api_key",
];

pub(super) async fn translate(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let known = state.known(FIELDS, UnknownFields::Named);
    let ReadRequest { fields, client, mut memory, .. } =
        state.read(request, state.limits.body, known).await?;
    let body = V1Request::read(&fields)?;
    let is_streamed = body.stream.unwrap_or(false);
    let bytes = fields.text_bytes();
    memory.resize(translation_memory(bytes, bytes, body.n_best.unwrap_or(1)))?;
    let plan = V1Plan::new(body, fields, &state, client).await?;
    if is_streamed {
        return events(state, plan, memory).await;
    }
    let (answer, traces) = plan.run(&state, |_| {}).await?;
    let answer = counted_json(&answer, memory);
    drop(traces);
    Ok(answer)
}

pub(super) async fn models(State(state): State<Arc<ServerState>>) -> Response {
    json(&ModelsAnswer::of(&state))
}

/// The body of a request, as `openapi.json` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1Request {
    #[serde(rename = "text")]
    _text: Option<IgnoredAny>,
    from: Option<String>,
    to: Option<String>,
    model: Option<String>,
    format: Option<String>,
    n_best: Option<usize>,
    beam_size: Option<usize>,
    alignment: Option<bool>,
    attention: Option<bool>,
    #[serde(rename = "lexical")]
    _lexical: Option<IgnoredAny>,
    stream: Option<bool>,
    #[serde(rename = "api_key")]
    _api_key: Option<IgnoredAny>,
}

impl V1Request {
    fn read(fields: &Fields) -> Result<Self, ErrorResponse> {
        // Fields with checks of their own are read elsewhere; serde checks the types of the others.
        Self::deserialize(fields.json()).map_err(|error| ErrorResponse::bad_request(error.to_string(), HINT))
    }
}

/// A checked request.
#[derive(Debug)]
pub(super) struct V1Plan {
    request: TranslationRequest<Arc<Document>>,
    n_best: usize,
    evidence: Evidence,
    has_attention: bool,
}

impl V1Plan {
    async fn new(
        body: V1Request,
        fields: Fields,
        state: &ServerState,
        client: Client,
    ) -> Result<Self, ErrorResponse> {
        let limits = state.limits;
        let (texts, _) = texts_of(&fields, "text")?;
        let n_best = checked("n_best", body.n_best, limits.n_best)?.unwrap_or(1);
        // An n-best list needs at least n hypotheses.
        let beam_size = checked("beam_size", body.beam_size, limits.beam_size)?;
        let beam_size = beam_size.map(|own| own.max(n_best));
        let name = body.format.as_deref().unwrap_or("text");
        let format = Format::from_name(name).ok_or_else(|| {
            let expected = "expected \"text\", \"html\", \"srt\" or \"po\"";
            ErrorResponse::bad_request(format!("format: unknown format {}, {expected}", quoted(name)), HINT)
        })?;
        let languages = state.languages();
        let from = body.from.map(|own| languages.source("from", &own)).transpose()?.flatten();
        let to = body.to.map(|own| languages.target("to", &own, from.as_deref())).transpose()?;
        state.check_texts(&texts)?;
        let has_attention = body.attention.unwrap_or(false);
        if has_attention {
            attention::check(&texts, format, &limits)?;
        }
        let has_alignment = body.alignment.unwrap_or(false);
        let evidence = if has_alignment { Evidence::Alignment } else { Evidence::None };
        let lexical = lexical_of(&fields, format)?;
        drop(fields);
        let documents = Document::read_all(format, texts).await?;
        let request = TranslationRequest {
            client,
            inputs: documents,
            from,
            to,
            model: body.model,
            options: RequestOptions { beam_size, n_best, evidence, lexical },
            deadline: Instant::now() + limits.deadline,
        };
        Ok(Self { request, n_best, evidence, has_attention })
    }

    /// Translates; calls `on_sentence` for every sentence in order. The reservation is that of traces in the answer.
    pub(super) async fn run(
        &self,
        state: &ServerState,
        mut on_sentence: impl FnMut(FinishedSentence) + Send,
    ) -> Result<(V1Answer, MemoryReservation), Error> {
        let mut pairs: Vec<SentencePair> = Vec::new();
        let languages = state.languages();
        let done = self.request.run(&state.scheduler, &languages, |finished| {
            if self.has_attention {
                pairs.push(SentencePair::new(&finished));
            }
            on_sentence(finished);
        });
        let done = done.await?;
        let documents = self.request.inputs.iter().zip(&done.found);
        let mut translations: Vec<TranslationAnswer> =
            documents.map(|(document, found)| self.answer(document, found)).collect();
        let mut memory = state.memory.open(&self.request.client);
        if self.has_attention {
            let routes = done.found.iter().map(|found| route(found).cloned()).collect();
            let sentences = attention::SentencesToTrace {
                pairs,
                routes,
                to: self.request.to.clone(),
                limits: state.limits,
                deadline: self.request.deadline,
            };
            let traces;
            (traces, memory) = attention::traces(state, &done.model, sentences, memory).await?;
            let mut by_text: Vec<Vec<Value>> = translations.iter().map(|_| Vec::new()).collect();
            for (text, trace) in traces {
                by_text[text].push(trace);
            }
            for (own, traces) in translations.iter_mut().zip(by_text) {
                own.attention = Some(traces);
            }
        }
        Ok((V1Answer { model: done.model, translations }, memory))
    }

    fn answer(&self, document: &Document, found: &[Translation]) -> TranslationAnswer {
        let candidates = document.candidates(found).into_iter().take(self.n_best);
        let n_best: Vec<CandidateAnswer> = candidates.map(Into::into).collect();
        // Only in plain text are the words of the document the words of its single text.
        let alignment = match (self.evidence, found) {
            (Evidence::Alignment, [own]) if !document.needs_alignment() => own.alignment.clone(),
            _ => None,
        };
        TranslationAnswer {
            best: n_best[0].clone(),
            n_best,
            alignment,
            route: route(found).cloned(),
            unsure: found.iter().any(Translation::is_unsure),
            notes: notes(found).into_iter().map(Into::into).collect(),
            attention: None,
        }
    }
}

/// A number from 1 to `most`.
fn checked(name: &str, found: Option<usize>, most: usize) -> Result<Option<usize>, ErrorResponse> {
    match found {
        Some(number) if !(1..=most).contains(&number) => {
            Err(ErrorResponse::bad_request(format!("{name}: {number}, expected 1 to {most}"), HINT))
        }
        other => Ok(other),
    }
}
