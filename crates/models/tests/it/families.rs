//! Laws of every model family, by its view. A family registers once, by its example (`ModelConfig::examples`), and is then
//! tested against all of them; `laws.rs` also covers the options of the encoder-decoder Transformer.

use polyhead_attention::capture::Weights;
use polyhead_attention::{Capture, Filter, Intervention, Pass};
use polyhead_models::checkpoint::{SaveOptions, load, save};
use polyhead_models::decode::rules::Rules;
use polyhead_models::decode::sample::{SampleOptions, sample};
use polyhead_models::decode::sampler::Sampler;
use polyhead_models::decode::{DecodeOptions, Lengths, NextToken as _};
use polyhead_models::encoder::NO_LABEL;
use polyhead_models::pointer::{AnswerRule, Orders, PointSpec};
use polyhead_models::speech::{Frames, SpeechDecoding};
use polyhead_models::vision::ImageSpec;
use polyhead_models::{
    DataSpec, Decoding, Ids, LanguageModelDecoding, LanguageModelState, Model, ModelConfig, SpeechRecognizer,
    View,
};
use polyhead_random::Random;
use polyhead_tensor::ops::cross_entropy::CrossEntropyOptions;
use polyhead_tensor::{Dtype, Parameters, Tape, Tensor, Var};
use serde_json::Value;

/// Sources, targets and labels.
const SOURCES: [&[u32]; 3] = [&[3, 4, 5, 6, 7, 1], &[8, 1], &[9, 10, 11, 1]];
/// Rows of several sources: three in the first row, of which the last is long; an empty second one; one alone.
const SEVERAL: [&[u32]; 3] = [&[3, 4, 1, 5, 1, 6, 7, 1], &[8, 1, 1], &[9, 10, 11, 1]];
const TARGETS: [&[u32]; 3] = [&[0, 5, 6], &[0, 7, 8, 9, 10], &[0, 2]];
const LABELS: [u32; 3] = [0, 2, 1];
/// Points of two coordinates, and orders of them.
const POINTS: [&[f32]; 3] =
    [&[0.1, 0.2, 0.3, 0.9, 0.5, 0.4, 0.8, 0.6], &[0.7, 0.1], &[0.2, 0.8, 0.4, 0.3, 0.6, 0.5]];
const ORDERS: [&[u32]; 3] = [&[2, 0, 3], &[0], &[1, 2]];

/// Height and width of the images; patches of 3 × 3 pixels leave a row of pixels unread.
const IMAGE: [usize; 2] = [7, 9];
/// Patches and learned tokens of an image, at most.
const IMAGE_LEN: usize = 2 * 3 + 2;

/// An image with two channels.
fn image(row: usize) -> Vec<f32> {
    let random = Random::new(11).stream(row as u64);
    (0..2 * IMAGE[0] as u64 * IMAGE[1] as u64).map(|at| 2.0 * random.uniform(at) as f32 - 1.0).collect()
}

/// Frames of each sound of the law tests.
const FRAMES: [usize; 3] = [11, 3, 6];

/// Mel bands in the sounds of a speech recogniser.
fn sound(row: usize, n_mels: usize) -> Vec<f32> {
    let random = Random::new(11).stream(row as u64);
    (0..(FRAMES[row] * n_mels) as u64).map(|at| random.uniform(at) as f32 * 2.0 - 1.0).collect()
}

fn frames(model: &SpeechRecognizer, rows: &[Option<usize>], length: usize) -> Frames {
    let sounds: Vec<_> = rows.iter().map(|row| row.map(|row| sound(row, model.config().n_mels))).collect();
    model.frames(sounds.iter().map(Option::as_deref), length)
}

/// The sources of a translator.
fn sources(n_sources: usize) -> [&'static [u32]; 3] {
    if n_sources > 1 { SEVERAL } else { SOURCES }
}

