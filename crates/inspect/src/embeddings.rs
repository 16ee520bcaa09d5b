//! The source embeddings of a translator: rows of its table, and their cosine similarity.

use polyhead_attention::{Capture, Pass};
use polyhead_tensor::Tape;
use polyhead_tensor::ops::embedding::EmbeddingOptions;
use polyhead_translate::Engine;

use crate::Result;
use crate::matrix::Matrix;

/// The table of source embeddings, vocab_size × d_model, as the model reads it: unscaled, without positions.
///
/// # Errors
/// If the table cannot be read from its device.
pub fn source_embeddings(engine: &Engine) -> Result<Matrix> {
    let model = engine.model();
    let ids: Vec<u32> = (0..model.vocab_sizes()[0] as u32).collect();
    let (tape, capture) = (Tape::inference(), Capture::off());
    let pass = Pass::new(&tape, engine.parameters(), &capture);
    let length = ids.len();
    let ids = polyhead_tensor::Indices::from(ids)
        .to_device(&engine.device())
        .map_err(polyhead_models::Error::from)?;
    let table = model
        .source_embedding()
        .forward(&pass, &ids, length, &EmbeddingOptions::default())
        .map_err(polyhead_models::Error::from)?;
    let table = table.value().to_host().map_err(polyhead_models::Error::from)?;
    Ok(Matrix::new(model.config().d_model(), table.data().to_vec()))
}

/// The token of a word that is one token of the source vocabulary.
///
/// # Errors
/// If the tokeniser fails.
pub fn single_token(engine: &Engine, word: &str) -> Result<Option<u32>> {
    let ids = engine.source_ids(word)?;
    // The end token is the last one.
    Ok(if let [id, _] = ids[..] { Some(id) } else { None })
}

/// Cosine similarity of two rows; 0 if one of them is zero.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let length = (dot(a, a) * dot(b, b)).sqrt();
    if length > 0.0 { (dot(a, b) / length) as f32 } else { 0.0 }
}

/// The rows most similar to row `id`, best first, itself left out.
pub fn nearest(table: &Matrix, id: usize, count: usize) -> Vec<(usize, f32)> {
    let own = table.row(id);
    let others = (0..table.n_rows()).filter(|other| *other != id);
    let mut found: Vec<(usize, f32)> = others.map(|other| (other, cosine(own, table.row(other)))).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found.truncate(count);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_rows_come_first() {
        let table = Matrix::new(2, vec![1.0, 0.0, 0.0, 2.0, 3.0, 3.0, 0.0, 0.0, -1.0, 0.0]);
        let found = nearest(&table, 0, 3);
        assert_eq!(found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [2, 1, 3]);
        assert!((found[0].1 - 0.5_f32.sqrt()).abs() < 1e-6);
        assert!((cosine(table.row(0), table.row(4)) + 1.0).abs() < 1e-6);
    }
}
