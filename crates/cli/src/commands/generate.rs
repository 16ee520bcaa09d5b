//! `polyhead generate`: continues prompts with a language model, or chats with it.

mod batch;
mod chat;
mod sampling;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_engine::generate::GenerateOptions;
use polyhead_engine::{Generator, LoadOptions};
use polyhead_tensor::Device;
use polyhead_text::lines::Lines;
use serde_json::{Value, json};

use self::batch::{Batch, Input};
use self::sampling::SamplingOptions;
use crate::compute_dtype::{ComputeDtype, device_name};
use crate::input::{ChunkFill, Chunks, InputLine, STANDARD_INPUT, count_lines, shown};
use crate::line_progress::LineProgress;
use crate::model_folder::{report_loaded, resolve};
use crate::option_help::{DEVICE, DTYPE, THREADS};
use crate::output_format::LineFormat;
use crate::report::{Failure, Misuse, note, thread_pool};

const EXAMPLES: &str = "\
Examples:
  polyhead train recipes/shakespeare-dnn2.toml
  polyhead generate --model runs/shakespeare-dnn2/model 'ROMEO:'
  polyhead generate --model runs/shakespeare-dnn2/model --lines 8 \\
      --temperature 0.7 --max-new-tokens 400 'ROMEO:'
  polyhead generate --model gpt2 --temperature 0 'The meaning of life is'
  polyhead generate --model gpt2 --n 3 --top-p 0.9 --stop '.' 'Once upon a time'
  polyhead generate --model gpt2 --file prompts.txt --format jsonl > texts.jsonl
  polyhead generate --model llama-chat --chat --system 'Answer in one sentence.'
  polyhead generate --model llama-chat --messages chats.jsonl --format jsonl

Each prompt is printed with its continuation, which ends at the model's end token, at a --stop string, or after --max-new-tokens. One prompt on a terminal is printed as it is generated. The same prompt, options and seed give the same text, alone or among others. --format jsonl has the prompt, the text after it, its token ids, the natural logarithm of their probability, and why it ended: stop, length or end.

Settings of the model's generation_config.json are the defaults. --chat and --messages need a model with a chat template. In a chat, Ctrl-C stops an answer and Ctrl-D ends.

Language models are trained by polyhead train with task = \"language-model\" from a text file. In those, the end token is the end of a line, and --lines asks for more.";

/// Options of `polyhead generate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Generate {
    /// Texts to continue [default: the lines of standard input]
    #[arg(value_name = "PROMPT", conflicts_with_all = ["file", "messages"])]
    prompts: Vec<String>,
    /// Model folder or run folder of a language model, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Texts to continue, one per line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "messages")]
    file: Option<PathBuf>,
    /// Chats to answer, JSON lines: {"messages": [{"role": "user", "content": "…"}]}; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "chat")]
    messages: Option<PathBuf>,
    /// Chat: each prompt, or each line of standard input, is a turn
    #[arg(long, conflicts_with = "file")]
    chat: bool,
    /// The system message of chats; prompts become turns of the user
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Print text as it is generated, one prompt after the other [default: one prompt on a terminal]
    #[arg(long)]
    stream: bool,
    #[command(flatten)]
    sampling: SamplingOptions,
    #[command(flatten)]
    format: LineFormat,
    #[arg(long, value_name = "NAME", default_value = "cpu", help_heading = "Compute", help = DEVICE,
          value_parser = device_name)]
    device: String,
    #[arg(long, value_enum, default_value_t = ComputeDtype::F32, help_heading = "Compute", help = DTYPE)]
    dtype: ComputeDtype,
    #[arg(long, value_name = "N", help_heading = "Compute", help = THREADS)]
    threads: Option<usize>,
}

impl Generate {
    pub(crate) fn run(self) -> Result<()> {
        self.check()?;
        thread_pool(self.threads)?.install(|| {
            let start = Instant::now();
            let (device, dtype) = self.dtype.open(&self.device)?;
            let folder = resolve(&self.model)?;
            let generator = Generator::load(&folder, &LoadOptions { device, dtype })?;
            let device = generator.parameters().device();
            report_loaded(&folder, &device, self.dtype.name(), start);
            for found in generator.notes() {
                note(&format!("note: {found}"));
            }
            let mut options = self.sampling.over(generator.options());
            if self.chat || self.stream {
                // One text at a time, whatever the model's settings ask for.
                (options.n_samples, options.beam_size) = (1, 1);
            }
            options.check()?;
            if self.chat {
                return chat::run(&generator, &options, &self.prompts, self.system.as_deref());
            }
            self.write_all(&generator, &options, &device)
        })
    }

