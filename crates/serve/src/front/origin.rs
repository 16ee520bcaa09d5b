//! Checks of `Host` and `Origin`, and CORS headers.
//!
//! Any page in a browser can send requests to a server on this machine or in its network. Two checks keep such pages out. The
//! name in `Host` must be one of the server's: a foreign name that resolves to this address (DNS rebinding) is refused. And
//! `Origin`, if a browser sends one, must be the server's own, unless other origins are allowed (CORS).

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::error_response::ErrorResponse;

/// Other origins whose pages may use the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cors {
    /// None.
    #[default]
    None,
    /// These origins, such as `https://example.org`.
    List(Vec<String>),
    /// All.
    Any,
}

impl FromStr for Cors {
    type Err = String;

    /// Parses `none`, `*` or a comma-separated list of origins.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self::None),
            "*" => Ok(Self::Any),
            list => {
                let origins = list.split(',').map(|origin| {
                    let origin = origin.trim().to_ascii_lowercase();
                    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
                    let is_origin =
                        host.is_some_and(|host| !host.is_empty() && !host.contains(['/', ' ', '*']));
                    let expected = "expected none, * or origins such as https://example.org, without a path";
                    if is_origin { Ok(origin) } else { Err(format!("origin {origin:?}, {expected}")) }
                });
                Ok(Self::List(origins.collect::<Result<_, _>>()?))
            }
        }
    }
}

/// The host names of a server, and its allowed origins.
#[derive(Debug, Clone)]
pub struct Origins {
    /// Loopback names with the port.
    own: Vec<String>,
    /// Other names, with or without a port.
    names: Vec<String>,
    is_any_name: bool,
    cors: Cors,
}

impl Origins {
    /// The names of a server at `address`: `127.0.0.1`, `localhost` and `[::1]` with its port, and `names`; any name if there
    /// are no `names` and the address is not loopback. A name without a port matches every port.
    pub fn new(address: SocketAddr, names: &[String], cors: Cors) -> Self {
        let port = address.port();
        let own = ["127.0.0.1", "localhost", "[::1]"];
        let mut own: Vec<String> = own.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            // Browsers omit port 80.
            own.extend(own.clone().iter().filter_map(|name| name.strip_suffix(":80").map(str::to_owned)));
        }
        let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { is_any_name: !address.ip().is_loopback() && names.is_empty(), own, names, cors }
    }

    /// The `Host` or `Origin` of a request that is not allowed, if any.
    pub fn foreign(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        // All `Host` headers are checked: a proxy in between may have used the second one.
        let sent = headers.get_all(header::HOST).iter().map(shown);
        let mut hosts: Vec<String> =
            sent.chain(uri.authority().map(|authority| authority.as_str().to_owned())).collect();
        if hosts.is_empty() {
            hosts.push(String::new());
        }
        if let Some(found) = hosts.iter().find(|host| !self.is_name(host)) {
            return Some(found.clone());
        }
        let host = &hosts[0];
        let origin = headers.get(header::ORIGIN).map(shown)?;
        (!self.is_own_origin(&origin, host) && !self.is_allowed(&origin)).then_some(origin)
    }

    /// Adds the CORS headers to an answer.
    pub fn add_headers(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        let allowed = match (&self.cors, origin) {
            (Cors::Any, _) => HeaderValue::from_static("*"),
            (cors, origin) => {
                headers.append(header::VARY, HeaderValue::from_static("Origin"));
                let Some(origin) = origin.filter(|_| *cors != Cors::None) else { return };
                if !self.is_allowed(&shown(origin)) {
                    return;
                }
                origin.clone()
            }
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        let policy = HeaderName::from_static("cross-origin-resource-policy");
        headers.insert(policy, HeaderValue::from_static("cross-origin"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
    }

    fn is_name(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.is_any_name
            || self.own.contains(&host)
            || self.names.iter().any(|name| matches_name(name, &host))
    }

    /// True if a page came from this server. Under other names TLS may end at a proxy, so `https` counts, too.
    fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        let host = host.to_ascii_lowercase();
        let (name, is_plain) = match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
            (Some(name), _) => (name, true),
            (None, Some(name)) => (name, false),
            (None, None) => return false,
        };
        if self.own.iter().any(|own| own == name) {
            return is_plain;
        }
        !name.is_empty() && (name == host || self.names.iter().any(|own| matches_name(own, name)))
    }

    fn is_allowed(&self, origin: &str) -> bool {
        match &self.cors {
            Cors::None => false,
            Cors::List(origins) => origins.iter().any(|own| own.eq_ignore_ascii_case(origin)),
            Cors::Any => true,
        }
    }
}

