//! Checks of labelled texts, and of sentences of words with tags, before a classifier is trained on them.
//!
//! One pass over the training and the validation text; about 40 bytes of memory per text: its hash, not the text, is stored.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use ahash::RandomState;
use serde::Serialize;

use super::pair_index::hasher;
use super::unreadable;
use crate::Result;
use crate::corpus::{Corpus, Pairs};

/// A problem of labelled texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelProblem {
    /// A row that cannot be read.
    Unreadable,
    /// A label of the validation text that no training text has.
    UnseenLabel,
    /// A text without a label.
    EmptyLabel,
    /// A row without text.
    EmptyText,
    /// A text that occurs with different labels.
    ConflictingLabels,
    /// A validation text that is also a training text.
    Leak,
    /// Labels that differ only in case or white space.
    SimilarLabels,
    /// A label that occurs once in the training text.
    RareLabel,
    /// The most frequent label occurs far more often than the least frequent one.
    Imbalance,
}

impl LabelProblem {
    /// All problems, the most severe first.
    pub const ALL: [Self; 9] = [
        Self::Unreadable,
        Self::UnseenLabel,
        Self::EmptyLabel,
        Self::EmptyText,
        Self::ConflictingLabels,
        Self::Leak,
        Self::SimilarLabels,
        Self::RareLabel,
        Self::Imbalance,
    ];

    /// True if a model cannot be trained on such text.
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::Unreadable | Self::UnseenLabel)
    }

    /// The problem in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable row",
            Self::UnseenLabel => "label unseen in training",
            Self::EmptyLabel => "text without a label",
            Self::EmptyText => "empty text",
            Self::ConflictingLabels => "same text, different labels",
            Self::Leak => "validation text in training",
            Self::SimilarLabels => "labels alike but for case or space",
            Self::RareLabel => "label that occurs once",
            Self::Imbalance => "imbalanced labels",
        }
    }
}

/// A row with a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelExample {
    /// The file.
    pub path: PathBuf,
    /// Line number, from 1.
    pub line: u64,
    /// Details: labels, counts, or an earlier row.
    pub detail: String,
}

/// Count and first rows of one problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelFinding {
    /// The problem.
    pub problem: LabelProblem,
    /// Rows with it, or labels where it is about a label.
    pub count: u64,
    /// The first ones.
    pub examples: Vec<LabelExample>,
}

/// Counts of one label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelCount {
    /// The label.
    pub label: String,
    /// Texts, or words, of the training text with it.
    pub count: u64,
    /// The same of the validation text.
    pub validation: u64,
}

/// Result of [`check_labels`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelReport {
    /// Training texts.
    pub texts: u64,
    /// Validation texts.
    pub validation_texts: u64,
    /// True if labels are tags of words.
    pub is_tagged: bool,
    /// The labels, the most frequent first.
    pub labels: Vec<LabelCount>,
    /// The most frequent label's count divided by that of the least frequent one; without the tag O. `None` with fewer than two
    /// labels in training.
    pub imbalance: Option<f64>,
    /// The problems that occur, the most severe first.
    pub findings: Vec<LabelFinding>,
}

impl LabelReport {
    /// True if a model can be trained on the text as it is.
    pub fn is_usable(&self) -> bool {
        !self.findings.iter().any(|finding| finding.problem.is_fatal())
    }
}

/// From this ratio of the most to the least frequent label on, labels are imbalanced.
const IMBALANCED: f64 = 10.0;
/// The tag of words outside of all spans.
const OUTSIDE: &str = "O";

/// Reads training and validation text once and reports the problems of their labels; `n_examples` rows of each.
///
/// ```
/// use polyhead_text::{corpus::Corpus, doctor::{LabelProblem, check_labels}};
/// # let folder = tempfile::tempdir()?; let path = folder.path().join("a.tsv");
/// std::fs::write(&path, "fine\tgood\nfine\tbad\nbad\tbad\nok\tgood\n")?;
/// let report = check_labels(&[Corpus::Tsv { path, source_column: 0, target_column: 1 }], &[], 5)?;
/// assert_eq!(report.findings[0].problem, LabelProblem::ConflictingLabels);
/// assert_eq!(report.findings[0].examples[0].line, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a file cannot be opened or read.
pub fn check_labels(training: &[Corpus], validation: &[Corpus], n_examples: usize) -> Result<LabelReport> {
    let mut checker = Checker::new(n_examples);
    for (part, corpora) in [(Part::Training, training), (Part::Validation, validation)] {
        for corpus in corpora {
            checker.read(corpus, part)?;
        }
    }
    checker.check_each_label();
    let is_tagged = training.iter().any(Corpus::is_tagged);
    Ok(checker.report(is_tagged))
}

/// Training or validation text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Training,
    Validation,
}

/// A row of a file.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// Index of its file.
    file: u32,
    line: u64,
}

