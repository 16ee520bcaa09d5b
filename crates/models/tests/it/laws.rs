//! Laws of whole Transformers, over every option of their config: padding changes no other row, the future changes no past,
//! cached steps equal the full pass, capture and threads change nothing, gradients match finite differences.

use polyhead_attention::{Capture, Pass};
use polyhead_models::Ids;
use polyhead_models::checkpoint::{CheckpointLayout, SaveOptions, save};
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken as _};
use polyhead_models::transformer::TransformerConfig;
use polyhead_models::transformer::config::{
    AttentionPattern, CrossProjection, Dropout, NormOrder, PositionConfig, RotaryPairing, SinusoidalLayout,
    StackConfig, Tie,
};
use polyhead_models::{Decoding, SequenceToSequence, Shortlist, Shortlisted};
use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::ops::r_drop::RDropOptions;
use polyhead_tensor::{Dtype, Parameters, Tape, Tensor};

fn tiny() -> TransformerConfig {
    TransformerConfig {
        source_vocab_size: 13,
        target_vocab_size: 13,
        d_model: 12,
        encoder: StackConfig::new(2, 3, 10),
        decoder: StackConfig::new(3, 2, 9),
        max_len: 64,
        pad_id: 12,
        end_id: 0,
        start_id: 12,
        ..TransformerConfig::default()
    }
}

/// One config for each option.
fn configs() -> Vec<(&'static str, TransformerConfig)> {
    let heads = StackConfig {
        n_heads: 4,
        n_key_heads: Some(2),
        d_key: Some(6),
        d_value: Some(5),
        ..StackConfig::new(2, 4, 9)
    };
    let window = AttentionPattern::Window { distance: 2 };
    let dilated = AttentionPattern::Dilated { distance: 1, dilation: 2 };
    let global = AttentionPattern::GlobalWindow { distance: 1, global: vec![0] };
    let rotary = PositionConfig::Rotary { base: 100.0, pairing: RotaryPairing::Halves, scaling: None };
    let fairseq = PositionConfig::Sinusoidal { layout: SinusoidalLayout::Fairseq };
    vec![
        ("paper", tiny()),
        ("pre-norm", TransformerConfig { norm_order: NormOrder::Pre, final_norm: true, ..tiny() }),
        ("shared projection", TransformerConfig { cross_projection: CrossProjection::Shared, ..tiny() }),
        ("grouped heads", TransformerConfig { encoder: heads, decoder: heads, ..tiny() }),
        (
            "nothing tied",
            TransformerConfig { tie: Tie::None, target_vocab_size: 17, output_bias: true, ..tiny() },
        ),
        ("target tied", TransformerConfig { tie: Tie::TargetOutput, target_vocab_size: 17, ..tiny() }),
        ("source tied", TransformerConfig { tie: Tie::SourceTarget, scale_embedding: false, ..tiny() }),
        ("rotary", TransformerConfig { position: rotary, ..tiny() }),
        ("relative", TransformerConfig { position: PositionConfig::Relative { max_distance: 2 }, ..tiny() }),
        ("learned", TransformerConfig { position: PositionConfig::Learned {}, ..tiny() }),
        ("fairseq", TransformerConfig { position: fairseq, pad_id: 1, ..tiny() }),
        ("no positions", TransformerConfig { position: PositionConfig::None {}, ..tiny() }),
        ("window", TransformerConfig { encoder_sight: window.clone(), decoder_sight: window, ..tiny() }),
        ("dilated", TransformerConfig { encoder_sight: dilated.clone(), decoder_sight: dilated, ..tiny() }),
        ("global", TransformerConfig { encoder_sight: global.clone(), decoder_sight: global, ..tiny() }),
    ]
}

