//! Encoders over HTTP: numbers are those of the engine to the bit, in OpenAI's shape and in that of text-embeddings-inference.

mod batching;
mod hostile;
mod openai;
mod tei;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polyhead_engine::{LoadOptions, LongTexts, TextEncoder};
use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::{Model, ModelConfig};
use polyhead_serve::front::budget::MemoryBudget;
use polyhead_serve::server::{
    FilesOptions, ModelFolder, RequestLimits, Scheduler, SchedulerOptions, ServerState,
};
use polyhead_tensor::Parameters;
use serde_json::{Value, json};

use crate::calls::start;
use crate::client::{Answer, post, send};
use crate::generation::NamedClients;

const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\ndog\ncat\n##s\nbarks\n.\nriver\n";
const TEXTS: [&str; 6] = ["a dog barks.", "dogs", "", "a river", "a cat . a dog . a river", "zebra barks"];

/// The sizes of a small model.
#[derive(Clone, Copy)]
struct Sizes {
    d_model: usize,
    n_layers: usize,
    max_len: usize,
}

const SMALL: Sizes = Sizes { d_model: 8, n_layers: 2, max_len: 16 };

/// Writes an encoder with this head into `folder/name`; returns its path.
fn model(folder: &Path, (name, head): (&str, &str), labels: &[&str], sizes: Sizes) -> PathBuf {
    let Sizes { d_model, n_layers, max_len } = sizes;
    let config = json!({
        "model_type": "polyhead_bert", "vocab_size": 12, "d_model": d_model,
        "encoder": { "n_layers": n_layers, "n_heads": 2, "d_ff": 2 * d_model }, "head": head, "labels": labels,
        "transform": if head == "classes" { "dense" } else { "none" }, "special_tokens": true, "max_len": max_len,
        "token_types": 2,
    });
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(name.len() as u64);
    let own = folder.join(name);
    save(&own, &config, &parameters, &SaveOptions::default()).unwrap();
    fs::write(own.join("vocab.txt"), VOCABULARY).unwrap();
    own
}

/// Writes a folder of sentence-transformers: the mean, normalised, with prompts.
fn sentence_model(folder: &Path) -> PathBuf {
    let own = model(folder, ("sentence", "none"), &[], SMALL);
    let module = |index: usize, path: &str, kind: &str| json!({ "idx": index, "name": index.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}") });
    let modules = json!([
        module(0, "", "Transformer"),
        module(1, "1_Pooling", "Pooling"),
        module(2, "2_Normalize", "Normalize")
    ]);
    fs::create_dir(own.join("1_Pooling")).unwrap();
    for (name, content) in [
        ("modules.json", modules),
        ("1_Pooling/config.json", json!({ "pooling_mode_mean_tokens": true })),
        ("config_sentence_transformers.json", json!({ "prompts": { "query": "a dog ", "none": "" } })),
    ] {
        fs::write(own.join(name), content.to_string()).unwrap();
    }
    own
}

/// A server of the models with these names and folders.
struct Running {
    state: Arc<ServerState>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Running {
    /// `sentence`, `plain`, `reranker`, `classifier` and `tagger`.
    fn all() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let models = vec![
            ("sentence", sentence_model(path)),
            ("plain", model(path, ("plain", "none"), &[], SMALL)),
            ("reranker", model(path, ("reranker", "classes"), &["score"], SMALL)),
            ("classifier", model(path, ("classifier", "classes"), &["no", "yes", "perhaps"], SMALL)),
            ("tagger", model(path, ("tagger", "token_classes"), &["B-X", "I-X"], SMALL)),
        ];
        Self::with(folder, models, RequestLimits::default())
    }

    /// A model that is large enough to work on a request for seconds.
    fn slow(limits: RequestLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sizes = Sizes { d_model: 64, n_layers: 4, max_len: 512 };
        let models = vec![("slow", model(folder.path(), ("slow", "none"), &[], sizes))];
        Self::with(folder, models, limits)
    }

    fn with(folder: tempfile::TempDir, models: Vec<(&str, PathBuf)>, limits: RequestLimits) -> Self {
        let models = models.into_iter().map(|(name, folder)| ModelFolder { name: name.into(), folder });
        let options =
            SchedulerOptions { models: models.collect(), threads: 2, ..SchedulerOptions::default() };
        let scheduler = Arc::new(Scheduler::open(options).unwrap());
        let mut state = ServerState::new(scheduler, limits, FilesOptions::default());
        state.gate = Arc::new(NamedClients);
        state.memory = Arc::new(MemoryBudget::new(512 << 20));
        let state = Arc::new(state);
        Self { port: start(state.clone()), state, folder }
    }

    /// The model of this name, as the commands load it.
    fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn encoder(&self, name: &str) -> TextEncoder {
        TextEncoder::load(self.folder(name), &LoadOptions::default()).unwrap()
    }

    fn answered(&self, path: &str, body: &Value) -> Value {
        let answer = post(self.port, path, body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        answer.json()
    }

    /// The request as the client of this name.
    fn send_as(&self, name: &str, path: &str, body: &Value) -> Answer {
        let headers = ["Content-Type: application/json", &format!("Authorization: Bearer {name}")];
        send(self.port, ["POST", path], &headers, &body.to_string())
    }

    /// Waits until nothing runs or waits, and all memory is free again.
    fn is_quiet_within(&self, patience: Duration) {
        let begin = Instant::now();
        loop {
            let gauges = self.state.scheduler.gauges();
            let used = self.state.memory.used();
            if (gauges.busy, gauges.waiting, used) == (0, 0, 0) {
                return;
            }
            assert!(begin.elapsed() < patience, "{gauges:?}, {used} bytes");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The vectors of `polyhead embed`.
fn vectors(encoder: &TextEncoder, texts: &[&str]) -> Vec<Vec<f32>> {
    let found = encoder.embed(texts, LongTexts::Truncate).unwrap();
    found.into_iter().map(|found| found.unwrap().vector).collect()
}

fn floats(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn rows(value: &Value) -> Vec<Vec<f32>> {
    value.as_array().unwrap().iter().map(floats).collect()
}
