//! Changes to training images: crop, shift, flip, operations of RandAugment, erasing, and the share of mixup.
//!
//! Every choice is a number of (seed, epoch, image, index of the choice), so it depends neither on the order nor on the number of
//! threads, and a resumed run draws what the uninterrupted one would have drawn.

use std::cell::Cell;

use polyhead_engine::image::Picture;
use polyhead_random::Random;

use crate::config::ImagesConfig;

/// The largest angle of a rotation, in degrees.
const ANGLE: f64 = 30.0;
/// The largest shear.
const SHEAR: f64 = 0.3;
/// The largest change of brightness and contrast.
const CHANGE: f64 = 0.7;
/// The value of erased pixels.
const GREY: u8 = 128;
/// Smallest and largest ratio of width to height of a crop or an erased rectangle.
const RATIO: [f64; 2] = [0.75, 4.0 / 3.0];
/// Shares of the area that an erased rectangle may have.
const ERASED: [f64; 2] = [0.02, 0.2];

/// The changes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Augmentation {
    images: ImagesConfig,
}

/// Choices in their order: each call takes the next number of a stream.
struct Choices {
    random: Random,
    index: Cell<u64>,
}

impl Choices {
    /// A number in [low, high).
    fn between(&self, low: f64, high: f64) -> f64 {
        let index = self.index.get();
        self.index.set(index + 1);
        low + (high - low) * self.random.uniform(index)
    }

    fn below(&self, bound: usize) -> usize {
        (self.between(0.0, bound as f64) as usize).min(bound.saturating_sub(1))
    }

    fn chance(&self, probability: f64) -> bool {
        self.between(0.0, 1.0) < probability
    }

    /// Height and width of a rectangle with a share of the area, within a size.
    fn rectangle(&self, [height, width]: [usize; 2], shares: [f64; 2]) -> [f64; 2] {
        let area = self.between(shares[0], shares[1]) * (height * width) as f64;
        let ratio = self.between(RATIO[0].ln(), RATIO[1].ln()).exp();
        [(area / ratio).sqrt().min(height as f64), (area * ratio).sqrt().min(width as f64)]
    }
}

/// Maps a place in the new image (y, x), counted from its centre, to one in the old image: a 2 × 2 matrix and a shift.
#[derive(Debug, Clone, Copy)]
struct Affine {
    matrix: [f64; 4],
    shift: [f64; 2],
}

impl Augmentation {
    pub(crate) fn new(images: &ImagesConfig) -> Self {
        Self { images: images.clone() }
    }

    /// The image as it is seen once.
    pub(crate) fn changed(&self, picture: Picture, random: Random) -> Picture {
        let ImagesConfig { shift, crop, flip, operations, magnitude, erase, .. } = self.images;
        let choices = Choices { random, index: Cell::new(0) };
        let size = picture.size();
        let mut found = picture;
        if crop < 1.0 {
            let [height, width] = choices.rectangle(size, [crop, 1.0]);
            let room = [size[0] as f64 - height, size[1] as f64 - width];
            let shift = room.map(|room| choices.between(-room / 2.0, room / 2.0));
            let matrix = [height / size[0] as f64, 0.0, 0.0, width / size[1] as f64];
            found = moved(&found, Affine { matrix, shift });
        }
        if shift > 0 {
            let at = || choices.below(2 * shift + 1) as isize - shift as isize;
            let [top, left] = [at(), at()];
            found = found.cropped([top, left], size);
        }
        if flip && choices.chance(0.5) {
            found = found.oriented(2);
        }
        for _ in 0..operations {
            found = operation(&found, &choices, magnitude);
        }
        if erase > 0.0 && choices.chance(erase) {
            found = erased(&found, &choices);
        }
        found
    }

