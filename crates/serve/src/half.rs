//! Conversion of f32 to f16 (IEEE 754 binary16), for files that have to be small.
//!
//! Eleven significant bits: the relative error of a weight is at most 1 in 2048, three decimals at least; below 2⁻¹⁴ the
//! absolute error is at most 3·10⁻⁸. Thirty lines here, since the `half` crate would add itself and `zerocopy-derive` to the
//! default build.

/// The bits of the nearest f16, ties to even; values that are too large become infinite.
pub(crate) fn f16_bits(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let rest = if magnitude > 0x7f80_0000 {
        0x7e00
    } else if magnitude >= 0x4780_0000 {
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // The exponent's bias changes from 127 to 15, and the fraction loses thirteen bits.
        rounded(magnitude - (112 << 23), 13)
    } else {
        // Subnormal, a multiple of 2⁻²⁴: the fraction with its hidden bit, shifted by the missing exponent.
        let shift = 126 - (magnitude >> 23);
        if shift > 24 { 0 } else { rounded((magnitude & 0x007f_ffff) | 0x0080_0000, shift) }
    };
    sign | rest
}

/// `bits` without the last `count` bits, rounded to nearest, ties to even.
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
    fn f16_bits_are_those_of_the_standard() {
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
            assert_eq!(f16_bits(number), bits, "{number}");
        }
        assert_eq!(f16_bits(f32::NAN) & 0x7c00, 0x7c00);
    }
}
