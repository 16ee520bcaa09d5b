//! `/v1/audio/transcriptions` and `/v1/audio/translations`.

use polyhead_engine::speech::{SpeechTask, TranscribeOptions, Transcript};

use super::*;
use crate::client::{get, send};

fn directly(engine: &SpeechEngine, file: &[u8], options: &TranscribeOptions) -> Transcript {
    engine.transcribe(&wav::decode(file, "file", 100.0).unwrap(), options).unwrap()
}

/// Fields of a request, and the status, the code and a part of the message of its error.
type Refusal<'a> = (&'a [(&'a str, &'a str)], u16, &'a str, &'a str);

fn words() -> TranscribeOptions {
    TranscribeOptions { word_times: true, ..TranscribeOptions::default() }
}

#[test]
fn texts_are_those_of_the_engine_in_every_format() {
    let server = Running::all();
    for name in ["plain", "whisper"] {
        let engine = server.speech(name);
        // One window, several, and a part of one.
        for milliseconds in [300, 1000, 3700] {
            let file = sound(milliseconds);
            let expected = directly(&engine, &file, &words());
            assert!(!expected.text.is_empty());
            let ask = |fields: &[(&str, &str)]| {
                let answer = server.transcribe(&[&[("model", name)], fields].concat(), &file);
                assert_eq!(answer.status, 200, "{}", answer.body);
                answer
            };
            let seconds = (milliseconds as f64 / 1e3).ceil();
            let usage = json!({ "type": "duration", "seconds": seconds as u64 });
            assert_eq!(ask(&[]).json(), json!({ "text": expected.text, "usage": usage }));
            let plain = ask(&[("response_format", "text")]);
            assert_eq!(plain.body, format!("{}\n", expected.text));
            assert!(plain.headers.contains("content-type: text/plain; charset=utf-8"), "{}", plain.headers);
            assert_eq!(ask(&[("response_format", "srt")]).body, expected.to_srt());
            assert_eq!(ask(&[("response_format", "vtt")]).body, expected.to_vtt());
            let verbose = ("response_format", "verbose_json");
            let found = ask(&[verbose]).json();
            let language =
                expected.language.as_deref().map(|code| if code == "de" { "german" } else { "english" });
            assert_eq!((&found["task"], &found["language"]), (&json!("transcribe"), &json!(language)));
            assert_eq!((&found["duration"], &found["words"]), (&json!(expected.duration), &Value::Null));
            let segments = found["segments"].as_array().unwrap();
            assert_eq!(segments.len(), expected.segments.len());
            for (at, (found, expected)) in segments.iter().zip(&expected.segments).enumerate() {
                let own = json!({
                    "id": at, "start": expected.start, "end": expected.end, "text": expected.text, "tokens": expected.tokens,
                    "temperature": 0.0, "avg_logprob": expected.log_probability,
                });
                assert_eq!(found, &own);
            }
            let found = ask(&[verbose, ("timestamp_granularities[]", "word")]).json();
            let all: Vec<_> =
                expected.segments.iter().flat_map(|segment| segment.words.iter().flatten()).collect();
            assert_eq!((&found["words"], &found["segments"]), (&json!(all), &Value::Null));
            let both =
                [verbose, ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")];
            let found = ask(&both).json();
            assert!(found["words"].is_array() && found["segments"].is_array(), "{found}");
        }
    }
    server.is_quiet_within(Duration::from_secs(5));
    let gauges = server.state.scheduler.speech_gauges();
    assert_eq!(gauges.items, 2 * 3 * 7);
    assert!((gauges.amount - 14.0 * 5.0).abs() < 0.01 && gauges.steps > gauges.items, "{gauges:?}");
}

#[test]
fn options_reach_the_engine_and_notes_come_back() {
    let server = Running::all();
    let engine = server.speech("whisper");
    let file = sound(1700);
    let text = |fields: &[(&str, &str)]| {
        let answer = server.transcribe(&[&[("model", "whisper")], fields].concat(), &file);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["text"].as_str().unwrap().to_owned()
    };
    let own = |options: TranscribeOptions| directly(&engine, &file, &options).text;
    let default = TranscribeOptions::default;
    let german = TranscribeOptions { language: Some("de".into()), ..default() };
    assert_eq!(text(&[("language", "DE")]), own(german.clone()));
    assert_ne!(own(german), own(TranscribeOptions { language: Some("en".into()), ..default() }));
    let hot = TranscribeOptions { temperature: 0.9, seed: 7, ..default() };
    assert_eq!(text(&[("temperature", "0.9"), ("seed", "7")]), own(hot));
    assert_eq!(text(&[("beam_size", "3")]), own(TranscribeOptions { beam_size: Some(3), ..default() }));
    // What asks for nothing is no error.
    assert_eq!(text(&[("stream", "false"), ("prompt", ""), ("temperature", "0")]), own(default()));
    let answer = send_bytes(
        server.port,
        ["POST", "/v1/audio/translations"],
        &[FORM],
        &form(&[("model", "whisper"), ("response_format", "verbose_json")], &file),
    );
    let translated = own(TranscribeOptions { task: SpeechTask::Translate, ..default() });
    assert_eq!((&answer.json()["text"], &answer.json()["task"]), (&json!(translated), &json!("translate")));
    assert_ne!(translated, own(default()));
    // Another rate and two channels are said.
    let mut stereo = wav::encode(&tone(500, 22_050), 22_050);
    stereo[22] = 2;
    let answer = server.transcribe(&[], &stereo);
    let notes = json!(["file: 2 channels, mixed to one", "22050 samples per second, resampled to 8000"]);
    assert_eq!(answer.json()["notes"], notes, "{}", answer.body);
    // A model by default, and a field in the query.
    let answer = send_bytes(
        server.port,
        ["POST", "/v1/audio/transcriptions?response_format=text"],
        &[FORM],
        &form(&[], &sound(300)),
    );
    let expected = directly(&server.speech("plain"), &sound(300), &default()).text;
    assert_eq!((answer.status, answer.body), (200, format!("{expected}\n")));
}

#[test]
fn wrong_requests_are_refused_in_the_shape_of_openai() {
    let server = Running::all();
    let file = sound(200);
    let cases: &[Refusal<'_>] = &[
        (&[("model", "other")], 404, "model_not_found", "no model \"other\", expected one of plain, whisper"),
        (&[("model", "vit")], 404, "model_not_found", "model \"vit\" is not a speech recogniser"),
        (
            &[("prompt", "Dr Strange")],
            400,
            "unsupported_field",
            "prompt is not supported: the model gets no text",
        ),
        (&[("stream", "true")], 400, "unsupported_field", "stream is not supported"),
        (&[("include[]", "logprobs")], 400, "unsupported_field", "include[] is not supported"),
        (&[("chunking_strategy", "auto")], 400, "unsupported_field", "chunking_strategy is not supported"),
        (
            &[("response_format", "diarized_json")],
            400,
            "invalid_value",
            "expected json, text, srt, verbose_json or vtt",
        ),
        (
            &[("temperature", "1.5")],
            400,
            "invalid_value",
            "temperature: \"\\\"1.5\\\"\", expected a number from 0 to 1",
        ),
        (&[("temperature", "NaN")], 400, "invalid_value", "expected a number from 0 to 1"),
        (&[("beam_size", "99")], 400, "invalid_value", "beam_size: 99, expected 1 to 16"),
        (
            &[("beam_size", "2"), ("temperature", "0.5")],
            400,
            "invalid_value",
            "beam_size: with a temperature",
        ),
        (&[("timestamp_granularities[]", "word")], 400, "invalid_value", "only verbose_json has times"),
        (
            &[("timestamp_granularities[]", "letter"), ("response_format", "verbose_json")],
            400,
            "invalid_value",
            "\"letter\", expected word or segment",
        ),
        (&[("language", "de")], 400, "invalid_value", "but this model has one language"),
        (&[("language", "fr"), ("model", "whisper")], 400, "invalid_value", "\"fr\", expected one of de, en"),
        (&[("langauge", "de")], 400, "unknown_field", "unknown field \"langauge\""),
    ];
    for (fields, status, code, part) in cases {
        let answer = server.transcribe(fields, &file);
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (*status, &json!(code)), "{}", answer.body);
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        assert!(!error["hint"].as_str().unwrap().is_empty());
    }
    let answer = server.transcribe_as("wrong", &[], &file);
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    let path = "/v1/audio/translations";
    let answer = send_bytes(server.port, ["POST", path], &[FORM], &form(&[("model", "plain")], &file));
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("unsupported_model")));
    let answer = send_bytes(server.port, ["POST", path], &[FORM], &form(&[("language", "en")], &file));
    assert_eq!(answer.json()["error"]["code"], "unknown_field");
    let path = "/v1/audio/transcriptions";
    let answer =
        send(server.port, ["POST", path], &["Content-Type: application/json"], "{\"file\": \"abc\"}");
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("file")), "{}", answer.body);
    let answer = send_bytes(server.port, ["POST", path], &[FORM], b"--XX--\r\n");
    assert!(answer.body.contains("file: missing, expected a WAV file"), "{}", answer.body);
    server.is_quiet_within(Duration::from_secs(5));
    assert_eq!(server.state.scheduler.speech_gauges().steps, 0);
}

