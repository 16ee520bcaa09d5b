//! An error as an HTTP response: a status, what was found and expected, and a hint.
//!
//! The body is `{"error": "…", "hint": "…"}`; clients of LibreTranslate show `error`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct ErrorResponse {
    /// HTTP status.
    pub status: StatusCode,
    /// The problem: found and expected.
    pub error: String,
    /// A remedy.
    pub hint: String,
    /// Seconds for `Retry-After`, if trying again helps.
    pub retry_after: Option<u64>,
}

impl ErrorResponse {
    /// A response with a status, an error and a hint.
    pub fn new(status: StatusCode, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, error: error.into(), hint: hint.into(), retry_after: None }
    }

    /// An invalid request: 400.
    pub fn bad_request(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, hint)
    }

    /// The same with `Retry-After`.
    #[must_use]
    pub fn after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }
}

impl IntoResponse for ErrorResponse {
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
    fn an_error_is_json_and_has_retry_after() {
        let error = ErrorResponse::new(StatusCode::TOO_MANY_REQUESTS, "60 requests", "wait").after(7);
        assert_eq!(error.to_string(), "60 requests");
        let response = error.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "7");
        assert_eq!(response.headers()["content-type"], "application/json");
        assert!(!ErrorResponse::bad_request("a", "b").into_response().headers().contains_key("retry-after"));
    }
}
