//! Metrics against the scores of other programs (see `tests/golden/metrics`), and property tests.

use polyhead_text::metrics::{
    Accuracy, Bleu, BleuOptions, Bootstrap, Chrf, ChrfOptions, EditUnit, Metric, PairedTest,
    PieceTokenization, Randomization, Rouge, RougeVariant, SequenceErrorRate, Smoothing, Statistics, Ter,
    TerOptions, TokenErrorRate, Tokenization, signature,
};
use polyhead_text::tokenizer::sentencepiece::SentencePiece;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

use crate::sentencepiece::unpacked;

const TOLERANCE: f64 = 1e-9;

struct Corpus {
    hypotheses: Vec<String>,
    references: Vec<Vec<String>>,
}

fn golden(name: &str) -> Value {
    serde_json::from_slice(&unpacked("metrics", &format!("{name}.gz"))).unwrap()
}

fn corpora() -> HashMap<String, Corpus> {
    let texts = golden("texts.json");
    let lines = |name: &Value| serde_json::from_value(texts[name.as_str().unwrap()].clone()).unwrap();
    let expected = golden("expected.json");
    let corpora = expected["corpora"].as_array().unwrap().iter().map(|corpus| {
        let references = corpus["references"].as_array().unwrap().iter().map(lines).collect();
        let name = corpus["name"].as_str().unwrap().to_owned();
        (name, Corpus { hypotheses: lines(&corpus["hypotheses"]), references })
    });
    corpora.collect()
}

/// The metric with sacreBLEU's keyword arguments in `case`.
fn metric(case: &Value) -> Box<dyn Metric> {
    let options = &case["options"];
    let flag = |name: &str| options[name].as_bool().unwrap_or(false);
    let number = |name: &str, default: u64| options[name].as_u64().unwrap_or(default) as usize;
    match case["metric"].as_str().unwrap() {
        "bleu" => Box::new(bleu(options)),
        "chrf" => Box::new(Chrf::new(ChrfOptions {
            char_order: number("char_order", 6),
            word_order: number("word_order", 0),
            beta: number("beta", 2) as u32,
            lowercase: flag("lowercase"),
            whitespace: flag("whitespace"),
            epsilon_smoothing: flag("eps_smoothing"),
        })),
        "ter" => Box::new(Ter::new(TerOptions {
            normalized: flag("normalized"),
            no_punctuation: flag("no_punct"),
            asian_support: flag("asian_support"),
            case_sensitive: flag("case_sensitive"),
        })),
        "rouge1" => Box::new(Rouge::new(RougeVariant::Ngram(1))),
        "rouge2" => Box::new(Rouge::new(RougeVariant::Ngram(2))),
        "rougeL" => Box::new(Rouge::new(RougeVariant::LongestSubsequence)),
        "wer" => Box::new(TokenErrorRate::default()),
        "cer" => Box::new(TokenErrorRate { unit: EditUnit::Characters, lowercase: false }),
        other => panic!("unknown metric {other}"),
    }
}

fn bleu(options: &Value) -> Bleu {
    let value = options["smooth_value"].as_f64();
    Bleu::new(BleuOptions {
        tokenization: match options["tokenize"].as_str().unwrap_or("13a") {
            "13a" => Tokenization::V13a,
            "intl" => Tokenization::International,
            "char" => Tokenization::Characters,
            "zh" => Tokenization::Chinese,
            "flores200" => pieces(),
            _ => Tokenization::None,
        },
        smoothing: match options["smooth_method"].as_str().unwrap_or("exp") {
            "exp" => Smoothing::Exponential,
            "floor" => Smoothing::Floor(value.unwrap_or(Smoothing::FLOOR)),
            "add-k" => Smoothing::AddK(value.unwrap_or(Smoothing::ADD_K)),
            _ => Smoothing::None,
        },
        lowercase: options["lowercase"].as_bool().unwrap_or(false),
        max_order: options["max_ngram_order"].as_u64().unwrap_or(4) as usize,
        effective_order: options["effective_order"].as_bool().unwrap_or(false),
    })
}

/// The model that stands in for the one of flores200; see `piece_cases` in the script.
fn pieces() -> Tokenization {
    let bytes = unpacked("sentencepiece", "unigram.model.gz");
    let model = Arc::new(SentencePiece::from_bytes(&bytes, "unigram.model").unwrap());
    Tokenization::SentencePiece(PieceTokenization { name: "flores200".into(), model })
}

