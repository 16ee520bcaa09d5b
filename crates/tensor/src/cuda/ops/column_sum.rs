//! Stub; the body comes from a colleague.
use crate::cuda::Array;
use crate::gemm::Output;
pub(crate) fn column_sum(_out: &Array, _x: &Array, _rows: usize, _output: Output, _factor: Option<&Array>) {
    unimplemented!()
}
