//! Errors in the shape of OpenAI's API, which its clients show and tell apart by status and code.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::Error;
use crate::front::ErrorResponse;
use crate::front::budget::OutOfMemory;

/// An error response: `{"error": {"message", "type", "param", "code", "hint"}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct OpenAiError {
    response: ErrorResponse,
    /// The field that is wrong.
    param: Option<&'static str>,
    code: Option<&'static str>,
}

impl OpenAiError {
    /// An invalid field: 400.
    pub(super) fn field(param: &'static str, error: impl Into<String>, hint: impl Into<String>) -> Self {
        let response = ErrorResponse::bad_request(error, hint);
        Self { response, param: Some(param), code: Some("invalid_value") }
    }

    /// The same error with another code.
    pub(super) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// The same error with another hint.
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.response.hint = hint.into();
        self
    }

    /// The error as JSON.
    pub(super) fn json(&self) -> Value {
        let Self { response, param, code } = self;
        let kind = match response.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({
            "error": {
                "message": response.error, "type": kind, "param": param, "code": code, "hint": response.hint,
            }
        })
    }
}

impl From<ErrorResponse> for OpenAiError {
    fn from(mut response: ErrorResponse) -> Self {
        let code = match response.status {
            // A wrong or missing key; OpenAI's clients expect 401.
            StatusCode::FORBIDDEN => {
                response.status = StatusCode::UNAUTHORIZED;
                response.hint =
                    "send a key of this server as Authorization: Bearer KEY (api_key of the client)".into();
                Some("invalid_api_key")
            }
            // A model of another kind.
            StatusCode::NOT_FOUND | StatusCode::FAILED_DEPENDENCY => {
                response.status = StatusCode::NOT_FOUND;
                Some("model_not_found")
            }
            StatusCode::PAYLOAD_TOO_LARGE => Some("request_too_large"),
            StatusCode::TOO_MANY_REQUESTS => Some("rate_limit_exceeded"),
            StatusCode::SERVICE_UNAVAILABLE => Some("server_busy"),
            _ => None,
        };
        let param = (response.status == StatusCode::NOT_FOUND).then_some("model");
        Self { response, param, code }
    }
}

impl From<Error> for OpenAiError {
    fn from(error: Error) -> Self {
        ErrorResponse::from(error).into()
    }
}

impl From<OutOfMemory> for OpenAiError {
    fn from(error: OutOfMemory) -> Self {
        Error::from(error).into()
    }
}

impl IntoResponse for OpenAiError {
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
    fn errors_have_openais_shape() {
        let error = OpenAiError::field("n", "n: 0, expected 1 to 16", "ask for one");
        let expected = json!({ "error": {
            "message": "n: 0, expected 1 to 16", "type": "invalid_request_error", "param": "n",
            "code": "invalid_value", "hint": "ask for one",
        } });
        assert_eq!((error.json(), error.into_response().status().as_u16()), (expected, 400));
        for (status, found, kind, code) in [
            (403, 401, "invalid_request_error", "invalid_api_key"),
            (404, 404, "invalid_request_error", "model_not_found"),
            (413, 413, "invalid_request_error", "request_too_large"),
            (429, 429, "rate_limit_error", "rate_limit_exceeded"),
            (503, 503, "server_error", "server_busy"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = OpenAiError::from(ErrorResponse::new(status, "a", "b").after(3));
            let json = error.json();
            assert_eq!(
                (json["error"]["type"].as_str(), json["error"]["code"].as_str()),
                (Some(kind), Some(code))
            );
            let response = error.into_response();
            assert_eq!(
                (response.status().as_u16(), response.headers()["retry-after"].as_bytes()),
                (found, &b"3"[..])
            );
            assert_eq!(response.headers().contains_key("www-authenticate"), found == 401);
        }
    }
}
