//! Folders of images, one for each class, with the name of the class.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::ImageSet;
use crate::image::decode::{self, EXTENSIONS, ImageLimits};
use crate::image::{Filter, Preprocessor};
use crate::{Error, Result};

/// How images of folders become images of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct FolderImages {
    /// Resizes and crops.
    pub preprocessor: Preprocessor,
    /// Channels: 1 or 3.
    pub channels: usize,
    /// Limits of each file.
    pub limits: ImageLimits,
}

impl FolderImages {
    /// Resizes to a size.
    pub fn new(size: [usize; 2], channels: usize, filter: Filter, limits: ImageLimits) -> Self {
        let preprocessor = Preprocessor::new(size, filter, [vec![0.0], vec![1.0]]);
        Self { preprocessor, channels, limits }
    }
}

/// The names of the classes: the folders in `folder`, in the order of their names.
///
/// # Errors
/// If it cannot be read, is empty, or has images beside the folders.
pub fn class_names(folder: &Path) -> Result<Vec<String>> {
    Ok(classes(folder)?.into_iter().map(|(name, _)| name).collect())
}

fn classes(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    const HINT: &str =
        "a data set is a folder with a folder of images for each class, as in train/cat and train/dog";
    let mut found = Vec::new();
    for path in decode::entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            found.push((name, path));
        } else if EXTENSIONS.iter().any(|own| name.to_lowercase().ends_with(&format!(".{own}"))) {
            return Err(Error::file(&path, "an image beside the folders of the classes", HINT));
        }
    }
    if found.is_empty() {
        return Err(Error::file(folder, "an empty folder, expected a folder for each class", HINT));
    }
    Ok(found)
}

/// Reads all images of the folders in `folder`; `names` are the classes that may be there.
///
/// # Errors
/// If a folder is empty, has other files, or is no known class, or an image cannot be read.
pub fn read(folder: &Path, names: &[String], options: &FolderImages) -> Result<ImageSet> {
    let size = options.preprocessor.size().unwrap_or([1, 1]);
    let mut set = ImageSet {
        size,
        channels: options.channels,
        pixels: Vec::new(),
        labels: Vec::new(),
        names: names.to_vec(),
    };
    for (name, path) in classes(folder)? {
        let Some(label) = names.iter().position(|known| *known == name) else {
            let message = format!("class {name:?}, expected one of {}", shown(names));
            return Err(Error::file(
                &path,
                message,
                "the model has no such label: rename or remove the folder",
            ));
        };
        let files = decode::files(&path)?;
        if files.is_empty() {
            return Err(Error::file(
                &path,
                "an empty folder, expected images",
                "add images or remove the folder",
            ));
        }
        let read = |file: &PathBuf| {
            let picture = decode::read(file, options.limits)?.with_channels(options.channels);
            Ok(options.preprocessor.framed(&picture))
        };
        let pictures: Vec<_> = files.par_iter().map(read).collect::<Result<_>>()?;
        for picture in &pictures {
            set.pixels.extend_from_slice(picture.data());
        }
        set.labels.extend(std::iter::repeat_n(label as u32, pictures.len()));
    }
    Ok(set)
}

fn shown(names: &[String]) -> String {
    let shown = names.iter().take(8).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
}
