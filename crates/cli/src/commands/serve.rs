//! `polyhead serve`: a server of translators, language models and encoders.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_engine::speech::MOST_SECONDS;
use polyhead_serve::front::listen::{ConnectionOptions, Drained};
use polyhead_serve::front::log::{self, Level, LogFormat};
use polyhead_serve::front::origin::Cors;
use polyhead_serve::server::{
    AdmissionOptions, EncoderEntry, FilesOptions, ImageEntry, ModelFolder, RequestLimits, SchedulerOptions,
    ServeOptions, Server, SpeechEntry,
};
use polyhead_translate::LoadOptions;

use crate::compute_dtype::ComputeDtype;
use crate::decode_options::positive;
use crate::default_model;
use crate::model_folder::model_name;
use crate::option_help::{BATCH_TOKENS, DTYPE, THREADS};
use crate::report::{Misuse, Verbosity, agreeing, counted, note, print_text, verbosity};

const EXAMPLES: &str = "\
Examples:
  polyhead serve
  curl -d q='The cat' -d source=en -d target=tr http://127.0.0.1:5000/translate
  polyhead serve -m opus-mt-en-tr -m news=runs/news/model \\
      --listen 0.0.0.0:5000 --keys keys.txt --require-key
  polyhead serve --max-memory 512M --per-minute 60 --cors https://shop.example
  polyhead serve --model gpt2 --model chat=llama-chat --deadline 300
  curl -H 'content-type: application/json' localhost:5000/v1/completions \\
      -d '{\"model\": \"gpt2\", \"prompt\": \"Once upon a time\", \"max_tokens\": 40}'
  polyhead serve --model all-MiniLM-L6-v2 --model ms-marco-MiniLM
  curl -H 'content-type: application/json' http://127.0.0.1:5000/v1/embeddings \\
      -d '{\"model\": \"all-MiniLM-L6-v2\", \"input\": [\"A cat.\", \"A dog.\"]}'
  polyhead serve --model whisper-tiny --model deit-tiny
  curl -F file=@talk.wav http://127.0.0.1:5000/v1/audio/transcriptions
  curl -H 'content-type: image/jpeg' --data-binary @cat.jpg \\
      'http://127.0.0.1:5000/classify?top_k=3'

Translators have the API of LibreTranslate, language models that of OpenAI (/v1/completions, /v1/chat/completions), encoders those of OpenAI (/v1/embeddings) and of text-embeddings-inference (/embed, /rerank, /predict), speech recognisers that of OpenAI (/v1/audio/transcriptions), image classifiers that of Hugging Face's inference API (/classify). /docs documents all endpoints, / is the explorer, /metrics is for Prometheus. By default only this machine can reach the server; for others, set --listen and put a reverse proxy with TLS in front (deploy/README.md). SIGTERM and Ctrl-C let running requests finish; SIGHUP reloads models and keys.

--quiet sets the log level to warn, --verbose to debug; --log-level takes precedence.";

