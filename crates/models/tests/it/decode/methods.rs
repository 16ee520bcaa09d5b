//! Constraints, samples, alternatives, ensembles and rules.

use std::sync::Arc;

use polyhead_attention::{Capture, Filter, Pass};
use polyhead_models::Ids;
use polyhead_models::decode::alternatives::{AlternativesOptions, alternatives};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::constrained::{Constraints, constrained};
use polyhead_models::decode::ensemble::{Average, Ensemble};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::score::score;
use polyhead_models::decode::surface_forms::SurfaceForms;
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths};
use polyhead_tensor::Tape;

use super::{LoadedModel, Table, sentences, slices};

fn contains(ids: &[u32], sequence: &[u32]) -> bool {
    ids.windows(sequence.len()).any(|window| window == sequence)
}

#[test]
fn constrained_words_appear() {
    let loaded = LoadedModel::new("marian/gelu");
    let sources = sentences(6, 11);
    let constraints: Vec<Constraints> = vec![
        vec![vec![17]],
        vec![vec![17, 4], vec![9]],
        vec![],
        vec![vec![30], vec![30], vec![31, 32, 33]],
        vec![vec![8, 8, 8, 8]],
        vec![vec![40], vec![41], vec![42, 40]],
    ];
    for max in [7, 14] {
        let decode = loaded.options(max);
        let options = BeamOptions { decode, beam_size: 3, top_beams: 3, ..BeamOptions::default() };
        let found = constrained(&loaded.decoding(), &slices(&sources), &constraints, &options).unwrap();
        for ((source, found), constraints) in sources.iter().zip(&found).zip(&constraints) {
            assert!(!found.is_empty());
            for found in found {
                let thirty = found.ids.iter().filter(|&&id| id == 30).count();
                assert!(constraints.iter().all(|words| contains(&found.ids, words)), "{:?}", found.ids);
                assert!(constraints.len() != 3 || constraints[0] != [30] || thirty >= 2, "{:?}", found.ids);
                let own =
                    score(&loaded.decoding(), &[source], &[&found.ids], options.decode.start_id).unwrap();
                let sum: f64 = own[0].iter().copied().map(f64::from).sum();
                assert_eq!(sum.to_bits(), found.log_probability.to_bits());
            }
        }
    }
}

/// Token 1 is a full stop, 2 the word that is asked for, 3 an ellipsis that repeats itself, 4 the end.
const SENTENCE: Table<5> = Table([
    [0.0, 0.94, 0.05, 0.0, 0.01],
    [0.0, 0.0, 0.002, 0.098, 0.9],
    [0.0, 0.94, 0.0, 0.0, 0.06],
    [0.0, 0.0, 0.01, 0.98, 0.01],
    [0.9, 0.04, 0.06, 0.0, 0.0],
]);

#[test]
fn a_complete_sentence_does_not_run_on_to_a_constraint() {
    let decode = DecodeOptions { start_id: 4, end_id: 4, ..DecodeOptions::default() };
    let decode = DecodeOptions { lengths: Lengths { max: 60, ..Lengths::default() }, ..decode };
    for beam_size in 1..6 {
        let options = BeamOptions { decode: decode.clone(), beam_size, ..BeamOptions::default() };
        let found = constrained(&SENTENCE, &[&[0]], &[vec![vec![2]]], &options).unwrap();
        let expected: &[u32] = if beam_size == 1 { &[2, 1, 4] } else { &[0, 2, 1, 4] };
        assert_eq!(found[0][0].ids, expected, "{beam_size} beams");
    }
}

#[test]
fn constraints_beyond_the_maximum_length_are_rejected() {
    let loaded = LoadedModel::new("marian/gelu");
    let run = |max, constraint: Vec<u32>| {
        let options = BeamOptions { decode: loaded.options(max), ..BeamOptions::default() };
        constrained(&loaded.decoding(), &[&[5, 6]], &[vec![constraint]], &options)
    };
    assert!(run(4, vec![1, 2, 3]).unwrap()[0][0].ids.starts_with(&[1, 2, 3]));
    assert!(run(3, vec![1, 2, 3]).is_err());
    assert!(run(9, vec![1000]).unwrap_err().to_string().contains("1000"));
}

