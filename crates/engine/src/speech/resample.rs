//! Resampling by a windowed sinc: y(t) = Σ x_n · h(t − n), with h a low-pass filter below half of the lower rate.
//!
//! The filter is a sinc times a Kaiser window over 32 zero crossings, read from a table.

use polyhead_tensor::elementary::sin_cos;
use rayon::prelude::*;

/// Zero crossings of the filter to each side.
const CROSSINGS: usize = 32;
/// Entries of the table between two zero crossings.
const ENTRIES: usize = 512;
/// Shape of the Kaiser window.
const BETA: f64 = 9.0;
/// Samples of a part of a long sound.
const PART: usize = 1 << 18;
/// The part of the band that passes.
const PASS: f64 = 0.95;

/// The sound at another rate.
pub fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    let resampling = Resampling::new(samples.len(), from, to);
    let mut out = Vec::with_capacity(resampling.length());
    while out.len() < resampling.length() {
        resampling.next_part(samples, &mut out);
    }
    out
}

/// A change of the rate of a sound, part by part.
#[derive(Debug, Clone)]
pub(super) struct Resampling {
    /// The filter; empty if the rates are the same.
    table: Vec<f64>,
    from: f64,
    to: f64,
    length: usize,
}

impl Resampling {
    /// The change of a sound of `samples` samples.
    pub(super) fn new(samples: usize, from: u32, to: u32) -> Self {
        let table = if from == to { Vec::new() } else { table() };
        let (from, to) = (f64::from(from), f64::from(to));
        let length = if from == to { samples } else { (samples as f64 * to / from).ceil() as usize };
        Self { table, from, to, length }
    }

    /// Number of samples after the change.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Appends the next part to `out`, which holds those before it.
    pub(super) fn next_part(&self, samples: &[f32], out: &mut Vec<f32>) {
        let range = out.len()..self.length.min(out.len() + PART);
        if self.table.is_empty() {
            out.extend_from_slice(&samples[range]);
            return;
        }
        let part: Vec<f32> =
            range.into_par_iter().with_min_len(1024).map(|at| self.at(samples, at)).collect();
        out.extend(part);
    }

    /// One sample.
    fn at(&self, samples: &[f32], index: usize) -> f32 {
        let Self { table, from, to, .. } = self;
        // Zero crossings of the filter per input sample.
        let cutoff = PASS * (to / from).min(1.0);
        let reach = CROSSINGS as f64 / cutoff;
        let center = index as f64 * from / to;
        let first = (center - reach).ceil().max(0.0) as usize;
        let last = ((center + reach).floor() as usize).min(samples.len() - 1);
        let mut sum = 0.0;
        for (at, value) in samples[first..=last].iter().enumerate() {
            let distance = ((first + at) as f64 - center).abs() * cutoff * ENTRIES as f64;
            let entry = distance as usize;
            let part = distance - entry as f64;
            if let [here, next] = table[entry.min(table.len() - 2)..][..2] {
                sum += f64::from(*value) * (here + part * (next - here));
            }
        }
        (sum * cutoff) as f32
    }
}

/// The filter at every distance, in steps of 1 / [`ENTRIES`] zero crossings.
fn table() -> Vec<f64> {
    let all = CROSSINGS * ENTRIES;
    let value = |index: usize| {
        let x = index as f64 / ENTRIES as f64;
        let angle = std::f64::consts::PI * x;
        let sinc = if index == 0 { 1.0 } else { sin_cos(angle)[0] / angle };
        let place = index as f64 / all as f64;
        sinc * bessel(BETA * (1.0 - place * place).max(0.0).sqrt()) / bessel(BETA)
    };
    (0..=all + 1).map(|index| if index > all { 0.0 } else { value(index) }).collect()
}

/// The modified Bessel function of the first kind of order 0, by its series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..64 {
        term *= (x / (2.0 * f64::from(k))).powi(2);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sine of `hertz` at `rate`.
    fn sine(hertz: f64, rate: u32, length: usize) -> Vec<f32> {
        let angle = |at: usize| 2.0 * std::f64::consts::PI * hertz * at as f64 / f64::from(rate);
        (0..length).map(|at| sin_cos(angle(at))[0] as f32).collect()
    }

    #[test]
    fn a_sine_stays_a_sine_and_what_is_too_high_is_removed() {
        for (from, to) in
            [(8_000, 16_000), (44_100, 16_000), (48_000, 16_000), (11_025, 16_000), (16_000, 8_000)]
        {
            let length = from as usize / 2;
            let found = resample(&sine(1_000.0, from, length), from, to);
            assert_eq!(found.len(), (length as f64 * f64::from(to) / f64::from(from)).ceil() as usize);
            let expected = sine(1_000.0, to, found.len());
            // Apart from the ends, where the filter reaches beyond the sound.
            let inner = 800..found.len() - 800;
            for at in inner {
                assert!(
                    (found[at] - expected[at]).abs() < 1e-3,
                    "{from} to {to}, {at}: {} {}",
                    found[at],
                    expected[at]
                );
            }
        }
        let high = resample(&sine(7_000.0, 16_000, 16_000), 16_000, 8_000);
        assert!(high[800..7_200].iter().all(|sample| sample.abs() < 1e-3));
        assert_eq!(resample(&[0.5, 0.25], 16_000, 16_000), [0.5, 0.25]);
        assert_eq!(resample(&[0.5], 8_000, 16_000).len(), 2);
    }
}
