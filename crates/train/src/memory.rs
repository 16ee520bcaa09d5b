//! How much memory a run will need, and how much there is.
//!
//! A parameter has a value, a gradient and two moments of Adam; what a batch keeps for the backward pass, the model tells
//! (`ModelConfig::training_numbers`). The Multi30k recipe, forecast at 658 MB, held 644 MB after 20 steps and 880 MB at most in
//! 41 epochs.

use polyhead_models::ModelConfig;
use polyhead_tensor::Math;

const BYTES: usize = 4;

/// Bytes that a run is expected to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Values, gradients, moments and averages.
    pub parameters: usize,
    /// What the largest batch keeps for the backward pass.
    pub batch: usize,
    /// The text as ids.
    pub data: usize,
}

impl Forecast {
    /// For a model, a count of parameters and the largest batch (rows, source length, target length).
    pub fn new(
        config: &ModelConfig,
        (n_parameters, copies): (usize, usize),
        largest: [usize; 3],
        data: usize,
    ) -> Self {
        Self {
            parameters: n_parameters * copies * BYTES,
            batch: config.training_numbers(largest) * BYTES,
            data,
        }
    }

    /// What of it a GPU holds: bf16 takes half of a batch, and a rounded copy of the parameters besides.
    #[must_use]
    pub fn on_gpu(self, math: Math) -> Self {
        match math {
            Math::F32 | Math::Tf32 => Self { data: 0, ..self },
            Math::Bf16 => {
                Self { parameters: self.parameters + self.parameters / 8, batch: self.batch / 2, data: 0 }
            }
        }
    }

    /// Everything together.
    pub fn total(&self) -> usize {
        self.parameters + self.batch + self.data
    }
}

/// The most memory this process has held, where the system tells.
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kilobytes(&status, "VmHWM:").map(|bytes| bytes as u64)
}

/// Bytes of a line such as `VmHWM:  1234 kB`.
fn kilobytes(text: &str, key: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Bytes that this process may still take, where the system tells: what is free, within the limit of its group.
pub fn available() -> Option<usize> {
    let free = kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    // The group's files in memory can be thrown out, so only what belongs to its processes counts as taken.
    let most =
        std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    let stat = std::fs::read_to_string("/sys/fs/cgroup/memory.stat").ok();
    let taken =
        stat.and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("anon ")?.trim().parse().ok()));
    let group = most.zip(taken).map(|(most, taken): (usize, usize)| most.saturating_sub(taken));
    Some(group.map_or(free, |group| group.min(free)))
}

#[cfg(test)]
mod tests {
    use polyhead_models::TextFacts;
    use serde_json::json;

    use super::*;

    /// A training step at this shape took 659 MB at its highest while logits were kept. They no longer are, and it takes
    /// 384 MB when every batch has the one shape; with changing shapes it is near that number again.
    #[test]
    fn the_forecast_is_near_what_was_measured() {
        let keys = json!({ "preset": "tiny", "n_layers": 4, "d_ff": 256 });
        let config = ModelConfig::from_recipe(keys.as_object().unwrap()).unwrap();
        let facts = TextFacts { vocab_sizes: [9700; 2], ..TextFacts::default() };
        let config = config.with_text(&facts).unwrap();
        let forecast = Forecast::new(&config, (2_566_656, 4), [256, 16, 16], 0);
        let measured = 659e6;
        assert!((forecast.total() as f64 / measured - 1.0).abs() < 0.15, "{forecast:?}");
    }
}
