//! Training of word vectors: laws, learnt structure, worked examples.

use polyhead_words::vectors::{
    Architecture, Corpus, CorpusOptions, Cosines, Loss, PhraseOptions, SubwordOptions, Tokenization,
    TrainOptions, WordVectors, cosine, train, window,
};

/// Lines about animals and about numbers; words of one topic never meet those of the other.
pub(crate) fn two_topics(n_lines: usize) -> Vec<String> {
    let topics = [
        ["cat", "dog", "mouse", "horse", "cow", "sheep", "goat", "hen", "duck", "pig"],
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    ];
    let random = polyhead_random::Random::new(5);
    let line = |number: usize| {
        let topic = topics[number % 2];
        let word = |at: u64| topic[random.below(topic.len(), number as u64 * 16 + at)];
        (0..8).map(word).collect::<Vec<_>>().join(" ")
    };
    (0..n_lines).map(line).collect()
}

fn corpus(lines: &[String]) -> Corpus {
    Corpus::from_lines(lines.iter().map(String::as_str), &CorpusOptions::default()).expect("a corpus")
}

/// Every kind of model, small.
fn kinds() -> Vec<(&'static str, TrainOptions)> {
    let small =
        TrainOptions { dimensions: 20, epochs: 3, rate: 0.05, sample: 0.1, ..TrainOptions::default() };
    let subwords = SubwordOptions { min_n: 2, max_n: 4, buckets: 500 };
    vec![
        ("skip-gram", small.clone()),
        ("cbow", TrainOptions { architecture: Architecture::Cbow, ..small.clone() }),
        ("skip-gram hs", TrainOptions { loss: Loss::HierarchicalSoftmax, ..small.clone() }),
        (
            "cbow hs",
            TrainOptions {
                loss: Loss::HierarchicalSoftmax,
                architecture: Architecture::Cbow,
                ..small.clone()
            },
        ),
        ("subwords", TrainOptions { subwords: Some(subwords), ..small }),
    ]
}

fn bits(vectors: &WordVectors) -> Vec<u32> {
    vectors.numbers().iter().map(|number| number.to_bits()).collect()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let corpus = corpus(&two_topics(250));
    for (name, options) in kinds() {
        let of = |threads| {
            bits(&train(&corpus, &TrainOptions { threads, ..options.clone() }, &|_| true).expect(name))
        };
        let one = of(1);
        assert!(one.iter().any(|&bits| bits != one[0]));
        assert_eq!(one, of(2), "{name}: 2 threads");
        assert_eq!(one, of(3), "{name}: 3 threads");
        let other = TrainOptions { seed: 2, ..options.clone() };
        assert_ne!(one, bits(&train(&corpus, &other, &|_| true).expect(name)), "{name}: seeds differ");
    }
}

/// Bits that every instruction set must give: run with POLYHEAD_ISA=portable, avx2 and avx512.
#[test]
fn bits_are_those_of_every_instruction_set() {
    let corpus = corpus(&two_topics(200));
    let fold = |name: &str, options: &TrainOptions| {
        let numbers = bits(&train(&corpus, options, &|_| true).expect(name));
        numbers.iter().fold(0_u32, |sum, bits| sum.rotate_left(5) ^ bits)
    };
    let found: Vec<(&str, u32)> =
        kinds().iter().map(|(name, options)| (*name, fold(name, options))).collect();
    assert_eq!(found, EXPECTED_BITS);
}

const EXPECTED_BITS: [(&str, u32); 5] = [
    ("skip-gram", 2_634_833_329),
    ("cbow", 1_631_580_448),
    ("skip-gram hs", 722_811_117),
    ("cbow hs", 1_128_559_675),
    ("subwords", 2_859_992_510),
];

#[test]
fn words_of_one_topic_are_neighbours() {
    let corpus = corpus(&two_topics(1000));
    let animals = ["cat", "dog", "mouse", "horse", "cow", "sheep", "goat", "hen", "duck", "pig"];
    for (name, options) in kinds() {
        let options = TrainOptions { epochs: 15, ..options };
        let vectors = train(&corpus, &options, &|_| true).expect(name);
        let row = |word: &str| vectors.vector(word).expect("a word").into_owned();
        let cat = row("cat");
        let to_cat = |words: [&str; 9]| words.map(|word| cosine(&cat, &row(word))).iter().sum::<f32>() / 9.0;
        let near = to_cat(animals[1..].try_into().expect("nine"));
        let far = to_cat(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]);
        assert!(near > far + 0.4, "{name}: {near} to animals, {far} to numbers");
    }
}

#[test]
fn stopping_early_ends_training() {
    let corpus = corpus(&two_topics(250));
    let options = TrainOptions { epochs: 100_000, ..TrainOptions::default() };
    let vectors = train(&corpus, &options, &|progress| progress.words < 20_000).expect("vectors");
    assert_eq!(vectors.len(), 20);
}