fn data_spec() -> DataSpec {
    let labels = ["no", "perhaps", "yes"].map(str::to_owned).to_vec();
    let points =
        PointSpec { offset: vec![0.4, 0.5], scale: vec![0.3, 0.2], answer: AnswerRule::Subset, shortest: 1 };
    DataSpec {
        vocab_sizes: [13; 2],
        pad_id: 0,
        end_id: 1,
        unknown_id: 2,
        labels,
        points,
        special_tokens: false,
        images: ImageSpec { size: IMAGE, channels: 2 },
    }
}

/// Every family with random values, also of biases and norms, whose constant initial values would hide mistakes.
fn families() -> Vec<(String, Model, Parameters)> {
    built(ModelConfig::examples())
}

fn built(examples: Vec<ModelConfig>) -> Vec<(String, Model, Parameters)> {
    let build = |example: ModelConfig| {
        let mut parameters = Parameters::default();
        let config = example.with_data(&data_spec()).unwrap();
        let model = Model::new(&config, &mut parameters).unwrap();
        parameters.initialise(7);
        let ids: Vec<_> = parameters.declared().map(|(id, ..)| id).collect();
        for (stream, id) in ids.into_iter().enumerate() {
            let random = Random::new(3).stream(stream as u64);
            let data = parameters.value_mut(id).data_mut();
            data.iter_mut()
                .zip(0..)
                .for_each(|(value, at)| *value += 0.3 * (random.uniform(at) as f32 - 0.5));
        }
        (config.model_type().to_owned(), model, parameters)
    };
    examples.into_iter().map(build).collect()
}

/// The logits of some rows: those of every target token, of the labels, of the token after every token, or of the points
/// at each step.
fn forward(model: &Model, pass: &Pass<'_>, rows: &[usize]) -> Var {
    let chosen = |all: [&'static [u32]; 3]| rows.iter().map(|&row| all[row]).collect::<Vec<_>>();
    match model {
        Model::SequenceToSequence(model) => {
            let [source, target] =
                [sources(model.n_sources()), TARGETS].map(|all| Ids::padded(&chosen(all), 0));
            model.forward(pass, &source, &target).unwrap()
        }
        Model::Encoder(model) => model.classify(pass, &model.ids(&chosen(SOURCES))).unwrap(),
        Model::LanguageModel(model) => {
            let texts = chosen(TARGETS);
            let longest = texts.iter().map(|text| text.len()).max().unwrap();
            let logits = model.forward(pass, &model.ids(texts.into_iter().map(Some), longest)).unwrap();
            logits.reshaped(&[rows.len(), longest, model.vocab_size()])
        }
        Model::Image(model) => {
            let images: Vec<_> = rows.iter().map(|&row| image(row)).collect();
            let batch = model.images(images.iter().map(|image| Some(image.as_slice())), IMAGE);
            model.classify(pass, &batch).unwrap()
        }
        Model::Pointer(model) => {
            let points = rows.iter().map(|&row| POINTS[row].len() / 2).max().unwrap();
            let steps = rows.iter().map(|&row| ORDERS[row].len() + 1).max().unwrap();
            let orders: Vec<_> = rows.iter().map(|&row| Some(ORDERS[row])).collect();
            let coordinates = rows.iter().map(|&row| Some(POINTS[row]));
            model
                .forward(pass, &model.points(coordinates, points), &Orders::new(&orders, points, steps))
                .unwrap()
        }
        Model::Speech(model) => {
            let longest = rows.iter().map(|&row| FRAMES[row]).max().unwrap();
            let sounds: Vec<_> = rows.iter().copied().map(Some).collect();
            model.forward(pass, &frames(model, &sounds, longest), &Ids::padded(&chosen(TARGETS), 0)).unwrap()
        }
    }
}

fn logits(model: &Model, parameters: &Parameters, rows: &[usize]) -> Tensor {
    let (tape, capture) = (Tape::inference(), Capture::off());
    forward(model, &Pass::new(&tape, parameters, &capture), rows).value().clone()
}

/// The bits of one row of the logits, without padding; `index` is its place in the batch.
fn row(model: &Model, logits: &Tensor, index: usize, row: usize) -> Vec<u32> {
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect();
    match *logits.shape() {
        [_, longest, width] if matches!(model, Model::Pointer(_)) => {
            let keys = 1 + POINTS[row].len() / 2;
            let steps =
                logits.data()[index * longest * width..].chunks_exact(width).take(ORDERS[row].len() + 1);
            bits(&steps.flat_map(|step| &step[..keys]).copied().collect::<Vec<_>>())
        }
        [_, longest, width] => {
            let start = index * longest * width;
            let rows = logits.data()[start..start + TARGETS[row].len() * width].chunks_exact(width);
            // A model that copies has one column more for each source token of the batch; no other row can use it.
            let own = |row: &'_ [f32]| {
                row.iter().rposition(|number| *number > f32::NEG_INFINITY).map_or(0, |at| at + 1)
            };
            bits(&rows.flat_map(|row| &row[..own(row)]).copied().collect::<Vec<_>>())
        }
        [_, width] => bits(&logits.data()[index * width..(index + 1) * width]),
        _ => panic!("two or three axes"),
    }
}

