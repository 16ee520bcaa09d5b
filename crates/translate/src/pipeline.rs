//! The whole path of a text: detect → route → split → preserve → encode → search → repair → restore → join.
//!
//! A text is split, each sentence is translated by itself along the hops of its route ([`Engine::translate_sentences`]), and
//! the translations are joined again. [`Pipeline::run`] is one hop of many sentences at once; it splits and joins too, with
//! the same functions, since the translation of the first hop may have several sentences.

use rayon::prelude::*;

use crate::mask::Case;
use crate::options::{Evidence, Mode, TranslateOptions};
use crate::prepare::SentenceContext;
use crate::route::{Hop, RoutePlan, Router};
use crate::search::{DecoderInput, ForcedTokens, Search};
use crate::segment::{HopText, RoutedSentence, Segment, Sentence, Split, TextPlan};
use crate::translation::Translation;
use crate::{Engine, Result};

impl Engine {
    /// Translates texts; one translation per text, in order. An empty text stays empty.
    ///
    /// # Errors
    /// If the options are invalid for this model.
    pub fn translate(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<Translation>> {
        let plans = self.plan_texts(texts, options)?;
        let sentences: Vec<RoutedSentence> = plans.iter().flat_map(TextPlan::sentences).collect();
        let mut translated = self.translate_sentences(&sentences, options)?.into_iter();
        let joined = plans.iter().map(|plan| {
            let own: Vec<Translation> = translated.by_ref().take(plan.n_sentences()).collect();
            plan.join(&own)
        });
        Ok(joined.collect())
    }

    /// Detect → route → split: the routes and sentences of texts, in order.
    ///
    /// # Errors
    /// If the options are invalid for this model.
    pub fn plan_texts(&self, texts: &[&str], options: &TranslateOptions) -> Result<Vec<TextPlan>> {
        let options = &self.effective(options);
        let pipeline = Pipeline::new(self, options)?;
        let routes = self.route(texts, options)?;
        let plan = |(text, route): (&&str, RoutePlan<'_>)| {
            let plan = TextPlan::new(&pipeline, text, route);
            pipeline.check_constraints(text, &plan)?;
            Ok(plan)
        };
        texts.iter().zip(routes).map(plan).collect()
    }

    /// Detect → route: the hops of each text.
    pub(crate) fn route<'t>(
        &self,
        texts: &[&'t str],
        options: &TranslateOptions,
    ) -> Result<Vec<RoutePlan<'t>>> {
        let options = &self.effective(options);
        let router = Router::new(self.languages(), options)?;
        let requests: Vec<_> = texts.iter().map(|text| router.request(text)).collect();
        let detected = router.detect(&requests);
        requests.into_iter().zip(detected).map(|(request, detected)| router.plan(request, detected)).collect()
    }
}

