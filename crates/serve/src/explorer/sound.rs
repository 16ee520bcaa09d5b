//! The explorer of a speech recogniser: a sound, its words with their times, and what each token attends to.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polyhead_attention::{Filter, Sites};
use polyhead_engine::SpeechEngine;
use polyhead_engine::speech::{MOST_SECONDS, SpeechSummary, SpeechTask, TranscribeOptions, wav};
use polyhead_inspect::export::{SiteJson, json};
use polyhead_inspect::trace::Trace;
use serde_json::json as object;

use super::call::Call;
use super::image::BODY;
use super::inspect::{MAX_F32, skipped};
use super::routes::{self, ExplorerOptions};
use super::{Listening, Port, bind};
use crate::packed::{self, PackedDtype};
use crate::wire::{self, ExplorerLimits, SoundAttentionRequest, SoundModelAnswer, SoundRequest, StackAnswer};
use crate::{Error, Result};

/// Most weights of all layers that a trace has; of more, it has those of the last layer.
const WHOLE: usize = 4_000_000;
/// Bytes of a weight: captured, and its copy.
const WEIGHT: usize = 8;

/// The explorer of a speech recogniser.
#[derive(Debug)]
pub struct SoundExplorer {
    engine: Arc<SpeechEngine>,
    summary: SpeechSummary,
    name: String,
    limits: ExplorerLimits,
}

impl SoundExplorer {
    /// The explorer of a loaded model; `summary` is that of its folder, `name` is shown on the page.
    pub fn new(engine: Arc<SpeechEngine>, summary: SpeechSummary, name: impl Into<String>) -> Self {
        let limits = ExplorerLimits { body: BODY, ..ExplorerLimits::default() };
        Self { engine, summary, name: name.into(), limits }
    }

    /// Binds a port of the loopback address, which only this machine can reach.
    ///
    /// # Errors
    /// If the port is in use, or all that were tried.
    pub fn listen(self, port: Port) -> Result<Listening> {
        let listener = bind(port)?;
        Listening::new(routes::sound_routes(Arc::new(self), ExplorerOptions::default()), listener)
    }

    fn sites(&self) -> Sites {
        Sites::new(vec![self.engine.model().decoder().cross_attention()])
    }

    /// The description of the model.
    pub(super) fn model(&self) -> SoundModelAnswer {
        let group = self.engine.model().decoder().cross_attention();
        let stack =
            StackAnswer { n_layers: group.n_layers, n_heads: group.heads.n_heads, d_key: group.heads.d_key };
        SoundModelAnswer {
            task: "speech",
            name: self.name.clone(),
            stacks: BTreeMap::from([(group.kind.stack, stack)]),
            sites: vec![SiteJson::from(&group)],
            d_model: self.summary.d_model,
            parameters: self.summary.n_parameters,
            languages: self.summary.languages.clone(),
            translates: self.summary.translates,
            seconds: self.summary.max_frames as f64 / 100.0,
            limits: self.limits,
        }
    }

    /// The JSON of a sound's trace: `{"trace", "notes"}`, with the weights of the last layer if there are many.
    pub(super) fn trace(&self, request: &SoundRequest, call: &mut Call) -> Result<String> {
        let (trace, notes) = self.traced(request, call)?;
        let last = self.engine.model().decoder().cross_attention().n_layers.saturating_sub(1);
        let all: usize = trace
            .selected(&Filter::default())
            .iter()
            .flat_map(|own| &own.weights)
            .map(|own| own.numbers().len())
            .sum();
        let filter = Filter { layers: (all > WHOLE).then(|| vec![last]), ..Filter::default() };
        Ok(format!("{{\"notes\":{},\"trace\":{}}}", object!(notes), json(&trace, &filter)))
    }

    /// The JSON of one layer of the cross-attention.
    pub(super) fn attention(&self, request: &SoundAttentionRequest, call: &mut Call) -> Result<String> {
        let SoundAttentionRequest { request, kind, layer } = request;
        let (site, _) = wire::site(kind, *layer, &self.sites())?;
        let (trace, _) = self.traced(request, call)?;
        let filter = Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), ..Filter::default() };
        let found = trace.selected(&filter);
        let Some(found) = found.first() else { return Err(skipped()) };
        let size: usize = found.weights.iter().map(|own| own.numbers().len()).sum();
        let dtype = if size > MAX_F32 { PackedDtype::F16 } else { PackedDtype::F32 };
        Ok(packed::attention(found.site, &found.heads, &found.weights, dtype).to_string())
    }

    /// The trace of a sound, and what was done to it. Its size is checked, and its memory reserved, before it is decoded.
    fn traced(&self, request: &SoundRequest, call: &mut Call) -> Result<(Trace, Vec<String>)> {
        let bytes = STANDARD.decode(&request.sound).map_err(|_| {
            Error::request(
                "a sound that is not base64, expected a WAV file in base64",
                "choose the file again",
            )
        })?;
        let unreadable = |error: polyhead_engine::Error| Error::request(error.to_string(), error.hint());
        let name = "the sound";
        let size = wav::measure(&bytes, name).map_err(unreadable)?;
        if size.seconds > MOST_SECONDS {
            let found = format!("{:.0} s of sound", size.seconds);
            return Err(Error::TooLarge { found, limit: format!("{MOST_SECONDS:.0} s") });
        }
        let resampled = (size.seconds * self.summary.sample_rate as f64).ceil() as usize;
        let samples = 2 * (size.samples + resampled) * size_of::<f32>();
        call.reserve(bytes.len() + samples + self.pass_memory())?;
        call.check()?;
        let sound = wav::decode(&bytes, name, MOST_SECONDS).map_err(unreadable)?;
        drop(bytes);
        let (samples, notes) = self.engine.samples(&sound);
        call.check()?;
        let task = if request.translate { SpeechTask::Translate } else { SpeechTask::Transcribe };
        let options =
            TranscribeOptions { language: request.language.clone(), task, ..TranscribeOptions::default() };
        let trace = Trace::of_speech(&self.engine, &samples, &options)?;
        call.check()?;
        Ok((trace, notes))
    }

    /// Memory of a pass over a window that captures all cross-attention, in bytes.
    fn pass_memory(&self) -> usize {
        let SpeechSummary { max_frames, n_mels, d_model, n_heads, max_tokens, .. } = self.summary;
        let group = self.engine.model().decoder().cross_attention();
        let window = self.summary.window();
        let weights = group.n_layers * group.heads.n_heads * max_tokens * window * WEIGHT;
        weights + (window * (16 * d_model + n_heads) + 2 * max_frames * n_mels) * size_of::<f32>()
    }
}
