//! The server's API on a real socket: every translation equals the translator's, in the JSON that `openapi.json` describes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use polyhead_serve::front::listen::{ConnectionOptions, Connections, bind, serve};
use polyhead_serve::server::routes::ROUTES;
use polyhead_serve::server::{
    FilesOptions, ModelFolder, RequestLimits, Scheduler, SchedulerOptions, ServerState, routes,
};
use polyhead_translate::{Evidence, TranslateOptions, Translation};
use serde_json::{Value, json};

use crate::client::{Answer, get, post, send};
use crate::{engine, golden};

const TEXT: &str = "The teacher reads a book today.";
const TWO: &str = "Nobody slept well!  The garden is old.";

fn state(limits: RequestLimits) -> Arc<ServerState> {
    let model = ModelFolder { name: "golden".into(), folder: golden() };
    let scheduler =
        Scheduler::open(SchedulerOptions { models: vec![model], threads: 2, ..SchedulerOptions::default() })
            .unwrap();
    Arc::new(ServerState::new(Arc::new(scheduler), limits, FilesOptions::default()))
}

/// Starts a server that runs until the tests end; returns its port.
pub(crate) fn start(state: Arc<ServerState>) -> u16 {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
            sender.send(listener.local_addr().unwrap().port()).unwrap();
            let connections = Arc::new(Connections::default());
            let options = ConnectionOptions { most: Some(64), ..ConnectionOptions::default() };
            serve(listener, routes(state), options, connections, std::future::pending()).await;
        });
    });
    receiver.recv().unwrap()
}

fn server() -> u16 {
    start(state(RequestLimits::default()))
}

fn directly(text: &str, options: TranslateOptions) -> Translation {
    let options = TranslateOptions { to: Some("tr".into()), ..options };
    engine().translate(&[text], &options).unwrap().remove(0)
}

fn refused(answer: &Answer, status: u16, expected: &str) {
    let said = answer.json();
    assert_eq!(answer.status, status, "{said}");
    assert!(said["error"].as_str().unwrap().contains(expected), "{said}");
    assert!(!said["hint"].as_str().unwrap().is_empty());
}

#[test]
fn every_media_type_gets_the_same_answer() {
    let port = server();
    let expected = json!({ "translatedText": directly(TEXT, TranslateOptions::default()).text() });
    let fields = [("q", TEXT), ("source", "en"), ("target", "tr")];
    let escaped: Vec<String> =
        fields.iter().map(|(name, text)| format!("{name}={}", text.replace(' ', "+"))).collect();
    let form = escaped.join("&");
    let parts: String = fields
        .iter()
        .map(|(name, text)| {
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
        })
        .collect();
    let multipart = format!("{parts}--XX--\r\n");
    let object = json!({ "q": TEXT, "source": "en", "target": "tr" }).to_string();
    let bodies = [
        ("application/json", &object),
        ("application/x-www-form-urlencoded", &form),
        ("multipart/form-data; boundary=XX", &multipart),
    ];
    for (media_type, body) in bodies {
        for method in ["POST", "GET"] {
            let header = format!("Content-Type: {media_type}");
            let answer = send(port, [method, "/translate"], &[&header], body);
            assert_eq!((answer.status, answer.json()), (200, expected.clone()), "{method} {media_type}");
            assert!(answer.headers.contains("content-type: application/json"), "{}", answer.headers);
        }
    }
    let answer = get(port, &format!("/translate?{form}"));
    assert_eq!((answer.status, answer.json()), (200, expected));
}

#[test]
fn texts_alternatives_and_languages_have_the_shape_of_the_request() {
    let port = server();
    let options = TranslateOptions { n_best: 4, ..TranslateOptions::default() };
    let found = directly(TEXT, options);
    let texts: Vec<&str> = found.n_best.iter().map(|own| own.text.as_str()).collect();
    let one = post(
        port,
        "/translate",
        &json!({ "q": TEXT, "source": "auto", "target": "tr", "alternatives": 3, "unknown": 1 }),
    );
    let answer = one.json();
    assert_eq!(answer["translatedText"], texts[0]);
    let mut others: Vec<&str> = Vec::new();
    for text in &texts[1..] {
        if *text != texts[0] && !others.contains(text) {
            others.push(text);
        }
    }
    assert_eq!(answer["alternatives"], json!(others));
    assert_eq!(answer["detectedLanguage"], json!({ "confidence": 100.0, "language": "en" }));
    let body = json!({ "q": [TEXT, "", TWO], "source": "auto", "target": "tr", "alternatives": 1 });
    let many = post(port, "/translate", &body).json();
    let two = directly(TWO, TranslateOptions::default());
    assert_eq!(many["translatedText"].as_array().unwrap().len(), 3, "{many}");
    assert_eq!((&many["translatedText"][1], &many["translatedText"][2]), (&json!(""), &json!(two.text())));
    assert_eq!(many["detectedLanguage"].as_array().unwrap().len(), 3);
    assert_eq!(many["alternatives"].as_array().unwrap().len(), 3);
    let same = post(port, "/translate", &json!({ "q": [TEXT], "source": "en", "target": "en" }));
    assert_eq!(same.json(), json!({ "translatedText": [TEXT] }));
}

