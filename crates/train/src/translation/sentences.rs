//! Many sentences as ids in one contiguous buffer.

/// Sentences, each ended by its end token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sentences {
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl Sentences {
    /// Appends a sentence.
    pub(crate) fn push(&mut self, ids: &[u32], end_id: u32) {
        self.ids.extend_from_slice(ids);
        self.ids.push(end_id);
        self.ends.push(self.ids.len());
    }

    /// Appends the sentence at `index` once more.
    pub(crate) fn push_again(&mut self, index: usize) {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.ids.extend_from_within(start..self.ends[index]);
        self.ends.push(self.ids.len());
    }

    /// Appends a sentence of other sentences.
    pub(crate) fn push_from(&mut self, others: &Self, index: usize) {
        self.ids.extend_from_slice(others.get(index));
        self.ends.push(self.ids.len());
    }

    /// The ids of a sentence, the end token last.
    pub(crate) fn get(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.ids[start..self.ends[index]]
    }

    /// Total number of tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_come_back_with_their_end() {
        let mut sentences = Sentences::default();
        sentences.push(&[5, 6], 2);
        sentences.push(&[], 2);
        sentences.push(&[7], 2);
        assert_eq!([0, 1, 2].map(|index| sentences.get(index)), [&[5, 6, 2][..], &[2], &[7, 2]]);
        assert_eq!(sentences.tokens(), 6);
    }
}