/// Options of `polyhead serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Model folder, run folder or installed model, also as NAME=DIR; repeatable, loaded on first use [default: the default model]
    #[arg(short, long = "model", value_name = "DIR")]
    models: Vec<String>,
    /// Address and port to listen on; port 0 chooses a free one
    #[arg(value_parser = address, short, long, value_name = "ADDRESS", default_value = "127.0.0.1:5000")]
    listen: SocketAddr,
    #[arg(long, value_parser = ComputeDtype::CPU, value_name = "DTYPE", default_value = "f32", help_heading = "Compute",
          help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = positive, help_heading = "Compute",
          help = BATCH_TOKENS)]
    batch_tokens: usize,
    /// Milliseconds that a sentence or a text waits for others to join its batch while a thread is free
    #[arg(long, value_name = "MS", default_value_t = 0.2, value_parser = milliseconds, help_heading = "Compute")]
    window: f64,
    /// Size of the translation cache, and of that of prompts, such as 64M; 0 for none
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes, help_heading = "Compute")]
    cache: u64,
    /// Memory limit, such as 512M or 2G: models are unloaded, then requests refused, before it is exceeded
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
    max_memory: Option<u64>,
    /// Maximum number of queued sentences or texts; beyond it, requests are answered with 503
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = positive, help_heading = "Limits")]
    queue: usize,
    /// Timeout of a request, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Limits")]
    deadline: u64,
    /// Maximum number of characters in a request without a file
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = positive, help_heading = "Limits")]
    max_characters: usize,
    /// Maximum number of texts in a request
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = positive, help_heading = "Limits")]
    max_texts: usize,
    /// Maximum number of texts in a request to an encoder
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = positive, help_heading = "Limits")]
    max_inputs: usize,
    /// Maximum number of characters in a request to an encoder; each text has at most --max-characters
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = positive, help_heading = "Limits")]
    max_input_characters: usize,
    /// Maximum size of a file, such as 8M
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = bytes, help_heading = "Limits")]
    max_file: u64,
    /// Maximum number of characters in the texts of a file
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = positive, help_heading = "Limits")]
    max_file_characters: usize,
    /// Maximum size of a request with a sound, such as 25M
    #[arg(long, value_name = "BYTES", default_value = "25M", value_parser = bytes, help_heading = "Limits")]
    max_sound: u64,
    /// Longest sound in seconds
    #[arg(long, value_name = "S", default_value_t = MOST_SECONDS as u64, value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Limits")]
    max_seconds: u64,
    /// Maximum number of pixels of an image in millions
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000), help_heading = "Limits")]
    max_megapixels: u64,
    /// Maximum number of tokens that a language model generates for a text
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = positive, help_heading = "Limits")]
    max_new_tokens: usize,
    /// Maximum number of open connections [default: the limit of open files, less 64]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Limits")]
    max_connections: Option<usize>,
    /// Seconds to wait for running requests when the server stops
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86_400), help_heading = "Limits")]
    drain: u64,
    /// Maximum number of requests per minute and client; an API key may have its own limit [default: no limit]
    #[arg(long, value_name = "N", help_heading = "Access")]
    per_minute: Option<u32>,
    /// API key file, written by `polyhead keys add`
    #[arg(long, value_name = "KEYS", help_heading = "Access")]
    keys: Option<PathBuf>,
    /// Require an API key; also disables the explorer
    #[arg(long, requires = "keys", help_heading = "Access")]
    require_key: bool,
    /// Allowed CORS origins: none, * for all, or a comma-separated list such as `https://shop.example`
    #[arg(long, value_name = "ORIGINS", default_value = "none", help_heading = "Access")]
    cors: Cors,
    /// Host header to accept; repeatable [default: this machine's names if only it can connect, else any]
    #[arg(long = "host", value_name = "NAME", help_heading = "Access")]
    hosts: Vec<String>,
    /// Address of a proxy whose X-Forwarded-For header is trusted; repeatable
    #[arg(long = "trusted-proxy", value_name = "ADDRESS", help_heading = "Access")]
    trusted_proxies: Vec<IpAddr>,
    /// Disable the explorer at /
    #[arg(long, help_heading = "Access")]
    no_explorer: bool,
    /// Format of log lines, which go to standard error
    #[arg(long, value_enum, default_value_t = LogFormatName::Text, help_heading = "Log")]
    log: LogFormatName,
    /// Log level: error, warn, info or debug; debug includes client addresses and panic messages [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "Log")]
    log_level: Option<Level>,
}