#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let port = server();
    let cases = [
        (json!({}), "q: missing or empty, expected a text"),
        (json!({ "q": "", "source": "en", "target": "tr" }), "q: missing or empty"),
        (json!({ "q": [], "source": "en", "target": "tr" }), "q: missing or empty"),
        (
            json!({ "q": 5, "source": "en", "target": "tr" }),
            "q: a number, expected a string or an array of strings",
        ),
        (json!({ "q": ["a", null], "source": "en", "target": "tr" }), "q: an array with null"),
        (json!({ "q": "a", "target": "tr" }), "source: missing or empty, expected a language or \"auto\""),
        (json!({ "q": "a", "source": "en" }), "target: missing or empty, expected a language"),
        (json!({ "q": "a", "source": "xx", "target": "tr" }), "source: language \"xx\", expected one of en"),
        (json!({ "q": "a", "source": "en", "target": "xx" }), "target: language \"xx\", expected one of"),
        (
            json!({ "q": "a", "source": "en", "target": "tr", "format": "pdf" }),
            "format: unknown format \"pdf\"",
        ),
        (
            json!({ "q": "a", "source": "en", "target": "tr", "alternatives": 9 }),
            "alternatives: 9, expected at most 8",
        ),
        (json!({ "q": "a", "source": "en", "target": "tr", "alternatives": -1 }), "alternatives: -1"),
    ];
    for (body, expected) in cases {
        refused(&post(port, "/translate", &body), 400, expected);
    }
    let typed = |media_type: &str, body: &str| send(port, ["POST", "/translate"], &[media_type], body);
    refused(&typed("Content-Type: application/json", "{\"q\": "), 400, "");
    refused(&typed("Content-Type: application/json", &"[".repeat(100_000)), 400, "");
    refused(&typed("Content-Type: text/csv", "a,b"), 415, "");
    let limits = RequestLimits { characters: 10, texts: 2, body: 200, ..RequestLimits::default() };
    let port = start(state(limits));
    let body = |q: Value| json!({ "q": q, "source": "en", "target": "tr" });
    refused(
        &post(port, "/translate", &body("ö".repeat(11).into())),
        413,
        "too large: 11 characters (limit 10)",
    );
    refused(&post(port, "/translate", &body(json!(["a", "b", "c"]))), 413, "too large: 3 texts (limit 2)");
    refused(&post(port, "/translate", &body("a".repeat(300).into())), 413, "expected at most 200");
    refused(&post(port, "/detect", &json!({ "q": "a".repeat(11) })), 413, "11 characters");
}

#[test]
fn tags_are_preserved_and_texts_between_them_are_translated() {
    let port = server();
    let body = json!({
        "q": "<h1>The garden</h1><p>The <b>teacher</b> reads a book today.</p><script>a < b</script>",
        "source": "en", "target": "tr", "format": "html", "alternatives": 2,
    });
    let answer = post(port, "/translate", &body).json();
    let mut all = vec![answer["translatedText"].as_str().unwrap()];
    all.extend(answer["alternatives"].as_array().unwrap().iter().map(|own| own.as_str().unwrap()));
    for text in all {
        for part in ["<h1>", "</h1><p>", "<b>", "</b>", "</p><script>a < b</script>"] {
            assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
        }
    }
    let title = directly("The garden", TranslateOptions::default());
    let best = answer["translatedText"].as_str().unwrap();
    let page = best.split_once("</h1>").unwrap().0;
    assert!(page.starts_with("<h1>") && !title.text().is_empty(), "{best}");
}

