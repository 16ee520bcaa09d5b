//! "je suis étudiant" by hand: every step of a beam of two, which finds what greedy decoding misses.

use polyhead_models::decode::DecodeOptions;
use polyhead_models::decode::beam::{BeamOptions, beam, beam_traced};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_models::decode::trace::{BeamTrace, CandidateOutcome};

use super::Table;

const WORDS: [&str; 6] = ["a", "am", "I", "thanks", "student", "<eos>"];
const END: u32 = 5;

fn table() -> Table<6> {
    Table([
        // a   am    I  thanks student <eos>
        [0.0, 0.0, 0.0, 0.0, 0.9, 0.1],   // after a
        [0.9, 0.0, 0.0, 0.1, 0.0, 0.0],   // after am
        [0.0, 0.9, 0.0, 0.0, 0.0, 0.1],   // after I
        [0.3, 0.0, 0.25, 0.0, 0.0, 0.45], // after thanks
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],   // after student
        [0.1, 0.0, 0.4, 0.5, 0.0, 0.0],   // at the start
    ])
}

fn words(ids: &[u32]) -> String {
    ids.iter().map(|&id| WORDS[id as usize]).collect::<Vec<_>>().join(" ")
}

/// The candidates of a step: words, probability to four decimals, outcome.
fn step(trace: &BeamTrace, step: usize) -> Vec<(String, f64, CandidateOutcome)> {
    let candidates = trace.steps[step].iter().enumerate();
    candidates
        .map(|(rank, candidate)| {
            let probability = (candidate.sum.exp() * 1e4).round() / 1e4;
            (words(&trace.ids(step, rank)), probability, candidate.outcome)
        })
        .collect()
}

fn assert_step(trace: &BeamTrace, index: usize, expected: &[(&str, f64, CandidateOutcome)]) {
    let expected: Vec<_> =
        expected.iter().map(|&(words, p, outcome)| (words.to_owned(), p, outcome)).collect();
    assert_eq!(step(trace, index), expected, "step {index}");
}

#[test]
fn a_beam_of_two_finds_what_greedy_decoding_misses() {
    let decode = DecodeOptions { start_id: END, end_id: END, ..DecodeOptions::default() };
    let options = BeamOptions {
        decode: decode.clone(),
        beam_size: 2,
        top_beams: 2,
        length_penalty: LengthPenalty::Power(0.0),
        ..BeamOptions::default()
    };
    let source: &[u32] = &[0, 1, 2];
    let (best, trace) = beam_traced(&table(), &[source], &options).unwrap().remove(0);
    let (finished, pruned) = (CandidateOutcome::Finished, CandidateOutcome::Pruned);
    let [first, second] = [CandidateOutcome::Live(0), CandidateOutcome::Live(1)];
    assert_step(&trace, 0, &[("thanks", 0.5, first), ("I", 0.4, second), ("a", 0.1, pruned)]);
    assert_step(
        &trace,
        1,
        &[
            ("I am", 0.36, first),             // 0.4 · 0.9
            ("thanks <eos>", 0.225, finished), // 0.5 · 0.45, second of all: may finish
            ("thanks a", 0.15, second),        // 0.5 · 0.3
            ("thanks I", 0.125, pruned),       // 0.5 · 0.25
        ],
    );
    assert_step(
        &trace,
        2,
        &[
            ("I am a", 0.324, first),
            ("thanks a student", 0.135, second),
            ("I am thanks", 0.036, pruned),
            ("thanks a <eos>", 0.015, pruned), // ends, but not among the first two
        ],
    );
    assert_step(
        &trace,
        3,
        &[
            ("I am a student", 0.2916, first),
            ("thanks a student <eos>", 0.135, finished),
            ("I am a <eos>", 0.0324, pruned),
        ],
    );
    // Two have finished, but 0.2916 is better than 0.135: one more step.
    assert_step(&trace, 4, &[("I am a student <eos>", 0.2916, finished)]);
    assert_eq!(trace.steps.len(), 5);

    assert_eq!(words(&best[0].ids), "I am a student <eos>");
    assert_eq!(words(&best[1].ids), "thanks <eos>");
    assert!((best[0].score - 0.2916_f64.ln()).abs() < 1e-6 && (best[1].score - 0.225_f64.ln()).abs() < 1e-6);
    assert_eq!(beam(&table(), &[source], &options).unwrap()[0], best);

    let greedy = greedy(&table(), &[source], &decode).unwrap();
    assert_eq!(words(&greedy[0].ids), "thanks <eos>");
    assert!((greedy[0].log_probability - 0.225_f64.ln()).abs() < 1e-6);
}
