//! Many texts at once: sorted by length, so that batches hold little padding, and distributed over threads, each of which runs
//! a batch by itself: threads that share a small operation mostly wait for each other. A GPU runs large batches one after the
//! other. Results are returned in order, and on a CPU none of their bits depends on the batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use polyhead_tensor::{Device, Policy};

use crate::{Error, Result};

/// Tokens of a batch on a CPU: products are at full speed, and the states of a batch fit into a core's cache.
const CPU_TOKENS: usize = 512;
/// Batches are not made smaller than this many tokens to give every thread one.
const MIN_TOKENS: usize = 96;

/// Runs `run` on batches of indices into `lengths`, and returns the result of each index in order.
///
/// # Errors
/// The first error of a batch.
pub(crate) fn in_batches<T: Send>(
    device: &Device,
    lengths: &[usize],
    run: impl Fn(&[usize]) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    let threads = rayon::current_num_threads();
    let Policy { batch_tokens, rows, takes_turns, .. } = device.policy();
    let share = lengths.iter().sum::<usize>().div_ceil(threads).max(MIN_TOKENS);
    let batches = if takes_turns {
        pack(lengths, batch_tokens, rows)
    } else {
        pack(lengths, CPU_TOKENS.min(share), usize::MAX)
    };
    let found: Vec<Vec<T>> = if takes_turns {
        device.in_turn(|| batches.iter().map(|batch| run(batch)).collect::<Result<_>>())?
    } else if batches.len() < 2 || threads < 2 {
        batches.iter().map(|batch| run(batch)).collect::<Result<_>>()?
    } else {
        distribute(&batches, threads, &run)?
    };
    let mut all: Vec<Option<T>> = lengths.iter().map(|_| None).collect();
    for (index, result) in batches.into_iter().flatten().zip(found.into_iter().flatten()) {
        all[index] = Some(result);
    }
    Ok(all.into_iter().map(|result| result.expect("each index is in one batch")).collect())
}

/// Indices in batches of rows × longest ≤ `tokens` and at most `max_rows` rows, the longest first. A batch that is large enough
/// takes no row that would be padded by more than an eighth.
fn pack(lengths: &[usize], tokens: usize, max_rows: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(lengths[index]));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for index in order {
        match batches.last_mut() {
            Some(batch)
                if batch.len() < max_rows
                    && (batch.len() + 1) * lengths[batch[0]] <= tokens
                    && (lengths[index] * 8 >= lengths[batch[0]] * 7
                        || batch.len() * lengths[batch[0]] < MIN_TOKENS) =>
            {
                batch.push(index);
            }
            _ => batches.push(vec![index]),
        }
    }
    batches
}

/// Runs each batch on one thread, `threads` at a time.
fn distribute<T: Send>(
    batches: &[Vec<usize>],
    threads: usize,
    run: &(impl Fn(&[usize]) -> Result<Vec<T>> + Sync),
) -> Result<Vec<Vec<T>>> {
    let pools = (0..threads.min(batches.len()))
        .map(|_| rayon::ThreadPoolBuilder::new().num_threads(1).build())
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| Error::request(format!("cannot start a thread: {error}"), "use fewer threads"))?;
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Vec<T>>>>> = batches.iter().map(|_| Mutex::new(None)).collect();
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
    let taken = |result: Mutex<Option<Result<Vec<T>>>>| {
        let result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        result.expect("every batch was taken by a thread, and a panic has ended the scope")
    };
    results.into_iter().map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_texts_of_similar_length() {
        assert_eq!(pack(&[3, 9, 2, 4, 9], 12, 9), [vec![1], vec![4], vec![3, 0, 2]]);
        assert_eq!(pack(&[3, 3, 3], 100, 2), [vec![0, 1], vec![2]]);
        assert_eq!(pack(&[100, 70, 88], 400, 9), [vec![0, 2], vec![1]]);
        assert!(pack(&[], 8, 8).is_empty());
    }

    #[test]
    fn results_are_in_order_and_errors_are_passed_on() {
        let lengths: Vec<usize> = (0..1000).map(|index| 1 + index * 7 % 31).collect();
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let run = |batch: &[usize]| Ok(batch.iter().map(|index| index * 2).collect());
            let found = pool.install(|| in_batches(&Device::Cpu, &lengths, run)).unwrap();
            assert!(found.iter().enumerate().all(|(index, found)| *found == 2 * index));
            let failing = |batch: &[usize]| {
                if batch.contains(&500) { Err(Error::Cancelled) } else { Ok(vec![(); batch.len()]) }
            };
            assert!(pool.install(|| in_batches(&Device::Cpu, &lengths, failing)).is_err());
        }
    }
}