#[test]
fn padding_and_neighbours_never_change_a_row() {
    for (name, model, parameters) in families() {
        for dtype in [None, Some(Dtype::F32), Some(Dtype::Int8)] {
            let mut parameters = parameters.clone();
            if let Some(dtype) = dtype {
                parameters.prepare(dtype);
            }
            let together = logits(&model, &parameters, &[0, 1, 2]);
            for index in 0..3 {
                let alone = logits(&model, &parameters, &[index]);
                let [alone, together] =
                    [(&alone, 0), (&together, index)].map(|(all, at)| row(&model, all, at, index));
                assert_eq!(alone, together, "{name} {dtype:?} {index}");
            }
        }
    }
}

#[test]
fn threads_and_packed_weights_change_no_bit() {
    for (name, model, parameters) in families() {
        let plain = logits(&model, &parameters, &[0, 1, 2]);
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let other = pool.install(|| logits(&model, &parameters, &[0, 1, 2]));
            assert_eq!(other.data(), plain.data(), "{name}, {threads} threads");
        }
        let mut packed = parameters.clone();
        packed.prepare(Dtype::F32);
        assert_eq!(logits(&model, &packed, &[0, 1, 2]).data(), plain.data(), "{name}");
    }
}

#[test]
fn capture_records_the_published_sites_and_changes_nothing() {
    for (name, model, parameters) in families() {
        let plain = logits(&model, &parameters, &[0, 1, 2]);
        let (tape, capture) = (Tape::inference(), Capture::on(Filter::default()).with_vectors());
        let captured_logits = forward(&model, &Pass::new(&tape, &parameters, &capture), &[0, 1, 2]);
        assert_eq!(captured_logits.value().data(), plain.data(), "{name}");
        let trace = capture.take();
        let sites = model.sites();
        let captured: Vec<_> = trace.weights.iter().map(|weights| weights.site).collect();
        let mut expected: Vec<_> = sites.all().collect();
        let mut found = captured.clone();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{name}");
        let recipe = model.config().to_recipe();
        let predicts = recipe.get("local").is_some_and(|local| local == "predictive");
        let n_sources = model.config().n_sources();
        let is_flat = n_sources > 1 && recipe["combination"] == "flat";
        let length = |sequence: &str, sentence: usize| match sequence.strip_prefix("source") {
            Some(number) if n_sources > 1 => {
                let index = number.strip_prefix('_').map_or(0, |number| number.parse::<usize>().unwrap() - 1);
                let ids = Ids::padded(&[SEVERAL[sentence]], 0).divided((n_sources, 1), None, 0);
                ids.sources()[index].lengths().host()[0] as usize
            }
            _ => SOURCES[sentence].len(),
        };
        for weights in &trace.weights {
            let group = sites.of(weights.site.kind).unwrap();
            let &[_, n_heads, q_len, k_len] = weights.weights.shape() else { panic!("four axes") };
            assert_eq!(n_heads, group.heads.n_heads, "{name}");
            for (index, numbers) in weights.weights.data().chunks_exact(k_len).enumerate() {
                let (sentence, query) = (index / q_len / n_heads, index % q_len);
                let exists = query
                    < match group.kind.queries {
                        "target" => TARGETS[sentence].len(),
                        "order" => ORDERS[sentence].len() + 1,
                        "image" => IMAGE_LEN,
                        "frames" => FRAMES[sentence].div_ceil(2),
                        sequence => length(sequence, sentence),
                    };
                let sum: f32 = numbers.iter().sum();
                let is_source = group.kind.keys.starts_with("source") && group.kind.keys != "sources";
                if exists && is_source && length(group.kind.keys, sentence) == 0 {
                    assert_eq!(sum, 0.0, "{name}, {}", weights.site);
                    continue;
                }
                if is_flat && group.kind.name.starts_with("cross") {
                    // One softmax over all sources: the shares of this query add up to 1.
                    let others = trace.weights.iter().filter(|other| {
                        other.site.layer == weights.site.layer && other.site.kind.name.starts_with("cross")
                    });
                    let own = |other: &Weights| {
                        let k_len = other.weights.shape()[3];
                        other.weights.data()[index * k_len..][..k_len].iter().sum::<f32>()
                    };
                    let whole: f32 = others.map(own).sum();
                    assert!(!exists || (whole - 1.0).abs() < 1e-5 && sum > 0.0, "{name}: {whole}, {sum}");
                    continue;
                }
                // Local-p multiplies the softmax by a bell curve, which is at most 1 (Luong et al. 2015, equation 10).
                let is_share = if predicts { sum > 0.0 && sum < 1.0 } else { (sum - 1.0).abs() < 1e-5 };
                assert!(!exists || is_share, "{name}, {}: {sum}", weights.site);
                let future = if group.kind.is_causal { &numbers[query + 1..] } else { &[] };
                assert!(future.iter().all(|weight| *weight == 0.0), "{name}, {}", weights.site);
            }
        }
        // Every published head and layer can be switched off, which changes the output.
        for site in sites.all() {
            for changed in [
                Intervention::default().head(site, 0, 0.0),
                Intervention::default().without_layer(site.kind.stack, site.layer),
            ] {
                let (tape, capture) = (Tape::inference(), Capture::off());
                let pass = Pass { intervention: Some(&changed), ..Pass::new(&tape, &parameters, &capture) };
                assert!(
                    forward(&model, &pass, &[0]).value().data() != logits(&model, &parameters, &[0]).data()
                );
            }
        }
    }
}

