//! LibreTranslate's calls: `/translate`, `/detect`, `/languages`, `/frontend/settings`, `/translate_file`, `/download_file`.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use polyhead_translate::Translation;
use polyhead_translate::formats::Format;
use polyhead_translate::languages::name;

use super::answers::{
    DetectedLanguage, FileAnswer, InputShape, LanguageChoice, NamedLanguage, OneOrMany, SettingsAnswer,
    TranslateAnswer,
};
use super::documents::{Document, route};
use super::files::{TranslatedFile, disposition, translated_name};
use super::language_set::LanguageSet;
use super::lexical::lexical_of;
use super::request::TranslationRequest;
use super::routes::{KeyPolicy, ReadRequest, ServerState, at_most, counted_json, json, translation_memory};
use super::scheduler::RequestOptions;
use crate::Error;
use crate::blocking::{blocking, blocking_if_large};
use crate::front::ErrorResponse;
use crate::front::fields::{Fields, Texts, quoted};
use crate::front::form::UnknownFields;
use crate::server::Client;

/// Extensions of the files that can be translated.
const FILES: [&str; 4] = [".txt", ".html", ".srt", ".po"];

/// Milliseconds that a page waits after a keystroke before it translates.
const FRONTEND_TIMEOUT: u64 = 500;

/// Fields of `/translate`.
const TRANSLATE: &[&str] = &["q", "source", "target", "format", "alternatives", "lexical", "api_key"];

/// Fields of `/detect`.
const DETECT: &[&str] = &["q", "api_key"];

/// Fields of `/translate_file`.
const FILE: &[&str] = &["file", "source", "target", "api_key"];

pub(super) async fn translate(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let known = state.known(TRANSLATE, UnknownFields::Skipped);
    let ReadRequest { fields, client, mut memory, .. } =
        state.read(request, state.limits.body, known).await?;
    let languages = state.languages();
    let request = TranslateRequest::read(&fields, &state, &languages)?;
    let bytes = fields.text_bytes();
    memory.resize(translation_memory(bytes, bytes, 1 + request.alternatives.unwrap_or(0)))?;
    drop(fields);
    let answer = request.answer(&state, &languages, client).await?;
    Ok(counted_json(&answer, memory))
}

pub(super) async fn detect(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let known = state.known(DETECT, UnknownFields::Skipped);
    let ReadRequest { fields, memory, .. } = state.read(request, state.limits.body, known).await?;
    let text = fields.text("q")?.filter(|text| !text.is_empty());
    let text =
        text.ok_or_else(|| ErrorResponse::bad_request("q: missing or empty, expected a text", "send q"))?;
    at_most(text.chars().count(), state.limits.characters, "characters")?;
    let (text, languages) = (text.to_owned(), state.languages());
    let found = blocking_if_large(text.len(), move || Ok(languages.detect(&text))).await?;
    Ok(counted_json(&found, memory))
}

pub(super) async fn languages(State(state): State<Arc<ServerState>>) -> Response {
    json(&state.scheduler.languages())
}

pub(super) async fn settings(State(state): State<Arc<ServerState>>) -> Response {
    let languages = state.languages();
    let targets = languages.targets();
    let target = if targets.contains(&"en") { "en" } else { targets.first().unwrap_or(&"en") };
    let named = |code: &str, name: String| NamedLanguage { code: code.into(), name };
    json(&SettingsAnswer {
        api_keys: state.keys != KeyPolicy::None,
        char_limit: state.limits.characters,
        files_translation: true,
        frontend_timeout: FRONTEND_TIMEOUT,
        key_required: state.keys == KeyPolicy::Required,
        language: LanguageChoice {
            source: named("auto", "Auto Detect".into()),
            target: named(target, name(target)),
        },
        suggestions: false,
        supported_files_format: FILES,
    })
}

pub(super) async fn translate_file(
    State(state): State<Arc<ServerState>>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let known = state.known(FILE, UnknownFields::Skipped);
    let ReadRequest { parts, fields, client, mut memory } =
        state.read(request, state.limits.file, known).await?;
    let languages = state.languages();
    let (source, target) = languages_of(&fields, &languages)?;
    let (file_name, bytes) = sent_file(&fields)?;
    drop(fields);
    let format = format_of(&file_name)?;
    let most = state.limits.file_characters;
    memory.resize(translation_memory(0, bytes.len(), 1))?;
    let sent = bytes.clone();
    // Parsing and writing a large file takes a while and must not block the event loop.
    let document = blocking(move || file_document(format, &sent, most)).await?;
    let translated: Vec<u8> = if source.as_deref() == Some(&target) {
        bytes.to_vec()
    } else {
        memory.resize(translation_memory(document.text_bytes(), bytes.len(), 1))?;
        let document = Arc::new(document);
        let request = TranslationRequest {
            client: client.clone(),
            inputs: vec![document.clone()],
            from: source,
            to: Some(target.clone()),
            model: None,
            options: RequestOptions::default(),
            deadline: Instant::now() + state.limits.file_deadline,
        };
        let done = request.run(&state.scheduler, &languages, |_| {}).await?;
        blocking(move || Ok(document.candidates(&done.found[0]).swap_remove(0).text.into())).await?
    };
    drop(bytes);
    let name = translated_name(&file_name, &target);
    let id = state.files.store(TranslatedFile { name, bytes: memory.counted(translated), client })?;
    Ok(json(&FileAnswer { translated_file_url: format!("{}/download_file/{id}", own_url(&parts)) }))
}

