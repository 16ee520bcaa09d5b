//! Encoders on text against transformers and sentence-transformers (`tests/golden/encoders.py`), and what does not fit.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use polyhead_attention::Watch;
use polyhead_engine::classify::{ClassScores, Classifier};
use polyhead_engine::encoder::embed::cosine;
use polyhead_engine::encoder::fill::Filler;
use polyhead_engine::encoder::modules::{Normalisation, SentenceModules};
use polyhead_engine::encoder::rerank::Reranker;
use polyhead_engine::encoder::tag::Tagger;
use polyhead_engine::encoder::{EncoderSummary, TextInput};
use polyhead_engine::{LoadOptions, LongTexts, TextEncoder};
use polyhead_models::checkpoint::safetensors::{Array, ArrayData, WriteOptions, write};
use polyhead_tensor::{Device, Dtype};
use serde_json::{Value, json};

use crate::{golden, list, text};

const TOLERANCE: f64 = 1e-4;

fn encoders() -> Value {
    let file = fs::File::open(golden().join("encoders.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The values that `encoders.py` gives a tensor.
fn weight(name: &str, shape: &[usize]) -> Vec<f32> {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    };
    let start = u64::from(!name.as_bytes().iter().fold(!0, step));
    let is_norm = shape.len() == 1 && name.ends_with(".weight");
    let value = |index: u64| {
        let bits = ((start + index * 2_654_435_761) % (1 << 32)) >> 8;
        (bits as f64 / f64::from(1 << 24) - 0.5) * 0.8 + if is_norm { 1.0 } else { 0.0 }
    };
    (0..shape.iter().product::<usize>() as u64).map(|index| value(index) as f32).collect()
}

fn write_weights(folder: &Path, tensors: &Value) {
    let tensors: Vec<(String, Vec<usize>, Vec<f32>)> = list(tensors)
        .iter()
        .map(|tensor| {
            let shape: Vec<usize> =
                list(&tensor[1]).iter().map(|size| size.as_u64().unwrap() as usize).collect();
            (text(&tensor[0]).to_owned(), shape.clone(), weight(text(&tensor[0]), &shape))
        })
        .collect();
    let arrays = tensors.iter().map(|(name, shape, values)| Array {
        name: name.clone(),
        shape: shape.clone(),
        data: ArrayData::Floats(vec![values]),
    });
    write(folder, arrays.collect(), WriteOptions::default()).unwrap().finish().unwrap();
}

/// The folder of a model with its vocabulary.
fn folder(all: &Value, model: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_weights(folder.path(), &all[model]["tensors"]);
    let lines: String = list(&all["vocabulary"]).iter().map(|token| format!("{}\n", text(token))).collect();
    fs::write(folder.path().join("vocab.txt"), lines).unwrap();
    fs::write(folder.path().join("config.json"), all[model]["config"].to_string()).unwrap();
    folder
}

/// The folder of sentence-transformers: the mean, a linear layer and normalisation.
fn sentence_folder(all: &Value) -> tempfile::TempDir {
    let folder = folder(all, "encoder");
    fs::write(folder.path().join("modules.json"), all["modules"].to_string()).unwrap();
    fs::write(folder.path().join("sentence_bert_config.json"), r#"{"max_seq_length": 16}"#).unwrap();
    for (name, settings) in all["module_files"].as_object().unwrap() {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, settings.to_string()).unwrap();
    }
    let dense = json!([["linear.weight", [5, 8]], ["linear.bias", [5]]]);
    write_weights(&folder.path().join("2_Dense"), &dense);
    folder
}

fn texts(all: &Value) -> Vec<&str> {
    list(&all["texts"]).iter().map(text).collect()
}

fn load(folder: &tempfile::TempDir) -> TextEncoder {
    TextEncoder::load(folder.path(), &LoadOptions::default()).unwrap()
}

fn assert_near(found: &[f32], expected: &Value) {
    assert_eq!(found.len(), list(expected).len());
    for (found, expected) in found.iter().zip(list(expected)) {
        let error = (f64::from(*found) - expected.as_f64().unwrap()).abs();
        assert!(error < TOLERANCE, "off by {error}");
    }
}

#[test]
fn vectors_of_texts_equal_those_of_sentence_transformers() {
    let all = encoders();
    let encoder = load(&sentence_folder(&all));
    let found = encoder.embed(&texts(&all), LongTexts::Refuse).unwrap();
    assert_eq!(found.len(), list(&all["vectors"]).len());
    for (found, expected) in found.into_iter().zip(list(&all["vectors"])) {
        assert_near(&found.unwrap().vector, expected);
    }
    // A text that is too long is refused, or cut as there.
    let long = text(&all["long"]);
    let error = encoder.embed(&[long], LongTexts::Refuse).unwrap().remove(0).unwrap_err();
    assert_eq!(error.to_string(), "82 tokens, expected at most 16, the model's maximum length");
    assert!(error.hint().contains("--truncate"), "{}", error.hint());
    let cut = encoder.embed(&[long], LongTexts::Truncate).unwrap().remove(0).unwrap();
    assert_eq!((cut.n_tokens, cut.cut_from), (16, Some(82)));
    assert_near(&cut.vector, &all["long_vector"]);
}

#[test]
fn vectors_of_tokens_equal_those_of_transformers() {
    let all = encoders();
    let folder = folder(&all, "encoder");
    let encoder = load(&folder);
    let found = encoder.embed_tokens(&texts(&all)[..1], LongTexts::Refuse).unwrap().remove(0).unwrap().tokens;
    let expected = list(&all["token_vectors"]);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_near(&found.vector, expected);
    }
    let tokens: Vec<(&str, &str)> =
        found.iter().map(|token| (token.token.as_str(), &texts(&all)[0][token.range.clone()])).collect();
    assert_eq!(tokens[0], ("[CLS]", ""));
    assert_eq!(tokens[4..7], [("lon", "Lon"), ("##don", "don"), (".", ".")]);
    // Without modules the vector of a text is the mean of its tokens'.
    assert!(encoder.pools_by_default());
    let vector = encoder.embed(&texts(&all)[..1], LongTexts::Refuse).unwrap().remove(0).unwrap().vector;
    let mean: f32 = found.iter().map(|token| token.vector[3]).sum::<f32>() / found.len() as f32;
    assert!((vector[3] - mean).abs() < 1e-5);
}

#[test]
fn a_vector_alone_has_the_bits_that_it_has_in_any_batch() {
    let all = encoders();
    let folder = sentence_folder(&all);
    let many: Vec<String> =
        (0..300).map(|index| format!("{}{}", "a dog ".repeat(index % 7), texts(&all)[index % 6])).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for dtype in [Dtype::F32, Dtype::Int8] {
        let encoder = TextEncoder::load(folder.path(), &LoadOptions { device: Device::Cpu, dtype }).unwrap();
        let embed = |texts: &[&str]| -> Vec<Vec<f32>> {
            let found = encoder.embed(texts, LongTexts::Truncate).unwrap();
            found.into_iter().map(|found| found.unwrap().vector).collect()
        };
        let alone: Vec<Vec<f32>> = many.iter().map(|text| embed(&[text]).remove(0)).collect();
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                assert!(embed(&many) == alone, "{dtype}, {threads} threads");
                assert!(embed(&many[..5]) == alone[..5], "{dtype}, {threads} threads");
            });
        }
    }
}

