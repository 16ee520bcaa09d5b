//! A request's body and query as [`Fields`]: JSON, urlencoded and multipart forms.

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde_json::Value;

use super::body::{self, BodyLimits};
use super::fields::Fields;
use super::multipart;
use super::refusal::Refusal;

/// Fields of a form, or of a query, that are read at most.
pub const MOST_FIELDS: usize = 1024;

/// Reads a request. A field of the body wins over one of the query.
///
/// # Errors
/// 400, 408, 413, 415 or 503, with what was wrong.
pub async fn read(request: Request, limits: &BodyLimits) -> Result<(Parts, Fields), Refusal> {
    let (parts, sent) = request.into_parts();
    let (bytes, held) = body::read(&parts.headers, sent, limits).await?;
    let media_type = match parts.headers.get(header::CONTENT_TYPE) {
        None => "",
        Some(value) => value.to_str().map_err(|_| unknown("another one"))?,
    };
    let mut fields = parse(media_type, &bytes)?;
    fields.add_missing(urlencoded(parts.uri.query().unwrap_or_default().as_bytes())?);
    fields.hold(held);
    Ok((parts, fields))
}

/// The fields of a body with its media type, which is empty where none was sent.
///
/// # Errors
/// 400 or 415, with what was wrong.
pub fn parse(media_type: &str, body: &Bytes) -> Result<Fields, Refusal> {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if body.is_empty() {
        return Ok(Fields::default());
    }
    match essence.as_str() {
        "application/json" => json(body),
        "multipart/form-data" => multipart::parse(media_type, body),
        // What `curl -d '{…}'` sends; no form looks like that.
        "application/x-www-form-urlencoded" => json_by_look(body).map_or_else(|| urlencoded(body), Ok),
        other => json_by_look(body).ok_or_else(|| unknown(other)),
    }
}

/// The fields of a form or a query: `name=value&name=value`, `+` for a space, `%` and two digits for a byte.
///
/// # Errors
/// If the bytes are no text, or there are too many fields.
pub fn urlencoded(bytes: &[u8]) -> Result<Fields, Refusal> {
    let mut fields = Fields::default();
    let pairs = bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    for (index, pair) in pairs.enumerate() {
        if index == MOST_FIELDS {
            let error = format!("more fields, expected at most {MOST_FIELDS}");
            return Err(Refusal::bad(error, "send many texts as a JSON array"));
        }
        let equals = pair.iter().position(|byte| *byte == b'=');
        let (name, value) = equals.map_or((pair, &[][..]), |at| (&pair[..at], &pair[at + 1..]));
        fields.add_text(decoded(name)?, decoded(value)?);
    }
    Ok(fields)
}

/// `+` and `%XX` as what they stand for. A `%` without two digits is itself, as browsers take it.
fn decoded(bytes: &[u8]) -> Result<String, Refusal> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        plain.push(match (first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = &after[2..];
                    high * 16 + low
                }
                _ => b'%',
            },
            (byte, _) => *byte,
        });
    }
    String::from_utf8(plain)
        .map_err(|_| Refusal::bad("a form that is not UTF-8", "encode its texts as UTF-8"))
}

/// The value of a digit of base 16.
pub(super) fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn json(body: &[u8]) -> Result<Fields, Refusal> {
    // The depth is limited by `serde_json`.
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        let hint = "is the body JSON in UTF-8, as its content type says?";
        Refusal::bad(format!("broken JSON ({error}), expected an object"), hint)
    })?;
    match value {
        Value::Object(object) => Ok(Fields::of_object(object)),
        _ => Err(Refusal::bad("JSON that is no object, expected one", "send {\"q\": \"…\"} and the like")),
    }
}

/// JSON that nobody called so: clients of LibreTranslate may leave the content type out.
fn json_by_look(body: &[u8]) -> Option<Fields> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace())?;
    if *first == b'{' { json(body).ok() } else { None }
}

fn unknown(found: &str) -> Refusal {
    let found = if found.is_empty() { "no content type".into() } else { format!("content type {found:?}") };
    let error = format!(
        "{found}, expected application/json, application/x-www-form-urlencoded or multipart/form-data"
    );
    Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        error,
        "send JSON with the header Content-Type: application/json",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parsed(media_type: &str, body: &[u8]) -> Result<Value, (u16, String)> {
        parse(media_type, &Bytes::copy_from_slice(body))
            .map(|fields| fields.json())
            .map_err(|refusal| (refusal.status.as_u16(), refusal.error))
    }

    const FORM: &str = "application/x-www-form-urlencoded";

    #[test]
    fn json_is_read_by_its_type_and_by_its_look() {
        let body = br#" {"q": "Gr\u00fc\u00dfe", "alternatives": 3} "#;
        let expected = json!({ "q": "Grüße", "alternatives": 3 });
        for media_type in ["application/json", "Application/JSON; charset=utf-8", "", "text/plain", FORM] {
            assert_eq!(parsed(media_type, body).unwrap(), expected, "{media_type}");
        }
        assert_eq!(parsed("application/json", br#"{"q": 1, "q": 2}"#).unwrap(), json!({ "q": 2 }));
        assert_eq!(parsed("application/json", b"").unwrap(), json!({}));
    }

    #[test]
    fn broken_json_is_400_and_other_types_415() {
        for body in
            [&b"{"[..], b"[1]", b"\"a\"", b"{\"q\": \"\xff\"}", b"{\"q\": \"\\ud800\"}", b"{} {}", b"nul"]
        {
            assert_eq!(parsed("application/json", body).unwrap_err().0, 400, "{body:?}");
        }
        for deep in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
            let (status, error) = parsed("application/json", deep.as_bytes()).unwrap_err();
            assert!(status == 400 && error.contains("recursion"), "{error}");
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
        let many = "a=b&".repeat(MOST_FIELDS);
        assert!(parsed(FORM, many.as_bytes()).is_ok());
        assert_eq!(parsed(FORM, format!("{many}a=b").as_bytes()).unwrap_err().0, 400);
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(texts in prop::collection::vec(any::<String>(), 0..5)) {
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
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4_usize) {
            let media_type = ["application/json", FORM, "multipart/form-data; boundary=a", ""][kind];
            let _ = parse(media_type, &bytes.into());
        }
    }
}