pub(super) async fn download_file(
    State(state): State<Arc<ServerState>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ErrorResponse> {
    // A path that is not UTF-8 names no file.
    let found = id.ok().and_then(|Path(id)| state.files.find(&id));
    let Some(TranslatedFile { name, bytes, .. }) = found else {
        let error = "no such file, expected one that was translated recently";
        return Err(ErrorResponse::new(StatusCode::NOT_FOUND, error, "translate it again"));
    };
    // An HTML file must never be shown as a page of this server.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, disposition(&name)),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// The fields of `/translate`, checked.
struct TranslateRequest {
    texts: Vec<String>,
    shape: InputShape,
    source: Option<String>,
    target: String,
    format: Format,
    alternatives: Option<usize>,
    lexical: Arc<[String]>,
}

impl TranslateRequest {
    fn read(fields: &Fields, state: &ServerState, languages: &LanguageSet) -> Result<Self, ErrorResponse> {
        let (texts, shape) = texts_of(fields, "q")?;
        let (source, target) = languages_of(fields, languages)?;
        let format = match fields.text("format")? {
            None | Some("text") => Format::Text,
            Some("html") => Format::Html,
            Some(other) => {
                let error =
                    format!("format: unknown format {}, expected \"text\" or \"html\"", quoted(other));
                return Err(ErrorResponse::bad_request(
                    error,
                    "send files of other formats to /translate_file",
                ));
            }
        };
        let most = state.limits.n_best.saturating_sub(1) as u64;
        let alternatives = fields.number("alternatives")?.unwrap_or(0);
        if alternatives > most {
            let error = format!("alternatives: {alternatives}, expected at most {most}");
            return Err(ErrorResponse::bad_request(error, "request fewer"));
        }
        state.check_texts(&texts)?;
        let alternatives = (alternatives > 0).then_some(alternatives as usize);
        let lexical = lexical_of(fields, format)?;
        Ok(Self { texts, shape, source, target, format, alternatives, lexical })
    }

    async fn answer(
        self,
        state: &ServerState,
        languages: &LanguageSet,
        client: Client,
    ) -> Result<TranslateAnswer, Error> {
        let Self { texts, shape, source, target, format, alternatives, lexical } = self;
        if source.as_deref() == Some(&target) {
            let others = alternatives.map(|_| texts.iter().map(|_| Vec::new()).collect());
            return Ok(TranslateAnswer {
                translated_text: OneOrMany::of(texts, shape),
                detected_language: None,
                alternatives: others.map(|own| OneOrMany::of(own, shape)),
            });
        }
        let bytes: usize = texts.iter().map(String::len).sum();
        let documents = Document::read_all(format, texts).await?;
        let is_detected = source.is_none();
        let request = TranslationRequest {
            client,
            inputs: documents,
            from: source,
            to: Some(target),
            model: None,
            options: RequestOptions {
                n_best: 1 + alternatives.unwrap_or(0),
                lexical,
                ..RequestOptions::default()
            },
            deadline: Instant::now() + state.limits.deadline,
        };
        let done = request.run(&state.scheduler, languages, |_| {}).await?;
        let languages = languages.clone();
        let write = move || {
            let (mut best, mut others, mut detected) = (Vec::new(), Vec::new(), Vec::new());
            for (document, found) in request.inputs.iter().zip(&done.found) {
                let mut candidates = document.candidates(found).into_iter().map(|own| own.text);
                best.push(candidates.next().unwrap_or_default());
                others.push(candidates.take(alternatives.unwrap_or(0)).collect::<Vec<_>>());
                if is_detected {
                    detected.push(detected_language(document, found, &languages));
                }
            }
            Ok(TranslateAnswer {
                translated_text: OneOrMany::of(best, shape),
                detected_language: is_detected.then(|| OneOrMany::of(detected, shape)),
                alternatives: alternatives.map(|_| OneOrMany::of(others, shape)),
            })
        };
        blocking_if_large(bytes, write).await
    }
}

/// The detected language of a document.
fn detected_language(
    document: &Document,
    found: &[Translation],
    languages: &LanguageSet,
) -> DetectedLanguage {
    let text = document.texts().join("\n");
    match route(found) {
        Some(route) => languages.confidence_in(&text, &route.from),
        None => languages.detect(&text).swap_remove(0),
    }
}

/// The texts of a field, and their shape: one text or an array.
pub(super) fn texts_of(fields: &Fields, name: &str) -> Result<(Vec<String>, InputShape), ErrorResponse> {
    match fields.texts(name)? {
        Some(Texts::One(text)) if !text.is_empty() => Ok((vec![text], InputShape::One)),
        Some(Texts::Many(texts)) if !texts.is_empty() => Ok((texts, InputShape::Many)),
        _ => {
            let error = format!("{name}: missing or empty, expected a text or an array of texts");
            Err(ErrorResponse::bad_request(error, format!("send {name}")))
        }
    }
}

/// The codes of the source language, none for `auto`, and of the target language.
fn languages_of(fields: &Fields, languages: &LanguageSet) -> Result<(Option<String>, String), ErrorResponse> {
    let given = |name: &str, expected: &str| {
        let text = fields.text(name)?.filter(|text| !text.is_empty());
        let error = || {
            ErrorResponse::bad_request(
                format!("{name}: missing or empty, expected {expected}"),
                "GET /languages lists them",
            )
        };
        text.ok_or_else(error)
    };
    let source = languages.source("source", given("source", "a language or \"auto\"")?)?;
    let target = languages.target("target", given("target", "a language")?, source.as_deref())?;
    Ok((source, target))
}

/// Parses a file with at most `most` characters of text.
fn file_document(format: Format, bytes: &[u8], most: usize) -> Result<Document, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("invalid UTF-8 at byte {}, expected text", error.valid_up_to());
        Error::request(message, "save the file as UTF-8")
    })?;
    let document = Document::read_file(format, text.trim_start_matches('\u{feff}'))?;
    at_most(document.texts().iter().map(|text| text.chars().count()).sum(), most, "characters")?;
    Ok(document)
}

