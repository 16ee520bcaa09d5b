//! Our own calls: `/v1/translate` with everything that the model knows, and `/v1/models`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use polyhead_translate::formats::Format;
use polyhead_translate::{Evidence, Translation};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::answers::{CandidateAnswer, ModelsAnswer, TranslationAnswer, V1Answer};
use super::attention::{self, Pair};
use super::desk::{Client, Finished, Wanted};
use super::documents::{Document, notes, route};
use super::job::Job;
use super::libre::texts_of;
use super::routes::{Shared, json};
use super::stream::events;
use crate::Error;
use crate::front::Refusal;
use crate::front::fields::Fields;

const HINT: &str = "/docs shows each field";

pub(super) async fn translate(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, fields, client) = shared.read(request, shared.limits.body).await?;
    let question = Question::read(&fields)?;
    let is_streamed = question.stream.unwrap_or(false);
    let plan = Plan::new(question, &fields, &shared, client)?;
    if is_streamed {
        return events(shared, plan).await;
    }
    let answer = plan.run(&shared, |_| {}).await?;
    Ok(json(&answer))
}

pub(super) async fn models(State(shared): State<Arc<Shared>>) -> Response {
    json(&ModelsAnswer { models: shared.desk.models() })
}

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
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
    stream: Option<bool>,
    #[serde(rename = "api_key")]
    _api_key: Option<IgnoredAny>,
}

impl Question {
    fn read(fields: &Fields) -> Result<Self, Refusal> {
        // Whatever is not told about a field is told of its place here.
        Self::deserialize(fields.json()).map_err(|error| Refusal::bad(error.to_string(), HINT))
    }
}

/// What is to be done, checked.
#[derive(Debug)]
pub(super) struct Plan {
    job: Job,
    n_best: usize,
    evidence: Evidence,
    attention: Wish,
}

/// Whether something is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Yes,
    No,
}

impl Plan {
    fn new(question: Question, fields: &Fields, shared: &Shared, client: Client) -> Result<Self, Refusal> {
        let limits = shared.limits;
        let (texts, _) = texts_of(fields, "text")?;
        let n_best = counted("n_best", question.n_best, limits.n_best)?.unwrap_or(1);
        // So many translations need as many hypotheses.
        let beam_size = counted("beam_size", question.beam_size, limits.beam_size)?;
        let beam_size = beam_size.map(|own| own.max(n_best));
        let format = question.format.as_deref().map_or(Some(Format::Text), Format::from_name);
        let format = format.ok_or_else(|| {
            Refusal::bad("format: another one, expected \"text\", \"html\", \"srt\" or \"po\"", HINT)
        })?;
        let spoken = shared.spoken();
        let from = question.from.map(|own| spoken.source("from", &own)).transpose()?.flatten();
        let to = question.to.map(|own| spoken.target("to", &own, from.as_deref())).transpose()?;
        shared.check_texts(&texts)?;
        let wish = |wanted: Option<bool>| if wanted == Some(true) { Wish::Yes } else { Wish::No };
        let attention = wish(question.attention);
        if attention == Wish::Yes {
            attention::check(&texts, format, &limits)?;
        }
        let alignment = wish(question.alignment);
        let evidence = if alignment == Wish::Yes { Evidence::Alignment } else { Evidence::None };
        let documents =
            texts.iter().map(|text| Document::read(format, text)).collect::<Result<_, Error>>()?;
        let job = Job {
            client,
            documents,
            from,
            to,
            model: question.model,
            wanted: Wanted { beam_size, n_best, evidence },
            deadline: Instant::now() + limits.deadline,
        };
        Ok(Self { job, n_best, evidence, attention })
    }

    /// Does it; `watcher` hears of every sentence in order.
    pub(super) async fn run(
        &self,
        shared: &Shared,
        mut watcher: impl FnMut(Finished) + Send,
    ) -> Result<V1Answer, Error> {
        let mut pairs: Vec<Pair> = Vec::new();
        let is_looked_at = self.attention == Wish::Yes;
        let spoken = shared.spoken();
        let done = self.job.run(&shared.desk, &spoken, |finished| {
            if is_looked_at {
                pairs.push(Pair::of(&finished));
            }
            watcher(finished);
        });
        let done = done.await?;
        let documents = self.job.documents.iter().zip(&done.found);
        let mut translations: Vec<TranslationAnswer> =
            documents.map(|(document, found)| self.answer(document, found)).collect();
        if is_looked_at {
            let routes = done.found.iter().map(|found| route(found).cloned()).collect();
            let request = attention::Request {
                pairs,
                routes,
                to: self.job.to.clone(),
                limits: shared.limits,
                deadline: self.job.deadline,
            };
            let traces = attention::traces(shared, &done.model, request).await?;
            let mut by_text: Vec<Vec<Value>> = translations.iter().map(|_| Vec::new()).collect();
            for (text, trace) in traces {
                by_text[text].push(trace);
            }
            for (own, traces) in translations.iter_mut().zip(by_text) {
                own.attention = Some(traces);
            }
        }
        Ok(V1Answer { model: done.model, translations })
    }

    fn answer(&self, document: &Document, found: &[Translation]) -> TranslationAnswer {
        let candidates = document.candidates(found).into_iter().take(self.n_best);
        let n_best: Vec<CandidateAnswer> = candidates.map(Into::into).collect();
        // Only of plain text are words of the document words of its one text.
        let alignment = match (self.evidence, found) {
            (Evidence::Alignment, [own]) if !document.needs_alignment() => own.alignment.clone(),
            _ => None,
        };
        TranslationAnswer {
            best: n_best[0].clone(),
            n_best,
            alignment,
            route: route(found).cloned(),
            notes: notes(found).into_iter().map(Into::into).collect(),
            attention: None,
        }
    }
}

/// A number from 1 to `most`.
fn counted(name: &str, found: Option<usize>, most: usize) -> Result<Option<usize>, Refusal> {
    match found {
        Some(number) if !(1..=most).contains(&number) => {
            Err(Refusal::bad(format!("{name}: {number}, expected 1 to {most}"), HINT))
        }
        other => Ok(other),
    }
}
