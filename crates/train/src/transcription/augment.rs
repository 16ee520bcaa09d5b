//! Changes to sounds that make a recogniser robust to voices and rooms that the training data lack. Each is a pure function of
//! its random numbers.
//!
//! *Speed*: a sound is played faster or slower, which changes its pitch too (Ko et al. 2015). *Noise*: white noise, 10 to 40 dB
//! below the sound. *Masks*: spans of frames and of mel bands are replaced by the mean (SpecAugment, Park et al. 2019).

use polyhead_engine::speech::resample;
use polyhead_random::Random;

use crate::config::SoundConfig;

/// Decibels of the sound above the noise: least and range.
const NOISE: [f64; 2] = [10.0, 30.0];
/// Frames of the widest mask.
const WIDEST: usize = 20;
/// Part of a sound, or of the bands, that a mask covers at most.
const PART: usize = 5;
/// Samples per second that stand for the unchanged speed.
const UNIT: u32 = 10_000;

/// The speed of a sound in ten-thousandths of its own.
pub(super) fn speed(config: SoundConfig, random: Random) -> u32 {
    let change = config.speed * (2.0 * random.uniform(0) - 1.0);
    ((1.0 + change) * f64::from(UNIT)).round() as u32
}

/// Number of samples after a change of speed.
pub(super) fn length(samples: usize, speed: u32) -> usize {
    if speed == UNIT {
        samples
    } else {
        (samples as f64 * f64::from(UNIT) / f64::from(speed)).ceil() as usize
    }
}

/// The sound at another speed and with noise.
pub(super) fn changed(samples: &[f32], speed: u32, config: SoundConfig, random: Random) -> Vec<f32> {
    let mut samples = resample(samples, speed, UNIT);
    if random.uniform(1) < config.noise {
        let power = samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>();
        let decibels = NOISE[0] + NOISE[1] * random.uniform(2);
        let deviation = (power / samples.len().max(1) as f64).sqrt() * 10_f64.powf(-decibels / 20.0);
        // A uniform number has a variance of 1/12.
        let width = deviation * 12_f64.sqrt();
        let noise = random.stream(3);
        for (sample, at) in samples.iter_mut().zip(0..) {
            *sample += (width * (noise.uniform(at) - 0.5)) as f32;
        }
    }
    samples
}

/// Masks spans of frames and bands of `frames`, n_mels numbers each.
pub(super) fn mask(frames: &mut [f32], n_mels: usize, config: SoundConfig, random: Random) {
    let count = frames.len() / n_mels;
    let mean = frames.iter().sum::<f32>() / frames.len().max(1) as f32;
    let span = |random: Random, all: usize, widest: usize| {
        let width = random.below(widest + 1, 0);
        let first = random.below(all - width + 1, 1);
        first..first + width
    };
    for index in 0..config.time_masks {
        let range = span(random.stream(100 + index as u64), count, WIDEST.min(count / PART));
        frames[range.start * n_mels..range.end * n_mels].fill(mean);
    }
    for index in 0..config.band_masks {
        let range = span(random.stream(200 + index as u64), n_mels, n_mels / PART);
        frames.chunks_exact_mut(n_mels).for_each(|frame| frame[range.clone()].fill(mean));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: SoundConfig = SoundConfig { speed: 0.1, noise: 1.0, time_masks: 2, band_masks: 2 };

    #[test]
    fn nothing_changes_without_settings_and_everything_is_a_function_of_the_random_numbers() {
        let sound: Vec<f32> = (0..800).map(|at| (at as f32 / 9.0).sin()).collect();
        let none = SoundConfig::default();
        assert_eq!(speed(none, Random::new(3)), UNIT);
        assert_eq!(changed(&sound, UNIT, none, Random::new(3)), sound);
        let both = [5, 5].map(|seed| changed(&sound, speed(ALL, Random::new(seed)), ALL, Random::new(seed)));
        assert_eq!(both[0], both[1]);
        assert_ne!(both[0], changed(&sound, speed(ALL, Random::new(6)), ALL, Random::new(6)));
        for seed in 0..50 {
            let speed = speed(ALL, Random::new(seed));
            assert!((9_000..=11_000).contains(&speed), "{speed}");
            assert_eq!(changed(&sound, speed, ALL, Random::new(seed)).len(), length(800, speed));
        }
    }

    #[test]
    fn masks_cover_a_part_of_frames_and_bands() {
        let mut seen = [false; 2];
        for seed in 0..40 {
            let mut frames: Vec<f32> = (0..50 * 20).map(|at| at as f32).collect();
            let before = frames.clone();
            mask(&mut frames, 20, ALL, Random::new(seed));
            let changed = frames.iter().zip(&before).filter(|(a, b)| a != b).count();
            assert!(changed <= 2 * (10 * 20 + 4 * 50), "{changed}");
            seen[usize::from(changed > 0)] = true;
        }
        assert!(seen[1]);
        mask(&mut [1.0; 20], 20, ALL, Random::new(1));
    }
}
