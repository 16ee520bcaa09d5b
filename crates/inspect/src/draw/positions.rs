//! The positional encoding as a picture: a row per position, a column per dimension.
//!
//! PE(pos, 2i) = sin(pos/10000^(2i/d)), PE(pos, 2i+1) = cos(pos/10000^(2i/d)) (Vaswani et al. 2017, section 3.5).

use polyhead_attention::position::Sinusoidal;

use crate::heat_map::svg::{FigureOptions, figure};
use crate::heat_map::{HeatMap, ValueRange};
use crate::matrix::Matrix;

/// Draws the encodings of the first `length` positions, `d_model` dimensions each, as SVG.
pub fn positions(sinusoidal: Sinusoidal, length: usize, d_model: usize, title: &str) -> String {
    let table = sinusoidal.table(length, d_model);
    let map = HeatMap {
        title: format!("{length} positions (rows), {d_model} dimensions (columns)"),
        numbers: Matrix::new(d_model, table.data().to_vec()),
        rows: (0..length).map(|position| position.to_string()).collect(),
        columns: (0..d_model).map(|dimension| dimension.to_string()).collect(),
        range: ValueRange::Signed,
    };
    figure(&[map], &FigureOptions { title: title.to_owned(), ..FigureOptions::default() })
}
