//! Decoding on a GPU against the CPU: logits step by step, greedy decoding, beams, rules, attention, the best tokens.
//!
//! Without a usable GPU the tests print why they are skipped, and pass.

use polyhead_attention::Capture;
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::greedy::greedy;
use polyhead_models::decode::rules::{AtLimit, Rules};
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::{DecodeOptions, Hypothesis, Lengths, NextToken as _};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{
    AttentionPattern, Combination, CrossProjection, NormOrder, PositionConfig, RotaryPairing,
    SinusoidalLayout, StackConfig,
};
use polyhead_models::{Decoding, SequenceToSequence, Shortlist, Shortlisted, SpecialIds};
use polyhead_random::Random;
use polyhead_tensor::ops::best_tokens::best_tokens;
use polyhead_tensor::{Device, Math, Parameters, Tensor};

const VOCAB_SIZE: usize = 50;

fn gpu(math: Math) -> Option<Device> {
    Device::open("cuda", math).inspect_err(|error| eprintln!("skipped: {error}")).ok()
}

fn config() -> TransformerConfig {
    let stack = StackConfig::new(2, 4, 96);
    TransformerConfig {
        d_model: 64,
        encoder: stack,
        decoder: stack,
        max_len: 256,
        ..TransformerConfig::tiny(50)
    }
}

/// Several sources, which end wherever a sentence has this id.
fn several(combination: Combination, sources: usize) -> TransformerConfig {
    TransformerConfig { sources, combination, end_id: 7, ..config() }
}

/// A config for each variant of a decoding step.
fn configs() -> Vec<(&'static str, TransformerConfig)> {
    let grouped =
        StackConfig { n_key_heads: Some(2), d_key: Some(24), d_value: Some(8), ..StackConfig::new(2, 4, 96) };
    let odd =
        StackConfig { n_key_heads: Some(1), d_key: Some(6), d_value: Some(5), ..StackConfig::new(2, 3, 96) };
    let rotary = |pairing| PositionConfig::Rotary { base: 100.0, pairing, scaling: None };
    let fairseq = PositionConfig::Sinusoidal { layout: SinusoidalLayout::Fairseq };
    let relative = PositionConfig::Relative { max_distance: 3 };
    vec![
        ("paper", config()),
        ("pre-norm", TransformerConfig { norm_order: NormOrder::Pre, final_norm: true, ..config() }),
        ("grouped heads", TransformerConfig { decoder: grouped, ..config() }),
        ("odd heads", TransformerConfig { decoder: odd, ..config() }),
        ("shared projection", TransformerConfig { cross_projection: CrossProjection::Shared, ..config() }),
        ("bias", TransformerConfig { output_bias: true, ..config() }),
        ("fairseq", TransformerConfig { position: fairseq, ..config() }),
        ("learned", TransformerConfig { position: PositionConfig::Learned {}, ..config() }),
        ("rotary halves", TransformerConfig { position: rotary(RotaryPairing::Halves), ..config() }),
        ("rotary pairs", TransformerConfig { position: rotary(RotaryPairing::Interleaved), ..config() }),
        ("relative", TransformerConfig { position: relative, ..config() }),
        ("flat", several(Combination::Flat, 2)),
        ("hierarchical", several(Combination::Hierarchical, 3)),
        ("parallel", several(Combination::Parallel, 2)),
        ("serial", several(Combination::Serial, 2)),
        ("window", TransformerConfig { decoder_sight: AttentionPattern::Window { distance: 5 }, ..config() }),
    ]
}

fn build(config: &TransformerConfig) -> (SequenceToSequence, Parameters) {
    let mut parameters = Parameters::default();
    let model = SequenceToSequence::new(config, &mut parameters).unwrap();
    parameters.initialise(7);
    let all: Vec<_> = parameters.declared().map(|(id, _, shape)| (id, shape.len())).collect();
    for (index, (id, axes)) in all.into_iter().enumerate() {
        // Constant initial biases and norms would hide mistakes; larger weights make the choices clear.
        let random = Random::new(8).stream(index as u64);
        let data = parameters.value_mut(id).data_mut();
        data.iter_mut().zip(0..).for_each(|(value, at)| match axes {
            1 => *value += random.uniform(at) as f32 - 0.5,
            _ => *value *= 1.5,
        });
    }
    (model, parameters)
}

/// Sentences of 1 to 23 tokens.
fn sentences(count: usize) -> Vec<Vec<u32>> {
    let random = Random::new(3);
    let word = |row: usize, position: usize| (random.u64((100 * row + position) as u64) % 44) as u32 + 4;
    (0..count).map(|row| (0..=(7 * row) % 23).map(|position| word(row, position)).collect()).collect()
}

