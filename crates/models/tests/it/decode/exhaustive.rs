//! A sufficiently wide beam finds the same hypotheses as exhaustive search.

use polyhead_models::Result;
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::constrained::constrained;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::rules::{AtLimit, Rules};
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken};
use polyhead_random::Random;
use polyhead_tensor::Tensor;

const END: u32 = 3;
const MAX: usize = 5;

/// A model of four tokens whose logits depend on all previous tokens.
struct Memory(u64);

impl Memory {
    /// The logits after `history`.
    fn logits(&self, history: &[u32]) -> [f32; 4] {
        let key = history.iter().fold(self.0, |key, &id| Random::new(key).u64(u64::from(id)));
        [0, 1, 2, 3].map(|id| 3.0 * Random::new(key).stream(1).uniform(id) as f32)
    }

    fn log_probability(&self, history: &[u32], id: u32) -> f64 {
        let logits = self.logits(history).map(f64::from);
        logits[id as usize] - logits.map(f64::exp).iter().sum::<f64>().ln()
    }
}

impl NextToken for Memory {
    type State = Vec<Vec<u32>>;

    fn start(&self, sources: &[&[u32]], _: usize) -> Result<Self::State> {
        Ok(vec![Vec::new(); sources.len()])
    }

    fn step(&self, state: &mut Self::State, tokens: &[u32]) -> Result<Tensor> {
        state.iter_mut().zip(tokens).for_each(|(history, &token)| history.push(token));
        let rows = state.iter().flat_map(|history| self.logits(history)).collect();
        Ok(Tensor::new(&[tokens.len(), 4], rows))
    }

    fn reorder(&self, state: &mut Self::State, rows: &[usize]) {
        *state = rows.iter().map(|&row| state[row].clone()).collect();
    }
}

/// Every sequence that ends with the end token or at the limit, with its log-probability.
fn all(model: &Memory) -> Vec<(Vec<u32>, f64)> {
    let mut complete = Vec::new();
    let mut open = vec![(Vec::new(), 0.0)];
    while let Some((ids, sum)) = open.pop() {
        let history = [&[END], &ids[..]].concat();
        for id in 0..4 {
            let longer: Vec<u32> = [&ids[..], &[id]].concat();
            let sum = sum + model.log_probability(&history, id);
            let list = if id == END || longer.len() == MAX { &mut complete } else { &mut open };
            list.push((longer, sum));
        }
    }
    complete
}

fn options(length_penalty: LengthPenalty) -> BeamOptions {
    let lengths = Lengths { max: MAX, ..Lengths::default() };
    let decode = DecodeOptions { start_id: END, end_id: END, lengths, ..DecodeOptions::default() };
    let early_stopping = EarlyStopping::Never;
    BeamOptions {
        decode,
        beam_size: 1000,
        top_beams: 10,
        length_penalty,
        early_stopping,
        surface_forms: None,
        ..BeamOptions::default()
    }
}

fn contains(ids: &[u32], sequence: &[u32]) -> bool {
    ids.windows(sequence.len()).any(|window| window == sequence)
}

fn assert_best(found: &[(Vec<u32>, f64)], mut expected: Vec<(Vec<u32>, f64)>) {
    expected.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.0, expected.0);
        assert!((found.1 - expected.1).abs() < 1e-5);
    }
}

#[test]
fn beam_search_finds_the_best_sequences() {
    for seed in 0..8 {
        let model = Memory(seed);
        for length_penalty in [LengthPenalty::Power(0.0), LengthPenalty::Power(1.0), LengthPenalty::Wu(0.8)] {
            let found = beam(&model, &[&[0]], &options(length_penalty)).unwrap().remove(0);
            let found: Vec<_> = found.into_iter().map(|found| (found.ids, found.score)).collect();
            let scored = |(ids, sum): (Vec<u32>, f64)| {
                let score = length_penalty.score(sum, ids.len());
                (ids, score)
            };
            assert_eq!(found.len(), 10);
            assert_best(&found, all(&model).into_iter().map(scored).collect());
        }
    }
}

#[test]
fn constrained_search_finds_the_best_sequences() {
    for seed in 0..8 {
        let model = Memory(seed);
        let mut options = options(LengthPenalty::Power(0.0));
        // The end is forced at the maximum length, so that no constraint can be there.
        options.decode.rules = Rules { at_limit: AtLimit::ForceEnd, ..Rules::default() };
        for constraints in
            [vec![vec![1]], vec![vec![2, 0]], vec![vec![0], vec![2, 1]], vec![vec![1, 1, 2, 0]]]
        {
            let found =
                constrained(&model, &[&[0]], std::slice::from_ref(&constraints), &options).unwrap().remove(0);
            let found: Vec<_> = found.into_iter().map(|found| (found.ids, found.score)).collect();
            let fitting = all(&model).into_iter().filter(|(ids, _)| {
                ids.last() == Some(&END) && constraints.iter().all(|words| contains(ids, words))
            });
            // A forced end is certain.
            let scored = |(ids, sum): (Vec<u32>, f64)| {
                let free = ids.len() < MAX;
                let end = model.log_probability(&[&[END], &ids[..ids.len() - 1]].concat(), END);
                (ids, if free { sum } else { sum - end })
            };
            let expected: Vec<_> = fitting.map(scored).collect();
            assert_eq!(found.len(), expected.len().min(10), "{constraints:?}");
            assert_best(&found, expected);
        }
    }
}
