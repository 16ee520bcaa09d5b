//! `polyhead serve`: a translation server.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_serve::front::listen::{ConnectionOptions, Drained};
use polyhead_serve::front::log::{self, Level, LogFormat};
use polyhead_serve::front::origin::Cors;
use polyhead_serve::server::{
    DeskOptions, FilesOptions, GateOptions, ModelFolder, RequestLimits, ServeOptions, Server,
};
use polyhead_translate::LoadOptions;

use crate::decode_options::{Dtype, positive};
use crate::default_model;
use crate::model_folder::model_name;
use crate::report::{Misuse, note, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead serve
  curl -d q='The cat ate the mouse.' -d source=en -d target=tr http://127.0.0.1:5000/translate
  polyhead serve --model opus-mt-en-tr --model news=runs/news/model --listen 0.0.0.0:5000 --keys keys.txt --require-key
  polyhead serve --max-memory 512M --per-minute 60 --cors https://shop.example

Clients of LibreTranslate can use it as it is. /docs describes all calls, / is the explorer, /metrics is for Prometheus. Only this machine
can reach it unless --listen says otherwise; put a proxy that speaks TLS before it then (deploy/README.md). SIGTERM and Ctrl-C let running
requests finish, SIGHUP reads models and keys again.";

/// Options of `polyhead serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Folder of a model, or NAME=DIR; several are loaded when they are asked for [default: the one that comes with the program]
    #[arg(short, long = "model", value_name = "DIR")]
    models: Vec<String>,
    /// Address and port to listen on; port 0 is any that is free
    #[arg(short, long, value_name = "ADDRESS", default_value = "127.0.0.1:5000")]
    listen: SocketAddr,
    /// Numbers to compute with: f32, or int8, which is smaller and faster and a little less exact. Folders of bytes stay so
    #[arg(long, value_enum, default_value_t = Numbers::F32, help_heading = "Speed")]
    dtype: Numbers,
    /// Threads that translate [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Speed")]
    threads: Option<usize>,
    /// Most source tokens translated together
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = positive, help_heading = "Speed")]
    batch_tokens: usize,
    /// How long a sentence waits for others to share a batch with while a thread is free, in milliseconds. While all are busy it
    /// waits for one anyway, so that more serves slow clients alone
    #[arg(long, value_name = "MS", default_value_t = 0.2, value_parser = milliseconds, help_heading = "Speed")]
    window: f64,
    /// Translations that are remembered, as 64M; 0 for none
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes, help_heading = "Speed")]
    cache: u64,
    /// Most memory of the program, as 512M or 2G; models are put away and requests refused before it is exceeded
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
    max_memory: Option<u64>,
    /// Sentences that may wait; beyond, requests are answered with 503
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = positive, help_heading = "Limits")]
    queue: usize,
    /// Seconds that a request may take
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Limits")]
    deadline: u64,
    /// Most characters of a request that carries no file
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = positive, help_heading = "Limits")]
    max_characters: usize,
    /// Most texts of a request
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = positive, help_heading = "Limits")]
    max_texts: usize,
    /// Most bytes of a file, as 8M
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = bytes, help_heading = "Limits")]
    max_file: u64,
    /// Most characters of a file's texts
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = positive, help_heading = "Limits")]
    max_file_characters: usize,
    /// Most connections at once [default: what the limit of open files allows, less 64]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Limits")]
    max_connections: Option<usize>,
    /// Requests of a client in a minute; a key may have its own number [default: any number]
    #[arg(long, value_name = "N", help_heading = "Access")]
    per_minute: Option<u32>,
    /// A file of API keys, as `polyhead keys add` writes it
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    keys: Option<PathBuf>,
    /// Translate nothing without a key; the explorer is not there then
    #[arg(long, requires = "keys", help_heading = "Access")]
    require_key: bool,
    /// Pages of others that may ask: none, * for all, or their origins, such as `https://shop.example`, with commas
    #[arg(long, value_name = "ORIGINS", default_value = "none", help_heading = "Access")]
    cors: Cors,
    /// A name that the server is called by. May be given several times [default: those of this machine where only it is listened to, else any]
    #[arg(long = "host", value_name = "NAME", help_heading = "Access")]
    hosts: Vec<String>,
    /// The address of a proxy whose X-Forwarded-For is believed. May be given several times
    #[arg(long = "trusted-proxy", value_name = "ADDRESS", help_heading = "Access")]
    trusted_proxies: Vec<IpAddr>,
    /// No explorer at /
    #[arg(long, help_heading = "Access")]
    no_explorer: bool,
    /// How log lines look, which go to standard error
    #[arg(long, value_enum, default_value_t = Log::Text, help_heading = "Log")]
    log: Log,
    /// What is logged: error, warn, info or debug. Texts are not logged, but for what a thread says that breaks down, by debug;
    /// addresses by debug alone
    #[arg(long, value_name = "LEVEL", default_value = "info", help_heading = "Log")]
    log_level: Level,
    /// Seconds that running requests may take when the server ends
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=86_400), help_heading = "Limits")]
    drain: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Numbers {
    F32,
    Int8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Log {
    Text,
    Json,
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        let options = self.options()?;
        log::set_up(
            match self.log {
                Log::Text => LogFormat::Text,
                Log::Json => LogFormat::Json,
            },
            self.log_level,
        );
        let server = Server::open(options)?;
        for model in server.desk().models() {
            let directions: Vec<String> =
                model.directions.iter().map(|[from, to]| format!("{from}-{to}")).collect();
            note(&format!("model {}: {}", model.name, directions.join(" ")));
        }
        print_text(&format!("http://{}/\n", server.address()))?;
        note("Ctrl-C ends it.");
        let Drained { cut, .. } = server.run();
        if cut > 0 {
            note(&format!("note: {cut} connections were cut in the middle of a request"));
        }
        Ok(())
    }

    fn options(&self) -> Result<ServeOptions> {
        let (_, precision) = match self.dtype {
            Numbers::F32 => Dtype::F32.open("cpu")?,
            Numbers::Int8 => Dtype::Int8.open("cpu")?,
        };
        let seconds = Duration::from_secs;
        let limits = RequestLimits {
            // A character may be written as six bytes, as \u00e9 is.
            body: (6 * self.max_characters + (64 << 10)).max(RequestLimits::default().body),
            characters: self.max_characters,
            file_characters: self.max_file_characters,
            texts: self.max_texts,
            file: self.max_file as usize,
            deadline: seconds(self.deadline),
            ..RequestLimits::default()
        };
        Ok(ServeOptions {
            listen: self.listen,
            desk: DeskOptions {
                models: self.models()?,
                load: LoadOptions { precision, ..LoadOptions::default() },
                threads: self.threads.unwrap_or_else(rayon::current_num_threads),
                waiting: self.queue,
                batch_tokens: self.batch_tokens,
                window: Duration::from_secs_f64(self.window / 1e3),
                cache_bytes: self.cache as usize,
                max_memory: self.max_memory,
            },
            limits,
            files: FilesOptions::default(),
            gate: GateOptions {
                keys: self.keys.clone(),
                are_required: self.require_key,
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

    /// The models as they were named, or the one that comes with the program.
    fn models(&self) -> Result<Vec<ModelFolder>> {
        if self.models.is_empty() {
            let folder = default_model::or(None)?;
            return Ok(vec![ModelFolder { name: model_name(&folder), folder }]);
        }
        let named = self.models.iter().map(|model| {
            // A folder may have such a sign in its own name.
            let parts = model.split_once('=').filter(|_| !Path::new(model).exists());
            let (name, folder) = parts.map_or((None, model.as_str()), |(name, folder)| (Some(name), folder));
            let folder = default_model::or(Some(Path::new(folder)))?;
            if name.is_some_and(str::is_empty) {
                let message = format!("--model {model:?} has no name, expected NAME=DIR");
                return Err(Misuse { message, hint: "leave out the = as well".into() }.into());
            }
            Ok(ModelFolder { name: name.map_or_else(|| model_name(&folder), str::to_owned), folder })
        });
        named.collect()
    }
}

/// A time of at most a minute.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(time) if (0.0..=60_000.0).contains(&time) => Ok(time),
        _ => Err("expected milliseconds from 0 to 60000".into()),
    }
}

/// A number of bytes, such as 512M or 2G.
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
