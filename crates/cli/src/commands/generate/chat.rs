//! A chat: turns from the terminal or a pipe, answers token by token. Ctrl-C stops an answer, Ctrl-D ends the chat.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use polyhead_engine::generate::{GenerateOptions, Generation, Overflow, Reuse};
use polyhead_engine::{Error, Generator};
use serde_json::Value;

use super::{message, write_now};
use crate::report::{agreeing, counted, note, stop_answer_when_interrupted};

/// True if an interrupt ends the program: between answers, and after the first one in an answer.
static STOP: AtomicBool = AtomicBool::new(true);

/// Answers `turns`, or those of standard input.
pub(super) fn run(
    generator: &Generator,
    options: &GenerateOptions,
    turns: &[String],
    system: Option<&str>,
) -> Result<()> {
    stop_answer_when_interrupted(&STOP);
    let options = GenerateOptions { reuse: Reuse::Text, ..options.clone() };
    let mut chat = Chat {
        generator,
        options: &options,
        generation: generator.generation(),
        messages: system.map(|system| message("system", system)).into_iter().collect(),
        has_system: system.is_some(),
    };
    // A model without a template is refused before the first turn, and so is a system message that the template refuses.
    chat.check()?;
    if !turns.is_empty() {
        return turns.iter().try_for_each(|turn| chat.answer(turn));
    }
    let is_typed = std::io::stdin().is_terminal();
    let mut lines = std::io::stdin().lock();
    loop {
        if is_typed {
            // The mark is not part of the results.
            let _ = write!(std::io::stderr(), "> ");
        }
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let turn = String::from_utf8_lossy(&line);
        let turn = turn.trim();
        if turn.is_empty() {
            continue;
        }
        match chat.answer(turn) {
            // At a terminal the chat goes on after a turn that is refused.
            Err(error) if is_typed && error.downcast_ref::<Error>().is_some_and(Error::is_misuse) => {
                let hint = error.downcast_ref::<Error>().map(Error::hint).unwrap_or_default();
                note(&format!("error: {error}\nhint: {hint}"));
            }
            other => other?,
        }
    }
}

struct Chat<'g> {
    generator: &'g Generator,
    options: &'g GenerateOptions,
    generation: Generation<'g>,
    messages: Vec<Value>,
    has_system: bool,
}

impl Chat<'_> {
    /// An error if the model cannot chat.
    fn check(&self) -> Result<()> {
        let mut messages = self.messages.clone();
        messages.push(message("user", "Hello"));
        self.generator.encode_chat(&messages)?;
        Ok(())
    }

    /// Prints the answer to a turn and keeps both; a turn that is refused is forgotten.
    fn answer(&mut self, turn: &str) -> Result<()> {
        self.messages.push(message("user", turn));
        let ids = match self.prompt() {
            Ok(ids) => ids,
            Err(error) => {
                self.messages.pop();
                return Err(error);
            }
        };
        STOP.store(false, Ordering::Relaxed);
        let sequence = self.generation.join(&ids, self.options, 0)?;
        let mut answer = String::new();
        while !self.generation.is_empty() {
            for token in self.generation.step()? {
                write_now(&token.text)?;
                answer += &token.text;
            }
            if STOP.load(Ordering::Relaxed) {
                self.generation.leave(sequence);
            }
        }
        STOP.store(true, Ordering::Relaxed);
        write_now("\n")?;
        self.messages.push(message("assistant", &answer));
        Ok(())
    }

    /// The tokens of the chat so far; where it is too long and may slide, without its oldest turns.
    fn prompt(&mut self) -> Result<Vec<u32>> {
        let mut dropped = 0;
        loop {
            let ids = self.generator.encode_chat(&self.messages)?;
            let first = usize::from(self.has_system);
            let max_len = self.generator.model().max_len();
            let is_long = max_len.is_some_and(|max_len| ids.len() > max_len);
            if is_long && self.options.overflow == Overflow::Slide && self.messages.len() > first + 2 {
                self.messages.drain(first..first + 2);
                dropped += 1;
                continue;
            }
            if dropped > 0 {
                note(&format!(
                    "note: the oldest {} {} dropped, so that the chat fits the context",
                    counted(dropped, "turn"),
                    agreeing(dropped, ["was", "were"])
                ));
            }
            let fitted = self.generator.fit(ids, self.options)?;
            if fitted.dropped > 0 {
                note(&format!(
                    "note: the oldest {} {} dropped, so that the turn fits the context",
                    counted(fitted.dropped as u64, "token"),
                    agreeing(fitted.dropped as u64, ["was", "were"])
                ));
            }
            return Ok(fitted.ids);
        }
    }
}
