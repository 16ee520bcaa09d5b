//! Traces of texts under language models: against transformers (`tests/golden/language_models.py`), and the bits of generation.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use polyhead_attention::{Capture, Filter, Intervention, Site};
use polyhead_engine::generate::GenerateOptions;
use polyhead_engine::{Generator, LoadOptions};
use polyhead_inspect::Result;
use polyhead_inspect::export::json;
use polyhead_inspect::trace::text::{
    Continuation, LensPositions, Target, TextInput, TextOptions, TextProgress,
};
use polyhead_inspect::trace::{TextTrace, Trace};
use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::decode::NextToken as _;
use polyhead_models::recurrent::RecurrentLanguageModelConfig;
use polyhead_models::transformer::TransformerLanguageModelConfig;
use polyhead_models::transformer::config::NormOrder;
use polyhead_models::window::WindowLanguageModelConfig;
use polyhead_models::{LanguageModel, LanguageModelDecoding, ModelConfig};
use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Parameters, Tape, Var};
use serde_json::Value;

const TEXT: &str = "the cat sat on the mat, the cat";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden").join(name)
}

fn load(folder: impl AsRef<Path>) -> Generator {
    Generator::load(folder, &LoadOptions::default()).unwrap()
}

fn answers() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/language_models.json.gz");
    serde_json::from_reader(GzDecoder::new(std::fs::File::open(path).unwrap())).unwrap()
}

fn traced(generator: &Generator, input: &TextInput, options: &TextOptions) -> Result<Trace> {
    Trace::of_text(generator, input, options, &|_| ControlFlow::Continue(()))
}

fn whole(length: usize) -> TextOptions {
    TextOptions {
        lens: LensPositions::Some(0..length),
        contributions: Target::all(length),
        ..TextOptions::default()
    }
}

fn text(trace: &Trace) -> &TextTrace {
    trace.text().unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

fn assert_close(found: impl IntoIterator<Item = f64>, expected: &Value, what: &str) {
    let (found, expected): (Vec<f64>, _) = (found.into_iter().collect(), numbers(expected));
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{what}: {found} is not {expected}");
    }
}

/// Log-probabilities of all tokens after each token, by decoding step by step.
fn stepped(generator: &Generator, ids: &[u32]) -> Vec<Vec<f32>> {
    let capture = Capture::off();
    let decoding = LanguageModelDecoding::new(generator.model(), generator.parameters(), &capture);
    let mut state = decoding.start(&[&ids[..1]], 1).unwrap();
    let of = |&id: &u32| {
        let logits = Var::constant(decoding.step(&mut state, &[id]).unwrap());
        log_softmax(&Tape::inference(), &logits).value().data().to_vec()
    };
    ids.iter().map(of).collect()
}

#[test]
fn attention_lens_and_contributions_are_those_of_transformers() {
    for (name, expected) in answers().as_object().unwrap() {
        let generator = load(folder(name));
        let ids = ids(&expected["ids"]);
        let length = ids.len();
        let contributions = expected["contributions"].as_array().unwrap();
        let target = |own: &Value| Target {
            position: own["position"].as_u64().map(|position| position as usize),
            token: own["token"].as_u64().map(|token| token as u32),
        };
        let options = TextOptions {
            n_alternatives: generator.model().vocab_size(),
            contributions: contributions.iter().map(target).collect(),
            ..whole(length)
        };
        let trace = traced(&generator, &TextInput::Ids(ids), &options).unwrap();
        let heads = trace.attentions.iter().flat_map(|own| &own.weights);
        let weights = heads.flat_map(|head| head.numbers().iter().copied().map(f64::from));
        assert_close(weights, &expected["attentions"], name);
        let step = expected["step"].as_u64().unwrap() as usize;
        let lens = text(&trace).lens.iter().flatten().flat_map(|layer| &layer.predictions);
        let lens = lens.flat_map(|own| {
            let mut all = vec![0.0; own.alternatives.len()];
            own.alternatives.iter().for_each(|one| all[one.id as usize] = f64::from(one.log_probability));
            all.into_iter().step_by(step).collect::<Vec<_>>()
        });
        assert_close(lens, &expected["lens"], name);
        let following = text(&trace).predictions.iter().filter_map(|own| own.following);
        let following = following.flat_map(|own| [f64::from(own.log_probability), own.rank as f64]);
        assert_close(following, &expected["following"], name);
        let found = text(&trace).contributions.as_ref().unwrap();
        assert_eq!(found.parts.len(), 2 * 2 + 2, "{name}");
        for (found, expected) in found.targets.iter().zip(contributions) {
            assert_close([f64::from(found.logit)], &expected["logit"], name);
            assert_close(found.values.iter().copied(), &expected["values"], name);
            assert_close(found.norms[..5].iter().copied(), &expected["norms"], name);
        }
    }
}

