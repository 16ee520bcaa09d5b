//! Numbers of sixteen bits (IEEE 754 binary16), for files that have to be small.
//!
//! Eleven significant bits: a weight is kept to 1 part in 2048, that is to three decimals at least; below 2⁻¹⁴ to 3·10⁻⁸.

/// The nearest half of each number, little-endian, in base64.
pub(crate) fn base64_halves<'a>(numbers: impl Iterator<Item = &'a f32>) -> String {
    let bytes: Vec<u8> = numbers.flat_map(|number| half(*number).to_le_bytes()).collect();
    polyhead_inspect::export::base64::base64(bytes.into_iter())
}

/// The bits of the nearest half; of two as near the even one. What is too large becomes infinite.
fn half(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let size = bits & 0x7fff_ffff;
    let rest = if size > 0x7f80_0000 {
        0x7e00
    } else if size >= 0x4780_0000 {
        0x7c00
    } else if size >= 0x3880_0000 {
        // The exponent's bias changes from 127 to 15, thirteen bits of the fraction go.
        rounded(size - (112 << 23), 13)
    } else {
        // A multiple of 2⁻²⁴: the fraction with its hidden one, moved down by what the exponent lacks.
        let shift = 126 - (size >> 23);
        if shift > 24 { 0 } else { rounded((size & 0x007f_ffff) | 0x0080_0000, shift) }
    };
    sign | rest
}

/// `bits` without the last `count`, rounded to nearest, ties to even.
fn rounded(bits: u32, count: u32) -> u16 {
    let kept = bits >> count;
    let rest = bits & ((1 << count) - 1);
    let middle = 1 << (count - 1);
    let up = rest > middle || (rest == middle && kept & 1 == 1);
    (kept + u32::from(up)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_those_of_the_standard() {
        let cases = [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (0.5, 0x3800),
            (-2.0, 0xc000),
            (0.333_333_34, 0x3555),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (1e30, 0x7c00),
            (6.103_515_6e-5, 0x0400),
            (5.960_464_5e-8, 0x0001),
            (2.980_232_2e-8, 0x0000),
            (6.097_555e-5, 0x03ff),
            (1e-20, 0x0000),
            (1.000_488_3, 0x3c00),
            (1.001_464_8, 0x3c02),
        ];
        for (number, bits) in cases {
            assert_eq!(half(number), bits, "{number}");
        }
        assert_eq!(half(f32::NAN) & 0x7c00, 0x7c00);
    }
}