/// Middleware that refuses foreign requests, answers CORS preflights, and adds CORS headers.
pub async fn check_origin(State(origins): State<Arc<Origins>>, request: Request, next: Next) -> Response {
    if let Some(found) = origins.foreign(request.uri(), request.headers()) {
        let error = format!("host or origin {found:?} is not allowed");
        let hint = "the server's options --host and --cors list allowed hosts and origins";
        return ErrorResponse::new(StatusCode::FORBIDDEN, error, hint).into_response();
    }
    if is_foreign_fetch(&request) {
        let error = "a request of another site without an origin, expected one of a page that is allowed";
        let hint = "call with POST; the server's option --cors lists allowed origins";
        return ErrorResponse::new(StatusCode::FORBIDDEN, error, hint).into_response();
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_preflight = *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && origins.cors != Cors::None;
    let mut response = if is_preflight {
        preflight(request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS))
    } else {
        next.run(request).await
    };
    origins.add_headers(origin.as_ref(), response.headers_mut());
    response
}

/// True if a page of another site makes the browser fetch a call that works, such as an image at `/translate?q=…`. Browsers
/// send no `Origin` with it, but say that it comes from elsewhere.
fn is_foreign_fetch(request: &Request) -> bool {
    let path = request.uri().path();
    let is_work = ["/translate", "/detect", "/api/"].iter().any(|work| path.starts_with(work));
    let site = request.headers().get("sec-fetch-site");
    is_work
        && site.is_some_and(|site| site == "cross-site" || site == "same-site")
        && !request.headers().contains_key(header::ORIGIN)
}

/// The answer to a CORS preflight.
fn preflight(requested: Option<&HeaderValue>) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    // Any header may be allowed: nothing here depends on cookies, so a page can do no more than any other program.
    let default = HeaderValue::from_static("content-type, authorization");
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.cloned().unwrap_or(default));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// True if `host` matches `name`; a name without a port matches every port.
fn matches_name(name: &str, host: &str) -> bool {
    let Some(rest) = host.strip_prefix(name) else { return false };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let has_port = name.rsplit_once(':').is_some_and(|(_, port)| is_port(port));
    rest.is_empty() || (!has_port && rest.strip_prefix(':').is_some_and(is_port))
}

