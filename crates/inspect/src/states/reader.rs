//! Reads texts with any model that has states: an encoder, the encoder of a translator, or a language model.

use polyhead_attention::{Filter, Intervention};
use polyhead_engine::encoder::HeadedEncoder;
use polyhead_engine::{Generator, LongTexts};
use polyhead_models::Ids;
use polyhead_text::tokenizer::Encoding;
use polyhead_translate::Engine;

use super::States;
use crate::trace::{
    KeepActivations, ObserveOptions, captured_encoder_pass, captured_pass, captured_text_pass,
};
use crate::{Error, Result};

/// A model whose states are read.
#[derive(Debug, Clone, Copy)]
pub enum StateReader<'a> {
    /// An encoder.
    Encoder(&'a HeadedEncoder),
    /// The encoder of a translator, with the source and target language; `None` as in translation.
    Translation(&'a Engine, Option<&'a str>, Option<&'a str>),
    /// A language model, whose tokens attend to those before them only.
    LanguageModel(&'a Generator),
}

/// A text as a model reads it.
#[derive(Debug, Clone)]
pub(super) struct ReadText {
    /// The text, with the prompt of the folder if it has one.
    pub(super) text: String,
    pub(super) encoding: Encoding,
    /// Number of tokens before the end was cut off; `None` if nothing was.
    pub(super) cut_from: Option<usize>,
}

impl StateReader<'_> {
    /// The tokens of a text.
    pub(super) fn read(self, text: &str, long: LongTexts) -> Result<ReadText> {
        let whole = |encoding| ReadText { text: text.to_owned(), encoding, cut_from: None };
        Ok(match self {
            Self::Encoder(encoder) => {
                let (text, input) = encoder.read(text, long)?;
                ReadText { text, encoding: input.encoding, cut_from: input.cut_from }
            }
            Self::Translation(engine, from, to) => whole(engine.encode_source(text, from, to)?.0),
            Self::LanguageModel(generator) => {
                let mut read = whole(generator.encoding(text)?);
                let length = read.encoding.len();
                if let Some(most) = generator.model().max_len().filter(|most| length > *most) {
                    if long == LongTexts::Refuse {
                        let message =
                            format!("{length} tokens, expected at most {most}, the context of the model");
                        return Err(Error::request(
                            message,
                            "shorten the text, or add --truncate to cut off its end",
                        ));
                    }
                    read.encoding.keep(0..most);
                    read.cut_from = Some(length);
                }
                read
            }
        })
    }

    /// The states of tokens.
    ///
    /// # Errors
    /// If the model has none, or an id is outside the vocabulary.
    pub fn states(self, ids: &[u32], intervention: &Intervention) -> Result<States> {
        let options = ObserveOptions {
            filter: Filter { layers: Some(Vec::new()), ..Filter::default() },
            intervention: Some(intervention).filter(|changed| !changed.is_empty()),
            ..ObserveOptions::default()
        };
        let (sites, captured) = match self {
            Self::Encoder(encoder) => {
                let encoder = encoder.encoder();
                if !encoder.model().has_states() {
                    return Err(without_states());
                }
                (encoder.model().sites(), captured_encoder_pass(encoder, ids, &options)?.1)
            }
            Self::Translation(engine, ..) => {
                let (model, parameters) = (engine.model(), engine.parameters());
                let device = parameters.device();
                let start = [engine.generation().start_id];
                let on_device = |ids: Ids| ids.to_device(&device).map_err(polyhead_models::Error::from);
                let (source, target) =
                    (on_device(model.source_ids(&[ids]))?, on_device(model.ids(&[&start]))?);
                let pass = captured_pass(parameters, &options, KeepActivations::Yes, |pass| {
                    Ok(model.forward(pass, &source, &target)?)
                })?;
                (model.sites(), pass.1)
            }
            Self::LanguageModel(generator) => {
                let pass = captured_text_pass(generator, ids, &options, KeepActivations::Yes)?;
                (generator.model().sites(), pass.1)
            }
        };
        let stacks = sites.stacks();
        let group = stacks.first().ok_or_else(without_states)?;
        States::captured(&captured, group.kind.stack, group.n_layers)?.ok_or_else(without_states)
    }
}

fn without_states() -> Error {
    Error::request(
        "a model without vectors of tokens in context, expected a Transformer",
        "use an encoder, a translator or a language model; polyhead vectors compares words without context",
    )
}
