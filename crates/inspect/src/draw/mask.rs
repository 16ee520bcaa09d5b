//! An attention mask as a picture: blue where a query (row) may attend to a key (column).

use polyhead_attention::Mask;

use crate::heat_map::svg::{FigureOptions, figure};
use crate::heat_map::{HeatMap, ValueRange};
use crate::matrix::Matrix;

/// Draws a mask over sequences of `length` tokens as SVG, one panel per sentence of the batch.
pub fn mask(mask: &Mask, batch: usize, length: usize, title: &str) -> String {
    let allowed = mask.materialise(batch, length, length);
    let labels: Vec<String> = (0..length).map(|position| position.to_string()).collect();
    let maps: Vec<HeatMap> = allowed
        .chunks_exact(length * length)
        .enumerate()
        .map(|(sentence, allowed)| HeatMap {
            title: if batch == 1 {
                "query ↓  key →".into()
            } else {
                format!("sentence {sentence}: query ↓  key →")
            },
            numbers: Matrix::new(
                length,
                allowed.iter().map(|&allowed| f32::from(u8::from(allowed))).collect(),
            ),
            rows: labels.clone(),
            columns: labels.clone(),
            range: ValueRange::Mask,
        })
        .collect();
    figure(&maps, &FigureOptions { title: title.to_owned(), ..FigureOptions::default() })
}
