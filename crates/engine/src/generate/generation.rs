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
use super::partial_prompt::PartialPrompt;
use super::prefill::prefill;
use super::prompt_cache::PromptCache;
use super::sequence::{Advance, Alternative, FinishReason, Generated, Sequence};
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
    /// The most probable tokens in its place, best first, as many as its options ask for.
    pub alternatives: Vec<Alternative>,
    /// The text that is certain now. It may be empty, where a character or a stop string may follow.
    pub text: String,
    /// The whole text, if this was its last token; the sequence has left.
    pub finished: Option<Generated>,
}

/// A sequence that was taken out of a running batch, to be resumed.
#[derive(Debug)]
pub struct PausedSequence {
    id: SequenceId,
    sequence: Sequence,
    /// Its row; `None` if it is computed again.
    state: Option<LanguageModelState>,
}

impl PausedSequence {
    /// The sequence, which keeps its id.
    pub fn id(&self) -> SequenceId {
        self.id
    }
}

/// A running batch of sequences.
#[derive(Debug)]
pub struct Generation<'g> {
    generator: &'g Generator,
    capture: Capture,
    intervention: Intervention,
    waiting: VecDeque<(SequenceId, Sequence)>,
    /// The sequence whose prompt is read in parts.
    partial: Option<(SequenceId, Sequence, PartialPrompt)>,
    /// The sequences of the rows of `state`, in order.
    rows: Vec<(SequenceId, Sequence)>,
    state: Option<LanguageModelState>,
    cache: PromptCache,
    next_id: u64,
    max_rows: usize,
    /// Tokens of a prompt that are read between two steps.
    prompt_tokens: usize,
}

