//! One text that is being generated: its sampler, its text so far, and when it ends.

use polyhead_models::decode::sampler::{Drawn, Sampler};
use polyhead_tensor::Tensor;
use polyhead_tensor::ops::best_tokens::best_tokens;
use polyhead_text::tokenizer::{TextStream, Tokenizer};

use super::options::{GenerateOptions, Reuse};
use super::stop::StopMatcher;
use crate::Result;

/// The reason why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop string, the last line, or no token that the rules allow.
    Stop,
    /// The maximum number of tokens, or the end of the context.
    Length,
    /// The end token.
    End,
}

impl FinishReason {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::End => "end",
        }
    }
}

/// A generated text.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The text after the prompt; it ends before a stop string.
    pub text: String,
    /// Its tokens, end tokens and those of a stop string included.
    pub ids: Vec<u32>,
    /// The sum of the natural logarithms of their probabilities.
    pub log_probability: f64,
    /// The reason why it ended.
    pub finish_reason: FinishReason,
    /// Number of tokens of the prompt, the start token included.
    pub prompt_tokens: usize,
}

/// A text that is being generated.
#[derive(Debug)]
pub(super) struct Sequence {
    /// The prompt, start token included.
    pub(super) prompt: Vec<u32>,
    pub(super) reuse: Reuse,
    sampler: Sampler,
    max_new: usize,
    /// Number of most probable tokens to report.
    alternatives: usize,
    /// Lines left, if lines are counted.
    lines: Option<usize>,
    stream: TextStream,
    stop: StopMatcher,
    text: String,
}

/// A token and the natural logarithm of its probability, by the model alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alternative {
    /// The token.
    pub id: u32,
    /// Its log-probability.
    pub log_probability: f32,
}

/// A token of a sequence and what it adds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Advance {
    pub(super) drawn: Option<Drawn>,
    /// The most probable tokens, best first.
    pub(super) alternatives: Vec<Alternative>,
    /// The text that is certain now.
    pub(super) text: String,
    pub(super) finished: Option<FinishReason>,
}

impl Sequence {
    pub(super) fn new(
        prompt: Vec<u32>,
        sampler: Sampler,
        (max_new, options): (usize, &GenerateOptions),
        tokenizer: &Tokenizer,
    ) -> Result<Self> {
        Ok(Self {
            stream: TextStream::after(&prompt, tokenizer)?,
            stop: StopMatcher::new(&options.stop),
            alternatives: options.alternatives,
            lines: options.lines,
            reuse: options.reuse,
            text: String::new(),
            prompt,
            sampler,
            max_new,
        })
    }

    /// The newest token, which the model reads next.
    pub(super) fn last(&self) -> Option<u32> {
        self.sampler.ids().last().or(self.prompt.last()).copied()
    }

    /// Number of its tokens so far, prompt included.
    pub(super) fn length(&self) -> usize {
        self.prompt.len() + self.sampler.ids().len()
    }

    /// All tokens but the newest, which the model has read before that is its input.
    pub(super) fn read(&self) -> Vec<u32> {
        let mut all = [&self.prompt, self.sampler.ids()].concat();
        all.pop();
        all
    }

    /// True if the most probable token by the model alone is taken, and no other is asked for.
    pub(super) fn is_plain_greedy(&self) -> bool {
        self.alternatives == 0 && self.sampler.is_plain_greedy()
    }

    /// Draws the next token by its logits.
    pub(super) fn draw(&mut self, logits: &[f32], tokenizer: &Tokenizer) -> Result<Advance> {
        let drawn = self.sampler.draw(logits)?;
        let mut advance = if let Some(drawn) = drawn {
            self.advance(drawn, tokenizer)?
        } else {
            let text = self.rest(tokenizer)?;
            Advance { drawn, alternatives: Vec::new(), text, finished: Some(FinishReason::Stop) }
        };
        if self.alternatives > 0 && drawn.is_some() {
            let row = Tensor::new(&[1, logits.len()], logits.to_vec());
            let best = best_tokens(&row, self.alternatives)?.into_iter().flatten();
            let alternative = best.map(|best| Alternative { id: best.id, log_probability: best.score });
            advance.alternatives = alternative.collect();
        }
        Ok(advance)
    }

    /// Takes the most probable token.
    pub(super) fn take(&mut self, id: u32, log_probability: f32, tokenizer: &Tokenizer) -> Result<Advance> {
        let drawn = self.sampler.push(id, log_probability)?;
        self.advance(drawn, tokenizer)
    }

    fn advance(&mut self, drawn: Drawn, tokenizer: &Tokenizer) -> Result<Advance> {
        let at_limit = self.sampler.ids().len() >= self.max_new;
        let (mut text, mut finished) = (String::new(), None);
        let new = if drawn.is_end {
            self.stream.finish(tokenizer)?
        } else {
            self.stream.push(drawn.id, tokenizer)?
        };
        let is_stopped = self.append(&new, &mut text);
        if is_stopped {
            finished = Some(FinishReason::Stop);
        } else if drawn.is_end {
            finished = self.end_line(&mut text);
        }
        if finished.is_none() && at_limit {
            text += &self.rest(tokenizer)?;
            finished = Some(FinishReason::Length);
        }
        Ok(Advance { drawn: Some(drawn), alternatives: Vec::new(), text, finished })
    }

    /// Ends a line at an end token; the reason if that ends the text.
    fn end_line(&mut self, text: &mut String) -> Option<FinishReason> {
        match &mut self.lines {
            Some(left) if *left > 1 => {
                *left -= 1;
                self.stream = TextStream::default();
                let (certain, is_stopped) = self.stop.push("\n");
                self.text += &certain;
                *text += &certain;
                is_stopped.then_some(FinishReason::Stop)
            }
            _ => {
                let rest = self.stop.finish();
                self.text += &rest;
                *text += &rest;
                Some(FinishReason::End)
            }
        }
    }

    /// Appends text; true if a stop string or the last line ends it.
    fn append(&mut self, new: &str, text: &mut String) -> bool {
        let mut new = new;
        let mut is_last_line = false;
        if let Some(left) = &mut self.lines {
            let breaks: Vec<usize> = new.match_indices('\n').map(|(at, _)| at).collect();
            if let Some(&at) = breaks.get(*left - 1) {
                (new, is_last_line) = (&new[..at], true);
            } else {
                *left -= breaks.len();
            }
        }
        let (mut certain, is_stopped) = self.stop.push(new);
        if is_last_line && !is_stopped {
            certain += &self.stop.finish();
        }
        self.text += &certain;
        *text += &certain;
        is_stopped || is_last_line
    }

    /// The rest of the text, where no more tokens follow.
    fn rest(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        let mut text = String::new();
        let new = self.stream.finish(tokenizer)?;
        if !self.append(&new, &mut text) {
            let held = self.stop.finish();
            self.text += &held;
            text += &held;
        }
        Ok(text)
    }

    /// The finished text.
    pub(super) fn finish(self, finish_reason: FinishReason) -> Generated {
        let found = self.sampler.hypothesis();
        Generated {
            text: self.text,
            ids: found.ids,
            log_probability: found.log_probability,
            finish_reason,
            prompt_tokens: self.prompt.len(),
        }
    }
}