#[test]
fn the_distributions_and_the_attention_have_the_bits_of_generation() {
    for name in ["gpt2", "llama"] {
        let generator = load(folder(name));
        let continuation = Some(Continuation { max_new_tokens: 6, seed: None });
        let options = TextOptions { continuation, ..TextOptions::default() };
        let trace = traced(&generator, &TextInput::Text(TEXT.into()), &options).unwrap();
        let ids = trace.side("text").unwrap().ids();
        let expected = stepped(&generator, &ids);
        for (position, (found, expected)) in text(&trace).predictions.iter().zip(&expected).enumerate() {
            for token in &found.alternatives {
                assert_eq!(token.log_probability, expected[token.id as usize], "{name}, {position}");
            }
            let best = expected.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(found.alternatives[0].log_probability, best);
            match (found.following, ids.get(position + 1)) {
                (Some(found), Some(&id)) => {
                    assert_eq!(found.log_probability, expected[id as usize]);
                    let above = expected.iter().filter(|other| **other > found.log_probability).count();
                    assert!(found.rank > above);
                }
                (None, None) => assert_eq!(position + 1, ids.len()),
                other => panic!("{other:?}"),
            }
        }
        // The continuation is that of greedy generation, and so is its probability.
        let greedy = GenerateOptions { max_new_tokens: Some(6), temperature: 0.0, ..generator.options() };
        let generated = generator.generate(&[TEXT], &greedy).unwrap().remove(0).remove(0);
        let n_generated = text(&trace).n_generated;
        assert_eq!(ids[ids.len() - n_generated..], generated.ids, "{name}");
        let own = &text(&trace).predictions[ids.len() - n_generated - 1..];
        let sum: f64 = own.iter().filter_map(|own| Some(f64::from(own.following?.log_probability))).sum();
        assert_eq!(sum, generated.log_probability, "{name}");
        assert_eq!(trace.side("text").unwrap().text, format!("{TEXT}{}", generated.text), "{name}");
        // Attention, step by step.
        let capture = Capture::on(Filter::default());
        let decoding = LanguageModelDecoding::new(generator.model(), generator.parameters(), &capture);
        let mut state = decoding.start(&[&ids[..1]], 1).unwrap();
        for (position, &id) in ids.iter().enumerate() {
            capture.take();
            decoding.step(&mut state, &[id]).unwrap();
            for found in capture.take().weights {
                let own = trace.attention(found.site).unwrap();
                for (head, step) in own.weights.iter().zip(found.weights.data().chunks(position + 1)) {
                    let (past, future) = head.row(position).split_at(position + 1);
                    assert!(past == step && future.iter().all(|weight| *weight == 0.0), "{name} {position}");
                }
            }
        }
    }
}

#[test]
fn a_seed_draws_what_generate_draws() {
    let generator = load(folder("gpt2"));
    let continuation = Some(Continuation { max_new_tokens: 8, seed: Some(5) });
    let options = TextOptions { continuation, ..TextOptions::default() };
    let trace = traced(&generator, &TextInput::Text(TEXT.into()), &options).unwrap();
    let drawn = GenerateOptions { max_new_tokens: Some(8), seed: 5, ..generator.options() };
    let expected = generator.generate(&[TEXT], &drawn).unwrap().remove(0).remove(0);
    let ids = trace.side("text").unwrap().ids();
    assert_eq!(ids[ids.len() - text(&trace).n_generated..], expected.ids);
}

