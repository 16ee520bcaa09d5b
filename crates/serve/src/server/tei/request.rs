//! The fields of a call.

use polyhead_engine::LongTexts;
use serde_json::Value;

use super::super::encoder::{EncoderInput, TextsOrIds};
use super::error::TeiError;
use crate::front::fields::{Fields, quoted};

/// The hint of most errors.
pub(super) const HINT: &str = "/docs shows each field";

/// The fields of a call and of its nested `parameters`.
pub(super) struct CallFields<'a>(&'a Fields);

impl<'a> CallFields<'a> {
    /// Refuses unknown fields, so that no misspelt one is overlooked.
    pub(super) fn new(fields: &'a Fields, known: &[&str]) -> Result<Self, TeiError> {
        if let Some(unknown) = fields.names().find(|name| !known.contains(name)) {
            let hint = format!("{HINT}; the server accepts {}", known.join(", "));
            return Err(TeiError::field(format!("unknown field {}", quoted(unknown)), hint));
        }
        Ok(Self(fields))
    }

    /// The same without `parameters`, which clients of other tasks of Hugging Face send empty.
    pub(super) fn without_parameters(fields: &'a Fields, known: &[&str]) -> Result<Self, TeiError> {
        let own = Self::new(fields, known)?;
        let parameters = fields.value("parameters").filter(|value| !value.is_null());
        let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
        if parameters.is_some_and(|parameters| !is_empty(&parameters)) {
            return Err(TeiError::field(
                "parameters: a value, expected none",
                "send its members beside inputs",
            ));
        }
        Ok(own)
    }

    pub(super) fn value(&self, name: &str) -> Option<Value> {
        self.0.value(name)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, TeiError> {
        self.0
            .text(name)
            .map(|text| text.map(str::to_owned))
            .map_err(|error| TeiError::field(error.error, error.hint))
    }

    /// True or false; default: false.
    pub(super) fn is_set(&self, name: &str) -> Result<bool, TeiError> {
        Ok(self.boolean(name)?.unwrap_or(false))
    }

    pub(super) fn boolean(&self, name: &str) -> Result<Option<bool>, TeiError> {
        self.0.boolean(name).map_err(|error| TeiError::field(error.error, error.hint))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, TeiError> {
        let found = self.0.number(name).map_err(|error| TeiError::field(error.error, error.hint))?;
        Ok(found.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// What happens to texts that are too long.
    pub(super) fn long(&self) -> Result<LongTexts, TeiError> {
        long(self.is_set("truncate")?, self.text("truncation_direction")?.as_deref())
    }

    /// Texts or ids.
    pub(super) fn inputs(&self) -> Result<Vec<EncoderInput>, TeiError> {
        let value = self.value("inputs");
        if value.as_ref().is_some_and(|value| value.as_array().is_some_and(Vec::is_empty)) {
            return Err(TeiError::empty("inputs"));
        }
        let found = TextsOrIds::read("inputs", value).map_err(|error| TeiError::field(error, HINT))?;
        Ok(found.inputs())
    }
}

/// What happens to texts that are too long: their end is cut off, or they are refused.
pub(super) fn long(is_cut: bool, direction: Option<&str>) -> Result<LongTexts, TeiError> {
    if let Some(other) = direction.filter(|direction| !direction.eq_ignore_ascii_case("right")) {
        let error = format!("truncation_direction: {}, expected Right: the end is cut off", quoted(other));
        return Err(TeiError::field(error, "leave it out"));
    }
    Ok(if is_cut { LongTexts::Truncate } else { LongTexts::Refuse })
}

/// The texts of `/predict`, and how they are answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PredictInputs {
    /// One text or pair, answered by one list of classes.
    One(EncoderInput),
    /// Several, answered by a list of such lists.
    Many(Vec<EncoderInput>),
}

impl PredictInputs {
    /// A text, a pair of texts in an array, or an array of such arrays; an array with one text is that text.
    pub(super) fn read(value: Option<Value>) -> Result<Self, TeiError> {
        const EXPECTED: &str = "a text, a pair [text, text], or an array of arrays with a text or a pair each: [[text], [text, text], …]";
        let wrong = |found: &str| TeiError::field(format!("inputs: {found}, expected {EXPECTED}"), HINT);
        match value {
            Some(Value::String(text)) => Ok(Self::One(EncoderInput::Text(text))),
            Some(Value::Array(items)) => match items.first() {
                None => Err(TeiError::empty("inputs")),
                Some(Value::String(_)) => {
                    let found = items.len();
                    let input = text_or_pair(items);
                    input.map(Self::One).ok_or_else(|| wrong(&format!("an array of {found} values")))
                }
                Some(_) => {
                    let input =
                        |item| if let Value::Array(texts) = item { text_or_pair(texts) } else { None };
                    let inputs: Option<Vec<EncoderInput>> = items.into_iter().map(input).collect();
                    inputs.map(Self::Many).ok_or_else(|| wrong("an array of other values"))
                }
            },
            None | Some(Value::Null) => Err(wrong("nothing")),
            Some(_) => Err(wrong("another value")),
        }
    }
}

fn text_or_pair(items: Vec<Value>) -> Option<EncoderInput> {
    let text = |item| if let Value::String(text) = item { Some(text) } else { None };
    let mut texts = items.into_iter().map(text).collect::<Option<Vec<String>>>()?.into_iter();
    let input = match (texts.next()?, texts.next()) {
        (first, None) => EncoderInput::Text(first),
        (first, Some(second)) => EncoderInput::Pair(first.into(), second),
    };
    texts.next().is_none().then_some(input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_and_pairs_are_told_apart() {
        let text = |text: &str| EncoderInput::Text(text.into());
        let pair = || EncoderInput::Pair("a".into(), "b".into());
        for (value, expected) in [
            (json!("a"), PredictInputs::One(text("a"))),
            (json!(["a"]), PredictInputs::One(text("a"))),
            (json!(["a", "b"]), PredictInputs::One(pair())),
            (json!([["a", "b"], ["c"]]), PredictInputs::Many(vec![pair(), text("c")])),
        ] {
            assert_eq!(PredictInputs::read(Some(value.clone())).unwrap(), expected, "{value}");
        }
        for wrong in
            [json!(["a", "b", "c"]), json!([["a", "b", "c"]]), json!([[]]), json!([["a"], "b"]), json!(1)]
        {
            assert!(PredictInputs::read(Some(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