#[test]
fn the_future_never_changes_the_past_and_steps_equal_the_full_pass_bit_for_bit() {
    for (name, model, parameters) in families() {
        let Model::SequenceToSequence(model) = model else { continue };
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let target: Vec<u32> = (0..20).map(|index| [0, 5, 6, 7, 8, 9, 10][index % 7]).collect();
        let sources = sources(model.n_sources());
        let source = Ids::padded(&sources, 0);
        let whole = |length: usize| {
            model.forward(&pass, &source, &Ids::padded(&[&target[..length]; 3], 0)).unwrap().value().clone()
        };
        let all = whole(target.len());
        let width = *all.shape().last().unwrap();
        let before = whole(7);
        let decoding = Decoding::new(&model, &parameters, &capture);
        let mut state = decoding.start(&sources, 3).unwrap();
        for (position, &token) in target.iter().enumerate() {
            let step = decoding.step(&mut state, &[token; 3]).unwrap();
            for (index, found) in step.data().chunks_exact(width).enumerate() {
                let at = |length: usize| (index * length + position) * width;
                let expected = &all.data()[at(target.len())..][..width];
                assert_eq!(found, expected, "{name}, row {index}, position {position}");
                if position < 7 {
                    assert_eq!(&before.data()[at(7)..][..width], expected, "{name}, {position}");
                }
            }
        }
    }
}

