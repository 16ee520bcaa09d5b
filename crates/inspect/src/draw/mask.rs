//! A mask as a picture: blue where a query (row) may look at a key (column).

use polyhead_attention::Mask;

use crate::heat_map::svg::{FigureOptions, figure};
use crate::heat_map::{HeatMap, Range};
use crate::matrix::Matrix;

/// A mask over sequences of `length` tokens, for the sentences of a batch beside each other, as SVG.
pub fn mask(mask: &Mask, batch: usize, length: usize, title: &str) -> String {
    let seen = mask.materialise(batch, length, length);
    let labels: Vec<String> = (0..length).map(|place| place.to_string()).collect();
    let maps: Vec<HeatMap> = seen
        .chunks_exact(length * length)
        .enumerate()
        .map(|(sentence, seen)| HeatMap {
            title: if batch == 1 {
                "query ↓  key →".into()
            } else {
                format!("sentence {sentence}: query ↓  key →")
            },
            numbers: Matrix::new(length, seen.iter().map(|&seen| f32::from(u8::from(seen))).collect()),
            rows: labels.clone(),
            columns: labels.clone(),
            range: Range::Seen,
        })
        .collect();
    figure(&maps, &FigureOptions { title: title.to_owned(), ..FigureOptions::default() })
}
