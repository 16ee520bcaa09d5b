//! Peak multiply-add throughput of the machine: sixteen independent chains in registers, nothing else.
//!
//! The efficiency of a matrix product is its share of this, on any machine.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use crate::isa::Isa;

const ROUNDS: usize = 4_000_000;
const CHAINS: usize = 16;
/// Floating-point operations per lane of one measurement.
const OPERATIONS: f64 = (2 * ROUNDS * CHAINS) as f64;

/// Floating-point operations per second on all threads of the current pool, best of `repeats`.
pub fn measure(isa: Isa, repeats: usize) -> f64 {
    let threads = rayon::current_num_threads();
    let run = || {
        let start = Instant::now();
        let lanes: usize = (0..threads).into_par_iter().with_max_len(1).map(|_| chains(isa)).sum();
        lanes as f64 * OPERATIONS / start.elapsed().as_secs_f64()
    };
    (0..repeats.max(1)).map(|_| run()).fold(0.0, f64::max)
}

/// Runs the chains and returns the number of lanes.
fn chains(isa: Isa) -> usize {
    match isa {
        // SAFETY: `is_usable` has checked that the CPU has AVX-512F.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if isa.is_usable() => unsafe { avx512(black_box(1.0)) },
        // SAFETY: `is_usable` has checked that the CPU has AVX2 and FMA.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if isa.is_usable() => unsafe { avx2(black_box(1.0)) },
        _ => portable(black_box(1.0)),
    }
}

/// The chains written out, so that each stays in its own register.
macro_rules! chains {
    ($start:expr, $step:expr, $($name:ident)*) => {{
        $(let mut $name = $start;)*
        for _ in 0..ROUNDS {
            $($name = $step($name);)*
        }
        black_box(($($name,)*).0);
        black_box([$($name,)*]);
    }};
}

/// # Safety
/// The CPU has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(value: f32) -> usize {
    use std::arch::x86_64::{__m512, _mm512_fmadd_ps, _mm512_set1_ps};
    let (x, y) = (_mm512_set1_ps(value), _mm512_set1_ps(1e-9));
    let step = |sum: __m512| _mm512_fmadd_ps(x, y, sum);
    chains!(_mm512_set1_ps(value), step, a b c d e f g h i j k l m n o p);
    16
}

/// # Safety
/// The CPU has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(value: f32) -> usize {
    use std::arch::x86_64::{__m256, _mm256_fmadd_ps, _mm256_set1_ps};
    let (x, y) = (_mm256_set1_ps(value), _mm256_set1_ps(1e-9));
    let step = |sum: __m256| _mm256_fmadd_ps(x, y, sum);
    chains!(_mm256_set1_ps(value), step, a b c d e f g h i j k l m n o p);
    8
}

fn portable(value: f32) -> usize {
    let step = |sum: f32| value * 1e-9 + sum;
    chains!(value, step, a b c d e f g h i j k l m n o p);
    1
}
