//! Who may ask: only a page that came from here (see `front::origin`). Answers carry a policy by which the page loads
//! nothing from elsewhere.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::routes::refusal;
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

/// Refuses foreign requests, and adds the headers of safety to every answer.
pub(super) async fn guard(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let origins = Origins::new(address, &[], Cors::None);
    let response = match origins.foreign(request.uri(), request.headers()) {
        Some(found) => {
            let expected = format!("http://{address}");
            refusal(StatusCode::FORBIDDEN, &Error::Foreign { found, expected })
        }
        None => next.run(request).await,
    };
    safe(response)
}

/// An answer with the headers of safety.
pub(crate) fn safe(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
