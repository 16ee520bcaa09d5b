//! A trace as JSON: one object, all that the explorer shows.
//!
//! Arrays of numbers are objects `{"shape": [...], "base64": "..."}`: f32, little-endian, row after row, in base64. In
//! Python `numpy.frombuffer(base64.b64decode(x["base64"]), "<f4").reshape(x["shape"])`, in a browser
//! `new Float32Array(Uint8Array.from(atob(x.base64), c => c.charCodeAt(0)).buffer)`. All other numbers are plain; a
//! log-probability of −∞ is null.
//!
//! | key | what it holds |
//! |---|---|
//! | `format`, `version` | `"polyhead-trace"` and [`VERSION`]; a key more does not change the version |
//! | `model` | `encoder` and `decoder`, each `n_layers`, `n_heads`, `d_key`, `d_value`; `d_model`; `vocab_size` of the target |
//! | `route` | null, or the languages: `from`, `to` (two-letter codes), `guessed` (whether `from` is a guess) |
//! | `source` | `text`; `tokens`, the end included; `words`, pairs of byte offsets into `text` |
//! | `target` | the same of the translation; position t of the decoder writes token t |
//! | `start` | the token that position 0 of the decoder reads; position t reads target token t − 1 |
//! | `given` | true if the translation was given, not searched for |
//! | `log_probability`, `score` | the sum over the target's tokens; that over the length penalty |
//! | `steps` | for each target token `log_probability` and `alternatives`: `id`, `piece`, `log_probability`, best first |
//! | `beam` | null, or `beam_size` and `nodes`: `parent` (a place in the list, or null), `step`, `id`, `piece`, `log_probability`, `sum`, `fate` (`kept`, `finished`, `pruned`), `best` (the translation goes through it) |
//! | `attention` | for each attention `kind` (`encoder`, `decoder`, `cross`), `layer`, `heads`, `weights` (heads × queries × keys), `entropy` (bits, a number for each head) |
//! | `vectors` | for each attention `kind`, `layer`, `heads`, `query`, `key` (heads × positions × d_key), `value` (heads × positions × d_value); empty unless asked for |
//! | `rollout` | null, or `encoder` (source × source), `decoder` (target × positions read), `cross` (target × source) |
//! | `alignment` | null, or pairs of a source word and a target word, from 0 |
//! | `intervention` | `heads`: `kind`, `layer`, `head`, `factor`; `layers`: `stack`, `layer` |
//!
//! A token has `id`, `piece` (as the vocabulary spells it), `label` (as people may read it), `start` and `end` (bytes of
//! `text` in UTF-8; equal where it stands for no text) and `word` (a place in `words`, or null). Rows of a `cross` matrix are
//! target tokens and columns source tokens; of `decoder`, rows are target tokens as written and columns the positions
//! that were read.

use polyhead_attention::Filter;
use polyhead_attention::vectors::Vectors;
use polyhead_tensor::Tensor;
use serde_json::{Value, json};

use super::{base64, kind_name, stack_name};
use crate::entropy::entropy;
use crate::matrix::Matrix;
use crate::trace::{NodeFate, Selected, Side, Token, Trace, Tree};

/// The version of the form.
pub const VERSION: u32 = 1;

