//! Traces of encoders: the numbers of `polyhead-engine` for each head, and words compared in their contexts. The weights and
//! states themselves are compared with transformers in `polyhead-models`, on a real model by `tests/golden/encoder_check.py`.

use std::ops::ControlFlow;
use std::path::Path;

use polyhead_attention::{Filter, Intervention};
use polyhead_engine::encoder::HeadedEncoder;
use polyhead_engine::encoder::embed::cosine;
use polyhead_engine::{Generator, LoadOptions, LongTexts};
use polyhead_inspect::Result;
use polyhead_inspect::export::{json, npz, safetensors};
use polyhead_inspect::matrix::Matrix;
use polyhead_inspect::states::picture::{ends, picture};
use polyhead_inspect::states::{self, CompareOptions, Comparison, StateLayer, StateReader};
use polyhead_inspect::trace::{CaptureVectors, EncoderOptions, HeadOutput, Trace};
use polyhead_models::checkpoint::{SaveOptions, save};
use polyhead_models::{Model, ModelConfig};
use polyhead_tensor::Parameters;
use serde_json::{Value, json};

const VOCABULARY: &str =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ni\nbank\nonly\nat\nmy\nlocal\n.\n##s\nthe\nriver\n";
const TEXT: &str = "I bank only at my local banks.";

/// An encoder with random weights; pre-norm ones have a norm after the last layer.
fn encoder(head: &str, norm_order: &str) -> (tempfile::TempDir, HeadedEncoder) {
    let folder = tempfile::tempdir().unwrap();
    let labels: &[&str] = if head.contains("classes") { &["O", "B-X", "I-X"] } else { &[] };
    let config = json!({
        "model_type": "polyhead_bert", "vocab_size": 15, "d_model": 16, "norm_order": norm_order, "final_norm": norm_order == "pre",
        "encoder": { "n_layers": 3, "n_heads": 2, "d_ff": 24 }, "head": head, "labels": labels,
        "transform": if head == "classes" { "dense" } else { "none" }, "special_tokens": true, "max_len": 16,
    });
    let config: ModelConfig = serde_json::from_value(config).unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(11);
    save(folder.path(), &config, &parameters, &SaveOptions::default()).unwrap();
    std::fs::write(folder.path().join("vocab.txt"), VOCABULARY).unwrap();
    let encoder = HeadedEncoder::load(folder.path(), &LoadOptions::default()).unwrap();
    (folder, encoder)
}

fn traced(encoder: &HeadedEncoder, text: &str, options: &EncoderOptions) -> Result<Trace> {
    Trace::of_encoding(encoder, text, options, &|_| ControlFlow::Continue(()))
}

fn rows(matrix: &Matrix) -> Vec<Vec<f32>> {
    matrix.rows().map(<[f32]>::to_vec).collect()
}

#[test]
fn states_are_those_of_embed_and_rows_of_weights_sum_to_one() {
    for (norm_order, last) in [("post", StateLayer::Layer(2)), ("pre", StateLayer::Output)] {
        let (_folder, encoder) = encoder("none", norm_order);
        let trace = traced(&encoder, TEXT, &EncoderOptions::default()).unwrap();
        let found = trace.encoder().unwrap();
        let states = found.states.as_ref().unwrap();
        let names: Vec<StateLayer> = states.layers.iter().map(|(layer, _)| *layer).collect();
        let layers = [StateLayer::Layer(0), StateLayer::Layer(1), StateLayer::Layer(2)];
        let mut expected = [&[StateLayer::Embedding], &layers[..]].concat();
        expected.extend((norm_order == "pre").then_some(StateLayer::Output));
        assert_eq!((&names, names.last()), (&expected, Some(&last)));
        let own = encoder.encoder();
        let tokens = own.embed_tokens(&[TEXT], LongTexts::Refuse).unwrap().remove(0).unwrap().tokens;
        let vectors: Vec<Vec<f32>> = tokens.into_iter().map(|token| token.vector).collect();
        assert_eq!(rows(states.last().unwrap()), vectors);
        let vector = own.embed(&[TEXT], LongTexts::Refuse).unwrap().remove(0).unwrap().vector;
        assert!(matches!(&found.head, HeadOutput::Vector(own) if *own == vector));
        assert_eq!(trace.attentions.len(), 3);
        let weights = trace.attentions.iter().flat_map(|own| &own.weights).flat_map(rows);
        assert!(weights.map(|row| row.iter().sum::<f32>()).all(|sum| (sum - 1.0).abs() < 1e-5));
        assert!(trace.rollout().is_some());
    }
}