#[test]
fn languages_detection_and_settings_are_those_of_libretranslate() {
    let port = server();
    let languages = get(port, "/languages").json();
    let english = &languages.as_array().unwrap()[0];
    assert_eq!((&english["code"], &english["name"]), (&json!("en"), &json!("English")));
    assert!(english["targets"].as_array().unwrap().contains(&json!("tr")), "{languages}");
    let found = post(port, "/detect", &json!({ "q": TEXT })).json();
    assert_eq!(found, json!([{ "confidence": 100.0, "language": "en" }]));
    assert_eq!(get(port, "/detect?q=12").json(), json!([{ "confidence": 0.0, "language": "en" }]));
    refused(&post(port, "/detect", &json!({})), 400, "q: missing or empty");
    let settings = get(port, "/frontend/settings").json();
    assert_eq!(
        (&settings["charLimit"], &settings["keyRequired"], &settings["filesTranslation"]),
        (&json!(50_000), &json!(false), &json!(true))
    );
    assert_eq!(settings["language"]["source"], json!({ "code": "auto", "name": "Auto Detect" }));
}

/// Uploads a file as browsers do.
fn send_file(port: u16, name: &str, content: &str) -> Answer {
    let field = |name: &str, text: &str| {
        format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n")
    };
    let body = format!(
        "{}{}--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n--XX--\r\n",
        field("source", "en"),
        field("target", "tr")
    );
    send(port, ["POST", "/translate_file"], &["Content-Type: multipart/form-data; boundary=XX"], &body)
}

#[test]
fn files_are_translated_and_downloaded() {
    let port = server();
    let fetched = |name: &str, content: &str| {
        let answer = send_file(port, name, content);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer = answer.json();
        let url = answer["translatedFileUrl"].as_str().unwrap();
        let path = url.strip_prefix(&format!("http://127.0.0.1:{port}")).unwrap().to_owned();
        let id = path.strip_prefix("/download_file/").unwrap();
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        get(port, &path)
    };
    let text = fetched("../letter.txt", &format!("{TEXT}\r\n\r\n{TWO}"));
    let [first, second] = [TEXT, TWO].map(|text| directly(text, TranslateOptions::default()));
    assert_eq!(text.body, format!("{}\r\n\r\n{}", first.text(), second.text()));
    assert!(
        text.headers.contains("content-disposition: attachment; filename=\"letter_tr.txt\""),
        "{}",
        text.headers
    );
    assert!(
        text.headers.contains("content-type: application/octet-stream") && text.headers.contains("nosniff")
    );
    let subtitles = fetched("a.srt", &format!("1\n00:00:01,000 --> 00:00:02,000\n{TEXT}\n"));
    assert!(
        subtitles.body.starts_with("1\n00:00:01,000 --> 00:00:02,000\n")
            && subtitles.body.contains(first.text())
    );
    let messages = fetched("a.po", &format!("msgid \"{TEXT}\"\nmsgstr \"\"\n"));
    let expected = format!("msgid \"{TEXT}\"\nmsgstr \"{}\"\n", first.text());
    assert!(messages.body.ends_with(&expected), "{}", messages.body);
    let few = start(state(RequestLimits { file_characters: 10, ..RequestLimits::default() }));
    refused(&send_file(few, "a.txt", TEXT), 413, "too large: 31 characters (limit 10)");
    refused(&send_file(port, "a.docx", "a"), 400, "expected one of .txt, .html, .srt, .po");
    refused(&get(port, "/download_file/00000000000000000000000000000000"), 404, "no such file");
    refused(&get(port, "/download_file/%FF"), 404, "no such file");
    refused(&get(port, "/docs/%FF"), 404, "no such file");
    refused(&get(port, "/download_file/..%2f..%2fetc%2fpasswd"), 404, "no such file");
    refused(&post(port, "/translate_file", &json!({ "source": "en", "target": "tr" })), 400, "file: missing");
}

#[test]
fn translations_contain_lexical_constraints() {
    let port = server();
    let other = directly(TWO, TranslateOptions::default());
    let word = other.text().split(' ').next().unwrap().to_owned();
    let expected =
        directly(TEXT, TranslateOptions { lexical: vec![word.clone()], ..TranslateOptions::default() });
    assert!(expected.text().contains(&word), "{}", expected.text());
    for lexical in [json!(word), json!([word])] {
        let own = json!({ "text": TEXT, "from": "en", "to": "tr", "lexical": lexical });
        assert_eq!(post(port, "/v1/translate", &own).json()["translations"][0]["text"], expected.text());
        let libre = json!({ "q": TEXT, "source": "en", "target": "tr", "lexical": lexical });
        assert_eq!(post(port, "/translate", &libre).json()["translatedText"], expected.text());
    }
    let ask = |text: &str, lexical: &Value, format: &str| {
        post(
            port,
            "/v1/translate",
            &json!({ "text": text, "to": "tr", "lexical": lexical, "format": format }),
        )
    };
    refused(&ask(TWO, &json!(word), "text"), 400, "has 2 sentences or parts, expected one sentence");
    refused(&ask(TEXT, &json!("漢"), "text"), 400, "the model cannot write");
    refused(&ask(TEXT, &json!(3), "text"), 400, "lexical");
    refused(&ask(TEXT, &json!(vec!["a"; 17]), "text"), 400, "lexical: 17 phrases, expected at most 16");
    refused(&ask(TEXT, &json!("a".repeat(201)), "text"), 400, "lexical: a phrase of 201 characters");
    refused(&ask("<p>x</p>", &json!(word), "html"), 400, "lexical: a document, expected plain text");
}