#[test]
fn entities_equal_those_of_the_pipeline_of_transformers() {
    let all = encoders();
    let tagger = Tagger::load(folder(&all, "tagger").path(), &LoadOptions::default()).unwrap();
    let texts: Vec<&str> = texts(&all).into_iter().filter(|text| !text.is_empty()).collect();
    let found = tagger.tag(&texts, LongTexts::Refuse).unwrap();
    for ((text_, found), expected) in texts.iter().zip(found).zip(list(&all["entities"])) {
        let found = found.unwrap().entities;
        assert_eq!(found.len(), list(expected).len(), "{text_:?}: {found:?}");
        for (found, expected) in found.iter().zip(list(expected)) {
            let range = [&expected["start"], &expected["end"]].map(|at| at.as_u64().unwrap() as usize);
            assert_eq!(
                (found.label.as_str(), [found.range.start, found.range.end]),
                (text(&expected["label"]), range)
            );
            assert!((found.probability - expected["score"].as_f64().unwrap()).abs() < TOLERANCE);
        }
    }
    assert_eq!(tagger.types().unwrap(), ["PER", "LOC"]);
}

#[test]
fn masked_words_equal_those_of_the_pipeline_of_transformers() {
    let all = encoders();
    let filler = Filler::load(folder(&all, "filler").path(), &LoadOptions::default()).unwrap();
    let masked: Vec<&str> = list(&all["masked"]).iter().map(text).collect();
    let found = filler.fill(&masked, 3, LongTexts::Refuse).unwrap();
    for (found, expected) in found.into_iter().zip(list(&all["words"])) {
        let found = found.unwrap().masks;
        assert_eq!(found.len(), list(expected).len());
        for (found, expected) in found.iter().zip(list(expected)) {
            for (found, expected) in found.iter().zip(list(expected)) {
                assert_eq!(found.word, text(&expected["word"]));
                assert!((found.probability - expected["score"].as_f64().unwrap()).abs() < TOLERANCE);
            }
        }
    }
    let first = filler.fill(&masked[1..], 1, LongTexts::Refuse).unwrap().remove(0).unwrap().masks;
    assert_eq!(first[1][0].text, format!("a dog [MASK], and a {}", first[1][0].word));
    let error = filler.fill(&["no mask"], 1, LongTexts::Refuse).unwrap().remove(0).unwrap_err();
    assert_eq!(error.to_string(), "a text without [MASK], expected at least one");
}