fn slices(sentences: &[Vec<u32>]) -> Vec<&[u32]> {
    sentences.iter().map(Vec::as_slice).collect()
}

/// The largest error relative to the largest magnitude.
fn difference(found: &Tensor, expected: &Tensor) -> f32 {
    assert_eq!(found.shape(), expected.shape());
    let largest = expected.data().iter().fold(1e-6_f32, |largest, x| largest.max(x.abs()));
    let pairs = found.data().iter().zip(expected.data());
    pairs.fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs())) / largest
}

/// Steps the same tokens through both, with rows dropped, duplicated and added again.
fn steps_agree(name: &str, config: &TransformerConfig, device: &Device, allowed: f32) {
    let (model, parameters) = build(config);
    let moved = parameters.to_device(device).unwrap();
    let capture = Capture::off();
    let host = Decoding::new(&model, &parameters, &capture);
    let gpu_decoding = Decoding { parameters: &moved, ..host };
    let sources = sentences(9);
    // First too many rows to record, then fewer, which are recorded, then few.
    let [many, fewer] = if name == "paper" { [1100, 600] } else { [36, 36] };
    let mut states = [&host, &gpu_decoding].map(|decoding| decoding.start(&slices(&sources), many).unwrap());
    let (random, mut rows, mut worst) = (Random::new(5), 9, 0.0_f32);
    for step in 0..150_u64 {
        let draw =
            |index: usize, below: usize| (random.stream(step).u64(index as u64) % below as u64) as usize;
        let tokens: Vec<u32> = (0..rows).map(|row| draw(row, VOCAB_SIZE) as u32).collect();
        let expected = host.step(&mut states[0], &tokens).unwrap();
        let found = gpu_decoding.step(&mut states[1], &tokens).unwrap().to_host().unwrap();
        worst = worst.max(difference(&found, &expected));
        // The maximum number of rows, then few, then more again.
        let next = match step {
            0..10 => many,
            10..40 => fewer,
            40..70 => 5,
            70..100 => 20,
            _ => 3,
        };
        if step % 3 != 1 || next != rows {
            let parents: Vec<usize> = (0..next).map(|row| draw(1000 + row, rows)).collect();
            host.reorder(&mut states[0], &parents);
            gpu_decoding.reorder(&mut states[1], &parents);
            rows = next;
        }
    }
    println!("{:<5} {name}: logits off by {worst:.1e}", device.math().name());
    assert!(worst <= allowed, "{name} in {:?}: {worst}", device.math());
    assert_eq!(states[0].sentences(), states[1].sentences());
}

#[test]
fn logits_of_steps_on_a_gpu_agree_with_the_cpu() {
    for (math, allowed) in [(Math::F32, 2e-5), (Math::Tf32, 5e-3), (Math::Bf16, 5e-2)] {
        let Some(device) = gpu(math) else { return };
        for (name, config) in configs() {
            if math == Math::F32 || name != "odd heads" {
                steps_agree(name, &config, &device, allowed);
            }
        }
    }
}

/// Asserts the same tokens, or others with the same score within `allowed`.
fn agree(what: &str, found: &[Vec<Hypothesis>], expected: &[Vec<Hypothesis>], allowed: f64) {
    assert_eq!(found.len(), expected.len());
    let mut other = 0;
    for (sentence, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}, sentence {sentence}");
        for (found, expected) in found.iter().zip(expected) {
            other += usize::from(found.ids != expected.ids);
            let off = (found.score - expected.score).abs() / expected.score.abs().max(1.0);
            assert!(off <= allowed, "{what}, sentence {sentence}: {found:?}, expected {expected:?}");
        }
    }
    println!("{what}: {other} of {} with other tokens", found.iter().map(Vec::len).sum::<usize>());
    assert!(allowed > 1e-3 || 20 * other <= found.len().max(20), "{what}: {other} differ");
}

#[test]
fn searches_on_a_gpu_agree_with_the_cpu() {
    for (math, allowed) in [(Math::F32, 1e-4), (Math::Bf16, 0.1)] {
        let Some(device) = gpu(math) else { return };
        for (name, config) in configs().into_iter().filter(|(name, _)| math == Math::F32 || *name == "paper")
        {
            let (model, parameters) = build(&config);
            let moved = parameters.to_device(&device).unwrap();
            let capture = Capture::off();
            let host = Decoding::new(&model, &parameters, &capture);
            let gpu_decoding = Decoding { parameters: &moved, ..host };
            let sentences = sentences(60);
            let sources = slices(&sentences);
            let SpecialIds { start_id, end_id, .. } = model.special_ids();
            let lengths = Lengths { max: 90, ..Lengths::default() };
            let rules = Rules { suppressed: vec![vec![7]], at_limit: AtLimit::ForceEnd, ..Rules::default() };
            let decode = DecodeOptions { start_id, end_id, lengths, rules };
            let single = |decoding: &Decoding<'_>| -> Vec<Vec<Hypothesis>> {
                greedy(decoding, &sources, &decode).unwrap().into_iter().map(|found| vec![found]).collect()
            };
            agree(&format!("{math:?} {name}, greedy"), &single(&gpu_decoding), &single(&host), allowed);
            let options = BeamOptions { decode: decode.clone(), top_beams: 1, ..BeamOptions::default() };
            let beams = |decoding: &Decoding<'_>| beam(decoding, &sources, &options).unwrap();
            agree(&format!("{math:?} {name}, beams"), &beams(&gpu_decoding), &beams(&host), allowed);
        }
    }
}