#[test]
fn sampling_at_low_temperature_is_greedy() {
    let loaded = LoadedModel::new("marian/swish");
    let sources = sentences(12, 12);
    let decode = loaded.options(20);
    let expected = greedy(&loaded.decoding(), &slices(&sources), &decode).unwrap();
    let nearly = SampleOptions { temperature: 1e-6, ..SampleOptions::default() };
    let cold = SampleOptions { temperature: 0.0, ..SampleOptions::default() };
    let one = SampleOptions { top_k: 1, ..SampleOptions::default() };
    let none = SampleOptions { top_p: 0.0, ..SampleOptions::default() };
    let share = SampleOptions { min_p: 1.0, ..SampleOptions::default() };
    for options in [nearly, cold, one, none, share] {
        let options = SampleOptions { decode: decode.clone(), ..options };
        let found = sample(&loaded.decoding(), &slices(&sources), &options).unwrap();
        assert_eq!(found.concat(), expected, "{options:?}");
    }
}

/// Token 3 is the end token, which always follows the first token.
const DICE: Table<4> =
    Table([[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.5, 0.2, 0.3, 0.0]]);

/// The frequency of each of three tokens as the first in 20,000 samples.
fn frequencies(options: &SampleOptions) -> [f64; 3] {
    let n_samples = 20_000;
    let decode = DecodeOptions { start_id: 3, end_id: 3, ..DecodeOptions::default() };
    let options = SampleOptions { decode, n_samples, ..options.clone() };
    let found = sample(&DICE, &[&[1, 2]], &options).unwrap().remove(0);
    [0, 1, 2].map(|id| found.iter().filter(|found| found.ids == [id, 3]).count() as f64 / n_samples as f64)
}

#[test]
fn frequencies_match_probabilities() {
    let plain = SampleOptions::default();
    let expect = |options: SampleOptions, expected: [f64; 3]| {
        let found = frequencies(&options);
        // Five standard errors of a frequency near a half.
        let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 0.018);
        assert!(near, "{found:?}, expected {expected:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| (*found == 0.0) == (expected == 0.0)));
    };
    expect(plain.clone(), [0.5, 0.2, 0.3]);
    expect(SampleOptions { seed: 1, ..plain.clone() }, [0.5, 0.2, 0.3]);
    expect(SampleOptions { top_k: 2, ..plain.clone() }, [0.625, 0.0, 0.375]);
    expect(SampleOptions { top_p: 0.7, ..plain.clone() }, [0.625, 0.0, 0.375]);
    expect(SampleOptions { top_p: 0.45, ..plain.clone() }, [1.0, 0.0, 0.0]);
    expect(SampleOptions { min_p: 0.5, ..plain.clone() }, [0.625, 0.0, 0.375]);
    // Squares: 25, 4 and 9 of 38.
    expect(SampleOptions { temperature: 0.5, ..plain }, [25.0 / 38.0, 4.0 / 38.0, 9.0 / 38.0]);
}