/// What is known of a label.
#[derive(Debug)]
struct Known {
    counts: [u64; 2],
    first: Row,
}

/// A text, by its hash.
#[derive(Debug)]
struct Seen {
    first: Row,
    label: u64,
    part: Part,
}

struct Checker {
    files: Vec<PathBuf>,
    texts: [u64; 2],
    labels: BTreeMap<String, Known>,
    seen: HashMap<u64, Seen, RandomState>,
    hasher: RandomState,
    findings: [(u64, Vec<LabelExample>); LabelProblem::ALL.len()],
    n_examples: usize,
}

impl Checker {
    fn new(n_examples: usize) -> Self {
        Self {
            files: Vec::new(),
            texts: [0; 2],
            labels: BTreeMap::new(),
            seen: HashMap::with_hasher(hasher()),
            hasher: hasher(),
            findings: Default::default(),
            n_examples,
        }
    }

    fn read(&mut self, corpus: &Corpus, part: Part) -> Result<()> {
        self.files.push(corpus.source_path().to_owned());
        let file = (self.files.len() - 1) as u32;
        let mut pairs = corpus.pairs()?;
        loop {
            let read =
                pairs.next_pair().map(|pair| pair.map(|pair| [pair.source, pair.target].map(str::to_owned)));
            let row = Row { file, line: pairs.line() };
            match read {
                Ok(None) => return Ok(()),
                Ok(Some([text, label])) => self.add((&text, label.trim()), &pairs, row, part),
                Err(error) => {
                    let (_, detail) = unreadable(error)?;
                    self.found(LabelProblem::Unreadable, row, detail);
                }
            }
        }
    }

    fn add(&mut self, (text, label): (&str, &str), pairs: &Pairs, row: Row, part: Part) {
        self.texts[part as usize] += 1;
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            self.found(LabelProblem::EmptyText, row, String::new());
            return;
        }
        if label.is_empty() {
            self.found(LabelProblem::EmptyLabel, row, cut(text));
            return;
        }
        match pairs.words() {
            Some(tagged) => tagged.tags.iter().for_each(|tag| self.count(tag, row, part)),
            None => self.count(label, row, part),
        }
        let (hash, label) = (self.hasher.hash_one(&words), self.hasher.hash_one(label));
        let Some(Seen { first, label: known, part: of }) = self.seen.get(&hash) else {
            self.seen.insert(hash, Seen { first: row, label, part });
            return;
        };
        let detail = format!("also {}: {}", self.place(*first), cut(text));
        let (leaks, conflicts) = (part == Part::Validation && *of == Part::Training, *known != label);
        if leaks {
            self.found(LabelProblem::Leak, row, detail.clone());
        }
        if conflicts {
            self.found(LabelProblem::ConflictingLabels, row, detail);
        }
    }

    /// Counts a label.
    fn count(&mut self, label: &str, row: Row, part: Part) {
        let is_unseen =
            part == Part::Validation && self.labels.get(label).is_none_or(|known| known.counts[0] == 0);
        if is_unseen {
            self.found(LabelProblem::UnseenLabel, row, format!("{label:?}"));
        }
        if !self.labels.contains_key(label) {
            self.labels.insert(label.to_owned(), Known { counts: [0; 2], first: row });
        }
        self.labels.get_mut(label).expect("it was inserted above").counts[part as usize] += 1;
    }

    /// Finds what is wrong with a label as such, once all text is read.
    fn check_each_label(&mut self) {
        let mut alike: BTreeMap<String, &String> = BTreeMap::new();
        let mut found: Vec<(LabelProblem, Row, String)> = Vec::new();
        for (label, Known { counts, first }) in &self.labels {
            if counts[0] == 1 {
                found.push((LabelProblem::RareLabel, *first, format!("{label:?}")));
            }
            let plain = label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
            if let Some(other) = alike.insert(plain, label) {
                found.push((LabelProblem::SimilarLabels, *first, format!("{label:?} and {other:?}")));
            }
        }
        if let Some([most, least]) =
            self.extremes().filter(|[most, least]| ratio(*most, *least) >= IMBALANCED)
        {
            let ([most, least], ratio) =
                ([most, least].map(|own| (own.0, own.1.counts[0])), ratio(most, least));
            let detail =
                format!("{:?} {} times, {:?} {} times ({ratio:.0} to 1)", most.0, most.1, least.0, least.1);
            let row = self.labels[least.0].first;
            found.push((LabelProblem::Imbalance, row, detail));
        }
        for (problem, row, detail) in found {
            self.found(problem, row, detail);
        }
    }

    /// The most and the least frequent label of the training text, but for the tag O.
    fn extremes(&self) -> Option<[(&String, &Known); 2]> {
        let known = || self.labels.iter().filter(|(label, own)| own.counts[0] > 0 && *label != OUTSIDE);
        let most = known().max_by_key(|(_, own)| own.counts[0])?;
        let least = known().min_by_key(|(_, own)| own.counts[0])?;
        (most.0 != least.0).then_some([most, least])
    }

    fn found(&mut self, problem: LabelProblem, row: Row, detail: String) {
        let (count, examples) = &mut self.findings[problem as usize];
        *count += 1;
        if examples.len() < self.n_examples {
            let path = self.files[row.file as usize].clone();
            examples.push(LabelExample { path, line: row.line, detail });
        }
    }

    fn place(&self, row: Row) -> String {
        format!("{}:{}", self.files[row.file as usize].display(), row.line)
    }

    fn report(self, is_tagged: bool) -> LabelReport {
        let imbalance = self.extremes().map(|[most, least]| ratio(most, least));
        let findings = LabelProblem::ALL.into_iter().zip(self.findings).filter(|(_, (count, _))| *count > 0);
        let findings =
            findings.map(|(problem, (count, examples))| LabelFinding { problem, count, examples }).collect();
        let counts =
            |(label, Known { counts: [count, validation], .. })| LabelCount { label, count, validation };
        let mut labels: Vec<LabelCount> = self.labels.into_iter().map(counts).collect();
        labels.sort_by_key(|own| std::cmp::Reverse(own.count));
        let [texts, validation_texts] = self.texts;
        LabelReport { texts, validation_texts, is_tagged, labels, imbalance, findings }
    }
}

