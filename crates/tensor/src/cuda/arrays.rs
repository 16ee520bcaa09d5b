//! Whole arrays on a GPU: sums and type conversion.

use super::array::{Array, ElementType};
use super::kernel::{Launch, args};
use super::profile::KernelFamily;

/// Threads per block.
const THREADS: usize = 256;

impl Array {
    /// out += x, for any two types.
    pub(crate) fn add(&self, x: &Self) {
        assert!(self.len() == x.len(), "sums have one length");
        if !self.write_sum(self, x) {
            self.each("add_to", x);
        }
    }

    /// Sets this array to a + b, eight values at a time; returns false if types or alignment do not allow it.
    fn write_sum(&self, a: &Self, b: &Self) -> bool {
        let aligned = [self, a, b].iter().all(|array| array.pointer().is_multiple_of(32));
        let fits = aligned && self.len().is_multiple_of(8) && a.dtype() == b.dtype();
        if fits {
            let eights = self.len() / 8;
            self.launch(&format!("sum_of_{}", self.suffix()), eights, args![self, a, b, eights as u64]);
        }
        fits
    }

    /// The values converted to `dtype`.
    pub(crate) fn to_dtype(&self, dtype: ElementType) -> Self {
        if self.dtype() == dtype {
            return self.clone();
        }
        let out = Self::new(self.cuda(), dtype, self.len());
        out.set_from(self);
        out
    }

    /// Sets this array to the values of `from`, converted.
    pub(crate) fn set_from(&self, from: &Self) {
        if self.dtype() == from.dtype() { self.copy_from(from) } else { self.each("convert", from) }
    }

    fn each(&self, name: &str, x: &Self) {
        let name = format!("{name}_{}_{}", self.suffix(), x.suffix());
        self.launch(&name, self.len(), args![self, x, self.len() as u64]);
    }

    /// a + b, of the type of a.
    pub(crate) fn sum_of(a: &Self, b: &Self) -> Self {
        let out = Self::new(a.cuda(), a.dtype(), a.len());
        if !out.write_sum(a, b) {
            out.copy_from(a);
            out.add(b);
        }
        out
    }

    fn launch(&self, name: &str, work: usize, arguments: &[super::Argument]) {
        let blocks = work.div_ceil(THREADS).min(self.cuda().multiprocessors() as usize * 16);
        let launch = Launch {
            file: "arrays",
            name,
            grid: [blocks, 1, 1],
            block: THREADS,
            shared: 0,
            family: KernelFamily::Elementwise,
        };
        self.cuda().launch(launch, arguments);
    }
}
