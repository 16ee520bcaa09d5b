//! Attention traces of the sentences of a request, computed for the translations that were found.

use std::time::Instant;

use polyhead_attention::Filter;
use polyhead_inspect::export;
use polyhead_inspect::trace::{Trace, TraceOptions};
use polyhead_translate::Route;
use polyhead_translate::formats::Format;
use polyhead_translate::languages::name;
use polyhead_translate::segment::split;
use serde_json::Value;

use super::limits::RequestLimits;
use super::model_registry::LoadedModel;
use super::routes::ServerState;
use super::scheduler::FinishedSentence;
use crate::blocking::blocking;
use crate::front::budget::MemoryReservation;
use crate::{Error, Result};

/// Bytes of memory for each weight of a trace: as captured, as a matrix, as bytes, and as text three times.
const TRACE_MEMORY: usize = 28;

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SentencePair {
    text: usize,
    source: String,
    target: String,
}

impl SentencePair {
    pub(super) fn new(finished: &FinishedSentence) -> Self {
        let FinishedSentence { text, source, translation, .. } = finished.clone();
        Self { text, source, target: translation }
    }
}

/// The sentences to trace.
#[derive(Debug)]
pub(super) struct SentencesToTrace {
    /// All sentences with their translations, in order.
    pub(super) pairs: Vec<SentencePair>,
    /// The route of each text.
    pub(super) routes: Vec<Option<Route>>,
    /// The requested target language.
    pub(super) to: Option<String>,
    pub(super) limits: RequestLimits,
    pub(super) deadline: Instant,
}

/// Checks before translating that attention can be traced for these texts.
pub(super) fn check(texts: &[String], format: Format, limits: &RequestLimits) -> Result<()> {
    if format != Format::Text {
        let message = format!("attention of format {:?}, expected plain text", format.name());
        return Err(Error::request(message, "send the sentences as plain text"));
    }
    let sentences: usize = texts.iter().map(|text| split(text).sentences.len()).sum();
    let most = limits.attention_sentences;
    if sentences > most {
        let message = format!("attention of {sentences} sentences, expected at most {most}");
        return Err(Error::request(message, "send fewer at once"));
    }
    Ok(())
}

/// Traces each sentence; returns the index of its text and the trace.
pub(super) async fn traces(
    state: &ServerState,
    model: &str,
    request: SentencesToTrace,
    mut memory: MemoryReservation,
) -> Result<(Vec<(usize, Value)>, MemoryReservation)> {
    let deadline = tokio::time::Instant::from_std(request.deadline);
    let permit = tokio::time::timeout_at(deadline, state.traces.clone().acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        let found = "other requests are tracing the model".into();
        return Err(Error::Busy { found, retry_after: 1 });
    };
    let (scheduler, model) = (state.scheduler.clone(), model.to_owned());
    blocking(move || {
        // The permit lasts as long as the work, which continues after the client has disconnected.
        let _permit = permit;
        let loaded = scheduler.loaded(Some(&model))?;
        let traces = request
            .pairs
            .iter()
            .map(|pair| Ok((pair.text, trace(&loaded, pair, &request, &mut memory)?)))
            .collect::<Result<_>>()?;
        Ok((traces, memory))
    })
    .await
}

fn trace(
    loaded: &LoadedModel,
    pair: &SentencePair,
    request: &SentencesToTrace,
    memory: &mut MemoryReservation,
) -> Result<Value> {
    if Instant::now() > request.deadline {
        let found = "the deadline passed before the attention was traced".into();
        return Err(Error::Busy { found, retry_after: 1 });
    }
    let route = request.routes.get(pair.text).and_then(Option::as_ref);
    if let Some(Route { from, to, through: Some(through), .. }) = route {
        let [from, through, to] = [from, through, to].map(|code| name(code));
        let message = format!("{from} → {to} goes through {through}, expected a direct translation");
        return Err(Error::request(message, format!("translate into {through} first")));
    }
    let from = route.map(|route| route.from.clone());
    let to = route.map(|route| route.to.clone()).or_else(|| request.to.clone());
    let engine = &loaded.engine;
    let source = engine.encode_source(&pair.source, from.as_deref(), to.as_deref())?.0.ids.len();
    let target = engine.encode_target(&pair.target)?.ids.len();
    let most = request.limits.attention_tokens;
    if source.max(target) > most {
        let found = source.max(target);
        let message = format!("attention of a sentence of {found} tokens, expected at most {most}");
        return Err(Error::request(message, "send a shorter sentence"));
    }
    let n_heads: usize =
        engine.model().sites().groups().iter().map(|own| own.n_layers * own.heads.n_heads).sum();
    memory.grow(TRACE_MEMORY * n_heads * source.max(target).pow(2))?;
    let options = TraceOptions { from, to, target: Some(pair.target.clone()), ..TraceOptions::default() };
    let trace = Trace::new(engine, &pair.source, &options)?;
    Ok(serde_json::from_str(&export::json(&trace, &Filter::default())).expect("valid JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_limited_to_a_few_sentences_of_plain_text() {
        let limits = RequestLimits::default();
        let texts = |text: &str| vec![text.to_owned(), "One more.".to_owned()];
        assert!(check(&texts("A. One two. Three!"), Format::Text, &limits).is_ok());
        let error = check(&texts("Go. Run. Sit. Fly."), Format::Text, &limits).unwrap_err();
        assert_eq!(error.to_string(), "attention of 5 sentences, expected at most 4");
        assert_eq!(check(&texts("A."), Format::Html, &limits).unwrap_err().status(), 400);
    }
}