#[test]
fn all_models_are_listed_and_described() {
    let server = Running::all();
    let listed = get(server.port, "/v1/models").json();
    let about = |name: &str, is_loaded: bool, calls: &[&str]| {
        json!({ "id": name, "object": "model", "created": 0, "owned_by": "polyhead", "is_loaded": is_loaded,
                "context_length": null, "calls": calls })
    };
    let (transcribe, translate) = ("/v1/audio/transcriptions", "/v1/audio/translations");
    let expected = [
        about("plain", true, &[transcribe]),
        about("whisper", false, &[transcribe, translate]),
        about("vit", false, &["/classify"]),
    ];
    assert_eq!(listed["data"], json!(expected));
    assert_eq!(get(server.port, "/v1/models/vit").json(), expected[2]);
    assert_eq!(get(server.port, "/ready").status, 200);
    let schemas = &get(server.port, "/openapi.json").json()["components"]["schemas"];
    assert_eq!(schemas["SpeechModelName"]["enum"], json!(["plain", "whisper"]));
    assert_eq!(schemas["ImageModelName"]["enum"], json!(["vit"]));
    assert_eq!(server.state.scheduler.reload().unwrap(), 1);
    let other = start(Arc::new(ServerState::new(
        Arc::new(Scheduler::open(SchedulerOptions::default()).unwrap()),
        RequestLimits::default(),
        FilesOptions::default(),
    )));
    let answer = send_bytes(other, ["POST", transcribe], &[FORM], &form(&[], &sound(100)));
    assert_eq!(answer.status, 404, "{}", answer.body);
    assert!(answer.body.contains("this server has no model that is a speech recogniser"), "{}", answer.body);
}