fn build(config: &TransformerConfig) -> (SequenceToSequence, Parameters) {
    let mut parameters = Parameters::default();
    let model = SequenceToSequence::new(config, &mut parameters).unwrap();
    parameters.initialise(7);
    // Constant initial biases and norms would hide mistakes.
    for (index, (id, shape)) in parameters
        .declared()
        .map(|(id, _, shape)| (id, shape.to_vec()))
        .collect::<Vec<_>>()
        .into_iter()
        .enumerate()
    {
        if shape.len() == 1 {
            let random = Random::new(8).stream(index as u64);
            let data = parameters.value_mut(id).data_mut();
            data.iter_mut().zip(0..).for_each(|(value, at)| *value += random.uniform(at) as f32 - 0.5);
        }
    }
    (model, parameters)
}

fn logits(
    model: &SequenceToSequence,
    parameters: &Parameters,
    sources: &[&[u32]],
    targets: &[&[u32]],
) -> Tensor {
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass::new(&tape, parameters, &capture);
    let pad_id = model.special_ids().pad_id;
    model
        .forward(&pass, &Ids::padded(sources, pad_id), &Ids::padded(targets, pad_id))
        .unwrap()
        .value()
        .clone()
}

const SOURCES: [&[u32]; 3] = [&[3, 4, 5, 6, 7, 0], &[8, 0], &[9, 10, 11, 0]];
const TARGETS: [&[u32]; 3] = [&[12, 5, 6], &[12, 7, 8, 9, 10], &[12, 2]];

/// The bits of the logits of one row, without padding.
fn row(logits: &Tensor, row: usize, length: usize) -> Vec<u32> {
    let &[_, longest, vocab_size] = logits.shape() else { panic!("three axes") };
    let start = row * longest * vocab_size;
    logits.data()[start..start + length * vocab_size].iter().map(|number| number.to_bits()).collect()
}

#[test]
fn padding_and_neighbours_never_change_a_row() {
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let together = logits(&model, &parameters, &SOURCES, &TARGETS);
        for (index, (source, target)) in SOURCES.iter().zip(TARGETS).enumerate() {
            let alone = logits(&model, &parameters, &[source], &[target]);
            assert_eq!(
                row(&alone, 0, target.len()),
                row(&together, index, target.len()),
                "{name}, row {index}"
            );
        }
    }
}

#[test]
fn the_future_never_changes_the_past() {
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let whole = logits(&model, &parameters, &[SOURCES[0]], &[TARGETS[1]]);
        for length in 1..TARGETS[1].len() {
            let before = logits(&model, &parameters, &[SOURCES[0]], &[&TARGETS[1][..length]]);
            assert_eq!(row(&before, 0, length), row(&whole, 0, length), "{name}, {length} tokens");
        }
    }
}

#[test]
fn cached_steps_equal_the_full_pass_bit_for_bit() {
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let target: Vec<u32> = (0..40).map(|index| [12, 5, 6, 7, 8, 9, 10][index % 7]).collect();
        let whole = logits(&model, &parameters, &SOURCES, &[&target, &target, &target]);
        let capture = Capture::off();
        let decoding = Decoding::new(&model, &parameters, &capture);
        let mut state = decoding.start(&SOURCES, 3).unwrap();
        let vocab_size = config.target_vocab_size;
        for (position, &token) in target.iter().enumerate() {
            let step = decoding.step(&mut state, &[token; 3]).unwrap();
            for (index, found) in step.data().chunks_exact(vocab_size).enumerate() {
                let start = (index * target.len() + position) * vocab_size;
                assert_eq!(
                    found,
                    &whole.data()[start..start + vocab_size],
                    "{name}, row {index}, position {position}"
                );
            }
        }
    }
}

/// Logits of every step of one target for all sources, one token at a time.
fn stepped(model: &SequenceToSequence, parameters: &Parameters, sources: &[&[u32]]) -> Vec<Tensor> {
    let capture = Capture::off();
    let decoding = Decoding::new(model, parameters, &capture);
    let mut state = decoding.start(sources, sources.len()).unwrap();
    TARGETS[1].iter().map(|&token| decoding.step(&mut state, &vec![token; sources.len()]).unwrap()).collect()
}