#[test]
fn speech_recognisers_step_as_the_full_pass_bit_for_bit() {
    for (name, model, parameters) in families() {
        let Model::Speech(model) = model else { continue };
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let target: Vec<u32> = (0..20).map(|index| [0, 5, 6, 7, 8, 9, 10][index % 7]).collect();
        let sounds = frames(&model, &[Some(0), Some(1), Some(2)], 11);
        let encoded = model.encode(&pass, &sounds).unwrap();
        assert_eq!(encoded.lengths(), [6, 2, 3]);
        let all = model.forward(&pass, &sounds, &Ids::padded(&[&target[..]; 3], 0)).unwrap();
        let width = *all.shape().last().unwrap();
        let decoding =
            SpeechDecoding { model: &model, parameters: &parameters, capture: &capture, encoded: &encoded };
        // Sounds in any order, and one twice.
        let order = [2_usize, 0, 1, 0];
        let sources = order.map(|row| [row as u32]);
        let sources: Vec<&[u32]> = sources.iter().map(|source| &source[..]).collect();
        let mut state = decoding.start(&sources, 4).unwrap();
        for (position, &token) in target.iter().enumerate() {
            let step = decoding.step(&mut state, &[token; 4]).unwrap();
            for (found, row) in step.data().chunks_exact(width).zip(order) {
                let expected = &all.value().data()[(row * target.len() + position) * width..][..width];
                assert_eq!(found, expected, "{name}, row {row}, position {position}");
            }
        }
    }
}

#[test]
fn language_models_step_as_the_full_pass_bit_for_bit_and_never_see_the_future() {
    for (name, model, parameters) in families() {
        let Model::LanguageModel(model) = model else { continue };
        let (tape, capture) = (Tape::inference(), Capture::off());
        let pass = Pass::new(&tape, &parameters, &capture);
        let text: Vec<u32> = (0..20).map(|index| [1, 5, 6, 7, 8, 9, 10][index % 7]).collect();
        let whole = |length: usize| {
            let rows = [&text[..length]; 3].into_iter().map(Some);
            model.forward(&pass, &model.ids(rows, length)).unwrap().value().clone()
        };
        let (all, before, width) = (whole(text.len()), whole(7), model.vocab_size());
        assert_eq!(before.data()[..7 * width], all.data()[..7 * width], "{name}");
        let decoding = LanguageModelDecoding::new(&model, &parameters, &capture);
        // Prompts of different lengths: what was read at once equals what was read step by step.
        for prompt in [1, 2, 6] {
            let mut state = decoding.start(&[&text[..prompt]; 3], 3).unwrap();
            assert_eq!(decoding.first_token(&text[..prompt], 0), text[prompt - 1], "{name}");
            for (position, &token) in text.iter().enumerate().skip(prompt - 1) {
                let step = decoding.step(&mut state, &[token; 3]).unwrap();
                for found in step.data().chunks_exact(width) {
                    assert_eq!(found, &all.data()[position * width..][..width], "{name}, {position}");
                }
                decoding.reorder(&mut state, &[2, 0, 1]);
            }
        }
        assert!(decoding.start(&[&[]], 1).is_err(), "{name}: an empty prompt");
    }
}

