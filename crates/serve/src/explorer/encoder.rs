//! The explorer of an encoder: a text, the states of its tokens, and what the head makes of them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use polyhead_attention::{Filter, Site, SiteGroup};
use polyhead_engine::LongTexts;
use polyhead_engine::encoder::HeadedEncoder;
use polyhead_inspect::export::{MAX_STATES, SiteJson, json, states};
use polyhead_inspect::states::StateReader;
use polyhead_inspect::trace::encoder::{EncoderPass, observe_encoder};
use polyhead_inspect::trace::text::TextCallback;
use polyhead_inspect::trace::{CaptureVectors, EncoderOptions, ObserveOptions, Trace};

use super::call::Call;
use super::compare::Compared;
use super::inspect::{MAX_F32, STATES, WEIGHT_MEMORY, at_most, skipped};
use super::routes::{self, ExplorerOptions};
use super::{Listening, Port, bind};
use crate::packed::{self, PackedDtype};
use crate::wire::{
    self, CompareRequest, EncoderModelAnswer, EncoderRequest, ExplorerLimits, InterventionRequest,
    StackAnswer, StatesRequest, TextAttentionRequest,
};
use crate::{Error, Result};

/// Most probable words at each token.
const N_ALTERNATIVES: usize = 8;
/// Rows of logits in memory at once, with their copies.
const LOGIT_ROWS: usize = 128;
/// Bytes of memory for a token of a distribution, or a class: as a value, and as text three times.
const PREDICTED_MEMORY: usize = 800;
/// Outputs that a pass keeps of each layer, as captured and on the host.
const LAYER_OUTPUTS: usize = 8;

/// The explorer of an encoder.
#[derive(Debug)]
pub struct EncoderExplorer {
    encoder: Arc<HeadedEncoder>,
    name: String,
    pub(super) limits: ExplorerLimits,
}

