//! `polyhead inspect` of an encoder.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use polyhead_attention::{Filter, Intervention};
use polyhead_engine::LongTexts;
use polyhead_engine::encoder::HeadedEncoder;
use polyhead_inspect::trace::{CaptureVectors, EncoderOptions, Trace};

use super::files::TraceFormat;
use super::{Inspect, misuse};
use crate::model_folder::report_loaded;
use crate::report::{Failure, grouped, note};

impl Inspect {
    pub(super) fn inspect_encoder(&self, folder: &Path, formats: &[TraceFormat]) -> Result<()> {
        self.language_model.refuse("an encoder")?;
        self.refuse_translation("an encoder")?;
        if self.beam.is_some() {
            let message = "--beam with an encoder, expected a model that searches";
            return Err(misuse(message, "leave it out"));
        }
        let start = Instant::now();
        let encoder = HeadedEncoder::load(folder, &polyhead_engine::LoadOptions::default())?;
        let own = encoder.encoder();
        report_loaded(folder, &own.parameters().device(), "f32", start);
        let sites = own.model().sites();
        if sites.is_empty() {
            let message =
                format!("{}: a model without attention, expected a model with it", folder.display());
            let hint = "polyhead classify runs it; polyhead info describes it".into();
            return Err(Failure { message, hint }.into());
        }
        let (selection, intervention) = self.selection(&sites)?;
        let length = encoder.read(self.text(), self.long())?.1.encoding.len();
        let tokens = format!("{} tokens", grouped(length as u64));
        let is_page = formats.contains(&TraceFormat::Html);
        let options = EncoderOptions {
            long: self.long(),
            n_alternatives: self.alternatives.max(1),
            filter: self.fitting(&sites, |_| length, &selection, &tokens)?,
            vectors: if self.vectors || is_page { CaptureVectors::Yes } else { CaptureVectors::No },
            intervention,
        };
        let traced = |options: &EncoderOptions| {
            Ok(Trace::of_encoding(&encoder, self.text(), options, &|_| ControlFlow::Continue(()))?)
        };
        let trace = traced(&options)?;
        if let Some(found) = trace.encoder().and_then(|found| found.cut_from) {
            note(&format!("note: {found} tokens, cut to {length}"));
        }
        let plain = || {
            let filter = Filter { layers: Some(Vec::new()), ..Filter::default() };
            let intervention = Intervention::default();
            traced(&EncoderOptions { filter, vectors: CaptureVectors::No, intervention, ..options.clone() })
        };
        self.show(trace, plain, formats, (&selection, folder))
    }

    /// What happens to texts that are too long.
    pub(super) fn long(&self) -> LongTexts {
        if self.truncate { LongTexts::Truncate } else { LongTexts::Refuse }
    }
}
