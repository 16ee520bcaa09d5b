//! Resampling as Pillow 13 does it, to the bit: a filter as wide as the reduction (antialiasing), along rows and along columns, with
//! coefficients in fixed point and 8 bits per channel between the two passes. Columns are first if far more rows than columns go.
//!
//! out_i = Σ_x k((x − c_i + ½) / s) · in_x / Σ k with c_i = (i + ½)·r, r = old / new, s = max(r, 1).

use std::ops::Range;

use rayon::prelude::*;

use super::Picture;

/// Fractional bits of a coefficient: 32 less 8 of a pixel and 2 for overshoot.
const PRECISION: u32 = 22;

/// A resampling filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filter {
    /// The nearest pixel.
    Nearest,
    /// A windowed sine (Lanczos with a = 3).
    Lanczos,
    /// A triangle.
    #[default]
    Bilinear,
    /// A cubic (Keys 1981 with a = −½).
    Bicubic,
}

impl Filter {
    /// The filter of a number in `preprocessor_config.json`.
    pub fn from_number(number: u64) -> Option<Self> {
        [Self::Nearest, Self::Lanczos, Self::Bilinear, Self::Bicubic]
            .get(usize::try_from(number).ok()?)
            .copied()
    }

    /// Its number in `preprocessor_config.json`.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// The distance beyond which it is 0.
    fn support(self) -> f64 {
        match self {
            Self::Nearest => 0.0,
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn value(self, x: f64) -> f64 {
        const A: f64 = -0.5;
        let distance = x.abs();
        match self {
            Self::Bilinear => (1.0 - distance).max(0.0),
            Self::Bicubic if distance < 1.0 => ((A + 2.0) * distance - (A + 3.0)) * distance * distance + 1.0,
            Self::Bicubic if distance < 2.0 => (((distance - 5.0) * distance + 8.0) * distance - 4.0) * A,
            Self::Lanczos if distance < 3.0 => sinc(x) * sinc(x / 3.0),
            Self::Nearest | Self::Bicubic | Self::Lanczos => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) }
}

/// What one output pixel takes: the first input pixel, and the coefficients from there on.
#[derive(Debug)]
struct Taps {
    first: usize,
    coefficients: Vec<i32>,
}

/// Taps of the pixels of `range` among `to`.
fn taps((from, to): (usize, usize), range: Range<usize>, filter: Filter) -> Vec<Taps> {
    let ratio = from as f64 / to as f64;
    let scale = ratio.max(1.0);
    let support = filter.support() * scale;
    let one = |index: usize| {
        let center = (index as f64 + 0.5) * ratio;
        let first = ((center - support + 0.5) as i64).max(0) as usize;
        let last = ((center + support + 0.5) as usize).min(from);
        let weight = |x: usize| filter.value((x as f64 - center + 0.5) * (1.0 / scale));
        let mut weights: Vec<f64> = (first..last).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        if sum != 0.0 {
            for weight in &mut weights {
                *weight /= sum;
            }
        }
        let fixed =
            |weight: &f64| (weight * f64::from(1_i32 << PRECISION) + 0.5_f64.copysign(*weight)) as i32;
        Taps { first, coefficients: weights.iter().map(fixed).collect() }
    };
    range.map(one).collect()
}

fn clipped(sum: i32) -> u8 {
    (sum >> PRECISION).clamp(0, 255) as u8
}

impl Picture {
    /// The picture at another size.
    #[must_use]
    pub fn resized(&self, size: [usize; 2], filter: Filter) -> Self {
        self.resized_part(size, size.map(|side| 0..side), filter)
    }

    /// Rows and columns of the picture at another size; only what they need is computed, so that a long, thin picture takes no
    /// more memory than another.
    #[must_use]
    pub(super) fn resized_part(
        &self,
        [height, width]: [usize; 2],
        [rows, columns]: [Range<usize>; 2],
        filter: Filter,
    ) -> Self {
        if filter == Filter::Nearest {
            return self.nearest([(height, rows), (width, columns)]);
        }
        let [fewer_rows, fewer_columns] =
            [(self.size()[0], height), (self.size()[1], width)].map(|(from, to)| from as i64 - to as i64);
        if fewer_rows > 0 && fewer_rows > 2 * fewer_columns {
            return self.columns_resized((height, rows), filter).rows_resized((width, columns), filter);
        }
        // Of the rows, those that the columns need.
        let old = self.size()[0];
        let (first, last) = if height == old {
            (rows.start, rows.end)
        } else {
            let all = taps((old, height), rows.clone(), filter);
            let ends = all.iter().map(|taps| taps.first + taps.coefficients.len());
            (all.iter().map(|taps| taps.first).min().unwrap_or(0), ends.max().unwrap_or(old))
        };
        let needed = if last - first == old {
            self.rows_resized((width, columns), filter)
        } else {
            let own = self.cropped([first as isize, 0], [last - first, self.size()[1]]);
            own.rows_resized((width, columns), filter)
        };
        needed.columns_of((old, first), (height, rows), filter)
    }

    fn rows_resized(&self, (width, columns): (usize, Range<usize>), filter: Filter) -> Self {
        let ([height, old], channels) = (self.size(), self.channels());
        if width == old {
            return self.part(0..height, columns);
        }
        let taps = taps((old, width), columns, filter);
        let width = taps.len();
        let mut data = vec![0; height * width * channels];
        let rows =
            data.par_chunks_exact_mut(width * channels).zip(self.data().par_chunks_exact(old * channels));
        rows.for_each(|(out, row)| {
            for (pixel, taps) in out.chunks_exact_mut(channels).zip(&taps) {
                for (channel, out) in pixel.iter_mut().enumerate() {
                    let mut sum = 1 << (PRECISION - 1);
                    for (at, coefficient) in taps.coefficients.iter().enumerate() {
                        sum += i32::from(row[(taps.first + at) * channels + channel]) * coefficient;
                    }
                    *out = clipped(sum);
                }
            }
        });
        Self::new([height, width], channels, data)
    }

    fn columns_resized(&self, to: (usize, Range<usize>), filter: Filter) -> Self {
        self.columns_of((self.size()[0], 0), to, filter)
    }

    /// Rows of the picture at another height. Of a picture of `old` rows, this one has those from `first` on.
    fn columns_of(
        &self,
        (old, first): (usize, usize),
        (height, rows): (usize, Range<usize>),
        filter: Filter,
    ) -> Self {
        let (width, channels) = (self.size()[1], self.channels());
        if height == old {
            return self.part(rows.start - first..rows.end - first, 0..width);
        }
        let (taps, row) = (taps((old, height), rows, filter), width * channels);
        let mut data = vec![0; taps.len() * row];
        data.par_chunks_exact_mut(row).zip(&taps).for_each(|(out, taps)| {
            for (x, out) in out.iter_mut().enumerate() {
                let mut sum = 1 << (PRECISION - 1);
                for (at, coefficient) in taps.coefficients.iter().enumerate() {
                    sum += i32::from(self.data()[(taps.first - first + at) * row + x]) * coefficient;
                }
                *out = clipped(sum);
            }
        });
        Self::new([taps.len(), width], channels, data)
    }

    /// Rows and columns of the picture.
    fn part(&self, rows: Range<usize>, columns: Range<usize>) -> Self {
        if [rows.len(), columns.len()] == self.size() {
            return self.clone();
        }
        self.cropped([rows.start, columns.start].map(|at| at as isize), [rows.len(), columns.len()])
    }

    fn nearest(&self, [(height, rows), (width, columns)]: [(usize, Range<usize>); 2]) -> Self {
        let ([old_height, old_width], channels) = (self.size(), self.channels());
        // Places are summed up, as in Pillow: where a place is a whole number, rounding decides.
        let places = |to: usize, range: Range<usize>, from: usize| -> Vec<usize> {
            let step = from as f64 / to as f64;
            let sums = std::iter::successors(Some(0.5 * step), |place| Some(place + step));
            let places = sums.skip(range.start).take(range.len());
            places.map(|place| (place as usize).min(from - 1)).collect()
        };
        let (rows, columns) = (places(height, rows, old_height), places(width, columns, old_width));
        let mut data = Vec::with_capacity(rows.len() * columns.len() * channels);
        for &y in &rows {
            for x in &columns {
                let start = (y * old_width + x) * channels;
                data.extend_from_slice(&self.data()[start..start + channels]);
            }
        }
        Self::new([rows.len(), columns.len()], channels, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_averages_and_doubling_interpolates() {
        let picture = Picture::new([1, 4], 1, vec![0, 100, 200, 100]);
        // A triangle two pixels wide: at the edges the weights are 3/7, 3/7 and 1/7.
        assert_eq!(picture.resized([1, 2], Filter::Bilinear).data(), [71, 143]);
        let larger = Picture::new([1, 2], 1, vec![0, 100]).resized([1, 4], Filter::Bilinear);
        assert_eq!(larger.data(), [0, 25, 75, 100]);
        assert_eq!(picture.resized([1, 2], Filter::Nearest).data(), [100, 100]);
    }

    #[test]
    fn a_picture_of_one_colour_keeps_it() {
        let picture = Picture::new([5, 7], 3, [9, 80, 255].repeat(35));
        for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos, Filter::Nearest] {
            for size in [[3, 4], [11, 9], [5, 20], [1, 1]] {
                let found = picture.resized(size, filter);
                assert!(found.data().chunks(3).all(|pixel| pixel == [9, 80, 255]), "{filter:?} {size:?}");
            }
        }
    }

    #[test]
    fn a_part_is_that_of_the_whole() {
        let noise = |length: usize| (0..length).map(|at| ((at * 73) ^ (at / 7)) as u8).collect::<Vec<_>>();
        for old in [[5, 7], [40, 3], [3, 40], [17, 17]] {
            let picture = Picture::new(old, 3, noise(3 * old[0] * old[1]));
            for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos, Filter::Nearest] {
                for size in [[30, 4], [11, 90], old, [4, 40], [40, 6]] {
                    let (rows, columns) = (size[0] / 3..size[0] / 3 + 2, size[1] / 4..size[1] / 4 + 3);
                    let whole = picture.resized(size, filter);
                    let expected = whole.cropped([rows.start as isize, columns.start as isize], [2, 3]);
                    let found = picture.resized_part(size, [rows, columns], filter);
                    assert_eq!(found, expected, "{filter:?} {old:?} {size:?}");
                }
            }
        }
    }
}
