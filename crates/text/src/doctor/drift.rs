//! Detection of misaligned files: the lines where source and target are out of step, estimated from line lengths.
//!
//! After Gale & Church 1993: a translation is about as long as its original. A dynamic program aligns both files with
//! an offset between them. Keeping the offset costs the difference of the two lengths on a logarithmic scale; changing
//! it by one line costs [`SHIFT_COST`], about as much as ten misaligned lines. Each state carries the line where its
//! path first left offset 0, so no back-pointers are stored. Run from the start, the program finds the first such line,
//! run from the end, the last; where lengths are uninformative, the two are far apart.

use serde::Serialize;

/// Smallest and largest search range of offsets, in lines.
const SEARCH_RANGE: [usize; 2] = [8, 64];
const SHIFT_COST: u32 = 80;
/// Largest cost of one line.
const MAX_LINE_COST: u32 = 40;
/// Cost of a surplus line at the end: less than a shift, since files are truncated more often than they lose lines.
const SURPLUS_COST: u64 = SHIFT_COST as u64 / 2;
/// Minimum gain for files of equal length to count as out of step: that of about a hundred misaligned lines.
const MIN_GAIN: u64 = 10 * SHIFT_COST as u64;
const CHUNK: usize = 1 << 16;

/// Line lengths on a logarithmic scale, one byte per line, in chunks so that growing copies nothing.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    chunks: Vec<Vec<u8>>,
}

impl Lengths {
    /// Appends a line of `chars` characters, coded in sixteen steps per doubling.
    pub(crate) fn push(&mut self, chars: usize) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let code = (16.0 * (chars as f32 + 1.0).log2()).round() as u8;
        self.chunks.last_mut().expect("pushed above").push(code);
    }

    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    fn get(&self, line: usize) -> Option<u8> {
        self.chunks.get(line / CHUNK)?.get(line % CHUNK).copied()
    }
}

/// The lines between which source and target are out of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The first line, from 1, that may be out of step.
    pub first_line: u64,
    /// The last such line, found from the end of the files; near the first if one inserted or lost line explains all.
    pub last_line: u64,
}

/// The misaligned lines; `None` for files of equal length that seem to be in step.
pub(crate) fn locate(source: &Lengths, target: &Lengths) -> Option<Drift> {
    let (n_source, n_target) = (source.len(), target.len());
    let forward = cheapest_path([n_source, n_target], |line| source.get(line), |line| target.get(line));
    if n_source == n_target && forward.gain < MIN_GAIN {
        return None;
    }
    let Some(first_line) = forward.first_line else {
        let end = n_source.min(n_target) as u64 + 1;
        return Some(Drift { first_line: end, last_line: end });
    };
    let from_end =
        |side: &Lengths, line: usize| side.len().checked_sub(line + 1).and_then(|line| side.get(line));
    let backward =
        cheapest_path([n_source, n_target], |line| from_end(source, line), |line| from_end(target, line));
    let last_line = backward.first_line.map_or(first_line, |line| (n_source as u64 + 1).saturating_sub(line));
    Some(Drift { first_line, last_line: last_line.max(first_line) })
}

/// The cheapest path through both files.
struct OffsetPath {
    /// Line, from 1, where the path leaves offset 0; `None` if it never does.
    first_line: Option<u64>,
    /// Cost of the path at offset 0 throughout, less that of the cheapest path.
    gain: u64,
}