impl Pipeline<'_> {
    /// One hop of many texts: (split → preserve → encode) → search → repair → (restore → join).
    pub(crate) fn run(&self, inputs: &[HopInput<'_>]) -> Result<Vec<Translation>> {
        let texts = inputs.par_iter().map(|input| self.prepare(*input));
        let mut texts = texts.collect::<Result<Vec<HopText<'_>>>>()?;
        loop {
            let segments = texts.iter_mut().flat_map(|text| &mut text.segments);
            let mut waiting: Vec<&mut Segment<'_>> =
                segments.filter(|segment| segment.is_waiting()).collect();
            self.search(&mut waiting)?;
            if !self.repair(&mut texts)? {
                break;
            }
        }
        texts.into_par_iter().map(|text| self.restore_and_join(text)).collect()
    }

    /// Split → preserve → encode: a text as the segments that the decoder reads.
    fn prepare<'t>(&self, input: HopInput<'t>) -> Result<HopText<'t>> {
        if self.options.mode == Mode::Raw {
            return self.encode_whole(input);
        }
        let hop = input.hop;
        let Split { lead, sentences } = self.split(input.text);
        let mut text = HopText::new(input.text, lead, hop);
        let (n_sentences, mut n_cut) = (sentences.len(), 0);
        let mut waiting: Vec<(Sentence<'t>, Case)> =
            sentences.into_iter().rev().map(|sentence| (sentence, Case::Detect)).collect();
        while let Some((sentence, case)) = waiting.pop() {
            let context = SentenceContext { hop, case };
            let preserved = self.preserve(sentence.text, context);
            if !self.has_text(sentence.text, &preserved, hop) {
                text.copy(self.copied(sentence, &preserved, context), &preserved);
                continue;
            }
            let masked = self.mask(sentence.text, &preserved, context);
            let case = Case::of(masked.as_ref());
            let parts = self.split_at_placeholders(sentence, masked.as_ref());
            if parts.len() > 1 {
                waiting.extend(parts.into_iter().rev().map(|part| (part, case)));
                continue;
            }
            let encoding = self.encode(sentence.text, masked.as_ref())?;
            let parts = self.split_by_length(sentence, masked.as_ref(), &encoding, hop);
            if parts.len() > 1 {
                n_cut += parts.len() - 1;
                waiting.extend(parts.into_iter().rev().map(|part| (part, case)));
                continue;
            }
            self.add_unknown(sentence.text, &encoding, &mut text.unknown);
            text.segments.push(Segment::new(sentence, masked, self.decoder_input(encoding, hop)?));
        }
        let inputs = text.segments.iter_mut().filter_map(|segment| segment.input.as_mut());
        let mut inputs: Vec<&mut DecoderInput> = inputs.collect();
        if !self.forced.constraints.is_empty() && inputs.len() != 1 {
            return Err(Self::not_one(input.text, inputs.len()));
        }
        // The prefix is the beginning of the first translation only.
        inputs.iter_mut().skip(usize::from(input.is_first)).for_each(|input| input.forced.prefix.clear());
        text.note_splits(n_sentences, n_cut);
        text.note_unknown();
        Ok(text)
    }
}

/// A text before one hop.
#[derive(Clone, Copy)]
pub(crate) struct HopInput<'t> {
    pub(crate) text: &'t str,
    pub(crate) hop: &'t Hop,
    /// True if its translation begins with the prefix of the options.
    pub(crate) is_first: bool,
}

/// The options of a request, checked against the model. The steps are its methods.
pub(crate) struct Pipeline<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) options: &'a TranslateOptions,
    pub(crate) search: Search,
    /// False as soon as the request is cancelled.
    pub(crate) is_wanted: &'a (dyn Fn() -> bool + Sync),
    /// The prefix and the lexical constraints of the options.
    pub(crate) forced: ForcedTokens,
    /// Maximum number of tokens in a sentence; longer ones are split.
    pub(crate) max_tokens: usize,
}

/// Sentences of more tokens are split even if the model can take them: few training sentences are longer.
const MAX_TOKENS: usize = 256;
/// Sentences of at most this many tokens are never split.
const MIN_TOKENS: usize = 8;

impl<'a> Pipeline<'a> {
    pub(crate) fn new(engine: &'a Engine, options: &'a TranslateOptions) -> Result<Self> {
        Self::while_wanted(engine, options, &|| true)
    }

    /// Like [`Pipeline::new`]; work ends with [`Error::Cancelled`](crate::Error::Cancelled) as soon as `is_wanted` returns false.
    pub(crate) fn while_wanted(
        engine: &'a Engine,
        options: &'a TranslateOptions,
        is_wanted: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Self> {
        if options.evidence == Evidence::Copies {
            engine.check_copies()?;
        }
        let search = Search::new(engine.generation(), options, engine.model.max_len())?;
        let forced = ForcedTokens::new(engine, options, &search)?;
        // Translations may be twice as long as their sources.
        let max_tokens = MAX_TOKENS.min(engine.model.max_len() / 2).max(MIN_TOKENS);
        Ok(Self { engine, options, search, is_wanted, forced, max_tokens })
    }
}
