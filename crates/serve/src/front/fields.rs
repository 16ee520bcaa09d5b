//! What a request says, by name: the same whether it came as JSON, as a form or in the query.
//!
//! Forms know only text, so that numbers and switches are read from text too; JSON's own kinds are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use serde_json::Value;

use super::body::Held;
use super::refusal::Refusal;

/// A file that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// What its sender calls it, without folders. It is a word to show, never a path to open.
    pub name: String,
    /// Its media type as sent, if there was one.
    pub media_type: Option<String>,
    /// What it holds.
    pub bytes: Bytes,
}

/// One value of a field.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Text(String),
    Json(Value),
    File(File),
}

/// A text or several, where both are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Texts {
    /// One, which is answered by one.
    One(String),
    /// A list, which is answered by a list; it may hold one or none.
    Many(Vec<String>),
}

/// All fields of a request.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    by_name: BTreeMap<String, Vec<Field>>,
    /// What they take of the room for all bodies.
    held: Option<Arc<Held>>,
}

impl Fields {
    /// Those of a JSON object.
    pub(super) fn of_object(object: serde_json::Map<String, Value>) -> Self {
        let by_name = object.into_iter().map(|(name, value)| (name, vec![Field::Json(value)])).collect();
        Self { by_name, held: None }
    }

    /// Keeps what the body took of the room for all until these are dropped.
    pub(super) fn hold(&mut self, held: Held) {
        self.held = Some(Arc::new(held));
    }

    /// Adds a text; a name that comes again becomes a list.
    pub(super) fn add_text(&mut self, name: String, text: String) {
        self.by_name.entry(name).or_default().push(Field::Text(text));
    }

    /// Adds a file.
    pub(super) fn add_file(&mut self, name: String, file: File) {
        self.by_name.entry(name).or_default().push(Field::File(file));
    }

    /// Adds those fields of `other` whose names are not here.
    pub(super) fn add_missing(&mut self, other: Self) {
        for (name, values) in other.by_name {
            self.by_name.entry(name).or_insert(values);
        }
    }

    /// The names that there are, in the order of the alphabet.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// Whether nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// A text; none where it is absent or null.
    ///
    /// # Errors
    /// If it is something else, or there several times.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.one(name, "a string")? {
            None => Ok(None),
            Some(Field::Text(text) | Field::Json(Value::String(text))) => Ok(Some(text)),
            Some(other) => Err(unexpected(name, &kind(other), "a string")),
        }
    }

    /// A text or a list of them; none where it is absent or null.
    ///
    /// # Errors
    /// If it is something else.
    pub fn texts(&self, name: &str) -> Result<Option<Texts>, Refusal> {
        let expected = "a string or an array of strings";
        let Some(fields) = self.by_name.get(name) else { return Ok(None) };
        let text = |field: &Field| match field {
            Field::Text(text) | Field::Json(Value::String(text)) => Ok(text.clone()),
            other => Err(unexpected(name, &kind(other), expected)),
        };
        match fields.as_slice() {
            [Field::Json(Value::Null)] => Ok(None),
            [Field::Json(Value::Array(items))] => {
                let texts = items.iter().map(|item| {
                    let found = format!("an array with {}", json_kind(item));
                    item.as_str().map(str::to_owned).ok_or_else(|| unexpected(name, &found, expected))
                });
                Ok(Some(Texts::Many(texts.collect::<Result<_, _>>()?)))
            }
            [field] => Ok(Some(Texts::One(text(field)?))),
            fields => Ok(Some(Texts::Many(fields.iter().map(text).collect::<Result<_, _>>()?))),
        }
    }

    /// A whole number of 0 or more, also as text; none where it is absent, null or an empty text.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let expected = "a whole number";
        match self.one(name, expected)? {
            None => Ok(None),
            Some(Field::Text(text) | Field::Json(Value::String(text))) if text.is_empty() => Ok(None),
            Some(Field::Text(text) | Field::Json(Value::String(text))) => {
                text.parse().map(Some).map_err(|_| unexpected(name, &quoted(text), expected))
            }
            Some(Field::Json(Value::Number(number))) => {
                let whole = number.as_u64().or_else(|| {
                    // Some clients have only floats.
                    let float = number.as_f64()?;
                    (float.fract() == 0.0 && (0.0..=9e15).contains(&float)).then_some(float as u64)
                });
                whole.map(Some).ok_or_else(|| unexpected(name, &number.to_string(), expected))
            }
            Some(other) => Err(unexpected(name, &kind(other), expected)),
        }
    }

    /// A switch: true or false, also as text, 1 or 0; none where it is absent, null or an empty text.
    ///
    /// # Errors
    /// If it is something else.
    pub fn switch(&self, name: &str) -> Result<Option<bool>, Refusal> {
        let expected = "true or false";
        match self.one(name, expected)? {
            None => Ok(None),
            Some(Field::Json(Value::Bool(is_on))) => Ok(Some(*is_on)),
            Some(Field::Text(text) | Field::Json(Value::String(text))) => match text.as_str() {
                "" => Ok(None),
                "true" | "1" | "on" | "yes" => Ok(Some(true)),
                "false" | "0" | "off" | "no" => Ok(Some(false)),
                other => Err(unexpected(name, &quoted(other), expected)),
            },
            Some(Field::Json(Value::Number(number))) if matches!(number.as_u64(), Some(0 | 1)) => {
                Ok(number.as_u64().map(|number| number == 1))
            }
            Some(other) => Err(unexpected(name, &kind(other), expected)),
        }
    }

    /// A file; none where it is absent.
    ///
    /// # Errors
    /// If it is something else, or there several times.
    pub fn file(&self, name: &str) -> Result<Option<&File>, Refusal> {
        match self.one(name, "a file")? {
            None => Ok(None),
            Some(Field::File(file)) => Ok(Some(file)),
            Some(other) => Err(unexpected(name, &kind(other), "a file")),
        }
    }

    /// Everything but files as one JSON object: a text as a string, a name that came several times as an array.
    pub fn json(&self) -> Value {
        let value = |field: &Field| match field {
            Field::Text(text) => Some(Value::String(text.clone())),
            Field::Json(value) => Some(value.clone()),
            Field::File(_) => None,
        };
        let fields = self.by_name.iter().filter_map(|(name, fields)| {
            let mut values: Vec<Value> = fields.iter().filter_map(value).collect();
            let value = if fields.len() == 1 { values.pop() } else { Some(Value::Array(values)) };
            value.map(|value| (name.clone(), value))
        });
        Value::Object(fields.collect())
    }

    /// The only value of a name.
    fn one(&self, name: &str, expected: &str) -> Result<Option<&Field>, Refusal> {
        match self.by_name.get(name).map(Vec::as_slice) {
            None | Some([] | [Field::Json(Value::Null)]) => Ok(None),
            Some([field]) => Ok(Some(field)),
            Some(several) => Err(unexpected(name, &format!("{} values", several.len()), expected)),
        }
    }
}

