//! Evaluation of word vectors: correlation with judgements of similarity, and analogies.

use std::path::Path;

use polyhead_text::lines::Lines;
use polyhead_text::metrics::{pearson, spearman};

use super::WordVectors;
use super::nearest::{Cosines, cosine};
use crate::{Error, Result};

/// Questions that are answered together.
const BATCH: usize = 256;

/// A pair of words and how similar people find them.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedPair {
    /// The two words.
    pub words: [String; 2],
    /// The judgement; only its order counts.
    pub score: f64,
}

/// An analogy: the first is to the second as the third is to the fourth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analogy {
    /// The four words.
    pub words: [String; 4],
    /// Index of its section.
    pub section: usize,
}

/// A test set.
#[derive(Debug, Clone, PartialEq)]
pub enum TestSet {
    /// Pairs with judgements: WordSim-353, SimLex-999, MEN.
    Similarity(Vec<JudgedPair>),
    /// Sections and their questions: Google's questions-words.
    Analogies(Vec<String>, Vec<Analogy>),
}

impl TestSet {
    /// Reads a file, plain or gzip: analogies if its first line begins with `:`, otherwise two words and a number on each line.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is neither; the message names the line.
    pub fn load(path: &Path) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let (mut pairs, mut sections, mut analogies) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(line) = lines.next_text()? {
            let line = line.trim().to_owned();
            let fields: Vec<&str> =
                line.split([' ', '\t', ';', ',']).filter(|field| !field.is_empty()).collect();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(section) = line.strip_prefix(':') {
                sections.push(section.trim().to_owned());
            } else if let (false, [a, b, c, d]) = (sections.is_empty(), &fields[..]) {
                let words = [a, b, c, d].map(|word| (*word).to_owned());
                analogies.push(Analogy { words, section: sections.len() - 1 });
            } else if let (true, [a, b, score, ..]) = (sections.is_empty(), &fields[..])
                && let Ok(score) = score.parse::<f64>()
            {
                pairs.push(JudgedPair { words: [(*a).to_owned(), (*b).to_owned()], score });
            } else if pairs.is_empty() && sections.is_empty() && lines.line() == 1 {
                // A line of column names.
            } else {
                let expected = if sections.is_empty() { "two words and a number" } else { "four words" };
                return Err(Error::line(
                    path,
                    lines.line(),
                    format!("{line:?}, expected {expected}"),
                    "a test set has a pair and its score on each line, or analogies of four words below \": section\"",
                ));
            }
        }
        match (pairs.is_empty(), analogies.is_empty()) {
            (false, _) => Ok(Self::Similarity(pairs)),
            (true, false) => Ok(Self::Analogies(sections, analogies)),
            (true, true) => Err(polyhead_text::Error::Empty { what: path.display().to_string() }.into()),
        }
    }
}

/// Agreement with judgements of similarity.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Agreement {
    /// Spearman's rank correlation, −1 to 1.
    pub spearman: f64,
    /// Pearson's correlation, −1 to 1.
    pub pearson: f64,
    /// Pairs of which both words have a vector; the others are left out.
    pub found: usize,
    /// All pairs.
    pub pairs: usize,
}

/// Correlation of cosines with judgements, over the pairs of which both words have a vector.
pub fn similarity(vectors: &WordVectors, pairs: &[JudgedPair]) -> Agreement {
    let compared: Vec<[f64; 2]> = pairs
        .iter()
        .filter_map(|pair| {
            let [a, b] = [&pair.words[0], &pair.words[1]].map(|word| vectors.vector(word));
            Some([pair.score, f64::from(cosine(&a?, &b?))])
        })
        .collect();
    let column = |at: usize| compared.iter().map(|row| row[at]).collect::<Vec<f64>>();
    let (judged, found) = (column(0), column(1));
    Agreement {
        spearman: spearman(&judged, &found),
        pearson: pearson(&judged, &found),
        found: compared.len(),
        pairs: pairs.len(),
    }
}

/// Answered analogies.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Answers {
    /// Questions whose best answer is the expected word.
    pub correct: usize,
    /// Questions of which all four words are among the compared ones; the others are left out.
    pub found: usize,
    /// All questions.
    pub questions: usize,
}

impl Answers {
    /// Share of correct answers.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.found.max(1) as f64
    }
}

/// Answers of analogies by 3CosAdd among the first `among` words, for each section.
pub fn analogies(
    vectors: &WordVectors,
    sections: usize,
    questions: &[Analogy],
    among: usize,
) -> Vec<Answers> {
    let cosines = Cosines::new(vectors, among);
    let mut answers = vec![Answers::default(); sections];
    for question in questions {
        answers[question.section].questions += 1;
    }
    let ids = |question: &Analogy| {
        let ids: Vec<u32> = question.words.iter().filter_map(|word| vectors.id(word)).collect();
        (ids.len() == 4 && ids.iter().all(|&id| (id as usize) < cosines.among())).then(|| ids[3])
    };
    let known: Vec<(&Analogy, u32)> =
        questions.iter().filter_map(|question| Some((question, ids(question)?))).collect();
    for batch in known.chunks(BATCH) {
        let queries: Vec<(Vec<f32>, Vec<u32>)> = batch
            .iter()
            .map(|(question, _)| {
                let [a, b, c, _] = &question.words;
                cosines.analogy([a, b, c]).expect("all words are known")
            })
            .collect();
        for ((question, expected), nearest) in batch.iter().zip(cosines.nearest_of_all(&queries, 1)) {
            let answers = &mut answers[question.section];
            answers.found += 1;
            answers.correct += usize::from(nearest.first().is_some_and(|best| best.id == *expected));
        }
    }
    answers
}
