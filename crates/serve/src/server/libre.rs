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
    Detected, FileAnswer, LanguageChoice, NamedLanguage, OneOrMany, SettingsAnswer, Shape, TranslateAnswer,
};
use super::desk::Wanted;
use super::documents::{Document, route};
use super::files::{KeptFile, disposition, translated_name};
use super::job::Job;
use super::routes::{KeyRule, Shared, at_most, json};
use super::spoken::Spoken;
use crate::Error;
use crate::blocking::blocking;
use crate::front::Refusal;
use crate::front::fields::{Fields, Texts};
use crate::server::Client;

/// Ends of names of files that are translated.
const FILES: [&str; 4] = [".txt", ".html", ".srt", ".po"];

/// Milliseconds that a page waits after a key was pressed.
const PAUSE: u64 = 500;

pub(super) async fn translate(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Refusal> {
    let (_, fields, client) = shared.read(request, shared.limits.body).await?;
    let spoken = shared.spoken();
    let asked = Asked::read(&fields, &shared, &spoken)?;
    let answer = asked.answer(&shared, &spoken, client).await?;
    Ok(json(&answer))
}

pub(super) async fn detect(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Refusal> {
    let (_, fields, _) = shared.read(request, shared.limits.body).await?;
    let text = fields.text("q")?.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Refusal::bad("q: nothing, expected a text", "send q"))?;
    at_most(text.chars().count(), shared.limits.characters, "characters")?;
    Ok(json(&shared.spoken().guesses(text)))
}

pub(super) async fn languages(State(shared): State<Arc<Shared>>) -> Response {
    json(&shared.desk.languages())
}

pub(super) async fn settings(State(shared): State<Arc<Shared>>) -> Response {
    let spoken = shared.spoken();
    let targets = spoken.targets();
    let target = if targets.contains(&"en") { "en" } else { targets.first().unwrap_or(&"en") };
    let named = |code: &str, name: String| NamedLanguage { code: code.into(), name };
    json(&SettingsAnswer {
        api_keys: shared.keys != KeyRule::None,
        char_limit: shared.limits.characters,
        files_translation: true,
        frontend_timeout: PAUSE,
        key_required: shared.keys == KeyRule::Required,
        language: LanguageChoice {
            source: named("auto", "Auto Detect".into()),
            target: named(target, name(target)),
        },
        suggestions: false,
        supported_files_format: FILES,
    })
}

pub(super) async fn translate_file(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, fields, client) = shared.read(request, shared.limits.file).await?;
    let spoken = shared.spoken();
    let (source, target) = languages_of(&fields, &spoken)?;
    let (file_name, bytes) = sent_file(&fields)?;
    let format = format_of(&file_name)?;
    let most = shared.limits.file_characters;
    let sent = bytes.clone();
    // A large file takes a while to read and to write, which must keep nobody else waiting.
    let document = blocking(move || file_document(format, &sent, most)).await?;
    let translated = if source.as_deref() == Some(&target) {
        bytes
    } else {
        let job = Job {
            client,
            documents: vec![document],
            from: source,
            to: Some(target.clone()),
            model: None,
            wanted: Wanted::default(),
            deadline: Instant::now() + shared.limits.file_deadline,
        };
        let done = job.run(&shared.desk, &spoken, |_| {}).await?;
        blocking(move || Ok(job.documents[0].candidates(&done.found[0]).swap_remove(0).text.into())).await?
    };
    let name = translated_name(&file_name, &target);
    let id = shared.files.keep(KeptFile { name, bytes: translated })?;
    Ok(json(&FileAnswer { translated_file_url: format!("{}/download_file/{id}", own_address(&parts)) }))
}

