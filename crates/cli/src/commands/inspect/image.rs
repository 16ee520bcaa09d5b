//! `polyhead inspect --image`: the attention of an image classifier.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::Intervention;
use polyhead_engine::image::{ImageClassifier, decode};
use polyhead_inspect::trace::Trace;
use polyhead_models::View;

use super::files::TraceFormat;
use super::{Inspect, misuse};
use crate::commands::classify::ImageReading;
use crate::model_folder::report_loaded;

/// The image, and how it is read.
#[derive(Debug, Args)]
pub(crate) struct ImageArgument {
    /// Image to inspect instead of a text: a PNG or JPEG file
    #[arg(
        id = "image",
        long = "image",
        value_name = "FILE",
        conflicts_with = "texts",
        help_heading = "Images"
    )]
    file: Option<PathBuf>,
    #[command(flatten)]
    reading: ImageReading,
}

impl ImageArgument {
    /// True if an image is named.
    pub(crate) fn is_given(&self) -> bool {
        self.file.is_some()
    }
}

impl Inspect {
    pub(super) fn inspect_image(&self, (folder, view): (&Path, View), formats: &[TraceFormat]) -> Result<()> {
        const WHAT: &str = "an image classifier";
        let Some(file) = &self.image.file else {
            return Err(misuse(
                "a text for an image classifier, expected --image FILE",
                "name an image: --image FILE",
            ));
        };
        if view != View::Image {
            let message = format!("--image with {}, expected an image classifier", view.name());
            return Err(misuse(&message, "give the model a text, or choose an image classifier: -m DIR"));
        }
        self.language_model.refuse(WHAT)?;
        self.refuse_translation(WHAT)?;
        let given = [
            ("--beam", self.beam.is_some()),
            ("--words", self.words),
            ("--vectors", self.vectors),
            ("--truncate", self.truncate),
            ("--compare", !self.compare.is_empty()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(misuse(&format!("{name} with {WHAT}, expected a model of text"), "leave it out"));
        }
        let start = Instant::now();
        let options = polyhead_engine::LoadOptions::default();
        let classifier = ImageClassifier::load(folder, &options, self.image.reading.options())?;
        report_loaded(folder, &classifier.parameters().device(), "f32", start);
        let picture = decode::read(file, self.image.reading.limits())?;
        let (selection, intervention) = self.selection(&classifier.model().sites())?;
        let traced =
            |intervention: &Intervention| Ok(Trace::of_image(&classifier, &picture, file, intervention)?);
        let trace = traced(&intervention)?;
        self.show(trace, || traced(&Intervention::default()), formats, (&selection, folder))
    }
}
