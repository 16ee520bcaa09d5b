//! Matrix products: equal to the reference to the bit, for any shape, threads, instructions and batch.

use polyhead_random::Random;
use polyhead_tensor::gemm::{Matrix, MatrixMut, Output, Packed, gemm, gemm_on, gemm_packed, reference};
use polyhead_tensor::isa::Isa;
use proptest::prelude::*;

fn numbers(len: usize, stream: u64) -> Vec<f32> {
    let random = Random::new(3).stream(stream);
    (0..len as u64).map(|index| random.uniform(index) as f32 - 0.5).collect()
}

fn usable() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_usable())
}

/// Compares both sides in all four layouts, overwritten and accumulated, with the reference.
fn check([m, n, k]: [usize; 3]) {
    let (a, b, old) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
    for output in [Output::Overwrite, Output::Accumulate] {
        for layout in 0..4 {
            let a = if layout & 1 == 0 { Matrix::new(&a, m, k) } else { Matrix::new(&a, k, m).t() };
            let b = if layout & 2 == 0 { Matrix::new(&b, k, n) } else { Matrix::new(&b, n, k).t() };
            let mut expected = old.clone();
            reference::gemm(&mut expected, a, b, output);
            for isa in usable() {
                let mut c = old.clone();
                gemm_on(isa, &mut MatrixMut::new(&mut c, m, n), a, b, output);
                assert!(
                    c == expected,
                    "{m}×{k}·{k}×{n} layout {layout} {output:?} differs on {}",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn equals_the_reference() {
    for shape in
        [[1, 1, 1], [1, 33, 257], [14, 32, 256], [15, 31, 600], [29, 65, 3], [3, 200, 513], [170, 40, 20]]
    {
        check(shape);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn equals_the_reference_for_any_shape(m in 1_usize..60, n in 1_usize..90, k in 1_usize..600) {
        check([m, n, k]);
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let [m, n, k] = [333, 257, 515];
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let product = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut c = vec![0.0; m * n];
        pool.install(|| {
            gemm(
                &mut MatrixMut::new(&mut c, m, n),
                Matrix::new(&a, m, k),
                Matrix::new(&b, k, n),
                Output::Overwrite,
            );
        });
        c
    };
    let one = product(1);
    assert!(one == product(2) && one == product(3) && one == product(7));
}

#[test]
fn a_row_alone_equals_the_row_in_a_batch() {
    let [m, n, k] = [17, 100, 300];
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let packed = Packed::new(Matrix::new(&b, k, n));
    let mut whole = vec![0.0; m * n];
    gemm_packed(&mut MatrixMut::new(&mut whole, m, n), Matrix::new(&a, m, k), &packed, Output::Overwrite);
    for row in 0..m {
        let mut alone = vec![0.0; n];
        let a = Matrix::new(&a[row * k..(row + 1) * k], 1, k);
        gemm_packed(&mut MatrixMut::new(&mut alone, 1, n), a, &packed, Output::Overwrite);
        assert!(alone == whole[row * n..(row + 1) * n], "row {row}");
    }
}

#[test]
fn empty_shapes_are_no_work() {
    let mut c = [7.0; 6];
    gemm(
        &mut MatrixMut::new(&mut c, 2, 3),
        Matrix::new(&[], 2, 0),
        Matrix::new(&[], 0, 3),
        Output::Accumulate,
    );
    assert_eq!(c, [7.0; 6]);
    gemm(
        &mut MatrixMut::new(&mut c, 2, 3),
        Matrix::new(&[], 2, 0),
        Matrix::new(&[], 0, 3),
        Output::Overwrite,
    );
    assert_eq!(c, [0.0; 6]);
    gemm(
        &mut MatrixMut::new(&mut c, 0, 3),
        Matrix::new(&[], 0, 5),
        Matrix::new(&[0.0; 15], 5, 3),
        Output::Overwrite,
    );
}
