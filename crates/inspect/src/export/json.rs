//! A trace as JSON: one object with everything that the explorer shows.
//!
//! Arrays of numbers are objects `{"shape": [...], "base64": "..."}`: f32, little-endian, row-major, in base64. In
//! Python `numpy.frombuffer(base64.b64decode(x["base64"]), "<f4").reshape(x["shape"])`, in a browser
//! `new Float32Array(Uint8Array.from(atob(x.base64), c => c.charCodeAt(0)).buffer)`. All other numbers are plain; a
//! log-probability of −∞ is null.
//!
//! | key | value |
//! |---|---|
//! | `format`, `version` | `"polyhead-trace"` and [`VERSION`]; a key more does not change the version |
//! | `model` | for each stack of layers (`encoder`, `decoder`) `n_layers`, `n_heads`, `d_key`, `d_value`; `d_model`; `vocab_size` of the target |
//! | `sites` | the attention sites of the model: for each kind `kind` (its name), `title`, `stack`, `queries` and `keys` (names of sides), `causal`, `n_layers`, `n_heads`, `d_key` |
//! | `sides` | the names of the input and output sequences; each is a key of its own |
//! | `head` | of an encoder, instead of the keys of a translation: `none`, `classes`, `token_classes` or `masked_words` |
//! | `cut_from` | of an encoder: null, or the number of tokens before the end was cut off |
//! | `vector` | of an encoder without a head: the vector of the text, as `polyhead embed` prints it |
//! | `classes` | of a classifier: `label` and `probability`, best first |
//! | `token_classes`, `entities` | of a classifier of tokens: for each token `label` and `probability`, best first; entities have `label`, `start`, `end` and `probability` |
//! | `masked_words` | of a masked language model: for each token the distribution of words in its place, as in `predictions`; `following` is the token itself |
//! | `states` | of an encoder: null, or for each place in the stack `layer` (`"embedding"`, a number from 0, or `"output"`), `places` (tokens × 2, principal components of the tokens with text; NaN for others), `variance` (their share of it) and `similarities` (tokens × tokens, cosines); null for more than 192 tokens |
//! | `hidden_states` | of an encoder, with `vectors`: an array, places in the stack × tokens × d_model |
//! | `alignment_site` | null, or the attention that `alignment` is read from: `kind`, `layer` |
//! | `route` | null, or the languages: `from`, `to` (two-letter codes), `guessed` (true if `from` was detected) |
//! | `source` | a side: `text`; `tokens`, the end included; `words`, pairs of byte offsets into `text` |
//! | `target` | the same for the translation; position t of the decoder predicts token t |
//! | `text` | the one side of a classifier or a language model; position t of a language model reads token t and predicts token t + 1 |
//! | `start` | the input token of decoder position 0; the input of position t is target token t − 1 |
//! | `given` | true if the translation was given, false if it was searched for |
//! | `log_probability`, `score` | the sum over the target's tokens; the sum divided by the length penalty |
//! | `steps` | for each target token `log_probability` and `alternatives`: `id`, `piece`, `log_probability`, best first |
//! | `grid` | of an image: rows and columns of its patches; of a captioner `text` is the caption, and `target` its tokens |
//! | `answer`, `probabilities` | of a pointer network: indices of points, and the probability of each step, the end included |
//! | `grid`, `learned_tokens`, `picture` | of an image classifier: rows and columns of patches; tokens before them; the image as the model sees it, a PNG file in base64 |
//! | `seconds`, `step`, `said`, `mel` | of a speech recogniser: seconds of sound that were read, and of a column of the weights; `word`, `start` and `end` of each word; a matrix of columns × bands, the mean of the log-mel frames |
//! | `beam` | null, or `beam_size` and `nodes`: `parent` (an index into the list, or null), `step`, `id`, `piece`, `log_probability`, `sum`, `fate` (`kept`, `finished`, `pruned`), `best` (true on the path of the translation) |
//! | `generated` | of a language model: number of tokens at the end of `text` that the model generated |
//! | `predictions` | of a language model, for each token the distribution after it: `entropy` in bits; `alternatives`: `id`, `piece`, `label`, `log_probability`, best first; `following`: null after the last token, or `log_probability` and `rank` (from 1) of the token that follows |
//! | `lens` | of a language model: null, or the logit lens at the positions from `start` on: for each of `layers` its `layer` (null before the first) and `predictions` |
//! | `contributions` | of a language model: null, or what each of `parts` (`part`: `embedding`, `attention`, `feed_forward` or `final_norm`; `layer`) adds to the `logit` of each of `targets` (`position`, `id`, `piece`, `label`) with the final norm held fixed: `values`, whose sum is the logit; `norms`, lengths of the added vectors |
//! | `attention` | for each attention `kind` (one of `sites`), `layer`, `heads`, `weights` (heads × queries × keys), `entropy` (bits, a number for each head) |
//! | `vectors` | for each attention `kind`, `layer`, `heads`, `query`, `key` (heads × positions × d_key), `value` (heads × positions × d_value); empty unless asked for |
//! | `rollout` | null, or a matrix for each kind: `encoder` (source × source), `decoder` (target × positions read), `cross` (target × source) |
//! | `alignment` | null, or pairs of a source word and a target word, from 0 |
//! | `intervention` | `heads`: `kind`, `layer`, `head`, `factor`; `layers`: `stack`, `layer` |
//!
//! A token has `id`, `piece` (its vocabulary entry), `label` (for display), `start` and `end` (byte offsets into `text` in UTF-8;
//! equal if it has no text) and `word` (an index into `words`, or null). Rows of a `cross` matrix are target tokens and columns
//! source tokens; of `decoder`, rows are predicted target tokens and columns the decoder's input positions.