#[test]
fn scores_of_pairs_and_classes_equal_those_of_transformers() {
    let all = encoders();
    let texts = texts(&all);
    let reranker = Reranker::load(folder(&all, "reranker").path(), &LoadOptions::default()).unwrap();
    let found = reranker.scores(texts[1], &texts, LongTexts::Refuse).unwrap();
    let found: Vec<f32> = found.into_iter().map(|found| found.unwrap().logit).collect();
    assert_near(&found, &all["scores"]);
    let long = text(&all["long"]);
    let cut = reranker.scores("the dog", &[long, "a"], LongTexts::Truncate).unwrap();
    assert_eq!(cut[0].as_ref().unwrap().cut_from, Some(85));
    assert_eq!(cut[1].as_ref().unwrap().cut_from, None);
    let error = reranker.scores("the dog", &[long], LongTexts::Refuse).unwrap().remove(0).unwrap_err();
    assert!(error.to_string().starts_with("85 tokens, expected at most 24"), "{error}");
    let error = reranker.scores(long, &["the dog"], LongTexts::Truncate).unwrap().remove(0).unwrap_err();
    assert!(error.hint().contains("only the second is cut"), "{}", error.hint());
    for name in ["classifier", "multi"] {
        let classifier = Classifier::load(folder(&all, name).path(), &LoadOptions::default()).unwrap();
        let found = classifier.classify(&texts).unwrap();
        for (classes, expected) in found.iter().zip(list(&all[format!("{name}_probabilities")])) {
            let own =
                |label: &str| classes.iter().find(|class| class.label == label).unwrap().probability as f32;
            assert_near(&["bad", "good", "neither"].map(own), expected);
        }
    }
}

