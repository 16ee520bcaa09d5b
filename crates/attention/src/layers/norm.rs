//! Layer normalisation (Ba, Kiros & Hinton 2016): y = γ (h − μ)/√(σ² + ε) + β over the last axis; and its simpler form, root
//! mean square normalisation (Zhang & Sennrich 2019): y = γ h/√(mean(h²) + ε).
//!
//! ```
//! use polyhead_attention::{Builder, Capture, Pass, layers::LayerNorm};
//! use polyhead_tensor::{Parameters, Tape, Tensor, Var};
//! let mut parameters = Parameters::default();
//! let norm = LayerNorm::new(&mut Builder::new(&mut parameters).at("norm"), 2, 1e-5);
//! parameters.initialise(0);
//! let (tape, capture) = (Tape::inference(), Capture::off());
//! let pass = Pass::new(&tape, &parameters, &capture);
//! let y = norm.forward(&pass, &Var::constant(Tensor::new(&[1, 2], vec![3.0, 5.0])))?;
//! assert!((y.value().data()[0] + 1.0).abs() < 1e-4 && (y.value().data()[1] - 1.0).abs() < 1e-4);
//! # Ok::<(), polyhead_attention::Error>(())
//! ```

use polyhead_tensor::ops::norm::{NormOptions, layer_norm};
use polyhead_tensor::ops::rms_norm::rms_norm;
use polyhead_tensor::{Init, ParameterId, Result, Var};

use crate::builder::Builder;
use crate::pass::Pass;

/// A layer normalisation with parameters γ and β.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    gamma: ParameterId,
    beta: ParameterId,
    epsilon: f32,
}

impl LayerNorm {
    /// Declares `gamma` (ones) and `beta` (zeros) of `width` elements; `epsilon` is added to the variance.
    pub fn new(builder: &mut Builder<'_>, width: usize, epsilon: f32) -> Self {
        let gamma = builder.declare("gamma", &[width], Init::Ones);
        Self { gamma, beta: builder.declare("beta", &[width], Init::Zeros), epsilon }
    }

    /// LayerNorm(x).
    ///
    /// # Errors
    /// If the last axis of x is not the layer's width.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        self.normalise(pass, x, None, 0.0)
    }

    /// LayerNorm(residual + dropout(x)), the end of a post-norm sub-layer (Vaswani et al. 2017, section 3.1).
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn after_residual(&self, pass: &Pass<'_>, x: &Var, residual: &Var, dropout: f32) -> Result<Var> {
        self.normalise(pass, x, Some(residual), dropout)
    }

    fn normalise(&self, pass: &Pass<'_>, x: &Var, residual: Option<&Var>, dropout: f32) -> Result<Var> {
        let [gamma, beta] = [self.gamma, self.beta].map(|id| pass.parameter(id));
        let options = NormOptions { epsilon: self.epsilon, dropout };
        layer_norm(pass.tape, x, residual, [&gamma, &beta], options)
    }
}

/// A root mean square normalisation with the parameter γ.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    gamma: ParameterId,
    epsilon: f32,
}

impl RmsNorm {
    /// Declares `gamma` (ones) of `width` elements; `epsilon` is added to the mean square.
    pub fn new(builder: &mut Builder<'_>, width: usize, epsilon: f32) -> Self {
        Self { gamma: builder.declare("gamma", &[width], Init::Ones), epsilon }
    }

    /// RmsNorm(x), or RmsNorm(residual + dropout(x)).
    ///
    /// # Errors
    /// If the shapes differ, or the last axis is not the layer's width.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var, residual: Option<&Var>, dropout: f32) -> Result<Var> {
        let options = NormOptions { epsilon: self.epsilon, dropout };
        rms_norm(pass.tape, x, residual, &pass.parameter(self.gamma), options)
    }
}

/// The kind of a normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NormKind {
    /// Mean and variance, with γ and β.
    #[default]
    Layer,
    /// Root mean square, with γ.
    Rms,
}

/// A normalisation of either kind.
#[derive(Debug, Clone)]
pub enum Norm {
    /// Layer normalisation.
    Layer(LayerNorm),
    /// Root mean square normalisation.
    Rms(RmsNorm),
}

impl Norm {
    /// Declares the parameters of a normalisation of `width` elements.
    pub fn new(builder: &mut Builder<'_>, kind: NormKind, width: usize, epsilon: f32) -> Self {
        match kind {
            NormKind::Layer => Self::Layer(LayerNorm::new(builder, width, epsilon)),
            NormKind::Rms => Self::Rms(RmsNorm::new(builder, width, epsilon)),
        }
    }

    /// The normalised x.
    ///
    /// # Errors
    /// If the last axis of x is not the layer's width.
    pub fn forward(&self, pass: &Pass<'_>, x: &Var) -> Result<Var> {
        match self {
            Self::Layer(norm) => norm.forward(pass, x),
            Self::Rms(norm) => norm.forward(pass, x, None, 0.0),
        }
    }

