//! The tokenisers of a model folder, compared with its embeddings.

use std::path::{Path, PathBuf};

use anyhow::Result;
use polyhead_models::{ModelConfig, View};
use polyhead_text::tokenizer::Tokenizer;
use polyhead_text::tokenizer::fairseq_dictionary::{FairseqDictionary, dictionary_language, is_codes};
use polyhead_text::tokenizer::sentencepiece::MarianVocabulary;
use serde::Serialize;

use crate::model_folder::{file_name, object, sidecar_files};
use crate::report::grouped;

/// The ids that a tokeniser produces: of the source, of the target, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TokenizerSide {
    Source,
    Target,
    Both,
}

/// A tokeniser and the embedding of its ids.
#[derive(Debug, Serialize)]
pub(super) struct Vocabulary {
    pub(super) side: TokenizerSide,
    pub(super) kind: String,
    pub(super) vocab_size: usize,
    /// The largest id plus one.
    pub(super) n_ids: usize,
    pub(super) embedding_rows: usize,
}

impl Vocabulary {
    fn new(side: TokenizerSide, kind: String, vocab_size: usize, config: &ModelConfig) -> Self {
        let [source, target] = config.vocab_sizes();
        let embedding_rows = match side {
            TokenizerSide::Source => source,
            TokenizerSide::Target => target,
            TokenizerSide::Both => source.min(target),
        };
        Self { side, kind, vocab_size, n_ids: vocab_size, embedding_rows }
    }

    fn of(side: TokenizerSide, tokenizer: &Tokenizer, config: &ModelConfig) -> Self {
        let mut vocabulary = Self::new(side, tokenizer.describe(), tokenizer.vocab_size(), config);
        vocabulary.n_ids = n_ids(tokenizer.vocab_size(), |id| tokenizer.piece(id).is_some());
        vocabulary
    }

    /// The problem if there are ids without an embedding row.
    pub(super) fn problem(&self) -> Option<String> {
        let Self { vocab_size, n_ids, embedding_rows, .. } = *self;
        (n_ids > embedding_rows).then(|| {
            format!(
                "the {}tokeniser has {} entries with ids up to {}, but the embedding has {} rows",
                self.side.adjective(),
                grouped(vocab_size as u64),
                n_ids - 1,
                grouped(embedding_rows as u64)
            )
        })
    }

    /// A note if there are embedding rows without an id.
    pub(super) fn note(&self) -> Option<String> {
        let spare = self.embedding_rows.checked_sub(self.n_ids).filter(|spare| *spare > 0)?;
        Some(format!(
            "{} of {} rows of the embedding have no id in the {}tokeniser",
            grouped(spare as u64),
            grouped(self.embedding_rows as u64),
            self.side.adjective()
        ))
    }
}

impl TokenizerSide {
    pub(super) fn adjective(self) -> &'static str {
        match self {
            Self::Source => "source ",
            Self::Target => "target ",
            Self::Both => "",
        }
    }
}

/// The tokenisers of a folder: none, one for both languages, or one for each.
pub(super) fn find(folder: &Path, config: &ModelConfig) -> Result<Vec<Vocabulary>> {
    let [own, marian, target, source_json, target_json] =
        ["tokenizer.json", "source.spm", "target_vocab.json", "source.json", "target.json"]
            .map(|name| folder.join(name));
    if own.exists() {
        return Ok(vec![Vocabulary::of(TokenizerSide::Both, &Tokenizer::load(&own)?, config)]);
    }
    if marian.exists() {
        let source = Tokenizer::load(folder)?;
        if !target.exists() {
            return Ok(vec![Vocabulary::of(TokenizerSide::Both, &source, config)]);
        }
        let vocabulary = MarianVocabulary::load(&target)?;
        let kind = "SentencePiece pieces with ids from target_vocab.json".to_owned();
        let mut found = Vocabulary::new(TokenizerSide::Target, kind, vocabulary.vocab_size(), config);
        found.n_ids = n_ids(vocabulary.vocab_size(), |id| vocabulary.piece(id).is_some());
        return Ok(vec![Vocabulary::of(TokenizerSide::Source, &source, config), found]);
    }
    if source_json.exists() && target_json.exists() {
        let sides = [(TokenizerSide::Source, source_json), (TokenizerSide::Target, target_json)];
        return sides
            .into_iter()
            .map(|(side, path)| Ok(Vocabulary::of(side, &Tokenizer::load(path)?, config)))
            .collect();
    }
    if config.view() == View::Encoder
        && let Ok(found) = Tokenizer::load_encoder(folder)
    {
        return Ok(vec![Vocabulary::of(TokenizerSide::Both, &found, config)]);
    }
    dictionaries(folder, config)
}

/// The fairseq dictionaries; `args.json` names the source's, else the sizes tell them apart.
fn dictionaries(folder: &Path, config: &ModelConfig) -> Result<Vec<Vocabulary>> {
    let mut paths = sidecar_files(folder)?;
    let codes = paths.iter().map(|path| file_name(path)).find(|name| is_codes(name));
    paths.retain(|path| dictionary_language(&file_name(path)).is_some());
    let mut found = paths
        .into_iter()
        .map(|path| Ok((FairseqDictionary::load(&path)?.vocab_size(), path)))
        .collect::<Result<Vec<(usize, PathBuf)>>>()?;
    let kind = |path: &Path| match &codes {
        Some(codes) => format!("subword-nmt codes {codes} with the fairseq dictionary {}", file_name(path)),
        None => format!("fairseq dictionary {}", file_name(path)),
    };
    if let [(size, path)] = &found[..] {
        return Ok(vec![Vocabulary::new(TokenizerSide::Both, kind(path), *size, config)]);
    }
    let arguments = object(&folder.join("args.json"))?.unwrap_or_default();
    let source = arguments.get("source_lang").and_then(|language| language.as_str());
    found.sort_by_key(|(size, path)| match source {
        Some(language) => usize::from(file_name(path) != format!("dict.{language}.txt")),
        None => size.abs_diff(config.vocab_sizes()[0]),
    });
    let sides = [TokenizerSide::Source, TokenizerSide::Target].into_iter().zip(found);
    Ok(sides.map(|(side, (size, path))| Vocabulary::new(side, kind(&path), size, config)).collect())
}

/// The largest id plus one. Ids may have gaps; the search stops at twice the vocabulary size plus 65536.
fn n_ids(vocab_size: usize, is_known: impl Fn(u32) -> bool) -> usize {
    let mut missing = vocab_size;
    let most = 2 * vocab_size + (1 << 16);
    let last = (0..most as u32).find(|&id| {
        missing -= usize::from(missing > 0 && is_known(id));
        missing == 0
    });
    last.map_or(vocab_size, |last| last as usize + usize::from(vocab_size > 0))
}

#[cfg(test)]
mod tests {
    use super::n_ids;

    #[test]
    fn gaps_between_ids_count() {
        assert_eq!(n_ids(3, |id| id < 3), 3);
        assert_eq!(n_ids(3, |id| [0, 5, 9].contains(&id)), 10);
        assert_eq!(n_ids(0, |_| false), 0);
    }
}
