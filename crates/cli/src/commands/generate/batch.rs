//! Many prompts: generated together, printed in order as soon as each is done.

use std::collections::{HashMap, VecDeque};
use std::io::Write as _;

use anyhow::Result;
use polyhead_engine::Generator;
use polyhead_engine::generate::{GenerateOptions, Generated, Generation, SequenceId};
use serde_json::{Value, json};

use super::write_now;
use crate::line_progress::LineProgress;
use crate::report::{Misuse, agreeing, counted, note, writing_lines};

/// A prompt or a chat.
pub(super) struct Input {
    source: Source,
    /// File and line, for messages.
    place: Option<String>,
}

enum Source {
    Text(String),
    Chat(Vec<Value>),
}

/// Prompts of one model and one set of options.
pub(super) struct Batch<'g> {
    generator: &'g Generator,
    options: &'g GenerateOptions,
    generation: Generation<'g>,
    is_jsonl: bool,
    streams: bool,
}

/// The texts of a prompt.
struct Pending {
    shown: Shown,
    texts: Vec<Option<Generated>>,
}

/// A prompt as results show it.
enum Shown {
    Prompt(String),
    Chat { messages: Vec<Value>, prompt: String },
}

impl Input {
    pub(super) fn text(text: String, place: Option<String>) -> Self {
        Self { source: Source::Text(text), place }
    }

    pub(super) fn chat(messages: Vec<Value>, place: Option<String>) -> Self {
        Self { source: Source::Chat(messages), place }
    }
}

impl<'g> Batch<'g> {
    pub(super) fn new(
        generator: &'g Generator,
        options: &'g GenerateOptions,
        (is_jsonl, streams): (bool, bool),
    ) -> Self {
        Self { generator, options, generation: generator.generation(), is_jsonl, streams }
    }

    /// Prints the texts of all inputs, in order. Those before an input that is refused are printed.
    pub(super) fn write(&mut self, inputs: Vec<Input>, progress: &mut LineProgress) -> Result<()> {
        let mut refused = Ok(());
        let mut prompts = Vec::new();
        for input in inputs {
            match self.prompt(input) {
                Ok(prompt) => prompts.push(prompt),
                Err(error) => {
                    refused = Err(error);
                    break;
                }
            }
        }
        if self.streams {
            for (shown, ids) in prompts {
                self.stream(&shown, &ids)?;
            }
        } else if self.options.beam_size > 1 {
            for (shown, ids) in prompts {
                let texts = self.generator.generate_ids(&[ids], self.options)?.remove(0);
                self.print(&shown, texts, progress)?;
            }
        } else {
            self.write_sampled(prompts, progress)?;
        }
        progress.finish();
        refused
    }

    /// The tokens of an input.
    fn prompt(&self, input: Input) -> Result<(Shown, Vec<u32>)> {
        let place = input.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        let encoded = match &input.source {
            Source::Text(text) => self.generator.encode(text),
            Source::Chat(messages) => self.generator.encode_chat(messages),
        };
        let fitted = encoded.and_then(|ids| self.generator.fit(ids, self.options));
        let fitted = fitted.map_err(|error| {
            if error.is_misuse() {
                Misuse { message: format!("{place}{error}"), hint: error.hint() }.into()
            } else {
                anyhow::Error::from(error)
            }
        })?;
        if fitted.dropped > 0 {
            note(&format!(
                "note: {place}the oldest {} of the prompt {} dropped, so that it fits the context",
                counted(fitted.dropped as u64, "token"),
                agreeing(fitted.dropped as u64, ["was", "were"])
            ));
        }
        let shown = match input.source {
            Source::Text(text) => Shown::Prompt(text),
            Source::Chat(messages) => {
                Shown::Chat { prompt: self.generator.render_chat(&messages)?, messages }
            }
        };
        Ok((shown, fitted.ids))
    }

    /// Samples of all prompts, together.
    fn write_sampled(&mut self, prompts: Vec<(Shown, Vec<u32>)>, progress: &mut LineProgress) -> Result<()> {
        let mut places: HashMap<SequenceId, (usize, usize)> = HashMap::new();
        let mut pending = VecDeque::new();
        for (number, (shown, ids)) in prompts.into_iter().enumerate() {
            for sample in 0..self.options.n_samples {
                let sequence = self.generation.join(&ids, self.options, sample as u64)?;
                places.insert(sequence, (number, sample));
            }
            pending.push_back(Pending { shown, texts: vec![None; self.options.n_samples] });
        }
        let mut first = 0;
        while !self.generation.is_empty() {
            for token in self.generation.step()? {
                if let Some(text) = token.finished
                    && let Some((number, sample)) = places.remove(&token.sequence)
                {
                    pending[number - first].texts[sample] = Some(text);
                }
            }
            while pending.front().is_some_and(|prompt| prompt.texts.iter().all(Option::is_some)) {
                let Some(Pending { shown, texts }) = pending.pop_front() else { break };
                first += 1;
                self.print(&shown, texts.into_iter().flatten().collect(), progress)?;
            }
        }
        Ok(())
    }

    /// Prints a text token by token.
    fn stream(&mut self, shown: &Shown, ids: &[u32]) -> Result<()> {
        if let Shown::Prompt(prompt) = shown {
            write_now(prompt)?;
        }
        self.generation.join(ids, self.options, 0)?;
        while !self.generation.is_empty() {
            for token in self.generation.step()? {
                write_now(&token.text)?;
            }
        }
        write_now("\n")
    }

    /// Prints the texts of a prompt.
    fn print(&self, shown: &Shown, texts: Vec<Generated>, progress: &mut LineProgress) -> Result<()> {
        let tokens: usize = texts.iter().map(|text| text.ids.len()).sum();
        let mut lines = String::new();
        for (sample, found) in texts.into_iter().enumerate() {
            lines += &if self.is_jsonl { self.row(shown, sample, &found) } else { shown.with(&found.text) };
            lines.push('\n');
        }
        writing_lines(|| {
            let mut out = std::io::stdout().lock();
            out.write_all(lines.as_bytes())?;
            out.flush()
        })?;
        progress.add(1, tokens as u64);
        Ok(())
    }

    /// A text as a line of JSON.
    fn row(&self, shown: &Shown, sample: usize, found: &Generated) -> String {
        let Generated { text, ids, log_probability, finish_reason, prompt_tokens } = found;
        let prompt = match shown {
            Shown::Prompt(prompt) | Shown::Chat { prompt, .. } => prompt,
        };
        let mut row = json!({
            "prompt": prompt, "text": text, "ids": ids, "log_probability": log_probability,
            "finish_reason": finish_reason.name(), "prompt_tokens": prompt_tokens,
        });
        if let Shown::Chat { messages, .. } = shown {
            row["messages"] = messages.clone().into();
        }
        if self.options.n_samples > 1 {
            row["sample"] = sample.into();
        }
        row.to_string()
    }
}

impl Shown {
    /// A prompt with its text; of a chat the answer alone.
    fn with(&self, text: &str) -> String {
        match self {
            Self::Prompt(prompt) => format!("{prompt}{text}"),
            Self::Chat { .. } => text.to_owned(),
        }
    }
}
