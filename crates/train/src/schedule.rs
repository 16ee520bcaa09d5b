//! Learning rate schedules: linear warm-up from 0 to the peak, then decay.
//!
//! Vaswani et al. 2017 (Noam): factor·d_model^(−1/2)·min(step^(−1/2), step·warmup^(−3/2)). The inverse square root is the
//! same curve named by its peak: peak·min(step/warmup, √(warmup/step)). Cosine: Loshchilov & Hutter 2017, without restarts.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Decay of the learning rate after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Curve {
    /// Decays with 1/√step from `peak`.
    #[default]
    InverseSqrt,
    /// The same as written by Vaswani et al. 2017; the peak follows from `factor`, `d_model` and the warm-up.
    Noam,
    /// Cosine decay to `floor` at the last step.
    Cosine,
    /// Linear decay to `floor` at the last step.
    Linear,
    /// No decay.
    Constant,
}

/// `[schedule]`: learning rate schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleConfig {
    /// Decay; default: `inverse_sqrt`.
    pub curve: Curve,
    /// Highest learning rate, except for `noam`; default: 5e-4.
    pub peak: f64,
    /// Warm-up steps, from 0 to the peak; default: 4000.
    pub warmup_steps: u64,
    /// Factor of the paper's formula, for `noam` only; default: 1.
    pub factor: f64,
    /// Learning rate at the last step, for `cosine` and `linear`; default: 0.
    pub floor: f64,
    /// Step at which `cosine` and `linear` reach the floor; default: train.max_steps.
    pub total_steps: Option<u64>,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            curve: Curve::InverseSqrt,
            peak: 5e-4,
            warmup_steps: 4000,
            factor: 1.0,
            floor: 0.0,
            total_steps: None,
        }
    }
}

/// Learning rate as a function of the step.
///
/// ```
/// use polyhead_train::schedule::{Schedule, ScheduleConfig};
/// let config = ScheduleConfig { peak: 0.005, warmup_steps: 2000, ..ScheduleConfig::default() };
/// let schedule = Schedule::new(&config, 128, 0)?;
/// assert_eq!([1000, 2000, 8000].map(|step| schedule.rate(step)), [0.0025, 0.005, 0.0025]);
/// # Ok::<(), polyhead_train::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    curve: Curve,
    peak: f64,
    warmup: f64,
    floor: f64,
    total: f64,
}

impl Schedule {
    /// The schedule for a model of width `d_model` and a run of `max_steps` steps, 0 for no limit.
    pub fn new(config: &ScheduleConfig, d_model: usize, max_steps: u64) -> Result<Self> {
        let wrong = |key: &str, found: String, expected: &str| {
            Err(Error::config(
                key,
                format!("{found}, expected {expected}"),
                "see the recipes for usual values",
            ))
        };
        let ScheduleConfig { curve, peak, warmup_steps, factor, floor, total_steps } = *config;
        let warmup = warmup_steps.max(1) as f64;
        let peak = if curve == Curve::Noam { factor / (d_model as f64 * warmup).sqrt() } else { peak };
        if !(peak > 0.0 && peak.is_finite()) {
            let key = if curve == Curve::Noam { "schedule.factor" } else { "schedule.peak" };
            return wrong(key, peak.to_string(), "a learning rate above 0");
        }
        if !(0.0..=peak).contains(&floor) {
            return wrong("schedule.floor", floor.to_string(), "0 to the peak");
        }
        let total = total_steps.unwrap_or(max_steps);
        if matches!(curve, Curve::Cosine | Curve::Linear) && total <= warmup_steps {
            return wrong(
                "schedule.total_steps",
                format!("decay that ends at step {total}"),
                "a step after the warm-up, or train.max_steps",
            );
        }
        Ok(Self { curve, peak, warmup, floor, total: total as f64 })
    }

    /// Learning rate of a step, counted from 1.
    pub fn rate(&self, step: u64) -> f64 {
        let Self { curve, peak, warmup, floor, total } = *self;
        let step = step as f64;
        if step < warmup {
            return peak * step / warmup;
        }
        let done = ((step - warmup) / (total - warmup)).min(1.0);
        match curve {
            Curve::InverseSqrt | Curve::Noam => peak * (warmup / step).sqrt(),
            Curve::Constant => peak,
            Curve::Linear => floor + (peak - floor) * (1.0 - done),
            Curve::Cosine => {
                let [_, cos] = polyhead_tensor::elementary::sin_cos(std::f64::consts::PI * done);
                floor + (peak - floor) * f64::midpoint(1.0, cos)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(curve: Curve) -> Schedule {
        let config =
            ScheduleConfig { curve, peak: 0.4, warmup_steps: 4, floor: 0.1, ..ScheduleConfig::default() };
        Schedule::new(&config, 512, 12).unwrap()
    }

    #[test]
    fn learning_rates_by_hand() {
        let rates = |curve, steps: [u64; 4]| {
            let schedule = schedule(curve);
            steps.map(|step| (schedule.rate(step) * 1e6).round() / 1e6)
        };
        assert_eq!(rates(Curve::InverseSqrt, [1, 4, 16, 64]), [0.1, 0.4, 0.2, 0.1]);
        assert_eq!(rates(Curve::Linear, [2, 8, 12, 99]), [0.2, 0.25, 0.1, 0.1]);
        assert_eq!(rates(Curve::Cosine, [2, 8, 12, 99]), [0.2, 0.25, 0.1, 0.1]);
        assert_eq!(rates(Curve::Constant, [2, 4, 5, 99]), [0.2, 0.4, 0.4, 0.4]);
    }

    #[test]
    fn noam_is_the_papers_formula() {
        let config = ScheduleConfig { curve: Curve::Noam, ..ScheduleConfig::default() };
        let schedule = Schedule::new(&config, 512, 0).unwrap();
        for step in [1_u64, 100, 4000, 4001, 100_000] {
            let (s, warmup) = (step as f64, 4000_f64);
            let paper = 512_f64.powf(-0.5) * s.powf(-0.5).min(s * warmup.powf(-1.5));
            assert!((schedule.rate(step) / paper - 1.0).abs() < 1e-12, "step {step}");
        }
    }

    #[test]
    fn decay_needs_an_end() {
        let config = ScheduleConfig { curve: Curve::Cosine, ..ScheduleConfig::default() };
        let error = Schedule::new(&config, 512, 0).unwrap_err();
        assert!(error.to_string().contains("decay that ends at step 0"), "{error}");
    }
}
