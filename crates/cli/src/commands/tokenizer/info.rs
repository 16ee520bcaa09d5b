//! `polyhead tokenizer info`: what a tokeniser is.

use anyhow::Result;
use clap::Args;
use polyhead_text::tokenizer::Tokenizer;
use serde::Serialize;

use super::TokenizerOptions;
use crate::report::{print_json, print_text};

const EXAMPLES: &str = "Examples:
  polyhead tokenizer info --tokenizer tokenizer.json
  polyhead tokenizer info --tokenizer source.spm --json";

/// Options of `polyhead tokenizer info`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Info {
    #[command(flatten)]
    tokenizer: TokenizerOptions,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Serialize)]
struct Description {
    form: String,
    vocab_size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    merges: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    byte_fallback: Option<bool>,
    end_id: Option<u32>,
    unknown_id: Option<u32>,
    special_tokens: Vec<(u32, String)>,
    /// The first pieces after the special tokens, and the last.
    first_pieces: Vec<String>,
    last_pieces: Vec<String>,
}

impl Info {
    pub(crate) fn run(self) -> Result<()> {
        let description = describe(&self.tokenizer.load()?);
        if self.json {
            return print_json(&description);
        }
        let Description {
            form,
            vocab_size,
            merges,
            byte_fallback,
            special_tokens,
            first_pieces,
            last_pieces,
            ..
        } = description;
        let special: Vec<String> =
            special_tokens.into_iter().map(|(id, token)| format!("{token} = {id}")).collect();
        let mut out = format!("form            {form}\nentries         {vocab_size}\n");
        if let Some(merges) = merges {
            out += &format!("merges          {merges}\n");
        }
        if let Some(bytes) = byte_fallback {
            let becomes = if bytes { "bytes" } else { "the unknown token" };
            out += &format!("unknown text    becomes {becomes}\n");
        }
        out += &format!("special tokens  {}\n", special.join(", "));
        out += &format!("pieces          {} … {}\n", first_pieces.join(" "), last_pieces.join(" "));
        print_text(&out)
    }
}

fn describe(tokenizer: &Tokenizer) -> Description {
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
    Description {
        form: tokenizer.describe(),
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
