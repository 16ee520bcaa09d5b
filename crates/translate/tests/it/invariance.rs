//! The same text gives the same translation, to the bit, in any batch and on any number of threads.

use polyhead_translate::{Evidence, Sampling, TranslateOptions, Translation};

use crate::{SENTENCES, engine};

fn on_threads(threads: usize, work: impl FnOnce() -> Vec<Translation> + Send) -> Vec<Translation> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

#[test]
fn batches_and_threads_do_not_change_a_bit() {
    let engine = engine();
    let paragraph = SENTENCES.join(" ");
    let texts: Vec<&str> =
        SENTENCES.iter().copied().chain([paragraph.as_str(), "", "\t"]).cycle().take(40).collect();
    let sampling = Some(Sampling { temperature: 0.8, top_p: 0.9, seed: 3, ..Sampling::default() });
    for sampling in [None, sampling] {
        let options = |batch_tokens| TranslateOptions {
            batch_tokens: Some(batch_tokens),
            n_best: 2,
            sampling,
            evidence: Evidence::Alignment,
            ..TranslateOptions::default()
        };
        let alone: Vec<Translation> =
            texts.iter().flat_map(|text| engine.translate(&[text], &options(1024)).unwrap()).collect();
        for threads in [1, 2, 3] {
            for batch_tokens in [1, 20, 100, 4096] {
                let found = on_threads(threads, || engine.translate(&texts, &options(batch_tokens)).unwrap());
                assert_eq!(found, alone, "{threads} threads, batches of {batch_tokens}");
            }
        }
    }
}

#[test]
fn batches_and_threads_do_not_change_a_bit_in_int8() {
    let options =
        polyhead_translate::LoadOptions { dtype: polyhead_tensor::Dtype::Int8, ..Default::default() };
    let engine = polyhead_translate::Engine::load(crate::golden(), &options).unwrap();
    let translate = |texts: &[&str], batch_tokens| {
        engine
            .translate(
                texts,
                &TranslateOptions { batch_tokens: Some(batch_tokens), ..TranslateOptions::default() },
            )
            .unwrap()
    };
    let alone: Vec<Translation> = SENTENCES.iter().flat_map(|text| translate(&[text], 1024)).collect();
    for threads in [1, 2] {
        assert_eq!(on_threads(threads, || translate(SENTENCES, 30)), alone);
    }
}

#[test]
fn only_tokens_of_the_shortlist_are_written() {
    let listed = "Kardeşim pazar günü evin arkasında iyi uyudu.";
    let options = polyhead_translate::LoadOptions {
        shortlist: polyhead_translate::ShortlistChoice::Texts(vec![listed.into()]),
        ..Default::default()
    };
    let engine = polyhead_translate::Engine::load(crate::golden(), &options).unwrap();
    let letters = |text: &str| -> std::collections::BTreeSet<char> {
        text.chars().filter(|letter| letter.is_alphanumeric()).collect()
    };
    let found = engine.translate(SENTENCES, &TranslateOptions::default()).unwrap();
    assert_eq!(found[0].text(), listed, "its translation needs no other token");
    for translation in found {
        assert!(letters(translation.text()).is_subset(&letters(listed)), "{}", translation.text());
    }
}
