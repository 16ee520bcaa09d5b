//! Memory that a run needs, and memory available.
//!
//! A parameter has a value, a gradient and two Adam moments; the activations that a batch stores for the backward pass are
//! estimated by `ModelConfig::activation_elements`. The Multi30k recipe, forecast at 658 MB, used 644 MB after 20 steps and at
//! most 880 MB in 41 epochs.

use polyhead_models::ModelConfig;
use polyhead_tensor::Math;

const BYTES: usize = 4;

/// Estimated memory of a run, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Values, gradients, Adam moments and moving average.
    pub parameters: usize,
    /// Activations of the largest batch, stored for the backward pass.
    pub batch: usize,
    /// The text as ids.
    pub data: usize,
}

impl Forecast {
    /// Forecast for a model, its parameter count with copies per parameter, the largest batch (rows, source length, target
    /// length), and the data in bytes.
    pub fn new(
        config: &ModelConfig,
        (n_parameters, copies): (usize, usize),
        largest: [usize; 3],
        data: usize,
    ) -> Self {
        Self {
            parameters: n_parameters * copies * BYTES,
            batch: config.activation_elements(largest) * BYTES,
            data,
        }
    }

    /// The part that a GPU holds: bf16 halves a batch and adds a rounded copy of the parameters.
    #[must_use]
    pub fn on_gpu(self, math: Math) -> Self {
        match math {
            Math::F32 | Math::Tf32 => Self { data: 0, ..self },
            Math::Bf16 => {
                Self { parameters: self.parameters + self.parameters / 8, batch: self.batch / 2, data: 0 }
            }
        }
    }

    /// Sum in bytes.
    pub fn total(&self) -> usize {
        self.parameters + self.batch + self.data
    }
}

/// Peak memory of this process in bytes, if the system reports it.
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kilobytes(&status, "VmHWM:").map(|bytes| bytes as u64)
}

/// Bytes of a line such as `VmHWM:  1234 kB`.
fn kilobytes(text: &str, key: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Memory available to this process in bytes, if the system reports it: free memory, within the limit of its cgroup.
pub fn available() -> Option<usize> {
    let free = kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    // The cgroup's page cache can be evicted, so only anonymous memory counts as used.
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
    use polyhead_models::DataSpec;
    use serde_json::json;

    use super::*;

    /// A training step at this shape took at most 659 MB while logits were stored. They no longer are, and it takes 384 MB if
    /// every batch has the same shape; with varying shapes it is near 659 MB again.
    #[test]
    fn the_forecast_is_near_the_measurement() {
        let keys = json!({ "preset": "tiny", "n_layers": 4, "d_ff": 256 });
        let config = ModelConfig::from_recipe(keys.as_object().unwrap()).unwrap();
        let facts = DataSpec { vocab_sizes: [9700; 2], ..DataSpec::default() };
        let config = config.with_data(&facts).unwrap();
        let forecast = Forecast::new(&config, (2_566_656, 4), [256, 16, 16], 0);
        let measured = 659e6;
        assert!((forecast.total() as f64 / measured - 1.0).abs() < 0.15, "{forecast:?}");
    }
}