pub(super) async fn download_file(
    State(shared): State<Arc<Shared>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    // What is no text names no file.
    let found = id.ok().and_then(|Path(id)| shared.files.find(&id));
    let Some(KeptFile { name, bytes }) = found else {
        let error = "no such file, expected one that was translated a short while ago";
        return Err(Refusal::new(StatusCode::NOT_FOUND, error, "translate it again"));
    };
    // A page in it must never be a page of this server.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, disposition(&name)),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// What `/translate` was asked.
struct Asked {
    texts: Vec<String>,
    shape: Shape,
    source: Option<String>,
    target: String,
    format: Format,
    alternatives: Option<usize>,
}

impl Asked {
    fn read(fields: &Fields, shared: &Shared, spoken: &Spoken) -> Result<Self, Refusal> {
        let (texts, shape) = texts_of(fields, "q")?;
        let (source, target) = languages_of(fields, spoken)?;
        let format = match fields.text("format")? {
            None | Some("text") => Format::Text,
            Some("html") => Format::Html,
            Some(_) => {
                let error = "format: another one, expected \"text\" or \"html\"";
                return Err(Refusal::bad(error, "files of other formats go to /translate_file"));
            }
        };
        let most = shared.limits.n_best.saturating_sub(1) as u64;
        let alternatives = fields.number("alternatives")?.unwrap_or(0);
        if alternatives > most {
            let error = format!("alternatives: {alternatives}, expected at most {most}");
            return Err(Refusal::bad(error, "ask for fewer"));
        }
        shared.check_texts(&texts)?;
        let alternatives = (alternatives > 0).then_some(alternatives as usize);
        Ok(Self { texts, shape, source, target, format, alternatives })
    }

    async fn answer(
        self,
        shared: &Shared,
        spoken: &Spoken,
        client: Client,
    ) -> Result<TranslateAnswer, Error> {
        let Self { texts, shape, source, target, format, alternatives } = self;
        if source.as_deref() == Some(&target) {
            let others = alternatives.map(|_| texts.iter().map(|_| Vec::new()).collect());
            return Ok(TranslateAnswer {
                translated_text: OneOrMany::of(texts, shape),
                detected_language: None,
                alternatives: others.map(|own| OneOrMany::of(own, shape)),
            });
        }
        let documents =
            texts.iter().map(|text| Document::read(format, text)).collect::<Result<_, Error>>()?;
        let is_guessed = source.is_none();
        let job = Job {
            client,
            documents,
            from: source,
            to: Some(target),
            model: None,
            wanted: Wanted { n_best: 1 + alternatives.unwrap_or(0), ..Wanted::default() },
            deadline: Instant::now() + shared.limits.deadline,
        };
        let done = job.run(&shared.desk, spoken, |_| {}).await?;
        let (mut best, mut others, mut guesses) = (Vec::new(), Vec::new(), Vec::new());
        for (document, found) in job.documents.iter().zip(&done.found) {
            let mut candidates = document.candidates(found).into_iter().map(|own| own.text);
            best.push(candidates.next().unwrap_or_default());
            others.push(candidates.take(alternatives.unwrap_or(0)).collect::<Vec<_>>());
            if is_guessed {
                guesses.push(guessed(document, found, spoken));
            }
        }
        Ok(TranslateAnswer {
            translated_text: OneOrMany::of(best, shape),
            detected_language: is_guessed.then(|| OneOrMany::of(guesses, shape)),
            alternatives: alternatives.map(|_| OneOrMany::of(others, shape)),
        })
    }
}

/// The language that a document was taken for.
fn guessed(document: &Document, found: &[Translation], spoken: &Spoken) -> Detected {
    let text = document.texts().join("\n");
    match route(found) {
        Some(route) => spoken.guess_of(&text, &route.from),
        None => spoken.guesses(&text).swap_remove(0),
    }
}

/// The texts of a field, and whether they came as an array.
pub(super) fn texts_of(fields: &Fields, name: &str) -> Result<(Vec<String>, Shape), Refusal> {
    match fields.texts(name)? {
        Some(Texts::One(text)) if !text.is_empty() => Ok((vec![text], Shape::One)),
        Some(Texts::Many(texts)) if !texts.is_empty() => Ok((texts, Shape::Many)),
        _ => {
            let error = format!("{name}: nothing, expected a text or an array of texts");
            Err(Refusal::bad(error, format!("send {name}")))
        }
    }
}

/// The codes of source, none if it is to be guessed, and target.
fn languages_of(fields: &Fields, spoken: &Spoken) -> Result<(Option<String>, String), Refusal> {
    let said = |name: &str, expected: &str| {
        let text = fields.text(name)?.filter(|text| !text.is_empty());
        let error =
            || Refusal::bad(format!("{name}: nothing, expected {expected}"), "GET /languages lists them");
        text.ok_or_else(error)
    };
    let source = spoken.source("source", said("source", "a language or \"auto\"")?)?;
    let target = spoken.target("target", said("target", "a language")?, source.as_deref())?;
    Ok((source, target))
}

/// The document in a file with at most so many characters to translate.
fn file_document(format: Format, bytes: &[u8], most: usize) -> Result<Document, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = format!("a byte at {} that is no UTF-8, expected text", error.valid_up_to());
        Error::Request { message, hint: "save the file as UTF-8".into() }
    })?;
    let document = Document::read_file(format, text.trim_start_matches('\u{feff}'))?;
    at_most(document.texts().iter().map(|text| text.chars().count()).sum(), most, "characters")?;
    Ok(document)
}