#[test]
fn scores_equal_those_of_other_programs() {
    let corpora = corpora();
    let expected = golden("expected.json");
    let cases = expected["scores"].as_array().unwrap();
    let differences: Vec<String> =
        cases.iter().flat_map(|case| differences(case, &corpora[case["corpus"].as_str().unwrap()])).collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

fn differences(case: &Value, corpus: &Corpus) -> Vec<String> {
    let metric = metric(case);
    let statistics = Statistics::collect(metric.as_ref(), &corpus.hypotheses, &corpus.references).unwrap();
    let details = metric.details(&statistics.total());
    let mut found = Vec::new();
    let mut check = |what: &str, ours: f64, theirs: &Value| {
        let theirs = theirs.as_f64().unwrap();
        if (ours - theirs).abs() > TOLERANCE {
            found.push(format!(
                "{} {} {}: {what} {ours}, {theirs}",
                case["corpus"], case["metric"], case["options"]
            ));
        }
    };
    check("score", statistics.score(metric.as_ref()), &case["score"]);
    for part in ["precision", "recall"] {
        if !case[part].is_null() {
            check(part, details[part].as_f64().unwrap(), &case[part]);
        }
    }
    let sentences = case["sentences"].as_array().map_or(&[][..], Vec::as_slice);
    for (line, theirs) in sentences.iter().enumerate() {
        check(&format!("line {line}"), metric.score(statistics.row(line)), theirs);
    }
    assert_eq!(metric.name(), case["name"].as_str().unwrap());
    if let Some(expected) = case["signature"].as_str() {
        let expected = format!("{expected}|version:polyhead-{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(signature(metric.as_ref(), corpus.references.len(), None), expected);
    }
    if let Some(line) = case["line"].as_str() {
        assert_eq!(bleu(&case["options"]).parts(&statistics.total()).to_string(), line, "{case}");
    }
    if !case["counts"].is_null() {
        assert_eq!((&details["counts"], &details["totals"]), (&case["counts"], &case["totals"]));
    }
    found
}

/// Means, half widths and p-values of sacreBLEU for the same seed and number of samples; see `significance_cases` in
/// the script. Of two systems with the same output sacreBLEU says p = 1 / (samples + 1), we say 1.
#[test]
fn intervals_and_p_values_equal_sacrebleu() {
    let texts = golden("texts.json");
    let lines = |name: &Value| -> Vec<String> {
        serde_json::from_value(texts[name.as_str().unwrap()].clone()).unwrap()
    };
    let tests = [
        ("bs", PairedTest::Bootstrap(Bootstrap { samples: 300, ..Bootstrap::default() })),
        ("ar", PairedTest::Randomization(Randomization { trials: 700, ..Randomization::default() })),
    ];
    for case in golden("expected.json")["significance"].as_array().unwrap() {
        let metric = metric(case);
        let metric = metric.as_ref();
        let names = case["systems"].as_array().unwrap();
        let references: Vec<Vec<String>> = case["references"].as_array().unwrap().iter().map(lines).collect();
        let systems: Vec<Statistics> = names
            .iter()
            .map(|name| Statistics::collect(metric, &lines(name), &references).unwrap())
            .collect();
        let interval = Bootstrap::default().interval(metric, &systems[1]).unwrap();
        let close = |ours: f64, theirs: &Value, what: &str| {
            assert!((ours - theirs.as_f64().unwrap()).abs() < TOLERANCE, "{what} {ours}, {theirs}: {case}");
        };
        close(interval.mean, &case["mean"], "mean");
        close(interval.half_width, &case["half_width"], "half width");
        for (key, test) in &tests {
            let results = test.compare(metric, &systems[0], &systems[1..]).unwrap();
            assert_eq!(results.baseline_interval.is_none(), case[key][0][0].is_null());
            let intervals = [results.baseline_interval].into_iter();
            let intervals = intervals.chain(results.systems.iter().map(|system| system.interval));
            for (interval, theirs) in intervals.zip(case[key].as_array().unwrap()) {
                if let Some(interval) = interval {
                    close(interval.mean, &theirs[0], key);
                    close(interval.half_width, &theirs[1], key);
                }
            }
            for (index, system) in results.systems.iter().enumerate() {
                if names[index + 1] == names[0] {
                    assert_eq!(system.p_value, 1.0);
                } else {
                    close(system.p_value, &case[key][index + 1][2], key);
                }
            }
            let expected = format!("{}|version:", case[format!("{key}_signature")].as_str().unwrap());
            assert!(signature(metric, references.len(), Some(test)).starts_with(&expected));
        }
    }
}

#[test]
fn scores_are_identical_for_any_number_of_threads() {
    let corpora = corpora();
    let corpus = &corpora["wmt-two-references"];
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let ter = Ter::default();
            let statistics = Statistics::collect(&ter, &corpus.hypotheses, &corpus.references).unwrap();
            let interval = Bootstrap::default().interval(&ter, &statistics).unwrap();
            (statistics, interval)
        })
    };
    assert_eq!(with(1), with(3));
}

