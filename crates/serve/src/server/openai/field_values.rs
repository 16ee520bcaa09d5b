//! The values of fields, with errors in OpenAI's shape.

use serde_json::Value;

use super::error::OpenAiError;
use crate::front::ErrorResponse;
use crate::front::fields::{Fields, quoted};

/// The hint of most errors.
pub(super) const HINT: &str = "/docs shows each field";

/// A text.
pub(super) fn text(fields: &Fields, name: &'static str) -> Result<Option<String>, OpenAiError> {
    Ok(fields.text(name).map_err(|error| named(name, error))?.map(str::to_owned))
}

/// True or false.
pub(super) fn boolean(fields: &Fields, name: &'static str) -> Result<Option<bool>, OpenAiError> {
    fields.boolean(name).map_err(|error| named(name, error))
}

/// A whole number in a range.
pub(super) fn whole(
    fields: &Fields,
    name: &'static str,
    [least, most]: [usize; 2],
) -> Result<Option<usize>, OpenAiError> {
    let found = fields.number(name).map_err(|error| named(name, error))?;
    match found.map(|number| usize::try_from(number).unwrap_or(usize::MAX)) {
        Some(number) if !(least..=most).contains(&number) => {
            let error = format!("{name}: {number}, expected {least} to {most}");
            Err(OpenAiError::field(name, error, HINT))
        }
        other => Ok(other),
    }
}

/// A number.
pub(super) fn decimal(
    fields: &Fields,
    name: &'static str,
    fits: impl Fn(f32) -> bool,
    expected: &str,
) -> Result<Option<f32>, OpenAiError> {
    match fields.value(name) {
        None | Some(Value::Null) => Ok(None),
        // Forms have only text.
        Some(value) => {
            match value.as_f64().or_else(|| value.as_str()?.parse().ok()).map(|number| number as f32) {
                Some(number) if number.is_finite() && fits(number) => Ok(Some(number)),
                _ => Err(OpenAiError::field(
                    name,
                    format!("{name}: {}, expected {expected}", quoted(&value.to_string())),
                    HINT,
                )),
            }
        }
    }
}

/// The error of a field.
pub(super) fn named(name: &'static str, error: ErrorResponse) -> OpenAiError {
    OpenAiError::field(name, error.error, error.hint)
}