#[test]
fn v1_has_scores_alignment_and_notes() {
    let port = server();
    let options = TranslateOptions {
        n_best: 3,
        beam_size: Some(5),
        evidence: Evidence::Alignment,
        ..TranslateOptions::default()
    };
    let expected = directly(TWO, options);
    let body =
        json!({ "text": TWO, "from": "en", "to": "tr", "n_best": 3, "beam_size": 5, "alignment": true });
    let answer = post(port, "/v1/translate", &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    assert_eq!(answer["model"], "golden");
    let found = &answer["translations"][0];
    let best = expected.best();
    assert_eq!(
        (&found["text"], &found["score"], &found["tokens"]),
        (&json!(best.text), &json!(best.score), &json!(best.tokens))
    );
    assert_eq!(found["n_best"][0]["log_probability"], json!(best.log_probability));
    assert_eq!(found["alignment"], json!(expected.alignment));
    assert_eq!(
        found["notes"][0],
        json!({ "kind": "split", "sentences": 2, "message": "split into 2 sentences" })
    );
    assert!(found.get("attention").is_none());
    let many =
        post(port, "/v1/translate", &json!({ "text": [TEXT, TWO], "to": "tr", "n_best": 9, "beam_size": 1 }));
    assert_eq!(many.json()["translations"].as_array().unwrap().len(), 2, "{}", many.body);
    let page = post(
        port,
        "/v1/translate",
        &json!({ "text": "<p>The <i>garden</i></p>", "to": "tr", "format": "html" }),
    );
    let page = page.json();
    assert!(page["translations"][0]["text"].as_str().unwrap().contains("<i>"), "{page}");
    let models = get(port, "/v1/models").json();
    assert_eq!(
        (&models["models"][0]["name"], &models["models"][0]["is_loaded"]),
        (&json!("golden"), &json!(true))
    );
    let cases = [
        (json!({ "to": "tr" }), "text: missing or empty"),
        (json!({ "text": "a", "colour": 1 }), "unknown field `colour`"),
        (json!({ "text": "a", "n_best": 10 }), "n_best: 10, expected 1 to 9"),
        (json!({ "text": "a", "n_best": "2" }), "invalid type"),
        (json!({ "text": "a", "to": "xx" }), "to: language \"xx\""),
        (json!({ "text": "a", "to": "tr", "model": "other" }), "no model \"other\", expected one of golden"),
        (json!({ "text": "a", "to": "tr", "format": "srt" }), ""),
        (
            json!({ "text": "a", "to": "tr", "attention": true, "format": "html" }),
            "attention of format \"html\"",
        ),
        (
            json!({ "text": "Go. Run. Sit. Fly. Eat.", "to": "tr", "attention": true }),
            "attention of 5 sentences",
        ),
    ];
    for (body, expected) in cases {
        refused(&post(port, "/v1/translate", &body), 400, expected);
    }
}

#[test]
fn attention_is_traced_for_the_translation() {
    let port = server();
    let body = json!({ "text": [TEXT, TWO], "to": "tr", "attention": true });
    let answer = post(port, "/v1/translate", &body).json();
    let found = answer["translations"].as_array().unwrap();
    let traces: Vec<usize> = found.iter().map(|own| own["attention"].as_array().unwrap().len()).collect();
    assert_eq!(traces, [1, 2]);
    let trace = &found[0]["attention"][0];
    assert_eq!((&trace["source"]["text"], &trace["given"]), (&json!(TEXT), &json!(true)));
    assert_eq!(trace["target"]["text"], found[0]["text"]);
    assert_eq!(trace["attention"].as_array().unwrap().len(), 6);
    let limits = RequestLimits { attention_tokens: 3, ..RequestLimits::default() };
    let few = post(start(state(limits)), "/v1/translate", &body);
    refused(&few, 400, "tokens, expected at most 3");
}

#[test]
fn a_stream_has_the_sentences_in_order_and_then_the_answer() {
    let port = server();
    let body = json!({ "text": [TWO, TEXT], "to": "tr", "stream": true });
    let answer = post(port, "/v1/translate", &body);
    assert!(answer.headers.contains("content-type: text/event-stream"), "{}", answer.headers);
    let events: Vec<(String, Value)> = answer
        .body
        .split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
            (name.to_owned(), serde_json::from_str(data).unwrap())
        })
        .collect();
    let seen: Vec<(&str, &Value, &Value)> =
        events[..3].iter().map(|(name, data)| (name.as_str(), &data["text"], &data["sentence"])).collect();
    let [zero, one] = [json!(0), json!(1)];
    assert_eq!(seen, [("sentence", &zero, &zero), ("sentence", &zero, &one), ("sentence", &one, &zero)]);
    assert_eq!(events[1].1["source"], "The garden is old.");
    let mut plain = body;
    plain["stream"] = false.into();
    assert_eq!((events.len(), events[3].0.as_str()), (4, "done"));
    assert_eq!(events[3].1, post(port, "/v1/translate", &plain).json());
    // An error before the first event has a status of its own.
    refused(
        &post(port, "/v1/translate", &json!({ "text": "a", "to": "xx", "stream": true })),
        400,
        "language",
    );
    let model = json!({ "text": "a", "to": "tr", "model": "other", "stream": true });
    refused(&post(port, "/v1/translate", &model), 400, "no model");
}

