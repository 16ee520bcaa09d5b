//! Loops: a model that falls into saying the same over and over.
//!
//! A loop is a run of tokens that stands several times in a row. It counts as one if the source does not repeat itself
//! likewise, so *ha ha ha ha ha* may stay. Such a sentence is decoded again with rules against repetition.

/// No sequence of this many tokens twice, when decoding again.
pub(crate) const NO_REPEAT_NGRAM: usize = 3;
/// The repetition penalty when decoding again.
pub(crate) const REPETITION_PENALTY: f32 = 1.2;

/// The longest run that is looked for, in tokens.
const LONGEST: usize = 24;
/// Times in a row that make a loop: `...` or `000` is none.
const TIMES: usize = 4;

/// The tokens by which the worst loop of `target` repeats itself; 0 if it has none that `source` does not explain.
pub(crate) fn severity(source: &[u32], target: &[u32]) -> usize {
    let Some(worst) = worst(target) else { return 0 };
    // Tokens of two languages cut alike only roughly, so the source need not repeat itself as often.
    let is_explained = most_times(source) * 2 > worst.times;
    if is_explained { 0 } else { worst.length * (worst.times - 1) }
}

struct Loop {
    length: usize,
    times: usize,
}

/// The loop that repeats the most tokens.
fn worst(ids: &[u32]) -> Option<Loop> {
    let loops = (1..=LONGEST).map(|length| Loop { length, times: times(ids, length) });
    loops.filter(|found| found.times >= TIMES).max_by_key(|found| found.length * (found.times - 1))
}

/// How many times in a row any run of tokens stands in `ids`.
fn most_times(ids: &[u32]) -> usize {
    (1..=LONGEST).map(|length| times(ids, length)).max().unwrap_or(1)
}

/// How many times in a row a run of `length` tokens stands in `ids`: where ids equal those `length` before them.
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
    fn runs_are_counted() {
        assert_eq!(times(&[1, 2, 1, 2, 1, 2, 3], 2), 3);
        assert_eq!(times(&[1, 2, 1, 2, 1], 2), 2);
        assert_eq!(times(&[5, 5, 5, 5], 1), 4);
        assert_eq!(times(&[], 1), 1);
    }

    #[test]
    fn a_loop_is_one_if_the_source_has_none() {
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
