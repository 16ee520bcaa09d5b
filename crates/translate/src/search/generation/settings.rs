//! The keys of `generation_config.json`, read into [`Generation`].

use polyhead_engine::settings::{Settings, UnsupportedKey, id, ids, positive, size, stopping};
use serde_json::Value;

use super::Generation;
use crate::Result;

/// Keys that change what `generate` writes and are not supported: the value that changes nothing (0 for false), and what
/// to do instead. Null never changes anything.
const UNSUPPORTED: &[UnsupportedKey] = &[
    ("constraints", f64::NAN, "constrained decoding is not a setting of the model here; remove the key"),
    ("diversity_penalty", 0.0, "diverse beam search is not supported; remove the key or set it to 0"),
    ("do_sample", 0.0, "sampling is an option here: set the key to false and translate with --sample"),
    ("dola_layers", f64::NAN, "DoLa decoding is not supported; remove the key"),
    ("encoder_no_repeat_ngram_size", 0.0, "a ban on n-grams of the source is not supported; remove the key"),
    ("encoder_repetition_penalty", 1.0, "a penalty on tokens of the source is not supported; remove the key"),
    ("force_words_ids", f64::NAN, "constrained decoding is not a setting of the model here; remove the key"),
    ("guidance_scale", 1.0, "classifier-free guidance is not supported; remove the key"),
    ("max_time", f64::NAN, "a limit of time would make translations depend on the machine; remove the key"),
    ("num_beam_groups", 1.0, "diverse beam search is not supported; remove the key or set it to 1"),
    ("num_return_sequences", 1.0, "set the key to 1 and translate with --n-best to get several translations"),
    ("penalty_alpha", 0.0, "contrastive search is not supported; remove the key"),
    ("stop_strings", f64::NAN, "stop strings are not supported; use eos_token_id or remove the key"),
    ("token_healing", 0.0, "token healing is not supported; remove the key"),
    ("watermarking_config", f64::NAN, "watermarks are not supported; remove the key"),
];

/// The settings of the file over `default`; translations have at most `max_len` tokens.
pub(super) fn over(settings: &Settings, default: Generation, max_len: usize) -> Result<Generation> {
    settings.check_supported(UNSUPPORTED)?;
    // A folder with such settings relies on Hugging Face's defaults for the others.
    let is_foreign = settings.has("decoder_start_token_id") || settings.has("num_beams");
    let beam_size = if is_foreign { 1 } else { default.beam_size };
    let max_length = settings.get("max_length", "a whole number of 2 or more", |value| {
        size(value).filter(|&length| length > 1).map(|length| length - 1)
    })?;
    let max_new = settings.get("max_new_tokens", "a whole number of 1 or more", positive)?;
    let min_length = settings.get("min_length", "a whole number", size)?;
    let end_ids = settings.get("eos_token_id", "an id or a list of ids", ids)?;
    let end_ids = end_ids.unwrap_or_else(|| vec![default.end_id]);
    let end_id = if end_ids.contains(&default.end_id) { default.end_id } else { end_ids[0] };
    Ok(Generation {
        beam_size: settings.get("num_beams", "a whole number of 1 or more", positive)?.unwrap_or(beam_size),
        max_length: max_new.or(max_length).unwrap_or(default.max_length).min(max_len),
        is_max_new: max_new.is_some(),
        min_length: min_length.map_or(default.min_length, |length| length.saturating_sub(1)),
        min_new: settings.get("min_new_tokens", "a whole number", size)?.unwrap_or(default.min_new),
        length_penalty: settings
            .get("length_penalty", "a number", Value::as_f64)?
            .unwrap_or(default.length_penalty),
        early_stopping: settings
            .get("early_stopping", "true, false or \"never\"", stopping)?
            .unwrap_or(default.early_stopping),
        rules: settings.rules(default.rules, &end_ids, end_id)?,
        unsure_below: settings.get("unsure_below", "a negative number", negative)?.or(default.unsure_below),
        start_id: settings.get("decoder_start_token_id", "an id", id)?.unwrap_or(default.start_id),
        end_id,
        pad_id: settings.get("pad_token_id", "an id", id)?.unwrap_or(default.pad_id),
    })
}

fn negative(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| *number < 0.0)
}

#[cfg(test)]
mod tests {
    use polyhead_models::SpecialIds;
    use polyhead_models::decode::rules::{AtLimit, EndDecay, Rules, SequenceBias};
    use polyhead_models::decode::stopping::EarlyStopping;

    use super::*;

    fn read(text: &str) -> Result<Generation> {
        let map = serde_json::from_str(text).unwrap();
        let settings = Settings::new("generation_config.json".into(), map);
        over(&settings, Generation::with(SpecialIds { pad_id: 9, end_id: 0, start_id: 0 }, 1024), 1024)
    }

