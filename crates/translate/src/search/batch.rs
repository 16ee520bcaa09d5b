//! Many sentences at once: sorted by length, packed into batches, distributed over threads, returned in order.
//!
//! One batch is decoded by operations that use all threads. Of several, each is decoded by one thread: threads that share
//! a small operation mostly wait for each other. A row's bits do not depend on its batch or on the threads, so neither
//! changes a result. A GPU decodes large batches, one after the other; there a row's last bits do depend on its batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use polyhead_attention::Capture;
use polyhead_models::Decoding;
use polyhead_tensor::Policy;

use super::{DecoderInput, Hypotheses, Search};
use crate::{Engine, Error, Result};

/// Batches are not made smaller than this many tokens to give every thread one.
const MIN_TOKENS: usize = 128;

/// The hypotheses of each input, in order; an error as soon as `is_wanted` returns false.
pub(super) fn decode(
    engine: &Engine,
    search: &Search,
    inputs: &[DecoderInput],
    batch_tokens: Option<usize>,
    is_wanted: &(dyn Fn() -> bool + Sync),
) -> Result<Hypotheses> {
    let lengths: Vec<usize> = inputs.iter().map(|input| input.source.len()).collect();
    let run = |batch: &Vec<usize>| {
        if !is_wanted() {
            return Err(Error::Cancelled);
        }
        let capture = Capture::off();
        let decoding = Decoding::new(&engine.model, &engine.parameters, &capture);
        let inputs: Vec<&DecoderInput> = batch.iter().map(|&input| &inputs[input]).collect();
        engine.shortlist.run(search, decoding, &inputs, is_wanted)
    };
    let threads = rayon::current_num_threads();
    let Policy { batch_tokens: own, rows, takes_turns, .. } = engine.device().policy();
    let share = if takes_turns {
        usize::MAX
    } else {
        lengths.iter().sum::<usize>().div_ceil(threads).max(MIN_TOKENS)
    };
    let batches = pack(&lengths, batch_tokens.unwrap_or(own).min(share), (rows / search.width()).max(1));
    let found = if takes_turns {
        engine.in_turn(|| batches.iter().map(run).collect::<Result<Vec<Hypotheses>>>())?
    } else if batches.len() < 2 || threads < 2 {
        batches.iter().map(run).collect::<Result<Vec<Hypotheses>>>()?
    } else {
        distribute(&batches, threads, run)?
    };
    let mut all = vec![Vec::new(); inputs.len()];
    for (input, hypotheses) in batches.into_iter().flatten().zip(found.into_iter().flatten()) {
        all[input] = hypotheses;
    }
    Ok(all)
}

/// Indices of sentences in batches of rows × longest ≤ `batch_tokens` tokens and at most `max_rows` sentences, the longest
/// first; a sentence longer than `batch_tokens` is a batch by itself.
fn pack(lengths: &[usize], batch_tokens: usize, max_rows: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for index in order {
        match batches.last_mut() {
            Some(batch)
                if batch.len() < max_rows && (batch.len() + 1) * lengths[batch[0]] <= batch_tokens =>
            {
                batch.push(index);
            }
            _ => batches.push(vec![index]),
        }
    }
    batches
}

/// Runs each batch on one thread, `threads` at a time; the results in order.
fn distribute(
    batches: &[Vec<usize>],
    threads: usize,
    run: impl Fn(&Vec<usize>) -> Result<Hypotheses> + Sync,
) -> Result<Vec<Hypotheses>> {
    let pools = (0..threads.min(batches.len()))
        .map(|_| rayon::ThreadPoolBuilder::new().num_threads(1).build())
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| Error::request(format!("cannot start a thread: {error}"), "use fewer threads"))?;
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Hypotheses>>>> = batches.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((batch, result)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            batches.get(index).zip(results.get(index))
        } {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(run(batch));
        }
    };
    std::thread::scope(|scope| {
        for pool in &pools {
            // Operations inside see a pool of one thread and do not fan out.
            scope.spawn(|| pool.install(work));
        }
    });
    results
        .into_iter()
        .map(|result| {
            let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
            result.expect("every batch was taken by a thread, and a panic has ended the scope")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use polyhead_models::decode::Hypothesis;

    use super::*;

    #[test]
    fn batches_hold_sentences_of_like_length() {
        assert_eq!(pack(&[3, 9, 4, 4, 1], 12, 9), [vec![1], vec![2, 3, 0], vec![4]]);
        assert_eq!(pack(&[3, 9, 4, 4, 1], 12, 2), [vec![1], vec![2, 3], vec![0, 4]]);
        assert_eq!(pack(&[50], 12, 9), [[0]]);
        assert!(pack(&[], 12, 9).is_empty());
    }

    #[test]
    fn results_of_threads_come_in_order() {
        let batches: Vec<Vec<usize>> = (0..20).map(|index| vec![index]).collect();
        let found = distribute(&batches, 3, |batch| {
            assert_eq!(rayon::current_num_threads(), 1);
            Ok(vec![vec![Hypothesis { ids: vec![batch[0] as u32], log_probability: 0.0, score: 0.0 }]])
        });
        let ids: Vec<u32> = found.unwrap().iter().map(|batch| batch[0][0].ids[0]).collect();
        assert_eq!(ids, (0..20).collect::<Vec<_>>());
    }
}
