//! Laws: batches, threads, caches and a beam of one change nothing.

use polyhead_attention::Pass;
use polyhead_models::Ids;
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::constrained::constrained;
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::rules::{AtLimit, Rules};
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::score::score;
use polyhead_models::decode::stopping::EarlyStopping;
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths, NextToken};
use polyhead_tensor::Dtype;
use polyhead_tensor::Tape;

use super::{LoadedModel, bits, sentences, slices};

fn all_bits(found: &[Vec<Hypothesis>]) -> Vec<Vec<(Vec<u32>, u64, u64)>> {
    found.iter().map(|sentence| sentence.iter().map(bits).collect()).collect()
}

/// Suppressed tokens, n-grams and a minimum length: rules that do not rescale.
fn rules_on(options: &DecodeOptions) -> DecodeOptions {
    let rules =
        Rules { suppressed: vec![vec![5], vec![26, 26]], no_repeat_ngram: 2, ..options.rules.clone() };
    let lengths = Lengths { min: 3, max_ratio: Some(2.5), ..options.lengths };
    DecodeOptions { rules, lengths, ..options.clone() }
}

#[test]
fn a_beam_of_one_is_greedy() {
    let loaded = LoadedModel::new("marian/gelu");
    let sources = sentences(40, 1);
    let plain = loaded.options(24);
    for decode in [plain.clone(), rules_on(&plain)] {
        let greedy = greedy(&loaded.decoding(), &slices(&sources), &decode).unwrap();
        for length_penalty in [LengthPenalty::Power(0.0), LengthPenalty::Power(1.0), LengthPenalty::Wu(0.6)] {
            let options = BeamOptions {
                decode: decode.clone(),
                beam_size: 1,
                length_penalty,
                ..BeamOptions::default()
            };
            let beams = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
            for (greedy, beams) in greedy.iter().zip(&beams) {
                assert_eq!(beams.len(), 1);
                assert_eq!(beams[0].ids, greedy.ids);
                assert_eq!(beams[0].log_probability.to_bits(), greedy.log_probability.to_bits());
                let expected = length_penalty.score(greedy.log_probability, greedy.ids.len());
                assert_eq!(beams[0].score.to_bits(), expected.to_bits());
            }
        }
    }
}

#[test]
fn batch_size_and_threads_change_no_bit() {
    let loaded = LoadedModel::new("marian/relu");
    let sources = sentences(64, 2);
    let plain = loaded.options(20);
    let cases = [(plain.clone(), 1), (plain.clone(), 4), (rules_on(&plain), 4)];
    let dtypes = [None, Some(Dtype::F32), Some(Dtype::Int8)];
    for ((decode, beam_size), dtype) in
        cases.iter().flat_map(|case| dtypes.map(|dtype| (case.clone(), dtype)))
    {
        let options = BeamOptions { decode, beam_size, top_beams: beam_size, ..BeamOptions::default() };
        let run = |batch: usize, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut loaded = LoadedModel::new("marian/relu");
                if let Some(dtype) = dtype {
                    loaded.parameters.prepare(dtype);
                }
                let found = slices(&sources)
                    .chunks(batch)
                    .flat_map(|sources| beam(&loaded.decoding(), sources, &options).unwrap())
                    .collect::<Vec<_>>();
                all_bits(&found)
            })
        };
        let alone = run(1, 1);
        for batch in [2, 7, 64] {
            for threads in [1, 2] {
                assert_eq!(run(batch, threads), alone, "{dtype:?}, batches of {batch}, {threads} threads");
            }
        }
    }
}

#[test]
fn samples_do_not_depend_on_their_batch() {
    let loaded = LoadedModel::new("marian/relu");
    let sources = sentences(12, 3);
    let options =
        SampleOptions { decode: loaded.options(20), n_samples: 3, seed: 5, ..SampleOptions::default() };
    let together = sample(&loaded.decoding(), &slices(&sources), &options).unwrap();
    for (source, expected) in sources.iter().zip(&together).rev() {
        let alone = sample(&loaded.decoding(), &[source], &options).unwrap();
        assert_eq!(all_bits(&alone)[0], expected.iter().map(bits).collect::<Vec<_>>());
    }
    let all: std::collections::HashSet<_> = together.iter().flatten().map(|found| &found.ids).collect();
    assert!(all.len() > 30, "samples differ");
    let other = sample(&loaded.decoding(), &slices(&sources), &SampleOptions { seed: 6, ..options }).unwrap();
    assert_ne!(other, together);
}

