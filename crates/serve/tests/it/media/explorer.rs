//! The explorers of image classifiers and speech recognisers: what they send is what the engine computes, and wrong requests are errors.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyhead_engine::speech::{SpeechSummary, TranscribeOptions};
use polyhead_serve::explorer::Port;
use polyhead_serve::{ImageExplorer, SoundExplorer};

use super::*;
use crate::client::{get, post, send};

/// An explorer of each that runs until the tests end; their ports.
fn explorers(folder: &Path) -> [u16; 2] {
    let options = LoadOptions::default();
    let classifier =
        ImageClassifier::load(image_model(folder, "vit"), &options, ImageOptions::default()).unwrap();
    let own = speech_model(folder, "whisper", true);
    let engine = SpeechEngine::load(&own, &options).unwrap();
    let summary = SpeechSummary::of_folder(&own).unwrap();
    let image = ImageExplorer::new(Arc::new(classifier), "vit").listen(Port::Exactly(0)).unwrap();
    let sound = SoundExplorer::new(Arc::new(engine), summary, "whisper").listen(Port::Exactly(0)).unwrap();
    [image, sound].map(|listening| {
        let port = listening.address().port();
        std::thread::spawn(move || listening.run());
        port
    })
}

#[test]
fn traces_are_those_of_the_engine_and_a_layer_alone_is_that_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let [image, speech] = explorers(folder.path());
    assert_eq!(get(image, "/api/model").json()["task"], "image");
    let model = get(speech, "/api/model").json();
    assert_eq!((&model["languages"], &model["translates"]), (&json!(["de", "en"]), &json!(true)));

    let data = STANDARD.encode(picture(3).to_png());
    let trace = post(image, "/api/image", &json!({ "image": data, "name": "a.png" })).json()["trace"].clone();
    let options = (LoadOptions::default(), ImageOptions::default());
    let classifier = ImageClassifier::load(folder.path().join("vit"), &options.0, options.1).unwrap();
    let classes = classifier.classify(&[picture(3)]).unwrap().remove(0);
    let expected: Vec<Value> =
        classes.iter().map(|own| json!({ "label": own.label, "probability": own.probability })).collect();
    assert_eq!((&trace["classes"], &trace["grid"]), (&json!(expected), &json!([3, 3])));
    assert_eq!(trace["image"]["text"], "a.png");
    for layer in 0..2 {
        let request = json!({ "image": data, "kind": "encoder", "layer": layer });
        assert_eq!(
            post(image, "/api/image/attention", &request).json()["weights"],
            trace["attention"][layer]["weights"]
        );
    }
    let changed =
        json!({ "heads": [{ "kind": "encoder", "layer": 1, "head": 0, "factor": 0 }], "layers": [] });
    let request = json!({ "image": data, "intervention": changed });
    assert_ne!(post(image, "/api/image", &request).json()["trace"]["classes"], trace["classes"]);

    let data = STANDARD.encode(sound(700));
    let request = json!({ "sound": data, "name": "a.wav", "language": "de", "translate": false });
    let found = post(speech, "/api/sound", &request).json();
    let (trace, notes) = (&found["trace"], &found["notes"]);
    assert_eq!((notes, &trace["seconds"]), (&json!([]), &json!(0.7)));
    let engine = SpeechEngine::load(folder.path().join("whisper"), &LoadOptions::default()).unwrap();
    let options = TranscribeOptions { language: Some("de".into()), ..TranscribeOptions::default() };
    let (ids, words, _) =
        engine.attention(&wav::decode(&sound(700), "a", 9.0).unwrap().samples, &options).unwrap();
    assert_eq!(trace["text"], engine.text(&ids).unwrap());
    assert_eq!((&trace["said"], trace["mel"]["shape"][1].as_u64()), (&json!(words), Some(8)));
    for layer in 0..2 {
        let request = json!({ "request": request, "kind": "cross", "layer": layer });
        assert_eq!(
            post(speech, "/api/sound/attention", &request).json()["weights"],
            trace["attention"][layer]["weights"]
        );
    }
}

#[test]
fn wrong_requests_are_errors_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let [image, speech] = explorers(folder.path());
    let file = STANDARD.encode(picture(0).to_png());
    let wav = STANDARD.encode(sound(100));
    let request = json!({ "sound": wav });
    for (port, path, body, part) in [
        (image, "/api/image", json!({ "image": "?" }), "an image that is not base64"),
        (
            image,
            "/api/image",
            json!({ "image": STANDARD.encode("GIF89a") }),
            "an unknown format, expected PNG or JPEG",
        ),
        (image, "/api/image", json!({ "picture": file }), "unknown field `picture`"),
        (image, "/api/image/attention", json!({ "image": file, "kind": "encoder", "layer": 2 }), "layer 2"),
        (image, "/api/image/attention", json!({ "image": file, "kind": "cross", "layer": 0 }), "cross"),
        (speech, "/api/sound", json!({ "sound": "?" }), "a sound that is not base64"),
        (speech, "/api/sound", json!({ "sound": STANDARD.encode("OggS") }), "an Ogg file, expected WAV"),
        (speech, "/api/sound", json!({ "sound": wav, "language": "fr" }), "expected one of de, en"),
        (
            speech,
            "/api/sound/attention",
            json!({ "request": request, "kind": "cross", "layer": 9 }),
            "layer 9",
        ),
    ] {
        let answer = post(port, path, &body);
        assert!(answer.body.contains(part), "{path}: {}", answer.body);
        assert!(!answer.json()["hint"].as_str().unwrap().is_empty());
    }
    let foreign = send(image, ["POST", "/api/image"], &["Host: example.com"], "{}");
    assert_eq!(foreign.status, 403, "{}", foreign.body);
}
