//! Multipart forms (RFC 7578): parts between boundary lines, each with a few headers.
//!
//! The body is in memory already; files are slices of it.

use std::borrow::Cow;
use std::ops::Range;

use axum::body::Bytes;
use memchr::memmem;
use percent_encoding::percent_decode_str;

use super::error_response::ErrorResponse;
use super::fields::{Fields, UploadedFile};

/// Maximum parts of a form.
pub const MAX_PARTS: usize = 16;

/// Maximum bytes of the headers of a part.
pub const MAX_HEADERS: usize = 4096;

/// Parses a body whose media type names the boundary. A part with a file name is a file, any other a text.
///
/// # Errors
/// 400.
pub fn parse(media_type: &str, body: &Bytes) -> Result<Fields, ErrorResponse> {
    let boundary = parameter(media_type, "boundary").unwrap_or_default();
    if boundary.is_empty() || boundary.len() > 70 {
        return Err(invalid("no boundary of 1 to 70 characters in the content type"));
    }
    let mut fields = Fields::default();
    let delimiter = format!("--{boundary}");
    let mut line = next_line(body, 0, &delimiter).ok_or_else(|| invalid("no boundary line"))?;
    let mut count = 0;
    while !line.is_last {
        if count == MAX_PARTS {
            return Err(invalid(&format!("more than {MAX_PARTS} parts")));
        }
        count += 1;
        let begin = line.bytes.end;
        line = next_line(body, begin, &delimiter).ok_or_else(|| invalid("a part without an end"))?;
        // The line end before a boundary belongs to it; two adjacent boundaries may share one.
        let part = body.slice(begin..line.bytes.start.max(begin));
        add(&mut fields, &part)?;
    }
    Ok(fields)
}

/// A boundary line.
struct BoundaryLine {
    /// From the line end before it to its own end.
    bytes: Range<usize>,
    is_last: bool,
}

/// The next boundary line at or after `from`. A line that only begins like the boundary is skipped.
fn next_line(body: &[u8], from: usize, delimiter: &str) -> Option<BoundaryLine> {
    let finder = memmem::Finder::new(delimiter);
    // In an empty part the line end of its headers is that before the boundary.
    let search = from.saturating_sub(2);
    for found in finder.find_iter(&body[search..]).map(|found| found + search) {
        let start = if found == 0 {
            0
        } else if found >= 2 && &body[found - 2..found] == b"\r\n" {
            found - 2
        } else {
            continue;
        };
        let after = &body[found + delimiter.len()..];
        if after.starts_with(b"--") {
            return Some(BoundaryLine { bytes: start..found + delimiter.len() + 2, is_last: true });
        }
        let blank = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if after[blank..].starts_with(b"\r\n") {
            let end = found + delimiter.len() + blank + 2;
            return Some(BoundaryLine { bytes: start..end, is_last: false });
        }
    }
    None
}

/// Reads a part: headers, an empty line, content.
fn add(fields: &mut Fields, part: &Bytes) -> Result<(), ErrorResponse> {
    let head = &part[..part.len().min(MAX_HEADERS)];
    let end =
        if head.starts_with(b"\r\n") { Some(0) } else { memmem::find(head, b"\r\n\r\n").map(|at| at + 2) };
    let end =
        end.ok_or_else(|| invalid(&format!("a part without headers of at most {MAX_HEADERS} bytes")))?;
    let headers = std::str::from_utf8(&part[..end]).map_err(|_| invalid("headers that are not UTF-8"))?;
    let content = part.slice(end + 2..);
    let header = |name: &str| {
        headers
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .find_map(|(found, value)| found.trim().eq_ignore_ascii_case(name).then_some(value.trim()))
    };
    let disposition = header("content-disposition").unwrap_or_default();
    let name = parameter(disposition, "name").ok_or_else(|| invalid("a part without a name"))?;
    let extended = parameter(disposition, "filename*").and_then(|name| extended(&name));
    if let Some(file_name) = extended.or_else(|| parameter(disposition, "filename")) {
        let media_type = header("content-type").map(str::to_owned);
        fields.add_file(name, UploadedFile { name: shown(&file_name), media_type, bytes: content });
    } else {
        let text = std::str::from_utf8(&content)
            .map_err(|_| invalid(&format!("field {:?} that is not UTF-8", shown(&name))))?;
        let text = text.to_owned();
        fields.add_text(name, text);
    }
    Ok(())
}

/// The value of `; name=value` or `; name="value"` in a header.
fn parameter(header: &str, name: &str) -> Option<String> {
    let mut rest = header.split_once(';')?.1;
    loop {
        let (found, after) = rest.split_once('=')?;
        let found = found.rsplit(';').next().unwrap_or_default().trim();
        let (value, after) = value(after.trim_start())?;
        if found.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
}

/// A value, with or without quotes, and what comes after it.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return Some((text[..end].trim_end().to_owned(), &text[end..]));
    };
    let mut plain = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((plain, &quoted[at + 1..])),
            // Only these two are escapes: old browsers send whole paths with plain backslashes.
            '\\' if letters.peek().is_some_and(|(_, next)| matches!(next, '"' | '\\')) => {
                plain.extend(letters.next().map(|(_, next)| next));
            }
            _ => plain.push(letter),
        }
    }
    // No closing quote: then its backslashes are plain characters, as browsers send them.
    let (plain, after) = quoted.split_once('"')?;
    Some((plain.to_owned(), after))
}

