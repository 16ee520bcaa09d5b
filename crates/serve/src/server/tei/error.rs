//! Errors in the shape of text-embeddings-inference: `{"error", "error_type"}`, and its status codes.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::encoder::EncoderError;
use crate::Error;
use crate::front::ErrorResponse;

/// An error response, with our `hint` beside the fields that clients know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct TeiError {
    response: ErrorResponse,
    error_type: &'static str,
}

impl TeiError {
    /// A field with a wrong value: 422.
    pub(super) fn field(error: impl Into<String>, hint: impl Into<String>) -> Self {
        let response = ErrorResponse::new(StatusCode::UNPROCESSABLE_ENTITY, error, hint);
        Self { response, error_type: "Validation" }
    }

    /// An empty list: 400.
    pub(super) fn empty(field: &str) -> Self {
        let response = ErrorResponse::bad_request(
            format!("{field}: an empty array, expected texts"),
            "send at least one text",
        );
        Self { response, error_type: "Empty" }
    }

    /// The error as JSON.
    pub(super) fn json(&self) -> Value {
        let Self { response: ErrorResponse { error, hint, .. }, error_type } = self;
        json!({ "error": error, "error_type": error_type, "hint": hint })
    }
}

impl From<ErrorResponse> for TeiError {
    fn from(mut response: ErrorResponse) -> Self {
        let error_type = match response.status {
            StatusCode::FORBIDDEN => {
                response.status = StatusCode::UNAUTHORIZED;
                response.hint = "send a key of this server as Authorization: Bearer KEY".into();
                "Validation"
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                response.status = StatusCode::TOO_MANY_REQUESTS;
                "Overloaded"
            }
            StatusCode::INTERNAL_SERVER_ERROR | StatusCode::FAILED_DEPENDENCY => {
                response.status = StatusCode::FAILED_DEPENDENCY;
                "Backend"
            }
            _ => "Validation",
        };
        Self { response, error_type }
    }
}

impl From<Error> for TeiError {
    fn from(error: Error) -> Self {
        ErrorResponse::from(error).into()
    }
}

impl From<EncoderError> for TeiError {
    fn from(error: EncoderError) -> Self {
        match error {
            EncoderError::TooLong(response) => response.into(),
            EncoderError::Unreadable(response) => Self { response, error_type: "Tokenizer" },
            EncoderError::Dimensions(response) => Self::field(response.error, response.hint),
            EncoderError::Other(error) => error.into(),
        }
    }
}

impl IntoResponse for TeiError {
    fn into_response(self) -> Response {
        let status = self.response.status;
        let body = self.json().to_string();
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        if let Some(seconds) = self.response.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_shape_and_the_status_codes() {
        for (status, found, error_type) in [
            (400, 400, "Validation"),
            (403, 401, "Validation"),
            (413, 413, "Validation"),
            (424, 424, "Backend"),
            (429, 429, "Overloaded"),
            (500, 424, "Backend"),
            (503, 429, "Overloaded"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = TeiError::from(ErrorResponse::new(status, "a", "b").after(3));
            assert_eq!(
                (error.json()["error"].as_str(), error.json()["error_type"].as_str()),
                (Some("a"), Some(error_type))
            );
            let response = error.into_response();
            assert_eq!(
                (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
                (found, &b"3"[..])
            );
        }
        assert_eq!(TeiError::field("a", "b").into_response().status(), 422);
        assert_eq!(TeiError::empty("texts").json()["error_type"], "Empty");
    }
}