#[test]
fn states_of_language_models_are_read_in_parts_joined_copied_and_left_bit_for_bit() {
    for (name, model, parameters) in families() {
        let Model::LanguageModel(model) = model else { continue };
        let capture = Capture::off();
        let decoding = LanguageModelDecoding::new(&model, &parameters, &capture);
        let text: Vec<u32> = (0..20).map(|index| [1, 5, 6, 7, 8, 9, 10][index % 7]).collect();
        let alone = |length: usize| {
            let mut state = decoding.start(&[&text[..length]], 1).unwrap();
            decoding.step(&mut state, &text[length - 1..length]).unwrap().data().to_vec()
        };
        // Rows of 0, 3 and 7 tokens, of which the second and third were read in parts.
        let mut state = decoding.read(&[&[], &text[..1], &text[..6]], 3).unwrap();
        decoding.extend(&mut state, &[&[], &text[1..3], &text[6..7]]).unwrap();
        decoding.join(&mut state, decoding.read(&[&text[..5], &[]], 2).unwrap()).unwrap();
        // The second row twice; the first leaves.
        decoding.reorder(&mut state, &[2, 1, 1, 3, 4]);
        decoding.extend(&mut state, &[&[], &[], &text[3..4], &[], &text[..1]]).unwrap();
        let lengths = [7, 3, 4, 5, 1];
        let copies: Vec<LanguageModelState> = lengths
            .iter()
            .enumerate()
            .map(|(row, &length)| decoding.prefix(&state, row, [length; 2]).unwrap().unwrap())
            .collect();
        let next: Vec<u32> = lengths.iter().map(|&length| text[length]).collect();
        let logits = decoding.step(&mut state, &next).unwrap();
        for ((found, &length), mut copy) in
            logits.data().chunks_exact(model.vocab_size()).zip(&lengths).zip(copies)
        {
            assert_eq!(found, alone(length + 1), "{name}: {length} tokens");
            let again = decoding.step(&mut copy, &text[length..=length]).unwrap();
            assert_eq!(found, again.data(), "{name}: a copy of {length} tokens");
        }
        // A shorter prefix, where the model still has it.
        if let Some(mut shorter) = decoding.prefix(&state, 0, [2, 8]).unwrap() {
            assert_eq!(decoding.step(&mut shorter, &text[2..3]).unwrap().data(), alone(3), "{name}");
        }
        assert!(decoding.prefix(&state, 0, [9, 8]).is_err(), "{name}");
    }
}

#[test]
fn a_sampler_draws_what_sampling_draws() {
    for (name, model, parameters) in families() {
        let Model::LanguageModel(model) = model else { continue };
        let capture = Capture::off();
        let decoding = LanguageModelDecoding::new(&model, &parameters, &capture);
        let rules = Rules {
            includes_source: true,
            repetition_penalty: 1.3,
            no_repeat_ngram: 3,
            forbidden: vec![4],
            ..Rules::default()
        };
        let lengths = Lengths { max: 9, ..Lengths::default() };
        let decode = DecodeOptions { start_id: 1, end_id: 2, lengths, rules };
        let options = SampleOptions {
            decode,
            temperature: 1.5,
            top_p: 0.9,
            n_samples: 3,
            seed: 3,
            ..SampleOptions::default()
        };
        let prompt = [1, 5, 6, 5];
        let all = sample(&decoding, &[&prompt], &options).unwrap().remove(0);
        for (number, expected) in all.iter().enumerate() {
            let mut sampler = Sampler::new(options.clone(), &prompt, number as u64).unwrap();
            let mut state = decoding.start(&[&prompt], 1).unwrap();
            let mut token = prompt[3];
            loop {
                let logits = decoding.step(&mut state, &[token]).unwrap();
                let drawn = sampler.draw(logits.data()).unwrap().unwrap();
                assert_eq!(drawn.is_end, drawn.id == 2, "{name}");
                if drawn.is_last {
                    break;
                }
                token = drawn.id;
            }
            assert_eq!(sampler.hypothesis(), *expected, "{name}, {number}");
        }
        assert!(!Sampler::new(options.clone(), &prompt, 0).unwrap().is_plain_greedy());
        let plain = SampleOptions { temperature: 0.0, ..SampleOptions::default() };
        assert!(Sampler::new(plain, &prompt, 0).unwrap().is_plain_greedy());
        let wrong = SampleOptions { top_p: 2.0, ..options };
        assert!(Sampler::new(wrong, &prompt, 0).is_err());
    }
}

