//! The explorer of a language model: a text, its next-token distributions, and what the layers do to them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use polyhead_attention::{Filter, Site, SiteGroup};
use polyhead_engine::Generator;
use polyhead_inspect::export::{SiteJson, contributions, json, lens};
use polyhead_inspect::trace::text::{
    Continuation, LensPositions, Target, TextCallback, TextInput, TextOptions, TextProgress,
};
use polyhead_inspect::trace::{CaptureVectors, Trace};
use serde_json::json as object;

use super::call::Call;
use super::inspect::{MAX_F32, STATES, WEIGHT_MEMORY, at_most, skipped};
use super::routes::{self, ExplorerOptions};
use super::{Listening, Port, bind};
use crate::Result;
use crate::packed::{self, PackedDtype};
use crate::wire::{
    self, ContributionsRequest, ExplorerLimits, InterventionRequest, LensRequest, StackAnswer,
    TextAttentionRequest, TextModelAnswer, TextRequest,
};

/// Most probable tokens after each token.
const N_ALTERNATIVES: usize = 8;

/// Most tokens that a request generates.
const MAX_GENERATED: usize = 256;

/// Rows of logits in memory at once, with their copies.
const LOGIT_ROWS: usize = 128;

/// Bytes of memory for a token of a distribution: as a value, and as text three times.
const PREDICTED_MEMORY: usize = 800;

/// Receives a line of JSON about the growing text; `Break` cancels the call.
pub(super) type LineCallback<'a> = &'a dyn Fn(String) -> ControlFlow<()>;

/// The explorer of a language model.
#[derive(Debug)]
pub struct TextExplorer {
    pub(super) generator: Arc<Generator>,
    name: String,
    pub(super) limits: ExplorerLimits,
}

impl TextExplorer {
    /// The explorer of a loaded model; `name` is shown on the page.
    pub fn new(generator: Arc<Generator>, name: impl Into<String>) -> Self {
        Self { generator, name: name.into(), limits: ExplorerLimits::default() }
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
        Listening::new(routes::text_routes(Arc::new(self), ExplorerOptions::default()), listener)
    }

    /// The description of the model.
    pub(super) fn model(&self) -> TextModelAnswer {
        let model = self.generator.model();
        let sites = model.sites();
        let stack = |group: &SiteGroup| {
            let SiteGroup { kind, n_layers, heads } = *group;
            (kind.stack, StackAnswer { n_layers, n_heads: heads.n_heads, d_key: heads.d_key })
        };
        let shapes = self.generator.parameters().declared();
        TextModelAnswer {
            task: "language-model",
            name: self.name.clone(),
            stacks: sites.stacks().into_iter().map(stack).collect::<BTreeMap<_, _>>(),
            sites: sites.groups().iter().map(SiteJson::from).collect(),
            d_model: model.config().d_model(),
            vocab_size: model.vocab_size(),
            max_len: model.max_len(),
            parameters: shapes.map(|(_, _, shape)| shape.iter().product::<usize>()).sum(),
            max_generated: MAX_GENERATED,
            has_lens: model.has_residual_stream(),
            has_contributions: model.has_logit_sum(),
            limits: self.limits,
        }
    }

