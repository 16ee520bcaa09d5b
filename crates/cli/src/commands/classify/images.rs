//! `polyhead classify --image`: labels of images.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use polyhead_engine::LoadOptions;
use polyhead_engine::classify::Class;
use polyhead_engine::image::{ImageClassifier, ImageLimits, ImageOptions, decode};
use serde_json::json;

use super::Classify;
use crate::decode_options::positive;
use crate::report::{Misuse, note};

/// Images that are decoded and classified at once.
const CHUNK: usize = 64;

/// The images and how they are read.
#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    /// Classify images instead of texts: PNG or JPEG files, or folders of them
    #[arg(long = "image", value_name = "FILE", num_args = 1.., conflicts_with_all = ["texts", "file"], help_heading = "Images")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ImageReading,
}

/// How images are read.
#[derive(Debug, Args)]
pub(crate) struct ImageReading {
    /// Height and width that images are resized to; positions are interpolated [default: the model's]
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Images")]
    image_size: Option<usize>,
    /// Largest image in millions of pixels, checked before it is decoded
    #[arg(long, value_name = "N", default_value_t = 64.0, value_parser = megapixels, help_heading = "Images")]
    max_megapixels: f64,
}

impl ImageReading {
    /// Options of the classifier.
    pub(crate) fn options(&self) -> ImageOptions {
        ImageOptions { size: self.image_size.map(|side| [side; 2]) }
    }

    /// Limits of each file.
    pub(crate) fn limits(&self) -> ImageLimits {
        ImageLimits { max_megapixels: self.max_megapixels }
    }
}

fn megapixels(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 4096.0 => Ok(number),
        _ => Err("expected a number above 0, up to 4096".into()),
    }
}

impl ImageArguments {
    /// True if there are images to classify.
    pub(crate) fn is_given(&self) -> bool {
        !self.files.is_empty()
    }
}

/// All image files, those of folders in the order of their names.
pub(crate) fn image_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let found = decode::files(path)?;
        if found.is_empty() {
            let message = format!("{}: an empty folder, expected images", path.display());
            return Err(Misuse { message, hint: "name a folder with PNG or JPEG files".into() }.into());
        }
        all.extend(found);
    }
    Ok(all)
}

impl Classify {
    /// Prints a line for each image.
    pub(super) fn classify_images(&self) -> Result<()> {
        let files = image_files(&self.images.files)?;
        let load = |folder: &Path, options: &LoadOptions| {
            ImageClassifier::load(folder, options, self.images.reading.options())
        };
        self.options.with_model(&self.model, load, |classifier| {
            files
                .chunks(CHUNK)
                .enumerate()
                .try_for_each(|(chunk, files)| self.write_images(classifier, files, chunk * CHUNK))
        })
    }

    fn write_images(&self, classifier: &ImageClassifier, files: &[PathBuf], first: usize) -> Result<()> {
        let limits = self.images.reading.limits();
        let read: Vec<_> = files.iter().map(|file| decode::read(file, limits)).collect();
        let pictures: Vec<_> = read.iter().flatten().cloned().collect();
        let mut found = classifier.classify(&pictures)?.into_iter();
        let mut out = std::io::stdout().lock();
        for ((file, read), number) in files.iter().zip(&read).zip(first..) {
            let classes = match read {
                Ok(_) => found.next().unwrap_or_default(),
                Err(reason) => {
                    note(&format!("note: {reason}"));
                    Vec::new()
                }
            };
            let name = file.display().to_string();
            let line = if self.format.is_jsonl() {
                json_line(number, &name, &classes)
            } else {
                self.line(&name, &classes)
            };
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

fn json_line(id: usize, image: &str, classes: &[Class]) -> String {
    let each: Vec<_> = classes
        .iter()
        .map(|class| json!({ "label": class.label, "probability": class.probability }))
        .collect();
    json!({ "id": id, "image": image, "label": classes.first().map(|class| &class.label), "classes": each })
        .to_string()
}