#[test]
fn alternatives_are_the_best_tokens_with_their_completions() {
    let loaded = LoadedModel::new("marian/gelu");
    let source: &[u32] = &[21, 53, 46, 60, 61, 7, 83];
    let decode = loaded.options(20);
    let best = greedy(&loaded.decoding(), &[source], &decode).unwrap().remove(0);
    let prefix = &best.ids[..2];
    let beam = BeamOptions { decode: decode.clone(), beam_size: 1, ..BeamOptions::default() };
    let options = AlternativesOptions { n: 3, beam };
    let found = alternatives(&loaded.decoding(), source, prefix, &options).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].hypotheses[0].ids, best.ids, "the first is the greedy hypothesis");
    assert_eq!(found[0].hypotheses[0].log_probability.to_bits(), best.log_probability.to_bits());
    assert!(found.windows(2).all(|pair| pair[0].log_probability > pair[1].log_probability));
    for alternative in &found {
        let begin = [prefix, &[alternative.id]].concat();
        let ids = &alternative.hypotheses[0].ids;
        assert!(ids.starts_with(&begin));
        let scores = score(&loaded.decoding(), &[source], &[ids], decode.start_id).unwrap();
        assert_eq!(scores[0][2], alternative.log_probability);
    }
    assert_eq!(
        alternatives(&loaded.decoding(), source, &best.ids, &options).unwrap(),
        [],
        "the prefix is complete"
    );
}

fn assert_near(found: &[Hypothesis], expected: &[Hypothesis]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.ids, expected.ids);
        assert!((found.score - expected.score).abs() < 1e-4);
        assert!((found.log_probability - expected.log_probability).abs() < 1e-4);
    }
}

#[test]
fn an_ensemble_of_equal_models_is_the_model() {
    let loaded = LoadedModel::new("marian/gelu");
    let sources = sentences(10, 13);
    let options = BeamOptions { decode: loaded.options(20), top_beams: 4, ..BeamOptions::default() };
    let expected = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
    let models = [loaded.decoding(); 3];
    for average in [Average::Probabilities, Average::LogProbabilities] {
        let ensemble = Ensemble::new(&models, average).unwrap();
        let found = beam(&ensemble, &slices(&sources), &options).unwrap();
        found.iter().zip(&expected).for_each(|(found, expected)| assert_near(found, expected));
    }
    let options = BeamOptions { coverage_penalty: 0.3, ..options };
    let expected = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
    let ensemble = Ensemble::new(&models, Average::default()).unwrap();
    let found = beam(&ensemble, &slices(&sources), &options).unwrap();
    found.iter().zip(&expected).for_each(|(found, expected)| assert_near(found, expected));
    assert!(Ensemble::<Table<4>>::new(&[], Average::Probabilities).is_err());
}

#[test]
fn an_ensemble_averages() {
    let models = [
        Table([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.9, 0.1, 0.0]]),
        Table([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.3, 0.7, 0.0]]),
    ];
    let options = DecodeOptions { start_id: 2, end_id: 2, ..DecodeOptions::default() };
    let probability = |average| {
        let ensemble = Ensemble::new(&models, average).unwrap();
        greedy(&ensemble, &[&[1]], &options).unwrap()[0].log_probability.exp()
    };
    assert!((probability(Average::Probabilities) - 0.6).abs() < 1e-6);
    let [a, b] = [(0.9_f64 * 0.3).sqrt(), (0.1_f64 * 0.7).sqrt()];
    assert!((probability(Average::LogProbabilities) - a / (a + b)).abs() < 1e-6);
}

