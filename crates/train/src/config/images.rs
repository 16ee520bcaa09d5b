//! `[images]`: the images of an image classifier or captioner, and their augmentation.

use polyhead_engine::image::ImageLimits;
use serde::{Deserialize, Serialize};

/// `[images]`: how images are read, and how they are changed in training; changes are drawn anew in every epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ImagesConfig {
    /// Height and width that the images of folders and captions are resized to; 0: 224, or with `init` as in the folder; default: 0.
    /// Files of idx and CIFAR keep their size, and so do images with captions if they all have one.
    pub size: usize,
    /// Channels: 1 for grey, 3 for colour; 0: as in the files, of folders 3; default: 0.
    pub channels: usize,
    /// Names of the classes, where the files have numbers; default: these numbers.
    pub names: Vec<String>,
    /// Largest image of a folder in millions of pixels; default: 64.
    pub max_megapixels: f64,
    /// Largest shift in pixels to each side, black outside (a crop of the padded image); default: 0.
    pub shift: usize,
    /// Smallest share of the area that a random crop keeps, resized to the whole (Szegedy et al. 2015); 1 for none; default: 1.
    pub crop: f64,
    /// True if half of the images are mirrored left to right; default: false.
    pub flip: bool,
    /// Number of operations drawn for each image: rotation, shear, brightness, contrast, posterising, solarising, equal range
    /// (RandAugment, Cubuk et al. 2020); default: 0.
    pub operations: usize,
    /// Strength of these operations, from 0 to 1; default: 0.5.
    pub magnitude: f64,
    /// Probability that a rectangle of the image is grey (random erasing, Zhong et al. 2020); default: 0.
    pub erase: f64,
    /// α of mixup (Zhang et al. 2018): each batch is mixed with itself in another order, λ ~ Beta(α, α); from 0, none, to 1;
    /// default: 0.
    pub mixup: f64,
}

impl Default for ImagesConfig {
    fn default() -> Self {
        Self {
            size: 0,
            channels: 0,
            names: Vec::new(),
            max_megapixels: ImageLimits::default().max_megapixels,
            shift: 0,
            crop: 1.0,
            flip: false,
            operations: 0,
            magnitude: 0.5,
            erase: 0.0,
            mixup: 0.0,
        }
    }
}

impl ImagesConfig {
    /// A key with a value that it cannot have: the key, the value, and what is expected.
    pub(crate) fn wrong(&self) -> Option<(&'static str, String, &'static str)> {
        let Self { size, channels, max_megapixels, shift, crop, operations, magnitude, erase, mixup, .. } =
            *self;
        let share = |number: f64| (0.0..=1.0).contains(&number);
        let checks = [
            ("images.size", size.to_string(), size <= 4096, "0 to 4096"),
            ("images.channels", channels.to_string(), [0, 1, 3].contains(&channels), "0, 1 or 3"),
            ("images.max_megapixels", max_megapixels.to_string(), max_megapixels > 0.0, "a number above 0"),
            ("images.shift", shift.to_string(), shift <= 1024, "0 to 1024"),
            ("images.crop", crop.to_string(), crop > 0.0 && crop <= 1.0, "more than 0, at most 1"),
            ("images.operations", operations.to_string(), operations <= 16, "0 to 16"),
            ("images.magnitude", magnitude.to_string(), share(magnitude), "0 to 1"),
            ("images.erase", erase.to_string(), share(erase), "0 to 1"),
            ("images.mixup", mixup.to_string(), share(mixup), "0 to 1"),
        ];
        checks
            .into_iter()
            .find(|(_, _, fits, _)| !fits)
            .map(|(key, found, _, expected)| (key, found, expected))
    }
}
