//! Attention of the sentences of a request, with the translations that were found.

use std::time::Instant;

use polyhead_attention::Filter;
use polyhead_inspect::export;
use polyhead_inspect::trace::{Trace, TraceOptions};
use polyhead_translate::Route;
use polyhead_translate::formats::Format;
use polyhead_translate::languages::name;
use polyhead_translate::split::split;
use serde_json::Value;

use super::desk::Finished;
use super::limits::RequestLimits;
use super::routes::Shared;
use super::shelf::Loaded;
use crate::blocking::blocking;
use crate::{Error, Result};

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    text: usize,
    source: String,
    target: String,
}

impl Pair {
    pub(super) fn of(finished: &Finished) -> Self {
        let Finished { text, source, translation, .. } = finished.clone();
        Self { text, source, target: translation }
    }
}

/// What is to be looked at.
#[derive(Debug)]
pub(super) struct Request {
    /// All sentences, in order.
    pub(super) pairs: Vec<Pair>,
    /// The way of each text.
    pub(super) routes: Vec<Option<Route>>,
    /// The language that was asked for.
    pub(super) to: Option<String>,
    pub(super) limits: RequestLimits,
    pub(super) deadline: Instant,
}

/// An error where attention cannot be shown of these texts, before anything is translated.
pub(super) fn check(texts: &[String], format: Format, limits: &RequestLimits) -> Result<()> {
    if format != Format::Text {
        let message = format!("attention of {}, expected plain text", format.name());
        return Err(Error::Request { message, hint: "send the sentences by themselves".into() });
    }
    let sentences: usize = texts.iter().map(|text| split(text).sentences.len()).sum();
    let most = limits.attention_sentences;
    if sentences > most {
        let message = format!("attention of {sentences} sentences, expected at most {most}");
        return Err(Error::Request { message, hint: "send fewer at once".into() });
    }
    Ok(())
}

/// The trace of each sentence, with the index of its text.
pub(super) async fn traces(shared: &Shared, model: &str, request: Request) -> Result<Vec<(usize, Value)>> {
    let deadline = tokio::time::Instant::from_std(request.deadline);
    let turn = tokio::time::timeout_at(deadline, shared.looks.clone().acquire_owned()).await;
    let Ok(Ok(turn)) = turn else {
        let found = "others look at the model".into();
        return Err(Error::Busy { found, retry_after: 1 });
    };
    let (desk, model) = (shared.desk.clone(), model.to_owned());
    blocking(move || {
        // It lasts as long as the work, which goes on where the client has gone away.
        let _turn = turn;
        let loaded = desk.loaded(Some(&model))?;
        request.pairs.iter().map(|pair| Ok((pair.text, trace(&loaded, pair, &request)?))).collect()
    })
    .await
}

fn trace(loaded: &Loaded, pair: &Pair, request: &Request) -> Result<Value> {
    let route = request.routes.get(pair.text).and_then(Option::as_ref);
    if let Some(through) = route.and_then(|route| route.through.as_ref()) {
        let message = format!("attention of a way through {}, expected one step", name(through));
        return Err(Error::Request { message, hint: "ask for each step by itself".into() });
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
        return Err(Error::Request { message, hint: "send a shorter sentence".into() });
    }
    let options = TraceOptions { from, to, target: Some(pair.target.clone()), ..TraceOptions::default() };
    let trace = Trace::new(engine, &pair.source, &options)?;
    Ok(serde_json::from_str(&export::json(&trace, &Filter::default())).expect("what was written as JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_few_sentences_of_plain_text_are_shown() {
        let limits = RequestLimits::default();
        let texts = |text: &str| vec![text.to_owned(), "One more.".to_owned()];
        assert!(check(&texts("A. One two. Three!"), Format::Text, &limits).is_ok());
        let error = check(&texts("Go. Run. Sit. Fly."), Format::Text, &limits).unwrap_err();
        assert_eq!(error.to_string(), "attention of 5 sentences, expected at most 4");
        assert_eq!(check(&texts("A."), Format::Html, &limits).unwrap_err().status(), 400);
    }
}