#[test]
fn heads_and_modules_that_do_not_fit_are_refused_by_name() {
    let all = encoders();
    let options = LoadOptions::default();
    let error = Classifier::load(folder(&all, "filler").path(), &options).unwrap_err();
    assert!(error.to_string().contains("a model of masked words, expected a classifier of texts"), "{error}");
    assert_eq!(error.hint(), "use it with polyhead fill");
    let error = Tagger::load(folder(&all, "reranker").path(), &options).unwrap_err();
    assert!(error.to_string().contains("a classifier of texts, expected a classifier of tokens"), "{error}");
    let error = Reranker::load(folder(&all, "classifier").path(), &options).unwrap_err();
    assert!(error.to_string().contains("a classifier with 3 labels, expected one label"), "{error}");
    let error = Filler::load(folder(&all, "encoder").path(), &options).unwrap_err();
    assert!(
        error.to_string().contains("an encoder without a head, expected a model of masked words"),
        "{error}"
    );
    let changed = |file: &str, content: Value| {
        let folder = sentence_folder(&all);
        fs::write(folder.path().join(file), content.to_string()).unwrap();
        TextEncoder::load(folder.path(), &options).unwrap_err().to_string()
    };
    let mut modules = all["modules"].clone();
    modules[2]["type"] = json!("sentence_transformers.models.WordWeights");
    let error = changed("modules.json", modules);
    assert!(
        error.contains("module 2 is \"sentence_transformers.models.WordWeights\", expected a Transformer"),
        "{error}"
    );
    let error = changed("modules.json", json!([all["modules"][0]]));
    assert!(error.contains("1 modules, expected a Transformer and a Pooling"), "{error}");
    let error = changed("1_Pooling/config.json", json!({"pooling_mode": "median"}));
    assert!(error.contains("no known pooling mode, expected one of cls, max, mean"), "{error}");
    let error = changed("2_Dense/config.json", json!({"activation_function": "torch.nn.Softsign"}));
    assert!(error.contains("activation_function is \"torch.nn.Softsign\", expected Tanh"), "{error}");
    let error = changed("1_Pooling/config.json", json!({"pooling_mode": ["cls", "mean"]}));
    assert!(error.contains("a Dense module of 8 inputs after a vector of 16 numbers"), "{error}");
    let bare = folder(&all, "encoder");
    fs::remove_file(bare.path().join("vocab.txt")).unwrap();
    let error = TextEncoder::load(bare.path(), &options).unwrap_err();
    assert!(error.to_string().contains("a folder without a tokeniser"), "{error}");
}

#[test]
fn the_default_prompt_is_put_before_every_text() {
    let all = encoders();
    let folder = sentence_folder(&all);
    let plain = load(&folder).embed(&["a dog barks"], LongTexts::Refuse).unwrap().remove(0).unwrap();
    let settings = json!({"default_prompt_name": "query", "prompts": {"query": "a dog "}});
    fs::write(folder.path().join("config_sentence_transformers.json"), settings.to_string()).unwrap();
    let prompted = load(&folder).embed(&["barks"], LongTexts::Refuse).unwrap().remove(0).unwrap();
    assert!(plain.vector == prompted.vector && (cosine(&plain.vector, &prompted.vector) - 1.0).abs() < 1e-6);
    let settings = json!({"default_prompt_name": "answer", "prompts": {"query": "a dog "}});
    fs::write(folder.path().join("config_sentence_transformers.json"), settings.to_string()).unwrap();
    let error = TextEncoder::load(folder.path(), &LoadOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("default_prompt_name is \"answer\", expected a name in prompts"),
        "{error}"
    );
}

