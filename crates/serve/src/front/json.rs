//! A JSON object as [`Fields`], read as a stream: only known members are kept, and only so many values.
//!
//! `serde_json::Value` needs about a hundred bytes for a value of seven (`{"":0},`). Members that nobody asks for are
//! skipped without being built; of the others each value counts.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::error_response::ErrorResponse;
use super::fields::{Fields, quoted};

/// What is read of a request.
#[derive(Debug, Clone, Copy)]
pub struct KnownFields {
    /// Names of the fields; others are skipped.
    pub names: &'static [&'static str],
    /// Maximum number of JSON values in the known fields together; default: 2048.
    pub values: usize,
    /// Unknown fields are skipped, or the first is kept without its value, for whoever refuses it.
    pub unknown: UnknownFields,
}

/// What becomes of a field that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownFields {
    /// It is skipped.
    Skipped,
    /// The first one is kept by its name.
    Named,
}

/// Reads the members of an object.
///
/// # Errors
/// 400 if it is no JSON object, 413 if it has too many values.
pub(super) fn read(body: &[u8], known: &KnownFields) -> Result<Fields, ErrorResponse> {
    let left = Cell::new(known.values);
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let object = deserializer.deserialize_map(Members { known, left: &left });
    let object = object.and_then(|object| deserializer.end().map(|()| object));
    match object {
        Ok(object) => Ok(Fields::from_object(object)),
        Err(_) if left.get() == usize::MAX => {
            let error = format!("more than {} JSON values, expected at most that many", known.values);
            Err(ErrorResponse::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, error, "send it in parts"))
        }
        Err(error) => {
            let hint = "is the body JSON in UTF-8, as its content type says?";
            Err(ErrorResponse::bad_request(format!("invalid JSON ({error}), expected an object"), hint))
        }
    }
}

/// The members of the object.
struct Members<'a> {
    known: &'a KnownFields,
    /// Values that may still come; the largest number once there were too many.
    left: &'a Cell<usize>,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = Map::new();
        let mut has_unknown = false;
        while let Some(name) = members.next_key_seed(Name)? {
            if self.known.names.contains(&name.as_str()) {
                let value = members.next_value_seed(Counted(self.left))?;
                found.insert(name, value);
                continue;
            }
            members.next_value::<IgnoredAny>()?;
            if self.known.unknown == UnknownFields::Named && !has_unknown {
                has_unknown = true;
                found.insert(name, Value::Null);
            }
        }
        Ok(found)
    }
}

/// The name of a member, shortened: no known name is long.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<String, E> {
        Ok(if name.len() <= 64 { name.to_owned() } else { quoted(name) })
    }
}

/// A value, counted with all that it contains.
#[derive(Clone, Copy)]
struct Counted<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0.get() {
            0 | usize::MAX => {
                self.0.set(usize::MAX);
                return Err(D::Error::custom("too many values"));
            }
            left => self.0.set(left - 1),
        }
        // The parser limits the depth.
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            found.push(item);
        }
        Ok(Value::Array(found))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut found = Map::new();
        while let Some(name) = members.next_key_seed(Name)? {
            found.insert(name, members.next_value_seed(self)?);
        }
        Ok(Value::Object(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const KNOWN: KnownFields =
        KnownFields { names: &["q", "target"], values: 10, unknown: UnknownFields::Skipped };

    fn parsed(body: &str, known: &KnownFields) -> Result<Value, u16> {
        read(body.as_bytes(), known).map(|fields| fields.json()).map_err(|error| error.status.as_u16())
    }

    #[test]
    fn unknown_members_are_skipped_or_named() {
        let body = r#"{"junk": [{"": 0}, {"a": {"b": [1, "x"]}}], "q": "a", "more": 1, "target": null}"#;
        assert_eq!(parsed(body, &KNOWN), Ok(json!({ "q": "a", "target": null })));
        let named = KnownFields { unknown: UnknownFields::Named, ..KNOWN };
        assert_eq!(parsed(body, &named), Ok(json!({ "q": "a", "target": null, "junk": null })));
        let long = format!("{{\"{}\": 1}}", "x".repeat(1000));
        let name = parsed(&long, &named).unwrap().as_object().unwrap().keys().next().unwrap().clone();
        assert!(name.len() < 64, "{name}");
    }

    #[test]
    fn values_of_known_members_are_counted() {
        let many = |count: usize| format!("{{\"q\": [{}]}}", vec!["\"\""; count].join(","));
        assert_eq!(parsed(&many(9), &KNOWN), Ok(json!({ "q": vec![""; 9] })));
        assert_eq!(parsed(&many(10), &KNOWN), Err(413));
        assert_eq!(parsed(&many(100_000), &KNOWN), Err(413));
        let junk = format!("{{\"junk\": [{}]}}", vec!["{\"\":0}"; 100_000].join(","));
        assert_eq!(parsed(&junk, &KNOWN), Ok(json!({})));
    }

    #[test]
    fn deep_values_are_refused_or_skipped() {
        for body in ["{\"q\":".repeat(100_000), format!("{{\"q\":{}", "[".repeat(100_000))] {
            assert!(
                matches!(parsed(&body, &KnownFields { values: 1 << 20, ..KNOWN }), Err(400)),
                "{body:.40}"
            );
        }
        let deep = format!("{{\"junk\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parsed(&deep, &KNOWN), Ok(json!({})));
    }

    proptest! {
        /// What it keeps is what `serde_json` reads.
        #[test]
        fn known_members_are_read_exactly(
            text in any::<String>(), number in any::<i64>(), float in -1e300..1e300_f64, is in any::<bool>()
        ) {
            let value = json!({ "q": [text, number, { "x": float }], "target": is, "other": text });
            let expected = json!({ "q": value["q"], "target": is });
            prop_assert_eq!(parsed(&value.to_string(), &KNOWN), Ok(expected));
        }
    }
}