    /// The share of the first image in a mixture, λ ~ Beta(α, α); `None` without mixup.
    ///
    /// Jöhnk's method: u^(1/α) / (u^(1/α) + v^(1/α)) of the first pair whose sum is at most 1.
    pub(crate) fn share(&self, random: Random) -> Option<f32> {
        let alpha = self.images.mixup;
        if alpha == 0.0 {
            return None;
        }
        let pairs =
            (0..1000).map(|pair| [0, 1].map(|side| random.uniform(2 * pair + side).powf(1.0 / alpha)));
        let found = pairs.into_iter().find(|[u, v]| u + v <= 1.0 && u + v > 0.0);
        Some(found.map_or(0.5, |[u, v]| u / (u + v)) as f32)
    }
}

/// One operation of RandAugment.
fn operation(picture: &Picture, choices: &Choices, magnitude: f64) -> Picture {
    let kind = choices.below(8);
    let signed = choices.between(-1.0, 1.0) * magnitude;
    let affine = |matrix| moved(picture, Affine { matrix, shift: [0.0; 2] });
    let by_value = |change: &dyn Fn(f64) -> f64| {
        let data =
            picture.data().iter().map(|&value| change(f64::from(value)).round().clamp(0.0, 255.0) as u8);
        Picture::new(picture.size(), picture.channels(), data.collect())
    };
    match kind {
        0 => {
            let (sin, cos) = polar(signed * ANGLE);
            affine([cos, -sin, sin, cos])
        }
        1 => affine([1.0, signed * SHEAR, 0.0, 1.0]),
        2 => affine([1.0, 0.0, signed * SHEAR, 1.0]),
        3 => by_value(&|value| value * (1.0 + signed * CHANGE)),
        4 => {
            let sum: u64 = picture.data().iter().map(|&value| u64::from(value)).sum();
            let mean = sum as f64 / picture.data().len() as f64;
            by_value(&|value| mean + (value - mean) * (1.0 + signed * CHANGE))
        }
        5 => {
            let kept = 8 - (signed.abs() * 4.0).round() as u32;
            by_value(&|value| f64::from(value as u8 & (0xff_u32 << (8 - kept)) as u8))
        }
        6 => {
            let threshold = 256.0 * (1.0 - signed.abs());
            by_value(&|value| if value < threshold { value } else { 255.0 - value })
        }
        _ => {
            let [low, high] = [picture.data().iter().min(), picture.data().iter().max()]
                .map(|value| f64::from(value.copied().unwrap_or(0)));
            by_value(&|value| if high > low { 255.0 * (value - low) / (high - low) } else { value })
        }
    }
}

/// Sine and cosine of a small angle in degrees, by their series: those of a system differ in the last bit by machine.
fn polar(degrees: f64) -> (f64, f64) {
    let x = degrees * (std::f64::consts::PI / 180.0);
    let (mut sin, mut cos, mut term) = (0.0, 0.0, 1.0);
    for order in 0..20 {
        match order % 4 {
            0 => cos += term,
            1 => sin += term,
            2 => cos -= term,
            _ => sin -= term,
        }
        term *= x / f64::from(order + 1);
    }
    (sin, cos)
}

/// The image under a map, interpolated between four pixels, black outside.
fn moved(picture: &Picture, map: Affine) -> Picture {
    let ([height, width], channels) = (picture.size(), picture.channels());
    let middle = [height as f64 / 2.0, width as f64 / 2.0];
    let value = |y: i64, x: i64, channel: usize| {
        let inside = (0..height as i64).contains(&y) && (0..width as i64).contains(&x);
        if inside {
            f64::from(picture.data()[(y as usize * width + x as usize) * channels + channel])
        } else {
            0.0
        }
    };
    let mut data = Vec::with_capacity(picture.data().len());
    for y in 0..height {
        for x in 0..width {
            let [dy, dx] = [y as f64 + 0.5 - middle[0], x as f64 + 0.5 - middle[1]];
            let from_y = map.matrix[0] * dy + map.matrix[1] * dx + middle[0] + map.shift[0] - 0.5;
            let from_x = map.matrix[2] * dy + map.matrix[3] * dx + middle[1] + map.shift[1] - 0.5;
            let (top, left) = (from_y.floor(), from_x.floor());
            let (down, right) = (from_y - top, from_x - left);
            let (top, left) = (top as i64, left as i64);
            for channel in 0..channels {
                let row = |y| value(y, left, channel) * (1.0 - right) + value(y, left + 1, channel) * right;
                data.push((row(top) * (1.0 - down) + row(top + 1) * down).round() as u8);
            }
        }
    }
    Picture::new([height, width], channels, data)
}

