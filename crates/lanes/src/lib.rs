//! Loops over rows that compile to vector code, with the same bits for every instruction set.
//!
//! Rust never reorders or fuses floating-point operations by itself, so a loop over independent elements gives the same
//! bits for any vector width. Sums do depend on order; here they run in sixteen lanes, element i in lane i mod 16, and
//! the lanes are added in a fixed tree. [`isa`] detects the instruction sets of the machine.

pub mod isa;

/// Lanes of a sum.
pub const LANES: usize = 16;

/// Compiles a function three times, for portable, AVX2 and AVX-512 code, and chooses at run time.
#[macro_export]
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn plain($($argument: $kind),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($argument: $kind),*) $(-> $result)? { plain($($argument),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
            fn avx512($($argument: $kind),*) $(-> $result)? { plain($($argument),*) }
            match $crate::isa::Isa::best() {
                // SAFETY: `best` returns only instruction sets that the CPU supports.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx2 => unsafe { avx2($($argument),*) },
                _ => plain($($argument),*),
            }
        }
    };
}

vectorised! {
    /// sum += more, element by element.
    pub fn add_assign(sum: &mut [f32], more: &[f32]) {
        for (sum, more) in sum.iter_mut().zip(more) {
            *sum += more;
        }
    }
}

/// Defines a sum over the elements of one or more slices of equal length, in sixteen lanes.
///
/// Slices are split into whole blocks first: bounds checks inside the loop would prevent vectorisation.
macro_rules! lane_sum {
    ($(#[$meta:meta])* $name:ident, $($slice:ident)+) => {
        $(#[$meta])*
        #[inline(always)]
        pub fn $name($($slice: &[f32],)+ value: impl Fn($(lane_sum!(@f32 $slice)),+) -> f32) -> f32 {
            let mut lanes = [0.0; LANES];
            let mut rest = ($($slice,)+);
            loop {
                let ($($slice,)+) = rest;
                let ($(Some(($slice, _)),)+) = ($($slice.split_first_chunk::<LANES>(),)+) else { break };
                for lane in 0..LANES {
                    lanes[lane] += value($($slice[lane]),+);
                }
                let ($($slice,)+) = rest;
                rest = ($(&$slice[LANES..],)+);
            }
            let ($($slice,)+) = rest;
            for (lane, sum) in lanes.iter_mut().enumerate() {
                let ($(Some(&$slice),)+) = ($($slice.get(lane),)+) else { break };
                *sum += value($($slice),+);
            }
            for width in [8, 4, 2, 1] {
                for lane in 0..width {
                    lanes[lane] += lanes[lane + width];
                }
            }
            lanes[0]
        }
    };
    (@f32 $slice:ident) => { f32 };
}

lane_sum!(
    /// Σ value(aᵢ).
    sum, a
);
lane_sum!(
    /// Σ value(aᵢ, bᵢ).
    sum2, a b
);
lane_sum!(
    /// Σ value(aᵢ, bᵢ, cᵢ).
    sum3, a b c
);

/// The largest of `values`, −∞ if there are none.
#[inline(always)]
pub fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
        }
    }
    rest.iter().chain(&lanes).copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
}

/// The largest of |values|, 0 if there are none; NaN is ignored.
#[inline(always)]
pub fn max_abs(values: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let size = chunk[lane].abs();
            lanes[lane] = if size > lanes[lane] { size } else { lanes[lane] };
        }
    }
    rest.iter().chain(&lanes).fold(0.0, |a, b| if b.abs() > a { b.abs() } else { a })
}

/// eˣ to about one unit in the last place: x = n ln 2 + r, eˣ = 2ⁿ eʳ with a polynomial for eʳ on |r| ≤ ½ ln 2. Below
/// −87 it is 0, so that a masked score has weight 0.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts: the first has few bits, so that n times it is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const ROUND: f32 = 12_582_912.0; // 1.5 × 2²³: adding and subtracting it rounds to an integer
    let clamped = if x > 88.0 { 88.0 } else { x };
    let clamped = if clamped < -87.0 { -87.0 } else { clamped };
    let rounded = clamped.mul_add(LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, clamped));
    let mut p = 1.987_569_1e-4_f32;
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5] {
        p = p.mul_add(r, c);
    }
    let whole = p.mul_add(r * r, r) + 1.0;
    // The low bits of `rounded` are n; shifted into the exponent they make 2ⁿ.
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if x < -87.0 { 0.0 } else { whole * power }
}

/// ln x to about one unit in the last place: x = 2ᵉ m with √½ ≤ m < √2, and a polynomial for ln m. The system's `ln`
/// chooses its instructions by machine, and its last bit with them.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    const ROOT_HALF: u32 = 0x3f35_04f3;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Subnormal numbers are scaled by 2²³ first.
    let (scaled, shift) = if x < f32::MIN_POSITIVE { (x * 8_388_608.0, 23.0) } else { (x, 0.0) };
    let bits = scaled.to_bits().wrapping_sub(ROOT_HALF);
    let e = (bits.cast_signed() >> 23) as f32 - shift;
    let z = f32::from_bits((bits & 0x007f_ffff) + ROOT_HALF) - 1.0;
    let mut p = 7.037_683_6e-2_f32;
    let coefficients = [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    for c in coefficients {
        p = p.mul_add(z, c);
    }
    let square = z * z;
    let tail = e.mul_add(LN2_LOW, p * square * z) - 0.5 * square;
    let whole = e.mul_add(LN2_HIGH, z + tail);
    if x > 0.0 && x < f32::INFINITY {
        whole
    } else if x == 0.0 {
        f32::NEG_INFINITY
    } else if x > 0.0 {
        x
    } else {
        f32::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_to_two_units_in_the_last_place() {
        for index in -8700..8800 {
            let x = index as f32 * 0.01;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.4e-7, "exp({x}) off by {error}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn ln_is_accurate_to_two_units_in_the_last_place() {
        let near_one = (-4000..4000).map(|index| 1.0 + index as f32 * 1e-4);
        for x in near_one.chain((-1490..1270).map(|index| (f64::from(index) * 0.1).exp2() as f32)) {
            let exact = f64::from(x).ln();
            let error = (f64::from(ln(x)) - exact).abs();
            assert!(error <= 2.4e-7 * exact.abs(), "ln({x}) off by {error}");
        }
        assert_eq!([ln(1.0), ln(0.0), ln(f32::INFINITY)], [0.0, f32::NEG_INFINITY, f32::INFINITY]);
        assert!(ln(-1.0).is_nan() && ln(f32::NAN).is_nan());
    }

    #[test]
    fn sums_cover_every_element_once() {
        let numbers: Vec<f32> = (0..64).map(|i| i as f32).collect();
        for len in [0, 1, 15, 16, 17, 47, 64] {
            let total = (0..len).sum::<usize>() as f32;
            let numbers = &numbers[..len];
            assert_eq!(sum(numbers, |x| x), total);
            assert_eq!(sum2(numbers, numbers, |x, y| x + y), 2.0 * total);
            assert_eq!(sum3(numbers, numbers, numbers, |x, y, z| x + y - z), total);
        }
    }
}
