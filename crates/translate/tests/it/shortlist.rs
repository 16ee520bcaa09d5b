//! Lexical shortlists: trained on text, found in the model folder, chosen for each sentence.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use polyhead_models::LexicalTable;
use polyhead_models::checkpoint::shortlist::{SHORTLIST, ShortlistFile};
use polyhead_translate::shortlist::{LanguagePair, ShortlistOptions, TrainedShortlist, train_shortlist};
use polyhead_translate::{Engine, LoadOptions, Sampling, ShortlistChoice, TranslateOptions, Translation};

use crate::{SENTENCES, golden};

/// A copy of the golden model.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

fn load(folder: &Path, shortlist: ShortlistChoice) -> Engine {
    Engine::load(folder, &LoadOptions { shortlist, ..LoadOptions::default() }).unwrap()
}

/// The language tag by which the model's table is found.
const TAG: &str = ">>tur<<";

fn into_turkish() -> TranslateOptions {
    TranslateOptions { to: Some("tr".into()), ..TranslateOptions::default() }
}

fn translate(engine: &Engine, texts: &[&str]) -> Vec<Translation> {
    engine.translate(texts, &TranslateOptions { n_best: 2, ..into_turkish() }).unwrap()
}

/// Trains on the sentences and the model's own translations of them.
fn train(folder: &Path, options: &ShortlistOptions) -> TrainedShortlist {
    let found = translate(&load(folder, ShortlistChoice::All), SENTENCES);
    let pairs = SENTENCES.iter().zip(&found).map(|(source, found)| [(*source).into(), found.text().into()]);
    let pairs = pairs.cycle().take(200).collect();
    let text = LanguagePair { languages: ["en".into(), "tr".into()], pairs };
    train_shortlist(folder, &[text], options, &|_| ()).unwrap()
}

const FEW: usize = 3;

fn few() -> ShortlistOptions {
    ShortlistOptions { frequent: FEW, per_token: 9, ..ShortlistOptions::default() }
}

#[test]
fn a_trained_shortlist_is_used_and_changes_little() {
    let folder = folder();
    let all = translate(&load(folder.path(), ShortlistChoice::Folder), SENTENCES);
    let trained = train(folder.path(), &few());
    let [table] = trained.tables.as_slice() else { panic!("{:?}", trained.tables) };
    assert_eq!((table.tag.as_str(), table.pairs), (TAG, 198));
    assert_eq!(table.directions, [("en".to_owned(), "tr".to_owned())]);
    assert!(table.coverage > 0.9 && table.entries > 20, "{table:?}");
    assert_eq!(trained.file.tables[TAG].frequent.len(), FEW);
    trained.file.save(&folder.path().join(SHORTLIST)).unwrap();
    let listed = translate(&load(folder.path(), ShortlistChoice::Folder), SENTENCES);
    assert_eq!(listed[0].text(), all[0].text());
    // Probabilities are those among listed tokens, so they are higher.
    assert!(listed[0].best().log_probability > all[0].best().log_probability);
    assert_eq!(translate(&load(folder.path(), ShortlistChoice::All), SENTENCES), all);
    let named = ShortlistChoice::Lexical(folder.path().join(SHORTLIST));
    assert_eq!(translate(&load(&golden(), named), SENTENCES), listed);
}

#[test]
fn batches_and_threads_do_not_change_a_bit_with_a_lexical_shortlist() {
    let folder = folder();
    let trained = train(folder.path(), &few());
    trained.file.save(&folder.path().join(SHORTLIST)).unwrap();
    for dtype in [polyhead_tensor::Dtype::F32, polyhead_tensor::Dtype::Int8] {
        let engine = Engine::load(folder.path(), &LoadOptions { dtype, ..LoadOptions::default() }).unwrap();
        let with = |texts: &[&str], batch_tokens| {
            let options = TranslateOptions { batch_tokens: Some(batch_tokens), ..into_turkish() };
            engine.translate(texts, &options).unwrap()
        };
        let alone: Vec<Translation> = SENTENCES.iter().flat_map(|text| with(&[text], 1024)).collect();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for batch_tokens in [20, 4096] {
                assert_eq!(pool.install(|| with(SENTENCES, batch_tokens)), alone, "{threads} {batch_tokens}");
            }
        }
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    assert_eq!(pool.install(|| train(folder.path(), &few()).file), trained.file);
}

#[test]
fn only_listed_tokens_are_written_and_prefixes_are_listed() {
    let folder = folder();
    let mut file = train(folder.path(), &few()).file;
    let n_sources = file.tables[TAG].counts.len();
    let empty = LexicalTable { frequent: Vec::new(), counts: vec![0; n_sources], candidates: Vec::new() };
    file.tables = BTreeMap::from([(TAG.to_owned(), empty)]);
    file.save(&folder.path().join(SHORTLIST)).unwrap();
    let engine = load(folder.path(), ShortlistChoice::Folder);
    let text = SENTENCES[0];
    let all = translate(&load(folder.path(), ShortlistChoice::All), &[text]);
    assert_ne!(translate(&engine, &[text])[0].text(), all[0].text(), "its tokens are not listed");
    let prefix = all[0].text().split(' ').next().unwrap().to_owned();
    let options = TranslateOptions { prefix: prefix.clone(), ..into_turkish() };
    let found = engine.translate(&[text], &options).unwrap().remove(0);
    assert!(found.text().starts_with(&prefix), "{}", found.text());
    assert!(found.best().log_probability.is_finite());
    // Samples are drawn from all tokens.
    let sampling = Some(Sampling { seed: 5, ..Sampling::default() });
    let options = TranslateOptions { sampling, ..into_turkish() };
    let samples = [ShortlistChoice::Folder, ShortlistChoice::All]
        .map(|choice| load(folder.path(), choice).translate(&[text], &options).unwrap());
    assert_eq!(samples[0], samples[1]);
}

#[test]
fn a_shortlist_of_another_tokeniser_is_refused() {
    let folder = folder();
    let mut file: ShortlistFile = train(folder.path(), &few()).file;
    let own = std::mem::replace(&mut file.tokenizer, "0123".into());
    file.save(&folder.path().join(SHORTLIST)).unwrap();
    let error = Engine::load(folder.path(), &LoadOptions::default()).unwrap_err();
    let message = format!("a shortlist of the tokeniser 0123, expected {own}, that of the model");
    assert!(error.to_string().contains(&message), "{error}");
    assert!(error.hint().contains("polyhead shortlist train"), "{}", error.hint());
    fs::write(folder.path().join(SHORTLIST), b"no shortlist").unwrap();
    assert!(Engine::load(folder.path(), &LoadOptions::default()).is_err());
    load(folder.path(), ShortlistChoice::All);
}

#[test]
fn text_of_a_foreign_language_is_refused() {
    let text = LanguagePair { languages: ["de".into(), "fr".into()], pairs: Vec::new() };
    let error = train_shortlist(&golden(), &[text], &few(), &|_| ()).unwrap_err();
    assert!(error.to_string().contains("\"de\": the model translates from eng"), "{error}");
}

#[test]
fn tables_are_made_for_the_chosen_target_languages() {
    let into = |language: &str| ShortlistOptions { into: vec![language.into()], ..few() };
    assert_eq!(train(&golden(), &into("tur")).file, train(&golden(), &few()).file);
    let text = LanguagePair { languages: ["en".into(), "tr".into()], pairs: Vec::new() };
    let error = train_shortlist(&golden(), &[text], &into("fr"), &|_| ()).unwrap_err();
    assert!(error.to_string().contains("both in the text and into fr"), "{error}");
}
