//! Where two files that should run in step fall out of it, guessed from line lengths.
//!
//! After Gale & Church 1993: a translation is about as long as its original. A dynamic program walks both files with
//! an offset between them; keeping the offset costs the difference of the two lengths (on a logarithmic scale), changing
//! it by one line costs [`SHIFT_COST`], which about ten lines out of step pay back. Each state remembers the line where
//! its path first left offset 0, so no table is kept.

/// Largest offset followed, in lines.
const MAX_OFFSET: usize = 8;
const N_OFFSETS: usize = 2 * MAX_OFFSET + 1;
const SHIFT_COST: u32 = 80;
/// One line that does not match costs no more than this, however different it is.
const MAX_LINE_COST: u32 = 40;
const CHUNK: usize = 1 << 16;

/// Line lengths on a logarithmic scale, one byte a line, kept in chunks so that growing copies nothing.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    chunks: Vec<Vec<u8>>,
}

impl Lengths {
    /// Appends a line of `chars` characters: sixteen steps for each doubling.
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

/// The line, from 1, from which the two sides seem out of step; the end of the shorter side when they never are.
pub(crate) fn first_drift(source: &Lengths, target: &Lengths) -> u64 {
    let common = source.len().min(target.len());
    // (cost, line where the path left offset 0; 0 = never)
    let mut states = [(u32::MAX / 2, 0_u64); N_OFFSETS];
    states[MAX_OFFSET] = (0, 0);
    for line in 0..common {
        let here = source.get(line).unwrap_or_default();
        let mut next = states;
        for (index, state) in next.iter_mut().enumerate() {
            let there = (line + index).checked_sub(MAX_OFFSET).and_then(|other| target.get(other));
            let cost =
                there.map_or(MAX_LINE_COST, |there| u32::from(here.abs_diff(there)).min(MAX_LINE_COST));
            state.0 = state.0.saturating_add(cost);
        }
        // A source line without a partner: one more source line, the same target lines.
        for index in 0..N_OFFSETS - 1 {
            next[index] = next[index].min(shifted(states[index + 1], index + 1, line));
        }
        // A target line without a partner.
        for index in 1..N_OFFSETS {
            next[index] = next[index].min(shifted(next[index - 1], index - 1, line));
        }
        // Costs grow without bound; only their differences matter.
        let lowest = next.iter().map(|state| state.0).min().unwrap_or_default();
        states = next.map(|(cost, first)| (cost - lowest, first));
    }
    let extra = target.len() as i64 - source.len() as i64;
    let best = (0..N_OFFSETS).min_by_key(|&index| {
        let left_over = (extra - (index as i64 - MAX_OFFSET as i64)).unsigned_abs().min(100) as u32;
        states[index].0.saturating_add(left_over.saturating_mul(SHIFT_COST))
    });
    match best.map(|index| states[index].1) {
        Some(line) if line > 0 => line,
        _ => common as u64 + 1,
    }
}

/// The state after one shift away from offset `index` at `line`.
fn shifted((cost, first): (u32, u64), index: usize, line: usize) -> (u32, u64) {
    let first = if first == 0 && index == MAX_OFFSET { line as u64 + 1 } else { first };
    (cost.saturating_add(SHIFT_COST), first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyhead_random::Random;

    /// 2000 lines of 5 to 100 characters and translations of 0.8 to 1.3 times that length; `lost` target lines missing.
    fn guess(lost_source: &[usize], lost_target: &[usize]) -> u64 {
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
        first_drift(&source, &target)
    }

    #[test]
    fn a_lost_line_is_found_within_a_few_lines() {
        for lost in [30, 700, 1500, 1900] {
            assert!(guess(&[], &[lost]).abs_diff(lost as u64 + 1) <= 3, "{lost}: {}", guess(&[], &[lost]));
            assert!(guess(&[lost], &[]).abs_diff(lost as u64 + 1) <= 3, "{lost}: {}", guess(&[lost], &[]));
        }
    }

    #[test]
    fn of_several_the_first_is_named() {
        assert!(guess(&[], &[400, 401, 1200]).abs_diff(401) <= 3);
    }

    #[test]
    fn a_file_cut_short_drifts_at_its_end() {
        let cut: Vec<usize> = (1800..2000).collect();
        assert_eq!(guess(&[], &cut), 1801);
    }
}
