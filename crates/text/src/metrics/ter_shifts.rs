//! The edits of TER: insertions, deletions and substitutions of words, and shifts of word sequences, each of cost one.
//!
//! Finding the minimum is NP-hard with shifts. The search is greedy (Snover et al. 2006): of all shifts that move a
//! word sequence to its position in the reference, apply the one that lowers the edit distance most, until none lowers
//! it. Limits and tie-breaking are those of sacreBLEU, so that the scores are equal: a beam around the diagonal of the
//! distance matrix, sequences of up to ten words, moves of up to fifty words, a thousand shifts tried.

use std::ops::Range;

const MAX_SHIFT_LEN: usize = 10;
const MAX_SHIFT_DISTANCE: usize = 50;
const MAX_SHIFTS_TRIED: usize = 1000;
const BEAM_WIDTH: usize = 25;
/// Cost of a cell outside the beam: above every real cost, and far from overflow.
const UNREACHED: u32 = u32::MAX / 2;

/// Number of edits that turn `hypothesis` into `reference`.
pub(crate) fn edits(hypothesis: &[u32], reference: &[u32]) -> usize {
    if reference.is_empty() {
        return hypothesis.len();
    }
    let mut search = ShiftSearch::new(hypothesis, reference);
    let mut shifts = 0;
    while let Some(shifted) = search.best_shift() {
        search.replace_words(shifted);
        shifts += 1;
    }
    shifts + search.cost() as usize
}

/// A move of `len` words of the hypothesis from `start` to before the word at `target`.
#[derive(Clone, Copy)]
struct Shift {
    start: usize,
    len: usize,
    target: usize,
}

/// Search state: the matrix of edit distances between prefixes of the words and of the reference.
struct ShiftSearch<'a> {
    reference: &'a [u32],
    words: Vec<u32>,
    /// Edit distances, row by row, (words + 1) × (reference + 1).
    costs: Vec<u32>,
    tried: usize,
    /// Buffers for one shift: the shifted words, and two rows.
    shifted: Vec<u32>,
    rows: [Vec<u32>; 2],
}

/// Alignment of hypothesis and reference by an optimal edit sequence.
struct Alignment {
    /// Per reference word, the number of hypothesis words before or at it.
    position: Vec<usize>,
    /// Per reference word, true if it is substituted or missing.
    reference_errors: Vec<bool>,
    /// Per hypothesis word, true if it is substituted or superfluous.
    word_errors: Vec<bool>,
}

impl<'a> ShiftSearch<'a> {
    fn new(words: &[u32], reference: &'a [u32]) -> Self {
        let row = vec![UNREACHED; reference.len() + 1];
        let mut search = Self {
            reference,
            words: Vec::new(),
            costs: Vec::new(),
            tried: 0,
            shifted: Vec::with_capacity(words.len()),
            rows: [row.clone(), row],
        };
        search.replace_words(words.to_vec());
        search
    }

    fn replace_words(&mut self, words: Vec<u32>) {
        let width = self.reference.len() + 1;
        self.costs.clear();
        self.costs.extend(0..width as u32);
        self.costs.resize(width * (words.len() + 1), UNREACHED);
        self.words = words;
        for row in 1..=self.words.len() {
            let columns = self.beam(row);
            let (above, current) = self.costs[(row - 1) * width..(row + 1) * width].split_at_mut(width);
            fill_row(self.words[row - 1], self.reference, columns, above, current);
        }
    }

    fn cost(&self) -> u32 {
        *self.costs.last().expect("the first row is never empty")
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.costs[row * (self.reference.len() + 1) + column]
    }

    /// Columns of `row` inside the beam. The last row reaches the end, so the last cell always has a value.
    fn beam(&self, row: usize) -> Range<usize> {
        let end = self.reference.len() + 1;
        let ratio = self.reference.len() as f64 / self.words.len() as f64;
        let width = if ratio / 2.0 > BEAM_WIDTH as f64 {
            // Otherwise the beams of successive rows would not overlap.
            (ratio / 2.0 + BEAM_WIDTH as f64).ceil() as usize
        } else {
            BEAM_WIDTH
        };
        let diagonal = (row as f64 * ratio).floor() as usize;
        let last = if row == self.words.len() { end } else { end.min(diagonal + width) };
        diagonal.saturating_sub(width)..last
    }

