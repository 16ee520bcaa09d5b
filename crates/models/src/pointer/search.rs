//! Beam search over answers. Only points that the [`super::AnswerRule`] allows are candidates, and probabilities are those
//! among them, so that the probabilities of all valid answers add up to 1.

use polyhead_attention::{Capture, Pass};
use polyhead_tensor::ops::shape::index_select;
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Parameters, Tape, Var};

use super::batch::{Orders, Points};
use super::config::PointerConfig;
use super::network::{Memory, PointerNetwork};
use crate::{Error, Result};

/// Options of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchOptions {
    /// Hypotheses kept at each step; 1 is greedy search; default: 1.
    pub beam_size: usize,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { beam_size: 1 }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Indices of points, from 0.
    pub order: Vec<u32>,
    /// Its log-probability among all valid answers.
    pub log_probability: f64,
}

/// The hypotheses of one row.
#[derive(Debug, Clone, Default)]
struct Beam {
    /// Number of points.
    count: usize,
    /// Unfinished answers, best first.
    open: Vec<Found>,
    /// Finished answers, best first.
    closed: Vec<Found>,
}

impl PointerNetwork {
    /// Answers for each row of coordinates (flat, unscaled), the best first: at least one, at most the beam size.
    ///
    /// # Errors
    /// If the beam size is 0, a row has no points or more than the model accepts, or the device fails.
    pub fn search(
        &self,
        parameters: &Parameters,
        rows: &[&[f32]],
        options: SearchOptions,
    ) -> Result<Vec<Vec<Found>>> {
        let PointerConfig { d_point, max_len, .. } = *self.config();
        let beam_size = options.beam_size;
        if beam_size == 0 {
            return Err(Error::Request { message: "a beam of 0, expected 1 or more".into() });
        }
        let counts: Vec<usize> = rows.iter().map(|row| row.len() / d_point).collect();
        if let Some(count) = counts.iter().find(|count| !(1..=max_len).contains(count)) {
            return Err(Error::Request { message: format!("{count} points, expected 1 to {max_len}") });
        }
        let Some(&longest) = counts.iter().max() else { return Ok(Vec::new()) };
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, parameters, &capture);
        // One row for each hypothesis.
        let repeated = rows.iter().flat_map(|row| std::iter::repeat_n(Some(*row), beam_size));
        let points: Points = self.points(repeated, longest).to_device(&parameters.device())?;
        let memory = self.encode(&pass, &points)?;
        let mut beams: Vec<Beam> = counts
            .iter()
            .map(|&count| Beam { count, open: vec![Found::default()], closed: Vec::new() })
            .collect();
        let mut state = memory.state.clone();
        while beams.iter().any(|beam| !beam.open.is_empty()) {
            state = self.step(&pass, &memory, &state, &mut beams, beam_size)?;
        }
        Ok(beams.into_iter().map(|beam| beam.closed).collect())
    }

    /// Extends all hypotheses by one point; returns the state of those kept.
    fn step(
        &self,
        pass: &Pass<'_>,
        memory: &Memory,
        state: &Var,
        beams: &mut [Beam],
        beam_size: usize,
    ) -> Result<Var> {
        let n_keys = memory.keys.shape()[1];
        let mut inputs: Vec<u32> = (0..beams.len() * beam_size).map(|row| (row * n_keys) as u32).collect();
        for (index, beam) in beams.iter().enumerate() {
            for (slot, found) in beam.open.iter().enumerate() {
                inputs[index * beam_size + slot] += found.order.last().map_or(0, |point| 1 + point);
            }
        }
        let device = pass.parameters.device();
        let orders = Orders::step(inputs).to_device(&device)?;
        let (logits, state) = self.decode(pass, memory, state, &orders)?;
        let mut logits = logits.value().to_host()?.reshaped(&[beams.len() * beam_size, n_keys]);
        for (index, beam) in beams.iter().enumerate() {
            for (slot, found) in beam.open.iter().enumerate() {
                let row = (index * beam_size + slot) * n_keys;
                self.keep_valid(found, beam.count, &mut logits.data_mut()[row..row + n_keys]);
            }
        }
        let scores = log_softmax(pass.tape, &Var::constant(logits)).value().clone();
        let mut parents: Vec<u32> = (0..(beams.len() * beam_size) as u32).collect();
        for (index, beam) in beams.iter_mut().enumerate() {
            let rows = &scores.data()[index * beam_size * n_keys..(index + 1) * beam_size * n_keys];
            for (slot, parent) in beam.extend(rows, n_keys, beam_size).into_iter().enumerate() {
                parents[index * beam_size + slot] = (index * beam_size + parent) as u32;
            }
        }
        Ok(index_select(pass.tape, &state, &parents)?)
    }

    /// Sets the scores of keys that the rule forbids to −∞.
    fn keep_valid(&self, found: &Found, count: usize, scores: &mut [f32]) {
        let PointerConfig { answer, shortest, .. } = *self.config();
        let order = &found.order;
        let is_full = order.len() >= answer.longest(count);
        let mut any = false;
        for point in 0..count as u32 {
            let is_valid = !is_full && answer.allows(order, point, count);
            any |= is_valid;
            if !is_valid {
                scores[1 + point as usize] = f32::NEG_INFINITY;
            }
        }
        // Where nothing else is left, the answer ends.
        if any && !answer.may_end(order, count, shortest) {
            scores[0] = f32::NEG_INFINITY;
        }
    }
}