    /// The JSON of a text's trace: `{"trace"}`; `lines` receives `{"text", "tokens"}` while it is generated.
    pub(super) fn trace(
        &self,
        request: &TextRequest,
        lines: LineCallback<'_>,
        call: &mut Call,
    ) -> Result<String> {
        at_most(request.generate, MAX_GENERATED, "tokens to generate")?;
        let input = self.input(request)?;
        let length = self.length(&input)?;
        at_most(length, self.limits.tokens, "tokens")?;
        let longest = length + request.generate;
        let filter = self.filter(request, longest);
        call.reserve(self.pass_memory(longest, &filter) + predicted_memory(longest))?;
        let options = TextOptions {
            continuation: (request.generate > 0)
                .then_some(Continuation { max_new_tokens: request.generate, seed: request.seed }),
            filter,
            ..self.options(&request.intervention)?
        };
        let stop = call.stop.clone();
        let watcher: TextCallback<'_> = &|progress| match progress {
            _ if stop.is_over() => ControlFlow::Break(()),
            TextProgress::Generated(text, tokens) => {
                lines(format!("{}\n", object!({ "text": text, "tokens": tokens })))
            }
            TextProgress::Working => ControlFlow::Continue(()),
        };
        let trace = Trace::of_text(&self.generator, &input, &options, watcher)?;
        Ok(format!("{{\"trace\":{}}}", json(&trace, &Filter::default())))
    }

    /// The JSON of the logit lens at some positions.
    pub(super) fn lens(&self, request: &LensRequest, call: &mut Call) -> Result<String> {
        let LensRequest { ids, first, count, intervention } = request;
        at_most(*count, self.limits.whole, "positions")?;
        // What comes later changes nothing, but the token after the last position is looked up.
        let end = first.saturating_add(*count);
        let read = &ids[..ids.len().min(end.saturating_add(1))];
        let n_layers = self.layers() + 1;
        let memory = self.stream_memory(read.len()) + n_layers * predicted_memory(*count);
        let options =
            TextOptions { lens: LensPositions::Some(*first..end.min(ids.len())), ..self.part(intervention)? };
        let trace = self.traced(read, &options, memory, call)?;
        let found = trace.text().and_then(|text| Some(lens(text.lens.as_ref()?, text.lens_start)));
        Ok(object!(found).to_string())
    }

    /// The JSON of what the layers add to a logit.
    pub(super) fn contributions(&self, request: &ContributionsRequest, call: &mut Call) -> Result<String> {
        let ContributionsRequest { ids, position, token, intervention } = request;
        wire::check_index("position", *position, ids.len())?;
        let read = &ids[..ids.len().min(position + 2)];
        let memory = self.stream_memory(read.len());
        let options = TextOptions {
            contributions: vec![Target { position: Some(*position), token: *token }],
            ..self.part(intervention)?
        };
        let trace = self.traced(read, &options, memory, call)?;
        let found = trace.text().and_then(|text| Some(contributions(text.contributions.as_ref()?)));
        Ok(object!(found).to_string())
    }

    /// The JSON of one attention site.
    pub(super) fn attention(&self, request: &TextAttentionRequest, call: &mut Call) -> Result<String> {
        let trace = self.site(request, (self.limits.tokens, CaptureVectors::No), call)?;
        let Some(found) = trace.attentions.first() else { return Err(skipped()) };
        let weights: Vec<_> = found.weights.iter().collect();
        let size: usize = weights.iter().map(|own| own.numbers().len()).sum();
        let dtype = if size > MAX_F32 { PackedDtype::F16 } else { PackedDtype::F32 };
        Ok(packed::attention(found.site, &found.heads, &weights, dtype).to_string())
    }

    /// The JSON of one head's queries and keys.
    pub(super) fn neurons(&self, request: &TextAttentionRequest, call: &mut Call) -> Result<String> {
        let trace = self.site(request, (self.limits.neurons, CaptureVectors::Yes), call)?;
        let Some(found) = trace.vectors.first() else { return Err(skipped()) };
        Ok(packed::vectors(found, PackedDtype::F32).to_string())
    }

    /// A trace with one attention site.
    fn site(
        &self,
        request: &TextAttentionRequest,
        (limit, vectors): (usize, CaptureVectors),
        call: &mut Call,
    ) -> Result<Trace> {
        let TextAttentionRequest { ids, kind, layer, head, intervention } = request;
        let sites = self.generator.model().sites();
        let (site, group): (Site, _) = wire::site(kind, *layer, &sites)?;
        if let Some(head) = head {
            wire::check_index("head", *head, group.heads.n_heads)?;
        }
        at_most(ids.len(), limit, "tokens")?;
        let heads = head.map(|head| vec![head]);
        let filter =
            Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), heads, ..Filter::default() };
        let memory = self.pass_memory(ids.len(), &filter);
        let options = TextOptions { filter, vectors, ..self.part(intervention)? };
        self.traced(ids, &options, memory, call)
    }

    /// The trace of tokens within an estimated memory.
    fn traced(&self, ids: &[u32], options: &TextOptions, memory: usize, call: &mut Call) -> Result<Trace> {
        at_most(ids.len(), self.limits.tokens, "tokens")?;
        call.reserve(memory)?;
        let stop = call.stop.clone();
        let watcher: TextCallback<'_> =
            &|_| if stop.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        Ok(Trace::of_text(&self.generator, &TextInput::Ids(ids.to_vec()), options, watcher)?)
    }

    /// Options of a call for a part of a trace.
    fn part(&self, intervention: &InterventionRequest) -> Result<TextOptions> {
        Ok(TextOptions { without_predictions: true, ..self.options(intervention)? })
    }

    /// Options without attention.
    fn options(&self, intervention: &InterventionRequest) -> Result<TextOptions> {
        Ok(TextOptions {
            n_alternatives: N_ALTERNATIVES,
            filter: Filter { layers: Some(Vec::new()), ..Filter::default() },
            intervention: intervention.intervention(&self.generator.model().sites())?,
            ..TextOptions::default()
        })
    }

    fn input(&self, request: &TextRequest) -> Result<TextInput> {
        if !request.ids.is_empty() {
            return Ok(TextInput::Ids(request.ids.clone()));
        }
        at_most(request.text.chars().count(), self.limits.text, "characters")?;
        Ok(TextInput::Text(request.text.clone()))
    }

    fn length(&self, input: &TextInput) -> Result<usize> {
        Ok(match input {
            TextInput::Text(text) => self.generator.encode(text)?.len(),
            TextInput::Ids(ids) => ids.len(),
        })
    }

    /// The attention of a trace: all, or that of the last layer if the text is long.
    fn filter(&self, request: &TextRequest, length: usize) -> Filter {
        let layers = match self.layers().checked_sub(1) {
            _ if request.without_weights => Some(Vec::new()),
            Some(last) if length > self.limits.whole => Some(vec![last]),
            _ => None,
        };
        Filter { layers, ..Filter::default() }
    }

    /// Number of layers with attention.
    pub(super) fn layers(&self) -> usize {
        let sites = self.generator.model().sites();
        sites.groups().iter().map(|group| group.n_layers).max().unwrap_or(0)
    }

    /// Memory of a pass over `length` tokens that captures the attention of `filter`, in bytes.
    pub(super) fn pass_memory(&self, length: usize, filter: &Filter) -> usize {
        let model = self.generator.model();
        let captured = |group: &SiteGroup| {
            let all = |site: usize| filter.accepts(Site { kind: group.kind, layer: site });
            let heads = filter.heads.as_ref().map_or(group.heads.n_heads, Vec::len);
            (0..group.n_layers).filter(|layer| all(*layer)).count() * heads
        };
        let n_heads: usize = model.sites().groups().iter().map(captured).sum();
        let weights = n_heads * length * length * WEIGHT_MEMORY;
        // The states of the pass, and the K/V cache of generation.
        let width = model.config().d_model() * size_of::<f32>();
        let states = length * width * (STATES + 2 * self.layers());
        let logits = LOGIT_ROWS * model.vocab_size() * size_of::<f32>();
        weights + states + logits
    }

    /// Memory of a pass that keeps the residual stream.
    fn stream_memory(&self, length: usize) -> usize {
        let width = self.generator.model().config().d_model() * size_of::<f32>();
        // Each part and each sum, as captured and on the host.
        let stream = length * width * 2 * (3 * self.layers() + 2);
        self.pass_memory(length, &Filter { layers: Some(Vec::new()), ..Filter::default() })
            + predicted_memory(length)
            + stream
    }
}