    /// The words after the shift that lowers the cost most; `None` if none does, or after too many tries.
    fn best_shift(&mut self) -> Option<Vec<u32>> {
        let alignment = self.alignment();
        let before = i64::from(self.cost());
        let mut best = None;
        'pairs: for start in 0..self.words.len() {
            let nearest = start.saturating_sub(MAX_SHIFT_DISTANCE);
            for goal in nearest..self.reference.len().min(start + MAX_SHIFT_DISTANCE + 1) {
                for len in 1..=self.common_len(start, goal) {
                    if !alignment.allows(start, goal, len) {
                        continue;
                    }
                    for target in alignment.targets(goal, len) {
                        let shift = Shift { start, len, target };
                        let gain = before - i64::from(self.cost_after(shift));
                        // More gain, then more words, then the earlier sequence, then the earlier target.
                        let rank = (gain, len, -(start as i64), -(target as i64));
                        if best.is_none_or(|(highest, _)| rank > highest) {
                            best = Some((rank, shift));
                        }
                        self.tried += 1;
                    }
                    if self.tried >= MAX_SHIFTS_TRIED {
                        break 'pairs;
                    }
                }
            }
        }
        let ((gain, ..), shift) = best?;
        if gain <= 0 || self.tried >= MAX_SHIFTS_TRIED {
            return None;
        }
        let mut words = Vec::new();
        shift.apply(&self.words, &mut words);
        Some(words)
    }

    /// Number of words from `start` on that equal those of the reference from `goal` on.
    fn common_len(&self, start: usize, goal: usize) -> usize {
        let pairs = self.words[start..].iter().zip(&self.reference[goal..]).take(MAX_SHIFT_LEN);
        pairs.take_while(|(word, reference)| word == reference).count()
    }

    /// The edit distance after `shift`; rows above the first word that changes are those of the unshifted words.
    fn cost_after(&mut self, shift: Shift) -> u32 {
        shift.apply(&self.words, &mut self.shifted);
        let width = self.reference.len() + 1;
        let unchanged = shift.start.min(shift.target);
        let [mut above, mut current] = std::mem::take(&mut self.rows);
        above.copy_from_slice(&self.costs[unchanged * width..(unchanged + 1) * width]);
        for row in unchanged + 1..=self.words.len() {
            current.fill(UNREACHED);
            fill_row(self.shifted[row - 1], self.reference, self.beam(row), &above, &mut current);
            std::mem::swap(&mut above, &mut current);
        }
        let cost = above[width - 1];
        self.rows = [above, current];
        cost
    }

    /// Backtracks through the matrix; among equal costs it prefers a match or substitution, then a deletion.
    fn alignment(&self) -> Alignment {
        let (mut row, mut column) = (self.words.len(), self.reference.len());
        let mut alignment = Alignment {
            position: vec![0; column],
            reference_errors: vec![false; column],
            word_errors: vec![false; row],
        };
        while row > 0 || column > 0 {
            let differs = row > 0 && column > 0 && self.words[row - 1] != self.reference[column - 1];
            let replaces = row > 0
                && column > 0
                && self.at(row - 1, column - 1) + u32::from(differs) == self.at(row, column);
            if replaces {
                alignment.position[column - 1] = row;
                alignment.reference_errors[column - 1] = differs;
                alignment.word_errors[row - 1] = differs;
                (row, column) = (row - 1, column - 1);
            } else if row > 0 && (column == 0 || self.at(row - 1, column) + 1 == self.at(row, column)) {
                alignment.word_errors[row - 1] = true;
                row -= 1;
            } else {
                alignment.position[column - 1] = row;
                alignment.reference_errors[column - 1] = true;
                column -= 1;
            }
        }
        alignment
    }
}

impl Alignment {
    /// True if `len` words may move from `start` to `goal`: there must be an error at both ends, and the target must be
    /// outside the sequence.
    fn allows(&self, start: usize, goal: usize, len: usize) -> bool {
        self.word_errors[start..start + len].contains(&true)
            && self.reference_errors[goal..goal + len].contains(&true)
            && !(start + 1..=start + len).contains(&self.position[goal])
    }

    /// Targets next to the words aligned with the reference around `goal`.
    fn targets(&self, goal: usize, len: usize) -> Vec<usize> {
        let before = if goal == 0 { 0 } else { self.position[goal - 1] };
        let mut targets = vec![before];
        targets.extend_from_slice(&self.position[goal..goal + len]);
        targets.dedup();
        targets
    }
}

impl Shift {
    /// Writes the shifted `words` to `out`. A target inside the sequence counts from its end.
    fn apply(self, words: &[u32], out: &mut Vec<u32>) {
        let end = self.start + self.len;
        out.clear();
        if self.target < self.start {
            out.extend_from_slice(&words[..self.target]);
            out.extend_from_slice(&words[self.start..end]);
            out.extend_from_slice(&words[self.target..self.start]);
            out.extend_from_slice(&words[end..]);
        } else {
            let target =
                if self.target > end { self.target } else { words.len().min(self.target + self.len) };
            out.extend_from_slice(&words[..self.start]);
            out.extend_from_slice(&words[end..target]);
            out.extend_from_slice(&words[self.start..end]);
            out.extend_from_slice(&words[target..]);
        }
    }
}

/// Computes one row of the matrix, for `word`, in `columns`; other cells are unchanged.
fn fill_row(word: u32, reference: &[u32], columns: Range<usize>, above: &[u32], current: &mut [u32]) {
    for column in columns {
        current[column] = if column == 0 {
            above[0] + 1
        } else {
            let replaced = above[column - 1] + u32::from(word != reference[column - 1]);
            replaced.min(above[column] + 1).min(current[column - 1] + 1).min(UNREACHED)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_counts_once() {
        assert_eq!(edits(&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]), 0);
        assert_eq!(edits(&[4, 5, 1, 2, 3], &[1, 2, 3, 4, 5]), 1);
        assert_eq!(edits(&[4, 5, 1, 2, 9], &[1, 2, 3, 4, 5]), 2);
    }

    #[test]
    fn empty_sides_cost_the_other() {
        assert_eq!(edits(&[], &[1, 2]), 2);
        assert_eq!(edits(&[1, 2, 3], &[]), 3);
        assert_eq!(edits(&[], &[]), 0);
    }
}
