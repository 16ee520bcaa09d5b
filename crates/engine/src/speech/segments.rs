//! The segments of a window, divided by its timestamps as Whisper does, and where the next window begins.

use std::ops::Range;

/// Seconds of a step of the timestamps, and of a position of the encoder.
pub(super) const PRECISION: f64 = 0.02;
/// Frames of such a step.
const FRAMES: usize = 2;

/// A segment of a window.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WindowSegment {
    /// Its tokens, timestamps included.
    pub(super) tokens: Range<usize>,
    /// Its start and end in seconds from the start of the window.
    pub(super) times: [f64; 2],
}

/// The segments of a window of `frames` frames, and the frames after which the next window begins. Timestamps are the tokens
/// from `first_id` on.
pub(super) fn divide(tokens: &[u32], first_id: u32, frames: usize) -> (Vec<WindowSegment>, usize) {
    let is_timestamp = |at: usize| tokens[at] >= first_id;
    let time = |at: usize| f64::from(tokens[at] - first_id) * PRECISION;
    let length = tokens.len();
    let mut ends: Vec<usize> = (1..length).filter(|&at| is_timestamp(at - 1) && is_timestamp(at)).collect();
    let is_single = length >= 2 && is_timestamp(length - 1) && !is_timestamp(length - 2);
    if ends.is_empty() {
        // Without a pair of timestamps all is one segment.
        let last = (0..length).rev().find(|&at| is_timestamp(at)).filter(|&at| tokens[at] != first_id);
        let end = last.map_or_else(|| (frames / FRAMES) as f64 * PRECISION, time);
        return (vec![WindowSegment { tokens: 0..length, times: [0.0, end] }], frames);
    }
    if is_single {
        ends.push(length);
    }
    let mut segments = Vec::new();
    let mut first = 0;
    for end in ends {
        let start = if is_timestamp(first) { time(first) } else { 0.0 };
        segments.push(WindowSegment { tokens: first..end, times: [start, time(end - 1)] });
        first = end;
    }
    // After a single timestamp nothing is said. Otherwise an unfinished segment is read again from its start on.
    let next = if is_single { frames } else { (tokens[first - 1] - first_id) as usize * FRAMES };
    // A window that ends where it begins would be read forever.
    let next = if next == 0 { frames } else { next };
    (segments, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    type TokensAndTimes = (Range<usize>, [f64; 2]);

    /// Text tokens are 1 to 9, timestamps begin at 100.
    fn divided(tokens: &[u32]) -> (Vec<TokensAndTimes>, usize) {
        let (segments, next) = divide(tokens, 100, 3_000);
        (segments.into_iter().map(|segment| (segment.tokens, segment.times)).collect(), next)
    }

    #[test]
    fn pairs_divide_and_the_rest_is_read_again() {
        assert_eq!(
            divided(&[100, 1, 2, 150, 150, 3, 200, 200, 4]),
            (vec![(0..4, [0.0, 1.0]), (4..7, [1.0, 2.0])], 200)
        );
        assert_eq!(
            divided(&[100, 1, 150, 160, 3, 200]),
            (vec![(0..3, [0.0, 1.0]), (3..6, [1.2, 2.0])], 3_000)
        );
    }

    #[test]
    fn without_pairs_a_window_is_one_segment() {
        assert_eq!(divided(&[1, 2]), (vec![(0..2, [0.0, 30.0])], 3_000));
        assert_eq!(divided(&[100, 1, 2, 150]), (vec![(0..4, [0.0, 1.0])], 3_000));
        assert_eq!(divided(&[100, 1, 2]), (vec![(0..3, [0.0, 30.0])], 3_000));
        assert_eq!(divided(&[]), (vec![(0..0, [0.0, 30.0])], 3_000));
    }
}
