//! The images that a recipe names: idx files, CIFAR's binary files, or folders with a folder for each class.

use std::path::{Path, PathBuf};

use polyhead_engine::image::decode;
use polyhead_engine::image::sets::{FolderImages, ImageSet, class_names, read_cifar, read_folders, read_idx};
use polyhead_engine::image::{Filter, ImageLimits, Preprocessor};

use crate::config::{CorpusConfig, ImagesConfig, RunConfig};
use crate::fingerprint::Fingerprint;
use crate::{Error, Result};

/// Height and width that images of folders are resized to by default.
const SIZE: usize = 224;
/// What a set of images may be.
const EXPECTED: &str = "expected images = \"FOLDER\", images and labels (idx files), or cifar = \"FILE\"";
const HINT: &str = "for instance: train = { images = \"train-images-idx3-ubyte.gz\", labels = \"train-labels-idx1-ubyte.gz\" }";

/// The files of one set.
enum Source<'a> {
    Idx(&'a Path, &'a Path),
    Cifar(&'a Path),
    Folders(&'a Path),
}

impl<'a> Source<'a> {
    fn of(corpus: &'a CorpusConfig, place: &str) -> Result<Self> {
        let CorpusConfig { images, labels, cifar, repeat, .. } = corpus;
        let images_alone = CorpusConfig {
            images: images.clone(),
            labels: labels.clone(),
            cifar: cifar.clone(),
            repeat: *repeat,
            ..CorpusConfig::default()
        };
        match (images, labels, cifar) {
            _ if *corpus != images_alone => {
                let message =
                    format!("a corpus of text, {EXPECTED}: task = \"classify-images\" reads images");
                Err(Error::config(place, message, HINT))
            }
            (Some(images), Some(labels), None) => Ok(Self::Idx(images, labels)),
            (None, None, Some(file)) => Ok(Self::Cifar(file)),
            (Some(folder), None, None) if folder.is_file() => {
                let message = format!("{} is a file, and labels are missing", folder.display());
                Err(Error::config(place, message, HINT))
            }
            (Some(folder), None, None) => Ok(Self::Folders(folder)),
            _ => Err(Error::config(place, format!("incomplete or ambiguous images, {EXPECTED}"), HINT)),
        }
    }
}

/// How the sets of a run are read.
pub(super) struct Reading<'a> {
    images: &'a ImagesConfig,
    /// The steps of the model that the run starts from, for images of folders.
    preprocessor: Option<Preprocessor>,
    /// The channels of the model that the run starts from.
    channels: Option<usize>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(config: &'a RunConfig, own: Option<&Preprocessor>) -> Result<Self> {
        let images = &config.images;
        let channels = config.init.as_ref().and_then(|_| config.model.images()).map(|own| own.channels);
        if let Some(own) = channels.filter(|own| images.channels != 0 && images.channels != *own) {
            let message = format!("{}, but the model that the run starts from reads {own}", images.channels);
            return Err(Error::config("images.channels", message, "leave it out"));
        }
        let sized = |own: &Preprocessor| match images.size {
            0 => own.clone(),
            size => own.with_size([size; 2]),
        };
        Ok(Self { images, preprocessor: own.map(sized), channels })
    }

    /// Reads the sets of a key; validation images must look as those of training.
    pub(super) fn read(
        &self,
        corpora: &[CorpusConfig],
        place: &str,
        train: Option<&ImageSet>,
    ) -> Result<ImageSet> {
        let mut all: Option<ImageSet> = None;
        let names = match train {
            Some(train) => train.names.clone(),
            None => folder_names(corpora, place)?,
        };
        for corpus in corpora {
            let set = self.one(corpus, place, &names)?;
            let first = train.or(all.as_ref());
            if let Some(first) =
                first.filter(|first| (first.size, first.channels) != (set.size, set.channels))
            {
                let looks = |set: &ImageSet| {
                    format!("{}×{} pixels of {} channels", set.size[1], set.size[0], set.channels)
                };
                let message = format!("images of {}, expected {}", looks(&set), looks(first));
                return Err(Error::config(place, message, "all images of a run have one size"));
            }
            for _ in 0..corpus.repeat.unwrap_or(1) {
                match &mut all {
                    None => all = Some(set.clone()),
                    Some(all) => all.extend(set.clone()),
                }
            }
        }
        let mut all = all.ok_or_else(|| Error::config(place, "no images", HINT))?;
        self.name(&mut all, place, train)?;
        Ok(all)
    }

    /// One set, with the channels of the run.
    fn one(&self, corpus: &CorpusConfig, place: &str, names: &[String]) -> Result<ImageSet> {
        let mut set = match Source::of(corpus, place)? {
            Source::Idx(images, labels) => read_idx(images, labels)?,
            Source::Cifar(file) => read_cifar(file)?,
            Source::Folders(folder) => return Ok(read_folders(folder, names, &self.folder_images())?),
        };
        let wanted = self.channels.unwrap_or(self.images.channels);
        if wanted != 0 && wanted != set.channels {
            let pictures = (0..set.len()).map(|index| set.picture(index).with_channels(wanted));
            set.pixels = pictures.flat_map(|picture| picture.data().to_vec()).collect();
            set.channels = wanted;
        }
        Ok(set)
    }

    fn folder_images(&self) -> FolderImages {
        let limits = ImageLimits { max_megapixels: self.images.max_megapixels };
        let channels = match self.images.channels {
            0 => self.channels.unwrap_or(3),
            given => given,
        };
        if let Some(preprocessor) = &self.preprocessor {
            return FolderImages { preprocessor: preprocessor.clone(), channels, limits };
        }
        let size = if self.images.size == 0 { SIZE } else { self.images.size };
        FolderImages::new([size; 2], channels, Filter::default(), limits)
    }

    /// Gives the classes their names, and checks that there are as many as labels.
    fn name(&self, set: &mut ImageSet, place: &str, train: Option<&ImageSet>) -> Result<()> {
        if let Some(train) = train {
            set.names.clone_from(&train.names);
        } else if !self.images.names.is_empty() && set.names.iter().all(|name| name.parse::<u32>().is_ok()) {
            set.names.clone_from(&self.images.names);
        }
        let known = set.names.len();
        if let Some(label) = set.labels.iter().find(|label| **label as usize >= known) {
            let message = format!("label {label}, expected labels from 0 to {}", known.saturating_sub(1));
            let hint = if train.is_some() {
                "train on images of all classes"
            } else {
                "name all classes in images.names"
            };
            return Err(Error::config(place, message, hint));
        }
        if set.names.len() < 2 {
            let message = format!("{known} classes, expected two or more");
            return Err(Error::config(place, message, HINT));
        }
        let mut unique = set.names.clone();
        unique.sort();
        unique.dedup();
        if unique.len() < known {
            return Err(Error::config(
                "images.names",
                "a name twice, expected different ones",
                "correct them",
            ));
        }
        Ok(())
    }
}

/// The classes of the folders of training; empty where files have numbers.
fn folder_names(corpora: &[CorpusConfig], place: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for corpus in corpora {
        if let Source::Folders(folder) = Source::of(corpus, place)? {
            names.extend(class_names(folder)?);
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Classes of folders with a single image.
pub(crate) fn rare_classes(config: &RunConfig) -> Result<Vec<String>> {
    let mut rare = Vec::new();
    for corpus in &config.data.train {
        let Source::Folders(folder) = Source::of(corpus, "data.train")? else { continue };
        for name in class_names(folder)? {
            if decode::files(&folder.join(&name))?.len() == 1 {
                rare.push(name);
            }
        }
    }
    Ok(rare)
}

/// The fingerprints of the files and folders of some sets.
pub(crate) fn fingerprints(corpora: &[CorpusConfig]) -> Result<Vec<Fingerprint>> {
    let paths = corpora.iter().flat_map(|corpus| [&corpus.images, &corpus.labels, &corpus.cifar]);
    paths.flatten().map(|path: &PathBuf| Fingerprint::of(path)).collect()
}