    #[test]
    fn keys_mean_what_they_mean_to_hugging_face() {
        let found = read(
            r#"{"num_beams": 6, "max_length": 300, "bad_words_ids": [[7], [1, 2]], "eos_token_id": [3], "top_k": 50,
                "forced_eos_token_id": 3, "early_stopping": "never", "length_penalty": 0.6, "repetition_penalty": null}"#,
        )
        .unwrap();
        assert_eq!((found.beam_size, found.max_length, found.end_id), (6, 299, 3));
        assert_eq!(found.rules.suppressed, [vec![7], vec![1, 2]]);
        assert_eq!(found.rules.at_limit, AtLimit::Force(vec![3]));
        assert_eq!((found.early_stopping, found.length_penalty), (EarlyStopping::Never, 0.6));
        assert_eq!((found.rules.repetition_penalty, found.unsure_below), (1.0, None));
        assert_eq!(read(r#"{"unsure_below": -1.25}"#).unwrap().unsure_below, Some(-1.25));
        let silent = read("{}").unwrap();
        assert_eq!((silent.beam_size, silent.max_length), (4, 512));
        assert_eq!(silent.rules, Rules { suppressed: vec![vec![9]], ..Rules::default() });
        assert_eq!(read(r#"{"decoder_start_token_id": 9}"#).unwrap().beam_size, 1);
    }

    #[test]
    fn no_key_is_ignored_in_silence() {
        let found = read(
            r#"{"max_length": 50, "max_new_tokens": 7, "min_new_tokens": 2, "eos_token_id": [5, 0, 4], "renormalize_logits": true,
                "forced_bos_token_id": 8, "suppress_tokens": [1, 0], "begin_suppress_tokens": [2], "forced_eos_token_id": [0, 5],
                "sequence_bias": [[[3, 4], -2.5], [[6], 1], [[3, 4], 2.0]], "exponential_decay_length_penalty": [3, 1.5]}"#,
        )
        .unwrap();
        assert_eq!((found.max_length, found.is_max_new, found.min_new), (7, true, 2));
        assert_eq!((found.end_id, [0, 4, 5, 9].map(|id| found.is_written(id))), (0, [false; 4]));
        assert!(found.is_written(3));
        let bias = |ids: &[u32], bias| SequenceBias { ids: ids.to_vec(), bias };
        let expected = Rules {
            suppressed: vec![vec![9]],
            forbidden: vec![1, 0],
            forbidden_first: vec![2],
            biases: vec![bias(&[3, 4], 2.0), bias(&[6], 1.0)],
            forced_first: Some(8),
            other_end_ids: vec![4, 5],
            end_decay: Some(EndDecay { start: 3, factor: 1.5 }),
            at_limit: AtLimit::Force(vec![0, 5]),
            renormalise: true,
            ..Rules::default()
        };
        assert_eq!(found.rules, expected);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_unless_it_changes_nothing() {
        let neutral = r#"{"num_beam_groups": 1, "diversity_penalty": 0.0, "do_sample": false, "guidance_scale": 1, "top_k": 10,
            "constraints": null, "penalty_alpha": 0, "encoder_repetition_penalty": 1.0, "typical_p": 0.5, "min_p": 0.1,
            "encoder_no_repeat_ngram_size": 0, "num_return_sequences": 1, "stop_strings": null, "temperature": 0.7}"#;
        read(neutral).unwrap();
        for (key, _, hint) in UNSUPPORTED {
            let error = read(&format!(r#"{{"{key}": 3}}"#)).unwrap_err();
            let message = format!("{key} is 3, expected");
            assert!(error.to_string().contains(&message), "{error}");
            assert_eq!(error.hint(), *hint);
        }
        let error = read(r#"{"do_sample": true}"#).unwrap_err().to_string();
        assert!(error.contains("do_sample is true, expected false"), "{error}");
    }

    #[test]
    fn an_invalid_value_is_named_with_its_key() {
        for (text, message) in [
            (r#"{"num_beams": "4"}"#, "num_beams is \"4\", expected a whole number of 1 or more"),
            (r#"{"num_beams": 0}"#, "num_beams is 0, expected"),
            (r#"{"max_length": -1}"#, "max_length is -1, expected"),
            (r#"{"max_new_tokens": 0}"#, "max_new_tokens is 0, expected"),
            (r#"{"bad_words_ids": [1]}"#, "bad_words_ids is [1], expected a list of lists of ids"),
            (r#"{"early_stopping": "soon"}"#, "early_stopping is \"soon\""),
            (r#"{"unsure_below": 1}"#, "unsure_below is 1, expected a negative number"),
            (r#"{"repetition_penalty": 0}"#, "repetition_penalty is 0, expected a positive number"),
            (r#"{"eos_token_id": []}"#, "eos_token_id is [], expected an id or a list of ids"),
            (r#"{"forced_bos_token_id": [1, 2]}"#, "forced_bos_token_id is [1,2], expected an id"),
            (r#"{"sequence_bias": {"1": 2}}"#, "sequence_bias is {\"1\":2}, expected a list of pairs"),
            (
                r#"{"exponential_decay_length_penalty": [1, 0]}"#,
                "exponential_decay_length_penalty is [1,0], expected a whole number and a positive number",
            ),
            (
                r#"{"forced_bos_token_id": 3, "suppress_tokens": [2, 3]}"#,
                "forced_bos_token_id is [3], which suppress_tokens forbids",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
