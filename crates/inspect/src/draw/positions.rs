//! The positional encoding as a picture: a row for each position, a column for each number of it.
//!
//! PE(pos, 2i) = sin(pos/10000^(2i/d)), PE(pos, 2i+1) = cos(pos/10000^(2i/d)) (Vaswani et al. 2017, section 3.5).

use polyhead_attention::position::Sinusoidal;

use crate::heat_map::svg::{FigureOptions, figure};
use crate::heat_map::{HeatMap, Range};
use crate::matrix::Matrix;

/// The first `length` positions of vectors of `d_model` numbers, as SVG.
pub fn positions(sinusoidal: Sinusoidal, length: usize, d_model: usize, title: &str) -> String {
    let table = sinusoidal.table(length, d_model);
    let map = HeatMap {
        title: format!("{length} positions (downwards), {d_model} numbers each (across)"),
        numbers: Matrix::new(d_model, table.data().to_vec()),
        rows: (0..length).map(|position| position.to_string()).collect(),
        columns: (0..d_model).map(|place| place.to_string()).collect(),
        range: Range::Signed,
    };
    figure(&[map], &FigureOptions { title: title.to_owned(), ..FigureOptions::default() })
}