/// Name and bytes of the uploaded file; some clients send its text as a plain field.
fn sent_file(fields: &Fields) -> Result<(String, Bytes), ErrorResponse> {
    if let Ok(Some(text)) = fields.text("file") {
        return Ok((String::new(), text.to_owned().into()));
    }
    let file = fields.file("file")?.ok_or_else(|| {
        ErrorResponse::bad_request(
            "file: missing, expected a file",
            "send it as multipart/form-data: curl -F file=@letter.txt",
        )
    })?;
    Ok((file.name.clone(), file.bytes.clone()))
}

/// The format of a file by its extension; plain text without one.
fn format_of(file_name: &str) -> Result<Format, ErrorResponse> {
    if !file_name.contains('.') {
        return Ok(Format::Text);
    }
    Format::from_extension(file_name).ok_or_else(|| {
        let error = format!("file: unknown extension, expected one of {}", FILES.join(", "));
        ErrorResponse::bad_request(error, "send the text of the document as .txt")
    })
}

/// The URL by which the client reached this server: its `Host` header, and the scheme that a proxy reports.
fn own_url(parts: &Parts) -> String {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    let is_host = |host: &&str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    };
    // Without a host the URL is relative to this server.
    text("host").filter(is_host).map_or_else(String::new, |host| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_a_file_follows_its_extension() {
        for (name, format) in
            [("a.txt", Format::Text), ("a.b.HTML", Format::Html), ("", Format::Text), ("file", Format::Text)]
        {
            assert_eq!(format_of(name).unwrap(), format, "{name}");
        }
        assert_eq!(format_of("a.docx").unwrap_err().status, 400);
    }

    #[test]
    fn the_own_url_is_the_one_the_client_used() {
        let address = |headers: &[(&str, &str)]| {
            let mut request = axum::http::Request::builder();
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            own_url(&request.body(()).unwrap().into_parts().0)
        };
        assert_eq!(address(&[("host", "127.0.0.1:5000")]), "http://127.0.0.1:5000");
        let proxied = [("host", "translate.example"), ("x-forwarded-proto", "https")];
        assert_eq!(address(&proxied), "https://translate.example");
        assert_eq!([address(&[]), address(&[("host", "a/b\"c")])], ["", ""]);
    }

    #[test]
    fn errors_keep_their_status() {
        let response =
            ErrorResponse::from(Error::Busy { found: "9 sentences are waiting".into(), retry_after: 3 });
        assert_eq!((response.status.as_u16(), response.retry_after), (503, Some(3)));
        let broken = ErrorResponse::from(Error::Server(std::io::Error::other("/secret/path")));
        assert!(broken.status == 500 && !broken.error.contains("secret"), "{broken:?}");
    }
}