#[test]
fn ids_and_prompts_are_prepared_as_texts_are() {
    let all = encoders();
    let folder = sentence_folder(&all);
    let settings = json!({"prompts": {"query": "a dog ", "null": null}});
    fs::write(folder.path().join("config_sentence_transformers.json"), settings.to_string()).unwrap();
    let encoder = load(&folder);
    for text in ["barks", "", "the bank of a river"] {
        let prepared = encoder.prepare(text, None, LongTexts::Refuse).unwrap().ids_only();
        assert!(prepared.encoding.pieces.is_empty());
        let ids = &prepared.encoding.ids;
        for ids in [&ids[..], &ids[1..ids.len() - 1]] {
            assert_eq!(encoder.prepare_ids(ids, None, LongTexts::Refuse).unwrap(), prepared, "{text:?}");
        }
        let prompt = encoder.prompt("query").unwrap();
        let prompted = encoder.prepare(text, Some(prompt), LongTexts::Refuse).unwrap().ids_only();
        assert_eq!(
            prompted,
            encoder.prepare(&format!("a dog {text}"), None, LongTexts::Refuse).unwrap().ids_only()
        );
        assert_eq!(encoder.prepare_ids(ids, Some(prompt), LongTexts::Refuse).unwrap(), prompted);
    }
    let error = encoder.prompt("answer").unwrap_err();
    assert_eq!(error.to_string(), "no prompt \"answer\", expected one of query");
    let long = vec![14; 40];
    let cut = encoder.prepare_ids(&long, None, LongTexts::Truncate).unwrap();
    let text = encoder.prepare(&"a ".repeat(40), None, LongTexts::Truncate).unwrap();
    assert_eq!((cut.encoding.ids, cut.cut_from), (text.encoding.ids, text.cut_from));
    let refused = |ids: &[u32]| encoder.prepare_ids(ids, None, LongTexts::Refuse).unwrap_err().to_string();
    assert_eq!(refused(&long), "42 tokens, expected at most 16, the model's maximum length");
    assert_eq!(refused(&[3, 24]), "token 24, expected one below 24, the size of the vocabulary");
}

#[test]
fn vectors_have_the_length_that_is_asked_for() {
    let all = encoders();
    let texts = texts(&all);
    let length = |vector: &[f32]| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    for folder in [folder(&all, "encoder"), sentence_folder(&all)] {
        let encoder = load(&folder);
        let own = encoder.embed(&texts, LongTexts::Refuse).unwrap();
        let read: Vec<TextInput> =
            texts.iter().map(|text| encoder.prepare(text, None, LongTexts::Refuse).unwrap()).collect();
        let read: Vec<&TextInput> = read.iter().collect();
        let [model, unit, left] = [Normalisation::AsModel, Normalisation::Unit, Normalisation::Left]
            .map(|normalisation| encoder.vectors(&read, normalisation, None).unwrap());
        let normalises = encoder.modules().is_some_and(SentenceModules::normalises);
        for (index, own) in own.into_iter().enumerate() {
            assert_eq!(own.unwrap().vector, model[index]);
            assert!((length(&unit[index]) - 1.0).abs() < 1e-6);
            assert_eq!(model[index] == unit[index], normalises);
            assert_eq!(model[index] == left[index], !normalises);
            assert!((cosine(&unit[index], &left[index]) - 1.0).abs() < 1e-6);
        }
        // What is no longer wanted is not finished.
        let error = encoder.vectors(&read, Normalisation::AsModel, Some(Watch(&|| false))).unwrap_err();
        assert_eq!(error.to_string(), "the work was cancelled");
    }
}

#[test]
fn one_class_has_the_sigmoid_of_its_score() {
    let all = encoders();
    let folder = folder(&all, "reranker");
    let classifier = Classifier::load(folder.path(), &LoadOptions::default()).unwrap();
    let encoder = load(&folder);
    for (text, classes) in texts(&all).iter().zip(classifier.classify(&texts(&all)).unwrap()) {
        let input = encoder.read(text, LongTexts::Refuse).unwrap();
        let logit = encoder.class_scores(&[&input], ClassScores::Logits, None).unwrap()[0][0];
        let expected = 1.0 / (1.0 + (-f64::from(logit)).exp());
        assert!((classes[0].probability - expected).abs() < 1e-6 && classes.len() == 1);
    }
    let summary = EncoderSummary::of_folder(folder.path()).unwrap();
    assert_eq!((summary.described(), summary.max_len, summary.pooling.as_str()), ("reranker", 24, "mean"));
    let summary = EncoderSummary::of_folder(sentence_folder(&all).path()).unwrap();
    assert_eq!((summary.described(), summary.max_len, summary.d_model), ("encoder", 16, 8));
    let error = encoder.class_scores(&[], ClassScores::Logits, None);
    assert!(error.unwrap().is_empty());
    assert!(load(&sentence_folder(&all)).class_scores(&[], ClassScores::Logits, None).is_err());
}