/// `--log`: the format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormatName {
    Text,
    Json,
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        let options = self.options()?;
        log::set_up(
            match self.log {
                LogFormatName::Text => LogFormat::Text,
                LogFormatName::Json => LogFormat::Json,
            },
            self.log_level.unwrap_or(match verbosity() {
                Verbosity::Quiet => Level::WARN,
                Verbosity::Normal => Level::INFO,
                Verbosity::Verbose => Level::DEBUG,
            }),
        );
        let server = Server::open(options)?;
        for model in server.scheduler().models() {
            let directions: Vec<String> =
                model.directions.iter().map(|[from, to]| format!("{from}-{to}")).collect();
            note(&format!("model {}: {}", model.name, directions.join(" ")));
        }
        for model in server.scheduler().language_models() {
            let context =
                model.context.map_or_else(String::new, |tokens| format!(", context of {tokens} tokens"));
            note(&format!("model {}: language model{context}", model.name));
        }
        for EncoderEntry { name, summary, .. } in server.scheduler().encoders() {
            let kind = summary.described();
            note(&format!("model {name}: {kind}, texts of at most {} tokens", summary.max_len));
        }
        for SpeechEntry { name, summary, .. } in server.scheduler().speech_models() {
            let seconds = summary.max_frames as f64 / 100.0;
            let languages = match summary.languages.len() {
                0 => String::new(),
                count => format!(", {}", counted(count as u64, "language")),
            };
            note(&format!("model {name}: speech recogniser, windows of {seconds} s{languages}"));
        }
        for ImageEntry { name, summary, .. } in server.scheduler().image_models() {
            let ([height, width], classes) = (summary.size, summary.labels.len() as u64);
            note(&format!("model {name}: image classifier, {width}×{height} pixels, {classes} classes"));
        }
        print_text(&format!("http://{}/\n", server.address()))?;
        note("press Ctrl-C to stop");
        let Drained { cut, .. } = server.run();
        if cut > 0 {
            note(&format!(
                "note: {} {} closed during a request",
                counted(cut as u64, "connection"),
                agreeing(cut as u64, ["was", "were"])
            ));
        }
        Ok(())
    }

    fn options(&self) -> Result<ServeOptions> {
        let (_, dtype) = self.dtype.open("cpu")?;
        let seconds = Duration::from_secs;
        let limits = RequestLimits {
            // JSON may escape a character as six bytes, such as \u00e9.
            body: (6 * self.max_characters + (64 << 10)).max(RequestLimits::default().body),
            characters: self.max_characters,
            file_characters: self.max_file_characters,
            texts: self.max_texts,
            input_body: (6 * self.max_input_characters + (64 << 10)).max(RequestLimits::default().input_body),
            inputs: self.max_inputs,
            input_characters: self.max_input_characters,
            file: self.max_file as usize,
            sound: self.max_sound as usize,
            sound_seconds: self.max_seconds as f64,
            megapixels: self.max_megapixels as f64,
            new_tokens: self.max_new_tokens,
            deadline: seconds(self.deadline),
            ..RequestLimits::default()
        };
        Ok(ServeOptions {
            listen: self.listen,
            scheduler: SchedulerOptions {
                models: self.models()?,
                load: LoadOptions { dtype, ..LoadOptions::default() },
                threads: self.threads.unwrap_or_else(rayon::current_num_threads),
                waiting: self.queue,
                batch_tokens: self.batch_tokens,
                window: Duration::from_secs_f64(self.window / 1e3),
                cache_bytes: self.cache as usize,
                max_memory: self.max_memory,
            },
            limits,
            files: FilesOptions::default(),
            admission: AdmissionOptions {
                keys: self.keys.clone(),
                keys_required: self.require_key,
                per_minute: self.per_minute,
                trusted_proxies: self.trusted_proxies.clone(),
            },
            hosts: self.hosts.clone(),
            cors: self.cors.clone(),
            connections: ConnectionOptions {
                most: self.max_connections,
                drain: seconds(self.drain),
                ..ConnectionOptions::default()
            },
            has_explorer: !self.no_explorer,
        })
    }

    /// The models of the command line, or the bundled one.
    fn models(&self) -> Result<Vec<ModelFolder>> {
        if self.models.is_empty() {
            let folder = default_model::or(None)?;
            return Ok(vec![ModelFolder { name: model_name(&folder), folder }]);
        }
        let named = self.models.iter().map(|model| {
            // A folder may have an equals sign in its name.
            let parts = model.split_once('=').filter(|_| !Path::new(model).exists());
            let (name, folder) = parts.map_or((None, model.as_str()), |(name, folder)| (Some(name), folder));
            let given = Path::new(folder);
            let folder = default_model::or(Some(given))?;
            if name.is_some_and(str::is_empty) {
                let message = format!("--model {model:?} has no name, expected NAME=DIR or DIR");
                return Err(Misuse { message, hint: "without a name, leave out the =".into() }.into());
            }
            // Of a run, the name of its folder.
            let own_name = || if given.exists() { model_name(given) } else { model_name(&folder) };
            Ok(ModelFolder { name: name.map_or_else(own_name, str::to_owned), folder })
        });
        named.collect()
    }
}

/// Parses a time of at most a minute.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if (0.0..=60_000.0).contains(&time) => Ok(time),
        _ => Err("expected milliseconds from 0 to 60000".into()),
    }
}

/// Parses a number of bytes, such as 512M or 2G.
fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 1 << 10),
        Some(number) if text.ends_with('M') => (number, 1 << 20),
        Some(number) => (number, 1 << 30),
        None => (text, 1),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a number of bytes, such as 512M or 2G".into())
}

/// Parses the address of `--listen`.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected ADDRESS:PORT, such as 0.0.0.0:5000".into())
}