    /// The normalised residual + dropout(x), the end of a post-norm sub-layer (Vaswani et al. 2017, section 3.1).
    ///
    /// # Errors
    /// If the shapes differ.
    pub fn after_residual(&self, pass: &Pass<'_>, x: &Var, residual: &Var, dropout: f32) -> Result<Var> {
        match self {
            Self::Layer(norm) => norm.after_residual(pass, x, residual, dropout),
            Self::Rms(norm) => norm.forward(pass, x, Some(residual), dropout),
        }
    }

    /// The normalisation with the statistics of the vector `h` held fixed.
    ///
    /// # Errors
    /// If the parameters cannot be read from their device.
    pub fn fixed_at(&self, pass: &Pass<'_>, h: &[f32]) -> Result<FixedNorm> {
        let read = |id: ParameterId| -> Result<Vec<f64>> {
            Ok(pass.parameters.value(id).to_host()?.data().iter().copied().map(f64::from).collect())
        };
        let mean = |numbers: &mut dyn Iterator<Item = f64>| numbers.sum::<f64>() / h.len().max(1) as f64;
        let all = || h.iter().copied().map(f64::from);
        let (gamma, beta, epsilon, centre) = match self {
            Self::Layer(norm) => (norm.gamma, Some(norm.beta), norm.epsilon, mean(&mut all())),
            Self::Rms(norm) => (norm.gamma, None, norm.epsilon, 0.0),
        };
        let variance = mean(&mut all().map(|number| (number - centre).powi(2)));
        let scale = 1.0 / (variance + f64::from(epsilon)).sqrt();
        Ok(FixedNorm {
            gain: read(gamma)?.into_iter().map(|gamma| gamma * scale).collect(),
            is_centred: beta.is_some(),
            bias: beta.map(read).transpose()?,
        })
    }
}

/// A normalisation whose statistics are held fixed, so that it is linear: y = gain ⊙ (c − mean(c)) + bias for any vector c. At the
/// vector whose statistics they are, it is the normalisation itself.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedNorm {
    /// γ/√(σ² + ε), or γ/√(mean(h²) + ε), for each column.
    pub gain: Vec<f64>,
    /// True if the mean is subtracted first.
    pub is_centred: bool,
    /// β; root mean square normalisation has none.
    pub bias: Option<Vec<f64>>,
}

impl FixedNorm {
    /// The one that changes nothing.
    pub fn identity(width: usize) -> Self {
        Self { gain: vec![1.0; width], is_centred: false, bias: None }
    }

    /// For a row w of the next layer: the vector u and the constant b with w·y = u·c + b.
    pub fn through(&self, row: &[f32]) -> (Vec<f64>, f64) {
        let mut before: Vec<f64> =
            row.iter().zip(&self.gain).map(|(weight, gain)| f64::from(*weight) * gain).collect();
        if self.is_centred {
            let mean = before.iter().sum::<f64>() / before.len().max(1) as f64;
            for weight in &mut before {
                *weight -= mean;
            }
        }
        let of = |(bias, weight): (&f64, &f32)| bias * f64::from(*weight);
        // The sum of nothing is −0.
        let bias = self.bias.iter().flatten().zip(row).map(of).fold(0.0, |sum, part| sum + part);
        (before, bias)
    }
}

#[cfg(test)]
mod tests {
    use polyhead_tensor::{Parameters, Tape, Tensor};

    use super::*;
    use crate::capture::Capture;

    #[test]
    fn a_fixed_norm_is_the_norm_at_its_own_vector_and_linear_elsewhere() {
        let h = [0.5, -1.5, 2.0, 4.0];
        let row = [0.3, -0.7, 0.2, 1.1];
        for kind in [NormKind::Layer, NormKind::Rms] {
            let mut parameters = Parameters::default();
            let norm = Norm::new(&mut Builder::new(&mut parameters).at("norm"), kind, 4, 1e-5);
            parameters.initialise(1);
            let ids: Vec<ParameterId> = parameters.declared().map(|(id, ..)| id).collect();
            for (place, id) in ids.into_iter().enumerate() {
                let own = (0..4).map(|column| 0.4 + 0.3 * (column + place) as f32).collect();
                parameters.set(id, Tensor::new(&[4], own));
            }
            let (tape, capture) = (Tape::inference(), Capture::off());
            let pass = Pass::new(&tape, &parameters, &capture);
            let y = norm.forward(&pass, &Var::constant(Tensor::new(&[1, 4], h.to_vec()))).unwrap();
            let expected: f64 =
                y.value().data().iter().zip(row).map(|(y, w)| f64::from(*y) * f64::from(w)).sum();
            let fixed = norm.fixed_at(&pass, &h).unwrap();
            let (u, constant) = fixed.through(&row);
            let of = |c: &[f32]| u.iter().zip(c).map(|(u, c)| u * f64::from(*c)).sum::<f64>();
            assert!((of(&h) + constant - expected).abs() < 1e-5, "{kind:?}");
            let [a, b] = [[0.5, 0.5, -2.0, 1.0], [0.0, -2.0, 4.0, 3.0]];
            assert!((of(&a) + of(&b) - of(&h)).abs() < 1e-12, "{kind:?}");
        }
    }
}