#[test]
fn packed_weights_change_no_bit_and_int8_rows_do_not_depend_on_their_batch() {
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let plain = logits(&model, &parameters, &SOURCES, &TARGETS);
        let mut packed = parameters.clone();
        packed.prepare(Dtype::F32);
        assert_eq!(logits(&model, &packed, &SOURCES, &TARGETS).data(), plain.data(), "{name}");
        let mut int8 = parameters.clone();
        int8.prepare(Dtype::Int8);
        let targets = [TARGETS[1]; 3];
        let together = logits(&model, &int8, &SOURCES, &targets);
        let steps = stepped(&model, &int8, &SOURCES);
        for (index, source) in SOURCES.iter().enumerate() {
            let alone = logits(&model, &int8, &[source], &[TARGETS[1]]);
            assert_eq!(row(&alone, 0, 5), row(&together, index, 5), "{name}, row {index}");
            for (position, (batch, alone)) in steps.iter().zip(stepped(&model, &int8, &[source])).enumerate()
            {
                let width = config.target_vocab_size;
                let batch = &batch.data()[index * width..(index + 1) * width];
                assert_eq!(batch, alone.data(), "{name}, row {index}, position {position}");
                let start = (index * 5 + position) * width;
                assert_eq!(
                    batch,
                    &together.data()[start..start + width],
                    "{name}, row {index}, position {position}"
                );
            }
        }
        let exact = logits(&model, &parameters, &SOURCES, &targets);
        let far = together.data().iter().zip(exact.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far > 0.0 && far < 0.5, "{name}: int8 differs by {far}");
    }
}

#[test]
fn a_shortlist_preserves_the_bits_of_its_logits() {
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let [mut packed, mut int8] = [parameters.clone(), parameters.clone()];
        packed.prepare(Dtype::F32);
        int8.prepare(Dtype::Int8);
        for parameters in [&parameters, &packed, &int8] {
            let shortlist = Shortlist::new(&model, parameters, &[7, 3, 7]).unwrap();
            assert_eq!(shortlist.len(), 3, "{name}: two ids and the end");
            let capture = Capture::off();
            let decoding = Decoding::new(&model, parameters, &capture);
            let short = Shortlisted { decoding, shortlist: &shortlist };
            let mut states = [decoding.start(&SOURCES, 3).unwrap(), short.start(&SOURCES, 3).unwrap()];
            let all = decoding.step(&mut states[0], &[12; 3]).unwrap();
            let few = short.step(&mut states[1], &[12; 3]).unwrap();
            for (at, (all, few)) in all.data().iter().zip(few.data()).enumerate() {
                let is_listed = [0, 3, 7].contains(&(at % config.target_vocab_size));
                assert_eq!(*few, if is_listed { *all } else { f32::NEG_INFINITY }, "{name}");
            }
        }
        assert!(Shortlist::new(&model, &parameters, &[99]).is_err());
    }
}

#[test]
fn a_sentence_has_its_own_shortlist_in_any_batch() {
    let lists = [vec![7, 3, 7], vec![4, 5, 9, 3], vec![11, 10, 9, 8, 2, 1]];
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let [mut packed, mut int8] = [parameters.clone(), parameters.clone()];
        packed.prepare(Dtype::F32);
        int8.prepare(Dtype::Int8);
        for parameters in [&parameters, &packed, &int8] {
            let capture = Capture::off();
            let decoding = Decoding::new(&model, parameters, &capture);
            let options = BeamOptions { top_beams: 4, ..beam_options() };
            let search = |sources: &[&[u32]], lists: &[Vec<u32>]| {
                let shortlist = Shortlist::of_sentences(&model, parameters, lists).unwrap();
                beam(&Shortlisted { decoding, shortlist: &shortlist }, sources, &options).unwrap()
            };
            let together = search(&SOURCES, &lists);
            for (sentence, list) in lists.iter().enumerate() {
                let alone = search(&SOURCES[sentence..=sentence], &lists[sentence..=sentence]);
                assert_eq!(together[sentence], alone[0], "{name}, sentence {sentence}");
                let ids = together[sentence].iter().flat_map(|found| &found.ids);
                assert!(ids.clone().all(|id| *id == 0 || list.contains(id)), "{name}: {ids:?}");
            }
            let shortlist = Shortlist::of_sentences(&model, parameters, &lists).unwrap();
            let short = Shortlisted { decoding, shortlist: &shortlist };
            let mut states = [decoding.start(&SOURCES, 3).unwrap(), short.start(&SOURCES, 3).unwrap()];
            let all = decoding.step(&mut states[0], &[12; 3]).unwrap();
            let few = short.step(&mut states[1], &[12; 3]).unwrap();
            for (at, (all, few)) in all.data().iter().zip(few.data()).enumerate() {
                let (row, id) = (at / config.target_vocab_size, (at % config.target_vocab_size) as u32);
                let is_listed = id == 0 || lists[row].contains(&id);
                assert_eq!(*few, if is_listed { *all } else { f32::NEG_INFINITY }, "{name}");
            }
            assert!(short.start(&SOURCES[..2], 2).is_err(), "three lists, two sources");
        }
    }
}