#[test]
fn heads_compute_what_the_engine_does() {
    let options = EncoderOptions::default();
    let (_a, classes) = encoder("classes", "post");
    let HeadedEncoder::Classes(classifier) = &classes else { panic!("a classifier") };
    let trace = traced(&classes, TEXT, &options).unwrap();
    let expected = classifier.classify(&[TEXT]).unwrap().remove(0);
    assert_eq!(trace.encoder().unwrap().classes().unwrap(), expected);

    let (_b, tags) = encoder("token_classes", "post");
    let HeadedEncoder::Tags(tagger) = &tags else { panic!("a tagger") };
    let trace = traced(&tags, TEXT, &options).unwrap();
    let HeadOutput::Tags(each, entities) = &trace.encoder().unwrap().head else { panic!("tags") };
    let expected = tagger.tag(&[TEXT], LongTexts::Refuse).unwrap().remove(0).unwrap().entities;
    assert_eq!((entities, each.len()), (&expected, trace.sides[0].tokens.len()));
    assert!(each.iter().all(|own| own[0].probability >= own[2].probability));

    let (_c, words) = encoder("masked_language_model", "post");
    let HeadedEncoder::Words(filler) = &words else { panic!("a filler") };
    let text = "I [MASK] only at my bank.";
    let trace = traced(&words, text, &options).unwrap();
    let HeadOutput::Words(found) = &trace.encoder().unwrap().head else { panic!("words") };
    let mask = trace.sides[0].tokens.iter().position(|token| token.piece == "[MASK]").unwrap();
    let expected = filler.fill(&[text], 5, LongTexts::Refuse).unwrap().remove(0).unwrap().masks.remove(0);
    for (own, expected) in found[mask].alternatives.iter().zip(&expected) {
        assert!((f64::from(own.log_probability.exp()) - expected.probability).abs() < 1e-6);
    }
    // The token itself has the probability that its place among the alternatives says.
    let whole = EncoderOptions { n_alternatives: 15, ..EncoderOptions::default() };
    let trace = traced(&words, text, &whole).unwrap();
    let HeadOutput::Words(found) = &trace.encoder().unwrap().head else { panic!("words") };
    for (own, token) in found.iter().zip(&trace.sides[0].tokens) {
        let following = own.following.unwrap();
        assert_eq!(own.alternatives[following.rank - 1].id, token.id);
        assert_eq!(own.alternatives[following.rank - 1].log_probability, following.log_probability);
    }
    assert!(found[0].alternatives.iter().any(|own| own.label == "·s" && own.piece == "##s"));
}

#[test]
fn files_have_states_and_the_output_of_the_head() {
    let (_folder, encoder) = encoder("none", "post");
    let options = EncoderOptions { vectors: CaptureVectors::Yes, ..EncoderOptions::default() };
    let mut trace = traced(&encoder, TEXT, &options).unwrap();
    let all: Value = serde_json::from_str(&json(&trace, &Filter::default())).unwrap();
    let n = trace.sides[0].tokens.len();
    assert_eq!((&all["head"], &all["cut_from"]), (&json!("none"), &Value::Null));
    assert_eq!(all["vector"]["shape"], json!([16]));
    assert_eq!(all["hidden_states"]["shape"], json!([4, n, 16]));
    let layers = all["states"].as_array().unwrap();
    let names: Vec<&Value> = layers.iter().map(|layer| &layer["layer"]).collect();
    assert_eq!(names, [&json!("embedding"), &json!(0), &json!(1), &json!(2)]);
    assert_eq!(layers[3]["similarities"]["shape"], json!([n, n]));
    assert_eq!(layers[3]["places"]["shape"], json!([n, 2]));
    trace.vectors.clear();
    assert!(!json(&trace, &Filter::default()).contains("hidden_states"));
    for bytes in [npz(&trace, &Filter::default()), safetensors(&trace, &Filter::default())] {
        assert!(bytes.windows(13).any(|part| part == b"hidden_states"));
    }
}