#[test]
fn every_described_route_answers_and_other_methods_are_refused() {
    let state = state(RequestLimits::default());
    let port = start(state.clone());
    for (path, methods) in ROUTES {
        for method in ["get", "post"] {
            let answer = send(
                port,
                [&method.to_uppercase(), &path.replace("{id}", "0").replace("{model}", "0")],
                &[],
                "",
            );
            let is_route = answer.status != 405 && !(answer.status == 404 && answer.body.is_empty());
            assert_eq!(is_route, methods.contains(&method), "{method} {path}: {}", answer.status);
            if answer.status == 405 {
                refused(&answer, 405, "is not allowed");
                assert!(answer.headers.contains("allow: "), "{}", answer.headers);
            }
        }
    }
    assert_eq!(get(port, "/health").json(), json!({ "status": "ok" }));
    assert_eq!(get(port, "/ready").json(), json!({ "status": "ok" }));
    state.is_open.store(false, Ordering::Relaxed);
    refused(&get(port, "/ready"), 503, "shutting down");
    assert!(get(port, "/metrics").headers.contains("text/plain"));
    let page = get(port, "/docs");
    assert!(page.body.starts_with("<!doctype html>") && page.headers.contains("text/html"));
    assert!(page.headers.contains("content-security-policy: default-src 'self';"), "{}", page.headers);
    // All files of the page are served without the explorer.
    let named = page.body.split(['"']).filter(|part| part.starts_with("docs/"));
    for path in named.chain(["docs/js/dom.js", "docs/docs/curl.js"]) {
        assert_eq!(get(port, &format!("/{path}")).status, 200, "{path}");
    }
    assert_eq!([get(port, "/docs/none.js").status, get(port, "/docs/index.html").status], [404; 2]);
}

#[test]
fn the_description_has_the_languages_and_limits_of_this_server() {
    let limits = RequestLimits { characters: 1234, texts: 7, n_best: 3, ..RequestLimits::default() };
    let found = get(start(state(limits)), "/openapi.json").json();
    let schemas = &found["components"]["schemas"];
    assert_eq!(schemas["SourceCode"]["enum"], json!(["auto", "en"]));
    assert!(schemas["LanguageCode"]["enum"].as_array().unwrap().contains(&json!("tr")));
    assert_eq!(schemas["ModelName"]["enum"], json!(["golden"]));
    let [one, many] = [0, 1].map(|place| &schemas["TranslateRequest"]["properties"]["q"]["oneOf"][place]);
    assert_eq!((&one["maxLength"], &many["maxItems"]), (&json!(1234), &json!(7)));
    assert_eq!(schemas["V1Request"]["properties"]["n_best"]["maximum"], 3);
    assert_eq!(schemas["DetectForm"]["properties"]["q"]["maxLength"], 1234);
}

#[test]
fn a_passed_deadline_is_503_with_retry_after() {
    let limits = RequestLimits { deadline: Duration::ZERO, ..RequestLimits::default() };
    let answer =
        post(start(state(limits)), "/translate", &json!({ "q": TEXT, "source": "en", "target": "tr" }));
    refused(&answer, 503, "deadline");
    assert!(answer.headers.contains("retry-after: "), "{}", answer.headers);
}