/// A name as `UTF-8''na%C3%AFve.txt` (RFC 5987), which some Python clients send.
fn extended(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let encoded = rest.split_once('\'')?.1;
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    // An invalid escape makes the whole name invalid; the crate would take it literally.
    if !charset.eq_ignore_ascii_case("utf-8") || !encoded.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(encoded).decode_utf8().ok().map(Cow::into_owned)
}

/// A name without folders and control characters, cut to 200 characters.
fn shown(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    last.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

fn invalid(found: &str) -> ErrorResponse {
    ErrorResponse::bad_request(
        format!("{found}, expected a multipart form"),
        "let a library build the form, or send JSON",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const TYPE: &str = "multipart/form-data; boundary=XX";

    fn parsed(body: &str) -> Result<Fields, String> {
        parse(TYPE, &Bytes::copy_from_slice(body.as_bytes())).map_err(|error| {
            assert_eq!(error.status, 400);
            error.error
        })
    }

    #[test]
    fn texts_and_files_are_read() {
        let body = "before\r\n--XX\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\nGrüße\r\n--XXno\r\n\r\n\
                    --XX  \r\ncontent-disposition: form-data; name=target\r\n\r\ntr\r\n\
                    --XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
                    Content-Type: text/plain\r\n\r\n\0\r\n\r\n--XX--\r\nafter";
        let fields = parsed(body).unwrap();
        assert_eq!(fields.json(), json!({ "q": "Grüße\r\n--XXno\r\n", "target": "tr" }));
        let file = fields.file("file").unwrap().unwrap();
        assert_eq!((&*file.name, file.media_type.as_deref()), ("a.txt", Some("text/plain")));
        assert_eq!(file.bytes, "\0\r\n");
    }

    #[test]
    fn empty_forms_and_fields_are_read() {
        assert!(parsed("--XX--").unwrap().is_empty());
        let empty = "--XX\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\n\r\n--XX--";
        assert_eq!(parsed(empty).unwrap().json(), json!({ "q": "" }));
        let again =
            "--XX\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\na\r\n".repeat(2) + "--XX--\r\n";
        assert_eq!(parsed(&again).unwrap().json(), json!({ "q": ["a", "a"] }));
    }

    #[test]
    fn file_names_have_no_folders() {
        let named = |name: &str| {
            let fields = parsed(&format!(
                "--XX\r\nContent-Disposition: form-data; name=\"f\"; {name}\r\n\r\na\r\n--XX--"
            ));
            fields.unwrap().file("f").unwrap().unwrap().name.clone()
        };
        for (sent, expected) in [
            ("filename=\"../../etc/passwd\"", "passwd"),
            ("filename=\"C:\\\\dir\\\\a.txt\"", "a.txt"),
            ("filename=\"C:\\dir\\a.txt\"", "a.txt"),
            ("filename=\"a \\\"b\\\"; name=c.txt\"", "a \"b\"; name=c.txt"),
            ("filename=\"naïve.srt\"", "naïve.srt"),
            ("filename=\"a\"; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
            ("filename=\"a\"; filename*=UTF-8''%ff", "a"),
            ("filename=\"\"", ""),
            ("filename=\"a.txt\\\"", ""),
            ("filename=\"a\0b\"", "ab"),
        ] {
            assert_eq!(named(sent), expected, "{sent}");
        }
    }

    #[test]
    fn invalid_and_oversized_forms_are_refused() {
        let part = "--XX\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\na\r\n";
        assert!(parsed(&(part.repeat(MAX_PARTS) + "--XX--")).is_ok());
        let long = format!("--XX\r\nX: {}\r\n\r\na\r\n--XX--", "a".repeat(MAX_HEADERS));
        for (body, expected) in [
            ("", "no boundary line"),
            ("a\n--XX\n", "no boundary line"),
            (part, "a part without an end"),
            (&(part.repeat(MAX_PARTS + 1) + "--XX--"), "more than 16 parts"),
            ("--XX\r\nContent-Disposition: form-data\r\n\r\na\r\n--XX--", "a part without a name"),
            ("--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\na\r\n--XX--", "a part without a name"),
            ("--XX\r\n\r\na\r\n--XX--", "a part without a name"),
            ("--XX\r\nX: a\r\n--XX--", "a part without headers"),
            (&long, "a part without headers"),
        ] {
            let error = parsed(body).unwrap_err();
            assert!(error.starts_with(expected), "{body:.60}: {error}");
        }
        for media_type in
            ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a"]
        {
            assert!(parse(media_type, &Bytes::from_static(b"--a--")).is_err());
        }
        let binary = b"--XX\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\n\xff\r\n--XX--";
        assert!(parse(TYPE, &Bytes::from_static(binary)).is_err());
    }

    proptest! {
        #[test]
        fn any_file_is_read_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut body = b"--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\n".to_vec();
            body.extend(&bytes);
            body.extend(b"\r\n--XX--\r\n");
            let fields = parse(TYPE, &body.into()).unwrap();
            prop_assert_eq!(&fields.file("f").unwrap().unwrap().bytes[..], &bytes[..]);
        }

        #[test]
        fn no_mixture_of_its_parts_makes_it_panic(parts in prop::collection::vec(0..12_usize, 0..30)) {
            let words = ["--XX", "--XX--", "\r\n", "\r\n\r\n", "Content-Disposition: form-data", "; name=", "\"", "q",
                "; filename=", "; filename*=UTF-8''%", "\\", "ö"];
            let body: String = parts.iter().map(|part| words[*part]).collect();
            let _ = parsed(&body);
        }
    }
}