#[test]
fn with_surface_forms_a_beam_holds_each_text_once() {
    // "ab" has two segmentations; "c" is a different text. By ids the two best hypotheses are the same text.
    let pieces = ["ab", "a", "b", "c", ""];
    let model = Table([
        // ab   a    b    c   end
        [0.0, 0.0, 0.0, 0.0, 1.0],
        [0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
        [0.5, 0.3, 0.0, 0.2, 0.0],
    ]);
    let decode = DecodeOptions { start_id: 4, end_id: 4, ..DecodeOptions::default() };
    let length_penalty = LengthPenalty::Power(0.0);
    let by_ids = BeamOptions { decode, beam_size: 2, top_beams: 2, length_penalty, ..BeamOptions::default() };
    let ids = |options: &BeamOptions| -> Vec<Vec<u32>> {
        beam(&model, &[&[1]], options).unwrap()[0].iter().map(|found| found.ids.clone()).collect()
    };
    assert_eq!(ids(&by_ids), [vec![0, 4], vec![1, 2, 4]]);
    let surface_forms = Some(Arc::new(SurfaceForms::new(pieces)));
    assert_eq!(ids(&BeamOptions { surface_forms, beam_size: 3, ..by_ids }), [vec![0, 4], vec![3, 4]]);
}

#[test]
fn rules_hold_in_every_hypothesis() {
    let loaded = LoadedModel::new("marian/gelu");
    let sources = sentences(16, 14);
    let rules = Rules { suppressed: vec![vec![26], vec![83, 42]], no_repeat_ngram: 2, ..Rules::default() };
    let lengths = Lengths { min: 6, min_ratio: 0.5, max: 18, ..Lengths::default() };
    let decode = DecodeOptions { rules, lengths, ..loaded.options(18) };
    let options = BeamOptions { decode: decode.clone(), top_beams: 4, ..BeamOptions::default() };
    let samples = SampleOptions { decode, n_samples: 4, ..SampleOptions::default() };
    let beams = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
    let samples = sample(&loaded.decoding(), &slices(&sources), &samples).unwrap();
    for found in beams.concat().into_iter().chain(samples.concat()) {
        let ids = &found.ids;
        assert!((7..=18).contains(&ids.len()), "{ids:?}");
        assert!(!ids.contains(&26) && !contains(ids, &[83, 42]), "{ids:?}");
        let pairs: Vec<&[u32]> = ids.windows(2).collect();
        assert!((1..pairs.len()).all(|index| !pairs[..index].contains(&pairs[index])), "{ids:?}");
    }
}

#[test]
fn a_repetition_penalty_divides_logits_in_greedy_decoding_and_multiplies_log_probabilities_with_beams() {
    // After 1 the logits are ln 0.6 and ln 0.4; both are negative, so both scales multiply.
    let model = Table([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0], [0.4, 0.6, 0.0]]);
    let rules = Rules { repetition_penalty: 2.0, ..Rules::default() };
    let lengths = Lengths { max: 2, ..Lengths::default() };
    let decode = DecodeOptions { start_id: 2, end_id: 2, lengths, rules };
    let found = &greedy(&model, &[&[1]], &decode).unwrap()[0];
    assert_eq!(found.ids, [1, 0], "2 · ln 0.6 < ln 0.4");
    let length_penalty = LengthPenalty::Power(0.0);
    let options = BeamOptions { decode, beam_size: 1, length_penalty, ..BeamOptions::default() };
    let found = &beam(&model, &[&[1]], &options).unwrap()[0][0];
    assert_eq!(found.ids, [1, 0]);
    assert!((found.score - (0.6_f64 * 0.4).ln()).abs() < 1e-6);
}

/// The score by the formula, from the attention weights of a full pass.
fn covered_score(loaded: &LoadedModel, source: &[u32], found: &Hypothesis, options: &BeamOptions) -> f64 {
    let (ids, sites) = (loaded.model.special_ids(), loaded.model.sites());
    let cross = sites.named("cross").unwrap();
    let layers = Some(vec![cross.n_layers - 1]);
    let capture = Capture::on(Filter { kind: Some(cross.kind), layers, ..Filter::default() });
    let tape = Tape::inference();
    let pass = Pass::new(&tape, &loaded.parameters, &capture);
    let target = [&[ids.start_id], &found.ids[..found.ids.len() - 1]].concat();
    let padded = |row: &[u32]| Ids::padded(&[row], ids.pad_id);
    loaded.model.forward(&pass, &padded(source), &padded(&target)).unwrap();
    let weights = capture.take().weights.remove(0).weights;
    let n_heads = weights.shape()[1] as f64;
    let mut coverage = vec![0.0; source.len()];
    for row in weights.data().chunks(source.len()) {
        coverage.iter_mut().zip(row).for_each(|(sum, &weight)| *sum += f64::from(weight) / n_heads);
    }
    let penalty: f64 = coverage.iter().map(|&sum: &f64| sum.min(1.0).ln()).sum();
    options.length_penalty.score(found.log_probability, found.ids.len()) + options.coverage_penalty * penalty
}