fn ratio(most: (&String, &Known), least: (&String, &Known)) -> f64 {
    most.1.counts[0] as f64 / least.1.counts[0] as f64
}

/// The first characters of a text.
fn cut(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(training: &str, validation: &str) -> (LabelReport, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let corpus = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            match name {
                "train.conll" | "valid.conll" => Corpus::Conll { path, word_column: None, tag_column: None },
                _ => Corpus::Tsv { path, source_column: 0, target_column: 1 },
            }
        };
        let ending = if training.contains("\n\n") { "conll" } else { "tsv" };
        let [training, validation] = [("train", training), ("valid", validation)]
            .map(|(name, text)| corpus(&format!("{name}.{ending}"), text));
        let report = check_labels(&[training], &[validation], 2).unwrap();
        let mut shown = Vec::new();
        for finding in &report.findings {
            for LabelExample { path, line, detail } in &finding.examples {
                let name = path.file_name().unwrap().to_string_lossy();
                let detail = detail.replace(&format!("{}/", folder.path().display()), "");
                shown.push(format!("{:?} {}: {name}:{line} {detail}", finding.problem, finding.count));
            }
        }
        (report, shown)
    }

    #[test]
    fn every_planted_problem_is_found_with_its_line() {
        let good = "a 0\tgood\na 1\tgood\na 2\tgood\na 3\tgood\na 4\tgood\na 5\tgood\na 6\tgood\na 7\tgood\n";
        let training =
            format!("{good}b\tbad\n\tgood\nc\t\nfine  film\tgood\nfine film\tbad\nonly text\nd\tGood\n");
        let (report, shown) = check(&training, "a 3\tgood\ne\tugly\nb\tgood\n");
        assert_eq!(
            shown,
            [
                "Unreadable 1: train.tsv:14 1 tab-separated column, expected a column 2",
                "UnseenLabel 1: valid.tsv:2 \"ugly\"",
                "EmptyLabel 1: train.tsv:11 c",
                "EmptyText 1: train.tsv:10 ",
                "ConflictingLabels 2: train.tsv:13 also train.tsv:12: fine film",
                "ConflictingLabels 2: valid.tsv:3 also train.tsv:9: b",
                "Leak 2: valid.tsv:1 also train.tsv:4: a 3",
                "Leak 2: valid.tsv:3 also train.tsv:9: b",
                "SimilarLabels 1: train.tsv:1 \"good\" and \"Good\"",
                "RareLabel 1: train.tsv:15 \"Good\"",
            ]
        );
        assert!(!report.is_usable());
        assert_eq!((report.texts, report.validation_texts, report.imbalance), (14, 3, Some(9.0)));
        let first = LabelCount { label: "good".into(), count: 9, validation: 2 };
        assert_eq!(report.labels[0], first);
    }

    #[test]
    fn tags_are_counted_by_word_and_o_is_no_imbalance() {
        let sentence = "Ada\tB-PER\nslept\tO\nwell\tO\n\n".repeat(12);
        let (report, shown) = check(&format!("{sentence}Rome\tB-LOC\n\n"), "Ada\tB-PER\nslept\tB-X\n\n");
        assert_eq!(
            shown,
            [
                "UnseenLabel 1: valid.conll:1 \"B-X\"",
                "RareLabel 1: train.conll:49 \"B-LOC\"",
                "Imbalance 1: train.conll:49 \"B-PER\" 12 times, \"B-LOC\" 1 times (12 to 1)",
            ]
        );
        assert!(report.is_tagged);
        assert_eq!(report.labels[0], LabelCount { label: "O".into(), count: 24, validation: 0 });
    }
}