fn all_metrics() -> Vec<Box<dyn Metric>> {
    vec![
        Box::new(Bleu::default()),
        Box::new(Chrf::new(ChrfOptions::plus_plus())),
        Box::new(Ter::default()),
        Box::new(Rouge::new(RougeVariant::Ngram(2))),
        Box::new(Rouge::new(RougeVariant::LongestSubsequence)),
        Box::new(Accuracy::default()),
        Box::new(SequenceErrorRate::default()),
        Box::new(TokenErrorRate::default()),
        Box::new(TokenErrorRate { unit: EditUnit::Characters, lowercase: true }),
    ]
}

/// Pairs of short lines from a small vocabulary, so that they overlap.
fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    let line = || "([abc]{1,2}|[,.]|1,5|é|好)( ([abc]|dog|x\\.)){0,12}";
    prop::collection::vec((line(), line()), 1..12)
}

proptest! {
    #[test]
    fn a_text_scores_perfectly_against_itself(line in "([a-c]|\\PC)( [a-c]{1,3}){4,12}") {
        for tokenization in [Tokenization::V13a, Tokenization::International, Tokenization::None] {
            let bleu = Bleu::new(BleuOptions { tokenization, ..BleuOptions::default() });
            prop_assert!((bleu.score(&bleu.statistics(&line, &[&line])) - 100.0).abs() < TOLERANCE);
        }
        let chrf = Chrf::new(ChrfOptions::plus_plus());
        prop_assert!((chrf.score(&chrf.statistics(&line, &[&line])) - 100.0).abs() < TOLERANCE);
        prop_assert_eq!(Ter::default().statistics(&line, &[&line])[0], 0.0);
    }

    #[test]
    fn the_order_of_lines_does_not_matter_and_statistics_add_up(pairs in pairs(), cut in 0_usize..12) {
        let (hypotheses, references): (Vec<String>, Vec<String>) = pairs.into_iter().unzip();
        let reversed = |lines: &[String]| lines.iter().rev().cloned().collect::<Vec<_>>();
        for metric in all_metrics() {
            let metric = metric.as_ref();
            let statistics = Statistics::collect(metric, &hypotheses, std::slice::from_ref(&references)).unwrap();
            let backwards = Statistics::collect(metric, &reversed(&hypotheses), &[reversed(&references)]).unwrap();
            prop_assert!((statistics.score(metric) - backwards.score(metric)).abs() < TOLERANCE);
            let cut = cut.min(statistics.len());
            let halves = [statistics.total_of(0..cut), statistics.total_of(cut..statistics.len())];
            for (sum, (a, b)) in statistics.total().iter().zip(halves[0].iter().zip(&halves[1])) {
                prop_assert!((sum - (a + b)).abs() < TOLERANCE);
            }
        }
    }

    /// Shifts never add edits, and a further reference never lowers a score.
    #[test]
    fn bounds_hold(pairs in pairs()) {
        for (hypothesis, reference) in &pairs {
            let words = TokenErrorRate { lowercase: true, ..TokenErrorRate::default() };
            let ter = Ter::default();
            let edits = ter.statistics(hypothesis, &[reference])[0];
            prop_assert!(edits <= words.statistics(hypothesis, &[reference])[0]);
            prop_assert!(ter.statistics(hypothesis, &[reference, &pairs[0].1])[0] <= edits);
            let chrf = Chrf::default();
            let one = chrf.score(&chrf.statistics(hypothesis, &[reference]));
            prop_assert!((0.0..=100.0 + TOLERANCE).contains(&one));
            prop_assert!(chrf.score(&chrf.statistics(hypothesis, &[reference, &pairs[0].1])) >= one);
            let accuracy = Accuracy::default().statistics(hypothesis, &[reference])[0];
            prop_assert_eq!(accuracy + SequenceErrorRate::default().statistics(hypothesis, &[reference])[0], 1.0);
        }
    }
}
