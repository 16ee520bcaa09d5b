//! A running batch and the texts of its rows.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use polyhead_engine::Generator;
use polyhead_engine::generate::{GeneratedToken, Generation, PausedSequence, SequenceId};

use super::runner::{RunnerQueue, WaitingText};
use super::{GenerationCounters, GenerationPool, TextJob};
use crate::front::rate::Client;
use crate::{Error, Result};

/// Tokens of prompts that are read between two steps, so that a long prompt does not hold up the texts of others.
const PROMPT_TOKENS: usize = 256;

/// A running batch with its queue.
pub(super) struct RunningBatch<'g> {
    generator: &'g Generator,
    queue: &'g RunnerQueue,
    pool: &'g GenerationPool,
    generation: Generation<'g>,
    /// The texts of the batch, in the order in which they joined.
    rows: Vec<Row>,
    paused: HashMap<u64, (PausedSequence, usize)>,
    next_number: u64,
    /// Running and waiting texts, as the gauges count them.
    shown: [usize; 2],
}

/// A text of the batch.
struct Row {
    id: SequenceId,
    client: Client,
    job: TextJob,
    /// Tokens that were sent.
    sent: usize,
}

impl<'g> RunningBatch<'g> {
    pub(super) fn new(generator: &'g Generator, queue: &'g RunnerQueue, pool: &'g GenerationPool) -> Self {
        let generation = generation(generator, pool);
        let (rows, paused) = (Vec::new(), HashMap::new());
        Self { generator, queue, pool, generation, rows, paused, next_number: 0, shown: [0; 2] }
    }

    /// Generates texts until the queue is closed and empty.
    pub(super) fn run(mut self) {
        loop {
            if self.rows.is_empty() && self.queue.wait().is_none() {
                return;
            }
            self.leave();
            self.fill();
            self.count();
            if !self.rows.is_empty() {
                self.step();
            }
        }
    }

