//! The options of sampling that a request may set.

use polyhead_engine::generate::GenerateOptions;
use serde_json::Value;

use super::error::OpenAiError;
use super::field_names::CallKind;
use super::field_values::{HINT, decimal, named, whole};
use crate::front::fields::{Fields, Texts};
use crate::server::limits::RequestLimits;

/// Maximum number of stop strings.
const MAX_STOPS: usize = 16;
/// Maximum bytes of a stop string.
const MAX_STOP_BYTES: usize = 1024;
/// New tokens of a completion where the request does not say how many, as in OpenAI's API.
const COMPLETION_TOKENS: usize = 16;
/// Largest number that JSON clients keep exactly.
const MAX_RANDOM_SEED: u64 = 1 << 53;

/// Options that a request may set; `None` takes the value of the model folder.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Sampling {
    max_new_tokens: Option<usize>,
    min_new_tokens: Option<usize>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<usize>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    no_repeat_ngram: Option<usize>,
    stop: Vec<String>,
    seed: Option<u64>,
}

impl Sampling {
    pub(super) fn read(kind: CallKind, fields: &Fields, limits: &RequestLimits) -> Result<Self, OpenAiError> {
        let most = limits.new_tokens;
        let max_tokens = whole(fields, "max_tokens", [1, most])?;
        let max_new_tokens = match kind {
            CallKind::Completion => Some(max_tokens.unwrap_or(COMPLETION_TOKENS)),
            CallKind::Chat => whole(fields, "max_completion_tokens", [1, most])?.or(max_tokens),
        };
        Ok(Self {
            max_new_tokens,
            min_new_tokens: whole(fields, "min_tokens", [0, most])?,
            temperature: decimal(fields, "temperature", |number| number >= 0.0, "a number not below 0")?,
            top_p: decimal(
                fields,
                "top_p",
                |number| number > 0.0 && number <= 1.0,
                "a probability above 0, at most 1",
            )?,
            top_k: whole(fields, "top_k", [0, usize::MAX])?,
            min_p: decimal(fields, "min_p", |number| (0.0..=1.0).contains(&number), "a ratio from 0 to 1")?,
            repetition_penalty: decimal(
                fields,
                "repetition_penalty",
                |number| number > 0.0,
                "a positive number; 1 is none",
            )?,
            no_repeat_ngram: whole(fields, "no_repeat_ngram", [0, most])?,
            stop: stops(fields)?,
            seed: seed(fields)?,
        })
    }

    /// The options over those of the model's folder, with at most `most` new tokens and a random seed unless there is one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn over(&self, model: &GenerateOptions, most: usize) -> crate::Result<GenerateOptions> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => random()? % MAX_RANDOM_SEED,
        };
        // Who restricts sampling asks for it, whatever the model's settings say.
        let is_sampled = self.top_p.is_some() || self.top_k.is_some() || self.min_p.is_some();
        let temperature = if is_sampled && model.temperature == 0.0 { 1.0 } else { model.temperature };
        Ok(GenerateOptions {
            max_new_tokens: Some(self.max_new_tokens.or(model.max_new_tokens).unwrap_or(most).min(most)),
            min_new_tokens: self.min_new_tokens.unwrap_or(model.min_new_tokens),
            temperature: self.temperature.unwrap_or(temperature),
            top_p: self.top_p.unwrap_or(model.top_p),
            top_k: self.top_k.unwrap_or(model.top_k),
            min_p: self.min_p.unwrap_or(model.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(model.repetition_penalty),
            no_repeat_ngram: self.no_repeat_ngram.unwrap_or(model.no_repeat_ngram),
            stop: [&model.stop[..], &self.stop].concat(),
            n_samples: 1,
            beam_size: 1,
            seed,
            ..model.clone()
        })
    }
}

/// 64 random bits of the system.
pub(super) fn random() -> crate::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| crate::Error::NoRandomness { reason: error.to_string() })?;
    Ok(u64::from_ne_bytes(bytes))
}

fn stops(fields: &Fields) -> Result<Vec<String>, OpenAiError> {
    let found = match fields.texts("stop").map_err(|error| named("stop", error))? {
        None => return Ok(Vec::new()),
        Some(Texts::One(stop)) => vec![stop],
        Some(Texts::Many(stops)) => stops,
    };
    let wrong = |found: String, hint: &str| Err(OpenAiError::field("stop", format!("stop: {found}"), hint));
    if found.len() > MAX_STOPS {
        let found = format!("{} texts, expected at most {MAX_STOPS}", found.len());
        return wrong(found, "send the most important ones");
    }
    if let Some(long) = found.iter().find(|stop| stop.len() > MAX_STOP_BYTES) {
        return wrong(
            format!("a text of {} bytes, expected at most {MAX_STOP_BYTES}", long.len()),
            "shorten it",
        );
    }
    if found.iter().any(String::is_empty) {
        return wrong("an empty text".into(), "every text would end before it began; leave it out");
    }
    Ok(found)
}

fn seed(fields: &Fields) -> Result<Option<u64>, OpenAiError> {
    match fields.value("seed") {
        None | Some(Value::Null) => Ok(None),
        // OpenAI's seeds may be negative.
        Some(value) => match value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)) {
            Some(seed) => Ok(Some(seed)),
            None => Err(OpenAiError::field("seed", "seed: expected a whole number", HINT)),
        },
    }
}