impl Beam {
    /// Keeps the best extensions; returns the slot that each new open hypothesis extends.
    fn extend(&mut self, scores: &[f32], n_keys: usize, beam_size: usize) -> Vec<usize> {
        let mut candidates: Vec<(f64, usize, u32)> = Vec::new();
        for (slot, found) in self.open.iter().enumerate() {
            let row = &scores[slot * n_keys..(slot + 1) * n_keys];
            let finite = row.iter().zip(0..).filter(|(score, _)| score.is_finite());
            candidates
                .extend(finite.map(|(&score, key)| (found.log_probability + f64::from(score), slot, key)));
        }
        // Of equals the earlier hypothesis and the earlier key.
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let (mut open, mut parents) = (Vec::new(), Vec::new());
        for (log_probability, slot, key) in candidates.into_iter().take(beam_size) {
            let mut order = self.open[slot].order.clone();
            if key == 0 {
                self.closed.push(Found { order, log_probability });
            } else {
                order.push(key - 1);
                open.push(Found { order, log_probability });
                parents.push(slot);
            }
        }
        if self.closed.is_empty() && open.is_empty() {
            // Only NaN scores leave no candidate: the answer ends where it is.
            self.closed.push(self.open.first().cloned().unwrap_or_default());
        }
        self.closed.sort_by(|a, b| b.log_probability.total_cmp(&a.log_probability));
        self.closed.truncate(beam_size);
        let best_open = open.first().map_or(f64::NEG_INFINITY, |found| found.log_probability);
        // Probabilities only shrink, so nothing open can overtake a full list of better ones.
        let is_done = self.closed.len() == beam_size
            && self.closed.last().is_some_and(|worst| worst.log_probability >= best_open);
        self.open = if is_done { Vec::new() } else { open };
        parents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beam_keeps_the_best_and_ends_when_nothing_open_can_win() {
        let mut beam = Beam { count: 2, open: vec![Found::default()], closed: Vec::new() };
        let none = f32::NEG_INFINITY;
        assert_eq!(beam.extend(&[none, -1.0, -0.5, none, none, none], 3, 2), [0, 0]);
        assert_eq!(beam.open[0].order, [1]);
        // Both end, the second is less probable.
        assert_eq!(beam.extend(&[-0.25, none, none, -0.5, none, none], 3, 2), Vec::<usize>::new());
        let orders: Vec<&[u32]> = beam.closed.iter().map(|found| found.order.as_slice()).collect();
        assert_eq!(orders, [&[1][..], &[0]]);
        assert!(beam.open.is_empty());
        // NaN scores end the search instead of hanging it.
        let mut beam = Beam { count: 1, open: vec![Found::default()], closed: Vec::new() };
        beam.extend(&[f32::NAN, f32::NAN], 2, 1);
        assert!(beam.open.is_empty() && beam.closed.len() == 1);
    }
}
