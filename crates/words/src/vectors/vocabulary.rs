//! The vocabulary of a corpus: its frequent words, the most frequent first.

use ahash::AHashMap;

/// Words with their counts, by descending count; words of equal count by spelling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    counts: Vec<u64>,
    index: AHashMap<String, u32>,
}

impl Vocabulary {
    /// The vocabulary of `words` with their counts, in the order given; of a repeated word the first counts.
    pub fn new(entries: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut vocabulary = Self::default();
        for (word, count) in entries {
            let id = vocabulary.words.len() as u32;
            vocabulary.index.entry(word.clone()).or_insert(id);
            vocabulary.words.push(word);
            vocabulary.counts.push(count);
        }
        vocabulary
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// True if there is no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The words, by id.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Occurrences of each word in the training text, by id; 0 where a file does not say.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The id of `word`.
    pub fn id(&self, word: &str) -> Option<u32> {
        self.index.get(word).copied()
    }

    /// The word with this id.
    pub fn word(&self, id: u32) -> &str {
        &self.words[id as usize]
    }
}
