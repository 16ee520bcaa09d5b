//! The fields of a request by name, whether they came as JSON, as a form or in the query.
//!
//! Forms have only text, so numbers and booleans are parsed from text, too; JSON values keep their types.

use std::collections::BTreeMap;

use axum::body::Bytes;
use serde_json::Value;

use super::error_response::ErrorResponse;

/// An uploaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadedFile {
    /// Its name as sent, without folders; for display only, never a path to open.
    pub name: String,
    /// Its media type as sent, if any.
    pub media_type: Option<String>,
    /// Its content.
    pub bytes: Bytes,
}

/// One value of a field.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Text(String),
    Json(Value),
    File(UploadedFile),
}

/// One text or a list, where both are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Texts {
    /// One text, answered by one.
    One(String),
    /// A list, answered by a list; it may be empty.
    Many(Vec<String>),
}

/// All fields of a request.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    by_name: BTreeMap<String, Vec<Field>>,
}

impl Fields {
    /// The members of a JSON object.
    pub(super) fn from_object(object: serde_json::Map<String, Value>) -> Self {
        let by_name = object.into_iter().map(|(name, value)| (name, vec![Field::Json(value)])).collect();
        Self { by_name }
    }

    /// Adds a text; a repeated name becomes a list.
    pub(super) fn add_text(&mut self, name: String, text: String) {
        self.by_name.entry(name).or_default().push(Field::Text(text));
    }

    /// Adds a file.
    pub(super) fn add_file(&mut self, name: String, file: UploadedFile) {
        self.by_name.entry(name).or_default().push(Field::File(file));
    }

    /// Adds the fields of `other` whose names are missing here.
    pub(super) fn add_missing(&mut self, other: Self) {
        for (name, values) in other.by_name {
            self.by_name.entry(name).or_insert(values);
        }
    }

    /// Bytes of all texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let text = |field: &Field| match field {
            Field::Text(text) | Field::Json(Value::String(text)) => text.len(),
            Field::Json(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::len).sum(),
            _ => 0,
        };
        self.by_name.values().flatten().map(text).sum()
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// True if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// A text; none if it is missing or null.
    ///
    /// # Errors
    /// If it has another type, or several values.
    pub fn text(&self, name: &str) -> Result<Option<&str>, ErrorResponse> {
        match self.one(name, "a string")? {
            None => Ok(None),
            Some(Field::Text(text) | Field::Json(Value::String(text))) => Ok(Some(text)),
            Some(other) => Err(unexpected(name, &type_name(other), "a string")),
        }
    }

    /// A text or a list of texts; none if it is missing or null.
    ///
    /// # Errors
    /// If it has another type.
    pub fn texts(&self, name: &str) -> Result<Option<Texts>, ErrorResponse> {
        let expected = "a string or an array of strings";
        let Some(fields) = self.by_name.get(name) else { return Ok(None) };
        let text = |field: &Field| match field {
            Field::Text(text) | Field::Json(Value::String(text)) => Ok(text.clone()),
            other => Err(unexpected(name, &type_name(other), expected)),
        };
        match fields.as_slice() {
            [Field::Json(Value::Null)] => Ok(None),
            [Field::Json(Value::Array(items))] => {
                let texts = items.iter().map(|item| {
                    let found = format!("an array with {}", json_type(item));
                    item.as_str().map(str::to_owned).ok_or_else(|| unexpected(name, &found, expected))
                });
                Ok(Some(Texts::Many(texts.collect::<Result<_, _>>()?)))
            }
            [field] => Ok(Some(Texts::One(text(field)?))),
            fields => Ok(Some(Texts::Many(fields.iter().map(text).collect::<Result<_, _>>()?))),
        }
    }

    /// A whole number, at least 0, also as text; none if it is missing, null or an empty text.
    ///
    /// # Errors
    /// If it has another type.
    pub fn number(&self, name: &str) -> Result<Option<u64>, ErrorResponse> {
        let expected = "a whole number";
        match self.one(name, expected)? {
            None => Ok(None),
            Some(Field::Text(text) | Field::Json(Value::String(text))) if text.is_empty() => Ok(None),
            Some(Field::Text(text) | Field::Json(Value::String(text))) => {
                text.parse().map(Some).map_err(|_| unexpected(name, &quoted(text), expected))
            }
            Some(Field::Json(Value::Number(number))) => {
                let whole = number.as_u64().or_else(|| {
                    // Some clients send all numbers as floats.
                    let float = number.as_f64()?;
                    (float.fract() == 0.0 && (0.0..=9e15).contains(&float)).then_some(float as u64)
                });
                whole.map(Some).ok_or_else(|| unexpected(name, &number.to_string(), expected))
            }
            Some(other) => Err(unexpected(name, &type_name(other), expected)),
        }
    }

    /// A boolean, also as text or as 1 or 0; none if it is missing, null or an empty text.
    ///
    /// # Errors
    /// If it has another type.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ErrorResponse> {
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
            Some(other) => Err(unexpected(name, &type_name(other), expected)),
        }
    }

    /// The JSON value of a field, texts of forms as strings; none if it is missing.
    pub fn value(&self, name: &str) -> Option<Value> {
        match self.by_name.get(name)?.as_slice() {
            [Field::Json(value)] => Some(value.clone()),
            [Field::Text(text)] => Some(Value::String(text.clone())),
            _ => None,
        }
    }

    /// A file; none if it is missing.
    ///
    /// # Errors
    /// If it has another type, or several values.
    pub fn file(&self, name: &str) -> Result<Option<&UploadedFile>, ErrorResponse> {
        match self.one(name, "a file")? {
            None => Ok(None),
            Some(Field::File(file)) => Ok(Some(file)),
            Some(other) => Err(unexpected(name, &type_name(other), "a file")),
        }
    }

    /// All fields except files as one JSON object: a text as a string, a repeated name as an array.
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

    /// The single value of a name.
    fn one(&self, name: &str, expected: &str) -> Result<Option<&Field>, ErrorResponse> {
        match self.by_name.get(name).map(Vec::as_slice) {
            None | Some([] | [Field::Json(Value::Null)]) => Ok(None),
            Some([field]) => Ok(Some(field)),
            Some(several) => Err(unexpected(name, &format!("{} values", several.len()), expected)),
        }
    }
}

