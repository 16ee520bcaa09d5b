//! Attacks on the calls of encoders, beside a light client that translates.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::Parameters;
use serde_json::{Value, json};

use super::cases::{Finding, beside, is_served};
use super::victim::Setup;

/// Clients that attack at once.
const CLIENTS: u8 = 8;

/// Writes an encoder with random weights.
fn encoder(folder: &Path, d_model: usize) {
    let config = json!({
        "model_type": "polyhead_bert", "vocab_size": 8, "d_model": d_model, "max_len": 2048, "head": "none", "labels": [],
        "encoder": { "n_layers": 6, "n_heads": 4, "d_ff": 4 * d_model }, "transform": "none", "special_tokens": true,
    });
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(1);
    save(folder, &config, &parameters, &SaveOptions::default()).unwrap();
    fs::write(folder.join("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ndog\n.\n").unwrap();
}

/// What the clients send by turns: texts of the greatest length, many texts, many ids, all states, full stops.
fn requests() -> Vec<(&'static str, Value)> {
    let words = "a dog ".repeat(200);
    vec![
        ("/embed", json!({ "inputs": "a ".repeat(8000), "truncate": true })),
        ("/v1/embeddings", json!({ "input": vec!["a dog . a dog"; 2000] })),
        ("/v1/embeddings", json!({ "input": vec![vec![5; 200]; 300] })),
        ("/embed_all", json!({ "inputs": vec![words.as_str(); 300] })),
        ("/embed", json!({ "inputs": vec![".".repeat(49_000); 10], "truncate": true })),
        ("/embed", json!({ "inputs": vec![words.as_str(); 300] })),
        (
            "/similarity",
            json!({ "inputs": { "source_sentence": words, "sentences": vec![words.as_str(); 100] } }),
        ),
        ("/predict", json!({ "inputs": vec![["a", "b"]; 2048] })),
    ]
}

/// Eight clients with large requests for vectors, of which some hang up.
pub(super) fn encoder_requests(setup: &Setup, d_model: usize) -> Finding {
    let folder = tempfile::tempdir().unwrap();
    encoder(folder.path(), d_model);
    let model = format!("encoder={}", folder.path().display());
    let mut victim = setup.start(&["--model", &model]);
    let requests = requests();
    let statuses: Mutex<BTreeMap<u16, usize>> = Mutex::default();
    let seen = beside(&victim, setup, setup.seconds, |is_over| {
        std::thread::scope(|scope| {
            for number in 1..=CLIENTS {
                let (client, requests, statuses) = (victim.client(number), &requests, &statuses);
                scope.spawn(move || {
                    let mut turn = usize::from(number);
                    while !is_over.load(Ordering::Relaxed) {
                        let (path, body) = &requests[turn % requests.len()];
                        turn += 1;
                        // A client that does not wait for its answer.
                        let answer = if turn % 3 == 0 {
                            client.post_and_leave(path, body).map(|()| 0)
                        } else {
                            client.post(path, body, "").map(|answer| answer.status)
                        };
                        *statuses.lock().unwrap().entry(answer.unwrap_or(1)).or_default() += 1;
                    }
                });
            }
        });
    });
    let statuses = statuses.into_inner().unwrap();
    let is_known = statuses.keys().all(|status| [0, 1, 200, 413, 424, 429, 503].contains(status));
    let text = format!("statuses {statuses:?} (0: hung up, 1: connection lost); {}", seen.text());
    Finding::new(
        "encoders: eight clients with large requests",
        &mut victim,
        is_known && is_served(&seen, setup),
        &text,
    )
}
