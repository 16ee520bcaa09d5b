//! Files of word vectors: round trips, files of other programs, damaged files.

use std::fs;
use std::path::{Path, PathBuf};

use polyhead_words::vectors::evaluate::{TestSet, analogies, similarity};
use polyhead_words::vectors::{
    Corpus, CorpusOptions, Format, SubwordOptions, TrainOptions, WordVectors, train,
};

use crate::vectors::two_topics;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vectors").join(name)
}

fn trained(subwords: Option<SubwordOptions>) -> WordVectors {
    let lines = two_topics(100);
    let corpus =
        Corpus::from_lines(lines.iter().map(String::as_str), &CorpusOptions::default()).expect("a corpus");
    let options = TrainOptions { dimensions: 7, subwords, ..TrainOptions::default() };
    train(&corpus, &options, &|_| true).expect("vectors")
}

#[test]
fn every_format_keeps_words_and_bits() {
    let folder = tempfile::tempdir().expect("a folder");
    let subwords = SubwordOptions { min_n: 2, max_n: 3, buckets: 40 };
    let vectors = trained(Some(subwords));
    for (name, format) in Format::NAMES {
        for suffix in ["", ".gz"] {
            if !suffix.is_empty() && matches!(format, Format::Word2vecBinary | Format::FastTextBinary) {
                continue;
            }
            let path = folder.path().join(format!("{name}{suffix}"));
            vectors.save(&path, format).expect(name);
            let read = WordVectors::load(&path).expect(name);
            assert_eq!(read.vocabulary().words(), vectors.vocabulary().words(), "{name}");
            assert_eq!(read.numbers(), vectors.numbers(), "{name}");
            assert_eq!(read.subwords().is_some(), format == Format::FastTextBinary);
        }
    }
    let again = WordVectors::load(&folder.path().join("fasttext")).expect("a model");
    assert_eq!(again.vector("unseen"), vectors.vector("unseen"));
    assert_ne!(again.vector("unseen"), again.vector("another"));
}

/// fastText's own model and vectors: see `tests/golden/vectors/make.py`.
#[test]
fn reads_a_model_of_fasttext() {
    let vectors = WordVectors::load(&golden("fasttext.bin")).expect("a model");
    let expected = fs::read_to_string(golden("fasttext.vectors")).expect("vectors");
    let mut n_lines = 0;
    for line in expected.lines() {
        let mut fields = line.split(' ');
        let word = fields.next().expect("a word");
        let numbers: Vec<f32> = fields.map(|field| field.parse().expect("a number")).collect();
        let found = vectors.vector(word).expect("a vector of every word");
        for (found, expected) in found.iter().zip(&numbers) {
            assert!((found - expected).abs() < 1e-6, "{word}: {found} {expected}");
        }
        n_lines += 1;
    }
    assert!(n_lines > 4);
}

#[test]
fn reads_binary_files_of_gensim() {
    let text = WordVectors::load(&golden("gensim.txt")).expect("text");
    let binary = WordVectors::load(&golden("gensim.bin")).expect("binary");
    assert_eq!(text.vocabulary().words(), binary.vocabulary().words());
    assert_eq!(text.numbers(), binary.numbers());
}

fn refused(name: &str, content: &[u8]) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file");
    let error = WordVectors::load(&path).expect_err("damaged");
    let message = error.to_string().replace(&path.display().to_string(), name);
    (message, error.hint())
}

#[test]
fn damaged_files_name_the_line() {
    let message = |content: &str| refused("v.txt", content.as_bytes()).0;
    assert_eq!(message("2 3\na 1 2 3\nb 1 2\n"), "v.txt:3: 2 numbers, expected 3");
    assert_eq!(message("2 3\na 1 2 3\nb 1 2 3 4\n"), "v.txt:3: 4 numbers, expected 3");
    assert_eq!(
        message("a 1 2 3\nb 1 2 3\nc 1 x 3\n"),
        "v.txt:3: \"x\" is no number, expected a word and 3 numbers"
    );
    assert_eq!(message("a 1 2\nb 1 NaN\n"), "v.txt:2: \"NaN\" is no number, expected a word and 2 numbers");
    assert_eq!(message("3 2\na 1 2\nb 1 2\n"), "v.txt:1: the first line promises 3 words, the file has 2");
    assert!(message("").contains("no word vectors"));
    assert!(message("1 0\n").contains("no word vectors") || message("1 0\n").contains("promises"));
    let words = WordVectors::load(&golden("gensim.bin")).expect("binary");
    let bytes = fs::read(golden("gensim.bin")).expect("binary");
    let (found, hint) = refused("v.bin", &bytes[..bytes.len() - 5]);
    assert!(found.contains("ends in word") || found.contains("promises"), "{found}");
    assert!(hint.contains("cut short") && !words.is_empty());
}

#[test]
fn quantised_models_are_refused_by_name() {
    let mut bytes = fs::read(golden("fasttext.bin")).expect("a model");
    let model = WordVectors::load(&golden("fasttext.bin")).expect("a model");
    // The byte before the input matrix says whether it is quantised; its size follows.
    let size = (model.len() + model.subwords().expect("n-grams").options.buckets) as i64;
    let at = bytes.windows(8).position(|window| window == size.to_le_bytes()).expect("the matrix");
    bytes[at - 1] = 1;
    assert!(refused("m.bin", &bytes).0.contains("quantised fastText model"));
    bytes[at - 1] = 0;
    assert!(refused("m.bin", &bytes[..bytes.len() - 9]).0.contains("ends too early"));
    bytes[4] = 11;
    assert!(refused("m.bin", &bytes).0.contains("version 11"));
}

#[test]
fn test_sets_are_read_and_scored() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    };
    let words = file("v.txt", "4 2\na 1 0\nb 1 0.1\nc 0 1\nd -1 0\n");
    let vectors = WordVectors::load(&words).expect("vectors");
    let pairs =
        TestSet::load(&file("pairs.txt", "Word 1,Word 2,Human (mean)\na,b,9\nA\tc\t4\na d 1\na e 3\n"));
    let TestSet::Similarity(pairs) = pairs.expect("pairs") else { panic!("pairs") };
    let found = similarity(&vectors, &pairs);
    assert_eq!((found.spearman, found.found, found.pairs), (1.0, 3, 4));
    let set = TestSet::load(&file("q.txt", ": letters\na b d c\na b c e\n"));
    let TestSet::Analogies(sections, questions) = set.expect("analogies") else { panic!("analogies") };
    let answers = analogies(&vectors, sections.len(), &questions, 10);
    assert_eq!((answers[0].found, answers[0].questions, answers[0].correct), (1, 2, 1));
    let error = TestSet::load(&file("bad.txt", "a b 1\na b\n")).expect_err("ragged").to_string();
    assert!(error.contains("bad.txt:2: \"a b\", expected two words and a number"), "{error}");
}
