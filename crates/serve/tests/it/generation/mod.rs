//! Language models over HTTP: answers are those of the generator, in OpenAI's shape, whatever other clients ask for.

mod batching;
mod hostile;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::http::request::Parts;
use polyhead_engine::generate::{GenerateOptions, Generated};
use polyhead_engine::{Generator, LoadOptions};
use polyhead_serve::front::ErrorResponse;
use polyhead_serve::front::budget::MemoryBudget;
use polyhead_serve::server::routes::OpenGate;
use polyhead_serve::server::{
    Client, Entry, FilesOptions, Gate, ModelFolder, RequestLimits, Scheduler, SchedulerOptions, ServerState,
};
use serde_json::{Value, json};

use crate::calls::start;
use crate::client::{Answer, post, send};

/// The folder of a tiny model: gpt2 has a context of 64 tokens, llama of 96 and a chat template.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden").join(name)
}

fn generator(folder: &Path) -> Generator {
    Generator::load(folder, &LoadOptions::default()).unwrap()
}

/// The llama with a context of 100,000 tokens.
fn endless() -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder("llama")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    let config = to.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        config,
        text.replace("\"max_position_embeddings\": 96", "\"max_position_embeddings\": 100000"),
    )
    .unwrap();
    to
}

/// A gate for which the key of a request is the name of its client; `wrong` is refused.
pub(crate) struct NamedClients;

impl Gate for NamedClients {
    fn enter(&self, parts: &Parts) -> Result<Entry, ErrorResponse> {
        let mut entry = OpenGate.enter(parts)?;
        let header = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        match header.and_then(|value| value.strip_prefix("Bearer ")) {
            Some("wrong") => {
                Err(ErrorResponse::new(StatusCode::FORBIDDEN, "unknown API key", "send another"))
            }
            Some(name) => {
                entry.client = Client::Key(name.into());
                Ok(entry)
            }
            None => Ok(entry),
        }
    }

    fn admit(&self, entry: Entry, _: Option<&str>) -> Result<Client, ErrorResponse> {
        Ok(entry.client)
    }
}

/// A server of the models with these names and folders.
struct Running {
    state: Arc<ServerState>,
    port: u16,
}

impl Running {
    fn new(models: &[(&str, PathBuf)], limits: RequestLimits) -> Self {
        Self::within(models, limits, None)
    }

    /// The same with so many bytes for what waits.
    fn within(models: &[(&str, PathBuf)], limits: RequestLimits, memory: Option<usize>) -> Self {
        let models =
            models.iter().map(|(name, folder)| ModelFolder { name: (*name).into(), folder: folder.clone() });
        let options =
            SchedulerOptions { models: models.collect(), threads: 2, ..SchedulerOptions::default() };
        let scheduler = Arc::new(Scheduler::open(options).unwrap());
        let mut state = ServerState::new(scheduler, limits, FilesOptions::default());
        state.gate = Arc::new(NamedClients);
        if let Some(bytes) = memory {
            state.memory = Arc::new(MemoryBudget::new(bytes));
        }
        let state = Arc::new(state);
        Self { port: start(state.clone()), state }
    }

    fn tiny() -> Self {
        Self::new(&[("gpt2", folder("gpt2")), ("chat", folder("llama"))], RequestLimits::default())
    }

    fn complete(&self, body: &Value) -> Value {
        self.answered("/v1/completions", body)
    }

    fn chat(&self, body: &Value) -> Value {
        self.answered("/v1/chat/completions", body)
    }

    fn answered(&self, path: &str, body: &Value) -> Value {
        let answer = post(self.port, path, body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        answer.json()
    }

    /// Waits until nothing runs or waits, and all memory is free again.
    fn is_quiet_within(&self, patience: Duration) {
        let begin = Instant::now();
        loop {
            let gauges = self.state.scheduler.generation_gauges();
            let used = self.state.memory.used();
            if (gauges.running, gauges.waiting, used) == (0, 0, 0) {
                return;
            }
            assert!(begin.elapsed() < patience, "{gauges:?}, {used} bytes");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The request as the client of this name.
    fn send_as(&self, name: &str, path: &str, body: &Value) -> Answer {
        let headers = ["Content-Type: application/json", &format!("Authorization: Bearer {name}")];
        send(self.port, ["POST", path], &headers, &body.to_string())
    }
}

/// The texts of the choices.
fn texts(answer: &Value) -> Vec<String> {
    let text = |choice: &Value| {
        let text = choice.get("text").unwrap_or(&choice["message"]["content"]);
        text.as_str().unwrap().to_owned()
    };
    answer["choices"].as_array().unwrap().iter().map(text).collect()
}

/// The data of all events of a stream; the last is `[DONE]`.
fn events(body: &str) -> Vec<String> {
    body.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
}

/// The texts of a stream with so many choices.
fn streamed(body: &str, count: usize) -> Vec<String> {
    let mut texts = vec![String::new(); count];
    let mut events = events(body);
    assert_eq!(events.pop().unwrap(), "[DONE]");
    for event in events {
        let event: Value = serde_json::from_str(&event).unwrap();
        for choice in event["choices"].as_array().unwrap() {
            let text = choice.get("text").unwrap_or(&choice["delta"]["content"]);
            let index = choice["index"].as_u64().unwrap() as usize;
            texts[index] += text.as_str().unwrap_or_default();
        }
    }
    texts
}

fn options() -> GenerateOptions {
    GenerateOptions {
        max_new_tokens: Some(12),
        temperature: 0.9,
        top_p: 0.95,
        seed: 7,
        ..GenerateOptions::default()
    }
}

/// The fields of [`options`].
fn fields(more: &Value) -> Value {
    let mut body = json!({ "max_tokens": 12, "temperature": 0.9, "top_p": 0.95, "seed": 7 });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The generator's own texts.
fn directly(generator: &Generator, prompt: &[u32], options: &GenerateOptions) -> Vec<Generated> {
    generator.generate_ids(&[prompt.to_vec()], options).unwrap().remove(0)
}
