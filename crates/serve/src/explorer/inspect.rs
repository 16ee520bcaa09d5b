//! Queries of the model: description, attention and neurons.

use polyhead_attention::{Filter, SiteGroup};
use polyhead_inspect::export::SiteJson;
use polyhead_inspect::trace::{CaptureVectors, ObserveOptions, Observed, observe};
use polyhead_translate::TranslateOptions;
use serde_json::json as object;

use super::Explorer;
use super::call::Call;
use crate::packed::{self, PackedDtype};
use crate::wire::{self, AttentionRequest, ModelAnswer, StackAnswer};
use crate::{Error, Result};

/// Maximum weights that are sent as f32; more are sent as f16.
pub(super) const MAX_F32: usize = 2_000_000;

impl Explorer {
    /// The description of the model.
    pub(super) fn model(&self) -> ModelAnswer {
        let model = self.engine().model();
        let sites = model.sites();
        let stack = |group: &SiteGroup| {
            let SiteGroup { kind, n_layers, heads } = *group;
            (kind.stack, StackAnswer { n_layers, n_heads: heads.n_heads, d_key: heads.d_key })
        };
        let shapes = self.engine().parameters().declared();
        let beam_size =
            self.engine().beam_options(&TranslateOptions::default()).map_or(1, |own| own.beam_size);
        ModelAnswer {
            name: self.loaded.name.clone(),
            stacks: sites.stacks().into_iter().map(stack).collect(),
            sites: sites.groups().iter().map(SiteJson::from).collect(),
            d_model: model.config().d_model(),
            vocab_size: model.vocab_sizes()[1],
            parameters: shapes.map(|(_, _, shape)| shape.iter().product::<usize>()).sum(),
            sources: self.sources(),
            languages: self.engine().languages().targets().iter().map(|own| own.code.clone()).collect(),
            beam_size,
            limits: self.limits,
        }
    }

    /// Source languages of the model, in the order of its directions.
    fn sources(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (from, _) in self.engine().languages().directions() {
            if !found.contains(from) {
                found.push(from.clone());
            }
        }
        found
    }

    /// A JSON line with the best hypothesis so far.
    pub(super) fn growth(&self, ids: &[u32]) -> String {
        // Ids that cannot be decoded yet may be complete with the next token.
        let text = self.engine().decode(ids).unwrap_or_default();
        format!("{}\n", object!({ "text": text, "tokens": ids.len() }))
    }

    /// The JSON of one attention site.
    pub(super) fn attention(&self, request: &AttentionRequest, call: &mut Call) -> Result<String> {
        let observed = self.observed(request, self.limits.tokens, CaptureVectors::No, call)?;
        let Some(found) = observed.attentions.first() else { return Err(skipped()) };
        let weights: Vec<_> = found.weights.iter().collect();
        let size: usize = weights.iter().map(|own| own.numbers().len()).sum();
        let dtype = if size > MAX_F32 { PackedDtype::F16 } else { PackedDtype::F32 };
        Ok(packed::attention(found.site, &found.heads, &weights, dtype).to_string())
    }

    /// The JSON of one head's queries and keys.
    pub(super) fn neurons(&self, request: &AttentionRequest, call: &mut Call) -> Result<String> {
        let observed = self.observed(request, self.limits.neurons, CaptureVectors::Yes, call)?;
        let Some(found) = observed.vectors.first() else { return Err(skipped()) };
        Ok(packed::vectors(found, PackedDtype::F32).to_string())
    }

    fn observed(
        &self,
        request: &AttentionRequest,
        limit: usize,
        vectors: CaptureVectors,
        call: &mut Call,
    ) -> Result<Observed> {
        let AttentionRequest { source, target, kind, layer, head, intervention } = request;
        let model = self.engine().model();
        let sites = model.sites();
        let (site, group) = wire::site(kind, *layer, &sites)?;
        if let Some(head) = head {
            wire::check_index("head", *head, group.heads.n_heads)?;
        }
        for (ids, vocab_size) in [source, target].into_iter().zip(model.vocab_sizes()) {
            at_most(ids.len(), limit, "tokens")?;
            if ids.is_empty() {
                let message = "no tokens, expected ids of a sentence and its translation";
                return Err(Error::request(message, "POST /api/trace returns them"));
            }
            for id in ids {
                wire::check_index("token", *id as usize, vocab_size)?;
            }
        }
        let n_heads = if head.is_some() { 1 } else { group.heads.n_heads };
        call.reserve(self.pass_memory([source.len(), target.len()], n_heads))?;
        let heads = head.map(|head| vec![head]);
        let filter =
            Filter { kind: Some(site.kind), layers: Some(vec![site.layer]), heads, ..Filter::default() };
        let intervention = intervention.intervention(&sites)?;
        let intervention = Some(&intervention).filter(|changed| !changed.is_empty());
        let options = ObserveOptions { filter, vectors, intervention };
        let start_id = self.engine().generation().start_id;
        Ok(observe(model, self.engine().parameters(), [source, target], start_id, &options)?)
    }
}

impl Explorer {
    /// Memory of a pass over source and target of these lengths that captures the weights of `n_heads` heads, in bytes.
    pub(super) fn pass_memory(&self, lengths: [usize; 2], n_heads: usize) -> usize {
        let model = self.engine().model();
        let longest = lengths[0].max(lengths[1]);
        let weights = n_heads * longest * longest * WEIGHT_MEMORY;
        // Logits of every position, and the log-probabilities that a trace needs.
        let logits = lengths[1] * model.vocab_sizes()[1] * 3 * size_of::<f32>();
        let states = (lengths[0] + lengths[1]) * model.config().d_model() * STATES * size_of::<f32>();
        weights + logits + states
    }

    /// Heads of all sites.
    pub(super) fn n_heads(&self) -> usize {
        let sites = self.engine().model().sites();
        sites.groups().iter().map(|group| group.n_layers * group.heads.n_heads).sum()
    }
}

/// Bytes of memory for each captured weight: as captured, as a matrix, as bytes, and as text three times.
pub(super) const WEIGHT_MEMORY: usize = 28;

/// Vectors of the model's width that a pass holds for each position.
pub(super) const STATES: usize = 32;

pub(super) fn at_most(found: usize, limit: usize, what: &str) -> Result<()> {
    if found <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { found: format!("{found} {what}"), limit: limit.to_string() })
}

pub(super) fn skipped() -> Error {
    let message = "this layer is skipped, so it has no attention";
    Error::request(message, "enable the layer again")
}
