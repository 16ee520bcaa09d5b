//! Parses body and query of a request into [`Fields`]: JSON, urlencoded and multipart forms.

use std::borrow::Cow;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use percent_encoding::percent_decode;

use super::body::{self, BodyLimits};
use super::budget::MemoryReservation;
use super::error_response::ErrorResponse;
use super::fields::Fields;
pub use super::json::{KnownFields, UnknownFields};
use super::{json, multipart};
use crate::blocking::blocking_if_large;

/// Maximum fields of a form or a query.
pub const MAX_FIELDS: usize = 1024;

/// Reads a request. A field of the body takes precedence over one of the query. The reservation covers body and fields.
///
/// # Errors
/// 400, 408, 413, 415, 429 or 503.
pub async fn read(
    request: Request,
    limits: &BodyLimits,
    known: KnownFields,
) -> Result<(Parts, Fields, MemoryReservation), ErrorResponse> {
    let (parts, sent) = request.into_parts();
    let media_type = match parts.headers.get(header::CONTENT_TYPE) {
        None => String::new(),
        Some(value) => {
            let found = value.to_str().map_err(|_| unsupported("content type that is not ASCII"))?;
            found.to_owned()
        }
    };
    let (bytes, mut reservation) = body::read(&parts.headers, sent, limits).await?;
    // Decoded texts are at most as long; a form is copied once more.
    reservation.grow(2 * bytes.len() + known.values.min(bytes.len()) * size_of::<serde_json::Value>())?;
    // The event loop goes on while a large body is parsed.
    let parsed = blocking_if_large(bytes.len(), move || Ok(parse(&media_type, &bytes, &known)));
    let mut fields = parsed.await??;
    fields.add_missing(urlencoded(parts.uri.query().unwrap_or_default().as_bytes())?);
    Ok((parts, fields, reservation))
}

/// The values of one field of a query.
pub fn query_value(query: &str, name: &str) -> Option<String> {
    let fields = urlencoded(query.as_bytes()).ok()?;
    fields.text(name).ok().flatten().map(str::to_owned)
}

/// Parses a body by its media type, which is empty if none was sent.
///
/// # Errors
/// 400, 413 or 415.
pub fn parse(media_type: &str, body: &Bytes, known: &KnownFields) -> Result<Fields, ErrorResponse> {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if body.is_empty() {
        return Ok(Fields::default());
    }
    match essence.as_str() {
        "application/json" => json::read(body, known),
        "multipart/form-data" => multipart::parse(media_type, body),
        // `curl -d '{…}'` sends JSON with this type; no form begins with a brace.
        "application/x-www-form-urlencoded" => {
            json_by_content(body, known).unwrap_or_else(|| urlencoded(body))
        }
        "" => json_by_content(body, known).unwrap_or_else(|| Err(unsupported("no content type"))),
        other => json_by_content(body, known)
            .unwrap_or_else(|| Err(unsupported(&format!("content type {other:?}")))),
    }
}

/// Parses a form or a query: `name=value&name=value`, `+` for a space, `%XX` for a byte.
///
/// # Errors
/// If a value is not UTF-8, or there are too many fields.
pub fn urlencoded(bytes: &[u8]) -> Result<Fields, ErrorResponse> {
    let mut fields = Fields::default();
    let pairs = bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    for (index, pair) in pairs.enumerate() {
        if index == MAX_FIELDS {
            let error = format!("too many fields, expected at most {MAX_FIELDS}");
            return Err(ErrorResponse::bad_request(error, "send many texts as a JSON array"));
        }
        let equals = pair.iter().position(|byte| *byte == b'=');
        let (name, value) = equals.map_or((pair, &[][..]), |at| (&pair[..at], &pair[at + 1..]));
        fields.add_text(decoded(name)?, decoded(value)?);
    }
    Ok(fields)
}

/// Decodes `+` and `%XX`; a `%` without two digits stays, as in browsers.
fn decoded(bytes: &[u8]) -> Result<String, ErrorResponse> {
    let spaced: Vec<u8> = bytes.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let plain = percent_decode(&spaced).decode_utf8();
    plain
        .map(Cow::into_owned)
        .map_err(|_| ErrorResponse::bad_request("a form that is not UTF-8", "encode its texts as UTF-8"))
}

