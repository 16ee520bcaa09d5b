//! Protection from a malformed or hostile `tokenizer.json`: from panics, and from excessive memory use.
//!
//! The crate `tokenizers` trusts its file. While encoding it indexes out of bounds (`Precompiled`), splits by a stated
//! length (`FixedLength` of 0) and subtracts one from an empty length (`BPEDecoder`); hence calls into it run in
//! [`without_panic`]. Running out of memory cannot be caught, so its causes are rejected beforehand: rules whose growth
//! multiplies and maps that state a size of gigabytes ([`check_rules`]), and ids far beyond the number of entries,
//! since the crate iterates over all ids up to the highest ([`check_ids`]).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::{Model as _, ModelWrapper};

/// Exclusive limit of ids; the largest vocabularies in use have a million entries.
const MAX_IDS: u32 = 1 << 22;
/// Maximum number of bytes that one byte of text may become by all rules together; real files stay below a thousand.
const MAX_GROWTH: f64 = 4096.0;

/// Runs `work`; returns `None` if it panics, and suppresses the panic message. The crate panics on some malformed files
/// instead of returning an error.
pub(crate) fn without_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                usual(panic);
            }
        }));
    });
    QUIET.set(true);
    // Unwind safety: a tokeniser is only read, and its caches skip a lock that a panic poisoned.
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    QUIET.set(false);
    result
}

/// The sections of the file whose rules can lengthen text.
#[derive(Deserialize)]
struct Rules {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    decoder: Value,
}

/// Rejects rules by which text would grow excessively; the error says what was found. Checks the JSON before the crate
/// reads it, since reading already applies the rules to the added tokens.
pub(crate) fn check_rules(file: &[u8]) -> Result<(), String> {
    let rules: Rules = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let mut maps = Vec::new();
    collect_maps(&rules.normalizer, &mut maps);
    if maps.len() > 1 {
        return Err(format!("{} compiled maps instead of one", maps.len()));
    }
    if let Some(map) = maps.iter().find(|map| stated_size(map) > map.len() as u64) {
        return Err(format!("a map of {} bytes in {} digits of base64", stated_size(map), map.len()));
    }
    for growth in [growth(&rules.normalizer) * growth(&rules.pre_tokenizer), growth(&rules.decoder)] {
        if growth > MAX_GROWTH {
            return Err(format!(
                "rules by which text may grow {growth:.0} times instead of at most {MAX_GROWTH}"
            ));
        }
    }
    Ok(())
}

/// Rejects ids far beyond the number of entries; the error says what was found.
pub(crate) fn check_ids(model: &ModelWrapper) -> Result<(), String> {
    let highest = match model {
        ModelWrapper::Unigram(_) => None, // an id is an index into a list
        _ => model.get_vocab().into_values().max(),
    };
    match highest {
        Some(id) if id >= MAX_IDS => Err(format!("id {id} instead of one below {MAX_IDS}")),
        _ => Ok(()),
    }
}

/// The steps of a sequence; none for a single rule.
fn steps(rule: &Value) -> impl Iterator<Item = &Value> {
    ["normalizers", "pretokenizers", "decoders"]
        .into_iter()
        .filter_map(|name| rule[name].as_array())
        .flatten()
}

/// Maximum number of bytes that one byte may become by a rule or a sequence of rules. Old files omit the type.
fn growth(rule: &Value) -> f64 {
    let own = match rule["type"].as_str() {
        _ if rule.is_null() => 1.0,
        // The crate also accepts a list of a rule's fields, which no known program writes.
        _ if !rule.is_object() => f64::INFINITY,
        // A character per byte, or a mark per word, which may be one byte long.
        Some("ByteLevel") => 4.0,
        Some("Metaspace") | None => 8.0,
        Some("NFC" | "NFD" | "NFKC" | "NFKD" | "BertNormalizer") => 3.0,
        Some("Lowercase" | "BPEDecoder" | "CTC" | "WordPiece") => 2.0,
        _ => 1.0,
    };
    let content = rule["content"].as_str().map_or(0, str::len) as f64;
    let replaced = match (&rule["pattern"], rule["pattern"]["String"].as_str()) {
        (Value::Null, _) => 1.0,
        (_, Some(pattern)) if !pattern.is_empty() => (content / pattern.len() as f64).max(1.0),
        // An empty match inserts the content between any two characters.
        _ => content + 1.0,
    };
    own * replaced * steps(rule).map(growth).product::<f64>()
}

/// Collects the compiled SentencePiece maps of the rules; a replacement may be as long as the file.
fn collect_maps<'a>(rule: &'a Value, maps: &mut Vec<&'a str>) {
    maps.extend(rule["precompiled_charsmap"].as_str());
    for step in steps(rule) {
        collect_maps(step, maps);
    }
}

/// The first four bytes of a map in base64: the stated length of its trie, which the crate allocates unchecked.
fn stated_size(map: &str) -> u64 {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits = map.bytes().take(6).fold(0_u64, |bits, byte| bits << 6 | u64::from(digit(byte)));
    u64::from(((bits >> 4) as u32).swap_bytes())
}
