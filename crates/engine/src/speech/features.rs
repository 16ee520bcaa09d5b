//! Log-mel frames: the power of a sound in bands of the mel scale, as Whisper computes it.
//!
//! A frame is 25 ms under a Hann window, every 10 ms; the power of its Fourier transform is summed by triangular filters of
//! equal area (Slaney's mel scale). Then log₁₀, at least 8 below the largest of the sound, plus 4, divided by 4.

use polyhead_models::SpeechRecognizer;
use polyhead_tensor::elementary::{ln, power, sin_cos};
use rayon::prelude::*;

use super::fft::{Complex, Fft, WIDTH};

/// Frames of a second.
pub(super) const FRAMES_PER_SECOND: usize = 100;
/// Frames of a task: two real frames are one complex sequence.
const TOGETHER: usize = 2 * WIDTH;
/// Frames of a part of a long sound.
const PART: usize = 256 * TOGETHER;
/// The smallest power.
const FLOOR: f64 = 1e-10;
/// Range of the logarithm below its maximum.
const RANGE: f32 = 8.0;

/// The computation of log-mel frames at one rate.
#[derive(Debug, Clone)]
pub struct LogMel {
    n_fft: usize,
    hop: usize,
    n_mels: usize,
    normalises: bool,
    window: Vec<f64>,
    fft: Fft,
    /// For each band the first frequency and the weights from there on.
    filters: Vec<(usize, Vec<f64>)>,
}

impl LogMel {
    /// Frames of `n_mels` bands from sounds of `rate` samples per second.
    pub fn new(rate: usize, n_mels: usize) -> Self {
        let (n_fft, hop) = (rate / 40, rate / FRAMES_PER_SECOND);
        let hann = |at: usize| {
            let [_, cos] = sin_cos(2.0 * std::f64::consts::PI * at as f64 / n_fft as f64);
            0.5 - 0.5 * cos
        };
        let window = (0..n_fft).map(hann).collect();
        Self {
            n_fft,
            hop,
            n_mels,
            normalises: false,
            window,
            fft: Fft::new(n_fft),
            filters: filters(rate, n_fft, n_mels),
        }
    }

    /// The frames that a model reads.
    pub fn of(model: &SpeechRecognizer) -> Self {
        let config = model.config();
        Self { normalises: config.normalize_frames, ..Self::new(config.sample_rate, config.n_mels) }
    }

    /// Number of frames of a sound: one for each 10 ms that have begun.
    pub fn n_frames(&self, samples: usize) -> usize {
        samples.div_ceil(self.hop)
    }

    /// Samples of a frame's step.
    pub fn hop(&self) -> usize {
        self.hop
    }

    /// The frames of a sound that silence follows: frames × n_mels.
    pub fn frames(&self, samples: &[f32], frames: usize) -> Vec<f32> {
        let mut all = vec![0.0; frames * self.n_mels];
        self.powers(samples, (0, frames), &mut all);
        self.scale(&mut all);
        all
    }

    /// Computes the next frames of `all`, of which the first `done` are computed; returns how many are computed then. The last
    /// part makes all of them what [`LogMel::frames`] returns.
    pub(super) fn next_part(&self, samples: &[f32], all: &mut [f32], done: usize) -> usize {
        let frames = all.len() / self.n_mels;
        let end = frames.min(done + PART);
        self.powers(samples, (done, frames), &mut all[done * self.n_mels..end * self.n_mels]);
        if end == frames {
            self.scale(all);
        }
        end
    }

    /// The log-power of frames from `first` on, a multiple of [`TOGETHER`], of a sound of `frames` frames.
    fn powers(&self, samples: &[f32], (first, frames): (usize, usize), all: &mut [f32]) {
        let task = TOGETHER * self.n_mels;
        let length = frames * self.hop;
        all.par_chunks_mut(task).enumerate().for_each_init(
            || [vec![Complex::ZERO; self.n_fft], vec![Complex::ZERO; self.n_fft]],
            |[x, other], (index, out)| {
                self.load((samples, length), first + index * TOGETHER, x);
                self.fft.transform(x, other);
                for (frame, out) in out.chunks_exact_mut(self.n_mels).enumerate() {
                    self.bands(x, frame, out);
                }
            },
        );
    }

    /// Limits the range of all frames of a sound, and normalises them if the model wants that.
    fn scale(&self, all: &mut [f32]) {
        let largest = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for value in &mut *all {
            *value = (value.max(largest - RANGE) + 4.0) / 4.0;
        }
        if self.normalises {
            normalise(all);
        }
    }

    /// Windowed frames from `first` on: frame 2i is the real part of sequence i, frame 2i + 1 the imaginary one. A sound is
    /// reflected at its ends, `length` samples with the silence after it.
    fn load(&self, (samples, length): (&[f32], usize), first: usize, x: &mut [Complex]) {
        let half = self.n_fft / 2;
        let sample = |frame: usize, at: usize| {
            let place = ((first + frame) * self.hop + at) as isize - half as isize;
            samples.get(reflected(place, length)).map_or(0.0, |sample| f64::from(*sample))
        };
        for (at, (x, weight)) in x.iter_mut().zip(&self.window).enumerate() {
            x.re = std::array::from_fn(|lane| weight * sample(2 * lane, at));
            x.im = std::array::from_fn(|lane| weight * sample(2 * lane + 1, at));
        }
    }

