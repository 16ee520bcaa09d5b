//! Texts or tokens in a request: one text, several, the ids of one text, or those of several.

use std::sync::Arc;

use serde_json::Value;

/// What a field of texts or tokens may be.
const EXPECTED: &str = "a text, an array of texts, an array of tokens, or an array of arrays of tokens";

/// Texts, or the ids of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextsOrIds {
    /// Texts.
    Texts(Vec<String>),
    /// The ids of each text.
    Ids(Vec<Vec<u32>>),
}

/// A text for an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EncoderInput {
    /// A text.
    Text(String),
    /// The ids of a text.
    Ids(Vec<u32>),
    /// Two texts that are read together.
    Pair(Arc<str>, String),
}

impl TextsOrIds {
    /// Reads a value.
    ///
    /// # Errors
    /// What was found and expected.
    pub(crate) fn read(name: &str, value: Option<Value>) -> Result<Self, String> {
        let wrong = |found: &str| format!("{name}: {found}, expected {EXPECTED}");
        let ids = |items: &[Value]| -> Option<Vec<u32>> {
            items.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
        };
        match value {
            None | Some(Value::Null) => Err(wrong("nothing")),
            Some(Value::String(text)) => Ok(Self::Texts(vec![text])),
            Some(Value::Array(items)) => match items.first() {
                None => Err(wrong("an empty array")),
                Some(Value::String(_)) => {
                    let text = |item: Value| if let Value::String(text) = item { Some(text) } else { None };
                    let texts: Option<Vec<String>> = items.into_iter().map(text).collect();
                    texts.map(Self::Texts).ok_or_else(|| wrong("an array of texts and other values"))
                }
                Some(Value::Number(_)) => ids(&items)
                    .map(|ids| Self::Ids(vec![ids]))
                    .ok_or_else(|| wrong("an array of numbers and other values")),
                Some(_) => {
                    let all = items.iter().map(|item| ids(item.as_array()?));
                    let all: Option<Vec<Vec<u32>>> = all.collect();
                    all.map(Self::Ids).ok_or_else(|| wrong("an array of other values"))
                }
            },
            Some(_) => Err(wrong("another value")),
        }
    }

    /// Each as an input of an encoder.
    pub(crate) fn inputs(self) -> Vec<EncoderInput> {
        match self {
            Self::Texts(texts) => texts.into_iter().map(EncoderInput::Text).collect(),
            Self::Ids(all) => all.into_iter().map(EncoderInput::Ids).collect(),
        }
    }
}

impl EncoderInput {
    /// Number of characters, or of ids.
    pub(crate) fn characters(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Ids(ids) => ids.len(),
            Self::Pair(first, second) => first.chars().count() + second.chars().count(),
        }
    }

    /// Bytes of the text or the ids.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Ids(ids) => size_of_val(ids.as_slice()),
            Self::Pair(first, second) => first.len() + second.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_and_ids_are_read() {
        let read = |value: Value| TextsOrIds::read("input", Some(value));
        let texts = |texts: &[&str]| Ok(TextsOrIds::Texts(texts.iter().map(|&text| text.into()).collect()));
        assert_eq!(read(json!("a")), texts(&["a"]));
        assert_eq!(read(json!(["a", "b"])), texts(&["a", "b"]));
        assert_eq!(read(json!([1, 2])), Ok(TextsOrIds::Ids(vec![vec![1, 2]])));
        assert_eq!(read(json!([[1, 2], []])), Ok(TextsOrIds::Ids(vec![vec![1, 2], vec![]])));
        for wrong in [json!([]), json!(["a", 1]), json!([1, -2]), json!([[1], "a"]), json!({}), json!(true)] {
            let error = read(wrong.clone()).unwrap_err();
            assert!(error.starts_with("input: ") && error.ends_with(EXPECTED), "{wrong}: {error}");
        }
        assert!(TextsOrIds::read("input", None).is_err());
    }
}
