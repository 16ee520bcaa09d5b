//! Words compared in their contexts, with any model that has states of tokens.

use std::ops::ControlFlow;

use polyhead_attention::Filter;
use polyhead_engine::LongTexts;
use polyhead_inspect::states::{CompareOptions, Comparison, StateReader, json};
use polyhead_inspect::trace::CaptureVectors;

use super::call::Call;
use super::inspect::at_most;
use super::{Explorer, TextExplorer};
use crate::wire::{CompareRequest, ExplorerLimits};
use crate::{Error, Result};

/// Most texts of a request.
const MAX_TEXTS: usize = 16;
/// Most words of a request.
const MAX_WORDS: usize = 8;
/// Bytes of memory for each token in each layer besides its vector: its place and its similarities, as numbers and as text.
const POINT_MEMORY: usize = 2000;

/// Model and memory of comparisons.
pub(super) struct Compared<'a> {
    pub(super) reader: StateReader<'a>,
    /// Number of layers.
    pub(super) layers: usize,
    /// Width of a state.
    pub(super) width: usize,
    /// Memory of a pass over this many tokens.
    pub(super) pass: &'a dyn Fn(usize) -> usize,
}

impl Compared<'_> {
    /// The JSON of a comparison.
    pub(super) fn answer(
        &self,
        request: &CompareRequest,
        limits: &ExplorerLimits,
        call: &mut Call,
    ) -> Result<String> {
        let CompareRequest { texts, words } = request;
        at_most(texts.len(), MAX_TEXTS, "texts")?;
        at_most(words.len(), MAX_WORDS, "words")?;
        let characters = texts.iter().chain(words).map(|text| text.chars().count()).sum();
        at_most(characters, limits.text, "characters")?;
        if texts.is_empty() || words.is_empty() {
            return Err(Error::request("no texts or no words, expected at least one of each", "add some"));
        }
        let [texts, words] = [texts, words].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
        let options = CompareOptions { long: LongTexts::Truncate, ..CompareOptions::default() };
        let mut refused = None;
        let mut is_reserved = false;
        let stop = call.stop.clone();
        let mut watch = |lengths: &[usize]| {
            if !is_reserved {
                is_reserved = true;
                refused = self.reserve(lengths, limits, call).err();
            }
            if refused.is_some() || stop.is_over() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let found = Comparison::new(self.reader, (&texts, &words), &options, &mut watch);
        match refused {
            Some(error) => Err(error),
            None => Ok(json(&found?, &words, CaptureVectors::No).to_string()),
        }
    }

    /// Reserves memory for texts of these lengths.
    fn reserve(&self, lengths: &[usize], limits: &ExplorerLimits, call: &mut Call) -> Result<()> {
        let tokens: usize = lengths.iter().sum();
        at_most(tokens, limits.neurons, "tokens")?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let layer = tokens * (self.width * 2 * size_of::<f32>() + POINT_MEMORY);
        // Principal components of a layer.
        let components = tokens * (tokens + self.width) * 2 * size_of::<f64>();
        call.reserve((self.pass)(longest) + (self.layers + 1) * layer + components)
    }
}

impl Explorer {
    /// The JSON of words compared in the encoder of a translator.
    pub(super) fn compare(&self, request: &CompareRequest, call: &mut Call) -> Result<String> {
        let model = self.engine().model();
        let compared = Compared {
            reader: StateReader::Translation(self.engine(), None, None),
            layers: model.sites().stacks().first().map_or(0, |group| group.n_layers),
            width: model.config().d_model(),
            pass: &|length| self.pass_memory([length, 1], 0),
        };
        compared.answer(request, &self.limits, call)
    }
}

impl TextExplorer {
    /// The JSON of words compared in a language model.
    pub(super) fn compare(&self, request: &CompareRequest, call: &mut Call) -> Result<String> {
        let model = self.generator.model();
        let compared = Compared {
            reader: StateReader::LanguageModel(&self.generator),
            layers: self.layers(),
            width: model.config().d_model(),
            pass: &|length| {
                self.pass_memory(length, &Filter { layers: Some(Vec::new()), ..Filter::default() })
            },
        };
        compared.answer(request, &self.limits, call)
    }
}