    fn counters(&self) -> &'g GenerationCounters {
        &self.pool.counters
    }

    /// Drops texts that nobody waits for any more.
    fn leave(&mut self) {
        let gone = self.queue.lock().turns.drop_abandoned(|text: &WaitingText| text.job.is_abandoned());
        for text in gone {
            text.paused.and_then(|number| self.paused.remove(&number));
        }
        let (gone, rows) = std::mem::take(&mut self.rows).into_iter().partition(|row| row.job.is_abandoned());
        self.rows = rows;
        let gone: Vec<Row> = gone;
        for row in gone {
            self.generation.leave(row.id);
            self.finish(&row.client);
        }
    }

    /// Lets texts join: while there is room, and then in place of clients that are ahead.
    fn fill(&mut self) {
        while self.generation.room() > 0 {
            let Some((client, text)) = self.next() else { return };
            self.join(client, text);
        }
        while let Some(client) = self.ahead() {
            // The newest first, so that texts are finished in the order in which they began.
            let rows = (0..self.rows.len()).rev().filter(|&row| self.rows[row].client == client);
            if !rows.collect::<Vec<_>>().into_iter().any(|row| self.pause(row)) {
                return;
            }
            let Some((client, text)) = self.next() else { return };
            self.join(client, text);
        }
    }

    fn next(&self) -> Option<(Client, WaitingText)> {
        self.queue.lock().turns.next()
    }

    fn ahead(&self) -> Option<Client> {
        self.queue.lock().turns.ahead()
    }

    fn finish(&self, client: &Client) {
        self.queue.lock().turns.finish(client);
    }

    fn join(&mut self, client: Client, WaitingText { job, paused }: WaitingText) {
        let resumed = paused.and_then(|number| self.paused.remove(&number));
        let joined = if let Some((paused, sent)) = resumed {
            let id = paused.id();
            self.generation.resume(paused).map(|()| (id, sent))
        } else {
            let tokens = job.prompt.len() as u64;
            self.counters().prompt_tokens.fetch_add(tokens, Ordering::Relaxed);
            self.queue.lock().turns.charge(&client, tokens);
            self.generation.join(&job.prompt, &job.options, job.sample).map(|id| (id, 0))
        };
        match joined {
            Ok((id, sent)) => self.rows.push(Row { id, client, job, sent }),
            Err(error) => {
                job.send(Err(Error::Translate(error)));
                self.finish(&client);
            }
        }
    }

    /// Takes a text out of the batch until its next turn; false if it cannot be.
    fn pause(&mut self, row: usize) -> bool {
        let Ok(Some(paused)) = self.generation.pause(self.rows[row].id) else { return false };
        self.counters().pauses.fetch_add(1, Ordering::Relaxed);
        let Row { client, job, sent, .. } = self.rows.remove(row);
        let number = self.next_number;
        self.next_number += 1;
        self.paused.insert(number, (paused, sent));
        self.queue.lock().turns.put_back(&client, WaitingText { job, paused: Some(number) });
        true
    }

    /// Updates the gauges.
    fn count(&mut self) {
        let now = [self.rows.len(), self.queue.lock().turns.waiting()];
        self.counters().show(self.shown, now);
        self.shown = now;
    }

    /// The next token of every text.
    fn step(&mut self) {
        let work = AssertUnwindSafe(|| self.generation.step());
        match catch_unwind(work) {
            Ok(Ok(tokens)) => self.deliver(tokens),
            Ok(Err(error)) => self.recover(Error::Translate(error)),
            Err(panic) => self.recover(Error::from_panic(&*panic)),
        }
        self.counters().steps.fetch_add(1, Ordering::Relaxed);
        if self.rows.is_empty() {
            self.count();
        }
    }

    fn deliver(&mut self, tokens: Vec<GeneratedToken>) {
        for token in tokens {
            let Some(index) = self.rows.iter().position(|row| row.id == token.sequence) else { continue };
            let is_finished = token.finished.is_some();
            let row = &mut self.rows[index];
            if row.sent == 0 {
                self.pool.counters.first_token(row.job.began.elapsed());
            }
            row.sent += 1;
            row.job.send(Ok(token));
            self.queue.lock().turns.charge(&row.client, 1);
            self.pool.counters.tokens.fetch_add(1, Ordering::Relaxed);
            if is_finished {
                let row = self.rows.remove(index);
                self.counters().texts.fetch_add(1, Ordering::Relaxed);
                self.finish(&row.client);
            }
        }
    }

    /// After a failed step: begins anew with every text alone, so that nobody gets the error of another's.
    fn recover(&mut self, error: Error) {
        self.generation = generation(self.generator, self.pool);
        let rows = std::mem::take(&mut self.rows);
        let is_alone = rows.len() == 1;
        let mut error = Some(error);
        for row in rows {
            let failed = if is_alone { error.take() } else { self.alone(&row).err() };
            if let Some(error) = failed {
                row.job.send(Err(error));
            }
            self.finish(&row.client);
        }
    }

    /// Generates the rest of a text in a batch of its own.
    fn alone(&self, row: &Row) -> Result<()> {
        let work = || -> std::result::Result<(), polyhead_engine::Error> {
            let mut generation = generation(self.generator, self.pool);
            generation.join(&row.job.prompt, &row.job.options, row.job.sample)?;
            let mut known = row.sent;
            while !generation.is_empty() && !row.job.is_abandoned() {
                for token in generation.step()? {
                    if known > 0 {
                        known -= 1;
                        continue;
                    }
                    row.job.send(Ok(token));
                    self.counters().tokens.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Error::from_panic(&*panic))??;
        Ok(())
    }
}

/// An empty batch.
fn generation<'g>(generator: &'g Generator, pool: &GenerationPool) -> Generation<'g> {
    let cached = pool.cached_tokens(generator);
    generator.generation().with_prompt_tokens(PROMPT_TOKENS).with_cached_tokens(cached)
}
