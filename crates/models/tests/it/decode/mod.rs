//! Decoding: golden files, laws, and an example worked out by hand.

mod exhaustive;
mod laws;
mod methods;
mod outside;
mod worked;

use polyhead_attention::Capture;
use polyhead_models::Result;
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths, NextToken};
use polyhead_models::{Decoding, SequenceToSequence};
use polyhead_random::Random;
use polyhead_tensor::{Parameters, Tensor};

/// A loaded golden model.
struct LoadedModel {
    model: SequenceToSequence,
    parameters: Parameters,
    capture: Capture,
}

impl LoadedModel {
    fn new(name: &str) -> Self {
        let (model, parameters) = crate::outside::load(&crate::outside::golden(name));
        Self { model, parameters, capture: Capture::off() }
    }

    fn decoding(&self) -> Decoding<'_> {
        Decoding::new(&self.model, &self.parameters, &self.capture)
    }

    fn options(&self, max: usize) -> DecodeOptions {
        let ids = self.model.special_ids();
        let lengths = Lengths { max, ..Lengths::default() };
        DecodeOptions { start_id: ids.start_id, end_id: ids.end_id, lengths, ..DecodeOptions::default() }
    }
}

/// Sentences of 1 to 15 ids below 96.
fn sentences(n: usize, seed: u64) -> Vec<Vec<u32>> {
    (0..n as u64)
        .map(|sentence| {
            let random = Random::new(seed).stream(sentence);
            (0..=random.below(15, 0) as u64)
                .map(|position| 1 + random.below(95, 1 + position) as u32)
                .collect()
        })
        .collect()
}

fn slices(sentences: &[Vec<u32>]) -> Vec<&[u32]> {
    sentences.iter().map(Vec::as_slice).collect()
}

/// All bits of a hypothesis.
fn bits(hypothesis: &Hypothesis) -> (Vec<u32>, u64, u64) {
    (hypothesis.ids.clone(), hypothesis.log_probability.to_bits(), hypothesis.score.to_bits())
}

/// A bigram model: row i holds the probabilities after token i.
struct Table<const N: usize>([[f32; N]; N]);

impl<const N: usize> NextToken for Table<N> {
    type State = ();

    fn start(&self, _: &[&[u32]], _: usize) -> Result<()> {
        Ok(())
    }

    fn step(&self, (): &mut (), tokens: &[u32]) -> Result<Tensor> {
        let rows = tokens.iter().flat_map(|&id| self.0[id as usize].map(f32::ln)).collect();
        Ok(Tensor::new(&[tokens.len(), N], rows))
    }

    fn reorder(&self, (): &mut (), _: &[usize]) {}
}
