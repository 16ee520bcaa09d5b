//! Speech recognisers and image classifiers over HTTP: answers are those of the engine, whatever other clients ask for.

mod explorer;
mod hostile;
mod images;
mod speech;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polyhead_engine::image::{Filter, ImageOptions, PREPROCESSOR, Picture, Preprocessor};
use polyhead_engine::speech::wav;
use polyhead_engine::{ImageClassifier, LoadOptions, SpeechEngine};
use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::{Model, ModelConfig};
use polyhead_serve::front::budget::MemoryBudget;
use polyhead_serve::server::{
    FilesOptions, ModelFolder, RequestLimits, Scheduler, SchedulerOptions, ServerState,
};
use polyhead_tensor::Parameters;
use serde_json::{Value, json};

use crate::calls::start;
use crate::client::{Answer, send_bytes};
use crate::generation::NamedClients;

const RATE: u32 = 8_000;

/// Saves a model with random weights into `folder/name`; returns its path.
fn model(folder: &Path, name: &str, config: Value) -> PathBuf {
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(name.len() as u64);
    let own = folder.join(name);
    save(&own, &config, &parameters, &SaveOptions::default()).unwrap();
    own
}

/// A recogniser whose windows are a second; its token i is the word `i`. With `languages`, it pads its windows, and writes
/// timestamps, as Whisper does.
fn speech_model(folder: &Path, name: &str, languages: bool) -> PathBuf {
    const WORDS: u32 = 40;
    // Two languages, two tasks, and no timestamps, then 51 timestamps.
    let (start, first) = (WORDS + 2, WORDS + 3);
    let own = model(
        folder,
        name,
        json!({
            "model_type": "polyhead_speech", "vocab_size": WORDS + 60, "d_model": 16,
            "encoder": { "n_layers": 2, "n_heads": 2, "d_ff": 32 }, "decoder": { "n_layers": 2, "n_heads": 2, "d_ff": 32 },
            "sample_rate": RATE, "n_mels": 8, "max_frames": 100, "pad_sound": languages, "max_len": 24,
            "pad_id": WORDS, "end_id": WORDS + 1, "start_id": start,
        }),
    );
    let vocabulary: serde_json::Map<String, Value> =
        (0..WORDS + 60).map(|id| (format!("Ġ{id}"), json!(id))).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    });
    fs::write(own.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    if languages {
        let settings = json!({
            "lang_to_id": { "<|en|>": first, "<|de|>": first + 1 }, "task_to_id": { "transcribe": first + 2, "translate": first + 3 },
            "no_timestamps_token_id": first + 4, "eos_token_id": WORDS + 1,
            "suppress_tokens": [WORDS, start, first, first + 1, first + 2, first + 3, first + 4],
        });
        fs::write(own.join("generation_config.json"), settings.to_string()).unwrap();
    }
    own
}

/// A classifier of images of 12×12 pixels.
fn image_model(folder: &Path, name: &str) -> PathBuf {
    let own = model(
        folder,
        name,
        json!({
            "model_type": "polyhead_vit", "d_model": 16, "encoder": { "n_layers": 2, "n_heads": 2, "d_ff": 32 },
            "patch_size": 4, "image_size": [12, 12], "channels": 3, "labels": ["cat", "dog", "bird", "<b>fish</b>", "ant", "bee"],
        }),
    );
    let steps = Preprocessor::new([12, 12], Filter::Bilinear, [vec![0.5; 3], vec![0.25; 3]]);
    fs::write(own.join(PREPROCESSOR), steps.to_json()).unwrap();
    own
}

/// A sound: a tone that rises, of so many milliseconds.
fn tone(milliseconds: usize, rate: u32) -> Vec<f32> {
    let sample = |at: usize| {
        let seconds = at as f64 / f64::from(rate);
        let phase = (seconds * (300.0 + 200.0 * seconds)).fract();
        (4.0 * (phase - 0.5).abs() - 1.0) as f32 * 0.5
    };
    (0..milliseconds * rate as usize / 1000).map(sample).collect()
}

fn sound(milliseconds: usize) -> Vec<u8> {
    wav::encode(&tone(milliseconds, RATE), RATE)
}

fn picture(kind: usize) -> Picture {
    let size = [20 + kind, 31];
    let data = (0..size[0] * size[1] * 3).map(|at| ((at * (7 + kind)) % 251) as u8).collect();
    Picture::new(size, 3, data)
}

/// A multipart form of fields and a file.
fn form(fields: &[(&str, &str)], file: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.extend(
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes(),
        );
    }
    body.extend(b"--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n");
    body.extend(file);
    body.extend(b"\r\n--XX--\r\n");
    body
}

const FORM: &str = "Content-Type: multipart/form-data; boundary=XX";

/// A server of models with these names and folders.
struct Running {
    state: Arc<ServerState>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Running {
    /// `plain` and `whisper` recognise speech, `vit` classifies images.
    fn all() -> Self {
        Self::with(RequestLimits::default(), SchedulerOptions { threads: 2, ..SchedulerOptions::default() })
    }

    fn with(limits: RequestLimits, options: SchedulerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let models = [
            ("plain", speech_model(path, "plain", false)),
            ("whisper", speech_model(path, "whisper", true)),
            ("vit", image_model(path, "vit")),
        ];
        let models = models.map(|(name, folder)| ModelFolder { name: name.into(), folder });
        let options = SchedulerOptions { models: models.to_vec(), ..options };
        let scheduler = Arc::new(Scheduler::open(options).unwrap());
        let mut state = ServerState::new(scheduler, limits, FilesOptions::default());
        state.gate = Arc::new(NamedClients);
        state.memory = Arc::new(MemoryBudget::new(512 << 20));
        let state = Arc::new(state);
        Self { port: start(state.clone()), state, folder }
    }

    fn speech(&self, name: &str) -> SpeechEngine {
        SpeechEngine::load(self.folder.path().join(name), &LoadOptions::default()).unwrap()
    }

    fn classifier(&self) -> ImageClassifier {
        let options = (LoadOptions::default(), ImageOptions::default());
        ImageClassifier::load(self.folder.path().join("vit"), &options.0, options.1).unwrap()
    }

    /// Transcribes as the client of this name.
    fn transcribe_as(&self, client: &str, fields: &[(&str, &str)], file: &[u8]) -> Answer {
        let key = format!("Authorization: Bearer {client}");
        let call = ["POST", "/v1/audio/transcriptions"];
        send_bytes(self.port, call, &[FORM, &key], &form(fields, file))
    }

    fn transcribe(&self, fields: &[(&str, &str)], file: &[u8]) -> Answer {
        self.transcribe_as("somebody", fields, file)
    }

    fn classify(&self, query: &str, file: &[u8]) -> Answer {
        let path = format!("/classify{query}");
        send_bytes(self.port, ["POST", &path], &["Content-Type: image/png"], file)
    }

    /// Waits until nothing runs or waits, and all memory is free again.
    fn is_quiet_within(&self, patience: Duration) {
        let begin = Instant::now();
        loop {
            let (gauges, used) = (self.state.scheduler.gauges(), self.state.memory.used());
            if (gauges.busy, gauges.waiting, used) == (0, 0, 0) {
                return;
            }
            assert!(begin.elapsed() < patience, "{gauges:?}, {used} bytes");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