/// A header value as text; invalid UTF-8 matches nothing.
fn shown(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(origins: &Origins, host: &str, origin: Option<&str>) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        origins.foreign(&Uri::from_static("/"), &headers)
    }

    fn at(address: &str, names: &[&str], cors: &str) -> Origins {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Origins::new(address.parse().unwrap(), &names, cors.parse().unwrap())
    }

    #[test]
    fn on_a_loopback_address_only_loopback_names_are_allowed() {
        let origins = at("127.0.0.1:7465", &[], "none");
        for host in ["127.0.0.1:7465", "localhost:7465", "LOCALHOST:7465", "[::1]:7465"] {
            assert_eq!(foreign(&origins, host, None), None, "{host}");
            assert_eq!(foreign(&origins, host, Some("http://127.0.0.1:7465")), None, "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:80",
            "evil.example:7465",
            "localhost.evil.example:7465",
            "127.0.0.1:74650",
            "0.0.0.0:7465",
        ] {
            assert_eq!(foreign(&origins, host, None).as_deref(), Some(host));
        }
        for origin in ["http://evil.example", "https://127.0.0.1:7465", "http://127.0.0.1", "null", "http://"]
        {
            assert_eq!(foreign(&origins, "127.0.0.1:7465", Some(origin)).as_deref(), Some(origin));
        }
        assert_eq!(foreign(&at("127.0.0.1:80", &[], "none"), "localhost", Some("http://localhost")), None);
        // A request line with an absolute URL names a host, too.
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:7465"));
        assert!(origins.foreign(&Uri::from_static("http://evil.example/"), &headers).is_some());
        assert!(origins.foreign(&Uri::from_static("/"), &HeaderMap::new()).is_some());
        headers.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(origins.foreign(&Uri::from_static("/"), &headers).is_some());
    }

    #[test]
    fn behind_a_proxy_given_names_are_allowed_with_and_without_tls() {
        let origins = at("127.0.0.1:5000", &["Translate.example.org", "10.0.0.7:8080"], "none");
        for host in ["translate.example.org", "translate.example.org:443", "10.0.0.7:8080", "localhost:5000"]
        {
            assert_eq!(foreign(&origins, host, None), None, "{host}");
        }
        let host = "translate.example.org";
        for origin in ["https://translate.example.org", "http://translate.example.org"] {
            assert_eq!(foreign(&origins, host, Some(origin)), None, "{origin}");
        }
        for host in [
            "example.org",
            "translate.example.org.evil",
            "translate.example.org:x",
            "10.0.0.7",
            "10.0.0.7:80",
        ] {
            assert!(foreign(&origins, host, None).is_some(), "{host}");
        }
        assert!(foreign(&origins, host, Some("https://example.org")).is_some());
    }

    #[test]
    fn on_other_addresses_any_name_is_allowed_unless_there_is_a_list() {
        let open = at("0.0.0.0:5000", &[], "none");
        assert_eq!(foreign(&open, "anything:5000", Some("http://anything:5000")), None);
        assert!(foreign(&open, "anything:5000", Some("http://other:5000")).is_some());
        let listed = at("0.0.0.0:5000", &["translate.example.org"], "none");
        assert!(foreign(&listed, "anything:5000", None).is_some());
        assert_eq!(foreign(&listed, "translate.example.org:5000", None), None);
    }

    #[test]
    fn other_origins_are_allowed_by_list_or_all() {
        let list = at("127.0.0.1:5000", &[], "https://a.example, http://b.example:81");
        assert_eq!(foreign(&list, "localhost:5000", Some("https://a.example")), None);
        assert_eq!(foreign(&list, "localhost:5000", Some("http://b.example:81")), None);
        for origin in ["http://a.example", "https://a.example:444", "null", "https://a.example.evil"] {
            assert!(foreign(&list, "localhost:5000", Some(origin)).is_some(), "{origin}");
        }
        let any = at("127.0.0.1:5000", &[], "*");
        assert_eq!(foreign(&any, "localhost:5000", Some("null")), None);
        assert!(foreign(&any, "evil.example:5000", Some("null")).is_some(), "a name is not an origin");
        let headers = |origins: &Origins, origin: &'static str| {
            let mut headers = HeaderMap::new();
            origins.add_headers(Some(&HeaderValue::from_static(origin)), &mut headers);
            ["access-control-allow-origin", "vary"]
                .map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(headers(&any, "https://x.example"), [some("*"), None]);
        assert_eq!(headers(&list, "https://a.example"), [some("https://a.example"), some("Origin")]);
        assert_eq!(headers(&list, "http://localhost:5000"), [None, some("Origin")]);
        assert_eq!(headers(&at("127.0.0.1:5000", &[], "none"), "null"), [None, some("Origin")]);
    }

    #[test]
    fn an_invalid_origin_is_refused() {
        for text in ["", "example.org", "https://", "https://a.example/path", "https://*.example", "ftp://a"]
        {
            let error = text.parse::<Cors>().unwrap_err();
            assert!(error.contains("expected none, * or origins"), "{error}");
        }
        assert_eq!(" none ".parse(), Ok(Cors::None));
        assert_eq!("*".parse(), Ok(Cors::Any));
        assert_eq!("HTTPS://A.example".parse(), Ok(Cors::List(vec!["https://a.example".into()])));
    }
}
