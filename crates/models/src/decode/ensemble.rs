//! Ensembles: the predictions of several models are averaged at every step.
//!
//! Average of probabilities: log (1/m · Σ p_i). Average of log-probabilities: 1/m · Σ log p_i, the geometric mean, which
//! the softmax that follows normalises.

use polyhead_tensor::ops::softmax::log_softmax;
use polyhead_tensor::{Tape, Tensor, Var};

use super::NextToken;
use crate::{Error, Result};

/// The quantity that is averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Average {
    /// Probabilities: a token is likely if some model finds it likely.
    #[default]
    Probabilities,
    /// Log-probabilities: a token is likely if no model finds it unlikely.
    LogProbabilities,
}

/// An ensemble of models with the same source and target vocabularies.
#[derive(Debug, Clone, Copy)]
pub struct Ensemble<'a, M> {
    models: &'a [M],
    average: Average,
}

impl<'a, M> Ensemble<'a, M> {
    /// An ensemble of `models` with equal weights.
    ///
    /// # Errors
    /// If `models` is empty.
    pub fn new(models: &'a [M], average: Average) -> Result<Self> {
        if models.is_empty() {
            return Err(Error::Request { message: "an ensemble of no models, expected one or more".into() });
        }
        Ok(Self { models, average })
    }
}

impl<M: NextToken> NextToken for Ensemble<'_, M> {
    type State = Vec<M::State>;

    fn start(&self, sources: &[&[u32]], n_rows: usize) -> Result<Self::State> {
        self.models.iter().map(|model| model.start(sources, n_rows)).collect()
    }

    fn step(&self, state: &mut Self::State, tokens: &[u32]) -> Result<Tensor> {
        let steps = self.models.iter().zip(state).map(|(model, state)| model.step(state, tokens));
        self.average.of_logits(&steps.collect::<Result<Vec<_>>>()?)
    }

    /// The attention is the mean over the models, if all of them have it.
    fn step_with_attention(
        &self,
        state: &mut Self::State,
        tokens: &[u32],
    ) -> Result<(Tensor, Option<Tensor>)> {
        let steps =
            self.models.iter().zip(state).map(|(model, state)| model.step_with_attention(state, tokens));
        let (logits, attention): (Vec<_>, Vec<_>) = steps.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let attention: Option<Vec<Tensor>> = attention.into_iter().collect();
        let attention = attention.map(|all| {
            averaged(&all, |weights| {
                (weights.iter().map(|&x| f64::from(x)).sum::<f64>() / all.len() as f64) as f32
            })
        });
        Ok((self.average.of_logits(&logits)?, attention.transpose()?))
    }

    fn reorder(&self, state: &mut Self::State, rows: &[usize]) {
        self.models.iter().zip(state).for_each(|(model, state)| model.reorder(state, rows));
    }
}

/// Averages tensors of the same shape element by element.
fn averaged(all: &[Tensor], average: impl Fn(&[f32]) -> f32) -> Result<Tensor> {
    let shape = all[0].shape();
    if let Some(other) = all.iter().find(|other| other.shape() != shape) {
        let message = format!(
            "an ensemble of models with outputs of {shape:?} and {:?}, expected the same vocabulary",
            other.shape()
        );
        return Err(Error::Request { message });
    }
    let mut mean = Tensor::zeros(shape);
    let mut values = vec![0.0; all.len()];
    for (index, mean) in mean.data_mut().iter_mut().enumerate() {
        values.iter_mut().zip(all).for_each(|(value, model)| *value = model.data()[index]);
        *mean = average(&values);
    }
    Ok(mean)
}

impl Average {
    /// Log-probabilities of the ensemble, from the logits of each model.
    fn of_logits(self, all: &[Tensor]) -> Result<Tensor> {
        let logarithms = |logits: &Tensor| {
            Ok(log_softmax(&Tape::inference(), &Var::constant(logits.to_host()?)).value().clone())
        };
        averaged(&all.iter().map(logarithms).collect::<Result<Vec<_>>>()?, |values| self.of(values))
    }

    /// The log-probability of the ensemble, from those of its models.
    fn of(self, values: &[f32]) -> f32 {
        let n = values.len() as f64;
        let all = values.iter().copied().map(f64::from);
        let average = match self {
            Self::LogProbabilities => all.sum::<f64>() / n,
            Self::Probabilities => {
                let highest = all.clone().fold(f64::NEG_INFINITY, f64::max);
                if highest == f64::NEG_INFINITY {
                    return f32::NEG_INFINITY;
                }
                highest + (all.map(|value| (value - highest).exp()).sum::<f64>() / n).ln()
            }
        };
        average as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_match_the_formulas() {
        let values = [0.5_f32.ln(), 0.125_f32.ln()];
        assert!((Average::Probabilities.of(&values).exp() - 0.3125).abs() < 1e-6);
        assert!((Average::LogProbabilities.of(&values).exp() - 0.25).abs() < 1e-6);
        let impossible = [0.0, f32::NEG_INFINITY];
        assert!((Average::Probabilities.of(&impossible).exp() - 0.5).abs() < 1e-6);
        assert_eq!(Average::LogProbabilities.of(&impossible), f32::NEG_INFINITY);
        assert_eq!(Average::Probabilities.of(&[f32::NEG_INFINITY; 2]), f32::NEG_INFINITY);
    }
}
