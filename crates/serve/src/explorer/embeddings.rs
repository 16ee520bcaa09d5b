//! Rows of the model's embeddings, for the lesson on words as vectors.

use polyhead_inspect::embeddings::{cosine, nearest, single_token, source_embeddings};

use super::Explorer;
use super::inspect::at_most;
use crate::Result;
use crate::wire::{EmbeddingRow, EmbeddingsAnswer, EmbeddingsRequest};

/// Most words of a request.
const MAX_WORDS: usize = 12;

/// Similar tokens that are named for each word.
const N_NEAREST: usize = 5;

impl Explorer {
    /// The rows of words in the source embeddings, as JSON.
    pub(super) fn embeddings(&self, request: &EmbeddingsRequest) -> Result<String> {
        at_most(request.words.len(), MAX_WORDS, "words")?;
        let engine = self.engine();
        let table = source_embeddings(engine)?;
        let (mut found, mut split) = (Vec::new(), Vec::new());
        for word in &request.words {
            at_most(word.chars().count(), self.limits.text, "characters")?;
            match single_token(engine, word)? {
                Some(id) => found.push((word, id)),
                None => split.push(word.clone()),
            }
        }
        let row = |id: u32| table.row(id as usize);
        let rows = found.iter().map(|(word, id)| EmbeddingRow {
            word: (*word).clone(),
            id: *id,
            vector: row(*id).to_vec(),
            similarities: found.iter().map(|(_, other)| cosine(row(*id), row(*other))).collect(),
            nearest: nearest(&table, *id as usize, N_NEAREST)
                .into_iter()
                .map(|(other, similarity)| (engine.source_piece(other as u32), similarity))
                .collect(),
        });
        let answer = EmbeddingsAnswer {
            vocab_size: table.n_rows(),
            d_model: table.n_columns(),
            rows: rows.collect(),
            split,
        };
        Ok(serde_json::json!(answer).to_string())
    }
}