fn unexpected(name: &str, found: &str, expected: &str) -> Refusal {
    Refusal::bad(
        format!("{name}: {found}, expected {expected}"),
        "the description of the API shows each field",
    )
}

/// A text as it stands in a message, which no text makes long.
fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("{short:?}{}", if short.len() < text.len() { "…" } else { "" })
}

fn kind(field: &Field) -> String {
    match field {
        Field::Text(_) => "a text".into(),
        Field::File(_) => "a file".into(),
        Field::Json(value) => json_kind(value).into(),
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: Value) -> Fields {
        let Value::Object(object) = value else { panic!("{value}") };
        Fields::of_object(object)
    }

    #[test]
    fn json_and_text_are_read_alike() {
        let mut form = Fields::default();
        for (name, text) in [("q", "a"), ("n", "3"), ("is", "true"), ("none", "")] {
            form.add_text(name.into(), text.into());
        }
        let object = of(json!({ "q": "a", "n": 3.0, "is": true, "none": null }));
        for fields in [&form, &object] {
            assert_eq!(fields.text("q").unwrap(), Some("a"));
            assert_eq!(fields.texts("q").unwrap(), Some(Texts::One("a".into())));
            assert_eq!(fields.number("n").unwrap(), Some(3));
            assert_eq!(fields.switch("is").unwrap(), Some(true));
            assert_eq!((fields.number("none").unwrap(), fields.switch("none").unwrap()), (None, None));
            assert_eq!((fields.text("absent").unwrap(), fields.texts("absent").unwrap()), (None, None));
        }
        assert_eq!(form.json(), json!({ "q": "a", "n": "3", "is": "true", "none": "" }));
        assert_eq!(form.names().collect::<Vec<_>>(), ["is", "n", "none", "q"]);
    }

    #[test]
    fn a_name_that_comes_again_is_a_list() {
        let mut form = Fields::default();
        form.add_text("q".into(), "a".into());
        form.add_text("q".into(), "b".into());
        let array = of(json!({ "q": ["a", "b"] }));
        let expected = Some(Texts::Many(vec!["a".into(), "b".into()]));
        assert_eq!((form.texts("q").unwrap(), array.texts("q").unwrap()), (expected.clone(), expected));
        assert_eq!(form.json(), array.json());
        assert_eq!(of(json!({ "q": [] })).texts("q").unwrap(), Some(Texts::Many(Vec::new())));
        assert_eq!(form.text("q").unwrap_err().error, "q: 2 values, expected a string");
    }

    #[test]
    fn what_is_of_another_kind_is_told() {
        let fields = of(json!({ "q": { "a": 1 }, "n": -1, "f": 1.5, "l": ["a", 1], "t": "x".repeat(99) }));
        assert_eq!(fields.text("q").unwrap_err().error, "q: an object, expected a string");
        assert_eq!(fields.number("n").unwrap_err().error, "n: -1, expected a whole number");
        assert_eq!(fields.number("f").unwrap_err().error, "f: 1.5, expected a whole number");
        let error = fields.texts("l").unwrap_err().error;
        assert_eq!(error, "l: an array with a number, expected a string or an array of strings");
        let error = fields.switch("t").unwrap_err().error;
        assert_eq!(error, format!("t: {:?}…, expected true or false", "x".repeat(40)));
        assert_eq!(fields.file("t").unwrap_err().error, "t: a string, expected a file");
    }

    #[test]
    fn the_first_fields_win_over_added_ones() {
        let mut fields = of(json!({ "q": "a" }));
        fields.add_missing(of(json!({ "q": "b", "target": "tr" })));
        assert_eq!(fields.json(), json!({ "q": "a", "target": "tr" }));
    }
}