#[test]
fn hypotheses_are_sorted_and_distinct_and_their_scores_are_their_sums() {
    let loaded = LoadedModel::new("marian/silu");
    let sources = sentences(20, 4);
    for early_stopping in [EarlyStopping::Heuristic, EarlyStopping::First, EarlyStopping::Never] {
        for length_penalty in [LengthPenalty::Power(0.7), LengthPenalty::Wu(0.7), LengthPenalty::Power(-0.5)]
        {
            let options = BeamOptions {
                decode: loaded.options(16),
                beam_size: 5,
                top_beams: 5,
                length_penalty,
                early_stopping,
                surface_forms: None,
                coverage_penalty: 0.0,
            };
            let found = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
            for (source, found) in sources.iter().zip(&found) {
                assert_eq!(found.len(), 5);
                assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
                assert!((1..5).all(|rank| found[..rank].iter().all(|other| other.ids != found[rank].ids)));
                let targets: Vec<&[u32]> = found.iter().map(|found| found.ids.as_slice()).collect();
                let start_id = options.decode.start_id;
                let scores = score(&loaded.decoding(), &[source.as_slice(); 5], &targets, start_id).unwrap();
                for (found, scores) in found.iter().zip(scores) {
                    let sum: f64 = scores.into_iter().map(f64::from).sum();
                    assert_eq!(sum.to_bits(), found.log_probability.to_bits());
                    assert_eq!(length_penalty.score(sum, found.ids.len()).to_bits(), found.score.to_bits());
                }
            }
        }
    }
}

#[test]
fn later_stopping_never_finds_a_worse_hypothesis() {
    let loaded = LoadedModel::new("marian/tanh");
    let sources = sentences(30, 8);
    let run = |early_stopping| {
        let options = BeamOptions { decode: loaded.options(20), early_stopping, ..BeamOptions::default() };
        beam(&loaded.decoding(), &slices(&sources), &options).unwrap()
    };
    let [first, heuristic, never] =
        [EarlyStopping::First, EarlyStopping::Heuristic, EarlyStopping::Never].map(run);
    for ((first, heuristic), never) in first.iter().zip(&heuristic).zip(&never) {
        assert!(first[0].score <= heuristic[0].score && heuristic[0].score <= never[0].score);
    }
    assert_ne!(first, never);
}

#[test]
fn cached_steps_equal_the_full_pass_bit_for_bit() {
    for name in ["marian/relu", "marian/opus", "torch/pre", "torch/post"] {
        let loaded = LoadedModel::new(name);
        let sources = sentences(3, 6);
        let sources: Vec<Vec<u32>> =
            sources.iter().map(|ids| ids.iter().map(|id| id % 29).collect()).collect();
        let target: Vec<Vec<u32>> =
            (0..3).map(|row| (0..9).map(|position| (7 * row + 5 * position) % 29).collect()).collect();
        let (tape, decoding) = (Tape::inference(), loaded.decoding());
        let pass = Pass::new(&tape, &loaded.parameters, &loaded.capture);
        let pad_id = loaded.model.special_ids().pad_id;
        let whole = loaded
            .model
            .forward(&pass, &Ids::padded(&slices(&sources), pad_id), &Ids::padded(&slices(&target), pad_id))
            .unwrap();
        let vocab_size = *whole.shape().last().unwrap();
        let mut state = decoding.start(&slices(&sources), 3).unwrap();
        for position in 0..9 {
            let tokens: Vec<u32> = target.iter().map(|row| row[position]).collect();
            let logits = decoding.step(&mut state, &tokens).unwrap();
            for row in 0..3 {
                let step = &logits.data()[row * vocab_size..][..vocab_size];
                let full = &whole.value().data()[(row * 9 + position) * vocab_size..][..vocab_size];
                assert!(
                    step.iter().zip(full).all(|(a, b)| a.to_bits() == b.to_bits()),
                    "{name} {row} {position}"
                );
            }
        }
    }
}

#[test]
fn every_method_respects_a_prefix() {
    let loaded = LoadedModel::new("marian/gelu");
    let sources = sentences(10, 7);
    let prefixes: Vec<Vec<u32>> =
        (0..10).map(|row| (0..row % 4).map(|position| 3 + 9 * row + position).collect()).collect();
    let rules = Rules { prefixes: prefixes.clone(), at_limit: AtLimit::ForceEnd, ..Rules::default() };
    let decode = DecodeOptions { rules, ..loaded.options(12) };
    let (model, sources) = (loaded.decoding(), slices(&sources));
    let beams = BeamOptions { decode: decode.clone(), top_beams: 4, ..BeamOptions::default() };
    let samples = SampleOptions { decode: decode.clone(), n_samples: 3, ..SampleOptions::default() };
    let greedy = greedy(&model, &sources, &decode).unwrap().into_iter().map(|found| vec![found]).collect();
    let beams = beam(&model, &sources, &beams).unwrap();
    let samples = sample(&model, &sources, &samples).unwrap();
    for found in [greedy, beams, samples] {
        for (found, prefix) in found.iter().zip(&prefixes) {
            for found in found {
                assert!(found.ids.starts_with(prefix), "{:?} {prefix:?}", found.ids);
                assert_eq!(found.ids.last(), Some(&decode.end_id), "the end is forced");
                assert!(found.ids.len() <= 12);
            }
        }
    }
}

#[test]
fn grid_beam_search_without_constraints_is_beam_search() {
    let loaded = LoadedModel::new("marian/gelu");
    let sources = sentences(20, 9);
    let options = BeamOptions { decode: loaded.options(20), top_beams: 4, ..BeamOptions::default() };
    let beams = beam(&loaded.decoding(), &slices(&sources), &options).unwrap();
    let grid = constrained(&loaded.decoding(), &slices(&sources), &vec![vec![]; 20], &options).unwrap();
    assert_eq!(all_bits(&grid), all_bits(&beams));
}
