//! Many texts at once: sequences join and leave a running batch, and each step gives every one its next token (continuous
//! batching, Yu et al. 2022, "Orca").
//!
//! A sequence has its own options, and its text depends on its prompt, its options and its seed alone: not on the sequences
//! beside it, nor on when it joined. Streaming, batch generation and serving are built on this.
//!
//! ```no_run
//! # use polyhead_engine::{Generator, LoadOptions, generate::GenerateOptions};
//! let generator = Generator::load("runs/shakespeare/model", &LoadOptions::default())?;
//! let mut generation = generator.generation();
//! generation.join(&generator.encode("ROMEO:")?, &GenerateOptions::default(), 0)?;
//! while !generation.is_empty() {
//!     for token in generation.step()? {
//!         print!("{}", token.text);
//!     }
//! }
//! # Ok::<(), polyhead_engine::Error>(())
//! ```

use std::collections::VecDeque;

use polyhead_attention::{Capture, Intervention};
use polyhead_models::decode::NextToken as _;
use polyhead_models::decode::sampler::Sampler;
use polyhead_models::{LanguageModelDecoding, LanguageModelState};
use polyhead_tensor::Tensor;
use polyhead_tensor::ops::best_tokens::best_tokens;
use rayon::prelude::*;

use super::Generator;
use super::options::{GenerateOptions, Reuse};
use super::prefill::prefill;
use super::prompt_cache::PromptCache;
use super::sequence::{Advance, FinishReason, Generated, Sequence};
use crate::{Error, Result};

/// A sequence of a [`Generation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(u64);

/// A token that a step generated.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedToken {
    /// Its sequence.
    pub sequence: SequenceId,
    /// The token; `None` if the rules allow none, which ends the sequence.
    pub id: Option<u32>,
    /// The natural logarithm of its probability, by the model alone.
    pub log_probability: f32,
    /// The text that is certain now. It may be empty, where a character or a stop string may follow.
    pub text: String,
    /// The whole text, if this was its last token; the sequence has left.
    pub finished: Option<Generated>,
}

/// A running batch of sequences.
#[derive(Debug)]
pub struct Generation<'g> {
    generator: &'g Generator,
    capture: Capture,
    intervention: Intervention,
    waiting: VecDeque<(SequenceId, Sequence)>,
    /// The sequences of the rows of `state`, in order.
    rows: Vec<(SequenceId, Sequence)>,
    state: Option<LanguageModelState>,
    cache: PromptCache,
    next_id: u64,
    max_rows: usize,
}

impl<'g> Generation<'g> {
    pub(super) fn new(generator: &'g Generator) -> Self {
        Self {
            generator,
            capture: Capture::off(),
            intervention: Intervention::default(),
            waiting: VecDeque::new(),
            rows: Vec::new(),
            state: None,
            cache: PromptCache::default(),
            next_id: 0,
            max_rows: generator.parameters().device().policy().rows,
        }
    }

    /// Adds the sample of number `sample` after a prompt, which begins with the start token, if the model has one. It is
    /// generated from the next step on, or as soon as there is room.
    ///
    /// # Errors
    /// If the prompt is empty or longer than the context, or an option is out of range.
    pub fn join(&mut self, prompt: &[u32], options: &GenerateOptions, sample: u64) -> Result<SequenceId> {
        let single = GenerateOptions { n_samples: 1, beam_size: 1, ..options.clone() };
        single.check()?;
        if prompt.is_empty() {
            return Err(Error::request("an empty prompt, expected at least one token", "send some text"));
        }
        self.generator.check_length(prompt.len())?;
        let max_new = self.generator.max_new(prompt.len(), options);
        let sampling = self.generator.sampling(options, max_new);
        let sampler = Sampler::new(sampling, prompt, sample)?;
        let tokenizer = self.generator.tokenizer();
        let sequence = Sequence::new(prompt.to_vec(), sampler, (max_new, options), tokenizer)?;
        let id = SequenceId(self.next_id);
        self.next_id += 1;
        self.waiting.push_back((id, sequence));
        Ok(id)
    }

    /// Removes a sequence before it is finished; true if it was there.
    pub fn leave(&mut self, id: SequenceId) -> bool {
        let waiting = self.waiting.len();
        self.waiting.retain(|(other, _)| *other != id);
        let row = self.rows.iter().position(|(other, _)| *other == id);
        if let Some(row) = row {
            self.rows.remove(row);
            let rows: Vec<usize> = (0..=self.rows.len()).filter(|other| *other != row).collect();
            self.keep(&rows);
        }
        row.is_some() || self.waiting.len() < waiting
    }