impl EncoderExplorer {
    /// The explorer of a loaded model; `name` is shown on the page.
    pub fn new(encoder: Arc<HeadedEncoder>, name: impl Into<String>) -> Self {
        Self { encoder, name: name.into(), limits: ExplorerLimits::default() }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(self, limits: ExplorerLimits) -> Self {
        Self { limits, ..self }
    }

    /// Binds a port of the loopback address, which only this machine can reach.
    ///
    /// # Errors
    /// If the port is in use, or all that were tried.
    pub fn listen(self, port: Port) -> Result<Listening> {
        let listener = bind(port)?;
        Listening::new(routes::encoder_routes(Arc::new(self), ExplorerOptions::default()), listener)
    }

    /// The description of the model.
    pub(super) fn model(&self) -> EncoderModelAnswer {
        let encoder = self.encoder.encoder();
        let model = encoder.model();
        let sites = model.sites();
        let stack = |group: &SiteGroup| {
            let SiteGroup { kind, n_layers, heads } = *group;
            (kind.stack, StackAnswer { n_layers, n_heads: heads.n_heads, d_key: heads.d_key })
        };
        let shapes = encoder.parameters().declared();
        let (head, mask) = match &*self.encoder {
            HeadedEncoder::States(_) => ("none", None),
            HeadedEncoder::Classes(_) => ("classes", None),
            HeadedEncoder::Tags(_) => ("token_classes", None),
            HeadedEncoder::Words(filler) => ("masked_words", Some(filler.mask().to_owned())),
        };
        EncoderModelAnswer {
            task: "encoder",
            name: self.name.clone(),
            stacks: sites.stacks().into_iter().map(stack).collect::<BTreeMap<_, _>>(),
            sites: sites.groups().iter().map(SiteJson::from).collect(),
            d_model: model.config().d_model(),
            vocab_size: model.vocab_size(),
            max_len: encoder.max_len(),
            parameters: shapes.map(|(_, _, shape)| shape.iter().product::<usize>()).sum(),
            head,
            labels: model.labels().to_vec(),
            mask,
            limits: self.limits,
        }
    }

    /// The JSON of a text's trace: `{"trace"}`.
    pub(super) fn trace(&self, request: &EncoderRequest, call: &mut Call) -> Result<String> {
        at_most(request.text.chars().count(), self.limits.text, "characters")?;
        let length = self.encoder.read(&request.text, LongTexts::Truncate)?.1.encoding.len();
        at_most(length, self.limits.tokens, "tokens")?;
        let filter = self.filter(request, length);
        let states = if length <= MAX_STATES { self.states_memory(length) } else { 0 };
        call.reserve(self.pass_memory(length, &filter) + states + self.head_memory(length))?;
        let stop = call.stop.clone();
        let watcher: TextCallback<'_> =
            &|_| if stop.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        call.check()?;
        let options = EncoderOptions {
            long: LongTexts::Truncate,
            n_alternatives: N_ALTERNATIVES,
            filter,
            vectors: CaptureVectors::No,
            intervention: request.intervention.intervention(&self.encoder.encoder().model().sites())?,
        };
        let trace = Trace::of_encoding(&self.encoder, &request.text, &options, watcher)?;
        call.check()?;
        Ok(format!("{{\"trace\":{}}}", json(&trace, &Filter::default())))
    }

    /// The JSON of the states of tokens.
    pub(super) fn states(&self, request: &StatesRequest, call: &mut Call) -> Result<String> {
        let StatesRequest { ids, shown, intervention } = request;
        at_most(shown.len(), ids.len(), "tokens with places")?;
        for index in shown {
            wire::check_index("position", *index, ids.len())?;
        }
        let none = Filter { layers: Some(Vec::new()), ..Filter::default() };
        let memory = self.states_memory(ids.len());
        let found =
            self.observed(ids, intervention, (none, CaptureVectors::No, self.limits.neurons, memory), call)?;
        let dtype = if ids.len() > MAX_STATES { PackedDtype::F16 } else { PackedDtype::F32 };
        let found = found.states.ok_or_else(|| {
            Error::request("a model without states of tokens", "the other views do not need them")
        })?;
        call.check()?;
        Ok(states(&found, shown, |matrix| packed::matrix(matrix, dtype)).to_string())
    }

    /// The JSON of one attention site.
    pub(super) fn attention(&self, request: &TextAttentionRequest, call: &mut Call) -> Result<String> {
        let found = self.site(request, (self.limits.tokens, CaptureVectors::No), call)?;
        let Some(found) = found.attentions.first() else { return Err(skipped()) };
        let weights: Vec<_> = found.weights.iter().collect();
        let size: usize = weights.iter().map(|own| own.numbers().len()).sum();
        let dtype = if size > MAX_F32 { PackedDtype::F16 } else { PackedDtype::F32 };
        Ok(packed::attention(found.site, &found.heads, &weights, dtype).to_string())
    }

    /// The JSON of one head's queries and keys.
    pub(super) fn neurons(&self, request: &TextAttentionRequest, call: &mut Call) -> Result<String> {
        let found = self.site(request, (self.limits.neurons, CaptureVectors::Yes), call)?;
        let Some(found) = found.vectors.first() else { return Err(skipped()) };
        Ok(packed::vectors(found, PackedDtype::F32).to_string())
    }

    /// The JSON of words compared in their contexts.
    pub(super) fn compare(&self, request: &CompareRequest, call: &mut Call) -> Result<String> {
        let none = Filter { layers: Some(Vec::new()), ..Filter::default() };
        let compared = Compared {
            reader: StateReader::Encoder(&self.encoder),
            layers: self.layers(),
            width: self.width(),
            pass: &|length| self.pass_memory(length, &none),
        };
        compared.answer(request, &self.limits, call)
    }

    /// A pass with one attention site.
    fn site(
        &self,
        request: &TextAttentionRequest,
        (limit, vectors): (usize, CaptureVectors),
        call: &mut Call,
    ) -> Result<EncoderPass> {
        let TextAttentionRequest { ids, kind, layer, head, intervention } = request;
        let sites = self.encoder.encoder().model().sites();
        let (site, group): (Site, _) = wire::site(kind, *layer, &sites)?;
        if let Some(head) = head {
            wire::check_index("head", *head, group.heads.n_heads)?;
        }
        let heads = head.map(|head| vec![head]);
        let filter =
            Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), heads, ..Filter::default() };
        self.observed(ids, intervention, (filter, vectors, limit, 0), call)
    }

    /// A pass over tokens within limits; `memory` is what its answer needs besides.
    fn observed(
        &self,
        ids: &[u32],
        intervention: &InterventionRequest,
        (filter, vectors, limit, memory): (Filter, CaptureVectors, usize, usize),
        call: &mut Call,
    ) -> Result<EncoderPass> {
        let encoder = self.encoder.encoder();
        at_most(ids.len(), limit.min(encoder.max_len()), "tokens")?;
        if ids.is_empty() {
            let message = "no tokens, expected at least one";
            return Err(Error::request(message, "POST /api/encoder/trace returns them"));
        }
        for id in ids {
            wire::check_index("token", *id as usize, encoder.model().vocab_size())?;
        }
        call.reserve(self.pass_memory(ids.len(), &filter) + memory)?;
        call.check()?;
        let intervention = intervention.intervention(&encoder.model().sites())?;
        let intervention = Some(&intervention).filter(|changed| !changed.is_empty());
        Ok(observe_encoder(encoder, ids, &ObserveOptions { filter, vectors, intervention })?)
    }

    /// The attention of a trace: all, or that of the last layer if the text is long.
    fn filter(&self, request: &EncoderRequest, length: usize) -> Filter {
        let layers = match self.layers().checked_sub(1) {
            _ if request.without_weights => Some(Vec::new()),
            Some(last) if length > self.limits.whole => Some(vec![last]),
            _ => None,
        };
        Filter { layers, ..Filter::default() }
    }

    /// Number of layers with attention.
    fn layers(&self) -> usize {
        let sites = self.encoder.encoder().model().sites();
        sites.groups().iter().map(|group| group.n_layers).max().unwrap_or(0)
    }

    fn width(&self) -> usize {
        self.encoder.encoder().model().config().d_model()
    }

    /// Memory of a pass over `length` tokens that captures the attention of `filter` and all states, in bytes.
    fn pass_memory(&self, length: usize, filter: &Filter) -> usize {
        let model = self.encoder.encoder().model();
        let captured = |group: &SiteGroup| {
            let all = |layer: usize| filter.accepts(Site { kind: group.kind, layer });
            let heads = filter.heads.as_ref().map_or(group.heads.n_heads, Vec::len);
            (0..group.n_layers).filter(|layer| all(*layer)).count() * heads
        };
        let n_heads: usize = model.sites().groups().iter().map(captured).sum();
        let weights = n_heads * length * length * WEIGHT_MEMORY;
        let width = self.width() * size_of::<f32>();
        weights + length * width * (STATES + LAYER_OUTPUTS * (self.layers() + 1))
    }

    /// Memory of the places and similarities of tokens in all layers.
    fn states_memory(&self, length: usize) -> usize {
        let components = length * (length + self.width()) * 2 * size_of::<f64>();
        (self.layers() + 2) * length * (length + 2) * WEIGHT_MEMORY + components
    }

    /// Memory of the output of the head.
    fn head_memory(&self, length: usize) -> usize {
        let model = self.encoder.encoder().model();
        match &*self.encoder {
            HeadedEncoder::States(_) => self.width() * WEIGHT_MEMORY,
            HeadedEncoder::Classes(_) => model.labels().len() * PREDICTED_MEMORY,
            HeadedEncoder::Tags(_) => length * model.labels().len() * PREDICTED_MEMORY,
            HeadedEncoder::Words(_) => {
                LOGIT_ROWS * model.vocab_size() * size_of::<f32>()
                    + length * (N_ALTERNATIVES + 1) * PREDICTED_MEMORY
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use polyhead_engine::LoadOptions;
    use polyhead_models::checkpoint::{SaveOptions, save};
    use polyhead_models::{Model, ModelConfig};
    use polyhead_tensor::Parameters;

    use super::super::call::Stop;
    use super::*;
    use crate::front::body::BodyLimits;
    use crate::front::budget::MemoryBudget;

    fn write(folder: &Path) {
        let config = serde_json::json!({
            "model_type": "polyhead_bert", "vocab_size": 8, "d_model": 8, "max_len": 64,
            "encoder": { "n_layers": 2, "n_heads": 2, "d_ff": 12 }, "head": "masked_language_model",
            "special_tokens": true,
        });
        let config: ModelConfig = serde_json::from_value(config).unwrap();
        let mut parameters = Parameters::default();
        Model::new(&config, &mut parameters).unwrap();
        parameters.initialise(5);
        save(folder, &config, &parameters, &SaveOptions::default()).unwrap();
        std::fs::write(folder.join("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nbank\nmy\nthe\n")
            .unwrap();
    }

    fn explorer() -> EncoderExplorer {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let encoder = HeadedEncoder::load(folder.path(), &LoadOptions::default()).unwrap();
        EncoderExplorer::new(Arc::new(encoder), "tiny")
    }

    /// A call with this much memory and time.
    fn call(memory: usize, limit: Duration) -> Call {
        let reserve =
            |memory| Arc::new(MemoryBudget::new(memory)).reserve(&BodyLimits::default().client, 1).unwrap();
        Call { memory: reserve(memory), stop: Stop::new(limit), _place: reserve(9), turn: None }
    }

    fn answers(explorer: &EncoderExplorer, call: impl Fn() -> Call) -> [Result<String>; 4] {
        let ids = vec![5; 40];
        let text = EncoderRequest { text: "bank my ".repeat(20), ..EncoderRequest::default() };
        let intervention = InterventionRequest::default;
        let shown = (0..40).collect();
        let states = StatesRequest { ids: ids.clone(), shown, intervention: intervention() };
        let kind = "encoder".to_owned();
        let attention =
            TextAttentionRequest { ids, kind, layer: 0, head: None, intervention: intervention() };
        let compare = CompareRequest { texts: vec!["bank my ".repeat(20)], words: vec!["bank".into()] };
        let finished = |work: &dyn Fn(&mut Call) -> Result<String>| {
            let mut call = call();
            let found = work(&mut call);
            call.finish(found).map(|answer| String::from_utf8(answer.counted("").to_vec()).unwrap())
        };
        [
            finished(&|call| explorer.trace(&text, call)),
            finished(&|call| explorer.states(&states, call)),
            finished(&|call| explorer.attention(&attention, call)),
            finished(&|call| explorer.compare(&compare, call)),
        ]
    }

    #[test]
    fn memory_that_can_never_be_had_is_refused_before_the_work() {
        for found in answers(&explorer(), || call(10_000, Duration::from_secs(60))) {
            assert!(matches!(found, Err(Error::TooLarge { .. })), "{found:?}");
        }
    }

    #[test]
    fn work_ends_at_its_deadline_and_estimates_are_above_the_answers() {
        let explorer = explorer();
        for found in answers(&explorer, || call(1 << 30, Duration::ZERO)) {
            let error = found.unwrap_err();
            assert!(error.to_string().contains("was not finished within its deadline"), "{error}");
        }
        let estimate = explorer.pass_memory(42, &Filter::default())
            + explorer.states_memory(42)
            + explorer.head_memory(42);
        for found in answers(&explorer, || call(1 << 30, Duration::from_secs(60))) {
            assert!(found.unwrap().len() < estimate);
        }
    }
}
