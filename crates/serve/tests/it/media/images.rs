//! `/classify`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::client::{post, send};

fn expected(classifier: &ImageClassifier, picture: &Picture, top: usize) -> Value {
    let classes = classifier.classify(std::slice::from_ref(picture)).unwrap().remove(0);
    let scored = classes.iter().take(top);
    json!(scored.map(|own| json!({ "label": own.label, "score": own.probability })).collect::<Vec<_>>())
}

#[test]
fn classes_are_those_of_the_engine_however_an_image_is_sent() {
    let server = Running::all();
    let classifier = server.classifier();
    let (picture, file) = (picture(0), picture(0).to_png());
    let answer = server.classify("", &file);
    assert_eq!((answer.status, answer.json()), (200, expected(&classifier, &picture, 5)), "{}", answer.body);
    let three = expected(&classifier, &picture, 3);
    assert_eq!(server.classify("?top_k=3&model=vit", &file).json(), three);
    let all = expected(&classifier, &picture, 99);
    assert_eq!(all.as_array().unwrap().len(), 6);
    assert_eq!(server.classify("?top_k=99", &file).json(), all);
    let inputs = STANDARD.encode(&file);
    let parameters = json!({ "top_k": 3, "function_to_apply": "softmax" });
    let answer = post(server.port, "/classify", &json!({ "inputs": inputs, "parameters": parameters }));
    assert_eq!(answer.json(), three, "{}", answer.body);
    let answer =
        post(server.port, "/classify", &json!({ "inputs": inputs, "parameters": null, "model": "vit" }));
    assert_eq!(answer.json(), expected(&classifier, &picture, 5));
    let answer = send_bytes(server.port, ["POST", "/classify"], &[FORM], &form(&[("top_k", "3")], &file));
    assert_eq!(answer.json(), three, "{}", answer.body);
    // Any media type of a file, or none.
    for kind in [&["Content-Type: application/octet-stream"][..], &[]] {
        assert_eq!(send_bytes(server.port, ["POST", "/classify?top_k=3"], kind, &file).json(), three);
    }
    // Beside a recogniser, the classifier answers at the root.
    assert_eq!(send_bytes(server.port, ["POST", "/"], &[], &file).json(), expected(&classifier, &picture, 5));
    server.is_quiet_within(Duration::from_secs(5));
    let gauges = server.state.scheduler.image_gauges();
    assert_eq!((gauges.items, gauges.amount), (9, 9.0 * 20.0 * 31.0), "{gauges:?}");
}

#[test]
fn images_of_many_clients_share_batches_and_none_changes_another() {
    let options =
        SchedulerOptions { threads: 1, window: Duration::from_millis(50), ..SchedulerOptions::default() };
    let server = Running::with(RequestLimits::default(), options);
    let classifier = server.classifier();
    let begin = server.state.scheduler.image_gauges().steps;
    std::thread::scope(|scope| {
        for kind in 0..24 {
            let (server, classifier) = (&server, &classifier);
            scope.spawn(move || {
                let own = picture(kind);
                if kind % 8 == 7 {
                    // A broken image beside the others.
                    let file = own.to_png();
                    let answer = server.classify("", &file[..file.len() / 2]);
                    assert_eq!(answer.status, 400, "{}", answer.body);
                } else {
                    let answer = server.classify("?top_k=9", &own.to_png());
                    assert_eq!(answer.json(), expected(classifier, &own, 9));
                }
            });
        }
    });
    let batches = server.state.scheduler.image_gauges().steps - begin;
    assert!((1..20).contains(&batches), "{batches}");
    server.is_quiet_within(Duration::from_secs(5));
}

#[test]
fn wrong_requests_are_refused() {
    let server = Running::all();
    let file = picture(0).to_png();
    let json = |body: Value| post(server.port, "/classify", &body);
    for (answer, status, part) in [
        (server.classify("?top_k=0", &file), 400, "top_k: another value, expected a whole number above 0"),
        (server.classify("?top_k=many", &file), 400, "top_k"),
        (server.classify("?k=3", &file), 400, "unknown field \\\"k\\\""),
        (server.classify("?model=other", &file), 404, "no model \\\"other\\\", expected one of vit"),
        (server.classify("?model=plain", &file), 404, "model \\\"plain\\\" is not an image classifier"),
        (server.classify("", b""), 400, "image: an empty file, expected PNG or JPEG"),
        (server.classify("", b"GIF89a"), 400, "image: an unknown format, expected PNG or JPEG"),
        (server.classify("", &file[..40]), 400, "a damaged image"),
        (json(json!({})), 400, "no image, expected PNG or JPEG"),
        (json(json!({ "inputs": "§" })), 400, "inputs: not base64"),
        (json(json!({ "inputs": "", "parameters": { "k": 1 } })), 400, "unknown field \\\"k\\\""),
        (json(json!({ "inputs": "", "parameters": [] })), 400, "parameters: another value"),
        (
            json(json!({ "inputs": "", "parameters": { "function_to_apply": "sigmoid" } })),
            400,
            "expected softmax: scores are probabilities",
        ),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.body.contains(part), "{}", answer.body);
        assert!(!answer.json()["hint"].as_str().unwrap().is_empty());
    }
    let answer = send(server.port, ["POST", "/classify"], &["Authorization: Bearer wrong"], "");
    assert_eq!(answer.status, 403, "{}", answer.body);
    server.is_quiet_within(Duration::from_secs(5));
    assert_eq!(server.state.scheduler.image_gauges().items, 0);
}
