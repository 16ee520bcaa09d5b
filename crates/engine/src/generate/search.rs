//! Beam search for language models, line by line where lines are counted.

use polyhead_attention::{Capture, Intervention};
use polyhead_models::decode::Hypothesis;
use polyhead_models::decode::beam::{BeamOptions, beam};
use polyhead_models::decode::length_penalty::LengthPenalty;
use polyhead_text::tokenizer::TextStream;

use super::{FinishReason, GenerateOptions, Generated, Generator};
use crate::{Error, Result};

/// The best texts after each prompt.
pub(super) fn beams(
    generator: &Generator,
    prompts: &[Vec<u32>],
    options: &GenerateOptions,
) -> Result<Vec<Vec<Generated>>> {
    let lines = options.lines.unwrap_or(1);
    if lines > 1 && options.n_samples > 1 {
        let message = "several texts of several lines in beam search, expected one of the two";
        return Err(Error::request(message, "ask for one text, or for one line"));
    }
    for prompt in prompts {
        generator.check_length(prompt.len())?;
    }
    prompts.iter().map(|prompt| texts(generator, prompt, (lines, options))).collect()
}

fn texts(
    generator: &Generator,
    prompt: &[u32],
    (lines, options): (usize, &GenerateOptions),
) -> Result<Vec<Generated>> {
    let max_new = generator.max_new(prompt.len(), options);
    let mut all = vec![(Vec::new(), 0.0)];
    for line in 0..lines {
        let Some((before, log_probability)) = all.first().cloned() else { break };
        let left = max_new.saturating_sub(before.len());
        if left == 0 || (line > 0 && !is_ended(generator, &before)) {
            break;
        }
        let source = [prompt, &before].concat();
        all = search(generator, &source, (left, options))?
            .into_iter()
            .map(|found| ([&before[..], &found.ids].concat(), log_probability + found.log_probability))
            .collect();
    }
    let text = |(ids, log_probability): (Vec<u32>, f64)| {
        let finish_reason = if is_ended(generator, &ids) { FinishReason::End } else { FinishReason::Length };
        let text = text(generator, prompt, &ids)?;
        Ok(Generated { text, ids, log_probability, finish_reason, prompt_tokens: prompt.len() })
    };
    all.into_iter().map(text).collect()
}

fn search(
    generator: &Generator,
    source: &[u32],
    (max_new, options): (usize, &GenerateOptions),
) -> Result<Vec<Hypothesis>> {
    let capture = Capture::off();
    let settings = &generator.settings;
    let searching = BeamOptions {
        decode: generator.decode_options(options, max_new),
        beam_size: options.beam_size,
        top_beams: options.n_samples,
        length_penalty: LengthPenalty::Power(settings.length_penalty),
        early_stopping: settings.early_stopping,
        ..BeamOptions::default()
    };
    Ok(beam(&generator.decoding(&capture, &Intervention::default()), &[source], &searching)?.remove(0))
}

/// True if an end token is the last.
fn is_ended(generator: &Generator, ids: &[u32]) -> bool {
    ids.last().is_some_and(|last| generator.end_ids().contains(last))
}

/// The text after a prompt; end tokens between lines are line breaks.
fn text(generator: &Generator, prompt: &[u32], ids: &[u32]) -> Result<String> {
    let tokenizer = generator.tokenizer();
    let mut stream = TextStream::after(prompt, tokenizer)?;
    let mut text = String::new();
    for (index, &id) in ids.iter().enumerate() {
        if !generator.end_ids().contains(&id) {
            text += &stream.push(id, tokenizer)?;
            continue;
        }
        text += &stream.finish(tokenizer)?;
        stream = TextStream::default();
        if index + 1 < ids.len() {
            text.push('\n');
        }
    }
    Ok(text + &stream.finish(tokenizer)?)
}