use polyhead_attention::vectors::Vectors;
use polyhead_attention::{Filter, Site, SiteGroup};
use polyhead_engine::classify::Class;
use polyhead_tensor::Tensor;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{base64, encoder, text};
use crate::entropy::entropy;
use crate::matrix::Matrix;
use crate::trace::{
    BeamTree, NodeFate, SelectedHeads, Token, Trace, TraceOutcome, TraceSide, TranslationTrace,
};

/// Version of the format.
pub const VERSION: u32 = 1;

/// One kind of attention of a model, as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct SiteJson {
    kind: &'static str,
    title: String,
    stack: &'static str,
    queries: &'static str,
    keys: &'static str,
    causal: bool,
    n_layers: usize,
    n_heads: usize,
    d_key: usize,
}

impl From<&SiteGroup> for SiteJson {
    fn from(group: &SiteGroup) -> Self {
        let &SiteGroup { kind, n_layers, heads } = group;
        Self {
            kind: kind.name,
            title: kind.title(),
            stack: kind.stack,
            queries: kind.queries,
            keys: kind.keys,
            causal: kind.is_causal,
            n_layers,
            n_heads: heads.n_heads,
            d_key: heads.d_key,
        }
    }
}

/// The trace as one line of JSON, with the weights that pass `filter`. Safe inside a `<script>` element: `<` is escaped.
pub fn json(trace: &Trace, filter: &Filter) -> String {
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| drop(all.insert(key.into(), value));
    put("format", "polyhead-trace".into());
    put("version", VERSION.into());
    put("model", model(trace));
    put("sites", sites(trace));
    put("sides", trace.sides.iter().map(|side| side.name).collect());
    for own in &trace.sides {
        put(own.name, side(own));
        if let Some(start) = &own.start {
            put("start", token(start, &start.piece));
        }
    }
    match &trace.outcome {
        TraceOutcome::Translation(found) => {
            translation(found).into_iter().for_each(|(key, value)| put(&key, value));
            put("alignment", json!(trace.alignment()));
        }
        TraceOutcome::Encoder(found) => {
            let side = &trace.sides[0];
            encoder::keys(found, side).into_iter().for_each(|(key, value)| put(&key, value));
        }
        TraceOutcome::Order(found) => {
            put("given", found.is_given.into());
            put("answer", found.order.clone().into());
            put("probabilities", found.probabilities.clone().into());
        }
        TraceOutcome::Image(found) => {
            let classes = found.classes.iter();
            let class = |class: &Class| json!({ "label": class.label, "probability": class.probability });
            put("classes", classes.map(class).collect());
            put("grid", json!(found.grid));
            put("learned_tokens", found.tokens.into());
            put("picture", base64::base64(found.picture.to_png().into_iter()).into());
        }
        TraceOutcome::Speech(found) => {
            put("text", found.text.clone().into());
            put("seconds", found.seconds.into());
            put("step", found.step.into());
            put("said", json!(found.words));
            put("mel", matrix(&found.mel));
        }
        TraceOutcome::Caption(found) => {
            put("text", found.text.clone().into());
            put("log_probability", found.log_probability.into());
            put("grid", json!(found.grid));
        }
        TraceOutcome::Text(found) => text::keys(found).into_iter().for_each(|(key, value)| put(&key, value)),
    }
    put("attention", trace.selected(filter).iter().map(attention).collect());
    put("vectors", trace.vectors.iter().map(vectors).collect());
    if let Some(states) =
        trace.encoder().and_then(|found| found.states.as_ref()).filter(|_| !trace.vectors.is_empty())
    {
        put("hidden_states", encoder::hidden_states(states));
    }
    let rollout = trace.rollout().map(|found| {
        let parts = found.parts.iter().map(|(kind, own)| (kind.name.to_owned(), matrix(own)));
        Value::Object(parts.collect())
    });
    put("rollout", json!(rollout));
    put("intervention", intervention(trace));
    let out = Value::Object(all).to_string();
    // These characters occur only inside JSON strings, where both spellings mean the same.
    out.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn model(trace: &Trace) -> Value {
    let stacks = trace.sites.stacks().into_iter().map(|group| {
        let heads = group.heads;
        let sizes = json!({
            "n_layers": group.n_layers, "n_heads": heads.n_heads, "d_key": heads.d_key, "d_value": heads.d_value,
        });
        (group.kind.stack.to_owned(), sizes)
    });
    let mut model: Map<String, Value> = stacks.collect();
    model.insert("d_model".into(), trace.d_model.into());
    if let Some(found) = trace.translation() {
        model.insert("vocab_size".into(), found.vocab_size.into());
    }
    if let Some(found) = trace.text() {
        model.insert("vocab_size".into(), found.vocab_size.into());
    }
    Value::Object(model)
}

/// The attention sites of the model.
fn sites(trace: &Trace) -> Value {
    let groups = trace.sites.groups().iter();
    groups.map(|group| json!(SiteJson::from(group))).collect()
}

fn translation(found: &TranslationTrace) -> Map<String, Value> {
    let steps = found.steps.iter().map(|step| {
        let alternatives = step.alternatives.iter().map(|other| {
            json!({ "id": other.id, "piece": other.piece, "log_probability": short(other.log_probability) })
        });
        let alternatives: Vec<Value> = alternatives.collect();
        json!({ "log_probability": short(step.log_probability), "alternatives": alternatives })
    });
    let keys = [
        ("alignment_site", json!(found.alignment_site.map(site))),
        ("route", json!(found.route)),
        ("given", found.is_given.into()),
        ("log_probability", found.log_probability().into()),
        ("score", found.score.into()),
        ("steps", steps.collect()),
        ("beam", json!(found.tree.as_ref().map(tree))),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn side(side: &TraceSide) -> Value {
    let tokens: Vec<Value> =
        side.tokens.iter().zip(side.labels()).map(|(own, label)| token(own, &label)).collect();
    let words: Vec<[usize; 2]> = side.words.iter().map(|word| [word.start, word.end]).collect();
    json!({ "text": side.text, "tokens": tokens, "words": words })
}

fn token(token: &Token, label: &str) -> Value {
    let Token { id, piece, span, word } = token;
    json!({ "id": id, "piece": piece, "label": label, "start": span.start, "end": span.end, "word": word })
}

fn site(site: Site) -> Value {
    json!({ "kind": site.kind.name, "layer": site.layer })
}

fn tree(tree: &BeamTree) -> Value {
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

fn attention(attention: &SelectedHeads<'_>) -> Value {
    let SelectedHeads { site, heads, weights } = attention;
    let sizes = weights.first().map_or([0, 0], |first| [first.n_rows(), first.n_columns()]);
    let numbers: Vec<f32> = weights.iter().flat_map(|head| head.numbers().iter().copied()).collect();
    let entropies: Vec<f64> = weights.iter().map(|head| (entropy(head) * 1e6).round() / 1e6).collect();
    json!({
        "kind": site.kind.name,
        "layer": site.layer,
        "heads": heads,
        "weights": array(&[heads.len(), sizes[0], sizes[1]], &numbers),
        "entropy": entropies,
    })
}

fn vectors(vectors: &Vectors) -> Value {
    // The batch has one sentence.
    let without_batch = |tensor: &Tensor| array(&tensor.shape()[1..], tensor.data());
    json!({
        "kind": vectors.site.kind.name,
        "layer": vectors.site.layer,
        "heads": vectors.heads,
        "query": without_batch(&vectors.query),
        "key": without_batch(&vectors.key),
        "value": without_batch(&vectors.value),
    })
}

fn intervention(trace: &Trace) -> Value {
    let heads = trace.intervention.heads().map(|(site, head, factor)| {
        json!({ "kind": site.kind.name, "layer": site.layer, "head": head, "factor": short(factor) })
    });
    let layers = trace.intervention.layers().map(|(stack, layer)| json!({ "stack": stack, "layer": layer }));
    json!({ "heads": heads.collect::<Vec<Value>>(), "layers": layers.collect::<Vec<Value>>() })
}

pub(super) fn matrix(matrix: &Matrix) -> Value {
    array(&[matrix.n_rows(), matrix.n_columns()], matrix.numbers())
}

pub(super) fn array(shape: &[usize], numbers: &[f32]) -> Value {
    json!({ "shape": shape, "base64": base64::of_floats(numbers) })
}

/// An f32 as the f64 with the same shortest decimal digits.
pub(super) fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}