/// JSON without the matching content type, which clients of LibreTranslate may leave out.
fn json_by_content(body: &[u8], known: &KnownFields) -> Option<Result<Fields, ErrorResponse>> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
    if *first != b'{' {
        return None;
    }
    match json::read(body, known) {
        Err(error) if error.status == StatusCode::BAD_REQUEST => None,
        other => Some(other),
    }
}

fn unsupported(found: &str) -> ErrorResponse {
    let error = format!(
        "{found}, expected application/json, application/x-www-form-urlencoded or multipart/form-data"
    );
    ErrorResponse::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        error,
        "send JSON with the header Content-Type: application/json",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const KNOWN: KnownFields =
        KnownFields { names: &["q", "alternatives"], values: 100, unknown: UnknownFields::Skipped };

    fn parsed(media_type: &str, body: &[u8]) -> Result<Value, (u16, String)> {
        parse(media_type, &Bytes::copy_from_slice(body), &KNOWN)
            .map(|fields| fields.json())
            .map_err(|error| (error.status.as_u16(), error.error))
    }

    const FORM: &str = "application/x-www-form-urlencoded";

    #[test]
    fn json_is_read_by_its_type_and_by_its_content() {
        let body = br#" {"q": "Gr\u00fc\u00dfe", "alternatives": 3} "#;
        let expected = json!({ "q": "Grüße", "alternatives": 3 });
        for media_type in ["application/json", "Application/JSON; charset=utf-8", "", "text/plain", FORM] {
            assert_eq!(parsed(media_type, body).unwrap(), expected, "{media_type}");
        }
        assert_eq!(parsed("application/json", br#"{"q": 1, "q": 2}"#).unwrap(), json!({ "q": 2 }));
        assert_eq!(parsed("application/json", b"").unwrap(), json!({}));
    }

    #[test]
    fn invalid_json_is_400_and_other_types_415() {
        for body in
            [&b"{"[..], b"[1]", b"\"a\"", b"{\"q\": \"\xff\"}", b"{\"q\": \"\\ud800\"}", b"{} {}", b"nul"]
        {
            assert_eq!(parsed("application/json", body).unwrap_err().0, 400, "{body:?}");
        }
        for deep in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
            let (status, error) = parsed("application/json", deep.as_bytes()).unwrap_err();
            assert!(status == 400 && error.starts_with("invalid JSON ("), "{error}");
            assert_eq!(parsed("", deep.as_bytes()).unwrap_err().0, 415);
        }
        for (media_type, body) in
            [("", "q=a"), ("text/plain", "hello"), ("application/xml", "<q/>"), ("", "[]")]
        {
            let (status, error) = parsed(media_type, body.as_bytes()).unwrap_err();
            assert!(status == 415 && error.contains("expected application/json"), "{error}");
        }
    }

    #[test]
    fn forms_are_decoded() {
        let expected = json!({ "q": ["a b", "ö+&"], "target": "tr", "flag": "", "odd%": "%zz%" });
        assert_eq!(parsed(FORM, b"q=a+b&q=%C3%B6%2b%26&target=tr&flag&&odd%=%zz%").unwrap(), expected);
        assert_eq!(parsed(FORM, b"a=b=c").unwrap(), json!({ "a": "b=c" }));
        assert_eq!(parsed(FORM, b"a=%ff").unwrap_err().0, 400);
        let many = "a=b&".repeat(MAX_FIELDS);
        assert!(parsed(FORM, many.as_bytes()).is_ok());
        assert_eq!(parsed(FORM, format!("{many}a=b").as_bytes()).unwrap_err().0, 400);
    }

    proptest! {
        #[test]
        fn decoding_inverts_encoding(texts in prop::collection::vec(any::<String>(), 0..5)) {
            let encode = |text: &String| {
                let bytes = text.bytes().map(|byte| match byte {
                    b'a'..=b'z' => char::from(byte).to_string(),
                    b' ' => "+".into(),
                    _ => format!("%{byte:02X}"),
                });
                format!("q={}", bytes.collect::<String>())
            };
            let body = texts.iter().map(encode).collect::<Vec<_>>().join("&");
            let found = urlencoded(body.as_bytes()).unwrap().json();
            let expected = match texts.as_slice() {
                [] => json!({}),
                [text] => json!({ "q": text }),
                texts => json!({ "q": texts }),
            };
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4_usize) {
            let media_type = ["application/json", FORM, "multipart/form-data; boundary=a", ""][kind];
            let _ = parse(media_type, &bytes.into(), &KNOWN);
        }
    }
}
