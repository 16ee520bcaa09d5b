//! Generation against transformers, and its laws: a text depends on its prompt, its options and its seed alone.

use std::collections::VecDeque;

use polyhead_engine::Generator;
use polyhead_engine::generate::{
    FinishReason, GenerateOptions, Generated, Overflow, PausedSequence, Reuse, SequenceId,
};
use rayon::ThreadPoolBuilder;

use crate::{answers, changed, golden, ids, list, load, text};

/// Eight prompts, some of which begin alike for more than 16 tokens.
fn prompts() -> Vec<String> {
    let shared = "the cat sat on the mat and a man is walking";
    let ends = [" down", " down the street", "", " with two dogs", " é", " down"];
    ends.iter().map(|end| format!("{shared}{end}")).chain(["Hello".into(), "a".into()]).collect()
}

fn varied() -> GenerateOptions {
    GenerateOptions {
        max_new_tokens: Some(9),
        temperature: 0.9,
        top_p: 0.95,
        repetition_penalty: 1.1,
        seed: 7,
        ..GenerateOptions::default()
    }
}

fn alone(generator: &Generator, prompt: &str, options: &GenerateOptions) -> Vec<Generated> {
    generator.generate(&[prompt], options).unwrap().remove(0)
}

#[test]
fn greedy_and_beam_search_equal_transformers_under_the_folders_settings() {
    let answers = answers();
    let prompts: Vec<&str> = list(&answers["prompts"]).iter().map(text).collect();
    for model in ["gpt2", "llama"] {
        for case in list(&answers[model]["generate"]) {
            let mut settings = case["options"].clone();
            settings["do_sample"] = false.into();
            let folder = changed(model, &[("generation_config.json", Some(&settings.to_string()))]);
            let generator = load(folder.path());
            assert_eq!(generator.notes(), [""; 0]);
            let found = generator.generate(&prompts, &generator.options()).unwrap();
            for ((prompt, found), expected) in prompts.iter().zip(found).zip(list(&case["ids"])) {
                let expected: Vec<Vec<u32>> = list(expected).iter().map(ids).collect();
                let found: Vec<Vec<u32>> = found.into_iter().map(|found| found.ids).collect();
                assert_eq!(found, expected, "{model}, {}: {prompt:?}", case["options"]);
            }
        }
    }
}

#[test]
fn a_text_is_the_same_in_any_batch_on_any_number_of_threads_and_with_any_cache() {
    let prompts = prompts();
    let borrowed: Vec<&str> = prompts.iter().map(String::as_str).collect();
    for model in ["gpt2", "llama"] {
        let generator = load(golden().join(model));
        let options = GenerateOptions { n_samples: 2, ..varied() };
        let expected: Vec<Vec<Generated>> =
            borrowed.iter().map(|prompt| alone(&generator, prompt, &options)).collect();
        assert_ne!(expected[0][0].ids, expected[0][1].ids, "samples differ");
        for threads in [1, 3] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let together = pool.install(|| generator.generate(&borrowed, &options).unwrap());
            assert_eq!(together, expected, "{model}, {threads} threads");
        }
        // Sequences join one after the other, while others run, with room for three.
        let mut generation = generator.generation().with_max_rows(3);
        let mut found = Vec::new();
        for prompt in prompts.iter().chain(&prompts) {
            let ids = generator.encode(prompt).unwrap();
            generation.join(&ids, &GenerateOptions { reuse: Reuse::Text, ..varied() }, 0).unwrap();
            for _ in 0..2 {
                found.extend(
                    generation
                        .step()
                        .unwrap()
                        .into_iter()
                        .filter_map(|token| Some((token.sequence, token.finished?))),
                );
            }
        }
        while !generation.is_empty() {
            found.extend(
                generation
                    .step()
                    .unwrap()
                    .into_iter()
                    .filter_map(|token| Some((token.sequence, token.finished?))),
            );
        }
        found.sort_by_key(|(sequence, _)| *sequence);
        let first = || expected.iter().map(|texts| &texts[0]);
        assert!(found.iter().map(|(_, text)| text).eq(first().chain(first())), "{model}");
        assert!(generation.reused_tokens() > 100, "{model}: {}", generation.reused_tokens());
    }
}