#[test]
fn the_lens_of_the_last_layer_is_the_model_and_contributions_add_up_to_the_logit() {
    let site =
        |generator: &Generator, layer| Site { kind: generator.model().sites().groups()[0].kind, layer };
    for name in ["gpt2", "llama"] {
        let generator = load(folder(name));
        for changed in [
            Intervention::default(),
            Intervention::default().head(site(&generator, 1), 0, 0.0).head(site(&generator, 0), 1, 2.5),
            Intervention::default().without_layer("decoder", 0),
            Intervention::default().without_layer("decoder", 0).without_layer("decoder", 1),
        ] {
            let length = generator.encode(TEXT).unwrap().len();
            let options = TextOptions { intervention: changed.clone(), ..whole(length) };
            let trace = traced(&generator, &TextInput::Text(TEXT.into()), &options).unwrap();
            let found = text(&trace);
            let layers = found.lens.as_ref().unwrap();
            assert_eq!(layers.len(), 3 - changed.layers().count());
            assert_eq!(
                (layers[0].layer, layers.last().unwrap().predictions == found.predictions),
                (None, true)
            );
            let contributions = found.contributions.as_ref().unwrap();
            assert_eq!(contributions.targets.len(), length);
            for target in &contributions.targets {
                assert!((target.sum() - f64::from(target.logit)).abs() < 1e-4, "{name} {target:?}");
                assert!(target.norms.iter().all(|norm| *norm >= 0.0) && target.norms[0] > 0.0);
            }
            assert_eq!(contributions.targets[1].id, trace.side("text").unwrap().ids()[2]);
            assert_eq!(
                contributions.targets[length - 1].id,
                found.predictions[length - 1].alternatives[0].id
            );
        }
    }
}

#[test]
fn what_is_captured_changes_no_bit_and_interventions_do() {
    let generator = load(folder("llama"));
    let input = TextInput::Text(TEXT.into());
    let length = generator.encode(TEXT).unwrap().len();
    let all = traced(&generator, &input, &whole(length)).unwrap();
    let filter = Filter { layers: Some(vec![1]), heads: Some(vec![0]), ..Filter::default() };
    let some = traced(&generator, &input, &TextOptions { filter, ..TextOptions::default() }).unwrap();
    assert_eq!(text(&all).predictions, text(&some).predictions);
    assert_eq!(some.attentions[0].head(0), all.attention(some.attentions[0].site).unwrap().head(0));
    assert_eq!((some.attentions.len(), some.attentions[0].heads.len()), (1, 1));
    assert!(text(&some).lens.is_none() && text(&some).contributions.is_none());
    // Parts of a trace do not need the distributions.
    let part = TextOptions { without_predictions: true, ..whole(length) };
    let part = traced(&generator, &input, &part).unwrap();
    assert_eq!(
        (&text(&part).lens, &text(&part).contributions),
        (&text(&all).lens, &text(&all).contributions)
    );
    assert!(text(&part).predictions.is_empty());
    let site = some.attentions[0].site;
    let intervention = Intervention::default().head(site, 0, 0.0);
    let continuation = Some(Continuation { max_new_tokens: 4, seed: None });
    let options = TextOptions { intervention: intervention.clone(), continuation, ..TextOptions::default() };
    let changed = traced(&generator, &input, &options).unwrap();
    assert_ne!(text(&changed).predictions[..length - 1], text(&all).predictions[..length - 1]);
    // The changed model generates what the trace of the same tokens predicts.
    let ids = changed.side("text").unwrap().ids();
    let given = TextOptions { intervention, ..TextOptions::default() };
    let given = traced(&generator, &TextInput::Ids(ids.clone()), &given).unwrap();
    assert_eq!(text(&given).predictions, text(&changed).predictions);
    for position in length - 1..ids.len() - 1 {
        assert_eq!(text(&given).predictions[position].following.unwrap().rank, 1);
    }
}