    /// Misuse of options that exclude each other.
    fn check(&self) -> Result<()> {
        let misuse =
            |message: &str, hint: &str| Err(Misuse { message: message.into(), hint: hint.into() }.into());
        if self.stream && self.format.is_jsonl() {
            return misuse(
                "--stream with --format jsonl, expected one of them",
                "a line of JSON is printed when its text is complete",
            );
        }
        if self.chat && self.format.is_jsonl() {
            return misuse(
                "--chat with --format jsonl, expected one of them",
                "--messages FILE --format jsonl answers chats as JSON lines",
            );
        }
        if (self.chat || self.stream) && self.sampling.wants_several() {
            return misuse(
                "--chat or --stream with --n or --beam, expected one text as it is generated",
                "leave out --n and --beam",
            );
        }
        Ok(())
    }

    /// Prints the continuation of every prompt.
    fn write_all(&self, generator: &Generator, options: &GenerateOptions, device: &Device) -> Result<()> {
        let is_single = options.n_samples == 1 && options.beam_size == 1 && !self.format.is_jsonl();
        let one = self.prompts.len() == 1 && is_single;
        let streams = self.stream || (one && std::io::stdout().is_terminal());
        let mut batch = Batch::new(generator, options, (self.format.is_jsonl(), streams));
        if !self.prompts.is_empty() {
            let inputs = self.prompts.iter().map(|prompt| self.input(prompt.clone(), None)).collect();
            return batch.write(inputs, &mut LineProgress::hidden());
        }
        if let Some(path) = &self.messages {
            let lines = Lines::read_all(path)?;
            let inputs = chats(&lines, &shown(path).display().to_string(), self.system.as_deref())?;
            return batch.write(inputs, &mut progress(Some(lines.len() as u64)));
        }
        if let Some(path) = self.file.as_ref().filter(|path| *path != std::path::Path::new("-")) {
            let lines = Lines::read_all(path)?;
            let name = path.display().to_string();
            let mut progress = progress(Some(lines.len() as u64));
            let place = |number: usize| Some(format!("{name}:{}", number + 1));
            let inputs = lines.into_iter().enumerate().map(|(number, line)| self.input(line, place(number)));
            return batch.write(inputs.collect(), &mut progress);
        }
        let (fill, mut line) = (ChunkFill::for_device(device), 0);
        let mut progress = progress(count_lines());
        for chunk in Chunks::of_standard_input(device.policy().texts, fill)? {
            let mut inputs = Vec::new();
            for text in chunk?.into_iter().map(InputLine::into_text) {
                line += 1;
                inputs.push(self.input(text, Some(format!("{STANDARD_INPUT}:{line}"))));
            }
            batch.write(inputs, &mut progress)?;
        }
        Ok(())
    }

    /// A prompt, or with a system message a turn of a chat.
    fn input(&self, prompt: String, place: Option<String>) -> Input {
        match &self.system {
            Some(system) => Input::chat(vec![message("system", system), message("user", &prompt)], place),
            None => Input::text(prompt, place),
        }
    }
}

/// A message of a chat.
fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

/// Progress, hidden if results are printed to the same terminal.
fn progress(total: Option<u64>) -> LineProgress {
    if std::io::stdout().is_terminal() { LineProgress::hidden() } else { LineProgress::new(total) }
}

/// The chats of JSON lines: lists of messages, or objects with `messages`.
fn chats(lines: &[String], name: &str, system: Option<&str>) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let place = format!("{name}:{}", number + 1);
        let wrong = |found: String| {
            Failure {
            message: format!("{place}: {found}, expected messages with role and content"),
            hint: "write a chat on each line, such as {\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}".into(),
        }
        };
        let value: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let listed = value.get("messages").unwrap_or(&value).as_array().cloned();
        let mut messages = listed.ok_or_else(|| wrong("no list of messages".into()))?;
        if messages.is_empty() {
            return Err(wrong("an empty chat".into()).into());
        }
        if messages.iter().any(|message| !message["role"].is_string() || message.get("content").is_none()) {
            return Err(wrong("a message without role or content".into()).into());
        }
        if let Some(system) = system.filter(|_| messages[0]["role"] != "system") {
            messages.insert(0, message("system", system));
        }
        inputs.push(Input::chat(messages, Some(place)));
    }
    Ok(inputs)
}

/// Writes a part of a text at once.
fn write_now(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
