//! `polyhead tokenizer info`: what a tokeniser is.

use anyhow::Result;
use clap::Args;
use polyhead_text::tokenizer::Tokenizer;
use serde::Serialize;

use super::TokenizerOptions;
use crate::report::print_json;

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
        println!("form            {form}");
        println!("entries         {vocab_size}");
        if let Some(merges) = merges {
            println!("merges          {merges}");
        }
        if let Some(bytes) = byte_fallback {
            println!("unknown text    {}", if bytes { "becomes bytes" } else { "becomes the unknown token" });
        }
        let special: Vec<String> =
            special_tokens.into_iter().map(|(id, token)| format!("{token} = {id}")).collect();
        println!("special tokens  {}", special.join(", "));
        println!("pieces          {} … {}", first_pieces.join(" "), last_pieces.join(" "));
        Ok(())
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
    let first = special_tokens.iter().map(|&(id, _)| id + 1).max().unwrap_or(0);
    let pieces = |ids: std::ops::Range<u32>| ids.filter_map(|id| tokenizer.piece(id)).collect();
    Description {
        form: tokenizer.describe(),
        vocab_size,
        merges,
        byte_fallback,
        end_id: tokenizer.end_id(),
        unknown_id: tokenizer.unknown_id(),
        first_pieces: pieces(first..(first + 8).min(vocab_size as u32)),
        last_pieces: pieces((vocab_size as u32).saturating_sub(4).max(first)..vocab_size as u32),
        special_tokens,
    }
}