#[test]
fn the_coverage_penalty_matches_the_formula_in_any_batch() {
    let loaded = LoadedModel::new("marian/gelu");
    let sources = sentences(12, 15);
    let options = BeamOptions {
        decode: loaded.options(16),
        top_beams: 4,
        length_penalty: LengthPenalty::Wu(0.6),
        coverage_penalty: 0.4,
        ..BeamOptions::default()
    };
    let found = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
    for (source, found) in sources.iter().zip(&found) {
        assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
        for found in found {
            let expected = covered_score(&loaded, source, found, &options);
            assert!((found.score - expected).abs() < 1e-4, "{} {expected}", found.score);
        }
        assert_eq!(&beam(&loaded.decoding(), &[source], &options).unwrap()[0], found, "alone as in a batch");
    }
    let without = BeamOptions { coverage_penalty: 0.0, ..options.clone() };
    let without = beam(&loaded.decoding(), &slices(&sources), &without).unwrap();
    assert!(without.iter().zip(&found).any(|(a, b)| a[0].ids != b[0].ids), "the penalty changes the result");
    let decode = DecodeOptions { start_id: 3, end_id: 3, ..DecodeOptions::default() };
    assert!(beam(&DICE, &[&[1]], &BeamOptions { decode, ..options }).is_err(), "a table has no attention");
}

#[test]
fn invalid_options_are_rejected() {
    let decode = DecodeOptions { start_id: 3, end_id: 3, ..DecodeOptions::default() };
    let plain = BeamOptions { decode: decode.clone(), ..BeamOptions::default() };
    for options in
        [BeamOptions { beam_size: 0, ..plain.clone() }, BeamOptions { top_beams: 5, ..plain.clone() }]
    {
        assert!(beam(&DICE, &[&[1]], &options).is_err());
    }
    for options in [
        SampleOptions { temperature: -1.0, ..SampleOptions::default() },
        SampleOptions { top_p: 1.5, ..SampleOptions::default() },
        SampleOptions { min_p: f32::NAN, ..SampleOptions::default() },
    ] {
        assert!(sample(&DICE, &[&[1]], &options).is_err());
    }
    let rejected = |rules| greedy(&DICE, &[&[1]], &DecodeOptions { rules, ..decode.clone() }).is_err();
    assert!(rejected(Rules { prefixes: vec![vec![9]], ..Rules::default() }));
    assert!(rejected(Rules { prefixes: vec![vec![1], vec![2]], ..Rules::default() }));
    assert!(rejected(Rules { repetition_penalty: 0.0, ..Rules::default() }));
    assert!(score(&DICE, &[&[1]], &[&[9]], 3).is_err());
    assert!(score(&DICE, &[&[1]], &[], 3).is_err());
}

#[test]
fn empty_inputs_and_dead_ends_give_what_there_is() {
    let decode = DecodeOptions { start_id: 3, end_id: 3, ..DecodeOptions::default() };
    let none = DecodeOptions { lengths: Lengths { max: 0, ..Lengths::default() }, ..decode.clone() };
    assert!(greedy(&DICE, &[], &decode).unwrap().is_empty());
    assert_eq!(greedy(&DICE, &[&[1]], &none).unwrap()[0].ids, [0_u32; 0]);
    // All tokens are forbidden after the first: the hypothesis ends there.
    let rules = Rules { suppressed: vec![vec![0]], ..Rules::default() };
    let lengths = Lengths { min: 9, ..Lengths::default() };
    let stuck = DecodeOptions { rules, lengths, ..decode };
    assert_eq!(greedy(&DICE, &[&[1]], &stuck).unwrap()[0].ids, [2]);
    let options = BeamOptions { decode: stuck, beam_size: 1, ..BeamOptions::default() };
    assert_eq!(beam(&DICE, &[&[1]], &options).unwrap()[0][0].ids, [2]);
}