/// The image with a grey rectangle.
fn erased(picture: &Picture, choices: &Choices) -> Picture {
    let ([height, width], channels) = (picture.size(), picture.channels());
    let sides = choices.rectangle([height, width], ERASED).map(|side| (side.round() as usize).max(1));
    let sides = [sides[0].min(height), sides[1].min(width)];
    let [top, left] = [choices.below(height - sides[0] + 1), choices.below(width - sides[1] + 1)];
    let mut data = picture.data().to_vec();
    for y in top..top + sides[0] {
        let start = (y * width + left) * channels;
        data[start..start + sides[1] * channels].fill(GREY);
    }
    Picture::new([height, width], channels, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        Picture::new([6, 8], 3, (0..144).map(|value| (value * 37 % 251) as u8).collect())
    }

    fn all() -> ImagesConfig {
        ImagesConfig {
            shift: 2,
            crop: 0.6,
            flip: true,
            operations: 2,
            erase: 0.5,
            mixup: 0.4,
            ..ImagesConfig::default()
        }
    }

    #[test]
    fn an_image_is_a_pure_function_of_its_stream_and_keeps_its_size() {
        let augmentation = Augmentation::new(&all());
        let of = |stream| augmentation.changed(picture(), Random::new(3).stream(stream));
        let found: Vec<Picture> = (0..40).map(of).collect();
        assert!(found.iter().all(|own| own.size() == [6, 8] && own.channels() == 3));
        assert_eq!(found[7], of(7));
        let differing = found.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(differing > 30, "{differing}");
        assert_eq!(Augmentation::new(&ImagesConfig::default()).changed(picture(), Random::new(1)), picture());
    }

    #[test]
    fn a_map_that_changes_nothing_keeps_every_pixel_and_a_shift_moves_them() {
        let same = Affine { matrix: [1.0, 0.0, 0.0, 1.0], shift: [0.0; 2] };
        assert_eq!(moved(&picture(), same), picture());
        let down = Affine { shift: [2.0, -1.0], ..same };
        assert_eq!(moved(&picture(), down), picture().cropped([2, -1], [6, 8]));
    }

    #[test]
    fn sines_are_those_of_small_angles() {
        let (sin, cos) = polar(30.0);
        assert!((sin - 0.5).abs() < 1e-15 && (cos - 0.75_f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn shares_of_mixup_have_the_moments_of_a_beta_distribution() {
        for alpha in [0.2, 0.5, 1.0] {
            let augmentation = Augmentation::new(&ImagesConfig { mixup: alpha, ..ImagesConfig::default() });
            let share = |stream| f64::from(augmentation.share(Random::new(5).stream(stream)).unwrap());
            let shares: Vec<f64> = (0..4000).map(share).collect();
            let mean = shares.iter().sum::<f64>() / 4000.0;
            let variance = shares.iter().map(|share| (share - 0.5).powi(2)).sum::<f64>() / 4000.0;
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!(
                (mean - 0.5).abs() < 0.02 && (variance - expected).abs() < 0.01,
                "{alpha}: {mean} {variance}"
            );
        }
        assert_eq!(Augmentation::new(&ImagesConfig::default()).share(Random::new(1)), None);
    }

    #[test]
    fn an_erased_rectangle_is_grey_and_small() {
        let choices = Choices { random: Random::new(2), index: Cell::new(0) };
        let found = erased(&Picture::new([20, 20], 1, vec![0; 400]), &choices);
        let grey = found.data().iter().map(|value| usize::from(*value == GREY)).sum::<usize>();
        assert!((4..=110).contains(&grey), "{grey}");
    }
}