fn unexpected(name: &str, found: &str, expected: &str) -> ErrorResponse {
    ErrorResponse::bad_request(
        format!("{name}: {found}, expected {expected}"),
        "the description of the API lists each field",
    )
}

/// A text in quotes for a message, cut to 40 characters.
pub(crate) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("{short:?}{}", if short.len() < text.len() { "…" } else { "" })
}

fn type_name(field: &Field) -> String {
    match field {
        Field::Text(_) => "a text".into(),
        Field::File(_) => "a file".into(),
        Field::Json(value) => json_type(value).into(),
    }
}

fn json_type(value: &Value) -> &'static str {
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
        Fields::from_object(object)
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
            assert_eq!(fields.boolean("is").unwrap(), Some(true));
            assert_eq!((fields.number("none").unwrap(), fields.boolean("none").unwrap()), (None, None));
            assert_eq!((fields.text("absent").unwrap(), fields.texts("absent").unwrap()), (None, None));
        }
        assert_eq!(form.json(), json!({ "q": "a", "n": "3", "is": "true", "none": "" }));
        assert_eq!(form.names().collect::<Vec<_>>(), ["is", "n", "none", "q"]);
    }

    #[test]
    fn a_repeated_name_is_a_list() {
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
    fn values_of_another_type_are_refused() {
        let fields = of(json!({ "q": { "a": 1 }, "n": -1, "f": 1.5, "l": ["a", 1], "t": "x".repeat(99) }));
        assert_eq!(fields.text("q").unwrap_err().error, "q: an object, expected a string");
        assert_eq!(fields.number("n").unwrap_err().error, "n: -1, expected a whole number");
        assert_eq!(fields.number("f").unwrap_err().error, "f: 1.5, expected a whole number");
        let error = fields.texts("l").unwrap_err().error;
        assert_eq!(error, "l: an array with a number, expected a string or an array of strings");
        let error = fields.boolean("t").unwrap_err().error;
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
