//! IEEE 754 half precision (f16): 1 bit of sign, 5 of exponent, 10 of fraction.

/// The spacing of subnormal numbers, 2^-24.
const STEP: f32 = 1.0 / 16_777_216.0;
/// Halfway between the largest finite number, 65504, and the next one in sequence; rounds to infinity.
const TOO_LARGE: f32 = 65_520.0;
/// The smallest normal number, 2^-14.
const SMALLEST_NORMAL: f32 = 1.0 / 16_384.0;

/// Exact conversion to f32.
pub(super) fn to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => (fraction as f32 * STEP).to_bits(),
        0x1f => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Conversion from f32, rounding to nearest, ties to even; values beyond 65504 become infinite, NaN stays NaN.
pub(super) fn from_f32(number: f32) -> u16 {
    let sign = (number.to_bits() >> 16 & 0x8000) as u16;
    let magnitude = number.abs();
    let bits = magnitude.to_bits();
    sign | if magnitude.is_nan() {
        0x7e00 | (bits >> 13 & 0x3ff) as u16
    } else if magnitude >= TOO_LARGE {
        0x7c00
    } else if magnitude < SMALLEST_NORMAL {
        (magnitude / STEP).round_ties_even() as u16
    } else {
        let moved = bits - ((127 - 15) << 23);
        ((moved + 0xfff + (moved >> 13 & 1)) >> 13) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_a_round_trip() {
        for bits in 0..=u16::MAX {
            let number = to_f32(bits);
            if number.is_nan() {
                assert!(to_f32(from_f32(number)).is_nan(), "{bits:#x}");
            } else {
                assert_eq!(from_f32(number), bits, "{number}");
            }
        }
    }

    #[test]
    fn rounding_is_to_nearest_ties_to_even() {
        // Between any two neighbours: just below the middle, the middle, just above it.
        for bits in 0..0x7bff_u16 {
            let middle = f32::midpoint(to_f32(bits), to_f32(bits + 1));
            let even = bits + (bits & 1);
            let found = [middle.next_down(), middle, middle.next_up()].map(from_f32);
            assert_eq!(found, [bits, even, bits + 1], "{middle}");
            assert_eq!(from_f32(-middle), even | 0x8000);
        }
    }

    #[test]
    fn known_numbers() {
        let cases = [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.99, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (-1e-10, 0x8000),
            (0.1, 0x2e66),
        ];
        for (number, bits) in cases {
            assert_eq!(from_f32(number), bits, "{number}");
        }
    }
}