#[test]
fn a_skipped_layer_has_no_state_and_changes_the_vector() {
    let (_folder, encoder) = encoder("none", "post");
    let plain = traced(&encoder, TEXT, &EncoderOptions::default()).unwrap();
    let intervention = Intervention::default().without_layer("encoder", 1);
    let options = EncoderOptions { intervention, ..EncoderOptions::default() };
    let changed = traced(&encoder, TEXT, &options).unwrap();
    let layers = |trace: &Trace| trace.encoder().unwrap().states.as_ref().unwrap().layers.len();
    assert_eq!((layers(&plain), layers(&changed), changed.attentions.len()), (4, 3, 2));
    let vector = |trace: &Trace| match &trace.encoder().unwrap().head {
        HeadOutput::Vector(vector) => vector.clone(),
        _ => Vec::new(),
    };
    assert!(cosine(&vector(&plain), &vector(&changed)) < 0.9999);
}

#[test]
fn long_texts_are_refused_or_cut_and_traces_can_be_cancelled() {
    let (_folder, encoder) = encoder("masked_language_model", "post");
    let long = "bank ".repeat(40);
    let error = traced(&encoder, &long, &EncoderOptions::default()).unwrap_err();
    assert!(error.to_string().contains("42 tokens, expected at most 16"), "{error}");
    let cut = EncoderOptions { long: LongTexts::Truncate, ..EncoderOptions::default() };
    let trace = traced(&encoder, &long, &cut).unwrap();
    assert_eq!((trace.encoder().unwrap().cut_from, trace.sides[0].tokens.len()), (Some(42), 16));
    let cancelled = Trace::of_encoding(&encoder, TEXT, &cut, &|_| ControlFlow::Break(()));
    assert!(cancelled.unwrap_err().to_string().contains("cancelled"));
}

fn compared(encoder: &HeadedEncoder, texts: &[&str], words: &[&str]) -> Result<Comparison> {
    let reader = StateReader::Encoder(encoder);
    Comparison::new(reader, (texts, words), &CompareOptions::default(), &mut |_| ControlFlow::Continue(()))
}

#[test]
fn occurrences_are_compared_by_the_cosine_of_their_states() {
    let (_folder, encoder) = encoder("none", "post");
    let texts = [TEXT, "the river bank."];
    let found = compared(&encoder, &texts, &["bank", "banks"]).unwrap();
    let places: Vec<(usize, usize, &[usize])> =
        found.occurrences.iter().map(|own| (own.word, own.text, &own.tokens[..])).collect();
    // An occurrence of two tokens: bank, ##s.
    assert_eq!(places, [(0, 0, &[2][..]), (0, 1, &[3]), (1, 0, &[7, 8])]);
    let own = encoder.encoder();
    let tokens = own.embed_tokens(&texts, LongTexts::Refuse).unwrap();
    let tokens: Vec<_> = tokens.into_iter().map(|found| found.unwrap().tokens).collect();
    let mean: Vec<f32> =
        tokens[0][7].vector.iter().zip(&tokens[0][8].vector).map(|(a, b)| f32::midpoint(*a, *b)).collect();
    let last = found.layers.last().unwrap();
    for (pair, expected) in [
        ([0, 1], cosine(&tokens[0][2].vector, &tokens[1][3].vector)),
        ([0, 2], cosine(&tokens[0][2].vector, &mean)),
    ] {
        let cosine = f64::from(last.similarities.row(pair[0])[pair[1]]);
        assert!((cosine - expected).abs() < 1e-6, "{pair:?}");
    }
    // Without special tokens, one point for each token outside the occurrences.
    let labels: Vec<&str> = found.points.iter().map(|point| point.label.as_str()).collect();
    assert_eq!(labels, ["I", "bank", "only", "at", "my", "local", "banks", ".", "the", "river", "bank", "."]);
    assert_eq!((found.layers.len(), last.places.len()), (4, 12));
    // The same word at the same place of the same text has the same vector, another place another one.
    let same = compared(&encoder, &["my bank", "my bank", "bank my"], &["bank"]).unwrap();
    for layer in &same.layers {
        assert!(layer.similarities.row(0)[1] > 0.999_999 && layer.similarities.row(0)[2] < 0.999_9);
    }
}