#[test]
fn save_and_load_preserve_config_names_and_bits() {
    for (name, model, parameters) in families() {
        for dtype in [None, Some(Dtype::Int8)] {
            let mut parameters = parameters.clone();
            if let Some(dtype) = dtype {
                parameters.prepare(dtype);
            }
            let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            save(first.path(), model.config(), &parameters, &SaveOptions::default()).unwrap();
            let found = load(first.path(), None).unwrap();
            assert_eq!(found.model.config(), model.config(), "{name}");
            save(second.path(), found.model.config(), &found.parameters, &SaveOptions::default()).unwrap();
            for file in ["config.json", "model.safetensors"] {
                let [a, b] = [&first, &second].map(|folder| std::fs::read(folder.path().join(file)).unwrap());
                assert!(a == b, "{name}: {file}");
            }
            let [a, b] = [(&model, &parameters), (&found.model, &found.parameters)]
                .map(|(model, parameters)| logits(model, parameters, &[0, 1, 2]));
            assert_eq!(a.data(), b.data(), "{name}");
        }
    }
}

#[test]
fn a_recipe_holds_everything_that_the_data_does_not_determine() {
    for (example, (name, model, _)) in ModelConfig::examples().into_iter().zip(families()) {
        let again = ModelConfig::from_recipe(&example.to_recipe()).unwrap();
        assert_eq!(again, example, "{name}");
        assert_eq!(again.with_data(&data_spec()).unwrap(), model.config(), "{name}");
        let found = match &model {
            Model::SequenceToSequence(_) => View::SequenceToSequence,
            Model::Encoder(_) => View::Encoder,
            Model::Pointer(_) => View::Pointer,
            Model::Image(_) => View::Image,
            Model::Speech(_) => View::Speech,
            Model::LanguageModel(_) => View::LanguageModel,
        };
        assert_eq!(model.config().view(), found, "{name}");
        let mut wrong = example.to_recipe();
        wrong.insert("d_modell".into(), 3.into());
        let error = ModelConfig::from_recipe(&wrong).unwrap_err();
        assert!(error.to_string().contains("the nearest known one is \"d_model\""), "{name}: {error}");
        assert!(!model.config().describe().is_empty(), "{name}");
    }
}

