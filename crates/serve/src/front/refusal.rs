//! An answer that says no: a status, what was found and expected, and what to do about it.
//!
//! The body is `{"error": "…", "hint": "…"}`; clients of LibreTranslate show `error`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// What was found, what was expected.
    pub error: String,
    /// What to do about it.
    pub hint: String,
    /// Seconds after which to try again, where that helps.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// With a status, what was found and what to do about it.
    pub fn new(status: StatusCode, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, error: error.into(), hint: hint.into(), retry_after: None }
    }

    /// A request that cannot be read: 400.
    pub fn bad(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, hint)
    }

    /// The same, to be tried again after some seconds.
    #[must_use]
    pub fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.error, "hint": self.hint }).to_string();
        let mut response = (self.status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_json_and_says_when_to_come_back() {
        let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "60 requests", "wait").after(7);
        assert_eq!(refusal.to_string(), "60 requests");
        let response = refusal.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "7");
        assert_eq!(response.headers()["content-type"], "application/json");
        assert!(!Refusal::bad("a", "b").into_response().headers().contains_key("retry-after"));
    }
}
