//! From pixels to the vectors of patches: a projection of each patch, or convolutions before it.

use polyhead_attention::layers::{LayerNorm, Linear};
use polyhead_attention::{Builder, Pass};
use polyhead_tensor::Var;

use super::Images;
use super::patches::PatchOptions;
use crate::Result;
use crate::convolution::convolution;

/// Height and width of a kernel.
pub(super) const KERNEL: usize = 3;

/// The layers between pixels and the encoder.
#[derive(Debug, Clone)]
pub(super) struct Stem {
    convolutions: Vec<(Linear, LayerNorm)>,
    projection: Linear,
}

impl Stem {
    pub(super) fn new(builder: &mut Builder<'_>, options: &PatchOptions) -> Self {
        let mut convolution = |(level, [inputs, outputs]): (usize, [usize; 2])| {
            let mut builder = builder.at(format!("stem.{level}"));
            let kernel = Linear::new(&mut builder.at("convolution"), KERNEL * KERNEL * inputs, outputs);
            (kernel, LayerNorm::new(&mut builder.at("norm"), outputs, options.layer.norm_epsilon))
        };
        let convolutions = options.convolutions().into_iter().enumerate().map(&mut convolution).collect();
        let projection =
            Linear::new(&mut builder.at("patches"), options.projected_width(), options.layer.d_model);
        Self { convolutions, projection }
    }

    /// rows × patches × d_model.
    pub(super) fn forward(&self, pass: &Pass<'_>, images: &Images) -> Result<Var> {
        let mut x = Var::constant(images.pixels());
        for ((kernel, norm), taps) in self.convolutions.iter().zip(images.taps()) {
            let [rows, positions, width] = *x.shape() else { unreachable!("three axes") };
            let table = x.reshaped(&[rows * positions, width]);
            x = norm.forward(pass, &convolution(pass, kernel, &table, (taps, rows, positions / 4))?)?;
        }
        Ok(self.projection.forward(pass, &x)?)
    }
}
