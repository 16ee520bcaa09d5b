//! Perplexity against a computation with transformers.

use polyhead_engine::perplexity::{Perplexity, PerplexityOptions, perplexity};

use crate::{answers, golden, load, text};

#[test]
fn windows_measure_what_transformers_measures() {
    let answers = answers();
    for model in ["gpt2", "llama"] {
        let generator = load(golden().join(model));
        let measured = |text: &str, context: usize, stride: usize| -> Perplexity {
            let options = PerplexityOptions { context: Some(context), stride: Some(stride) };
            perplexity(&generator, text, options, |_, _| {}).unwrap()
        };
        let all = &answers[model]["perplexity"];
        for case in all["windows"].as_array().unwrap() {
            let [context, stride] = ["context", "stride"].map(|key| case[key].as_u64().unwrap() as usize);
            let found = measured(text(&all["text"]), context, stride);
            assert_eq!(found.predicted as u64, case["predicted"].as_u64().unwrap(), "{model}: {case}");
            assert_eq!(found.tokens as u64, case["tokens"].as_u64().unwrap(), "{model}: {case}");
            let expected = case["nats"].as_f64().unwrap() / found.predicted as f64;
            assert!(
                (found.nats_per_token - expected).abs() < 1e-4,
                "{model}: {} {expected}",
                found.nats_per_token
            );
            assert_eq!(found.perplexity, found.nats_per_token.exp());
            assert_eq!(found.bytes, text(&all["text"]).len());
        }
        // A text that fits one window: the stride does not matter.
        let short = "the cat sat on the mat";
        let [whole, steps] = [48, 3].map(|stride| measured(short, 48, stride));
        assert_eq!((whole.nats_per_token, whole.windows), (steps.nats_per_token, 1));
        let bits = whole.bits_per_token * whole.tokens as f64;
        assert!((whole.bits_per_byte - bits / 22.0).abs() < 1e-12);
        for (context, stride, message) in [
            (1000, 1, "a context of 1000 tokens, expected at most"),
            (1, 1, "a context of 1 tokens, expected 2 or more"),
            (16, 17, "a stride of 17 tokens, expected 1 to 16"),
        ] {
            let options = PerplexityOptions { context: Some(context), stride: Some(stride) };
            let error = perplexity(&generator, short, options, |_, _| {}).unwrap_err();
            assert!(error.is_misuse() && error.to_string().contains(message), "{error}");
        }
        let error = perplexity(&generator, "", PerplexityOptions::default(), |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("a text of 0 tokens"), "{error}");
    }
}
