//! GloVe: counts by hand, the ratio table of the paper, bits on any number of threads.

use polyhead_words::vectors::{Cooccurrences, Corpus, CorpusOptions, GloveOptions, cosine, train_glove};

use crate::vectors::two_topics;

fn corpus<'a>(lines: impl IntoIterator<Item = &'a str>) -> Corpus {
    Corpus::from_lines(lines, &CorpusOptions { min_count: 1, ..CorpusOptions::default() }).expect("a corpus")
}

fn counted(corpus: &Corpus, window: usize) -> Cooccurrences {
    Cooccurrences::count(corpus, window, 64 << 20, &|_| ()).expect("counts")
}

fn ids(corpus: &Corpus, words: &[&str]) -> Vec<u32> {
    words.iter().map(|word| corpus.vocabulary().id(word).expect("a word")).collect()
}

/// "a b c", window 2: b beside a and c counts 1, c two words from a counts ½.
#[test]
fn counts_by_hand() {
    let corpus = corpus(["a b c", "a"]);
    let counts = counted(&corpus, 2);
    assert_eq!(counts.len(), 6);
    let [a, b, c] = ids(&corpus, &["a", "b", "c"])[..] else { panic!("three words") };
    let found = counts.probabilities(&[a, b], &[a, b, c]).expect("probabilities");
    assert_eq!(found, [vec![0.0, 2.0 / 3.0, 1.0 / 3.0], vec![0.5, 0.0, 0.5]]);
}

/// Worked example: P(k|ice) / P(k|steam) is 8.9 for solid, 0.085 for gas, 1.36 for water and 0.96 for fashion, on a text made to
/// have these ratios.
#[test]
fn ratios_of_the_paper() {
    let pairs = [
        ("ice solid", 890),
        ("steam solid", 100),
        ("ice gas", 85),
        ("steam gas", 1000),
        ("ice water", 1360),
        ("steam water", 1000),
        ("ice fashion", 96),
        ("steam fashion", 100),
        ("cold ice", 569),
        ("hot steam", 800),
    ];
    let lines = pairs.iter().flat_map(|(line, n)| std::iter::repeat_n(*line, *n));
    let corpus = corpus(lines);
    let columns = ids(&corpus, &["solid", "gas", "water", "fashion"]);
    let found = counted(&corpus, 5).probabilities(&ids(&corpus, &["ice", "steam"]), &columns).expect("rows");
    for (at, expected) in [8.9, 0.085, 1.36, 0.96].into_iter().enumerate() {
        let ratio = found[0][at] / found[1][at];
        assert!((ratio - expected).abs() < 1e-9, "{ratio}, expected {expected}");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let lines = two_topics(300);
    let corpus = corpus(lines.iter().map(String::as_str));
    let options = GloveOptions { dimensions: 13, epochs: 12, ..GloveOptions::default() };
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            train_glove(corpus.vocabulary(), &counted(&corpus, 5), &options, &mut |_, _| ()).expect("vectors")
        })
    };
    let one = on(1);
    assert_eq!(one.numbers(), on(2).numbers());
    assert_eq!(one.numbers(), on(3).numbers());
    let row = |word: &str| one.vector(word).expect("a word").into_owned();
    assert!(cosine(&row("cat"), &row("dog")) > cosine(&row("cat"), &row("two")) + 0.3);
}

#[test]
fn the_error_falls() {
    let lines = two_topics(200);
    let corpus = corpus(lines.iter().map(String::as_str));
    let options = GloveOptions { dimensions: 8, epochs: 20, ..GloveOptions::default() };
    let mut errors = Vec::new();
    train_glove(corpus.vocabulary(), &counted(&corpus, 5), &options, &mut |_, error| errors.push(error))
        .expect("vectors");
    assert!(errors[19] < 0.2 * errors[0], "{errors:?}");
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let corpus = corpus(["a", "b", "a", "b"]);
    let counts = counted(&corpus, 5);
    let refused = train_glove(corpus.vocabulary(), &counts, &GloveOptions::default(), &mut |_, _| ());
    assert!(refused.expect_err("no pairs").to_string().contains("no two words occur on one line"));
    let refused = Cooccurrences::count(&corpus, 5, 1000, &|_| ()).expect_err("too little");
    assert!(refused.to_string().contains("expected at least 16 MiB"));
}
