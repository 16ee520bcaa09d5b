//! `polyhead inspect --image`: the attention of an image classifier or a captioner.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use polyhead_attention::Intervention;
use polyhead_engine::image::{CaptionEngine, CaptionOptions, ImageClassifier, decode};
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
        let what = view.name();
        if !matches!(view, View::Image | View::Caption) {
            let message = format!("--image with {what}, expected an image classifier or a captioner");
            return Err(misuse(&message, "give the model a text, or choose a model of images: -m DIR"));
        }
        let Some(file) = &self.image.file else {
            let message = format!("a text for {what}, expected --image FILE");
            return Err(misuse(&message, "name an image: --image FILE"));
        };
        match view {
            View::Image => self.language_model.refuse(what)?,
            _ => self.refuse_page(what, formats)?,
        }
        self.refuse_translation(what)?;
        let given = [
            ("--beam", self.beam.is_some() && view == View::Image),
            ("--words", self.words),
            ("--vectors", self.vectors),
            ("--truncate", self.truncate),
            ("--compare", !self.compare.is_empty()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(misuse(&format!("{name} with {what}, expected a model of text"), "leave it out"));
        }
        if view == View::Caption {
            return self.inspect_caption(folder, file, formats);
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

    /// The cross-attention of a caption.
    fn inspect_caption(&self, folder: &Path, file: &Path, formats: &[TraceFormat]) -> Result<()> {
        let start = Instant::now();
        let options = polyhead_engine::LoadOptions::default();
        let engine = CaptionEngine::load(folder, &options, self.image.reading.options())?;
        report_loaded(folder, &engine.parameters().device(), "f32", start);
        let picture = decode::read(file, self.image.reading.limits())?;
        let selection = self.plain_selection(engine.model().decoder().cross_attention(), View::Caption)?;
        let options = CaptionOptions { beam_size: self.beam, ..CaptionOptions::default() };
        let traced = || Ok(Trace::of_caption(&engine, &picture, file, &options)?);
        self.show(traced()?, traced, formats, (&selection, folder))
    }
}