/// A search that reads all scores of one sentence does not change those of another.
#[test]
fn a_forced_prefix_changes_no_other_sentence_of_a_shortlist() {
    let (model, parameters) = build(&tiny());
    let capture = Capture::off();
    let decoding = Decoding::new(&model, &parameters, &capture);
    let lists = [vec![7, 3, 6], vec![4, 5, 9, 3], vec![11, 10, 9, 8, 2, 1]];
    let shortlist = Shortlist::of_sentences(&model, &parameters, &lists).unwrap();
    let short = Shortlisted { decoding, shortlist: &shortlist };
    let plain = beam(&short, &SOURCES, &beam_options()).unwrap();
    let mut options = beam_options();
    options.decode.rules.prefixes = vec![vec![7, 7, 3], vec![], vec![]];
    let forced = beam(&short, &SOURCES, &options).unwrap();
    assert_eq!(forced[1..], plain[1..]);
    assert!(forced[0][0].ids.starts_with(&[7, 7, 3]) && forced[0][0].log_probability.is_finite());
}

fn beam_options() -> BeamOptions {
    let lengths = Lengths { max: 9, ..Lengths::default() };
    let decode = DecodeOptions { start_id: 12, end_id: 0, lengths, ..DecodeOptions::default() };
    BeamOptions { decode, ..BeamOptions::default() }
}

#[test]
fn save_and_load_preserve_int8_weights() {
    for (name, config) in configs() {
        let (model, mut parameters) = build(&config);
        parameters.prepare(Dtype::Int8);
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        save(first.path(), &config, &parameters, &SaveOptions::default()).unwrap();
        let (again, loaded) = super::outside::load(first.path());
        save(second.path(), &config, &loaded, &SaveOptions::default()).unwrap();
        let read = |folder: &std::path::Path| std::fs::read(folder.join("model.safetensors")).unwrap();
        assert_eq!(read(first.path()), read(second.path()), "{name}");
        let before = logits(&model, &parameters, &SOURCES, &TARGETS);
        assert_eq!(logits(&again, &loaded, &SOURCES, &TARGETS).data(), before.data(), "{name}");
        let refused = save(
            second.path(),
            &config,
            &loaded,
            &SaveOptions { layout: CheckpointLayout::Marian, ..SaveOptions::default() },
        );
        assert!(refused.is_err(), "{name}");
    }
}