#[test]
fn searches_that_require_all_scores_work_on_a_gpu() {
    let Some(device) = gpu(Math::F32) else { return };
    let (model, parameters) = build(&config());
    let moved = parameters.to_device(&device).unwrap();
    let capture = Capture::off();
    let host = Decoding::new(&model, &parameters, &capture);
    let gpu_decoding = Decoding { parameters: &moved, ..host };
    let sentences = sentences(12);
    let sources = slices(&sentences);
    let SpecialIds { start_id, end_id, .. } = model.special_ids();
    let lengths = Lengths { max: 30, ..Lengths::default() };
    let rules = Rules { repetition_penalty: 1.3, no_repeat_ngram: 2, ..Rules::default() };
    let decode = DecodeOptions { start_id, end_id, lengths, rules };
    let penalised = BeamOptions { decode: decode.clone(), coverage_penalty: 0.2, ..BeamOptions::default() };
    let beams = |decoding: &Decoding<'_>| beam(decoding, &sources, &penalised).unwrap();
    agree("penalties", &beams(&gpu_decoding), &beams(&host), 1e-4);
    let drawing = SampleOptions { decode: decode.clone(), n_samples: 3, ..SampleOptions::default() };
    let samples = |decoding: &Decoding<'_>| sample(decoding, &sources, &drawing).unwrap();
    let [found, expected] = [samples(&gpu_decoding), samples(&host)];
    let same = found.iter().flatten().zip(expected.iter().flatten()).filter(|(a, b)| a.ids == b.ids).count();
    assert!(same >= 30, "{same} of 36 samples are the same");
    let ids: Vec<u32> = (4..30).collect();
    let lists = [(&host, &parameters), (&gpu_decoding, &moved)].map(|(decoding, parameters)| {
        let shortlist = Shortlist::new(&model, parameters, &ids).unwrap();
        let options = BeamOptions { decode: decode.clone(), ..BeamOptions::default() };
        beam(&Shortlisted { decoding: *decoding, shortlist: &shortlist }, &sources, &options).unwrap()
    });
    agree("a shortlist", &lists[1], &lists[0], 1e-4);
}

#[test]
fn best_tokens_agree_with_the_cpu() {
    let Some(device) = gpu(Math::F32) else { return };
    let random = Random::new(11);
    for (kind, width) in
        [3_usize, 50, 513, 5000, 32_001].into_iter().flat_map(|width| (0..4).map(move |kind| (kind, width)))
    {
        let logit = |index: u64| {
            let x = random.stream(width as u64).uniform(index) as f32 * 20.0 - 10.0;
            match kind {
                0 => x,
                // Many ties, all tied, few allowed.
                1 => x.floor(),
                2 => 1.0,
                _ if index % 7 == 3 => x,
                _ => f32::NEG_INFINITY,
            }
        };
        let logits = Tensor::new(&[5, width], (0..5 * width as u64).map(logit).collect());
        let gpu_decoding = logits.to_device(&device).unwrap();
        for k in [1, 8, 33, 64, 100] {
            let (found, expected) =
                (best_tokens(&gpu_decoding, k).unwrap(), best_tokens(&logits, k).unwrap());
            for (found, expected) in found.iter().zip(&expected) {
                assert_eq!(found.len(), expected.len(), "kind {kind}, {k} of {width}");
                for (found, expected) in found.iter().zip(expected) {
                    let near = (found.score - expected.score).abs() <= 2e-6 * expected.score.abs().max(1.0);
                    assert!(near, "kind {kind}, {k} of {width}: {found:?}, expected {expected:?}");
                }
                let ids = |all: &[polyhead_tensor::ops::best_tokens::Candidate]| -> Vec<u32> {
                    all.iter().map(|candidate| candidate.id).collect()
                };
                // Without ties, rounding may swap neighbours.
                if kind == 1 || kind == 2 {
                    assert_eq!(ids(found), ids(expected), "kind {kind}, {k} of {width}");
                }
            }
        }
    }
}
