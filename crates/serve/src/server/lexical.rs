//! The field `lexical` of requests: words or phrases that the translation of each text must contain.

use std::sync::Arc;

use polyhead_translate::formats::Format;

use crate::front::ErrorResponse;
use crate::front::fields::{Fields, Texts};

/// Maximum number of phrases in a request.
const MAX_PHRASES: usize = 16;
/// Maximum number of characters of a phrase.
const MAX_CHARACTERS: usize = 200;

/// The phrases of the field `lexical`: one text or an array; none where it is missing or empty.
pub(super) fn lexical_of(fields: &Fields, format: Format) -> Result<Arc<[String]>, ErrorResponse> {
    let phrases = match fields.texts("lexical")? {
        None => return Ok(Arc::default()),
        // Forms send an empty field for one that is not filled in.
        Some(Texts::One(text)) if text.is_empty() => return Ok(Arc::default()),
        Some(Texts::One(text)) => vec![text],
        Some(Texts::Many(texts)) => texts,
    };
    if format != Format::Text {
        return Err(refused("a document", "plain text", "send one sentence with format text"));
    }
    if phrases.len() > MAX_PHRASES {
        let found = format!("{} phrases", phrases.len());
        return Err(refused(&found, &format!("at most {MAX_PHRASES}"), "send fewer"));
    }
    if let Some(long) = phrases.iter().map(|own| own.chars().count()).find(|&own| own > MAX_CHARACTERS) {
        let found = format!("a phrase of {long} characters");
        return Err(refused(&found, &format!("at most {MAX_CHARACTERS}"), "send words or short phrases"));
    }
    Ok(phrases.into())
}

fn refused(found: &str, expected: &str, hint: &str) -> ErrorResponse {
    ErrorResponse::bad_request(format!("lexical: {found}, expected {expected}"), hint)
}
