//! Labelled images of one size, as bytes in memory: idx files (MNIST), CIFAR's binary files, and folders with a folder for each
//! class.

mod cifar;
mod folders;
mod idx;

pub use folders::{FolderImages, class_names};

use super::Picture;

/// Images of one size with their labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSet {
    /// Height and width.
    pub size: [usize; 2],
    /// Channels of a pixel: 1 or 3.
    pub channels: usize,
    /// All images one after the other, rows of pixels with their channels side by side.
    pub pixels: Vec<u8>,
    /// The class of each image.
    pub labels: Vec<u32>,
    /// The names of the classes; numbers where the files have none.
    pub names: Vec<String>,
}

impl ImageSet {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The bytes of an image.
    pub fn image(&self, index: usize) -> &[u8] {
        let length = self.size[0] * self.size[1] * self.channels;
        &self.pixels[index * length..(index + 1) * length]
    }

    /// An image as a picture.
    pub fn picture(&self, index: usize) -> Picture {
        Picture::new(self.size, self.channels, self.image(index).to_vec())
    }

    /// Appends the images of another set of the same size, channels and classes.
    ///
    /// # Panics
    /// If they differ.
    pub fn extend(&mut self, other: Self) {
        assert!((self.size, self.channels) == (other.size, other.channels), "images of one size");
        self.pixels.extend(other.pixels);
        self.labels.extend(other.labels);
    }
}

pub use cifar::read as read_cifar;
pub use folders::read as read_folders;
pub use idx::read as read_idx;