#[test]
fn long_prompts_are_read_in_parts_and_sequences_may_pause() {
    let prompts = prompts();
    for model in ["gpt2", "llama"] {
        let generator = load(golden().join(model));
        let expected: Vec<Generated> =
            prompts.iter().map(|prompt| alone(&generator, prompt, &varied()).remove(0)).collect();
        for tokens in [1, 3, 16, 17] {
            let mut generation =
                generator.generation().with_max_rows(3).with_prompt_tokens(tokens).with_cached_tokens(40);
            let (mut found, mut paused) = (Vec::new(), VecDeque::new());
            let ids = prompts
                .iter()
                .map(|prompt| generation.join(&generator.encode(prompt).unwrap(), &varied(), 0).unwrap());
            let ids: Vec<SequenceId> = ids.collect();
            for step in 0.. {
                for token in generation.step().unwrap() {
                    found.extend(token.finished.map(|text| (token.sequence, text)));
                }
                if step % 3 == 0 {
                    paused.extend(ids.iter().filter_map(|id| generation.pause(*id).unwrap()).take(1));
                } else if step % 3 == 2 {
                    let next: Option<PausedSequence> = paused.pop_front();
                    if let Some(next) = next {
                        generation.resume(next).unwrap();
                    }
                }
                assert!(step < 2000, "it ends");
                if generation.is_empty() && paused.is_empty() {
                    break;
                }
            }
            found.sort_by_key(|(sequence, _)| *sequence);
            assert!(found.iter().map(|(_, text)| text).eq(&expected), "{model}, {tokens} tokens");
        }
        let mut generation = generator.generation().with_prompt_tokens(2);
        let id = generation.join(&generator.encode(&prompts[0]).unwrap(), &varied(), 0).unwrap();
        assert!(generation.step().unwrap().is_empty() && generation.len() == 1, "a part of the prompt");
        assert!(generation.pause(id).unwrap().is_none() && generation.leave(id) && generation.is_empty());
    }
}

#[test]
fn the_most_probable_tokens_are_reported() {
    let generator = load(golden().join("gpt2"));
    let prompt = generator.encode("the cat").unwrap();
    let greedy = GenerateOptions { temperature: 0.0, alternatives: 3, ..varied() };
    for (options, is_best) in
        [(greedy.clone(), true), (GenerateOptions { temperature: 1.0, ..greedy }, false)]
    {
        let options = GenerateOptions { repetition_penalty: 1.0, ..options };
        let mut generation = generator.generation();
        generation.join(&prompt, &options, 0).unwrap();
        let mut sum = 0.0;
        while !generation.is_empty() {
            for token in generation.step().unwrap() {
                let [first, second, third] = token.alternatives[..] else { panic!("{token:?}") };
                assert!(first.log_probability >= second.log_probability);
                assert!(second.log_probability >= third.log_probability);
                let own = token.alternatives.iter().find(|own| Some(own.id) == token.id);
                assert!(own.is_none_or(|own| own.log_probability == token.log_probability));
                assert!(!is_best || Some(first.id) == token.id);
                sum += f64::from(token.log_probability);
                if let Some(text) = token.finished {
                    assert_eq!(text.log_probability, sum);
                    let plain = GenerateOptions { alternatives: 0, ..options.clone() };
                    assert_eq!(text, alone(&generator, "the cat", &plain)[0]);
                }
            }
        }
    }
}

#[test]
fn a_sequence_needs_no_more_memory_than_was_said() {
    // The text of the state is what grows: 2 layers, 2 heads of 8 columns, keys and values.
    let generator = load(golden().join("gpt2"));
    let bytes = |length| generator.model().state_bytes(length);
    assert!(bytes(32) >= 32 * 2 * 2 * 16 * 4 && bytes(64) <= 2 * 64 * 2 * 2 * 16 * 4 + 1024, "{}", bytes(64));
    assert!(bytes(1000) <= 1300 * 2 * 2 * 16 * 4, "{}", bytes(1000));
    assert!(generator.sequence_bytes(64) > bytes(64));
}

#[test]
fn steps_stream_the_text_and_a_sequence_may_leave() {
    let generator = load(golden().join("llama"));
    let mut generation = generator.generation();
    let prompt = generator.encode("café 😀").unwrap();
    let [one, two, three] = [0, 1, 2].map(|sample| generation.join(&prompt, &varied(), sample).unwrap());
    let (mut text, mut ids, mut finished) = (String::new(), Vec::new(), None);
    for step in 0.. {
        for token in generation.step().unwrap() {
            if token.sequence == one {
                text += &token.text;
                ids.extend(token.id);
                finished = token.finished;
            }
            assert!(step < 3 || token.sequence != two, "it has left");
        }
        if step == 2 {
            assert!(generation.leave(two) && !generation.leave(two));
            assert_eq!(generation.len(), 2);
        }
        if generation.is_empty() {
            break;
        }
    }
    assert!(one < three);
    let expected = alone(&generator, "café 😀", &varied()).remove(0);
    assert_eq!((text, ids), (expected.text.clone(), expected.ids.clone()));
    assert_eq!(finished.unwrap(), expected);
    assert!(generation.step().unwrap().is_empty());
}

