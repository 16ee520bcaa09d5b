//! `polyhead tokenizer info`: a description of a tokeniser.

use anyhow::Result;
use clap::Args;
use polyhead_text::tokenizer::Tokenizer;
use serde::Serialize;

use super::TokenizerOptions;
use crate::output_format::DocumentFormat;
use crate::report::{aligned, print_json, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead tokenizer info --tokenizer tokenizer.json
  polyhead tokenizer info --tokenizer source.spm --format json";

/// Options of `polyhead tokenizer info`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenizerInfo {
    #[command(flatten)]
    tokenizer: TokenizerOptions,
    #[command(flatten)]
    format: DocumentFormat,
}

/// Description of a tokeniser.
#[derive(Serialize)]
struct TokenizerDescription {
    #[serde(rename = "form")]
    kind: String,
    vocab_size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    merges: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_fallback: Option<bool>,
    end_id: Option<u32>,
    unknown_id: Option<u32>,
    special_tokens: Vec<(u32, String)>,
    /// The first tokens after the special ones, and the last.
    first_pieces: Vec<String>,
    last_pieces: Vec<String>,
}

impl TokenizerInfo {
    pub(crate) fn run(self) -> Result<()> {
        let description = describe(&self.tokenizer.load()?);
        if self.format.is_json() { print_json(&description) } else { print_text(&text(description)) }
    }
}

fn text(description: TokenizerDescription) -> String {
    let special: Vec<String> =
        description.special_tokens.into_iter().map(|(id, token)| format!("{token} = {id}")).collect();
    let mut rows = vec![("kind", description.kind), ("vocabulary", description.vocab_size.to_string())];
    rows.extend(description.merges.map(|merges| ("merges", merges.to_string())));
    rows.extend(description.byte_fallback.map(|bytes| {
        let becomes = if bytes { "bytes (byte fallback)" } else { "the unknown token" };
        ("unknown text", becomes.to_owned())
    }));
    rows.push(("special tokens", special.join(", ")));
    let [first, last] = [description.first_pieces, description.last_pieces].map(|pieces| pieces.join(" "));
    rows.push(("tokens", format!("{first} … {last}")));
    aligned(&rows)
}

fn describe(tokenizer: &Tokenizer) -> TokenizerDescription {
    let (merges, byte_fallback, special_tokens) = if let Tokenizer::HuggingFace(tokenizer) = tokenizer {
        (tokenizer.n_merges(), Some(tokenizer.has_byte_fallback()), tokenizer.special_tokens())
    } else {
        let known = ["<pad>", "<s>", "</s>", "<unk>"];
        let found = known.iter().filter_map(|&token| Some((tokenizer.id(token)?, token.to_owned())));
        (None, None, found.collect())
    };
    let vocab_size = tokenizer.vocab_size();
    let is_special = |id: &u32| special_tokens.iter().any(|(special, _)| special == id);
    let ids: Vec<u32> = (0..vocab_size as u32).filter(|id| !is_special(id)).collect();
    let pieces = |ids: &[u32]| ids.iter().filter_map(|&id| tokenizer.piece(id)).collect();
    let (first_pieces, last_pieces) =
        (pieces(&ids[..ids.len().min(8)]), pieces(&ids[ids.len().saturating_sub(4).max(ids.len().min(8))..]));
    TokenizerDescription {
        kind: tokenizer.describe(),
        vocab_size,
        merges,
        byte_fallback,
        end_id: tokenizer.end_id(),
        unknown_id: tokenizer.unknown_id(),
        first_pieces,
        last_pieces,
        special_tokens,
    }
}
