//! Who may ask: only a page that came from here.
//!
//! A server on this machine can be reached by every page that a browser shows. Two things keep those out. The name in `Host`
//! must be this machine's: a foreign name that was made to lead here (DNS rebinding) is refused. And `Origin`, where a
//! browser sends one, must be this very page. Answers carry a policy by which the page loads nothing from elsewhere.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::routes::refusal;
use crate::Error;

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
    let mut response = match foreign(request.headers(), address) {
        Some(found) => {
            let expected = format!("http://{address}");
            refusal(StatusCode::FORBIDDEN, &Error::Foreign { found, expected })
        }
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The Host or Origin that is not ours, if there is one.
fn foreign(headers: &HeaderMap, address: SocketAddr) -> Option<String> {
    let text = |name| {
        headers.get(name).map(|value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let host = text(header::HOST).unwrap_or_default();
    if !is_own(&host, address) {
        return Some(host);
    }
    let origin = text(header::ORIGIN)?;
    (!origin.strip_prefix("http://").is_some_and(|host| is_own(host, address))).then_some(origin)
}

/// Whether `host` is this machine at our port; browsers leave port 80 out.
fn is_own(host: &str, address: SocketAddr) -> bool {
    let port = address.port();
    let names = ["127.0.0.1", "localhost"];
    names.iter().any(|name| host == format!("{name}:{port}") || (port == 80 && host == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_and_port_are_ours() {
        let address: SocketAddr = "127.0.0.1:7465".parse().unwrap();
        assert!(is_own("127.0.0.1:7465", address) && is_own("localhost:7465", address));
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:80",
            "evil.example:7465",
            "localhost.evil.example:7465",
            "127.0.0.1:74650",
            "0.0.0.0:7465",
        ] {
            assert!(!is_own(host, address), "{host}");
        }
        assert!(is_own("localhost", "127.0.0.1:80".parse().unwrap()));
    }
}
