//! Loops: translations that repeat a run of tokens several times in a row.
//!
//! A loop counts only if the source does not repeat itself likewise, so that *ha ha ha ha ha* may stay. Such a sentence is
//! decoded again with rules against repetition.

/// n of the n-grams that must not repeat when decoding again.
pub(super) const NO_REPEAT_NGRAM: usize = 3;
/// The repetition penalty when decoding again.
pub(super) const REPETITION_PENALTY: f32 = 1.2;

/// Longest run of a loop, in tokens.
const MAX_RUN: usize = 24;
/// Minimum number of repetitions of a loop: `...` and `000` are none.
const MIN_TIMES: usize = 4;

/// The number of repeated tokens in the worst loop of `target`; 0 without a loop, or if `source` repeats itself likewise.
pub(crate) fn severity(source: &[u32], target: &[u32]) -> usize {
    let Some(worst) = worst(target) else { return 0 };
    // Two languages are tokenised alike only roughly, so the source need not repeat itself as often.
    let is_explained = most_times(source) * 2 > worst.times;
    if is_explained { 0 } else { worst.length * (worst.times - 1) }
}

struct Loop {
    length: usize,
    times: usize,
}

/// The loop that repeats the most tokens.
fn worst(ids: &[u32]) -> Option<Loop> {
    let loops = (1..=MAX_RUN).map(|length| Loop { length, times: times(ids, length) });
    loops.filter(|found| found.times >= MIN_TIMES).max_by_key(|found| found.length * (found.times - 1))
}

/// The most times in a row that any run of tokens occurs in `ids`.
fn most_times(ids: &[u32]) -> usize {
    (1..=MAX_RUN).map(|length| times(ids, length)).max().unwrap_or(1)
}

/// The most times in a row that a run of `length` tokens occurs in `ids`, found where ids equal those `length` before them.
fn times(ids: &[u32], length: usize) -> usize {
    let (mut equal, mut most) = (0, 0);
    for pair in ids.iter().zip(ids.iter().skip(length)) {
        equal = if pair.0 == pair.1 { equal + 1 } else { 0 };
        most = most.max(equal);
    }
    most / length + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_runs_are_counted() {
        assert_eq!(times(&[1, 2, 1, 2, 1, 2, 3], 2), 3);
        assert_eq!(times(&[1, 2, 1, 2, 1], 2), 2);
        assert_eq!(times(&[5, 5, 5, 5], 1), 4);
        assert_eq!(times(&[], 1), 1);
    }

    #[test]
    fn loops_of_the_source_are_no_loops_of_the_target() {
        let looping = [7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 0];
        assert_eq!(severity(&[9, 8, 7, 0], &looping), 9);
        assert_eq!(severity(&[4, 5, 4, 5, 4, 5, 0], &looping), 0);
        assert_eq!(severity(&[4, 5, 4, 5, 0], &looping), 9);
        assert_eq!(severity(&[9, 8, 7, 0], &[1, 2, 1, 2, 1, 2, 0]), 0);
        assert_eq!(severity(&[9], &[4, 4, 4]), 0);
        assert_eq!(severity(&[9], &[4, 4, 4, 4, 4]), 4);
        assert_eq!(severity(&[9, 5, 5, 5, 6], &[4, 4, 4, 4]), 0);
        assert_eq!(severity(&[9], &[4; 9]), 8);
        assert_eq!(severity(&[], &[]), 0);
    }
}
