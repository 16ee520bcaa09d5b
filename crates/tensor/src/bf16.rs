//! bf16 for stored weights: the upper half of an f32, rounded to the nearest even.
//!
//! bf16 has the range of f32 and eight bits of precision, so a weight takes half the memory, and a shift converts it
//! back to f32.

use crate::tensor::Tensor;

/// An array of bf16 values; they are converted to f32 to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bf16Tensor {
    shape: Vec<usize>,
    data: Vec<u16>,
}

impl Bf16Tensor {
    /// An array with the given bits, row-major.
    ///
    /// # Panics
    /// If the number of values is not that of the shape.
    pub fn new(shape: &[usize], data: Vec<u16>) -> Self {
        assert!(shape.iter().product::<usize>() == data.len(), "{} values for shape {shape:?}", data.len());
        Self { shape: shape.to_vec(), data }
    }

    /// Rounds to the nearest bf16 values.
    pub fn from_f32(tensor: &Tensor) -> Self {
        Self {
            shape: tensor.shape().to_vec(),
            data: tensor.data().iter().map(|&number| round(number)).collect(),
        }
    }

    /// The same values as f32, exactly.
    pub fn to_f32(&self) -> Tensor {
        let mut out = Tensor::uninit(&self.shape);
        for (out, &bits) in out.data_mut().iter_mut().zip(&self.data) {
            *out = f32::from_bits(u32::from(bits) << 16);
        }
        out
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The bits, row-major.
    pub fn bits(&self) -> &[u16] {
        &self.data
    }
}

/// The upper half of `number`, rounded to the nearest, ties to even; NaN stays NaN.
fn round(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let half = 0x7fff + ((bits >> 16) & 1);
    (bits.wrapping_add(half) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_the_nearest_even() {
        let one = 1.0_f32.to_bits();
        let cases = [
            (1.0, 0x3f80),
            (-2.0, 0xc000),
            (f32::from_bits(one + 0x7fff), 0x3f80), // just below half way
            (f32::from_bits(one + 0x8000), 0x3f80), // half way: even is below
            (f32::from_bits(one + 0x18000), 0x3f82), // half way: even is above
            (f32::MAX, 0x7f80),                     // the next number is infinity
            (f32::NEG_INFINITY, 0xff80),
            (0.0, 0),
        ];
        for (number, bits) in cases {
            assert_eq!(round(number), bits, "{number}");
        }
        assert!(f32::from_bits(u32::from(round(f32::NAN)) << 16).is_nan());
    }

    #[test]
    fn every_bf16_number_comes_back() {
        let all: Vec<u16> =
            (0..=u16::MAX).filter(|bits| !f32::from_bits(u32::from(*bits) << 16).is_nan()).collect();
        let tensor = Bf16Tensor::new(&[all.len()], all);
        assert_eq!(Bf16Tensor::from_f32(&tensor.to_f32()), tensor);
    }
}