/// The trace as one line of JSON, with the weights that `filter` lets through. No text in it can end a script of a page
/// that it stands in.
pub fn json(trace: &Trace, filter: &Filter) -> String {
    let config = &trace.config;
    let stack = |stack: polyhead_models::transformer::config::StackConfig| {
        let shape = stack.heads(config.d_model);
        json!({
            "n_layers": stack.n_layers, "n_heads": shape.n_heads, "d_key": shape.d_key, "d_value": shape.d_value,
        })
    };
    let rollout = trace.rollout().map(|found| {
        json!({
            "encoder": matrix(&found.encoder), "decoder": matrix(&found.decoder), "cross": matrix(&found.cross),
        })
    });
    let steps = trace.steps.iter().map(|step| {
        let alternatives = step.alternatives.iter().map(|other| {
            json!({ "id": other.id, "piece": other.piece, "log_probability": short(other.log_probability) })
        });
        let alternatives: Vec<Value> = alternatives.collect();
        json!({ "log_probability": short(step.log_probability), "alternatives": alternatives })
    });
    let text = json!({
        "format": "polyhead-trace",
        "version": VERSION,
        "model": {
            "encoder": stack(config.encoder),
            "decoder": stack(config.decoder),
            "d_model": config.d_model,
            "vocab_size": config.target_vocab_size,
        },
        "route": trace.route,
        "source": side(&trace.source),
        "target": side(&trace.target),
        "start": token(&trace.start, &trace.start.piece),
        "given": trace.is_given,
        "log_probability": trace.log_probability(),
        "score": trace.score,
        "steps": steps.collect::<Vec<Value>>(),
        "beam": trace.tree.as_ref().map(tree),
        "attention": trace.selected(filter).iter().map(attention).collect::<Vec<Value>>(),
        "vectors": trace.vectors.iter().map(vectors).collect::<Vec<Value>>(),
        "rollout": rollout,
        "alignment": trace.alignment(),
        "intervention": intervention(trace),
    })
    .to_string();
    // These stand in texts alone, where both spellings mean the same.
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn side(side: &Side) -> Value {
    let tokens: Vec<Value> =
        side.tokens.iter().zip(side.labels()).map(|(own, label)| token(own, &label)).collect();
    let words: Vec<[usize; 2]> = side.words.iter().map(|word| [word.start, word.end]).collect();
    json!({ "text": side.text, "tokens": tokens, "words": words })
}

fn token(token: &Token, label: &str) -> Value {
    let Token { id, piece, span, word } = token;
    json!({ "id": id, "piece": piece, "label": label, "start": span.start, "end": span.end, "word": word })
}

fn tree(tree: &Tree) -> Value {
    let nodes = tree.nodes.iter().map(|node| {
        let fate = match node.fate {
            NodeFate::Kept => "kept",
            NodeFate::Finished => "finished",
            NodeFate::Pruned => "pruned",
        };
        json!({
            "parent": node.parent, "step": node.step, "id": node.id, "piece": node.piece,
            "log_probability": short(node.log_probability), "sum": node.sum, "fate": fate, "best": node.is_best,
        })
    });
    json!({ "beam_size": tree.beam_size, "nodes": nodes.collect::<Vec<Value>>() })
}

fn attention(attention: &Selected<'_>) -> Value {
    let Selected { site, heads, weights } = attention;
    let sizes = weights.first().map_or([0, 0], |first| [first.n_rows(), first.n_columns()]);
    let numbers: Vec<f32> = weights.iter().flat_map(|head| head.numbers().iter().copied()).collect();
    let entropies: Vec<f64> = weights.iter().map(|head| (entropy(head) * 1e6).round() / 1e6).collect();
    json!({
        "kind": kind_name(site.kind),
        "layer": site.layer,
        "heads": heads,
        "weights": array(&[heads.len(), sizes[0], sizes[1]], &numbers),
        "entropy": entropies,
    })
}

fn vectors(vectors: &Vectors) -> Value {
    // There is one sentence.
    let without_batch = |tensor: &Tensor| array(&tensor.shape()[1..], tensor.data());
    json!({
        "kind": kind_name(vectors.site.kind),
        "layer": vectors.site.layer,
        "heads": vectors.heads,
        "query": without_batch(&vectors.query),
        "key": without_batch(&vectors.key),
        "value": without_batch(&vectors.value),
    })
}

fn intervention(trace: &Trace) -> Value {
    let heads = trace.intervention.heads().map(|(site, head, factor)| {
        json!({ "kind": kind_name(site.kind), "layer": site.layer, "head": head, "factor": short(factor) })
    });
    let layers = trace
        .intervention
        .layers()
        .map(|(stack, layer)| json!({ "stack": stack_name(stack), "layer": layer }));
    json!({ "heads": heads.collect::<Vec<Value>>(), "layers": layers.collect::<Vec<Value>>() })
}

fn matrix(matrix: &Matrix) -> Value {
    array(&[matrix.n_rows(), matrix.n_columns()], matrix.numbers())
}

fn array(shape: &[usize], numbers: &[f32]) -> Value {
    json!({ "shape": shape, "base64": base64::of_floats(numbers) })
}

/// An f32 with the digits that it has, not those of the nearest f64.
fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}
