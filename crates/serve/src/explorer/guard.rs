//! Refuses requests of foreign pages (see `front::origin`), and adds security headers, with a policy by which the page loads
//! nothing from other origins.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::routes::error_response;
use crate::Error;
use crate::front::origin::{Cors, Origins};

const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Middleware that refuses foreign requests and adds security headers to every answer.
pub(super) async fn guard(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let origins = Origins::new(address, &[], Cors::None);
    let response = match origins.foreign(request.uri(), request.headers()) {
        Some(found) => {
            let expected = format!("http://{address}");
            error_response(StatusCode::FORBIDDEN, &Error::ForeignOrigin { found, expected })
        }
        None => next.run(request).await,
    };
    with_security_headers(response)
}

/// Adds the security headers to an answer.
pub(crate) fn with_security_headers(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