#[test]
fn offsets_slice_the_text_and_labels_are_readable() {
    for name in ["gpt2", "llama"] {
        let generator = load(folder(name));
        for own in [TEXT, "  two  spaces 東京 😀 e\u{301}\n\nnew", "<s> is text", "a"] {
            let continuation = Some(Continuation { max_new_tokens: 12, seed: Some(1) });
            let options = TextOptions { continuation, ..TextOptions::default() };
            let trace = traced(&generator, &TextInput::Text(own.into()), &options).unwrap();
            let given = traced(
                &generator,
                &TextInput::Ids(trace.side("text").unwrap().ids()),
                &TextOptions::default(),
            )
            .unwrap();
            for trace in [&trace, &given] {
                let side = trace.side("text").unwrap();
                assert!(side.labels().iter().all(|label| !label.is_empty()));
                let spans: Vec<_> = side.tokens.iter().map(|token| token.span.clone()).collect();
                assert!(spans.iter().all(|span| side.text.get(span.clone()).is_some()), "{own} {spans:?}");
                assert_eq!(spans.iter().map(|span| span.end).max(), Some(side.text.len()), "{own}");
            }
            let predicted = text(&trace).predictions.iter().flat_map(|own| &own.alternatives);
            assert!(predicted.into_iter().all(|token| !token.label.is_empty() && !token.label.contains('Ġ')));
        }
    }
}

/// A folder of a random model with the tokeniser of the tiny Llama.
fn random(config: impl Into<ModelConfig>) -> tempfile::TempDir {
    let (config, mut parameters) = (config.into(), Parameters::default());
    LanguageModel::new(config.clone(), &mut parameters).unwrap();
    parameters.initialise(3);
    let made = tempfile::tempdir().unwrap();
    save(made.path(), config, &parameters, &SaveOptions::default()).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(folder("llama").join(name), made.path().join(name)).unwrap();
    }
    made
}

#[test]
fn models_without_attention_show_distributions_and_say_what_they_lack() {
    let vocab_size = load(folder("llama")).model().vocab_size();
    let (end_id, start_id) = (2, 1);
    let recurrent = RecurrentLanguageModelConfig {
        vocab_size,
        end_id,
        start_id,
        d_embedding: 8,
        d_model: 8,
        n_layers: 1,
        ..Default::default()
    };
    let window = WindowLanguageModelConfig {
        vocab_size,
        end_id,
        start_id,
        window: 3,
        d_model: 8,
        d_ff: 8,
        ..Default::default()
    };
    let folders = [
        (random(recurrent), "a recurrent language model, whose layers are no sum"),
        (random(window), "a window language model, which has one layer"),
    ];
    for (made, expected) in folders {
        let generator = load(made.path());
        let input = TextInput::Text(TEXT.into());
        let trace = traced(&generator, &input, &TextOptions::default()).unwrap();
        let ids = trace.side("text").unwrap().ids();
        for (found, expected) in text(&trace).predictions.iter().zip(stepped(&generator, &ids)) {
            let best = &found.alternatives[0];
            assert_eq!(best.log_probability, expected[best.id as usize]);
        }
        assert!(trace.attentions.is_empty() && trace.rollout().is_none());
        let parsed: Value = serde_json::from_str(&json(&trace, &Filter::default())).unwrap();
        assert_eq!((&parsed["lens"], &parsed["sites"]), (&Value::Null, &serde_json::json!([])));
        let refused = traced(&generator, &input, &whole(ids.len())).unwrap_err();
        assert_eq!(refused.to_string(), format!("{expected}, expected a decoder-only Transformer"));
    }
}

