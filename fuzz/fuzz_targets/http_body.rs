//! Any bytes as the body of a request: fields, or an error with a status. The first byte chooses the media type.
#![no_main]

use axum::body::Bytes;
use libfuzzer_sys::fuzz_target;
use polyhead_serve::front::form::{KnownFields, UnknownFields, parse};

const TYPES: [&str; 5] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=XX",
    "multipart/form-data; boundary=\"a b\"",
    "",
];

const KNOWN: KnownFields = KnownFields {
    names: &["q", "source", "target", "format", "alternatives", "lexical", "api_key", "file"],
    values: 64,
    unknown: UnknownFields::Named,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, body)) = bytes.split_first() else { return };
    let body = Bytes::copy_from_slice(body);
    let media_type = TYPES[usize::from(first) % TYPES.len()];
    match parse(media_type, &body, &KNOWN) {
        Ok(fields) => {
            for name in KNOWN.names {
                let _ = (fields.text(name), fields.texts(name), fields.number(name), fields.boolean(name), fields.file(name));
            }
            let _ = fields.json();
        }
        Err(error) => assert!(error.status.is_client_error() && !error.error.is_empty() && !error.hint.is_empty()),
    }
});