/// Memory of the distributions at some positions.
fn predicted_memory(positions: usize) -> usize {
    positions * (N_ALTERNATIVES + 1) * PREDICTED_MEMORY
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use polyhead_engine::LoadOptions;

    use super::super::call::Stop;
    use super::*;
    use crate::Error;
    use crate::front::body::BodyLimits;
    use crate::front::budget::MemoryBudget;

    fn explorer() -> TextExplorer {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/gpt2");
        let generator = Generator::load(folder, &LoadOptions::default()).unwrap();
        TextExplorer::new(Arc::new(generator), "gpt2")
    }

    /// A call with this much memory and time.
    fn call(memory: usize, limit: Duration) -> Call {
        let reserve =
            |memory| Arc::new(MemoryBudget::new(memory)).reserve(&BodyLimits::default().client, 1).unwrap();
        Call { memory: reserve(memory), stop: Stop::new(limit), _place: reserve(9), turn: None }
    }

    fn answers(explorer: &TextExplorer, call: impl Fn() -> Call) -> [Result<String>; 4] {
        let ids = vec![5; 40];
        let none = InterventionRequest::default;
        let text = TextRequest { ids: ids.clone(), ..TextRequest::default() };
        let lens = LensRequest { ids: ids.clone(), first: 0, count: 40, intervention: none() };
        let contributions =
            ContributionsRequest { ids: ids.clone(), position: 39, token: None, intervention: none() };
        let kind = "decoder".to_owned();
        let attention = TextAttentionRequest { ids, kind, layer: 0, head: None, intervention: none() };
        let finished = |work: &dyn Fn(&mut Call) -> Result<String>| {
            let mut call = call();
            let found = work(&mut call);
            call.finish(found).map(|answer| String::from_utf8(answer.counted("").to_vec()).unwrap())
        };
        [
            finished(&|call| explorer.trace(&text, &|_| ControlFlow::Continue(()), call)),
            finished(&|call| explorer.lens(&lens, call)),
            finished(&|call| explorer.contributions(&contributions, call)),
            finished(&|call| explorer.attention(&attention, call)),
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
        for found in answers(&explorer, || call(1 << 30, Duration::from_secs(60))) {
            let estimate = explorer.stream_memory(40) + 3 * predicted_memory(40);
            assert!(found.unwrap().len() < estimate);
        }
    }
}
