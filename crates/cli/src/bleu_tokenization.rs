//! `--tokenize` and `--tokenizer-model`: the tokenisation of BLEU, with sacreBLEU's names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_text::metrics::{PieceTokenization, Tokenization};
use polyhead_text::tokenizer::sentencepiece::SentencePiece;

use crate::report::Misuse;

/// Tokenisation of BLEU, with sacreBLEU's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TokenizeName {
    /// mteval-v13a, the default of sacreBLEU
    #[value(name = "13a")]
    V13a,
    /// mteval-v14 international
    Intl,
    /// Chinese characters, the rest as 13a
    Zh,
    /// Japanese words; not included, split them with MeCab
    JaMecab,
    /// Korean words; not included, split them with MeCab-ko
    KoMecab,
    /// Characters
    Char,
    /// spBLEU of FLORES-200, with its --tokenizer-model
    Flores200,
    /// spBLEU of FLORES-101, with its --tokenizer-model
    Flores101,
    /// The pieces of any SentencePiece --tokenizer-model
    Spm,
    /// Split at white space only
    None,
}

/// The tokenisation of BLEU.
#[derive(Debug, Args)]
pub(crate) struct BleuTokenization {
    /// Tokenisation of BLEU; none for tokenised text
    #[arg(long, value_enum, default_value_t = TokenizeName::V13a)]
    tokenize: TokenizeName,

    /// SentencePiece model of --tokenize flores200, flores101 or spm
    #[arg(long, value_name = "FILE")]
    tokenizer_model: Option<PathBuf>,
}

impl BleuTokenization {
    /// The tokenisation; reads its model.
    pub(crate) fn tokenization(&self) -> Result<Tokenization> {
        let built_in = match self.tokenize {
            TokenizeName::V13a => Tokenization::V13a,
            TokenizeName::Intl => Tokenization::International,
            TokenizeName::Zh => Tokenization::Chinese,
            TokenizeName::Char => Tokenization::Characters,
            TokenizeName::None => Tokenization::None,
            TokenizeName::JaMecab => {
                return Err(not_included("ja-mecab", "MeCab and its IPA dictionary", "test.ja"));
            }
            TokenizeName::KoMecab => {
                return Err(not_included("ko-mecab", "MeCab-ko and its dictionary", "test.ko"));
            }
            TokenizeName::Flores200 => return self.pieces("flores200", "flores200sacrebleuspm"),
            TokenizeName::Flores101 => return self.pieces("flores101", "sacrebleu_tokenizer_spm.model"),
            TokenizeName::Spm => return self.pieces("spm", "sacrebleu_tokenizer_spm.model"),
        };
        match &self.tokenizer_model {
            Some(_) => Err(misuse(
                format!("--tokenizer-model has no effect on --tokenize {}", built_in.name()),
                "add --tokenize flores200, flores101 or spm".into(),
            )),
            None => Ok(built_in),
        }
    }

    /// The pieces of the model; `file` is what sacreBLEU calls its model.
    fn pieces(&self, name: &str, file: &str) -> Result<Tokenization> {
        let Some(path) = &self.tokenizer_model else {
            return Err(misuse(
                format!("--tokenize {name} without a model, expected --tokenizer-model FILE"),
                format!("sacreBLEU downloads its model to ~/.sacrebleu/models/{file}"),
            ));
        };
        let model = Arc::new(SentencePiece::load(path)?);
        // Only sacreBLEU's own models have its names in the signature.
        let name = if name == "spm" { format!("spm[{}]", file_name(path)) } else { name.to_owned() };
        Ok(Tokenization::SentencePiece(PieceTokenization { name, model }))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn not_included(name: &str, needs: &str, file: &str) -> anyhow::Error {
    misuse(
        format!("--tokenize {name} needs {needs}, which polyhead does not include"),
        format!(
            "split translation and references first, for instance mecab -Owakati {file} > words, and score them with \
             --tokenize none; or use --tokenize char or flores200"
        ),
    )
}

fn misuse(message: String, hint: String) -> anyhow::Error {
    Misuse { message, hint }.into()
}