    /// Number of sequences that are not finished.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.rows.len()
    }

    /// True if all sequences are finished.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The largest number of sequences that take part in a step; default: as the device's policy says.
    #[must_use]
    pub fn with_max_rows(mut self, max_rows: usize) -> Self {
        self.max_rows = max_rows.max(1);
        self
    }

    /// Changes the model; default: no changes. Nothing has joined yet.
    #[must_use]
    pub fn with_intervention(self, intervention: Intervention) -> Self {
        Self { intervention, ..self }
    }

    /// Tokens of prompts that were known from before and not computed again.
    pub fn reused_tokens(&self) -> u64 {
        self.cache.reused()
    }

    /// The next token of every sequence for which there is room, in the order in which they joined.
    ///
    /// # Errors
    /// If the device fails. The generation is not to be used any more then.
    pub fn step(&mut self) -> Result<Vec<GeneratedToken>> {
        self.admit()?;
        let Some(state) = &mut self.state else { return Ok(Vec::new()) };
        let tokens: Vec<u32> = self.rows.iter().filter_map(|(_, sequence)| sequence.last()).collect();
        let decoding = self.generator.decoding(&self.capture, &self.intervention);
        let logits = decoding.step(state, &tokens)?;
        let advances = draw(self.generator, &mut self.rows, &logits)?;
        let mut generated = Vec::with_capacity(advances.len());
        let mut left = Vec::new();
        for (row, ((id, sequence), advance)) in self.rows.drain(..).zip(advances).enumerate() {
            let Advance { drawn, text, finished } = advance;
            if finished.is_some() && sequence.reuse == Reuse::Text {
                self.cache.insert(&decoding, &sequence.read(), (state, row))?;
            }
            let finished = if let Some(reason) = finished {
                Some(sequence.finish(reason))
            } else {
                left.push((row, (id, sequence)));
                None
            };
            generated.push(GeneratedToken {
                sequence: id,
                id: drawn.map(|drawn| drawn.id),
                log_probability: drawn.map_or(0.0, |drawn| drawn.log_probability),
                text,
                finished,
            });
        }
        let (rows, sequences): (Vec<usize>, Vec<(SequenceId, Sequence)>) = left.into_iter().unzip();
        self.rows = sequences;
        if rows.len() < generated.len() {
            self.keep(&rows);
        }
        Ok(generated)
    }

    /// Reads the prompts of waiting sequences, for as many as there is room.
    fn admit(&mut self) -> Result<()> {
        let policy = self.generator.parameters().device().policy();
        let room = self.max_rows.saturating_sub(self.rows.len());
        let mut tokens = 0;
        let fits = |(_, sequence): &&(SequenceId, Sequence)| {
            tokens += sequence.prompt.len();
            tokens <= policy.batch_tokens || tokens == sequence.prompt.len()
        };
        let count = self.waiting.iter().take(room).take_while(fits).count();
        if count == 0 {
            return Ok(());
        }
        let admitted: Vec<(SequenceId, Sequence)> = self.waiting.drain(..count).collect();
        let read = |(_, sequence): &(SequenceId, Sequence)| sequence.read();
        let texts: Vec<Vec<u32>> = admitted.iter().map(read).collect();
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let decoding: LanguageModelDecoding<'_> = self.generator.decoding(&self.capture, &self.intervention);
        let state = prefill(&decoding, &texts, &mut self.cache)?;
        match &mut self.state {
            Some(own) => decoding.join(own, state)?,
            None => self.state = Some(state),
        }
        self.rows.extend(admitted);
        Ok(())
    }

    /// Keeps these rows of the state.
    fn keep(&mut self, rows: &[usize]) {
        if rows.is_empty() {
            self.state = None;
        } else if let Some(state) = &mut self.state {
            self.generator.decoding(&self.capture, &self.intervention).reorder(state, rows);
        }
    }
}

/// What each row draws from its logits.
fn draw(generator: &Generator, rows: &mut [(SequenceId, Sequence)], logits: &Tensor) -> Result<Vec<Advance>> {
    let tokenizer = generator.tokenizer();
    let takes_turns = generator.parameters().device().policy().takes_turns;
    // On a GPU only the best tokens are copied, if that is all that is needed.
    if takes_turns && rows.iter().all(|(_, sequence)| sequence.is_plain_greedy()) {
        let best = best_tokens(logits, 1)?;
        let taken = rows.iter_mut().zip(best).map(|((_, sequence), best)| match best.first() {
            Some(best) => sequence.take(best.id, best.score, tokenizer),
            None => sequence.draw(&[f32::NEG_INFINITY], tokenizer),
        });
        return taken.collect();
    }
    let logits = logits.to_host()?;
    let width = logits.len() / rows.len();
    let rows = rows.par_iter_mut().zip(logits.data().par_chunks_exact(width));
    rows.map(|((_, sequence), logits)| sequence.draw(logits, tokenizer)).collect()
}

impl FinishReason {
    /// The name in the interface of OpenAI, where an end token is a stop.
    pub fn openai_name(self) -> &'static str {
        if self == Self::Length { "length" } else { "stop" }
    }
}
