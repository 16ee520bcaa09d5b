//! The linear layer: y = x·Wᵀ + b, with W of d_out × d_in.
//!
//! ```
//! use polyhead_attention::{Builder, layers::Linear};
//! use polyhead_tensor::Parameters;
//! let mut parameters = Parameters::default();
//! Linear::new(&mut Builder::new(&mut parameters).at("output"), 512, 37_000);
//! assert_eq!(parameters.count(), 512 * 37_000 + 37_000);
//! ```

use polyhead_tensor::ops::linear::{LinearOptions, linear, prepared_linear};
use polyhead_tensor::ops::shared_weight::SharedWeight;
use polyhead_tensor::{Init, ParameterId, Result, Var};

use crate::builder::Builder;
use crate::pass::Pass;

/// A choice about the bias of a linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bias {
    /// b is added.
    #[default]
    Present,
    /// There is no b.
    Absent,
}

/// A linear layer, with or without a bias.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: ParameterId,
    bias: Option<ParameterId>,
}

impl Linear {
    /// Declares `weight` (Xavier) and `bias` (zeros).
    pub fn new(builder: &mut Builder<'_>, d_in: usize, d_out: usize) -> Self {
        Self::stacked(builder, d_in, &[d_out])
    }

    /// Several layers with the same input as one product; their outputs are concatenated along the last axis.
    pub fn stacked(builder: &mut Builder<'_>, d_in: usize, d_outs: &[usize]) -> Self {
        let d_out = d_outs.iter().sum();
        Self {
            bias: Some(builder.declare("bias", &[d_out], Init::Zeros)),
            ..Self::without_bias(builder, d_in, d_outs)
        }
    }

    /// Same as [`Linear::new`], with or without a bias.
    pub fn with(builder: &mut Builder<'_>, d_in: usize, d_out: usize, bias: Bias) -> Self {
        match bias {
            Bias::Present => Self::new(builder, d_in, d_out),
            Bias::Absent => Self::without_bias(builder, d_in, &[d_out]),
        }
    }

    /// Same as [`Linear::stacked`], initialised as rows of a matrix with `fan_out` rows, hence with smaller values.
    pub fn with_fan_out(builder: &mut Builder<'_>, d_in: usize, d_outs: &[usize], fan_out: usize) -> Self {
        Self::projection(builder, (d_in, d_outs), fan_out, Bias::Present)
    }

    /// Same as [`Linear::with_fan_out`], with or without a bias.
    pub fn projection(
        builder: &mut Builder<'_>,
        (d_in, d_outs): (usize, &[usize]),
        fan_out: usize,
        bias: Bias,
    ) -> Self {
        let (d_out, init) = (d_outs.iter().sum(), Init::Xavier { d_out: fan_out });
        Self {
            bias: (bias == Bias::Present).then(|| builder.declare("bias", &[d_out], Init::Zeros)),
            weight: builder.declare_product("weight", &[d_out, d_in], init),
        }
    }

    /// Same as [`Linear::stacked`], without a bias.
    pub fn without_bias(builder: &mut Builder<'_>, d_in: usize, d_outs: &[usize]) -> Self {
        let init = Init::Xavier { d_out: d_outs.first().copied().unwrap_or(0) };
        Self { weight: builder.declare_product("weight", &[d_outs.iter().sum(), d_in], init), bias: None }
    }

    /// x·Wᵀ + b: … × d_in → … × d_out.
    ///
    /// # Errors
    /// If the last axis of x is not d_in.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        self.forward_with(pass, x, LinearOptions::default())
    }

    /// Same as [`Linear::forward`], followed by an activation and dropout.
    ///
    /// # Errors
    /// If the last axis of x is not d_in.
    pub fn forward_with(&self, pass: &Pass<'_>, x: &Var, options: LinearOptions) -> Result<Var> {
        product(pass, x, self.weight, self.bias, options)
    }

    /// The layer for several steps of one pass.
    ///
    /// # Errors
    /// If the parameters have other shapes than declared.
    pub fn shared<'a>(&self, pass: &Pass<'a>) -> Result<SharedWeight<'a>> {
        shared(pass, self.weight, self.bias)
    }
}

/// A weight for several steps, prepared where it is.
pub(super) fn shared<'a>(
    pass: &Pass<'a>,
    weight: ParameterId,
    bias: Option<ParameterId>,
) -> Result<SharedWeight<'a>> {
    let bias = bias.map(|bias| pass.parameter(bias));
    match pass.parameters.prepared(weight) {
        Some(weight) => SharedWeight::prepared(weight, bias.as_ref()),
        None => SharedWeight::new(pass.tape, &pass.parameter(weight), bias.as_ref()),
    }
}

/// act(x·Wᵀ + b), with the prepared (packed) weight where there is one.
pub(super) fn product(
    pass: &Pass<'_>,
    x: &Var,
    weight: ParameterId,
    bias: Option<ParameterId>,
    options: LinearOptions,
) -> Result<Var> {
    if let Some(weight) = pass.parameters.prepared(weight) {
        let bias = bias.map(|bias| pass.parameters.value(bias).data());
        return prepared_linear(x, weight, bias, options.activation);
    }
    let bias = bias.map(|bias| pass.parameter(bias));
    linear(pass.tape, x, &pass.parameter(weight), bias.as_ref(), options)
}