/// Gradients match finite differences of the loss, and padding rows have no effect.
#[test]
fn gradients_match_finite_differences() {
    let without_dropout = ModelConfig::examples().into_iter().map(|example| {
        let mut keys = example.to_recipe();
        match keys.get_mut("dropout") {
            Some(Value::Object(parts)) => parts.values_mut().for_each(|part| *part = 0.into()),
            Some(whole) => *whole = 0.into(),
            None => {}
        }
        for key in ["word_dropout", "stochastic_depth"] {
            if let Some(probability) = keys.get_mut(key) {
                *probability = 0.into();
            }
        }
        ModelConfig::from_recipe(&keys).unwrap()
    });
    for (name, model, mut parameters) in built(without_dropout.collect()) {
        let loss = |parameters: &Parameters, tape: &Tape, is_padded: bool| {
            let capture = Capture::off();
            let pass = Pass::new(tape, parameters, &capture);
            let more = usize::from(is_padded);
            let rows = |all: [&'static [u32]; 3], length: usize| {
                let rows = all.into_iter().map(Some).chain(std::iter::repeat_n(None, more));
                Ids::padded_to(rows, length + 2 * more, 0)
            };
            let smoothed =
                |ignored_id| CrossEntropyOptions { label_smoothing: 0.1, ignored_id: Some(ignored_id) };
            match &model {
                Model::SequenceToSequence(model) => {
                    let expected = Ids::padded_to(
                        TARGETS.iter().map(|row| Some(&row[1..])).chain(std::iter::repeat_n(None, more)),
                        5 + 2 * more,
                        0,
                    );
                    let (source, target) = (rows(sources(model.n_sources()), 8), rows(TARGETS, 5));
                    model.loss(&pass, &source, &target, expected.ids(), smoothed(0)).unwrap()
                }
                Model::Encoder(model) => {
                    let rows = SOURCES.map(|row| model.truncate(row));
                    let longest = rows.iter().map(|row| row.len()).max().unwrap() + 2 * more;
                    let padding = std::iter::repeat_n(None, more);
                    let ids = model.padded(rows.into_iter().map(Some).chain(padding), longest);
                    let labels: Vec<u32> =
                        LABELS.into_iter().chain(std::iter::repeat_n(NO_LABEL, more)).collect();
                    model.loss(&pass, &ids, &labels.into(), smoothed(NO_LABEL)).unwrap()
                }
                Model::LanguageModel(model) => {
                    let length = 5 + 2 * more;
                    let rows = TARGETS.iter().map(|row| Some(&row[..row.len() - 1]));
                    let ids = model.ids(rows.chain(std::iter::repeat_n(None, more)), length);
                    let expected = Ids::padded_to(
                        TARGETS.iter().map(|row| Some(&row[1..])).chain(std::iter::repeat_n(None, more)),
                        length,
                        0,
                    );
                    model.loss(&pass, &ids, expected.ids(), smoothed(0)).unwrap()
                }
                Model::Image(model) => {
                    let images = [0, 1, 2].map(image);
                    let padding = std::iter::repeat_n(None, more);
                    let rows = images.iter().map(|image| Some(image.as_slice())).chain(padding);
                    let labels: Vec<u32> =
                        LABELS.into_iter().chain(std::iter::repeat_n(NO_LABEL, more)).collect();
                    let batch = model.images(rows, IMAGE);
                    model.loss(&pass, &batch, &labels.into(), smoothed(NO_LABEL)).unwrap()
                }
                Model::Pointer(model) => {
                    let padding = std::iter::repeat_n(None, more);
                    let points =
                        model.points(POINTS.map(Some).into_iter().chain(padding.clone()), 4 + 2 * more);
                    let orders: Vec<_> =
                        ORDERS.map(Some).into_iter().chain(std::iter::repeat_n(None, more)).collect();
                    let orders = Orders::new(&orders, 4 + 2 * more, 4 + 2 * more);
                    model.loss(&pass, &points, &orders).unwrap()
                }
                Model::Speech(model) => {
                    let padding = std::iter::repeat_n(None, more);
                    let sounds: Vec<_> = [0, 1, 2].map(Some).into_iter().chain(padding).collect();
                    let expected = Ids::padded_to(
                        TARGETS.iter().map(|row| Some(&row[1..])).chain(std::iter::repeat_n(None, more)),
                        5 + 2 * more,
                        0,
                    );
                    let frames = frames(model, &sounds, 11 + 3 * more);
                    model.loss(&pass, &frames, &rows(TARGETS, 5), (expected.ids(), smoothed(0))).unwrap()
                }
            }
        };
        let [exact, padded] = [false, true]
            .map(|is_padded| loss(&parameters, &Tape::inference(), is_padded).value().data()[0].to_bits());
        assert_eq!(exact, padded, "{name}");
        assert_slope(&name, &mut parameters, |parameters, tape| loss(parameters, tape, false));
    }
}

/// Asserts that a step along the gradient changes the loss by its squared norm.
pub(crate) fn assert_slope(
    name: &str,
    parameters: &mut Parameters,
    loss: impl Fn(&Parameters, &Tape) -> Var,
) {
    let tape = Tape::training(1, 1);
    let value = loss(parameters, &tape);
    let gradients = tape.backward(&value);
    let gradients: Vec<_> = gradients.parameters().map(|(id, gradient)| (id, gradient.clone())).collect();
    assert_eq!(gradients.len(), parameters.declared().count(), "{name}: every parameter has a gradient");
    let length: f64 = gradients.iter().flat_map(|(_, g)| g.data()).map(|&g| f64::from(g).powi(2)).sum();
    let step = 2e-4 / length.sqrt();
    let mut sides = [0.0; 2];
    for (side, sign) in sides.iter_mut().zip([1.0, -2.0]) {
        for (id, gradient) in &gradients {
            let data = parameters.value_mut(*id).data_mut().iter_mut().zip(gradient.data());
            data.for_each(|(value, gradient)| *value += (sign * step) as f32 * gradient);
        }
        *side = f64::from(loss(parameters, &Tape::inference()).value().data()[0]);
    }
    let slope = (sides[0] - sides[1]) / (2.0 * step);
    assert!((slope / length - 1.0).abs() < 0.002, "{name}: slope {slope}, squared length {length}");
}