/// Worked example: window 2, "the professor is scribbling on the board and the student is writing down the scribbles".
#[test]
fn contexts_of_the_lecture() {
    let text = "the professor is scribbling on the board and the student is writing down the scribbles";
    let words: Vec<&str> = text.split(' ').collect();
    let context = |word: &str| {
        let position = words.iter().position(|other| *other == word).expect("a word of the text");
        let range = window(0..words.len(), position, 2);
        range.filter(|&at| at != position).map(|at| words[at]).collect::<Vec<_>>()
    };
    assert_eq!(context("professor"), ["the", "is", "scribbling"]);
    assert_eq!(context("student"), ["and", "the", "is", "writing"]);
}

#[test]
fn rare_words_are_dropped_and_order_is_by_count() {
    let options = CorpusOptions { min_count: 2, ..CorpusOptions::default() };
    let corpus = Corpus::from_lines(["b a b c", "A b c once"], &options).expect("a corpus");
    assert_eq!(corpus.vocabulary().words(), ["b", "a", "c"]);
    assert_eq!(corpus.vocabulary().counts(), [3, 2, 2]);
    assert_eq!(corpus.n_words(), 8);
    let spaces = CorpusOptions { tokenization: Tokenization::Spaces, min_count: 1, ..options };
    let corpus = Corpus::from_lines(["b, a A"], &spaces).expect("a corpus");
    assert_eq!(corpus.vocabulary().words(), ["A", "a", "b,"]);
}

#[test]
fn phrases_are_joined() {
    let mut lines = two_topics(400);
    let with_phrase = |pair: &[String]| format!("{} new york {}", pair[0], pair[1]);
    let more: Vec<String> = lines.windows(2).take(40).map(with_phrase).collect();
    lines.extend(more);
    let options = CorpusOptions {
        phrases: Some(PhraseOptions { threshold: 50.0, ..PhraseOptions::default() }),
        ..CorpusOptions::default()
    };
    let corpus = Corpus::from_lines(lines.iter().map(String::as_str), &options).expect("a corpus");
    let id = corpus.vocabulary().id("new_york").expect("a phrase");
    assert_eq!(corpus.vocabulary().counts()[id as usize], 40);
    assert_eq!(corpus.vocabulary().id("new"), None);
    assert_eq!(corpus.vocabulary().words().iter().filter(|word| word.contains('_')).count(), 1);
}

#[test]
fn texts_without_vectors_are_refused() {
    let error = |lines: &[&str], min_count: u64| {
        let options = CorpusOptions { min_count, ..CorpusOptions::default() };
        Corpus::from_lines(lines.iter().copied(), &options).expect_err("no vocabulary")
    };
    let found = error(&["every word stands here once"], 5);
    assert_eq!(found.to_string(), "no word of 5 occurs at least 5 times, expected two words or more");
    assert!(found.hint().contains("no word occurs twice"), "{}", found.hint());
    let found = error(&["no no no", "yes yes"], 5);
    assert!(found.hint().contains("--min-count 3"), "{}", found.hint());
    let found = error(&["no no no no no", "yes"], 5);
    assert_eq!(found.to_string(), "only 1 word of 2 occurs at least 5 times, expected two words or more");
    assert!(error(&[" ", "…"], 5).to_string().contains("no text found"));
}

#[test]
fn options_out_of_range_are_refused() {
    let corpus = corpus(&two_topics(60));
    let message =
        |options: TrainOptions| train(&corpus, &options, &|_| true).expect_err("refused").to_string();
    let default = TrainOptions::default;
    assert_eq!(message(TrainOptions { dimensions: 0, ..default() }), "--dimensions 0, expected 1 to 4096");
    assert_eq!(message(TrainOptions { window: 0, ..default() }), "--window 0, expected 1 to 64");
    assert!(message(TrainOptions { rate: f32::NAN, ..default() }).contains("NaN"));
    let subwords = Some(SubwordOptions { min_n: 4, max_n: 3, buckets: 5 });
    assert_eq!(message(TrainOptions { subwords, ..default() }), "--max-n 3, expected 4 to 32");
}

/// Analogies by hand: unit vectors in which b − a + c is exactly d.
#[test]
fn analogies_by_hand() {
    let words = ["man", "king", "woman", "queen", "apple"].map(|word| (word.to_owned(), 1));
    let numbers = vec![1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, -1.0, 0.0, 0.2];
    let vectors = WordVectors::new(polyhead_words::vectors::Vocabulary::new(words), 3, numbers);
    let cosines = Cosines::new(&vectors, usize::MAX);
    let (query, except) = cosines.analogy(["man", "king", "WOMAN"]).expect("known words");
    assert_eq!(except, [0, 1, 2]);
    let best = cosines.nearest(&query, 2, &except);
    assert_eq!(best.iter().map(|near| near.id).collect::<Vec<_>>(), [3, 4]);
    let error = vectors.require("qeen").expect_err("unknown");
    assert_eq!(error.to_string(), "unknown word \"qeen\", expected one of 5 words");
    assert!(error.hint().starts_with("did you mean \"queen\"?"), "{}", error.hint());
}