impl<'g> Generation<'g> {
    pub(super) fn new(generator: &'g Generator) -> Self {
        Self {
            generator,
            capture: Capture::off(),
            intervention: Intervention::default(),
            waiting: VecDeque::new(),
            partial: None,
            rows: Vec::new(),
            state: None,
            cache: PromptCache::default(),
            next_id: 0,
            max_rows: generator.parameters().device().policy().rows,
            prompt_tokens: usize::MAX,
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
        let partial = self.partial.take_if(|(other, ..)| *other == id);
        let row = self.rows.iter().position(|(other, _)| *other == id);
        if let Some(row) = row {
            self.remove(row);
        }
        row.is_some() || partial.is_some() || self.waiting.len() < waiting
    }

    /// Takes a sequence out of the batch, to be resumed later; `None` if it is not there, or has not begun.
    ///
    /// # Errors
    /// If the device fails.
    pub fn pause(&mut self, id: SequenceId) -> Result<Option<PausedSequence>> {
        let Some(row) = self.rows.iter().position(|(other, _)| *other == id) else { return Ok(None) };
        let decoding = self.generator.decoding(&self.capture, &self.intervention);
        let length = self.rows[row].1.read().len();
        let state = self.state.as_ref().map(|state| decoding.prefix(state, row, [length; 2]));
        let state = state.transpose()?.flatten();
        let sequence = self.remove(row);
        Ok(Some(PausedSequence { id, sequence, state }))
    }

    /// Goes on with a paused sequence from the next step on, or as soon as there is room; its text is the same as without
    /// the pause.
    ///
    /// # Errors
    /// If the device fails.
    pub fn resume(&mut self, paused: PausedSequence) -> Result<()> {
        let PausedSequence { id, sequence, state } = paused;
        match state {
            Some(state) if self.rows.len() < self.max_rows => self.append(vec![(id, sequence)], state),
            _ => {
                self.waiting.push_back((id, sequence));
                Ok(())
            }
        }
    }

    /// Number of sequences that are not finished.
    pub fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.partial.is_some()) + self.rows.len()
    }

    /// True if all sequences are finished.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of sequences that may join and take part in the next step, unless their prompts are long.
    pub fn room(&self) -> usize {
        self.max_rows.saturating_sub(self.len())
    }

    /// The largest number of sequences that take part in a step; default: as the device's policy says.
    #[must_use]
    pub fn with_max_rows(mut self, max_rows: usize) -> Self {
        self.max_rows = max_rows.max(1);
        self
    }

    /// The largest number of tokens of a prompt that are read between two steps, on a CPU: a longer prompt is read in parts, so
    /// that others go on beside it. Default: no limit.
    #[must_use]
    pub fn with_prompt_tokens(mut self, tokens: usize) -> Self {
        // A device whose batches run one after the other reads prompts whole.
        if !self.generator.parameters().device().policy().takes_turns {
            self.prompt_tokens = tokens.max(1);
        }
        self
    }

    /// The largest number of tokens whose states are kept for later prompts; default: 16,384.
    #[must_use]
    pub fn with_cached_tokens(mut self, tokens: usize) -> Self {
        self.cache = PromptCache::new(tokens);
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
            let Advance { drawn, alternatives, text, finished } = advance;
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
                alternatives,
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
        self.read_part()?;
        let policy = self.generator.parameters().device().policy();
        let room = self.free_rows();
        let tokens = policy.batch_tokens.min(self.prompt_tokens);
        let (mut longest, mut index) = (0, 0);
        let mut admitted: Vec<(SequenceId, Sequence)> = Vec::new();
        while admitted.len() < room
            && let Some((_, sequence)) = self.waiting.get(index)
        {
            if self.is_long(sequence) {
                // It waits for its turn to be read in parts.
                index += 1;
                continue;
            }
            // Prompts that are read together are padded to the longest.
            longest = longest.max(sequence.length());
            if !admitted.is_empty() && (admitted.len() + 1) * longest > tokens {
                break;
            }
            admitted.extend(self.waiting.remove(index));
        }
        if admitted.is_empty() {
            return Ok(());
        }
        let read = |(_, sequence): &(SequenceId, Sequence)| sequence.read();
        let texts: Vec<Vec<u32>> = admitted.iter().map(read).collect();
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let decoding: LanguageModelDecoding<'_> = self.generator.decoding(&self.capture, &self.intervention);
        let state = prefill(&decoding, &texts, &mut self.cache)?;
        self.append(admitted, state)
    }

    /// Reads the next part of a long prompt, if there is one.
    fn read_part(&mut self) -> Result<()> {
        let decoding = self.generator.decoding(&self.capture, &self.intervention);
        if self.partial.is_none() && self.free_rows() > 0 {
            let next = self.waiting.iter().position(|(_, sequence)| self.is_long(sequence));
            if let Some((id, sequence)) = next.and_then(|next| self.waiting.remove(next)) {
                let prompt = PartialPrompt::new(&decoding, sequence.read(), &mut self.cache)?;
                self.partial = Some((id, sequence, prompt));
            }
        }
        let Some((id, sequence, mut prompt)) = self.partial.take() else { return Ok(()) };
        if prompt.advance(&decoding, self.prompt_tokens, &mut self.cache)? {
            let state = prompt.finish(&mut self.cache);
            return self.append(vec![(id, sequence)], state);
        }
        self.partial = Some((id, sequence, prompt));
        Ok(())
    }

    /// True if its prompt is read in parts.
    fn is_long(&self, sequence: &Sequence) -> bool {
        // Its newest token is read by the first step.
        sequence.length() - 1 > self.prompt_tokens
    }

    /// Number of rows that are free.
    fn free_rows(&self) -> usize {
        self.max_rows.saturating_sub(self.rows.len() + usize::from(self.partial.is_some()))
    }

    /// Appends rows to the batch.
    fn append(&mut self, sequences: Vec<(SequenceId, Sequence)>, state: LanguageModelState) -> Result<()> {
        match &mut self.state {
            Some(own) => self.generator.decoding(&self.capture, &self.intervention).join(own, state)?,
            None => self.state = Some(state),
        }
        self.rows.extend(sequences);
        Ok(())
    }

    /// Removes a row and returns its sequence.
    fn remove(&mut self, row: usize) -> Sequence {
        let (_, sequence) = self.rows.remove(row);
        let rows: Vec<usize> = (0..=self.rows.len()).filter(|other| *other != row).collect();
        self.keep(&rows);
        sequence
    }

    /// Keeps these rows of the state, and frees the memory of the others.
    fn keep(&mut self, rows: &[usize]) {
        if rows.is_empty() {
            self.state = None;
        } else if let Some(state) = &mut self.state {
            let decoding = self.generator.decoding(&self.capture, &self.intervention);
            decoding.reorder(state, rows);
            decoding.release(state);
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
