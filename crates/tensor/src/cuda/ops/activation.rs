//! Stub; the body comes from a colleague.
use crate::cuda::Array;
use crate::ops::dropout::Mask;
use crate::ops::linear::Activation;
pub(crate) struct Kept<'a> {
    pub(crate) y: Option<&'a Array>,
    pub(crate) before: Option<&'a Array>,
    pub(crate) bias: Option<&'a Array>,
}
pub(crate) fn apply(_y: &Array, _bias: Option<&Array>, _activation: Activation) {
    unimplemented!()
}
pub(crate) fn drop_in_place(_y: &Array, _mask: Mask) {
    unimplemented!()
}
pub(crate) fn go_back(
    _gradient: &Array,
    _kept: Kept<'_>,
    _activation: Activation,
    _mask: Option<Mask>,
) -> Array {
    unimplemented!()
}