    /// The log-power of a frame in each band.
    fn bands(&self, x: &[Complex], frame: usize, out: &mut [f32]) {
        let (lane, is_second) = (frame / 2, frame % 2 == 1);
        let n = self.n_fft;
        // Of the sum of a real sequence a and i times another, b: a has (X_k + X̄_{n−k}) / 2, b has (X_k − X̄_{n−k}) / 2i.
        let power = |k: usize| {
            let (here, there) = (&x[k], &x[(n - k) % n]);
            let sign = if is_second { -1.0 } else { 1.0 };
            let re = here.re[lane] + sign * there.re[lane];
            let im = here.im[lane] - sign * there.im[lane];
            (re * re + im * im) / 4.0
        };
        let powers: Vec<f64> = (0..=n / 2).map(power).collect();
        for (out, (first, weights)) in out.iter_mut().zip(&self.filters) {
            let sum: f64 = powers[*first..].iter().zip(weights).map(|(power, weight)| power * weight).sum();
            *out = log10(sum.max(FLOOR)) as f32;
        }
    }
}

/// Shifts and scales numbers to a mean of 0 and a variance of 1; silence becomes 0.
fn normalise(values: &mut [f32]) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let variance = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / count;
    let deviation = if variance > 1e-10 { variance.sqrt() } else { 1.0 };
    for value in values {
        *value = ((f64::from(*value) - mean) / deviation) as f32;
    }
}

/// The index of a sample when a sound is reflected at its ends.
fn reflected(place: isize, length: usize) -> usize {
    let last = length as isize - 1;
    if (0..=last).contains(&place) {
        return place as usize;
    }
    if last == 0 {
        return 0;
    }
    let turn = place.rem_euclid(2 * last);
    (if turn > last { 2 * last - turn } else { turn }) as usize
}

/// log₁₀ x of a positive, normal number.
fn log10(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    (ln(mantissa) + exponent as f64 * std::f64::consts::LN_2) / std::f64::consts::LN_10
}

/// Triangular filters of equal area: for each band the first frequency and the weights from there on.
fn filters(rate: usize, n_fft: usize, n_mels: usize) -> Vec<(usize, Vec<f64>)> {
    let highest = to_mel(rate as f64 / 2.0);
    let edges: Vec<f64> =
        (0..n_mels + 2).map(|edge| to_hertz(highest * edge as f64 / (n_mels + 1) as f64)).collect();
    let hertz = |k: usize| k as f64 * rate as f64 / n_fft as f64;
    let filter = |edges: &[f64]| {
        let [low, center, high] = [edges[0], edges[1], edges[2]];
        let weight = |k: usize| {
            let rising = (hertz(k) - low) / (center - low);
            let falling = (high - hertz(k)) / (high - center);
            rising.min(falling).max(0.0) * 2.0 / (high - low)
        };
        let weights: Vec<f64> = (0..=n_fft / 2).map(weight).collect();
        let first = weights.iter().position(|weight| *weight > 0.0).unwrap_or(0);
        let last = weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
        (first, weights[first..=last].to_vec())
    };
    edges.windows(3).map(filter).collect()
}

/// Slaney's mel scale: linear below 1,000 Hz, logarithmic above.
fn to_mel(hertz: f64) -> f64 {
    if hertz < 1_000.0 { 3.0 * hertz / 200.0 } else { 15.0 + 27.0 * ln(hertz / 1_000.0) / ln(6.4) }
}

fn to_hertz(mel: f64) -> f64 {
    if mel < 15.0 { 200.0 * mel / 3.0 } else { 1_000.0 * power(6.4, (mel - 15.0) / 27.0) }
}

#[cfg(test)]
mod tests {
    use polyhead_models::speech::SpeechConfig;
    use polyhead_tensor::Parameters;

    use super::*;

    #[test]
    fn normalised_frames_do_not_depend_on_loudness() {
        let config =
            SpeechConfig { sample_rate: 8_000, n_mels: 10, vocab_size: 3, ..SpeechConfig::default() };
        let features = LogMel::of(&SpeechRecognizer::new(&config, &mut Parameters::default()).unwrap());
        let sound =
            |factor: f32| -> Vec<f32> { (0..2_000).map(|at| factor * (at as f32 / 9.0).sin()).collect() };
        let [loud, quiet] = [0.5, 0.05].map(|factor| features.frames(&sound(factor), 25));
        for (loud, quiet) in loud.iter().zip(&quiet) {
            assert!((loud - quiet).abs() < 1e-3, "{loud} {quiet}");
        }
        let mean = loud.iter().sum::<f32>() / loud.len() as f32;
        let variance = loud.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / loud.len() as f32;
        assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-3, "{mean} {variance}");
        assert_eq!(features.frames(&[0.0; 100], 2), [0.0; 20]);
        // Not even one hop: one frame, by reflection.
        assert_eq!((features.n_frames(1), features.frames(&[0.3], 1).len()), (1, 10));
    }
}
