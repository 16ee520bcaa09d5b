//! n-gram models: KenLM's answers, laws of probabilities and files, and damaged files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use polyhead_words::ngram::{BEGIN, GenerateOptions, NgramModel, TextUnit, TrainOptions, UNKNOWN, train};
use proptest::prelude::*;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/ngram").join(name)
}

fn lines(name: &str) -> Vec<String> {
    std::fs::read_to_string(golden(name)).unwrap().lines().map(str::to_owned).collect()
}

fn trained(options: &TrainOptions) -> NgramModel {
    train(&[golden("text.txt")], options, &mut |_| {}).unwrap().model
}

/// `[log10, length of the longest n-gram, unknown]` of every word of every line, by KenLM.
type WordScores = Vec<Vec<(f32, usize, bool)>>;

fn kenlm_scores(name: &str) -> WordScores {
    let file = std::fs::File::open(golden("scores.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let all: std::collections::BTreeMap<String, WordScores> = serde_json::from_str(&text).unwrap();
    all[name].clone()
}

/// The scores of every word of every held-out line.
fn word_scores(model: &NgramModel) -> WordScores {
    let of_line = |line: &String| {
        let mut state = model.begin();
        let ids: Vec<u32> = line.split(' ').map(|word| model.id(word)).chain([2]).collect();
        let score = |&id: &u32| {
            let found = model.advance(&mut state, id);
            (found.log10, found.matched, id == UNKNOWN)
        };
        ids.iter().map(score).collect()
    };
    lines("held-out.txt").iter().map(of_line).collect()
}

fn assert_near(found: &WordScores, expected: &WordScores, tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (line, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}: line {line}");
        for (word, (own, kenlm)) in found.iter().zip(expected).enumerate() {
            assert!(
                (own.0 - kenlm.0).abs() < tolerance,
                "{what}: line {line}, word {word}: {own:?} {kenlm:?}"
            );
            assert_eq!((own.1, own.2), (kenlm.1, kenlm.2), "{what}: line {line}, word {word}");
        }
    }
}

#[test]
fn scores_of_an_arpa_file_equal_kenlms() {
    for name in ["order3", "order4-pruned"] {
        let model = NgramModel::load(&golden(&format!("{name}.arpa.gz"))).unwrap();
        assert_near(&word_scores(&model), &kenlm_scores(name), 1e-5, name);
    }
}

#[test]
fn own_training_equals_lmplz() {
    let plain = TrainOptions { order: 3, ..TrainOptions::default() };
    let pruned = TrainOptions { order: 4, prune: vec![0, 0, 1], ..TrainOptions::default() };
    for (name, options) in [("order3", plain), ("order4-pruned", pruned)] {
        let kenlm = NgramModel::load(&golden(&format!("{name}.arpa.gz"))).unwrap();
        let found = train(&[golden("text.txt")], &options, &mut |_| {}).unwrap();
        assert_eq!(found.model.counts(), kenlm.counts(), "{name}");
        assert_near(&word_scores(&found.model), &kenlm_scores(name), 2e-5, name);
        assert!(found.discounts.iter().all(|discounts| !discounts.is_fallback), "{name}");
    }
    // lmplz prints D1=0.743119 D2=1.0711 D3+=1.72608 for order 1.
    let found = train(&[golden("text.txt")], &TrainOptions::default(), &mut |_| {}).unwrap().discounts[0];
    for (own, lmplz) in found.amounts.iter().zip([0.743_119, 1.0711, 1.72608]) {
        assert!((own - lmplz).abs() < 1e-5, "{own} {lmplz}");
    }
}

#[test]
fn probabilities_after_any_context_sum_to_one() {
    let options = [
        TrainOptions { order: 4, ..TrainOptions::default() },
        TrainOptions { order: 3, prune: vec![0, 1, 2], ..TrainOptions::default() },
        TrainOptions { order: 5, unit: TextUnit::Character, ..TrainOptions::default() },
        TrainOptions { order: 1, ..TrainOptions::default() },
    ];
    for options in &options {
        let model = trained(options);
        for context in ["", "first citizen", "zebra", "let us kill him , and we ' ll", "a a a a a a"] {
            let mut state = model.begin();
            context.split(' ').filter(|word| !word.is_empty()).for_each(|word| {
                model.advance(&mut state, model.id(word));
            });
            let ids = (0..model.vocab_size() as u32).filter(|id| *id != BEGIN);
            let sum: f64 = ids.map(|id| 10_f64.powf(f64::from(model.next(&state, id)))).sum();
            assert!((sum - 1.0).abs() < 1e-4, "{options:?} after {context:?}: {sum}");
        }
    }
}

fn bytes_of(model: &NgramModel, name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    model.save(&path).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn memory_and_threads_change_no_bit() {
    let options = TrainOptions { order: 4, ..TrainOptions::default() };
    let plain = bytes_of(&trained(&options), "a.ngram");
    for (threads, memory) in [(1, 1 << 30), (2, 1), (3, 1)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let small = TrainOptions { memory, ..options.clone() };
        let mut runs = 0;
        let model = pool.install(|| {
            // Several copies of the text spill to disk; counts are those of one text four times as long.
            train(&vec![golden("text.txt"); 4], &small, &mut |step| {
                if let polyhead_words::ngram::Progress::Counted { runs: found, .. } = step {
                    runs = found;
                }
            })
        });
        let other = train(&vec![golden("text.txt"); 4], &options, &mut |_| {}).unwrap().model;
        assert_eq!(runs > 0, memory == 1, "{runs} runs");
        assert!(
            bytes_of(&model.unwrap().model, "b.ngram") == bytes_of(&other, "b.ngram"),
            "{threads} threads"
        );
        let again = pool.install(|| trained(&TrainOptions { memory, ..options.clone() }));
        assert!(bytes_of(&again, "c.ngram") == plain, "{threads} threads");
    }
}

#[test]
fn files_preserve_a_model() {
    let folder = tempfile::tempdir().unwrap();
    for options in [
        TrainOptions { order: 3, ..TrainOptions::default() },
        TrainOptions { order: 4, unit: TextUnit::Character, ..TrainOptions::default() },
        TrainOptions { order: 1, ..TrainOptions::default() },
    ] {
        let model = trained(&options);
        let [arpa, binary, again] = ["a.arpa", "b.ngram", "c.arpa"].map(|name| folder.path().join(name));
        model.save(&arpa).unwrap();
        let read = NgramModel::load(&arpa).unwrap();
        assert_eq!((read.counts(), read.unit()), (model.counts(), model.unit()));
        read.save(&binary).unwrap();
        let mapped = NgramModel::load(&binary).unwrap();
        mapped.save(&again).unwrap();
        assert!(std::fs::read(&arpa).unwrap() == std::fs::read(&again).unwrap());
        for line in lines("held-out.txt") {
            let scores = [&model, &read, &mapped].map(|model| model.score_line(&line));
            assert!(scores[0] == scores[1] && scores[1] == scores[2], "{line}: {scores:?}");
        }
    }
}

#[test]
fn text_is_drawn_from_the_distribution_and_repeats_with_its_seed() {
    let model = trained(&TrainOptions { order: 3, ..TrainOptions::default() });
    let options = GenerateOptions { seed: 4, ..GenerateOptions::default() };
    let found = model.generate("first citizen", 0, &options).unwrap();
    assert_eq!(found, model.generate("first citizen", 0, &options).unwrap());
    assert_ne!(model.generate("", 0, &options).unwrap(), model.generate("", 1, &options).unwrap());
    let whole = model.score_line(&format!("first citizen{}", found.text));
    let prompt = ["first", "citizen"].map(|word| model.id(word));
    let mut state = model.begin();
    let before: f64 = prompt.iter().map(|id| f64::from(model.advance(&mut state, *id).log10)).sum();
    assert!((whole.log10 - before - found.log10).abs() < 1e-3, "{found:?} {whole:?}");
    // The most probable word follows the name of a speaker.
    let greedy = GenerateOptions { temperature: 0.0, max_words: 1, ..options };
    assert_eq!(model.generate("first citizen", 0, &greedy).unwrap().text, " :");
    // One draw in ten of the first word of a line is within the noise of its probability.
    let counts = (0..400)
        .filter(|number| model.generate("", *number, &options).unwrap().text.starts_with("first "))
        .count();
    let expected = 400.0 * 10_f64.powf(f64::from(model.next(&model.begin(), model.id("first"))));
    assert!((counts as f64 - expected).abs() < 4.0 * expected.sqrt(), "{counts} {expected}");
    assert!(model.generate("", 0, &GenerateOptions { temperature: -1.0, ..options }).is_err());
}

#[test]
fn a_text_without_repeated_words_gets_fallback_discounts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("once.txt");
    std::fs::write(&path, "each word is here exactly one time\n").unwrap();
    let found = train(std::slice::from_ref(&path), &TrainOptions::default(), &mut |_| {}).unwrap();
    assert!(
        found.discounts.iter().all(|discounts| discounts.is_fallback && discounts.amounts == [0.5, 1.0, 1.5])
    );
    assert!(found.model.score_line("each word").log10 > found.model.score_line("time word").log10);
    std::fs::write(&path, "one\n").unwrap();
    let one = train(std::slice::from_ref(&path), &TrainOptions::default(), &mut |_| {}).unwrap().model;
    assert_eq!(one.counts(), [4, 2, 1]);
    for (text, expected) in
        [("", "training text"), ("a <s> b\n", "once.txt:1: the word <s>, which is reserved")]
    {
        std::fs::write(&path, text).unwrap();
        let error = train(std::slice::from_ref(&path), &TrainOptions::default(), &mut |_| {})
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    for (options, expected) in [
        (TrainOptions { order: 0, ..TrainOptions::default() }, "order 0, expected 1 to 10"),
        (TrainOptions { prune: vec![1], ..TrainOptions::default() }, "a pruning threshold for single words"),
        (
            TrainOptions { prune: vec![0, 2, 1], ..TrainOptions::default() },
            "expected none below the one before",
        ),
        (TrainOptions { fallback: [2.0, 1.0, 1.0], ..TrainOptions::default() }, "a fallback discount of 2"),
    ] {
        let error = train(std::slice::from_ref(&path), &options, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

fn arpa_error(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arpa");
    std::fs::write(&path, text).unwrap();
    match NgramModel::load(&path) {
        Ok(_) => "read".into(),
        Err(error) => error.to_string(),
    }
}

const SMALL: &str = "\\data\\\nngram 1=4\nngram 2=2\nngram 3=1\n\n\\1-grams:\n-1 <unk>\n-99 <s> -0.3\n-0.5 </s>\n-0.6 a -0.2\n\n\
                     \\2-grams:\n-0.1 <s> a -0.4\n-0.7 a a\n\n\\3-grams:\n-0.2 <s> a a\n\n\\end\\\n";

#[test]
fn missing_back_offs_and_missing_n_grams_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arpa");
    std::fs::write(&path, SMALL).unwrap();
    let model = NgramModel::load(&path).unwrap();
    // p(a | <s>) + p(a | <s> a) + p(</s> | a a): the back-off of "a a" is missing, hence 0; that of a is −0.2.
    let expected = -0.1 - 0.2 + (0.0 - 0.2 - 0.5);
    assert!((model.score_line("a a").log10 - expected).abs() < 1e-6, "{}", model.score_line("a a").log10);
    // The 2-gram "a a" is left out, which the 3-gram "<s> a a" backs off to.
    let without = SMALL.replace("ngram 2=2", "ngram 2=1").replace("-0.7 a a\n", "");
    std::fs::write(&path, without).unwrap();
    let model = NgramModel::load(&path).unwrap();
    assert!((model.score_line("a a").log10 - expected).abs() < 1e-6, "{}", model.score_line("a a").log10);
    // p(a | a) backs off to the back-off of a and the probability of a: −0.8.
    let mut state = model.begin();
    for id in [UNKNOWN, model.id("a")] {
        model.advance(&mut state, id);
    }
    assert!((model.next(&state, model.id("a")) + 0.8).abs() < 1e-6);
}

#[test]
fn damaged_arpa_files_are_refused_with_their_line() {
    for (from, to, expected) in [
        ("-0.6 a -0.2", "x a -0.2", "a.arpa:10: \"x a -0.2\", expected log10 of a probability"),
        ("-0.6 a -0.2", "0.6 a -0.2", "a.arpa:10: \"0.6 a -0.2\", expected log10 of a probability"),
        ("-0.7 a a", "-0.7 a b", "a.arpa:14: the word \"b\", which is not among the 1-grams"),
        ("-0.7 a a", "-0.7 a", "a.arpa:14: \"-0.7 a\", expected 2 words"),
        ("-0.7 a a", "-0.7 a a much", "a.arpa:14: \"much\", expected a back-off weight"),
        ("ngram 2=2", "ngram 2=3", "a.arpa:16: 2 2-grams before this line, expected the 3 of \\data\\"),
        ("ngram 3=1", "ngram 4=1", "a.arpa:4: \"ngram 4=1\", expected \"ngram 3=COUNT\""),
        ("\\end\\", "", "expected \\end\\"),
        ("\\data\\", "", "no \\data\\, expected an ARPA file or a binary model"),
        ("-0.5 </s>", "-0.5 b", "no 1-gram </s>"),
        ("-0.7 a a", "-0.7 <s> a", "a 2-gram twice"),
    ] {
        let error = arpa_error(&SMALL.replacen(from, to, 1));
        assert!(error.contains(expected), "{from} → {to}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens to a binary file, it is refused or gives some probabilities.
    #[test]
    fn damaged_binary_files_never_panic(place in 0.0..1.0_f64, byte in any::<u8>(), cut in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ngram");
        trained(&TrainOptions { order: 3, ..TrainOptions::default() }).save(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = (place * bytes.len() as f64) as usize;
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        std::fs::write(&path, bytes).unwrap();
        if let Ok(model) = NgramModel::load(&path) {
            model.score_line("first citizen : you are all resolved");
        }
    }

    /// Any text trains, and its lines score as the ARPA file of the model does.
    #[test]
    fn any_text_trains(text in "([ab c\n]{1,40}\n){1,6}", order in 1_usize..5) {
        let folder = tempfile::tempdir().unwrap();
        let [path, arpa] = ["t.txt", "t.arpa"].map(|name| folder.path().join(name));
        std::fs::write(&path, &text).unwrap();
        let options = TrainOptions { order, ..TrainOptions::default() };
        match train(&[path], &options, &mut |_| {}) {
            Err(error) => prop_assert!(text.trim().is_empty(), "{error}"),
            Ok(found) => {
                found.model.save(&arpa).unwrap();
                let read = NgramModel::load(&arpa).unwrap();
                for line in text.lines() {
                    let [own, other] = [&found.model, &read].map(|model| model.score_line(line).log10);
                    prop_assert!(own.is_finite() && (own - other).abs() < 1e-4, "{line:?}: {own} {other}");
                }
            }
        }
    }
}
