//! Column sums on a GPU, in two stages of fixed order: blocks sum their part of the rows, then the partial sums are
//! added.

use std::sync::Arc;

use crate::cuda::{Array, Cuda, ElementType, GradientTarget, KernelFamily, Launch, args};

/// Columns per block.
const COLUMNS: usize = 256;

/// Number of parts of the rows of a matrix whose columns are summed: enough to fill the GPU, of at least sixteen rows.
pub(crate) fn shares(cuda: &Cuda, rows: usize, columns: usize) -> usize {
    let side_by_side = columns.div_ceil(COLUMNS);
    (4 * cuda.multiprocessors() as usize).div_ceil(side_by_side).min(rows.div_ceil(16)).max(1)
}

/// Grid of blocks that sum `shares` parts of the rows of a matrix.
pub(crate) fn grid(columns: usize, shares: usize) -> [usize; 3] {
    [columns.div_ceil(COLUMNS), shares, 1]
}

/// Partial sums, shares × columns, to be added.
pub(crate) struct Partials {
    sums: Array,
    shares: usize,
    columns: usize,
}

impl Partials {
    pub(crate) fn new(cuda: &Arc<Cuda>, shares: usize, columns: usize) -> Self {
        Self { sums: Array::new(cuda, ElementType::F32, shares * columns), shares, columns }
    }

    pub(crate) fn array(&self) -> &Array {
        &self.sums
    }

    /// Adds the partial sums: the first columns go to the first target, as many as it has values, the others to the
    /// second. All are multiplied by `factor`, a scalar on the GPU.
    pub(crate) fn finish(&self, [first, second]: [Option<&GradientTarget>; 2], factor: Option<&Array>) {
        let split = match (first, second) {
            (Some(first), _) => first.out.len(),
            (None, Some(second)) => self.columns - second.out.len(),
            (None, None) => return,
        };
        let [first, second] = [first, second].map(|target| target.map(F32Target::new));
        let out = |target: &Option<F32Target>| target.as_ref().map(|target| target.sums.clone());
        let before = |target: &Option<F32Target>| target.as_ref().and_then(|target| target.before.clone());
        let launch = Launch {
            file: "column_sum",
            name: "column_sum_finish",
            grid: [self.columns.div_ceil(32), 1, 1],
            block: 1024,
            shared: 0,
            family: KernelFamily::Elementwise,
        };
        self.sums.cuda().launch(
            launch,
            args![
                &self.sums,
                self.shares,
                self.columns,
                split,
                out(&first).as_ref(),
                out(&second).as_ref(),
                before(&first).as_ref(),
                before(&second).as_ref(),
                factor
            ],
        );
        [first, second].into_iter().flatten().for_each(F32Target::end);
    }
}

/// A target as the kernel sees it: f32 throughout.
struct F32Target {
    sums: Array,
    before: Option<Array>,
    /// The target itself, if it has another type.
    target: Option<GradientTarget>,
}

impl F32Target {
    fn new(target: &GradientTarget) -> Self {
        if target.out.dtype() == ElementType::F32 {
            return Self { sums: target.out.clone(), before: target.before.clone(), target: None };
        }
        let sums = Array::new(target.out.cuda(), ElementType::F32, target.out.len());
        Self { sums, before: None, target: Some(target.clone()) }
    }

    fn end(self) {
        let Some(GradientTarget { out, before }) = self.target else { return };
        if let Some(before) = before {
            self.sums.add(&before);
        }
        out.set_from(&self.sums);
    }
}

/// Sets `target` to factor times the column sums of `x`, rows × columns.
pub(crate) fn column_sum(target: &GradientTarget, x: &Array, rows: usize, factor: Option<&Array>) {
    let (cuda, columns) = (x.cuda(), target.out.len());
    let shares = shares(cuda, rows, columns);
    let partials = Partials::new(cuda, shares, columns);
    let launch = Launch {
        file: "column_sum",
        name: &format!("column_sum_{}", x.suffix()),
        grid: grid(columns, shares),
        block: 256,
        shared: 0,
        family: KernelFamily::Elementwise,
    };
    cuda.launch(launch, args![x, partials.array(), rows, columns]);
    partials.finish([Some(target), None], factor);
}