#[test]
fn capture_and_threads_change_nothing() {
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let plain = logits(&model, &parameters, &SOURCES, &TARGETS);
        let capture = Capture::everything();
        let pad_id = config.pad_id;
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let other = pool.install(|| logits(&model, &parameters, &SOURCES, &TARGETS));
            assert_eq!(other.data(), plain.data(), "{name}, {threads} threads");
        }
        let tape = Tape::inference();
        let pass = Pass::new(&tape, &parameters, &capture);
        let captured_logits =
            model.forward(&pass, &Ids::padded(&SOURCES, pad_id), &Ids::padded(&TARGETS, pad_id)).unwrap();
        assert_eq!(captured_logits.value().data(), plain.data(), "{name}");
        let trace = capture.take();
        assert_eq!(trace.weights.len(), config.encoder.n_layers + 2 * config.decoder.n_layers, "{name}");
        for captured in &trace.weights {
            let &[_, n_heads, q_len, k_len] = captured.weights.shape() else { panic!("four axes") };
            let lengths =
                if captured.site.kind.queries == "source" { SOURCES } else { TARGETS }.map(<[u32]>::len);
            for (index, weights) in captured.weights.data().chunks_exact(k_len).enumerate() {
                let exists = index % q_len < lengths[index / q_len / n_heads];
                assert!(
                    !exists || (weights.iter().sum::<f32>() - 1.0).abs() < 1e-5,
                    "{name}, {}",
                    captured.site
                );
            }
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    let no_dropout = Dropout { embedding: 0.0, residual: 0.0, attention: 0.0, activation: 0.0 };
    for (name, config) in configs() {
        let config = TransformerConfig { dropout: no_dropout, ..config };
        let (model, mut parameters) = build(&config);
        let expected = [5, 6, 0, 9, 9, 7, 8, 9, 10, 0, 2, 0, 9, 9, 9].into();
        let loss = |parameters: &Parameters, tape: &Tape| {
            let capture = Capture::off();
            let pass = Pass::new(tape, parameters, &capture);
            let [source, target] = [&SOURCES, &TARGETS].map(|rows| Ids::padded(rows, config.pad_id));
            let options = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(9) };
            model.loss(&pass, &source, &target, &expected, options).unwrap()
        };
        crate::families::assert_slope(name, &mut parameters, loss);
    }
}

/// The fused loss, which stores no logits, equals the plain one bit for bit, and two passes without dropout agree.
#[test]
fn fused_losses_equal_those_of_the_logits() {
    for (name, config) in configs() {
        let (model, parameters) = build(&config);
        let expected = [5, 6, 0, 9, 9, 7, 8, 9, 10, 0, 2, 0, 9, 9, 9].into();
        let options = CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(9) };
        let [source, target] = [&SOURCES, &TARGETS].map(|rows| Ids::padded(rows, config.pad_id));
        let losses = [Capture::off(), Capture::everything()].map(|capture| {
            let tape = Tape::training(1, 1);
            let pass = Pass::new(&tape, &parameters, &capture);
            let loss = model.loss(&pass, &source, &target, &expected, options).unwrap();
            let gradients = tape.backward(&loss);
            let bits = |tensor: &Tensor| tensor.data().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            (
                bits(loss.value()),
                gradients.parameters().map(|(_, gradient)| bits(gradient)).collect::<Vec<_>>(),
            )
        });
        assert!(losses[0] == losses[1], "{name}");
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let one = model.loss(&pass, &source, &target, &expected, options).unwrap().value().data()[0];
        let [source, target] =
            [&SOURCES, &TARGETS].map(|rows| Ids::padded(&[&rows[..], &rows[..]].concat(), config.pad_id));
        let both = RDropOptions { cross_entropy: options, ..RDropOptions::default() };
        let two = model.r_drop_loss(&pass, &source, &target, &expected, both).unwrap();
        assert_eq!((two.divergence.data(), two.cross_entropy.data()), (&[0.0][..], &[one][..]), "{name}");
    }
}

#[test]
fn presets_have_the_parameters_of_the_paper() {
    for (name, vocab_size, expected) in [
        ("tiny", 8000, 2_412_544),
        ("small", 8000, 7_577_600),
        ("base", 37_000, 63_082_496),
        ("big", 37_000, 214_245_376),
    ] {
        let config = TransformerConfig::named(name, vocab_size).unwrap();
        let mut parameters = Parameters::default();
        SequenceToSequence::new(&config, &mut parameters).unwrap();
        assert_eq!(parameters.count(), expected, "{name}");
    }
}