fn cheapest_path(
    [n_source, n_target]: [usize; 2],
    source: impl Fn(usize) -> Option<u8>,
    target: impl Fn(usize) -> Option<u8>,
) -> OffsetPath {
    let reach = n_source.abs_diff(n_target).clamp(SEARCH_RANGE[0], SEARCH_RANGE[1]);
    let n_offsets = 2 * reach + 1;
    // (cost above the cheapest state, line where the path left offset 0 or 0 for never)
    let mut states = vec![(u32::MAX / 2, 0_u64); n_offsets];
    states[reach] = (0, 0);
    let mut next = states.clone();
    let (mut cheapest, mut staying) = (0_u64, 0_u64);
    for line in 0..n_source.min(n_target) {
        let here = source(line).unwrap_or_default();
        for (index, state) in next.iter_mut().enumerate() {
            let there = (line + index).checked_sub(reach).and_then(&target);
            let cost =
                there.map_or(MAX_LINE_COST, |there| u32::from(here.abs_diff(there)).min(MAX_LINE_COST));
            staying += if index == reach { u64::from(cost) } else { 0 };
            *state = (states[index].0.saturating_add(cost), states[index].1);
        }
        // An unpaired source line: one more source line, the same target lines.
        for index in 0..n_offsets - 1 {
            next[index] = next[index].min(shifted(states[index + 1], index + 1 == reach, line));
        }
        // An unpaired target line.
        for index in 1..n_offsets {
            next[index] = next[index].min(shifted(next[index - 1], index - 1 == reach, line));
        }
        // Costs grow without bound; only their differences matter.
        let lowest = next.iter().map(|state| state.0).min().unwrap_or_default();
        cheapest += u64::from(lowest);
        for (state, next) in states.iter_mut().zip(&next) {
            *state = (next.0 - lowest, next.1);
        }
    }
    let extra = n_target as i64 - n_source as i64;
    let ends = states.iter().enumerate().map(|(index, &(cost, first))| {
        let surplus = (extra - (index as i64 - reach as i64)).unsigned_abs().min(1000);
        (u64::from(cost) + surplus * SURPLUS_COST, first)
    });
    let (cost, first) = ends.min().unwrap_or_default();
    let first_line = (first > 0).then_some(first);
    OffsetPath {
        first_line,
        gain: (staying + extra.unsigned_abs() * SURPLUS_COST).saturating_sub(cheapest + cost),
    }
}

/// The state after a shift by one at `line`; `leaves` is true for a shift away from offset 0.
fn shifted((cost, first): (u32, u64), leaves: bool, line: usize) -> (u32, u64) {
    let first = if first == 0 && leaves { line as u64 + 1 } else { first };
    (cost.saturating_add(SHIFT_COST), first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_random::Random;

    /// Drift of 2000 lines of 5 to 100 characters and translations of 0.8 to 1.3 times that length, without lost lines.
    fn drift_without(lost_source: &[usize], lost_target: &[usize]) -> Option<Drift> {
        let (mut source, mut target) = (Lengths::default(), Lengths::default());
        for line in 0..2000 {
            let random = Random::new(5).stream(line as u64);
            let chars = 5 + random.below(95, 0);
            if !lost_source.contains(&line) {
                source.push(chars);
            }
            if !lost_target.contains(&line) {
                target.push((chars as f64 * (0.8 + 0.5 * random.uniform(1))) as usize);
            }
        }
        locate(&source, &target)
    }

    fn near(drift: Option<Drift>, [first, last]: [u64; 2]) -> bool {
        drift
            .is_some_and(|drift| drift.first_line.abs_diff(first) <= 4 && drift.last_line.abs_diff(last) <= 4)
    }

    #[test]
    fn a_lost_line_is_found_within_a_few_lines() {
        for lost in [30, 700, 1500, 1900] {
            let line = lost as u64 + 1;
            assert!(
                near(drift_without(&[], &[lost]), [line; 2]),
                "{lost}: {:?}",
                drift_without(&[], &[lost])
            );
            assert!(
                near(drift_without(&[lost], &[]), [line; 2]),
                "{lost}: {:?}",
                drift_without(&[lost], &[])
            );
        }
    }

    #[test]
    fn the_first_and_last_of_several_lost_lines_are_found() {
        let drift = drift_without(&[], &[400, 401, 1200]);
        assert!(near(drift, [401, 1201]), "{drift:?}");
        let block: Vec<usize> = (700..730).collect();
        let drift = drift_without(&[], &block).expect("lines are lost");
        assert!(drift.first_line.abs_diff(701) <= 8 && drift.last_line <= 740, "{drift:?}");
    }

    #[test]
    fn equal_counts_may_hide_a_drift() {
        assert_eq!(drift_without(&[], &[]), None);
        let drift = drift_without(&[1500], &[500]);
        assert!(near(drift, [501, 1501]), "{drift:?}");
    }

    #[test]
    fn a_file_cut_short_drifts_at_its_end() {
        let cut: Vec<usize> = (1800..2000).collect();
        assert_eq!(drift_without(&[], &cut), Some(Drift { first_line: 1801, last_line: 1801 }));
    }

    #[test]
    fn lines_of_equal_length_give_a_wide_range() {
        let (mut source, mut target) = (Lengths::default(), Lengths::default());
        (0..1000).for_each(|_| source.push(20));
        (0..999).for_each(|_| target.push(21));
        let drift = locate(&source, &target).expect("a line is lost");
        assert!(drift.last_line - drift.first_line > 900 || drift.first_line == 1000, "{drift:?}");
    }
}