#[test]
fn a_text_ends_before_a_stop_string_at_the_end_token_or_at_its_length() {
    let generator = load(golden().join("gpt2"));
    let options =
        GenerateOptions { max_new_tokens: Some(12), temperature: 0.0, ..GenerateOptions::default() };
    let whole = alone(&generator, "the cat sat", &options).remove(0);
    assert_eq!((whole.finish_reason, whole.ids.len(), whole.prompt_tokens), (FinishReason::Length, 12, 4));
    let characters: Vec<char> = whole.text.chars().collect();
    for (at, width) in [(0, 1), (3, 2), (4, 3)] {
        let stop: String = characters[at..at + width].iter().collect();
        let stopped = GenerateOptions { stop: vec!["never".into(), stop.clone()], ..options.clone() };
        let found = alone(&generator, "the cat sat", &stopped).remove(0);
        let expected = whole.text.find(&stop).unwrap();
        assert_eq!(found.text, whole.text[..expected], "{stop:?}");
        assert_eq!(found.finish_reason, FinishReason::Stop);
        assert!(whole.ids.starts_with(&found.ids));
    }
    // One of several end tokens: the second token of the text.
    let settings = format!("{{\"eos_token_id\": [0, {}]}}", whole.ids[1]);
    let folder = changed("gpt2", &[("generation_config.json", Some(&settings))]);
    let generator = load(folder.path());
    let found = alone(&generator, "the cat sat", &options).remove(0);
    assert_eq!((found.finish_reason, found.ids.as_slice()), (FinishReason::End, &whole.ids[..2]));
    // End tokens stand for line breaks where lines are counted.
    let lines = GenerateOptions { lines: Some(2), ..options.clone() };
    let found = alone(&generator, "the cat sat", &lines).remove(0);
    assert_eq!(found.text.matches('\n').count(), 1, "{found:?}");
    let longer = GenerateOptions { min_new_tokens: 4, ..options };
    assert!(alone(&generator, "the cat sat", &longer)[0].ids.len() > 4);
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_or_slides() {
    let generator = load(golden().join("llama"));
    let prompt = "a man ".repeat(60);
    let options = GenerateOptions { max_new_tokens: Some(20), ..varied() };
    let error = generator.generate(&[&prompt], &options).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("expected at most 96, the context of the model"), "{message}");
    assert!(error.is_misuse() && error.hint().contains("--overflow slide"), "{}", error.hint());
    let sliding = GenerateOptions { overflow: Overflow::Slide, ..options };
    let ids = generator.encode(&prompt).unwrap();
    let fitted = generator.fit(ids.clone(), &sliding).unwrap();
    assert_eq!((fitted.ids.len(), fitted.dropped), (76, ids.len() - 76));
    assert_eq!((fitted.ids[0], &fitted.ids[1..]), (1, &ids[ids.len() - 75..]));
    assert_eq!(alone(&generator, &prompt, &sliding)[0].ids.len(), 20);
    // The context ends the text.
    let all = GenerateOptions { max_new_tokens: Some(500), temperature: 0.0, ..sliding };
    let found = alone(&generator, &prompt, &all).remove(0);
    assert_eq!((found.prompt_tokens, found.ids.len()), (48, 49));
    assert_eq!(found.finish_reason, FinishReason::Length);
}

#[test]
fn options_out_of_range_are_refused_with_the_reason() {
    let generator = load(golden().join("gpt2"));
    let base = varied();
    for (options, message) in [
        (GenerateOptions { temperature: -1.0, ..base.clone() }, "the temperature is -1"),
        (GenerateOptions { temperature: f32::NAN, ..base.clone() }, "the temperature is NaN"),
        (GenerateOptions { top_p: 0.0, ..base.clone() }, "top-p is 0"),
        (GenerateOptions { min_p: 1.5, ..base.clone() }, "min-p is 1.5"),
        (GenerateOptions { repetition_penalty: 0.0, ..base.clone() }, "the repetition penalty is 0"),
        (GenerateOptions { stop: vec![String::new()], ..base.clone() }, "an empty stop string"),
        (GenerateOptions { n_samples: 0, ..base.clone() }, "expected 1 or more"),
        (GenerateOptions { n_samples: 3, temperature: 0.0, ..base.clone() }, "3 samples at temperature 0"),
        (GenerateOptions { n_samples: 3, beam_size: 2, ..base.clone() }, "3 texts of 2 beams"),
        (GenerateOptions { stop: vec!["x".into()], beam_size: 2, ..base }, "stop strings in beam search"),
    ] {
        let error = generator.generate(&["a"], &options).unwrap_err();
        assert!(error.is_misuse() && error.to_string().contains(message), "{error}");
        assert!(!error.hint().is_empty());
    }
    let mut generation = generator.generation();
    assert!(generation.join(&[], &varied(), 0).is_err());
}

#[test]
fn settings_of_the_folder_are_the_defaults_and_what_is_not_supported_is_said() {
    let generator = load(golden().join("llama"));
    let options = generator.options();
    assert_eq!((options.temperature, options.top_p), (0.7, 0.9));
    let settings = r#"{"eos_token_id": 2, "max_length": 10, "typical_p": 0.9, "top_k": 3}"#;
    let folder = changed("llama", &[("generation_config.json", Some(settings))]);
    let generator = load(folder.path());
    assert_eq!(generator.notes().len(), 1);
    assert!(
        generator.notes()[0].starts_with("generation_config.json: typical_p is 0.9"),
        "{:?}",
        generator.notes()
    );
    let found = alone(&generator, "Hello", &generator.options()).remove(0);
    assert_eq!(found.prompt_tokens + found.ids.len(), 10, "max_length counts the prompt");
}