#[test]
fn a_post_norm_model_has_a_lens_and_no_contributions() {
    let vocab_size = load(folder("llama")).model().vocab_size();
    let config = TransformerLanguageModelConfig {
        vocab_size,
        end_id: 2,
        start_id: 1,
        norm_order: NormOrder::Post,
        final_norm: false,
        d_model: 16,
        ..TransformerLanguageModelConfig::tiny()
    };
    let made = random(config);
    let generator = load(made.path());
    let input = TextInput::Text(TEXT.into());
    let length = generator.encode(TEXT).unwrap().len();
    let lens = TextOptions { contributions: Vec::new(), ..whole(length) };
    let trace = traced(&generator, &input, &lens).unwrap();
    let layers = text(&trace).lens.as_ref().unwrap();
    assert_eq!(layers.last().unwrap().predictions, text(&trace).predictions);
    let refused = traced(&generator, &input, &whole(length)).unwrap_err();
    assert!(
        refused.to_string().contains("a post-norm model") && refused.hint().contains("the logit lens works")
    );
}

#[test]
fn requests_that_cannot_be_fulfilled_are_explained() {
    let generator = load(folder("gpt2"));
    let input = |length: usize| TextInput::Ids(vec![5; length]);
    let default = TextOptions::default();
    let target = |position, token| TextOptions {
        contributions: vec![Target { position: Some(position), token }],
        ..TextOptions::default()
    };
    let continuation = Some(Continuation { max_new_tokens: 3, seed: None });
    let generate = TextOptions { continuation, ..TextOptions::default() };
    for (input, options, expected) in [
        (TextInput::Text("a ".repeat(99)), &default, "expected at most 64, the context of the model"),
        (input(0), &default, "no tokens, expected at least one"),
        (TextInput::Ids(vec![360]), &default, "token 360, expected an id of 0 to 359"),
        (input(64), &generate, "64 tokens, which fill the context, expected room for new tokens"),
        (input(4), &target(4, None), "position 4, expected one of 0 to 3"),
        (input(4), &target(3, Some(360)), "token 360, expected an id of 0 to 359"),
        (
            input(4),
            &TextOptions { lens: LensPositions::Some(2..5), ..TextOptions::default() },
            "positions 2 to 5 of the lens, expected some of 0 to 4",
        ),
    ] {
        let error = traced(&generator, &input, options).unwrap_err();
        assert!(error.to_string().contains(expected) && error.is_misuse(), "{error}");
        assert!(!error.hint().is_empty());
    }
    // A text may fill the context, and new tokens what is left of it.
    let full = traced(&generator, &input(64), &default).unwrap();
    assert_eq!(text(&full).predictions.len(), 64);
    let more = traced(&generator, &input(62), &generate).unwrap();
    assert!(more.side("text").unwrap().tokens.len() <= 64);
}

#[test]
fn a_callback_sees_the_text_grow_and_cancels() {
    let generator = load(folder("gpt2"));
    let continuation = Some(Continuation { max_new_tokens: 5, seed: Some(2) });
    let options = TextOptions { continuation, ..TextOptions::default() };
    let input = TextInput::Text(TEXT.into());
    let seen = std::cell::RefCell::new(Vec::new());
    let watch = |progress: TextProgress<'_>| {
        if let TextProgress::Generated(text, count) = progress {
            seen.borrow_mut().push((text.to_owned(), count));
        }
        ControlFlow::Continue(())
    };
    let trace = Trace::of_text(&generator, &input, &options, &watch).unwrap();
    let seen = seen.take();
    assert_eq!(seen.iter().map(|(_, count)| *count).collect::<Vec<_>>(), (0..seen.len()).collect::<Vec<_>>());
    let whole = &trace.side("text").unwrap().text[TEXT.len()..];
    assert!(seen.iter().all(|(text, _)| whole.starts_with(text.as_str())));
    for stops_at in ["generating", "reading"] {
        let stop = |progress: TextProgress<'_>| match (progress, stops_at) {
            (TextProgress::Generated(_, 2), "generating") | (TextProgress::Working, "reading") => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        };
        let error = Trace::of_text(&generator, &input, &options, &stop).unwrap_err();
        assert_eq!(error.to_string(), "the request was cancelled", "{stops_at}");
    }
}