#[test]
fn comparisons_are_written_and_drawn() {
    let (_folder, encoder) = encoder("none", "pre");
    let found = compared(&encoder, &["my bank, the bank", "<b>&bank"], &["bank"]).unwrap();
    let all = states::json(&found, &["bank"], CaptureVectors::Yes);
    assert_eq!((&all["format"], &all["words"]), (&json!("polyhead-comparison"), &json!(["bank"])));
    assert_eq!(all["occurrences"][2]["start"], 4);
    assert_eq!(all["layers"][4]["layer"], "output");
    assert_eq!(all["layers"][4]["vectors"][0].as_array().unwrap().len(), 16);
    let similarities = &all["layers"][1]["similarities"];
    assert_eq!((&similarities[0][0], &similarities[0][1]), (&json!(1.0), &similarities[1][0]));
    assert_eq!(ends(&found), [StateLayer::Embedding, StateLayer::Output]);
    let svg = picture(&found, "bank", &ends(&found));
    assert_eq!(svg.matches("% of the variance").count(), 2);
    assert!(svg.contains("1 and 3: ") && svg.contains("other pairs of tokens") && !svg.contains("<b>"));
    polyhead_inspect::png::render(&svg, 1.0).unwrap();
}

#[test]
fn mistakes_are_explained() {
    let (_folder, encoder) = encoder("none", "post");
    for (texts, word, expected) in [
        (
            &["my bank", "only"][..],
            "bnak",
            "\"bnak\" is not a word of the texts, expected one of them: my, bank, only",
        ),
        (&["my bank"], "bank", "\"bank\" occurs once, expected two occurrences or more"),
        (&["my bank"], "ban", "\"ban\" is not a word of the text"),
    ] {
        let error = compared(&encoder, texts, &[word]).unwrap_err();
        assert!(error.to_string().starts_with(expected) && error.is_misuse(), "{error}");
        assert!(!error.hint().is_empty());
    }
    // A model without attention has no vectors in context.
    let folder = tempfile::tempdir().unwrap();
    let config: ModelConfig = serde_json::from_value(json!({
        "model_type": "polyhead_averaging_encoder", "vocab_size": 15, "d_model": 8, "labels": ["a", "b"],
    }))
    .unwrap();
    let mut parameters = Parameters::default();
    Model::new(&config, &mut parameters).unwrap();
    parameters.initialise(1);
    save(folder.path(), &config, &parameters, &SaveOptions::default()).unwrap();
    std::fs::write(folder.path().join("vocab.txt"), VOCABULARY).unwrap();
    let averaging = HeadedEncoder::load(folder.path(), &LoadOptions::default()).unwrap();
    let error = compared(&averaging, &["bank bank"], &["bank"]).unwrap_err();
    assert!(error.to_string().contains("without vectors of tokens in context"), "{error}");
}

#[test]
fn translators_and_language_models_are_compared_too() {
    let engine = crate::engine();
    let watch = &mut |_: &[usize]| ControlFlow::Continue(());
    let options = CompareOptions::default();
    let reader = StateReader::Translation(&engine, None, Some("tur"));
    let found =
        Comparison::new(reader, (&["The teacher reads a book, a teacher."], &["teacher"]), &options, watch)
            .unwrap();
    assert_eq!(found.occurrences.len(), 2);
    assert!(
        found.layers.len() >= 3 && found.layers.iter().all(|layer| layer.similarities.row(0)[1] < 0.999_9)
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/gpt2");
    let generator = Generator::load(folder, &LoadOptions::default()).unwrap();
    let reader = StateReader::LanguageModel(&generator);
    // A token attends to those before it: what follows changes nothing.
    let texts = ["the cat sat", "the cat sat on the mat"];
    let found = Comparison::new(reader, (&texts, &["sat"]), &options, watch).unwrap();
    assert!(found.layers.iter().all(|layer| layer.similarities.row(0)[1] > 0.999_99));
}