/// The name and the bytes of the file; some clients send its text as a field.
fn sent_file(fields: &Fields) -> Result<(String, Bytes), Refusal> {
    if let Ok(Some(text)) = fields.text("file") {
        return Ok((String::new(), text.to_owned().into()));
    }
    let file = fields.file("file")?.ok_or_else(|| {
        Refusal::bad(
            "file: nothing, expected a file",
            "send it as multipart/form-data: curl -F file=@letter.txt",
        )
    })?;
    Ok((file.name.clone(), file.bytes.clone()))
}

/// The format of a file by its name; plain text where that tells nothing.
fn format_of(file_name: &str) -> Result<Format, Refusal> {
    if !file_name.contains('.') {
        return Ok(Format::Text);
    }
    Format::from_extension(file_name).ok_or_else(|| {
        let error = format!("file: a name with another end, expected one of {}", FILES.join(", "));
        Refusal::bad(error, "send the text of the document as .txt")
    })
}

/// Where the client found this server: what it calls the host, and how a proxy says that it came.
fn own_address(parts: &Parts) -> String {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    let is_host = |host: &&str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    };
    // Without a name the address is one below this server.
    text("host").filter(is_host).map_or_else(String::new, |host| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_files_are_told_by_their_names() {
        for (name, format) in
            [("a.txt", Format::Text), ("a.b.HTML", Format::Html), ("", Format::Text), ("file", Format::Text)]
        {
            assert_eq!(format_of(name).unwrap(), format, "{name}");
        }
        assert_eq!(format_of("a.docx").unwrap_err().status, 400);
    }

    #[test]
    fn the_own_address_is_what_the_client_calls_it() {
        let address = |headers: &[(&str, &str)]| {
            let mut request = axum::http::Request::builder();
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            own_address(&request.body(()).unwrap().into_parts().0)
        };
        assert_eq!(address(&[("host", "127.0.0.1:5000")]), "http://127.0.0.1:5000");
        let proxied = [("host", "translate.example"), ("x-forwarded-proto", "https")];
        assert_eq!(address(&proxied), "https://translate.example");
        assert_eq!([address(&[]), address(&[("host", "a/b\"c")])], ["", ""]);
    }

    #[test]
    fn errors_keep_their_status() {
        let refusal = Refusal::from(Error::Busy { found: "9 sentences wait".into(), retry_after: 3 });
        assert_eq!((refusal.status.as_u16(), refusal.retry_after), (503, Some(3)));
        let broken = Refusal::from(Error::Server(std::io::Error::other("/secret/path")));
        assert!(broken.status == 500 && !broken.error.contains("secret"), "{broken:?}");
    }
}
